//! Manifests whose every field knows where it stands. Reads files and standard input.

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Number, Value};
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// A manifest that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("cannot read {1}")]
    Read(#[source] io::Error, String),
    /// It is no YAML.
    #[error("{file}:{position}: this is no YAML: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// Where it ceases to be YAML.
        position: Position,
        /// Why.
        message: String,
    },
}

/// A place in a file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

impl Position {
    fn of(marker: &saphyr::Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name, as it was given; - is standard input.
    pub file: String,
    /// What it says.
    pub value: Value,
    /// Where each field and item stands, by JSON pointer.
    positions: BTreeMap<String, Position>,
}

impl Document {
    /// Where `pointer` stands, or the nearest field around it that is written.
    pub fn position(&self, pointer: &str) -> Position {
        let mut pointer = pointer;
        loop {
            if let Some(position) = self.positions.get(pointer) {
                return *position;
            }
            match pointer.rsplit_once('/') {
                Some((around, _)) => pointer = around,
                None => return Position { line: 1, column: 1 },
            }
        }
    }

    /// The text at `pointer`; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// What messages call it: its kind and name.
    pub fn title(&self) -> String {
        let name = [self.text("/metadata/name"), self.text("/metadata/generateName")];
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or("without a name");
        format!("{} {name}", self.text("/kind"))
    }

    /// Whether it is of one of the project's kinds, of whatever version.
    pub fn is_ours(&self) -> bool {
        let group = self.text("/apiVersion").split('/').next();
        group == Some(dragstrip_crds::GROUP)
    }
}

/// `key` as a part of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn of_scalar(scalar: &Scalar<'_>) -> Value {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(value) => Value::Bool(*value),
        Scalar::Integer(value) => Value::Number((*value).into()),
        Scalar::FloatingPoint(value) => Number::from_f64(**value).map_or(Value::Null, Value::Number),
        Scalar::String(text) => Value::String(text.clone().into_owned()),
    }
}

/// A key as JSON has it: always a text.
fn of_key(key: &MarkedYaml<'_>) -> String {
    match &key.data {
        YamlData::Value(scalar) => match of_scalar(scalar) {
            Value::String(text) => text,
            other => other.to_string(),
        },
        YamlData::Tagged(_, inner) => of_key(inner),
        _ => String::new(),
    }
}

/// The value of `node`; notes where it and all below it stands.
fn of_node(node: &MarkedYaml<'_>, pointer: &str, positions: &mut BTreeMap<String, Position>) -> Value {
    positions.entry(pointer.to_owned()).or_insert_with(|| Position::of(&node.span.start));
    match &node.data {
        YamlData::Value(scalar) => of_scalar(scalar),
        YamlData::Tagged(_, inner) => of_node(inner, pointer, positions),
        YamlData::Sequence(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| of_node(item, &format!("{pointer}/{index}"), positions)).collect()
        }
        YamlData::Mapping(fields) => {
            let mut object = Map::new();
            for (key, value) in fields {
                let name = of_key(key);
                let below = format!("{pointer}/{}", escaped(&name));
                positions.insert(below.clone(), Position::of(&key.span.start));
                object.insert(name, of_node(value, &below, positions));
            }
            Value::Object(object)
        }
        YamlData::Representation(text, ..) => Value::String(text.clone().into_owned()),
        YamlData::Alias(_) | YamlData::BadValue => Value::Null,
    }
}

/// The documents of `text`; those that say nothing are left out.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Error> {
    let nodes = MarkedYaml::load_from_str(text).map_err(|error| Error::Syntax {
        file: file.to_owned(),
        position: Position::of(error.marker()),
        message: error.info().to_owned(),
    })?;
    let documents = nodes.iter().map(|node| {
        let mut positions = BTreeMap::new();
        let value = of_node(node, "", &mut positions);
        Document { file: file.to_owned(), value, positions }
    });
    Ok(documents.filter(|document| !document.value.is_null()).collect())
}

fn text_of(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        return io::stdin().read_to_string(&mut text).map(|_| text);
    }
    fs::read_to_string(file)
}

/// The YAML files of `path`, which may be a directory: those in it, by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| Error::Read(error, path.display().to_string());
    let entries = fs::read_dir(path).map_err(failed)?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// All documents of `paths`: files, directories, or - for standard input.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for path in paths {
        for file in files_of(path)? {
            let name = file.display().to_string();
            let text = text_of(&file).map_err(|error| Error::Read(error, name.clone()))?;
            documents.extend(parse(&name, &text)?);
        }
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# first\nkind: A\nspec:\n  threads: 2\n  phases:\n  - name: write\n    ratio: \"1:0\"\n  - {name: read, warmup: 1.5}\n---\n---\nkind: B\nspec: {on: true, 7: ~}\n";

    #[test]
    fn every_field_knows_its_line_and_column() {
        let documents = parse("a.yaml", TWO).unwrap();
        assert_eq!(documents.len(), 2, "a document that says nothing is none");
        let at = |document: usize, pointer: &str| documents[document].position(pointer).to_string();
        assert_eq!(at(0, "/kind"), "2:1");
        assert_eq!(at(0, "/spec/threads"), "4:3");
        assert_eq!(at(0, "/spec/phases/0"), "6:5");
        assert_eq!(at(0, "/spec/phases/0/ratio"), "7:5");
        assert_eq!(at(0, "/spec/phases/1/warmup"), "8:18");
        assert_eq!(at(0, "/spec/phases/1/search/raise"), "8:5", "what is not there is where it would be");
        assert_eq!(at(1, "/spec/on"), "12:8");
    }

    #[test]
    fn values_are_those_that_kubernetes_would_read() {
        let documents = parse("a.yaml", TWO).unwrap();
        let phase = serde_json::json!({"name": "read", "warmup": 1.5});
        assert_eq!(documents[0].value.pointer("/spec/phases/1"), Some(&phase));
        assert_eq!(documents[1].value["spec"], serde_json::json!({"on": true, "7": null}));
    }

    #[test]
    fn anchors_are_what_they_stand_for() {
        let documents = parse("a.yaml", "a: &it {x: 1}\nb: *it\n").unwrap();
        assert_eq!(documents[0].value["b"], serde_json::json!({"x": 1}));
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_line() {
        let error = parse("a.yaml", "kind: A\nspec: [1, 2\n").unwrap_err().to_string();
        assert!(error.starts_with("a.yaml:"), "{error}");
        let twice = parse("a.yaml", "kind: A\nkind: B\n").unwrap_err().to_string();
        assert!(twice.starts_with("a.yaml:2:"), "{twice}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(&[PathBuf::from("/nowhere/run.yaml")]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/run.yaml");
    }
}

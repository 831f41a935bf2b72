//! Manifests whose every field knows where it stands. Reads files and standard input.

mod scalar;

use dragstrip_crds::near::near;
use saphyr::{MarkedYaml, ScalarStyle, YamlData, YamlLoader};
use saphyr_parser::Parser;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The kinds that there are.
pub const KINDS: [&str; 3] = ["Datastore", "BenchmarkRun", "BenchmarkSuite"];

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
    /// It is YAML that Kubernetes does not take.
    #[error("{file}:{position}: {message}")]
    Value {
        /// The file.
        file: String,
        /// Where.
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

    /// Its name, or what that begins with.
    pub fn name(&self) -> &str {
        let name = [self.text("/metadata/name"), self.text("/metadata/generateName")];
        name.into_iter().find(|name| !name.is_empty()).unwrap_or("without a name")
    }

    /// What messages call it: its kind and name.
    pub fn title(&self) -> String {
        let name = self.name();
        let kind = Some(self.text("/kind")).filter(|kind| !kind.is_empty()).unwrap_or("document");
        format!("{kind} {name}")
    }

    /// Whether it is meant as one of the project's kinds, of whatever version: another's group
    /// has a domain of its own.
    pub fn is_ours(&self) -> bool {
        let group = self.text("/apiVersion").split('/').next().unwrap_or_default();
        let known = KINDS.contains(&self.text("/kind")) && !group.contains('.');
        known || !near(group, [dragstrip_crds::GROUP]).is_empty()
    }

    /// The objects in a list, as `kubectl get --output yaml` writes several; of another document itself.
    fn unpacked(self) -> Vec<Self> {
        let items = self.value.get("items").and_then(Value::as_array);
        let Some(items) = items.filter(|_| self.text("/kind").ends_with("List")) else { return vec![self] };
        let item = |(index, value): (usize, &Value)| {
            let base = format!("/items/{index}");
            let within = |(pointer, position): (&String, &Position)| {
                let below = pointer.strip_prefix(&base)?;
                (below.is_empty() || below.starts_with('/')).then(|| (below.to_owned(), *position))
            };
            let positions = self.positions.iter().filter_map(within).collect();
            Self { file: self.file.clone(), value: value.clone(), positions }.unpacked()
        };
        items.iter().enumerate().flat_map(item).collect()
    }
}

/// `key` as a part of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Something that Kubernetes does not take, and where it stands.
struct Fault(Position, String);

impl Fault {
    fn at(node: &MarkedYaml<'_>, message: impl Into<String>) -> Self {
        Self(Position::of(&node.span.start), message.into())
    }
}

/// A key as JSON has it: always a text.
fn of_key(key: &MarkedYaml<'_>) -> Result<String, Fault> {
    match of_node(key, "", &mut BTreeMap::new())? {
        Value::String(text) => Ok(text),
        Value::Array(_) | Value::Object(_) => Err(Fault::at(key, "a field's name must be a text")),
        other => Ok(other.to_string()),
    }
}

fn is_merge(key: &MarkedYaml<'_>) -> bool {
    matches!(&key.data, YamlData::Representation(text, ScalarStyle::Plain, _) if text == "<<")
}

/// Puts the fields of `node`, or of each of its items, the first of which counts most, into `object`.
fn merge(
    node: &MarkedYaml<'_>,
    pointer: &str,
    positions: &mut BTreeMap<String, Position>,
    object: &mut Map<String, Value>,
) -> Result<(), Fault> {
    let sources = match &node.data {
        YamlData::Sequence(items) => items.iter().rev().collect(),
        _ => vec![node],
    };
    for source in sources {
        let Value::Object(fields) = of_node(source, pointer, positions)? else {
            return Err(Fault::at(
                source,
                "<< takes fields, or a list of such: name an anchor that has some",
            ));
        };
        object.extend(fields);
    }
    Ok(())
}

/// The fields of a mapping. Of what is merged and what is written the later counts, as in kubectl.
fn of_fields<'a>(
    fields: impl IntoIterator<Item = (&'a MarkedYaml<'a>, &'a MarkedYaml<'a>)>,
    pointer: &str,
    positions: &mut BTreeMap<String, Position>,
) -> Result<Value, Fault> {
    let (mut object, mut written) = (Map::new(), BTreeSet::new());
    for (key, value) in fields {
        if is_merge(key) {
            merge(value, pointer, positions, &mut object)?;
            continue;
        }
        let name = of_key(key)?;
        if !written.insert(name.clone()) {
            return Err(Fault::at(key, format!("{name} is written twice")));
        }
        let below = format!("{pointer}/{}", escaped(&name));
        positions.insert(below.clone(), Position::of(&key.span.start));
        object.insert(name, of_node(value, &below, positions)?);
    }
    Ok(Value::Object(object))
}

/// The value of `node`; notes where it and all below it stands.
fn of_node(
    node: &MarkedYaml<'_>,
    pointer: &str,
    positions: &mut BTreeMap<String, Position>,
) -> Result<Value, Fault> {
    positions.entry(pointer.to_owned()).or_insert_with(|| Position::of(&node.span.start));
    match &node.data {
        YamlData::Tagged(_, inner) => of_node(inner, pointer, positions),
        YamlData::Sequence(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| of_node(item, &format!("{pointer}/{index}"), positions)).collect()
        }
        YamlData::Mapping(fields) => of_fields(fields, pointer, positions),
        YamlData::Representation(text, style, tag) => scalar::value(text, *style, tag.as_deref())
            .map_err(|_| Fault::at(node, format!("{text} is no number that JSON knows"))),
        YamlData::Value(_) | YamlData::Alias(_) | YamlData::BadValue => Ok(Value::Null),
    }
}

/// The nodes of `text`, whose scalars are left as they are written.
fn nodes(text: &str) -> Result<Vec<MarkedYaml<'_>>, saphyr::ScanError> {
    let mut loader = YamlLoader::default();
    loader.early_parse(false);
    Parser::new_from_str(text).load(&mut loader, true)?;
    match loader.error() {
        Some(error) => Err(error.clone()),
        None => Ok(loader.into_documents()),
    }
}

/// The documents of `text`; those that say nothing are left out.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Error> {
    let file = file.to_owned();
    // Editors on Windows begin a file with it.
    let nodes = nodes(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(|error| Error::Syntax {
        file: file.clone(),
        position: Position::of(error.marker()),
        message: error.info().to_owned(),
    })?;
    let mut documents = Vec::new();
    for node in &nodes {
        let mut positions = BTreeMap::new();
        let value = of_node(node, "", &mut positions).map_err(|Fault(position, message)| Error::Value {
            file: file.clone(),
            position,
            message,
        })?;
        documents.extend(Document { file: file.clone(), value, positions }.unpacked());
    }
    documents.retain(|document| !document.value.is_null());
    Ok(documents)
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
        assert_eq!(at(1, "/spec/true"), "12:8", "on is true, as a name too");
    }

    #[test]
    fn values_are_those_that_kubernetes_would_read() {
        let documents = parse("a.yaml", TWO).unwrap();
        let phase = serde_json::json!({"name": "read", "warmup": 1.5});
        assert_eq!(documents[0].value.pointer("/spec/phases/1"), Some(&phase));
        assert_eq!(documents[1].value["spec"], serde_json::json!({"true": true, "7": null}));
    }

    #[test]
    fn a_mark_of_byte_order_is_no_part_of_the_first_field() {
        let documents = parse("a.yaml", "\u{feff}kind: A\n").unwrap();
        assert_eq!(documents[0].text("/kind"), "A");
        assert_eq!(documents[0].position("/kind").to_string(), "1:1");
    }

    #[test]
    fn merged_fields_are_those_that_kubectl_merges() {
        let text = "a: &a {k: theirs, l: 2}\nb: &b {k: b, m: 1}\nc:\n  k: mine\n  <<: [*a, *b]\n  m: own\n";
        let documents = parse("a.yaml", text).unwrap();
        assert_eq!(documents[0].value["c"], serde_json::json!({"k": "theirs", "l": 2, "m": "own"}));
        assert_eq!(documents[0].position("/c/m").to_string(), "6:3");
        let quoted = parse("a.yaml", "\"<<\": {x: 1}\n").unwrap();
        assert_eq!(quoted[0].value["<<"], serde_json::json!({"x": 1}), "a quoted name is a name");
        let wrong = parse("a.yaml", "a: 1\n<<: 7\n").unwrap_err().to_string();
        assert_eq!(wrong, "a.yaml:2:5: << takes fields, or a list of such: name an anchor that has some");
    }

    #[test]
    fn a_list_is_the_objects_in_it_with_their_lines() {
        let text = "kind: List\napiVersion: v1\nitems:\n- kind: A\n  spec: {x: 1}\n- kind: ThingList\n  items:\n  - kind: B\n---\nkind: List\nitems: []\n";
        let documents = parse("a.yaml", text).unwrap();
        let told: Vec<String> = documents
            .iter()
            .map(|document| format!("{} {}", document.text("/kind"), document.position("/kind")))
            .collect();
        assert_eq!(told, ["A 4:3", "B 8:5"]);
        assert_eq!(documents[0].position("/spec/x").to_string(), "5:10");
        assert_eq!(
            documents[0].position("/status").to_string(),
            "4:3",
            "what is not there is where it would be"
        );
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
        let quoted = parse("a.yaml", "kind: A\n\"kind\": B\n").unwrap_err().to_string();
        assert_eq!(quoted, "a.yaml:2:1: kind is written twice");
        let infinite = parse("a.yaml", "a: .inf\n").unwrap_err().to_string();
        assert_eq!(infinite, "a.yaml:1:4: .inf is no number that JSON knows");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(&[PathBuf::from("/nowhere/run.yaml")]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/run.yaml");
    }
}

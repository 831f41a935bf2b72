//! The documents of manifests. Reads files and standard input.

use dragstrip_crds::near::near;
use serde::Deserialize as _;
use serde_json::Value;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

pub const KINDS: [&str; 3] = ["Datastore", "BenchmarkRun", "BenchmarkSuite"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {1}")]
    Read(#[source] io::Error, String),
    #[error("{file}: not valid YAML{}", remedy(&source.to_string()))]
    Syntax { source: serde_yaml::Error, file: String },
    #[error("{1}: this YAML has no JSON form")]
    Json(#[source] serde_json::Error, String),
}

/// Words of the YAML library's messages, and what the author of a manifest most likely has to do.
const REMEDIES: [(&str, &str); 7] = [
    ("cannot start any token", "indent with spaces, not tabs, and quote a value that begins with @, ` or %"),
    (
        "mapping values are not allowed",
        "quote a value that contains a colon, and indent fields of one object alike",
    ),
    ("expected key", "indent fields of one object alike"),
    ("expected '-' indicator", "indent the items of one list alike, each after a hyphen"),
    ("expected ':'", "write a colon and a space after the field's name"),
    ("end of stream", "close the quotation mark"),
    ("expected ',' or", "close the bracket, and put commas between its items"),
];

/// What to do about a message of the YAML library; empty if it says so itself.
fn remedy(message: &str) -> String {
    let known = REMEDIES.iter().find(|(words, _)| message.contains(words));
    known.map(|(_, remedy)| format!(" ({remedy})")).unwrap_or_default()
}

#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name as given on the command line; - is standard input.
    pub file: String,
    pub value: Value,
}

impl Document {
    /// The text at `pointer`; empty if absent.
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its kind and name, for messages.
    pub fn title(&self) -> String {
        let or =
            |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        format!(
            "{} {}",
            or(self.text("/kind"), "document"),
            or(self.text("/metadata/name"), "without a name")
        )
    }

    /// Whether its author meant one of the project's kinds, in whatever version. A group with
    /// another domain belongs to another project.
    pub fn is_ours(&self) -> bool {
        let group = self.text("/apiVersion").split('/').next().unwrap_or_default();
        let kind = KINDS.contains(&self.text("/kind")) && !group.contains('.');
        kind || !near(group, [dragstrip_crds::GROUP]).is_empty()
    }
}

/// The documents of `text`, without empty ones.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Error> {
    let syntax = |source| Error::Syntax { source, file: file.to_owned() };
    let mut documents = Vec::new();
    // Editors on Windows begin a file with a byte order mark.
    for document in serde_yaml::Deserializer::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        // JSON values would silently take the last of two fields of one name.
        let mut value = serde_yaml::Value::deserialize(document).map_err(syntax)?;
        value.apply_merge().map_err(syntax)?;
        let value = serde_json::to_value(value).map_err(|error| Error::Json(error, file.to_owned()))?;
        documents.push(Document { file: file.to_owned(), value });
    }
    documents.retain(|document| !document.value.is_null());
    Ok(documents)
}

fn text_of(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        return io::read_to_string(io::stdin().by_ref());
    }
    fs::read_to_string(file)
}

/// `path`, or the YAML and JSON files of a directory, sorted by name.
fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json"));
    files.sort();
    Ok(files)
}

/// All documents of `paths`: files, directories, or - for standard input.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    let failed = |error, path: &Path| Error::Read(error, path.display().to_string());
    for path in paths {
        for file in files_of(path).map_err(|error| failed(error, path))? {
            let text = text_of(&file).map_err(|error| failed(error, &file))?;
            documents.extend(parse(&file.display().to_string(), &text)?);
        }
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::errors::chain;
    use serde_json::json;

    fn values(text: &str) -> Vec<Value> {
        parse("a.yaml", text).unwrap().into_iter().map(|document| document.value).collect()
    }

    #[test]
    fn values_are_those_of_the_file_and_empty_documents_are_left_out() {
        let text =
            "# first\nkind: A\nphases:\n- {name: read, warmup: 1.5}\n---\n---\nkind: B\nspec: {7: ~}\n";
        let expected = [
            json!({"kind": "A", "phases": [{"name": "read", "warmup": 1.5}]}),
            json!({"kind": "B", "spec": {"7": null}}),
        ];
        assert_eq!(values(text), expected);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_field() {
        assert_eq!(values("\u{feff}kind: A\n"), [json!({"kind": "A"})]);
    }

    #[test]
    fn anchors_and_merged_fields_are_resolved() {
        assert_eq!(values("a: &it {x: 1}\nb: *it\n")[0]["b"], json!({"x": 1}));
        let text = "a: &a {k: theirs, l: 2}\nb: &b {k: b, m: 1}\nc:\n  <<: [*a, *b]\n  m: own\n";
        assert_eq!(values(text)[0]["c"], json!({"k": "theirs", "l": 2, "m": "own"}));
        assert!(parse("a.yaml", "a: 1\n<<: 7\n").is_err(), "7 has no fields");
    }

    #[test]
    fn a_syntax_error_names_the_file_and_the_line() {
        for (text, words) in [
            ("kind: A\nkind: B\n", "duplicate entry with key \"kind\""),
            ("kind: A\n\"kind\": B\n", "duplicate entry with key \"kind\""),
        ] {
            let message = chain(&parse("a.yaml", text).unwrap_err());
            assert!(message.starts_with("a.yaml: not valid YAML: ") && message.contains(words), "{message}");
        }
    }

    #[test]
    fn a_syntax_error_says_what_to_do() {
        for (text, remedy, line) in [
            ("kind: A\nspec: [1, 2\n", "close the bracket", "line 3"),
            ("kind: A\nspec:\n\tphases: []\n", "indent with spaces, not tabs", "line 3"),
            ("kind: A\nimage: @redis\n", "quote a value that begins with @", "line 2"),
            ("kind: A\nnote: at noon: fast\n", "quote a value that contains a colon", "line 2"),
            ("spec:\n    a: 1\n  b: 2\n", "indent fields of one object alike", "line 3"),
            ("spec:\n- a\nb: 2\n- c\n", "indent fields of one object alike", "line 4"),
            ("spec:\n  - a\n  b: 2\n", "indent the items of one list alike", "line 3"),
            ("kind: A\nspec\n", "write a colon and a space", "line 3"),
            ("kind: \"A\nspec: 1\n", "close the quotation mark", "line 3"),
        ] {
            let message = chain(&parse("a.yaml", text).unwrap_err());
            assert!(message.starts_with("a.yaml: not valid YAML ("), "{text}: {message}");
            assert!(message.contains(remedy) && message.contains(line), "{text}: {message}");
        }
    }

    #[test]
    fn a_file_that_does_not_exist_is_named() {
        let error = read(&[PathBuf::from("/nowhere/run.yaml")]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/run.yaml");
    }
}

//! A short notation of specifications for tests: `path=value` words. A path whose first name is
//! no field of a specification lies within `loadgen`.

use serde_json::{Map, Value, json};

const FIELDS: [&str; 13] = [
    "server",
    "task",
    "warmup",
    "clients",
    "clientIndex",
    "startAtUnixNanos",
    "connectTimeout",
    "responseTimeout",
    "drain",
    "progressInterval",
    "progressDetail",
    "reportFile",
    "loadgen",
];

fn put(document: &mut Value, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *document = value;
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    put(&mut document[*name], rest, value);
}

fn assign(document: &mut Value, word: &str) {
    let (path, text) = word.split_once('=').unwrap_or_else(|| panic!("{word:?} is not path=value"));
    let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    put(document, &path.split('.').collect::<Vec<_>>(), value);
}

/// An operation such as `Mget keys=5` or `weight=2 command PING`.
pub(crate) fn operation(text: &str) -> Value {
    let mut document = json!({});
    let (words, command) = match text.split_once("command ") {
        Some((words, command)) => (words, Some(command)),
        None => (text, None),
    };
    if let Some(command) = command {
        document["command"] = command.into();
    }
    for word in words.split_whitespace() {
        if word.contains('=') { assign(&mut document, word) } else { document["operation"] = word.into() }
    }
    document
}

/// The document of a specification.
pub(crate) fn specification(words: &str, operations: &[&str]) -> Value {
    let mut document = json!({"server": {}, "loadgen": {}});
    for word in words.split_whitespace() {
        let first = word.split(['.', '=']).next().unwrap();
        if FIELDS.contains(&first) {
            assign(&mut document, word);
        } else {
            assign(&mut document["loadgen"], word);
        }
    }
    if !operations.is_empty() {
        document["loadgen"]["operations"] = operations.iter().map(|text| operation(text)).collect();
    }
    document
}

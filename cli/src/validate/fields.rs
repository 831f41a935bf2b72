//! Fields as people write them, such as `spec.phases[read].memtier.threads`, and where they
//! stand in a document. Pure.

use crate::manifest::{Document, escaped};
use serde_json::Value;

/// `pointer` as people write it: `spec.phases[0].name`.
pub fn dotted(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.chars().all(|character| character.is_ascii_digit()) {
            text = format!("{text}[{part}]");
        } else if text.is_empty() {
            text.push_str(&part);
        } else {
            text = format!("{text}.{part}");
        }
    }
    text
}

/// The names and places in a path, such as spec, phases, read, memtier.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']']).filter(|part| !part.is_empty())
}

/// One step from `value` along `part`: a field, or an item by its place or its name.
fn step<'a>(value: &'a Value, part: &str) -> Option<(String, &'a Value)> {
    match value {
        Value::Object(fields) => fields.get(part).map(|below| (escaped(part), below)),
        Value::Array(items) => {
            let named = || items.iter().position(|item| item["name"] == part);
            let place = part.parse().ok().or_else(named)?;
            items.get(place).map(|below| (place.to_string(), below))
        }
        _ => None,
    }
}

/// As far as `path` can be followed from `base`: the pointer, and how many steps it took.
fn follow(document: &Document, base: &str, path: &str) -> (String, usize) {
    let (mut pointer, mut steps) = (base.to_owned(), 0);
    let mut value = document.value.pointer(base);
    for part in parts(path) {
        let Some((name, below)) = value.and_then(|value| step(value, part)) else { break };
        pointer = format!("{pointer}/{name}");
        (value, steps) = (Some(below), steps + 1);
    }
    (pointer, steps)
}

/// The words of `message` that may be fields: spec.phases\[read\].name, timeout, load.keys.
fn words(message: &str) -> impl Iterator<Item = &str> {
    let of_a_path = |character: char| character.is_ascii_alphanumeric() || "._-[]".contains(character);
    message.split(move |character| !of_a_path(character)).map(|word| word.trim_matches('.'))
}

/// The pointer to what `message`, which is about `base` or something in it, names: the field
/// that can be followed farthest, of several the first; `base` where it names none.
pub fn named(document: &Document, base: &str, message: &str) -> String {
    let tops = dotted(base);
    let mut best = (base.to_owned(), 0);
    for word in words(message).filter(|word| word.len() > 2) {
        // A path may begin at the top, or where the message is about.
        let inner = word.strip_prefix(&tops).filter(|rest| rest.starts_with(['.', '[']));
        let of_run = ["/spec", "/spec/run"].contains(&base);
        let inner = inner.or_else(|| word.strip_prefix("spec.").filter(|_| of_run)).unwrap_or(word);
        let found = follow(document, base, inner);
        if found.1 > best.1 {
            best = found;
        }
    }
    best.0
}

/// The pointer that stands for `path`, such as spec.phases\[0\].memtier, as far as it is written.
pub fn pointer(document: &Document, path: &str) -> String {
    follow(document, "", path).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse;

    fn document() -> Document {
        let text = "metadata: {name: a}\nspec:\n  timeout: 1s\n  phases:\n  - name: write\n    memtier: {threads: 1}\n  - name: read\n    memtier: {testTime: 1.5s}\n";
        parse("a.yaml", text).unwrap().remove(0)
    }

    #[test]
    fn a_pointer_is_written_as_people_write_fields() {
        assert_eq!(dotted("/spec/phases/0/memtier"), "spec.phases[0].memtier");
        assert_eq!(dotted("/metadata/labels/a~1b"), "metadata.labels.a/b");
        assert_eq!(dotted(""), "");
    }

    #[test]
    fn what_a_message_names_is_found_by_place_and_by_name() {
        let document = document();
        let found = |message: &str| named(&document, "/spec", message);
        let message = "spec.phases[read].testTime is 1.5s: memtier measures whole seconds";
        assert_eq!(found(message), "/spec/phases/1");
        assert_eq!(found("spec.phases[read].memtier.testTime is 1.5s"), "/spec/phases/1/memtier/testTime");
        assert_eq!(found("timeout is 1s, shorter than the declared load"), "/spec/timeout");
        assert_eq!(found("nothing that is written"), "/spec");
        assert_eq!(named(&document, "", "metadata.name must be short"), "/metadata/name");
        assert_eq!(pointer(&document, "spec.phases[1].memtier"), "/spec/phases/1/memtier");
    }
}

//! What a message of a refusal must have: a field's name, few lines, and nothing that only a programmer
//! reads. Pure.

use std::collections::BTreeSet;

/// Most characters and lines of a message.
const MOST: (usize, usize) = (6000, 20);
/// Rust's and CEL's own words, which name no remedy.
const OF_PROGRAMMERS: [&str; 11] = [
    "Some(",
    "Err(",
    "Ok(",
    "ApiError",
    "ErrorResponse",
    "panicked",
    "no such key",
    "no such overload",
    "resulted in error",
    "evaluation error",
    "cost budget",
];
/// How serde begins a message, which has no path then.
const OF_SERDE: [&str; 6] = [
    "invalid type:",
    "invalid value:",
    "unknown variant",
    "unknown field",
    "missing field",
    "duplicate field",
];
/// Words that messages have anyway, so that they name no field.
const EVERYDAY: [&str; 9] = ["name", "value", "key", "from", "to", "run", "values", "order", "parts"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Whether `message` names one of `fields`.
pub fn names_a_field(message: &str, fields: &BTreeSet<String>) -> bool {
    let is_field = |word: &str| fields.contains(word) && !EVERYDAY.contains(&word);
    message.contains("spec.") || message.contains("metadata.") || words(message).any(is_field)
}

/// Whether serde's words stand in `message` without the path of a field in front of them.
fn has_no_path(message: &str, fields: &BTreeSet<String>) -> bool {
    // The API server's words about fields that a schema does not have.
    !message.contains("strict decoding error")
        && OF_SERDE.iter().any(|phrase| {
            message.find(phrase).is_some_and(|place| {
                let before = message[..place].rsplit(['\n', ';']).next().unwrap_or_default();
                !before.ends_with(": ") || !words(before).any(|word| fields.contains(word))
            })
        })
}

/// What is wrong with `message`, which need not name a field unless it refuses a spec.
pub fn fault(message: &str, refuses: bool, fields: &BTreeSet<String>) -> Option<String> {
    let (characters, lines) = (message.chars().count(), message.lines().count());
    if message.trim().is_empty() {
        return Some("the message is empty".to_owned());
    }
    if characters > MOST.0 || lines > MOST.1 {
        return Some(format!("the message has {characters} characters in {lines} lines"));
    }
    if let Some(word) = OF_PROGRAMMERS.iter().find(|word| message.contains(**word)) {
        return Some(format!("the message contains {word:?}"));
    }
    if has_no_path(message, fields) {
        return Some("the message is serde's, without the path of the field".to_owned());
    }
    (refuses && !names_a_field(message, fields)).then(|| "the message names no field".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_a_field_or_for_programmers_are_faults() {
        let fields = ["threads", "memtier", "name"].map(str::to_owned).into();
        let refusal = |message: &str| fault(message, true, &fields).unwrap_or_default();
        assert_eq!(refusal("spec.threads: Invalid value: 0: should be at least 1"), "");
        assert_eq!(refusal("phases[0]: memtier.pipeline: invalid type: string \"ten\", expected i32"), "");
        for (message, expected) in [
            ("", "is empty"),
            ("the name is wrong", "names no field"),
            ("threads: Some(4)", "contains"),
            ("invalid type: string \"ten\", expected i32", "without the path"),
            (&"threads ".repeat(1000), "characters"),
        ] {
            assert!(refusal(message).contains(expected), "{message:?}: {:?}", refusal(message));
        }
        assert_eq!(fault("the clients could not start", false, &fields), None);
    }
}

//! JSON as memtier writes it: keys occur twice (`--command-stats-breakdown=line`
//! writes two objects named `Sets`), and numbers may be `-nan` or `inf`.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use std::fmt;

/// Whole numbers beyond this (9 million million) come from no run; without them
/// sums over a series cannot overflow.
const LARGEST_COUNT: u64 = 1 << 43;

/// A JSON value with all members of an object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// A whole number that is not negative.
    Whole(u64),
    Number(f64),
    Text(String),
    /// An object: its members in the order of the file, equal keys included.
    Members(#[serde(deserialize_with = "members")] Vec<(String, Value)>),
    /// null, what memtier writes where it divided by zero, and what nothing here reads.
    Nothing(IgnoredAny),
}

impl Value {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(&without_bare_words(text))
    }

    /// The members of an object; none for anything else.
    pub(crate) fn members(&self) -> &[(String, Value)] {
        match self {
            Self::Members(members) => members,
            _ => &[],
        }
    }

    /// The first member with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The member with this name, where it is a count.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Self::Whole(number) => Some(*number).filter(|number| *number <= LARGEST_COUNT),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        std::iter::from_fn(|| entries.next_entry().transpose()).collect()
    }
}

fn members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Value)>, D::Error> {
    deserializer.deserialize_map(MembersVisitor)
}

/// Writes null for every nan and inf outside strings.
fn without_bare_words(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            string_length(rest)
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (piece, after) = rest.split_at(length);
        clean.push_str(if is_no_number(piece) { "null" } else { piece });
        rest = after;
    }
    clean
}

/// Length in bytes of the string that `text` starts with, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return position + 1,
            _ => {}
        }
    }
    text.len()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

fn is_no_number(word: &str) -> bool {
    let word = word.trim_start_matches(['-', '+']);
    ["nan", "inf", "infinity"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_of_two_equal_keys_stay_in_order() {
        let value = Value::parse(r#"{"Sets": {"Count": 1}, "Sets": {"Count": 2}}"#).unwrap();
        let counts: Vec<_> = value.members().iter().map(|(_, sets)| sets.whole("Count")).collect();
        assert_eq!(counts, [Some(1), Some(2)]);
    }

    #[test]
    fn words_for_numbers_read_as_nothing() {
        let value = Value::parse(r#"{"a": -nan, "b": [inf, -inf,nan], "c": "-nan", "d": -1.5}"#).unwrap();
        assert_eq!(value.get("a"), Some(&Value::Nothing(IgnoredAny)));
        assert_eq!(value.get("b"), Some(&Value::Nothing(IgnoredAny)), "a list of them is read too");
        assert_eq!(value.text("c"), Some("-nan"), "text must stay as it is");
        assert_eq!(value.number("d"), Some(-1.5));
    }

    #[test]
    fn a_number_of_181_digits_is_a_number() {
        let value = Value::parse(&format!(r#"{{"KB/sec TX": 4{}.00}}"#, "2".repeat(180))).unwrap();
        assert!(value.number("KB/sec TX").unwrap() > 4e180);
    }

    #[test]
    fn a_quote_within_a_string_does_not_end_it() {
        let value = Value::parse(r#"{"a": "x\" nan", "b": nan}"#).unwrap();
        assert_eq!(value.text("a"), Some("x\" nan"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC*") {
            let _ = Value::parse(&text);
        }

        #[test]
        fn json_without_bare_words_is_left_alone(text in "[a-z{}\\[\\]\",:0-9\\\\ é]*") {
            prop_assume!(!text.contains("nan") && !text.contains("inf"));
            prop_assert_eq!(without_bare_words(&text), text);
        }
    }
}

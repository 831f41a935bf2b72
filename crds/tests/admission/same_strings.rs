//! Admission and the types take the same strings, and every admitted spec is read.

use crate::schema;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunSpec, Datastore, DatastoreSpec,
    units::{Decimal, Memory, Period},
    workload::LoadSpec,
};
use proptest::{prelude::*, string::string_regex};
use schemars::JsonSchema;
use serde_json::{Value, json};
use std::str::FromStr;

/// Whether admission takes `text` for a `T`.
fn admitted(schema: &Value, text: &str) -> bool {
    let longest = schema["maxLength"].as_u64().unwrap();
    text.len() as u64 <= longest && schema::refusals(schema, &json!(text)).is_empty()
}

/// `text` with one character changed, taken away or added.
fn near_miss(text: &str, place: usize, change: usize) -> String {
    const ALPHABET: [char; 20] =
        ['0', '1', '9', '5', 'h', 'm', 's', 'k', 'K', 'M', 'G', 'T', 'i', '.', '-', '+', ' ', 'e', ',', 'µ'];
    let mut letters: Vec<char> = text.chars().collect();
    let place = place % (letters.len() + 1);
    let letter = ALPHABET[change / 3 % ALPHABET.len()];
    match change % 3 {
        0 if place < letters.len() => letters[place] = letter,
        1 if place < letters.len() => drop(letters.remove(place)),
        _ => letters.insert(place, letter),
    }
    letters.into_iter().collect()
}

/// Tries what the pattern of `T` generates and its near misses: both sides must agree.
fn agree<T: FromStr + JsonSchema>() {
    let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap();
    let pattern = schema::pattern(&schema).expect("the type has a pattern");
    let inputs = (string_regex(&pattern).unwrap(), any::<usize>(), any::<usize>());
    proptest!(ProptestConfig::with_cases(1000), |((text, place, change) in inputs)| {
        for text in [near_miss(&text, place, change), text] {
            let parsed = text.parse::<T>().is_ok();
            prop_assert_eq!(admitted(&schema, &text), parsed, "{:?}: read {}", text, parsed);
        }
    });
}

#[test]
fn durations_are_admitted_exactly_when_they_are_read() {
    agree::<Period>();
}

#[test]
fn memory_is_admitted_exactly_when_it_is_read() {
    agree::<Memory>();
}

#[test]
fn decimal_fractions_are_admitted_exactly_when_they_are_read() {
    agree::<Decimal>();
}

#[test]
fn what_once_passed_admission_and_could_not_be_read_is_refused() {
    let period = serde_json::to_value(schemars::schema_for!(Period)).unwrap();
    let memory = serde_json::to_value(schemars::schema_for!(Memory)).unwrap();
    for text in ["30s5m", "0s", "", "99999999999999999999s", "1.5h"] {
        assert!(!admitted(&period, text), "{text:?} was admitted as a duration");
    }
    for text in ["99999999999Ti", "512", "1023Ki", "1.5Gi", ""] {
        assert!(!admitted(&memory, text), "{text:?} was admitted as memory");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_admitted_datastore_is_read(spec in schema::any(&schema::spec::<Datastore>())) {
        let read: Result<DatastoreSpec, _> = serde_json::from_value(spec.clone());
        prop_assert!(read.is_ok(), "{}: {:?}", spec, read.err());
    }

    #[test]
    fn every_admitted_run_is_read(spec in schema::any(&schema::spec::<BenchmarkRun>())) {
        let read: Result<BenchmarkRunSpec, _> = serde_json::from_value(spec.clone());
        prop_assert!(read.is_ok(), "{}: {:?}", spec, read.err());
        let spec = read.unwrap();
        // What is computed from an admitted spec stays in range.
        let keys: u64 = spec.phases.iter().filter_map(|phase| phase.load.as_ref()).map(LoadSpec::keys).sum();
        prop_assert!(keys < 1 << 56 && spec.timeout.signed().as_hours() < 100_000, "{} keys", keys);
    }
}

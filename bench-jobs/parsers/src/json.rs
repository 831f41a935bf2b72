//! Any JSON document, of which the spec names the values by JSON pointers: what
//! vegeta, k6, ghz and other tools write. A value may be a number, or a text that
//! holds one (`"1.2ms"`); `null` is no value.

use crate::{
    notation::{Notation, NumberError},
    parsed::{Draft, Metric, Operation, Parsed, only_duration},
    time::{self, TimeError},
};
use dragstrip_crds::{
    units::Decimal,
    workload::{JsonMeaning, JsonParser, JsonValue, TimeUnit},
};
use serde_json::Value;

/// Counts beyond 2^53 are not exact in every JSON writer, and come from no run.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Why the document gave no result.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, or a part of it.
    #[error("the output is no JSON document, or is cut short")]
    Json(#[source] serde_json::Error),
    /// A value's options do not go together.
    #[error("the value at {pointer:?} has the meaning {meaning:?} and so needs {needed}")]
    Option {
        /// Where it stands.
        pointer: String,
        /// Its meaning.
        meaning: JsonMeaning,
        /// What is missing.
        needed: &'static str,
    },
    /// Two values mean the same.
    #[error("the values at {first:?} and {second:?} mean the same")]
    SameMeaning {
        /// Where one stands.
        first: String,
        /// Where the other does.
        second: String,
    },
    /// The document lacks a value.
    #[error("the document has no value at {pointer:?}; there is {found}")]
    NoValue {
        /// Where it should be.
        pointer: String,
        /// What is there instead.
        found: String,
    },
    /// A value is an object, a list or a truth.
    #[error("the value at {0:?} is no number")]
    Kind(String),
    /// A text holds no number.
    #[error("the value at {pointer:?}: {source}")]
    Number {
        /// Where it stands.
        pointer: String,
        /// What is wrong.
        source: NumberError,
    },
    /// A text holds no time.
    #[error("the value at {pointer:?}: {source}")]
    Time {
        /// Where it stands.
        pointer: String,
        /// What is wrong.
        source: TimeError,
    },
    /// A number cannot be what it should mean.
    #[error("the value at {pointer:?} is {value}, which is no {meaning:?}")]
    Range {
        /// Where it stands.
        pointer: String,
        /// The number.
        value: f64,
        /// What it should mean.
        meaning: JsonMeaning,
    },
}

/// Whether the options make sense by themselves.
pub fn check(options: &JsonParser) -> Result<(), JsonError> {
    for (position, value) in options.values.iter().enumerate() {
        let needed = match value.meaning {
            JsonMeaning::LatencyPercentile if value.percentile.is_none() => Some("percentile"),
            JsonMeaning::Metric if value.metric.is_none() => Some("metric"),
            JsonMeaning::Attempts if !options.values.iter().any(|other| counts(options, value, other)) => {
                Some("a value of the same operation with the meaning Count")
            }
            _ => None,
        };
        if let Some(needed) = needed {
            let (pointer, meaning) = (value.pointer.clone(), value.meaning);
            return Err(JsonError::Option { pointer, meaning, needed });
        }
        if let Some(twin) =
            options.values[..position].iter().find(|other| same_meaning(options, value, other))
        {
            let (first, second) = (twin.pointer.clone(), value.pointer.clone());
            return Err(JsonError::SameMeaning { first, second });
        }
    }
    Ok(())
}

/// Whether `other` counts the operations that succeeded of those that `one` tells of.
fn counts(options: &JsonParser, one: &JsonValue, other: &JsonValue) -> bool {
    other.meaning == JsonMeaning::Count && operation(options, one) == operation(options, other)
}

fn same_meaning(options: &JsonParser, one: &JsonValue, other: &JsonValue) -> bool {
    let of = |value: &JsonValue| value.percentile.as_ref().map(Decimal::value);
    // Attempts tell how many of them failed.
    let meaning = |value: &JsonValue| match value.meaning {
        JsonMeaning::Attempts => JsonMeaning::Errors,
        meaning => meaning,
    };
    meaning(one) == meaning(other)
        && operation(options, one) == operation(options, other)
        && of(one) == of(other)
        && one.metric == other.metric
}

fn operation<'a>(options: &'a JsonParser, value: &'a JsonValue) -> &'a str {
    value.operation.as_ref().unwrap_or(&options.operation)
}

/// Reads a document.
pub fn parse(options: &JsonParser, text: &str) -> Result<Parsed, JsonError> {
    check(options)?;
    let document: Value = serde_json::from_str(text).map_err(JsonError::Json)?;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut metrics = Vec::new();
    let mut attempts = Vec::new();
    for value in &options.values {
        let found = match document.pointer(&value.pointer) {
            None | Some(Value::Null) if value.required => return Err(missing(&document, &value.pointer)),
            None | Some(Value::Null) => continue,
            Some(found) => Found { value, found },
        };
        let name = operation(options, value);
        if value.meaning == JsonMeaning::Metric {
            metrics.push(found.metric(name)?);
            continue;
        }
        let position = drafts.iter().position(|draft| draft.operation.name == name).unwrap_or_else(|| {
            drafts.push(Draft { operation: Operation::named(name), latency: None });
            drafts.len() - 1
        });
        found.store(&mut drafts[position])?;
        if value.meaning == JsonMeaning::Attempts {
            attempts.push((position, found));
        }
    }
    for (position, found) in attempts {
        found.store_failed(&mut drafts[position].operation)?;
    }
    let operations: Vec<_> = drafts.into_iter().map(Draft::finish).collect();
    Ok(Parsed { seconds: only_duration(&operations), operations, metrics, ..Parsed::default() })
}

/// What stands at the deepest part of the pointer that there is.
fn missing(document: &Value, pointer: &str) -> JsonError {
    let mut parents = pointer.match_indices('/').rev().map(|(end, _)| &pointer[..end]);
    let deepest = parents.find_map(|path| Some((path, document.pointer(path)?)));
    let found = match deepest {
        Some((path, Value::Object(members))) => {
            let names: Vec<_> = members.keys().take(10).map(String::as_str).collect();
            format!("{} in {path:?}", if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
        }
        Some((path, Value::Array(elements))) => format!("a list of {} in {path:?}", elements.len()),
        Some((path, _)) => format!("a single value in {path:?}"),
        None => "nothing".to_owned(),
    };
    JsonError::NoValue { pointer: pointer.to_owned(), found: found.chars().take(300).collect() }
}

/// A value that is there.
struct Found<'a> {
    value: &'a JsonValue,
    found: &'a Value,
}

impl Found<'_> {
    /// Puts it where it belongs; twins were refused before.
    fn store(&self, draft: &mut Draft) -> Result<(), JsonError> {
        let operation = &mut draft.operation;
        match self.value.meaning {
            JsonMeaning::Count => operation.count = Some(self.count()?),
            JsonMeaning::Errors => operation.errors = Some(self.count()?),
            JsonMeaning::Hits => operation.hits = Some(self.count()?),
            JsonMeaning::Misses => operation.misses = Some(self.count()?),
            JsonMeaning::Bytes => operation.bytes = Some(self.count()?),
            JsonMeaning::OperationsPerSecond => operation.operations_per_second = Some(self.positive()?),
            JsonMeaning::Duration => operation.seconds = Some(self.time(TimeUnit::Seconds)?),
            JsonMeaning::Metric | JsonMeaning::Attempts => {}
            JsonMeaning::MeanLatency
            | JsonMeaning::MinimumLatency
            | JsonMeaning::MaximumLatency
            | JsonMeaning::LatencyPercentile => {
                let milliseconds = self.time(TimeUnit::Milliseconds)?;
                let latency = draft.latency.get_or_insert_default();
                match (self.value.meaning, &self.value.percentile) {
                    (JsonMeaning::MeanLatency, _) => latency.mean = Some(milliseconds),
                    (JsonMeaning::MinimumLatency, _) => latency.minimum = Some(milliseconds),
                    (JsonMeaning::LatencyPercentile, Some(percentile)) => {
                        latency.add_percentile(percentile.value(), milliseconds);
                    }
                    _ => latency.maximum = Some(milliseconds),
                }
            }
        }
        Ok(())
    }

    /// What is missing of the attempts failed. No count at all: none succeeded.
    fn store_failed(&self, operation: &mut Operation) -> Result<(), JsonError> {
        let attempts = self.count()?;
        let succeeded = *operation.count.get_or_insert(0);
        let failed = attempts.checked_sub(succeeded).ok_or_else(|| self.range(attempts as f64))?;
        operation.errors = Some(failed);
        Ok(())
    }

    fn metric(&self, operation: &str) -> Result<Metric, JsonError> {
        Ok(Metric {
            operation: Some(operation.to_owned()),
            name: self.value.metric.clone().unwrap_or_default(),
            value: self.number()?,
            unit: None,
            samples: Vec::new(),
            merge: self.value.merge,
        })
    }

    fn pointer(&self) -> String {
        self.value.pointer.clone()
    }

    fn number(&self) -> Result<f64, JsonError> {
        match self.found {
            Value::Number(number) => number.as_f64().ok_or_else(|| JsonError::Kind(self.pointer())),
            Value::String(text) => Notation::PLAIN
                .number(text.trim())
                .map_err(|source| JsonError::Number { pointer: self.pointer(), source }),
            _ => Err(JsonError::Kind(self.pointer())),
        }
    }

    fn positive(&self) -> Result<f64, JsonError> {
        let value = self.number()?;
        if value >= 0.0 { Ok(value) } else { Err(self.range(value)) }
    }

    /// Tools write counts as floating-point numbers too.
    // Checked to be whole and at most 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn count(&self) -> Result<u64, JsonError> {
        let value = self.positive()?;
        if value.fract() == 0.0 && value <= LARGEST_COUNT { Ok(value as u64) } else { Err(self.range(value)) }
    }

    fn time(&self, target: TimeUnit) -> Result<f64, JsonError> {
        match self.found {
            Value::String(text) => time::read(text, Notation::PLAIN, self.value.unit, target)
                .map_err(|source| JsonError::Time { pointer: self.pointer(), source }),
            _ => Ok(time::convert(self.positive()?, self.value.unit, target)),
        }
    }

    fn range(&self, value: f64) -> JsonError {
        JsonError::Range { pointer: self.pointer(), value, meaning: self.value.meaning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(values: &Value) -> JsonParser {
        serde_json::from_value(json!({"operation": "GET", "values": values})).unwrap()
    }

    fn read(values: &Value, document: &Value) -> Result<Parsed, String> {
        parse(&options(values), &document.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_get_the_meaning_that_is_declared() {
        let parsed = read(
            &json!([
                {"pointer": "/requests", "meaning": "Count"},
                {"pointer": "/lat/0/p99", "meaning": "LatencyPercentile", "percentile": "99", "unit": "Nanoseconds"},
                {"pointer": "/lat/0/a~1b", "meaning": "MeanLatency"},
                {"pointer": "/rss", "meaning": "Metric", "metric": "memory", "merge": "Maximum"},
                {"pointer": "/put/n", "meaning": "Count", "operation": "PUT"},
                {"pointer": "/none", "meaning": "Errors", "required": false},
            ]),
            &json!({"requests": 5.0, "lat": [{"p99": 2_500_000, "a/b": "950µs"}], "rss": 7.5, "put": {"n": "12"},
                "none": null}),
        )
        .unwrap();
        let [get, put] = parsed.operations.as_slice() else { panic!("{parsed:?}") };
        assert_eq!((get.count, put.count, get.errors), (Some(5), Some(12), None));
        let Some(crate::parsed::LatencyReport::Printed(latency)) = &get.latency else { panic!("{get:?}") };
        assert_eq!((latency.mean, latency.percentiles[0].milliseconds), (Some(0.95), 2.5));
        assert_eq!(
            (parsed.metrics[0].name.as_str(), parsed.metrics[0].value.to_string()),
            ("memory", "7.5".into())
        );
        assert!(!parsed.together, "whether they ran together is not known");
    }

    #[test]
    fn attempts_that_did_not_succeed_are_errors() {
        let values = json!([
            {"pointer": "/requests", "meaning": "Attempts"},
            {"pointer": "/status_codes/200", "meaning": "Count", "required": false},
        ]);
        let counts = |codes: Value| {
            let parsed = read(&values, &json!({"requests": 10, "status_codes": codes}))?;
            Ok((parsed.operations[0].count, parsed.operations[0].errors))
        };
        assert_eq!(counts(json!({"200": 10})), Ok((Some(10), Some(0))));
        assert_eq!(counts(json!({"200": 7, "500": 3})), Ok((Some(7), Some(3))));
        assert_eq!(counts(json!({"0": 10})), Ok((Some(0), Some(10))), "nothing succeeded");
        let told: Result<_, String> = counts(json!({"200": 11}));
        assert!(told.unwrap_err().contains("no Attempts"), "more succeeded than were tried");
    }

    #[test]
    fn a_missing_value_is_told_with_what_is_there() {
        let values = json!([{"pointer": "/latencies/p99", "meaning": "MeanLatency"}]);
        let told = read(&values, &json!({"latencies": {"mean": 1, "99th": 2}})).unwrap_err();
        assert!(told.contains(r#"at "/latencies/p99"; there is 99th, mean in "/latencies""#), "{told}");
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused() {
        for (meaning, value) in [
            ("Count", json!(1.5)),
            ("Count", json!(-1)),
            ("Count", json!(1e300)),
            ("Count", json!("many")),
            ("OperationsPerSecond", json!(-0.5)),
            ("MeanLatency", json!(-1)),
            ("MeanLatency", json!("1.2 lightyears")),
            ("Count", json!(true)),
            ("Count", json!([1])),
        ] {
            let values = json!([{"pointer": "/x", "meaning": meaning}]);
            assert!(read(&values, &json!({"x": value})).is_err(), "{meaning} {value} was read");
        }
        assert!(parse(&options(&json!([])), "{\"x\": 1").is_err(), "half a document");
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let twice = json!([{"pointer": "/a", "meaning": "Count"}, {"pointer": "/b", "meaning": "Count", "operation": "GET"}]);
        assert!(matches!(check(&options(&twice)), Err(JsonError::SameMeaning { .. })));
        let both = json!([{"pointer": "/a", "meaning": "Count"}, {"pointer": "/b", "meaning": "Errors"},
            {"pointer": "/c", "meaning": "Attempts"}]);
        assert!(matches!(check(&options(&both)), Err(JsonError::SameMeaning { .. })));
        let alone = json!([{"pointer": "/a", "meaning": "Attempts"}]);
        assert!(matches!(check(&options(&alone)), Err(JsonError::Option { .. })));
        let nameless = json!([{"pointer": "/a", "meaning": "Metric"}]);
        assert!(matches!(check(&options(&nameless)), Err(JsonError::Option { needed: "metric", .. })));
    }
}

//! Any JSON document whose values the manifest names by JSON pointers: what vegeta, k6, ghz and
//! other tools write. A value is a number, or a text that holds one (`"1.2ms"`); `null` is not a value.

use crate::{
    figures::{Draft, Field, Figure, FigureError, finish, position},
    notation::Notation,
    parsed::{Parsed, metric_name},
};
use dragstrip_crds::{
    measured::Metric,
    units::Decimal,
    workload::{JsonMeaning, JsonParser, JsonValue},
};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("the output is not a JSON document, or is cut short")]
    Json(#[source] serde_json::Error),
    #[error(
        "the value at {0:?} has the meaning Attempts, which needs a value of the same operation with the meaning Count"
    )]
    NoCount(String),
    #[error("the values at {first:?} and {second:?} mean the same")]
    SameMeaning { first: String, second: String },
    #[error("the document has no value at {pointer:?}; there is {found}")]
    NoValue { pointer: String, found: String },
    #[error("the value at {0:?} is not a number")]
    Kind(String),
    #[error("the value at {pointer:?}: {source}")]
    Figure { pointer: String, source: FigureError },
    #[error("the value at {pointer:?} counts {attempts} attempts, but {succeeded} operations succeeded")]
    Attempts { pointer: String, attempts: u64, succeeded: u64 },
}

/// Checks that the options make sense by themselves.
pub fn check(options: &JsonParser) -> Result<(), JsonError> {
    for (position, value) in options.values.iter().enumerate() {
        let counts = |other: &JsonValue| {
            other.meaning == JsonMeaning::Count && operation(options, value) == operation(options, other)
        };
        if value.meaning == JsonMeaning::Attempts && !options.values.iter().any(counts) {
            return Err(JsonError::NoCount(value.pointer.clone()));
        }
        let before = &options.values[..position];
        if let Some(twin) = before.iter().find(|other| same_meaning(options, value, other)) {
            let (first, second) = (twin.pointer.clone(), value.pointer.clone());
            return Err(JsonError::SameMeaning { first, second });
        }
    }
    Ok(())
}

fn same_meaning(options: &JsonParser, one: &JsonValue, other: &JsonValue) -> bool {
    // Attempts give the number of errors.
    let meaning = |value: &JsonValue| match value.meaning {
        JsonMeaning::Attempts => JsonMeaning::Errors,
        meaning => meaning,
    };
    meaning(one) == meaning(other)
        && operation(options, one) == operation(options, other)
        && percent(one) == percent(other)
        && one.metric == other.metric
}

fn percent(value: &JsonValue) -> Option<f64> {
    value.percentile.as_ref().map(Decimal::value)
}

fn operation<'a>(options: &'a JsonParser, value: &'a JsonValue) -> &'a str {
    value.operation.as_ref().unwrap_or(&options.operation)
}

/// The field of the operation that a value fills; `None` if it fills none directly.
fn field(value: &JsonValue) -> Option<Field> {
    Some(match value.meaning {
        JsonMeaning::Count => Field::Count,
        JsonMeaning::OperationsPerSecond => Field::OperationsPerSecond,
        JsonMeaning::Errors => Field::Errors,
        JsonMeaning::Hits => Field::Hits,
        JsonMeaning::Misses => Field::Misses,
        JsonMeaning::Bytes => Field::Bytes,
        JsonMeaning::Duration => Field::Seconds,
        JsonMeaning::MeanLatency => Field::MeanLatency,
        JsonMeaning::MaximumLatency => Field::MaximumLatency,
        JsonMeaning::LatencyPercentile => Field::Percentile(percent(value)?),
        JsonMeaning::Attempts | JsonMeaning::Metric => return None,
    })
}

pub fn parse(options: &JsonParser, text: &str) -> Result<Parsed, JsonError> {
    check(options)?;
    let document: Value = serde_json::from_str(text).map_err(JsonError::Json)?;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut metrics = Vec::new();
    let mut attempts = Vec::new();
    for value in &options.values {
        let text = match document.pointer(&value.pointer) {
            None | Some(Value::Null) if value.required => return Err(missing(&document, &value.pointer)),
            None | Some(Value::Null) => continue,
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => return Err(JsonError::Kind(value.pointer.clone())),
        };
        let failed = |source| JsonError::Figure { pointer: value.pointer.clone(), source };
        let figure = Figure { text: &text, notation: Notation::PLAIN, unit: value.unit };
        let name = operation(options, value);
        if value.meaning == JsonMeaning::Metric {
            let number = figure.notation.number(&text).map_err(|error| failed(error.into()))?;
            metrics.push(metric(name, value, number));
            continue;
        }
        let position = position(&mut drafts, name);
        match field(value) {
            Some(field) => _ = drafts[position].store(field, &figure).map_err(failed)?,
            None => attempts.push((position, value, figure.count().map_err(failed)?)),
        }
    }
    for (position, value, attempts) in attempts {
        count_errors(&mut drafts[position], value, attempts)?;
    }
    let (operations, seconds) = finish(drafts);
    Ok(Parsed { operations, metrics, seconds, ..Parsed::default() })
}

fn metric(operation: &str, value: &JsonValue, number: f64) -> Metric {
    Metric {
        name: metric_name(Some(operation), value.metric.as_deref().unwrap_or_default()),
        value: number,
        unit: value.metric_unit.clone(),
        merge: value.merge,
        more_is_better: value.more_is_better,
    }
}

/// Attempts that are missing from the count failed. Without a count none succeeded.
fn count_errors(draft: &mut Draft, value: &JsonValue, attempts: u64) -> Result<(), JsonError> {
    let succeeded = draft.operation.count;
    let failed = attempts.checked_sub(succeeded);
    let pointer = value.pointer.clone();
    draft.operation.errors = failed.ok_or(JsonError::Attempts { pointer, attempts, succeeded })?;
    draft.filled.push(Field::Count);
    Ok(())
}

/// What stands at the deepest part of the pointer that exists.
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
        assert_eq!((get.count, put.count, get.errors), (5, 12, 0));
        let latency = get.latency_milliseconds;
        assert_eq!((latency.mean, latency.p99), (Some(0.95), Some(2.5)));
        assert_eq!(
            (parsed.metrics[0].name.as_str(), parsed.metrics[0].value.to_string()),
            ("GET memory", "7.5".into())
        );
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
        assert_eq!(counts(json!({"200": 10})), Ok((10, 0)));
        assert_eq!(counts(json!({"200": 7, "500": 3})), Ok((7, 3)));
        assert_eq!(counts(json!({"0": 10})), Ok((0, 10)), "nothing succeeded");
        let more: Result<_, String> = counts(json!({"200": 11}));
        assert!(more.unwrap_err().contains("10 attempts, but 11"), "more succeeded than were tried");
    }

    #[test]
    fn a_missing_value_is_an_error_with_what_is_there() {
        let values = json!([{"pointer": "/latencies/p99", "meaning": "MeanLatency"}]);
        let error = read(&values, &json!({"latencies": {"mean": 1, "99th": 2}})).unwrap_err();
        assert!(error.contains(r#"at "/latencies/p99"; there is 99th, mean in "/latencies""#), "{error}");
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
        assert!(matches!(check(&options(&alone)), Err(JsonError::NoCount(_))));
    }
}

//! The result format: what is read, and what is refused.

use super::*;
use serde_json::{Value, json};

/// Latencies of 1, 2 and 3 µs.
fn histogram() -> EncodedHistogram {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    (1..=3).for_each(|value| histogram.record(value).unwrap());
    Latencies::from_microseconds(histogram).encode().unwrap()
}

fn document() -> Value {
    json!({
        "schemaVersion": 1,
        "tool": {"name": "mybench", "version": "0.3"},
        "window": {"seconds": 2.0, "startUnixNanos": 1_790_000_000_123_456_789_i64},
        "operations": [
            {"operation": "GET", "count": 3, "errors": 1, "hits": 2, "misses": 1, "histogram": histogram()},
            {"operation": "SET", "count": 10, "latencyMilliseconds":
                {"mean": 0.5, "p50": 0.4, "p99": 2.0}}
        ],
        "errors": {"OOM": 1},
        "perSecond": [6, 7],
        "metrics": [{"name": "ram", "value": 5.5, "unit": "MiB", "merge": "Maximum"}]
    })
}

fn read(document: &Value) -> Result<Parsed, ResultError> {
    parse(&document.to_string())
}

#[test]
fn everything_a_document_says_is_read() {
    let parsed = read(&document()).unwrap();
    assert_eq!((parsed.seconds, parsed.start_unix_nanos), (Some(2.0), Some(1_790_000_000_123_456_789)));
    let get = &parsed.operations[0];
    assert_eq!((get.count, get.hits, get.errors, get.tool_operations_per_second), (3, Some(2), 1, Some(1.5)));
    assert_eq!(get.operations_per_second, None, "both share the window");
    let exact = get.latency_milliseconds;
    assert!((exact.max.unwrap() - 0.003).abs() < 1e-9 && get.histogram.is_some(), "{exact:?}");
    let printed =
        LatencySummary { mean: Some(0.5), p50: Some(0.4), p99: Some(2.0), ..LatencySummary::default() };
    assert_eq!(parsed.operations[1].latency_milliseconds, printed);
    assert_eq!((parsed.per_second.clone(), parsed.errors["OOM"]), (vec![6, 7], 1));
    assert_eq!(parsed.metrics[0].merge, Merge::Maximum);
}

#[test]
fn what_contradicts_itself_is_refused_with_the_field() {
    let change = |pointer: &str, value: Value| {
        let mut changed = document();
        *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        changed
    };
    for (wrong, words) in [
        (change("/schemaVersion", json!(2)), "schemaVersion"),
        (change("/operations/0/count", json!(4)), "histogram"),
        (change("/operations/0/misses", json!(2)), "hits"),
        (change("/operations/0/operation", json!("SET")), "twice"),
        (change("/operations/1/latencyMilliseconds/mean", json!(-1)), "latencyMilliseconds"),
        (change("/operations/1/latencyMilliseconds/p99", json!(-1)), "latencyMilliseconds"),
        (change("/operations/1/count", json!(1_u64 << 60)), "count"),
        (change("/window/seconds", json!(-2)), "seconds"),
        (change("/perSecond", json!([u64::MAX])), "perSecond"),
        (change("/operations/0/histogram", json!("HISTF")), "histogram"),
    ] {
        let message = read(&wrong).unwrap_err().to_string();
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn an_unknown_field_is_an_error() {
    let mut misspelt = document();
    misspelt["operations"][0]["mises"] = json!(1);
    assert!(matches!(read(&misspelt), Err(ResultError::Json(_))));
}

#[test]
fn a_document_that_was_cut_is_an_error() {
    let text = document().to_string();
    for end in 0..text.len() {
        assert!(text.get(..end).is_none_or(|cut| parse(cut).is_err()), "read after {end} bytes");
    }
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result.schema.json");
    let committed = std::fs::read_to_string(committed).unwrap();
    let generated = serde_json::to_string_pretty(&schema()).unwrap();
    assert_eq!(committed.trim_end(), generated, "docs/result.schema.json is stale: run make generate");
}

#[test]
fn more_than_the_schema_allows_is_refused_before_it_is_decoded() {
    let rows = |row: fn(usize) -> Value| (0..1001).map(row).collect::<Value>();
    let metric = |index: usize| json!({"name": format!("m{index}"), "value": 1.0});
    let operation = |index: usize| json!({"operation": format!("o{index}"), "count": 0});
    for (pointer, value, words) in [
        ("/operations", rows(operation), "operations of the result has the size 1001, at most 1000"),
        ("/metrics", rows(metric), "metrics of the result has the size 1001, at most 1000"),
        ("/operations/0/operation", json!("x".repeat(129)), "operation of operation 0 has the size 129"),
        ("/metrics/0/name", json!("x".repeat(64)), "name of metric 0 has the size 64"),
        ("/metrics/0/unit", json!("x".repeat(33)), "unit of metric 0 has the size 33"),
        ("/tool/name", json!("x".repeat(129)), "tool of the result has the size 129"),
    ] {
        let mut changed = document();
        *changed.pointer_mut(pointer).unwrap() = value;
        let refused = read(&changed).unwrap_err().to_string();
        assert!(refused.contains(words), "{pointer}: {refused}");
    }
}

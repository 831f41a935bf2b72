//! The parsers of tool output.

use crate::{cuts, examples};
use dragstrip_crds::{measured::LatencySummary, workload::ParserSpec};
use dragstrip_parsers::{Capture, Outputs, ParseError, Parsed, check, parse};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The file that specs of this module name.
const FILE: &str = "result";

/// Patterns that people use; the seeds are in the same order.
static REGEX_EXAMPLES: LazyLock<[ParserSpec; 5]> = LazyLock::new(|| {
    [
        examples::parser("fred", "pipeline"),
        examples::parser("bullmq-article", "add"),
        examples::parser("etcd", "put"),
        examples::parser("resp-benchmark", "get"),
        examples::parser("dkv", "alone"),
    ]
});

/// How a cut shows.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    /// One document: whatever lacks its end is an error.
    Document,
    /// Lines: those that ended are read as if there were no others.
    Lines,
}

pub(crate) fn memtier_json(data: &[u8]) {
    holds(&spec(json!({"memtierJson": {"file": FILE}})), Format::Document, data);
}

pub(crate) fn dragstrip_json(data: &[u8]) {
    holds(&spec(json!({"dragstripJson": {"file": FILE}})), Format::Document, data);
}

pub(crate) fn redis_benchmark_csv(data: &[u8]) {
    holds(&spec(json!({"redisBenchmarkCsv": {}})), Format::Lines, data);
}

pub(crate) fn go_bench(data: &[u8]) {
    holds(&spec(json!({"goBench": {}})), Format::Lines, data);
}

/// Values of several kinds at short pointers.
pub(crate) fn json(data: &[u8]) {
    let values = json!([
        {"pointer": "/requests", "meaning": "Count", "required": false},
        {"pointer": "/throughput", "meaning": "OperationsPerSecond", "required": false},
        {"pointer": "/latencies/99th", "meaning": "LatencyPercentile", "percentile": "99", "unit": "Nanoseconds",
            "required": false},
        {"pointer": "/latencies/max", "meaning": "MaximumLatency", "unit": "Nanoseconds", "required": false},
        {"pointer": "/latencyDistribution/2/latency", "meaning": "MeanLatency", "required": false},
        {"pointer": "/errors", "meaning": "Errors", "operation": "other", "required": false},
        {"pointer": "/success", "meaning": "Metric", "metric": "success", "required": false}]);
    holds(
        &spec(json!({"json": {"file": FILE, "operation": "GET", "values": values}})),
        Format::Document,
        data,
    );
}

pub(crate) fn hdr_histogram_log(data: &[u8]) {
    for unit in ["Microseconds", "Nanoseconds"] {
        let log = json!({"files": [{"file": FILE, "operation": "READ"}], "unit": unit});
        holds(&spec(json!({"hdrHistogramLog": log})), Format::Lines, data);
    }
}

/// Columns of every kind.
pub(crate) fn csv(data: &[u8]) {
    let options = json!({"file": FILE,
        "columns": [
            {"header": "Test", "meaning": "Operation"},
            {"header": "NsPerOp", "meaning": "TimePerOperation", "unit": "Nanoseconds"},
            {"header": "OpsPerSec", "meaning": "OperationsPerSecond"},
            {"header": "Keys Count", "meaning": "Count"},
            {"header": "TimeoutSec", "meaning": "Metric", "metric": "timeout"},
            {"header": "LatencyP50", "meaning": "LatencyPercentile", "percentile": "50"},
            {"header": "LatencyP99", "meaning": "LatencyPercentile", "percentile": "99"}]});
    holds(&spec(json!({"csv": options})), Format::Lines, data);
}

/// The first byte chooses the patterns: those that the examples use.
pub(crate) fn regex(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    holds(&REGEX_EXAMPLES[usize::from(*choice) % REGEX_EXAMPLES.len()], Format::Lines, data);
}

/// A pattern that people write: a line of pattern, then the output.
pub(crate) fn regex_pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, output) = text.split_once('\n').unwrap_or((&text, "set 5 7.5 1.2ms\n"));
    // The API takes no longer ones.
    if pattern.chars().count() > 1024 {
        return;
    }
    let spec = spec(json!({"regex": {"lines": [{"pattern": pattern, "operation": "set"}]}}));
    if check(&spec).is_ok() {
        holds(&spec, Format::Lines, output.as_bytes());
    }
}

fn spec(value: Value) -> ParserSpec {
    serde_json::from_value(value).expect("the check's own options are valid")
}

fn read(spec: &ParserSpec, data: &[u8]) -> Result<Parsed, ParseError> {
    let outputs = Outputs {
        stdout: Capture::complete(String::from_utf8_lossy(data)),
        stderr: Capture::default(),
        files: [(FILE.to_owned(), data.to_vec())].into(),
        shards: 1,
    };
    parse(spec, &outputs)
}

fn holds(spec: &ParserSpec, format: Format, data: &[u8]) {
    let whole = read(spec, data);
    if let Ok(parsed) = &whole {
        sane(parsed);
    }
    for length in cuts(data.len()) {
        let Ok(cut) = read(spec, &data[..length]) else { continue };
        sane(&cut);
        match (format, &whole) {
            (Format::Document, Ok(whole)) => {
                assert_eq!(&cut, whole, "cut after {length} of {} bytes gave other numbers", data.len());
            }
            // What follows a whole document only makes it invalid.
            (Format::Document, Err(_)) => {}
            (Format::Lines, _) => only_whole_lines(spec, &data[..length], &cut),
        }
    }
}

/// A line without its end changes nothing but that the output is incomplete.
fn only_whole_lines(spec: &ParserSpec, data: &[u8], cut: &Parsed) {
    let end = data.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |position| position + 1);
    let before = read(spec, &data[..end]).expect("whole lines alone are read if they are with half a line");
    let numbers = |parsed: &Parsed| Parsed { incomplete: None, ..parsed.clone() };
    assert_eq!(numbers(cut), numbers(&before), "half a line gave a number");
    let rest = String::from_utf8_lossy(&data[end..]);
    assert!(cut.incomplete.is_some() || rest.trim().is_empty(), "half a line went unnoticed: {rest:?}");
}

/// Numbers that are possible: finite, and not below zero where nothing can be.
fn sane(parsed: &Parsed) {
    let fine = |number: Option<f64>| number.is_none_or(|number| number.is_finite() && number >= 0.0);
    assert!(fine(parsed.seconds), "{:?} seconds", parsed.seconds);
    for operation in &parsed.operations {
        assert!(
            fine(operation.operations_per_second) && fine(operation.tool_operations_per_second),
            "{operation:?}"
        );
        let LatencySummary { mean, p50, p90, p95, p99, p999, p9999, max } = operation.latency_milliseconds;
        let latencies = [mean, p50, p90, p95, p99, p999, p9999, max];
        assert!(latencies.into_iter().all(fine), "{operation:?}");
    }
    assert!(parsed.metrics.iter().all(|metric| metric.value.is_finite()), "{:?}", parsed.metrics);
}

//! The lines that benchmark tools print, read with the specs that the examples
//! use: tests/specs/*.json are whole `parser` fields of a manifest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dragstrip_crds::workload::ParserSpec;
use dragstrip_parsers::{Capture, LatencyReport, Operation, Outputs, Parsed, PrintedLatency, check, parse};
use std::{collections::BTreeMap, fs, path::PathBuf};

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn spec(name: &str) -> ParserSpec {
    let text = fs::read_to_string(tests().join("specs").join(name).with_extension("json")).unwrap();
    let spec = serde_json::from_str(&text).unwrap();
    check(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
    spec
}

fn printed(name: &str, fixture: &str) -> Parsed {
    let text = fs::read_to_string(tests().join("fixtures").join(fixture)).unwrap();
    let outputs = Outputs { stdout: Capture::whole(text), ..Outputs::default() };
    let parsed = parse(&spec(name), &outputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(parsed.incomplete, None, "{name}");
    parsed
}

fn latency(operation: &Operation) -> &PrintedLatency {
    match &operation.latency {
        Some(LatencyReport::Printed(printed)) => printed,
        other => panic!("{}: {other:?}", operation.name),
    }
}

#[track_caller]
fn assert_percentiles(operation: &Operation, expected: &[(f64, f64)]) {
    let found: Vec<_> = latency(operation).percentiles.iter().map(|p| (p.percent, p.milliseconds)).collect();
    let near = |(found, expected): (&(f64, f64), &(f64, f64))| {
        (found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9
    };
    let same = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(same, "percentiles of {}: {found:?} and not {expected:?}", operation.name);
}

#[test]
fn freds_line_gives_count_duration_and_rate() {
    let parsed = printed("fred", "regex/fred.txt");
    let incr = &parsed.operations[0];
    assert_eq!((incr.count, incr.operations_per_second), (Some(10_000_000), Some(369_849.0)));
    assert_eq!(parsed.seconds, Some(27.038_434_665));
}

#[test]
fn the_bullmq_tools_totals_are_two_operations() {
    let parsed = printed("bullmq", "regex/bullmq.txt");
    let counts: Vec<_> =
        parsed.operations.iter().map(|operation| (operation.name.as_str(), operation.count)).collect();
    assert_eq!(counts, [("add-job", Some(7_592_190)), ("process-job", Some(0))]);
}

#[test]
fn etcds_summary_is_read_in_the_units_of_its_version() {
    for fixture in ["regex/etcd-3.5.txt", "regex/etcd-main.txt"] {
        let parsed = printed("etcd", fixture);
        assert_eq!(parsed.operations.len(), 1, "{fixture}");
        let put = &parsed.operations[0];
        assert_eq!((put.count, put.operations_per_second), (None, Some(8100.0518)), "{fixture}");
        assert_percentiles(put, &[(50.0, 9.5), (90.0, 13.0), (95.0, 14.1), (99.0, 18.1), (99.9, 30.1)]);
        let mean = latency(put).mean.unwrap();
        assert!((mean - 9.8).abs() < 1e-9, "{fixture}: {mean}");
        assert_eq!(parsed.seconds, Some(12.3456), "{fixture}");
    }
}

#[test]
fn garnets_numbers_have_thousands_separators() {
    let parsed = printed("resp-benchmark", "regex/resp-benchmark.txt");
    let get = &parsed.operations[0];
    assert_eq!((get.count, get.operations_per_second), (Some(52_428_800), Some(3_495_020.33)));
    assert!((parsed.seconds.unwrap() - 15.001).abs() < 1e-9);
}

#[test]
fn dkvs_lines_name_their_operations() {
    let parsed = printed("dkv-perf", "regex/dkv-perf.txt");
    let names: Vec<_> = parsed.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["set", "get", "has-not"], "a skipped test is no operation");
    assert_percentiles(&parsed.operations[1], &[(50.0, 0.95), (95.0, 1.1), (99.0, 2.0)]);
    assert_eq!(parsed.operations[2].latency, None);
}

#[test]
fn dkvs_table_gives_the_same_as_its_lines() {
    let bytes = fs::read(tests().join("fixtures/csv/dkv-perf.csv")).unwrap();
    let outputs = Outputs { files: BTreeMap::from([("perf.csv".to_owned(), bytes)]), ..Outputs::default() };
    let table = parse(&spec("dkv-csv"), &outputs).unwrap();
    let lines = printed("dkv-perf", "regex/dkv-perf.txt");
    assert_eq!(table.operations, lines.operations[..2]);
    assert!(table.remarks[0].contains("set-large"), "{:?}", table.remarks);
}

//! Recorded outputs of real tools: redis-benchmark 7.0, go test -bench,
//! memtier 1.4.0 and 2.3.0.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, clippy::panic)]

use dragstrip_crds::{measured::LatencySummary, workload::ParserSpec};
use dragstrip_parsers::{Capture, Outputs, ParseError, Parsed, parse};
use dragstrip_results::result::Operation;
use serde_json::json;
use std::{collections::BTreeMap, fs, path::PathBuf};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// memtier's recordings are the runner's fixtures.
fn memtier() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runner/tests/fixtures/memtier")
}

fn spec(parser: serde_json::Value) -> ParserSpec {
    serde_json::from_value(parser).unwrap()
}

fn stdout(path: &str) -> Outputs {
    Outputs {
        stdout: Capture::complete(fs::read_to_string(fixtures().join(path)).unwrap()),
        ..Outputs::default()
    }
}

fn operation<'a>(parsed: &'a Parsed, name: &str) -> &'a Operation {
    let found = parsed.operations.iter().find(|operation| operation.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", parsed.operations))
}

#[test]
fn redis_benchmark_7_gives_rates_and_printed_latencies() {
    let parsed =
        parse(&spec(json!({"redisBenchmarkCsv": {"requests": 20000}})), &stdout("redis-benchmark/7.0.csv"))
            .unwrap();
    let set = operation(&parsed, "SET");
    assert_eq!((set.count, set.errors), (20_000, 0));
    let latency = set.latency_milliseconds;
    let (p50, max) = (latency.p50.unwrap(), latency.max.unwrap());
    assert!(0.0 < p50 && p50 <= max, "p50 {p50} ms, maximum {max} ms");
    // Closed loop: rate x mean latency = connections that are busy, at most the 10 there were.
    let busy = set.tool_operations_per_second.unwrap() * latency.mean.unwrap() / 1000.0;
    assert!((1.0..=10.5).contains(&busy), "{busy} connections busy: rate or latency misread");
    assert_eq!(parsed.operations.len(), 2);
}

#[test]
fn redis_benchmark_7_names_its_tests_without_escaping_them() {
    for (file, name) in [
        ("7.0-lrange.csv", "LRANGE_100 (first 100 elements)"),
        ("7.0-command.csv", "set key:__rand_int__ a \"quoted\" value"),
        ("7.0-comma.csv", "incr a,b"),
    ] {
        let parsed =
            parse(&spec(json!({"redisBenchmarkCsv": {}})), &stdout(&format!("redis-benchmark/{file}")))
                .unwrap();
        assert_eq!((operation(&parsed, name).count, &parsed.incomplete), (0, &None), "{file}");
    }
}

#[test]
fn every_label_of_redis_benchmark_says_which_command_it_sends() {
    let spec = spec(json!({"redisBenchmarkCsv": {}}));
    for (file, label, command) in [
        ("valkey-8.0.csv", "MSET (10 keys)", "mset"),
        ("7.0-lrange.csv", "LRANGE_100 (first 100 elements)", "lrange"),
        ("7.0-comma.csv", "incr a,b", "incr"),
    ] {
        let parsed = parse(&spec, &stdout(&format!("redis-benchmark/{file}"))).unwrap();
        assert_eq!(operation(&parsed, label).commands, [command], "{file}");
        let own = parsed.operations.iter().all(|operation| operation.operations_per_second.is_some());
        assert!(own, "its tests run one after the other");
    }
}

/// A document read as an operation called GET.
fn json_case(file: &str, values: &serde_json::Value) -> Parsed {
    let spec = spec(json!({"json": {"operation": "GET", "values": values}}));
    parse(&spec, &stdout(&format!("json/{file}"))).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn ghzs_document_is_read_by_pointers() {
    let percentile = |pointer: &str, percent: &str| json!({"pointer": pointer, "meaning": "LatencyPercentile", "percentile": percent, "unit": "Nanoseconds"});
    let parsed = json_case(
        "ghz.json",
        &json!([
            {"pointer": "/count", "meaning": "Attempts"},
            {"pointer": "/statusCodeDistribution/OK", "meaning": "Count", "required": false},
            {"pointer": "/rps", "meaning": "OperationsPerSecond"},
            {"pointer": "/total", "meaning": "Duration", "unit": "Nanoseconds"},
            percentile("/latencyDistribution/6/latency", "99"),
        ]),
    );
    let ghz = operation(&parsed, "GET");
    assert_eq!((ghz.count, ghz.errors, parsed.seconds), (20_000, 0, Some(0.897_849_931)));
    let p99 = ghz.latency_milliseconds.p99.unwrap();
    assert!((p99 - 1.433_068).abs() < 1e-9, "{p99}");
}

#[test]
fn go_test_bench_gives_iterations_and_metrics() {
    let parsed = parse(&spec(json!({"goBench": {}})), &stdout("go-bench/count-2.txt")).unwrap();
    assert_eq!(parsed.incomplete, None);
    let names: Vec<_> = parsed.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["Append", "Hash/64", "Hash/1024", "Parallel"]);
    let metric = |operation: &str, name: &str| {
        let name = format!("{operation} {name}");
        let found = parsed.metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no {name} of {operation}")).clone()
    };
    assert!(metric("Append", "ns/op").value > 0.0);
    assert!(metric("Hash/1024", "MB/s").value > metric("Hash/64", "ns/op").value.recip());
    assert!(metric("Parallel", "widgets/op").value > 0.0);
    let append = operation(&parsed, "Append");
    let rate = append.operations_per_second.unwrap();
    // Two runs, each with its own nanoseconds per operation.
    let seconds = (100.0 * 266_273.0 + 10_000.0 * 10_787.0) / 1e9;
    assert!((append.count as f64 / seconds / rate - 1.0).abs() < 1e-9, "{rate}");
    assert_eq!(append.latency_milliseconds, LatencySummary::default(), "ns/op is not a latency");
}

fn memtier_case(case: &str) -> Result<Parsed, ParseError> {
    let directory = memtier().join(case);
    let outputs = Outputs {
        stderr: Capture::complete(String::from_utf8_lossy(&fs::read(directory.join("stderr.txt")).unwrap())),
        files: BTreeMap::from([("out.json".to_owned(), fs::read(directory.join("out.json")).unwrap())]),
        ..Outputs::default()
    };
    parse(&spec(json!({"memtierJson": {"file": "out.json"}})), &outputs)
}

#[test]
fn memtiers_file_gives_exact_histograms() {
    for version in ["1.4.0", "2.3.0"] {
        let parsed = memtier_case(&format!("{version}/d2_mixed_time")).unwrap();
        for name in ["SET", "GET"] {
            let operation = operation(&parsed, name);
            assert!(operation.histogram.is_some(), "{version} {operation:?}");
            assert!(operation.count > 0 && operation.tool_operations_per_second.unwrap() > 0.0, "{version}");
        }
        let total: u64 = parsed.operations.iter().map(|operation| operation.count).sum();
        assert_eq!(parsed.per_second.iter().sum::<u64>(), total, "{version}");
        assert_eq!(parsed.incomplete, None, "{version}");
    }
}

#[test]
fn memtiers_error_replies_are_taken_off_the_count() {
    for version in ["1.4.0", "2.3.0"] {
        let parsed = memtier_case(&format!("{version}/k21_err_wrongtype")).unwrap();
        let errors: u64 = parsed.errors.values().sum();
        assert!(errors > 0, "{version}: {parsed:?}");
        assert_eq!(parsed.operations[0].errors, errors, "{version}");
        assert_eq!(parsed.operations[0].count, 0, "{version}: every reply was an error");
    }
}

#[test]
fn memtiers_truncated_and_empty_files_are_errors_or_incomplete() {
    for version in ["1.4.0", "2.3.0"] {
        assert!(memtier_case(&format!("{version}/k31_sigterm")).is_err(), "{version}");
        assert!(memtier_case(&format!("{version}/e_run_count3")).is_err(), "{version}");
        assert!(
            matches!(memtier_case(&format!("{version}/k01_conn_refused_n")), Err(ParseError::Nothing)),
            "{version}"
        );
    }
    let interrupted = memtier_case("2.3.0/k30_sigint").unwrap();
    assert!(interrupted.incomplete.is_some(), "{interrupted:?}");
}

#[test]
fn dfly_benchs_file_gives_what_it_prints() {
    let bytes = fs::read(fixtures().join("dfly_bench/gets-and-sets.json")).unwrap();
    let outputs = Outputs { files: BTreeMap::from([("out.json".to_owned(), bytes)]), ..Outputs::default() };
    let parsed = parse(&spec(json!({"memtierJson": {"file": "out.json"}})), &outputs).unwrap();
    assert_eq!((operation(&parsed, "GET").count, parsed.seconds), (900_000, Some(10.0)));
    assert_eq!(parsed.tool.unwrap().name, "dfly_bench");
}

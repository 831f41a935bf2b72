//! What the tools of the examples print, read with the very parsers that the
//! examples declare, so that the two cannot drift apart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dragstrip_parser_checks::examples::{exec_phases, parser};
use dragstrip_parsers::{Capture, Outputs, Parsed, check, parse, wanted};
use dragstrip_results::result::Operation;
use std::{fs, path::Path};

/// Example, phase, and what its tool left behind: recorded or written after its source.
const OUTPUTS: [(&str, &str, &str); 15] = [
    ("bullmq-article", "add", "regex/bullmq.txt"),
    ("dfly-bench", "closed-loop", "dfly_bench/gets-and-sets.json"),
    ("dfly-bench", "schedule", "dfly_bench/gets-and-sets.json"),
    ("dkv", "alone", "regex/dkv-perf.txt"),
    ("dkv", "cluster", "csv/dkv-perf.csv"),
    ("etcd", "put", "regex/etcd-main.txt"),
    ("fred", "no-pipeline", "regex/fred.txt"),
    ("fred", "pipeline", "regex/fred.txt"),
    ("http", "get", "json/vegeta.json"),
    ("k6", "get", "json/k6.json"),
    ("redis-benchmark", "bench", "redis-benchmark/7.0.csv"),
    ("resp-benchmark", "get", "regex/resp-benchmark.txt"),
    ("valkey-benchmark", "bench", "redis-benchmark/valkey-8.0.csv"),
    ("ycsb", "load", "hdr-histogram-log/ycsb-UPDATE.hdr"),
    ("ycsb", "workload-a", "hdr-histogram-log/ycsb-READ.hdr"),
];

/// The output where the parser looks for it: in its file or on standard output.
fn read(example: &str, phase: &str, fixture: &str) -> Parsed {
    let spec = parser(example, phase);
    check(&spec).unwrap_or_else(|error| panic!("{example}: {error}"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let bytes = fs::read(fixtures.join(fixture)).unwrap();
    let names = wanted(&spec).unwrap();
    let outputs = if names.is_empty() {
        Outputs { stdout: Capture::complete(String::from_utf8(bytes).unwrap()), ..Outputs::default() }
    } else {
        let required = names.into_iter().filter(|name| !name.contains("-FAILED"));
        Outputs { files: required.map(|name| (name, bytes.clone())).collect(), ..Outputs::default() }
    };
    let parsed = parse(&spec, &outputs).unwrap_or_else(|error| panic!("{example}: {error}"));
    assert_eq!(parsed.incomplete, None, "{example}");
    parsed
}

#[test]
fn every_exec_phase_of_the_examples_reads_its_tools_output() {
    for (example, phase, fixture) in OUTPUTS {
        let parsed = read(example, phase, fixture);
        let rated =
            |operation: &Operation| operation.operations_per_second.is_some() || parsed.seconds.is_some();
        assert!(parsed.operations.iter().all(rated), "{example}, {phase}: {:?}", parsed.operations);
    }
    let mut declared: Vec<_> = exec_phases().into_iter().map(|known| (known.example, known.phase)).collect();
    declared.sort();
    let tried = OUTPUTS.map(|(example, phase, _)| (example.to_owned(), phase.to_owned()));
    assert_eq!(declared, tried, "an example's parser is tried on no output");
}

#[track_caller]
fn assert_percentiles(operation: &Operation, expected: &[(f64, f64)]) {
    let mut latency = operation.latency_milliseconds;
    for percent in [50.0, 90.0, 95.0, 99.0, 99.9, 99.99] {
        let found = latency.percentile_mut(percent).and_then(|found| *found);
        let wanted = expected.iter().find(|(known, _)| (known - percent).abs() < 1e-9).map(|known| known.1);
        let same = found.zip(wanted).map_or(found == wanted, |(one, other)| (one - other).abs() < 1e-9);
        assert!(same, "{percent} % of {}: {found:?} and not {wanted:?}", operation.name);
    }
}

#[test]
fn freds_line_gives_count_duration_and_rate() {
    let parsed = read("fred", "pipeline", "regex/fred.txt");
    let incr = &parsed.operations[0];
    assert_eq!((incr.count, incr.operations_per_second), (10_000_000, Some(369_849.0)));
    assert_eq!(parsed.seconds, Some(27.038_434_665));
}

#[test]
fn the_bullmq_tools_totals_are_two_operations() {
    let parsed = read("bullmq-article", "add", "regex/bullmq.txt");
    let counts: Vec<_> =
        parsed.operations.iter().map(|operation| (operation.name.as_str(), operation.count)).collect();
    assert_eq!(counts, [("add-job", 7_592_190), ("process-job", 0)]);
}

#[test]
fn etcds_summary_is_read_in_the_units_of_its_version() {
    for fixture in ["regex/etcd-3.5.txt", "regex/etcd-main.txt"] {
        let parsed = read("etcd", "put", fixture);
        assert_eq!(parsed.operations.len(), 1, "{fixture}");
        let put = &parsed.operations[0];
        assert_eq!((put.count, put.operations_per_second), (0, Some(8100.0518)), "{fixture}");
        assert_percentiles(put, &[(50.0, 9.5), (90.0, 13.0), (95.0, 14.1), (99.0, 18.1), (99.9, 30.1)]);
        let mean = put.latency_milliseconds.mean.unwrap();
        assert!((mean - 9.8).abs() < 1e-9, "{fixture}: {mean}");
        assert_eq!(parsed.seconds, Some(12.3456), "{fixture}");
    }
}

#[test]
fn garnets_numbers_have_thousands_separators() {
    let parsed = read("resp-benchmark", "get", "regex/resp-benchmark.txt");
    let get = &parsed.operations[0];
    assert_eq!((get.count, get.operations_per_second), (52_428_800, Some(3_495_020.33)));
    assert!((parsed.seconds.unwrap() - 15.001).abs() < 1e-9);
}

#[test]
fn dkvs_lines_name_their_operations() {
    let parsed = read("dkv", "alone", "regex/dkv-perf.txt");
    let names: Vec<_> = parsed.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["set", "get", "has-not"], "a skipped test is not an operation");
    assert_percentiles(&parsed.operations[1], &[(50.0, 0.95), (95.0, 1.1), (99.0, 2.0)]);
    assert_percentiles(&parsed.operations[2], &[]);
}

#[test]
fn dkvs_table_gives_the_same_as_its_lines() {
    let table = read("dkv", "cluster", "csv/dkv-perf.csv");
    let lines = read("dkv", "alone", "regex/dkv-perf.txt");
    assert_eq!(table.operations, lines.operations[..2]);
}

#[test]
fn the_sums_of_dfly_benchs_file_are_those_of_its_operations() {
    let parsed = read("dfly-bench", "closed-loop", "dfly_bench/gets-and-sets.json");
    let counts: Vec<_> =
        parsed.operations.iter().map(|operation| (operation.name.as_str(), operation.count)).collect();
    assert_eq!(counts, [("GET", 900_000), ("SET", 90_000)]);
}

#[test]
fn ten_keys_are_one_command() {
    let parsed = read("valkey-benchmark", "bench", "redis-benchmark/valkey-8.0.csv");
    let mset = &parsed.operations[2];
    assert_eq!((mset.name.as_str(), mset.commands.as_slice()), ("MSET (10 keys)", &["mset".to_owned()][..]));
}

#[test]
fn ycsbs_logs_hold_every_latency() {
    let parsed = read("ycsb", "workload-a", "hdr-histogram-log/ycsb-READ.hdr");
    let read = &parsed.operations[0];
    assert_eq!((read.name.as_str(), read.count, read.errors), ("READ", 49_983, 0));
    assert!(read.histogram.is_some(), "{read:?}");
    let summary = read.latency_milliseconds;
    // As YCSB printed them: see the fixtures' page.
    let printed = [
        (summary.mean, 0.179_629_674_089_190_33),
        (summary.p50, 0.156),
        (summary.p95, 0.294),
        // YCSB printed 0.933: its library rounds a rank up, ours to the nearest.
        (summary.p99, 0.932),
        (summary.max, 17.391),
    ];
    for (found, expected) in printed {
        assert!((found.unwrap() - expected).abs() < 1e-9, "{summary:?}");
    }
    assert_eq!(read.commands.len(), 0, "READ is not a command of a server");
    assert!((parsed.seconds.unwrap() - 2.331).abs() < 1e-6, "{:?}", parsed.seconds);
}

#[test]
fn what_vegeta_sent_in_vain_is_no_operation_but_an_error() {
    let get = &read("http", "get", "json/vegeta.json").operations[0];
    assert_eq!((get.count, get.errors), (500, 500));
}

#[test]
fn an_iteration_of_k6s_script_is_one_get() {
    let get = &read("k6", "get", "json/k6.json").operations[0];
    assert_eq!((get.count, get.operations_per_second), (114_824, Some(28_686.469_907_049_643)));
    assert_percentiles(
        get,
        &[(50.0, 0.260_385_5), (95.0, 1.023_362_15), (99.0, 2.553_024_11), (99.9, 5.246_840_535)],
    );
}

#[test]
fn redis_benchmarks_requests_are_those_of_its_command_line() {
    let parsed = read("redis-benchmark", "bench", "redis-benchmark/7.0.csv");
    let counts: Vec<_> =
        parsed.operations.iter().map(|operation| (operation.name.as_str(), operation.count)).collect();
    assert_eq!(counts, [("SET", 1_000_000), ("GET", 1_000_000)]);
}

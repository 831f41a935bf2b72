//! Every published table of the field is read by the csv parser: decimal
//! commas, thousands separators of both kinds, units behind numbers.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, clippy::panic)]

use dragstrip_crds::workload::ParserSpec;
use dragstrip_parsers::{Capture, Outputs, Parsed, parse};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/published")
}

fn read(file: &str, options: &Value) -> Result<Parsed, String> {
    let spec: ParserSpec = serde_json::from_value(json!({"csv": options})).unwrap();
    let text = fs::read_to_string(fixtures().join(file)).unwrap();
    let outputs = Outputs { stdout: Capture::whole(text), ..Outputs::default() };
    parse(&spec, &outputs).map_err(|error| error.to_string())
}

fn operation(header: &str) -> Value {
    json!({"header": header, "meaning": "Operation"})
}

fn rate(header: &str) -> Value {
    json!({"header": header, "meaning": "OperationsPerSecond"})
}

fn metric(header: &str) -> Value {
    json!({"header": header, "meaning": "Metric", "metric": header})
}

fn english(columns: &[Value]) -> Value {
    json!({"thousandsSeparator": ",", "columns": columns})
}

fn german(columns: &[Value]) -> Value {
    json!({"decimalSeparator": ",", "thousandsSeparator": ".", "columns": columns})
}

/// The figure called `name` of a row: a metric, or its rate.
fn figure(parsed: &Parsed, row: &str, name: &str) -> Option<f64> {
    let of_row = |metric: &&dragstrip_parsers::Metric| metric.operation.as_deref() == Some(row);
    let metric = parsed.metrics.iter().filter(of_row).find(|metric| metric.name == name);
    let operation = parsed.operations.iter().find(|operation| operation.name == row);
    metric.map(|metric| metric.value).or_else(|| operation?.operations_per_second)
}

/// Row, figure, and its value as it is printed in the publication.
type Printed = (&'static str, &'static str, f64);
/// File, options, and a few of its figures.
type Table = (&'static str, Value, Vec<Printed>);

fn tables() -> Vec<Table> {
    [clusters(), systems(), memory(), payloads(), clients(), batches(), sizes()].concat()
}

fn clusters() -> Vec<Table> {
    [
        ("dkv-cluster-threads10-workers10.csv", 4723.72),
        ("dkv-cluster-threads10-workers50.csv", 3620.33),
        ("dkv-cluster-threads50-workers10.csv", 4280.32),
        ("dkv-cluster-threads50-workers50.csv", 5065.73),
    ]
    .into_iter()
    .map(|(file, ram)| {
        let columns = [
            operation("Connections"),
            metric("set (ops/sec)"),
            metric("mixed (ops/sec)"),
            metric("Combined Max RAM (MiB)"),
        ];
        (file, german(&columns), vec![("10 conn", "Combined Max RAM (MiB)", ram)])
    })
    .collect()
}

fn systems() -> Vec<Table> {
    let etcd =
        || english(&[operation("Operation"), rate("DKV (40 conn)"), metric("ETCD"), metric("Difference")]);
    let clients =
        [operation("Operation"), rate("Client 1"), metric("Combined Throughput"), metric("Difference")];
    vec![
        (
            "dkv-vs-etcd-threads10.csv",
            etcd(),
            vec![("mixed", "ETCD", 36_813.0), ("RAM (MiB)", "ETCD", 3608.57), ("mixed", "Difference", 268.0)],
        ),
        ("dkv-vs-etcd-threads50.csv", etcd(), vec![("has-not", "rate", 436_300.0)]),
        (
            "dkv-one-vs-two-clients.csv",
            english(&clients),
            vec![
                ("delete", "Combined Throughput", 1_008_438.0),
                ("large-set", "rate", 29_522.0),
                ("mixed", "Difference", -28.0),
            ],
        ),
        (
            "dkv-three-vs-five-nodes.csv",
            german(&[operation("Operation"), rate("Five Nodes (ops/sec)")]),
            vec![("set", "rate", 126_759.0), ("RAM Combined", "rate", 8294.41)],
        ),
        (
            "dkv-single-node.csv",
            english(&[operation("Connections"), metric("get (ops/sec)"), metric("Max RAM (MiB)")]),
            vec![("30", "get (ops/sec)", 645_995.0), ("1", "Max RAM (MiB)", 29.4)],
        ),
    ]
}

fn memory() -> Vec<Table> {
    let options = || english(&[operation("Node"), metric("RAM"), metric("Max RAM")]);
    vec![
        (
            "dkv-memory-a-minute-after.csv",
            options(),
            vec![("SUM", "Max RAM", 6018.05), ("dkv-node-1", "RAM", 372.10)],
        ),
        ("dkv-memory-right-after.csv", options(), vec![("dkv-node-1", "RAM", 1221.63)]),
    ]
}

fn payloads() -> Vec<Table> {
    let binary = || english(&[operation("Payload Type"), metric("Binary")]);
    let store = [
        operation("Benchmark"),
        metric("B/op (Server)"),
        metric("ns/op (Server)"),
        metric("ns/op (Macbook)"),
    ];
    vec![
        ("dkv-deserialization-speed.csv", binary(), vec![("Very Large Value", "Binary", 2382.0)]),
        ("dkv-serialization-speed.csv", binary(), vec![("Empty", "Binary", 19.34)]),
        ("dkv-message-size.csv", binary(), vec![("Large Value", "Binary", 1037.0)]),
        (
            "dkv-store-microbenchmarks.csv",
            german(&store),
            vec![
                ("SetLargeValue", "ns/op (Server)", 47_248.0),
                ("Set", "ns/op (Server)", 238.8),
                ("SaveLoad/Save", "ns/op (Server)", 11_100_978.0),
                ("SetLargeValue", "B/op (Server)", 2_097_307.0),
            ],
        ),
    ]
}

fn clients() -> Vec<Table> {
    let count = json!({"header": "commands", "meaning": "Count"});
    let bullmq = [operation("backend"), rate("add_jobs_per_sec"), metric("ratio_to_dragonfly_baseline")];
    vec![
        (
            "bullmq-add-jobs.csv",
            english(&bullmq),
            vec![
                ("Redis 7.2", "rate", 76_773.0),
                ("Dragonfly with shard round robin", "ratio_to_dragonfly_baseline", 32.87),
            ],
        ),
        (
            "fred-redis-rs.csv",
            english(&[operation("elapsed_s"), rate("req_per_sec"), count]),
            vec![("27.038434665", "rate", 369_849.0)],
        ),
        (
            "memtier-dragonfly-garnet.csv",
            english(&[operation("ops_per_sec"), metric("p99_9_ms"), metric("kb_per_sec")]),
            vec![("8975121.86", "p99_9_ms", 0.839), ("25400000", "p99_9_ms", 0.375)],
        ),
    ]
}

fn batches() -> Vec<Table> {
    [
        ("rust-client-multiset-batch1000-pool100.csv", "AsyncRedisClientPooled x8", 18.766),
        ("rust-client-multiset-batch10000-pool100.csv", "AsyncRedisClientV1", 70.664),
        ("rust-client-pipelined-set-expire-batch1000-pool100.csv", "AsyncRedisClientV1", 198.15),
        ("rust-client-pipelined-set-expire-batch10000-pool100.csv", "AsyncRedisClientV1", 163.70),
    ]
    .into_iter()
    .map(|(file, client, time)| {
        (
            file,
            english(&[operation("Benchmark"), metric("Avg Time (ms)")]),
            vec![(client, "Avg Time (ms)", time)],
        )
    })
    .collect()
}

fn sizes() -> Vec<Table> {
    [
        ("rust-client-multiset-key-value-sizes.csv", "96.283"),
        ("rust-client-pipelined-set-expire-key-value-sizes.csv", "204.47"),
    ]
    .into_iter()
    .map(|(file, latency)| {
        let columns =
            [operation("Average Latency (ms)"), metric("Key Size (bytes)"), metric("Value Size (bytes)")];
        (file, english(&columns), vec![(latency, "Value Size (bytes)", 128.0)])
    })
    .collect()
}

#[test]
fn every_published_table_reads_as_printed() {
    for (file, options, figures) in tables() {
        let parsed = read(file, &options).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(parsed.incomplete, None, "{file}");
        for (row, name, expected) in figures {
            let found = figure(&parsed, row, name).unwrap_or_else(|| panic!("{file} has no {name} of {row}"));
            assert!((found - expected).abs() < 1e-9, "{file}, {name} of {row}: {found} and not {expected}");
        }
    }
}

#[test]
fn no_published_table_is_forgotten() {
    let mut published: Vec<_> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut read: Vec<_> = tables().into_iter().map(|(file, ..)| file.to_owned()).collect();
    published.sort();
    read.sort();
    assert_eq!(read, published);
}

#[test]
fn another_notation_than_the_tables_own_is_refused() {
    for (file, options) in [
        ("dkv-vs-etcd-threads10.csv", german(&[operation("Operation"), metric("ETCD")])),
        ("dkv-vs-etcd-threads10.csv", json!({"columns": [operation("Operation"), metric("ETCD")]})),
        (
            "dkv-cluster-threads10-workers10.csv",
            english(&[operation("Connections"), metric("Combined Max RAM (MiB)")]),
        ),
        ("dkv-store-microbenchmarks.csv", english(&[operation("Benchmark"), metric("ns/op (Server)")])),
        (
            "dkv-store-microbenchmarks.csv",
            json!({"columns": [operation("Benchmark"), metric("ns/op (Server)")]}),
        ),
        ("dkv-memory-right-after.csv", json!({"columns": [operation("Node"), metric("RAM")]})),
    ] {
        let error = read(file, &options).unwrap_err();
        assert!(error.contains("Separator"), "{file}: {error}");
    }
}

#[test]
fn cells_with_two_numbers_are_refused() {
    for (file, row, header) in [
        ("dkv-deserialization-speed.csv", "Payload Type", "JSON (*factor)"),
        ("rust-client-multiset-batch1000-pool100.csv", "Benchmark", "Time (ms)"),
    ] {
        assert!(
            read(file, &english(&[operation(row), metric(header)])).is_err(),
            "{header} of {file} was read"
        );
    }
}

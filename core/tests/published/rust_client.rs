//! The suites of the Rust client: batches, the source's own Criterion benchmark, and what it prints.

use super::{environment, launch, run, served, server_of};
use dragstrip_core::suite::expand::ChildRun;
use dragstrip_crds::{measured::Metric, workload::ToolSpec};
use dragstrip_parsers::{Capture, Outputs};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

/// That `run` hands the published batches to the client library.
fn rust_client(
    run: &ChildRun,
    kind: &str,
    pool_size: u32,
    parallelism: u32,
    [batch_size, key, value]: [&str; 3],
) {
    for (phase, operation) in ["Mset", "SetExpire"].into_iter().enumerate() {
        let document: Value = serde_json::from_str(&launch(run, phase).input.unwrap()).unwrap();
        let load = &document["loadgen"];
        let found = (&load["client"], &load["library"]["connectionKind"], &load["library"]["poolSize"]);
        assert_eq!(found, (&json!("RedisRs"), &json!(kind), &json!(pool_size)), "{:?}", run.cell);
        let mut batch = json!({
            "items": 100_000, "batchSize": batch_size.parse::<u32>().unwrap(), "parallelism": parallelism,
            "operation": operation, "keySize": key.parse::<u32>().unwrap(),
        });
        if operation == "SetExpire" {
            batch["expiry"] = json!("300s");
        }
        assert_eq!(load["batch"], batch, "{:?}", run.cell);
        assert_eq!(load["dataSize"].to_string(), value, "{:?}", run.cell);
        let measured = (&load["threads"], &load["resp3"], &load["duration"], &document["warmup"]);
        assert_eq!(measured, (&json!(192), &json!(true), &json!("60s"), &json!("5000ms")), "{:?}", run.cell);
    }
}

#[test]
fn the_rust_client_is_started_as_published() {
    for batch_size in ["1000", "10000"] {
        let v1 = run("rust-client-throughput", "v1", &[batch_size]);
        rust_client(&v1, "ConnectionManager", 1, 1, [batch_size, "80", "20"]);
        for parallelism in [1, 2, 4, 8] {
            let pooled = run("rust-client-throughput", &format!("pooled-x{parallelism}"), &[batch_size]);
            rust_client(&pooled, "Multiplexed", 100, parallelism, [batch_size, "80", "20"]);
        }
    }
    let sizes = ["8", "16", "32", "64", "128"];
    for (key, value) in sizes.iter().flat_map(|key| sizes.iter().map(move |value| (*key, *value))) {
        let run = run("rust-client-sizes", "v1", &[key, value]);
        rust_client(&run, "ConnectionManager", 1, 1, ["10000", key, value]);
    }
}

#[test]
fn the_sources_own_benchmark_of_the_rust_client_is_started_as_published() {
    // REDIS_BENCH_SERVER=127.0.0.1:6379 REDIS_BENCH_MULTI_SET=1 cargo bench --bench ...
    for batch_size in ["1000", "10000"] {
        let run = run("rust-client-throughput-criterion", "dragonfly", &[batch_size]);
        let started = launch(&run, 0);
        assert!(
            started.arguments[1].contains("write_throughput --bench --noplot |"),
            "{:?}",
            started.arguments
        );
        for (name, value) in [("REDIS_BENCH_BATCH_SIZE", batch_size), ("REDIS_BENCH_MULTI_SET", "1")] {
            assert!(started.environment.contains(&(name.to_owned(), value.to_owned())), "{name}={value}");
        }
    }
    let run = run("rust-client-sizes-criterion", "v1", &["16", "128"]);
    for (phase, multi_set) in [(0, true), (1, false)] {
        let started = launch(&run, phase);
        // One of the source's 25 benchmarks, by its name.
        assert_eq!(started.arguments[2..], ["payload_latency", "16", "128"], "$0, $1 and $2 of the script");
        assert!(started.arguments[1].contains("\"key size $1, value size $2, \""), "{:?}", started.arguments);
        let has = started.environment.contains(&("REDIS_BENCH_MULTI_SET".to_owned(), "1".to_owned()));
        assert_eq!(has, multi_set, "its presence makes it MSET: {:?}", started.environment);
    }
}

#[test]
fn the_server_under_the_rust_client_is_as_published_and_on_the_same_machine() {
    for (suite, variant, values) in [
        ("rust-client-throughput", "pooled-x8", vec!["1000"]),
        ("rust-client-throughput-criterion", "dragonfly", vec!["1000"]),
        ("rust-client-sizes", "v1", vec!["8", "8"]),
        ("rust-client-sizes-criterion", "v1", vec!["8", "8"]),
    ] {
        let run = run(suite, variant, &values);
        let container = server_of(&run);
        // DFLY_maxmemory is a flag here.
        for expected in [
            "DFLY_max_multi_bulk_len=2000100",
            "DFLY_pipeline_buffer_limit=872415232",
            "DFLY_pipeline_queue_limit=2000100",
        ] {
            assert!(environment(&container).contains(expected), "{suite}: {expected}");
        }
        assert!(served(&run).contains("--maxmemory=42949672960"), "40g: {}", served(&run));
        assert_eq!(container.image.as_deref(), Some("ghcr.io/dragonflydb/dragonfly:v1.34.2"));
        let limits = container.resources.unwrap().limits.unwrap();
        assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("32", "48Gi"));
        let server = run.spec.target.datastore().unwrap();
        assert!(
            server.cpu.exclusive && run.spec.clients.share_server_node,
            "{suite}: CPUs of its own, one machine"
        );
        assert_eq!(server.placement.instance_type, run.spec.clients.placement.instance_type);
    }
}

/// What Criterion prints of `figures`: names with the lower bound, the estimate and the upper bound
/// of time and throughput.
fn criterion(figures: &[(&str, [&str; 3], [&str; 3])]) -> String {
    let of = |(name, time, elements): &(&str, [&str; 3], [&str; 3])| {
        let indent = " ".repeat(24);
        format!(
            "{name}\n{indent}time:   [{}]\n{indent}thrpt:  [{}]\nFound 2 outliers among 100 measurements (2.00%)\n",
            time.join(" "),
            elements.join(" ")
        )
    };
    figures.iter().map(of).collect()
}

/// The metrics that the parser of `run`'s phase reads where its tool prints `output`.
fn criterion_metrics(run: &ChildRun, phase: usize, tool: &str, output: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("criterion-{tool}-{phase}"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("printed"), output).unwrap();
    let program = directory.join(tool);
    fs::write(&program, format!("#!/bin/sh\ncat '{}'\n", directory.join("printed").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let started = launch(run, phase);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let ended = Command::new(&started.program).args(&started.arguments).env("PATH", path).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let ToolSpec::Exec(exec) = &run.spec.phases[phase].tool else { panic!("{tool} is not an exec tool") };
    let stdout = Capture::complete(String::from_utf8(ended.stdout).unwrap());
    let outputs = Outputs { stdout, ..Outputs::default() };
    let parsed = dragstrip_parsers::parse(&exec.parser, &outputs).unwrap();
    let metric =
        |it: &Metric| (it.name.clone(), format!("{} {}", it.value, it.unit.as_deref().unwrap_or("")));
    parsed.metrics.iter().map(metric).collect()
}

#[test]
fn what_criterion_prints_is_read_as_it_was_published() {
    let (time, elements) =
        (["78.317 ms", "78.589 ms", "78.828 ms"], ["1.2686 Melem/s", "1.2724 Melem/s", "1.2769 Melem/s"]);
    let slow = ["502.31 Kelem/s", "504.66 Kelem/s", "507.38 Kelem/s"];
    let pool = "Dragonfly using  AsyncRedisClientPooled, 100k items";
    // Criterion numbers what has the same name; the tool prints its parameters in between.
    let output = criterion(&[
        (
            "Using AsyncRedisClientV1 with params: batch_size: 1000\nDragonfly using AsyncRedisClientV1, 100k items/multi_set",
            time,
            elements,
        ),
        ("Dragonfly using AsyncRedisClientV1, 100k items/pipelined_set_with_expiry_manual", time, slow),
        (&format!("{pool}/multi_set"), time, elements),
        (&format!("{pool}/pipelined_set_with_expiry_manual #4"), time, elements),
    ]);
    let throughput = run("rust-client-throughput-criterion", "dragonfly", &["1000"]);
    let found = criterion_metrics(&throughput, 0, "write_throughput", &output);
    for (name, value) in [
        ("v1 multi_set time", "78.589 ms"),
        ("v1 multi_set elements", "1.2724 Melem/s"),
        ("v1 pipelined_set elements", "504.66 Kelem/s"),
        ("x1 multi_set elements", "1.2724 Melem/s"),
        ("x8 pipelined_set time", "78.589 ms"),
    ] {
        assert!(found.contains(&(name.to_owned(), value.to_owned())), "{name} = {value}: {found:?}");
    }
    assert_eq!(found.len(), 8, "{found:?}");
    let sizes = run("rust-client-sizes-criterion", "v1", &["8", "8"]);
    let output =
        criterion(&[("AsyncRedisClientV1 key size 8, value size 8, 100k items/multi_set", time, elements)]);
    let found = criterion_metrics(&sizes, 0, "payload_latency", &output);
    let expected = [("time", "78.589 ms"), ("elements", "1.2724 Melem/s")];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

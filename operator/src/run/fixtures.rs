//! Objects for tests.

use super::{
    decide::{DatastoreKey, ReadyTarget, TargetState},
    fetch::Fetched,
};
use dragstrip_crds::{BenchmarkRun, datastore::ServerProtocol, observed::ServerTruth};
use dragstrip_results::{
    histogram::Latencies,
    observed::{CommandCounter, ServerCounters},
    result::{Failure, FailureStep, OperationResult, PodResult, ServerRecord, Window},
};
use std::collections::BTreeMap;

/// A run named sprint in namespace races against Datastore redis, with loadgen
/// phases of 4 s.
pub(crate) fn run(phases: &[&str], repetitions: i32) -> BenchmarkRun {
    let phases: Vec<_> =
        phases.iter().map(|name| serde_json::json!({"name": name, "loadgen": {"duration": "4s"}})).collect();
    serde_json::from_value(serde_json::json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": "sprint", "namespace": "races", "uid": "run-uid", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
        "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": phases, "repetitions": repetitions},
    }))
    .unwrap()
}

/// A pass that found nothing.
pub(crate) fn nothing() -> Fetched {
    Fetched {
        target: TargetState::NotConsulted,
        turn: None,
        holds: false,
        jobs: BTreeMap::new(),
        pods: Vec::new(),
        runners: BTreeMap::new(),
        warnings: Vec::new(),
        kept: BTreeMap::new(),
        damaged: Vec::new(),
        target_gone: None,
        placed: Vec::new(),
        unseen: BTreeMap::new(),
    }
}

/// A run as [`run`] makes it, with phases write and knee, of which the latter has this search.
pub(crate) fn searching(search: serde_json::Value, repetitions: i32) -> BenchmarkRun {
    let mut run = run(&["write", "knee"], repetitions);
    run.spec.phases[1].search = Some(serde_json::from_value(search).unwrap());
    run
}

/// What Redis 7 says of itself.
pub(crate) fn truth() -> ServerTruth {
    ServerTruth {
        engine: None,
        version: "7.0.15".into(),
        threads: Some(1),
        io_interface: None,
        max_memory_bytes: None,
        max_memory_policy: None,
        cluster_enabled: false,
        loading: false,
        run_id: "server-process".into(),
        used_memory_bytes: 0,
        role: None,
    }
}

/// Datastore redis, ready on node worker.
pub(crate) fn target() -> ReadyTarget {
    ReadyTarget {
        name: "redis".into(),
        host: "10.1.2.3".into(),
        port: 6379,
        cluster: false,
        emulated_cluster: false,
        protocol: ServerProtocol::Resp,
        username: None,
        auth: None,
        tls: None,
        truth: Some(truth()),
        members: Vec::new(),
        observers: vec!["10.1.2.3:9180".parse().unwrap()],
        nodes: vec!["worker".into()],
        identity: None,
        datastore: Some(DatastoreKey { namespace: "races".into(), name: "redis".into() }),
        cpus: None,
        questioned: true,
    }
}

/// A good result of one pod: `count` GETs of `microseconds` each within `seconds`.
pub(crate) fn pod_result(pod: &str, count: u64, seconds: f64, microseconds: u64) -> PodResult {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    histogram.record_n(microseconds, count).unwrap();
    let latencies = Latencies::from_microseconds(histogram);
    let mut result = lost(pod);
    result.failure = None;
    result.tool.name = "loadgen".into();
    result.window = Window {
        start_unix_nanos: 1_800_000_000_000_000_000,
        seconds,
        start_skew_seconds: 0.001,
        clock_offset_seconds: 0.0,
        clock_uncertainty_seconds: 0.0,
    };
    result.client.cpu_seconds = seconds;
    result.operations = vec![OperationResult {
        operation: "GET".into(),
        commands: vec!["get".into()],
        count,
        hits: Some(count),
        misses: Some(0),
        bytes: count * 100,
        latency_milliseconds: latencies.summary(),
        histogram: Some(latencies.encode().unwrap()),
        ..OperationResult::default()
    }];
    result
}

/// What is said of a pod that the cluster took away.
pub(crate) fn lost(pod: &str) -> PodResult {
    let failure = Failure {
        step: FailureStep::Lost,
        message: "the pod was taken away".into(),
        exit_code: None,
        signal: None,
        last_lines: vec![],
    };
    PodResult::failed("read", 1, pod, failure)
}

/// A server that had run `command` so often before and after the load.
pub(crate) fn server_record(command: &str, before: u64, after: u64) -> ServerRecord {
    let counters = |calls| ServerCounters {
        run_id: truth().run_id,
        commands: [(command.to_owned(), CommandCounter { calls, failed: 0, rejected: 0 })].into(),
        ..ServerCounters::default()
    };
    ServerRecord {
        truth: truth(),
        before: counters(before),
        after: Some(counters(after)),
        shards: Vec::new(),
    }
}

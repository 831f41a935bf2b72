//! Objects for tests.

use dragstrip_crds::{
    BenchmarkRun,
    histogram::Latencies,
    result::{Failure, FailureStep, OperationResult, PodResult, Window},
};

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

/// A good result of one pod: `count` GETs of `microseconds` each within `seconds`.
pub(crate) fn pod_result(pod: &str, count: u64, seconds: f64, microseconds: u64) -> PodResult {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    histogram.record_n(microseconds, count).unwrap();
    let latencies = Latencies::from_microseconds(histogram);
    let mut result = PodResult::failed(
        "read",
        1,
        pod,
        Failure {
            step: FailureStep::Tool,
            message: String::new(),
            exit_code: None,
            signal: None,
            last_lines: vec![],
        },
    );
    result.failure = None;
    result.tool.name = "loadgen".into();
    result.window = Window {
        start_unix_nanos: 1_800_000_000_000_000_000,
        seconds,
        start_skew_seconds: 0.001,
        clock_offset_seconds: 0.0,
    };
    result.client.cpu_seconds = seconds;
    result.operations = vec![OperationResult {
        operation: "GET".into(),
        count,
        hits: Some(count),
        misses: Some(0),
        errors: 0,
        bytes: count * 100,
        latency_milliseconds: latencies.summary(),
        histogram: Some(latencies.encode().unwrap()),
    }];
    result
}

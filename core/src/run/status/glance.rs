//! The result at a glance: one phase's figures, in whole numbers. Pure.

use dragstrip_crds::{
    BenchmarkRunSpec,
    run::{Headline, OperationStatus, PhaseStatus},
};
use dragstrip_results::result::TOTAL;

/// The headline of `spec` when `phases` were measured: the phase that it names, else the last with a
/// throughput, since phases that fill the server come first.
pub(super) fn headline(spec: &BenchmarkRunSpec, phases: &[PhaseStatus]) -> Option<Headline> {
    let phase = match &spec.headline {
        Some(name) => phases.iter().find(|phase| phase.name == *name),
        None => phases.iter().rfind(|phase| throughput(phase).is_some()).or(phases.last()),
    }?;
    let p99 = total(phase).and_then(|total| total.latency_milliseconds.p99);
    Some(Headline {
        phase: phase.name.clone(),
        throughput: throughput(phase),
        p99_latency_microseconds: p99.map(|p99| rounded(p99 * 1000.0)),
        limiter: phase.limited_by.as_ref().map(|limited| limited.by),
    })
}

fn total(phase: &PhaseStatus) -> Option<&OperationStatus> {
    phase.operations.iter().find(|operation| operation.operation == TOTAL)
}

fn throughput(phase: &PhaseStatus) -> Option<i64> {
    total(phase).map(|total| rounded(total.operations_per_second.mean))
}

// Throughput and latency are far below 2^63: rounding is safe.
#[allow(clippy::cast_possible_truncation)]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run;
    use serde_json::{Value, json};

    fn phase_of(name: &str, operations: &Value) -> PhaseStatus {
        serde_json::from_value(json!({
            "name": name, "tool": {"name": "t"}, "operations": operations, "repetitions": [],
            "limitedBy": {"by": "Server", "evidence": "e"}
        }))
        .unwrap()
    }

    fn total(rate: f64, p99: Option<f64>) -> Value {
        json!([{
            "operation": "TOTAL", "count": 1, "operationsPerSecond": {"repetitions": 1, "mean": rate},
            "bytesPerSecond": 0.0, "errors": 0, "latencyMilliseconds": {"p99": p99}
        }])
    }

    #[test]
    fn the_headline_is_that_of_the_last_phase_with_a_throughput_or_of_the_one_that_is_named() {
        let mut spec = run(&["write", "read", "script"], 1).spec;
        let phases = [
            phase_of("write", &total(1234.4, None)),
            phase_of("read", &total(50.0, Some(0.5))),
            phase_of("script", &json!([])),
        ];
        let reported = |spec: &BenchmarkRunSpec, phases: &[PhaseStatus]| {
            headline(spec, phases).map(|it| (it.phase, it.throughput, it.p99_latency_microseconds))
        };
        assert_eq!(reported(&spec, &phases), Some(("read".into(), Some(50), Some(500))));
        assert_eq!(
            reported(&spec, &phases[2..]),
            Some(("script".into(), None, None)),
            "an omitted figure is not zero"
        );
        assert_eq!(reported(&spec, &[]), None);
        spec.headline = Some("write".into());
        assert_eq!(reported(&spec, &phases), Some(("write".into(), Some(1234), None)));
        assert_eq!(reported(&spec, &phases[1..]), None, "another phase's figures are not the headline");
    }
}

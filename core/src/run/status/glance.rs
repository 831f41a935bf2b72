//! The result at a glance: one phase's figures, in whole numbers. Pure.

use crate::run::summary::headline_figure;
use dragstrip_crds::{
    BenchmarkRunSpec,
    run::{Headline, OperationStatus, PhaseStatus},
    units::number,
};
use dragstrip_results::result::TOTAL;

/// The headline of `spec` when `phases` were measured: the phase that it names, else the last with a
/// throughput or a metric of its own, since phases that fill the server come first.
pub(super) fn headline(spec: &BenchmarkRunSpec, phases: &[PhaseStatus]) -> Option<Headline> {
    let named = |name: &String| phases.iter().find(|phase| phase.name == *name);
    let shown = |phase: &&PhaseStatus| throughput(phase).is_some() || metric(spec, phase).is_some();
    let last = || phases.iter().rfind(shown).or(phases.last());
    let phase = spec.headline.as_ref().map_or_else(last, named)?;
    let p99 = total(phase).and_then(|total| total.latency_milliseconds.p99);
    Some(Headline {
        phase: phase.name.clone(),
        throughput: throughput(phase),
        p99_latency_microseconds: p99.map(|p99| rounded(p99 * 1000.0)),
        metric: metric(spec, phase),
        limiter: phase.limited_by.as_ref().map(|limited| limited.by),
    })
}

/// The metric that the phase declares as its headline, with its unit.
fn metric(spec: &BenchmarkRunSpec, phase: &PhaseStatus) -> Option<String> {
    let declared = spec.phases.iter().find(|declared| declared.name == phase.name)?;
    let (value, unit) = headline_figure(declared, phase)?;
    Some(format!("{} {unit}", number(value)).trim_end().to_owned())
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

    #[test]
    fn a_metric_that_a_phase_declares_is_its_headline_with_its_unit() {
        let mut spec = run(&["write", "script"], 1).spec;
        let mut script = phase_of("script", &json!([]));
        script.metrics =
            serde_json::from_value(json!([{"name": "Set ns/op", "value": 12_345.2, "unit": "ns/op"}]))
                .unwrap();
        let phases = [script, phase_of("write", &total(1234.4, Some(0.5)))];
        let reported = |spec: &BenchmarkRunSpec| headline(spec, &phases).and_then(|it| it.metric);
        assert_eq!(reported(&spec), None, "nothing is declared");
        spec.phases[0].headline = Some("P99Milliseconds".into());
        assert_eq!(reported(&spec).as_deref(), Some("0.500 ms"));
        spec.phases[1].headline = Some("Set ns/op".into());
        let only_script = headline(&spec, &phases[..1]).unwrap();
        assert_eq!((only_script.throughput, only_script.metric.as_deref()), (None, Some("12,345 ns/op")));
        spec.phases[0].headline = Some("add_jobs".into());
        assert_eq!(reported(&spec), None, "a metric that the tool does not report is not invented");
    }
}

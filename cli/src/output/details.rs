//! What a report's tables do not hold: hits and misses, what limited each phase, what preceded
//! the load, searches, the last lines of a failed tool. Pure.

mod lines;
mod search;

pub use lines::noise;

use super::figures::rate;
use dragstrip_crds::{
    BenchmarkRun,
    run::PhaseStatus,
    units::{counted, thousands},
};
use dragstrip_results::result::TOTAL;
use kube::ResourceExt;
use std::fmt::Write;

/// Hits, misses, errors and the tool's own rate where it is another than the table's, by operation.
fn operations(phase: &PhaseStatus) -> impl Iterator<Item = String> {
    // The total of a single operation repeats it.
    let repeats = |name: &str| name == TOTAL && phase.operations.len() == 2;
    phase.operations.iter().filter(move |it| !repeats(&it.operation)).filter_map(|operation| {
        let hits = operation.hits.map(|hits| counted(hits, "hit"));
        let misses = operation.misses.map(|misses| format!("{} missed", thousands(misses)));
        let errors = (operation.errors > 0).then(|| counted(operation.errors, "error"));
        let own = operation.tool_operations_per_second.map(rate);
        let own = own.filter(|own| *own != rate(operation.operations_per_second.mean));
        let own = own.map(|own| format!("the tool itself reports {own} ops/s"));
        let parts: Vec<String> = [hits, misses, errors, own].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{}: {}: {}", phase.name, operation.operation, parts.join(", ")))
    })
}

pub fn of(runs: &[BenchmarkRun]) -> String {
    let mut text = String::new();
    for run in runs {
        let status = run.status.clone().unwrap_or_default();
        let message = status.message.clone().unwrap_or_else(|| "no status yet".to_owned());
        let verdict = status.verdict.map(|verdict| format!(", {verdict}")).unwrap_or_default();
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{}: {}{verdict} - {message}", run.name_any(), status.phase);
        for line in status.phases.iter().flat_map(operations).chain(lines::lines(&status)) {
            let _ = writeln!(text, "    {line}");
        }
        for line in status.failure.iter().flat_map(|failure| &failure.last_lines) {
            let _ = writeln!(text, "    | {line}");
        }
        text.push_str(&search::curves(&status));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::{
        measured::LatencySummary,
        run::{ClientsSpec, OperationStatus},
    };

    fn run(name: &str, target: &str, rate: f64) -> BenchmarkRun {
        let latency =
            |p50: f64| LatencySummary { p50: Some(p50), p99: Some(2.0 * p50), ..LatencySummary::default() };
        let operation = |name: &str| OperationStatus {
            operation: name.into(),
            count: 10,
            operations_per_second: dragstrip_results::statistics::spread(&[rate]).unwrap(),
            tool_operations_per_second: Some(0.5 * rate),
            bytes_per_second: 2_500_000.0,
            hits: Some(9),
            misses: Some(1),
            errors: 0,
            latency_milliseconds: latency(0.125),
        };
        let mut run = BenchmarkRun::new(
            name,
            dragstrip_crds::BenchmarkRunSpec {
                target: serde_json::from_value(serde_json::json!({"datastoreRef": {"name": target}}))
                    .unwrap(),
                phases: vec![],
                repetitions: 1,
                max_retries: 1,
                clients: ClientsSpec::default(),
                timeout: "1m".parse().unwrap(),
                requirements: vec![],
                headline: None,
                thresholds: vec![],
                calibrate: false,
                ttl_after_finished: None,
                cancel: false,
            },
        );
        run.status = Some(dragstrip_crds::BenchmarkRunStatus {
            message: Some("1 measurement stored".into()),
            target: Some(dragstrip_crds::run::TargetStatus { name: target.into(), ..Default::default() }),
            phases: vec![PhaseStatus {
                name: "read".into(),
                tool: dragstrip_crds::run::ToolStatus::default(),
                operations: vec![operation("GET"), operation("TOTAL")],
                repetitions: vec![],
                verdict: Some(dragstrip_crds::run::Verdict::Valid),
                reasons: vec![],
                limited_by: None,
                confirmation: None,
                metrics: vec![],
                batches: None,
                schedule: None,
                search: None,
                server_cpus: None,
                operations_per_core_second: None,
                server_memory: None,
                memory: vec![],
                cost_per_million_operations_usd: None,
                warmup_seconds: None,
                loaded_keys: None,
                notes: vec![],
            }],
            ..Default::default()
        });
        run
    }

    #[test]
    fn hits_misses_and_the_tools_own_rate_are_printed_by_operation() {
        let text = of(&[run("a", "redis", 151_234.4)]);
        assert!(text.contains("a: Pending - 1 measurement stored"), "{text}");
        assert!(text.contains("read: GET: 9 hits, 1 missed, the tool itself reports 75,617 ops/s"), "{text}");
        assert!(!text.contains("TOTAL"), "it repeats GET: {text}");
        let mut equal = run("b", "redis", 75_617.0);
        let phases = &mut equal.status.as_mut().unwrap().phases;
        phases[0].operations[0].tool_operations_per_second = Some(75_617.2);
        let text = of(&[equal]);
        assert!(!text.contains("the tool itself"), "it repeats the table: {text}");
    }
}

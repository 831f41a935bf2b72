//! Results as a table like memtier's own summary, several runs side by side.
//! Pure.

mod details;
pub mod pods;
mod search;

use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::{
    BenchmarkRun,
    run::{OperationStatus, PhaseStatus},
    units::thousands,
};
use kube::ResourceExt;
use std::fmt::Write;

const HEADER: [&str; 16] = [
    "Phase",
    "Target",
    "Verdict",
    "Type",
    "Ops/sec",
    "±95%",
    "Tool's own",
    "Hits",
    "Misses",
    "Errors",
    "Avg ms",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "Max ms",
    "MB/sec",
];

// Throughput is far below 2^63 and never negative: rounding is safe.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> String {
    thousands(value.round() as u64)
}

fn or_dashes(value: Option<u64>) -> String {
    value.map_or_else(|| "---".to_owned(), thousands)
}

/// Megabytes per second; client libraries do not tell how many bytes they send.
fn megabytes(bytes: f64) -> String {
    if bytes > 0.0 { format!("{:.2}", bytes / 1e6) } else { "---".to_owned() }
}

fn row(phase: &PhaseStatus, target: &str, operation: &OperationStatus) -> Vec<String> {
    let latency = &operation.latency_milliseconds;
    let milliseconds =
        |value: Option<f64>| value.map_or_else(|| "---".to_owned(), |value| format!("{value:.3}"));
    vec![
        phase.name.clone(),
        target.to_owned(),
        phase.verdict.map_or_else(|| "---".to_owned(), |verdict| verdict.to_string()),
        operation.operation.clone(),
        whole(operation.operations_per_second.mean),
        operation.operations_per_second.confidence95.map_or_else(|| "---".to_owned(), whole),
        operation.tool_operations_per_second.map_or_else(|| "---".to_owned(), whole),
        or_dashes(operation.hits),
        or_dashes(operation.misses),
        thousands(operation.errors),
        milliseconds(latency.mean),
        milliseconds(latency.p50),
        milliseconds(latency.p99),
        milliseconds(latency.p999),
        milliseconds(latency.max),
        megabytes(operation.bytes_per_second),
    ]
}

fn label(run: &BenchmarkRun) -> String {
    let target = run.status.as_ref().and_then(|status| status.target.as_ref());
    target.map_or_else(
        || run.name_any(),
        |target| match &target.observed {
            Some(server) => match server.engine {
                Some(engine) => format!("{} ({engine} {})", target.name, server.version),
                None => format!("{} ({})", target.name, server.version),
            },
            None => target.name.clone(),
        },
    )
}

fn phases(run: &BenchmarkRun) -> &[PhaseStatus] {
    run.status.as_ref().map_or(&[], |status| &status.phases)
}

/// The rows worth showing: every operation, and the total only where there are several.
fn shown(phase: &PhaseStatus) -> impl Iterator<Item = &OperationStatus> {
    let several = phase.operations.len() > 2;
    phase.operations.iter().filter(move |op| several || op.operation != "TOTAL")
}

/// All results of `runs`: phase by phase in the order of the first run that has
/// them, one line per run and operation, then what each run has to say.
pub fn report(runs: &[BenchmarkRun]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for phase in runs.iter().flat_map(phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(HEADER);
    for name in names {
        for run in runs {
            for phase in phases(run).iter().filter(|phase| phase.name == name) {
                for operation in shown(phase) {
                    table.add_row(row(phase, &label(run), operation));
                }
            }
        }
    }
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    for run in runs {
        let status = run.status.clone().unwrap_or_default();
        let message = status.message.clone().unwrap_or_else(|| "no status yet".to_owned());
        // Writing into a String cannot fail.
        let verdict = status.verdict.map(|verdict| format!(", {verdict}")).unwrap_or_default();
        let _ = writeln!(text, "{}: {}{verdict} - {message}", run.name_any(), status.phase);
        for line in details::lines(&status) {
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
    use dragstrip_crds::{measured::LatencySummary, run::ClientsSpec};

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
                target: dragstrip_crds::run::Target { datastore_ref: None, datastore: None, external: None },
                phases: vec![],
                repetitions: 1,
                max_retries: 1,
                clients: ClientsSpec::default(),
                timeout: "1m".parse().unwrap(),
                requirements: vec![],
                calibrate: false,
                ttl_after_finished: None,
                cancel: false,
            },
        );
        run.status = Some(dragstrip_crds::BenchmarkRunStatus {
            message: Some("all 1 measurements are stored".into()),
            target: Some(dragstrip_crds::run::TargetStatus { name: target.into(), ..Default::default() }),
            phases: vec![PhaseStatus {
                name: "read".into(),
                tool: dragstrip_crds::run::ToolStatus::default(),
                operations: vec![operation("GET"), operation("TOTAL")],
                repetitions: vec![],
                verdict: Some(dragstrip_crds::run::Verdict::Valid),
                reasons: vec![],
                limited_by: None,
                metrics: vec![],
                batches: None,
                schedule: None,
                search: None,
                server_memory: None,
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
    fn latencies_and_bytes_that_are_not_known_are_dashes() {
        let mut run = run("a", "redis", 10.0);
        if let Some(status) = &mut run.status {
            status.phases[0].operations[0].bytes_per_second = 0.0;
        }
        let text = report(&[run]);
        assert!(text.contains("0.125") && text.contains("0.250"), "{text}");
        let unknown = text.matches("---").count();
        assert_eq!(unknown, 5, "±95 %, mean, p99.9, maximum and bytes were not told:\n{text}");
        assert!(!text.contains("0.000") && !text.contains("0.00 "), "{text}");
    }

    #[test]
    fn the_tools_own_rate_stands_beside_ours() {
        let text = report(&[run("a", "redis", 151_234.4)]);
        assert!(text.contains("Tool's own") && text.contains("75,617"), "{text}");
    }

    #[test]
    fn operations_without_a_total_are_all_shown() {
        let mut run = run("a", "redis", 10.0);
        if let Some(status) = &mut run.status {
            status.phases[0].operations[1].operation = "SET".into();
        }
        let text = report(&[run]);
        assert!(text.contains("GET") && text.contains("SET") && !text.contains("TOTAL"), "{text}");
    }

    #[test]
    fn runs_stand_side_by_side_under_their_phase() {
        let text = report(&[run("a", "redis", 151_234.4), run("b", "valkey", 160_000.0)]);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("GET")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].contains("redis") && lines[0].contains("151,234") && lines[0].contains("0.250"),
            "{text}"
        );
        assert!(lines[1].contains("valkey") && lines[1].contains("160,000"), "{text}");
        assert!(!text.contains("TOTAL"), "a total of one operation says nothing new:\n{text}");
        assert!(text.contains("a: Pending - all 1 measurements are stored"), "{text}");
    }
}

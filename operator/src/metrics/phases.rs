//! A run's phase as metrics. Pure.

use super::{
    families::{Families, Metric},
    workload,
};
use dragstrip_core::run::search::raised;
use dragstrip_crds::{
    measured::LatencySummary,
    run::{OperationStatus, PhaseSpec, PhaseStatus, SearchPointStatus, SearchStatus, Verdict},
};
use dragstrip_results::result::TOTAL;
use std::collections::BTreeMap;

const INFO: Metric = Metric("dragstrip_run_phase_info", "Workload of a phase; always 1.");
const VERDICT: Metric =
    Metric("dragstrip_run_phase_verdict", "1 for the verdict of a phase: Valid, Degraded or Invalid.");
const REASON: Metric =
    Metric("dragstrip_run_phase_reason", "1 for each check that a phase did not pass, with its level.");
const LIMITED_BY: Metric =
    Metric("dragstrip_run_phase_limited_by", "1 for the limiter of a phase's throughput.");
const RATE: Metric =
    Metric("dragstrip_run_operations_per_second", "Throughput of a phase, mean over its repetitions.");
const INTERVAL: Metric = Metric(
    "dragstrip_run_operations_per_second_interval",
    "Bounds of the 95% confidence interval of a phase's throughput.",
);
const REPETITION_RATE: Metric = Metric(
    "dragstrip_run_repetition_operations_per_second",
    "Throughput of all operations together in one repetition of a phase.",
);
const LATENCY: Metric =
    Metric("dragstrip_run_latency_seconds", "Percentiles of a phase's latency; 100 is the maximum.");
const MEAN_LATENCY: Metric = Metric("dragstrip_run_latency_mean_seconds", "Mean of a phase's latency.");
const OPERATIONS: Metric =
    Metric("dragstrip_run_operations", "Successful operations of a phase over all its repetitions.");
const ERRORS: Metric = Metric("dragstrip_run_errors", "Error replies of a phase over all its repetitions.");
const BYTES: Metric = Metric(
    "dragstrip_run_bytes_per_second",
    "Bytes per second of a phase, both directions, mean over its repetitions.",
);
const HIT_RATIO: Metric = Metric(
    "dragstrip_run_hit_ratio",
    "Share of a phase's reads that found their key, mean over its repetitions.",
);
const CLIENT_CPUS: Metric =
    Metric("dragstrip_run_client_cpus", "CPUs that a phase's client pods used, mean over its repetitions.");
const SERVER_MEMORY: Metric = Metric(
    "dragstrip_run_server_memory_bytes",
    "Memory of all server containers after a phase's load, and their peak.",
);
const COST: Metric = Metric(
    "dragstrip_run_cost_dollars_per_million_operations",
    "Price of the servers' nodes for the time that a million operations take.",
);
const SEARCH_RATE: Metric = Metric(
    "dragstrip_run_search_operations_per_second",
    "Throughput at a value of a search, mean over its repetitions.",
);
const SEARCH_LATENCY: Metric = Metric(
    "dragstrip_run_search_latency_seconds",
    "Percentiles of latency at a value of a search; the largest of several repetitions.",
);
const KNEE: Metric = Metric("dragstrip_run_search_knee", "The value that a search found.");

/// How much of a run the metrics show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Complete,
    /// Only the total of all operations, if there is one, and no single repetitions.
    Totals,
}

/// Percentiles of a latency in milliseconds, by name.
fn percentiles(latency: &LatencySummary) -> impl Iterator<Item = (&'static str, f64)> {
    let all = [
        ("50", latency.p50),
        ("90", latency.p90),
        ("95", latency.p95),
        ("99", latency.p99),
        ("99.9", latency.p999),
        ("99.99", latency.p9999),
        ("100", latency.max),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub(super) fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The info metric of a phase of a run with so many client `pods`, and what its search found.
pub fn info(
    pods: i32,
    index: usize,
    declared: &PhaseSpec,
    measured: Option<&PhaseStatus>,
    base: &str,
    page: &mut Families,
) {
    let pods = pods.unsigned_abs();
    let knee = measured.and_then(|phase| phase.search.as_ref()?.knee.as_ref());
    let (tool, pods) = match declared.search.as_ref().zip(knee) {
        Some((search, knee)) => raised(search, &declared.tool, pods, knee.value),
        None => (declared.tool.clone(), pods),
    };
    let reported = measured.map(|phase| phase.tool.clone()).unwrap_or_default();
    let name = if reported.name.is_empty() { tool.name() } else { &reported.name };
    let own = [
        ("index", &*index.to_string()),
        ("tool", name),
        ("tool_version", &text(reported.version)),
        ("mode", &text(reported.mode)),
        ("workload", &workload::summary(&tool)),
        ("pipeline", &text(workload::pipeline(&tool))),
        ("connections", &text(tool.connections().map(|each| each.saturating_mul(pods)))),
        ("client_pods", &pods.to_string()),
    ];
    page.add(&INFO, base, &own, 1.0);
}

fn verdict(phase: &PhaseStatus, base: &str, page: &mut Families) {
    if let Some(verdict) = phase.verdict {
        page.add(&VERDICT, base, &[("verdict", &verdict.to_string())], 1.0);
    }
    for reason in &phase.reasons {
        let level = if reason.verdict == Verdict::Invalid { "Required" } else { "Warn" };
        page.add(&REASON, base, &[("check", &reason.reason), ("level", level)], 1.0);
    }
    if let Some(limited) = &phase.limited_by {
        page.add(&LIMITED_BY, base, &[("limiter", &limited.by.to_string())], 1.0);
    }
}

fn operation(row: &OperationStatus, base: &str, page: &mut Families) {
    let of = ("operation", row.operation.as_str());
    let rate = row.operations_per_second;
    let latency = &row.latency_milliseconds;
    page.add(&RATE, base, &[of], rate.mean);
    if let Some(half) = rate.confidence95 {
        page.add(&INTERVAL, base, &[of, ("bound", "lower")], (rate.mean - half).max(0.0));
        page.add(&INTERVAL, base, &[of, ("bound", "upper")], rate.mean + half);
    }
    for (percentile, milliseconds) in percentiles(latency) {
        page.add(&LATENCY, base, &[of, ("percentile", percentile)], milliseconds / 1000.0);
    }
    page.add(&MEAN_LATENCY, base, &[of], latency.mean.map(|mean| mean / 1000.0));
    page.add(&OPERATIONS, base, &[of], row.count as f64);
    page.add(&ERRORS, base, &[of], row.errors as f64);
    page.add(&BYTES, base, &[of], row.bytes_per_second);
}

/// One point for each value: several repetitions measure the same values.
fn search(search: &SearchStatus, base: &str, page: &mut Families) {
    let raise = ("raise", &*format!("{:?}", search.raise));
    let mut points: BTreeMap<u64, Vec<&SearchPointStatus>> = BTreeMap::new();
    for point in &search.points {
        points.entry(point.value).or_default().push(point);
    }
    for (value, points) in points {
        let of = [raise, ("value", &value.to_string())];
        let rate = mean(points.iter().map(|point| point.operations_per_second));
        page.add(&SEARCH_RATE, base, &of, rate);
        let mut largest: BTreeMap<&str, f64> = BTreeMap::new();
        for (name, milliseconds) in points.iter().flat_map(|point| percentiles(&point.latency_milliseconds)) {
            let latency = largest.entry(name).or_default();
            *latency = latency.max(milliseconds);
        }
        for (name, milliseconds) in largest {
            page.add(&SEARCH_LATENCY, base, &[of[0], of[1], ("percentile", name)], milliseconds / 1000.0);
        }
    }
    if let Some(knee) = &search.knee {
        page.add(&KNEE, base, &[raise], knee.value as f64);
    }
}

/// The figures of a phase; `cost` gives the dollars per million operations at a throughput.
pub fn figures(
    phase: &PhaseStatus,
    detail: Detail,
    cost: &dyn Fn(f64) -> Option<f64>,
    base: &str,
    page: &mut Families,
) {
    verdict(phase, base, page);
    let total = phase.operations.iter().find(|row| row.operation == TOTAL);
    let complete = detail == Detail::Complete;
    for row in phase.operations.iter().filter(|row| complete || total.is_none_or(|total| *row == total)) {
        operation(row, base, page);
    }
    for repetition in phase.repetitions.iter().filter(|_| complete) {
        let of = [("repetition", &*repetition.repetition.to_string())];
        page.add(&REPETITION_RATE, base, &of, repetition.operations_per_second);
    }
    let repetitions = || phase.repetitions.iter();
    page.add(&HIT_RATIO, base, &[], mean(repetitions().filter_map(|repetition| repetition.hit_ratio)));
    page.add(&CLIENT_CPUS, base, &[], mean(repetitions().map(|repetition| repetition.client_cpus)));
    page.add(&COST, base, &[], total.and_then(|total| cost(total.operations_per_second.mean)));
    if let Some(memory) = phase.server_memory {
        page.add(&SERVER_MEMORY, base, &[("kind", "used")], memory.used_bytes as f64);
        page.add(&SERVER_MEMORY, base, &[("kind", "peak")], memory.peak_bytes as f64);
    }
    if let Some(found) = &phase.search {
        search(found, base, page);
    }
}

//! The metrics of a run: one info metric to join by, and lean values. Pure.

use super::{
    families::{Families, Metric, labels},
    phases::{self, Detail, text},
    prices::Prices,
};
use dragstrip_core::labels::{CELL_WORDS, SUITE};
use dragstrip_crds::{BenchmarkRun, BenchmarkRunStatus, run::NoiseStatus, thresholds::MetricName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

const INFO: Metric = Metric("dragstrip_run_info", "Target and nodes of a run; always 1.");
const STATE: Metric = Metric("dragstrip_run_state", "1 for the state of a run.");
const PROGRESS: Metric =
    Metric("dragstrip_run_progress_ratio", "Share of a run's stored measurements, from 0 to 1.");
const VERDICT: Metric =
    Metric("dragstrip_run_verdict", "1 for the verdict of a run: Valid, Degraded or Invalid.");
const START: Metric = Metric("dragstrip_run_start_timestamp_seconds", "When a run's first load began.");
const END: Metric = Metric("dragstrip_run_end_timestamp_seconds", "When a run ended.");
const NOISE: Metric = Metric(
    "dragstrip_run_noise_ratio",
    "Standard deviation of the throughput of equal repetitions on one start of a server, as a share of the mean.",
);
const MAX_MEMORY: Metric = Metric(
    "dragstrip_run_server_max_memory_bytes",
    "maxmemory of each server that a run loads; absent without a limit.",
);

/// Looks up the instance type of the node of that name.
pub type InstanceTypes<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn seconds(time: Option<&Time>) -> Option<f64> {
    Some(time?.0.as_second() as f64)
}

/// The name of the target: the resolved one, or else the declared one.
fn target(run: &BenchmarkRun, status: &BenchmarkRunStatus) -> String {
    let resolved = status.target.as_ref().map(|target| target.name.clone());
    resolved.unwrap_or_else(|| run.spec.target.name(&run.name_any()).to_owned())
}

/// The largest of all phases.
fn noise(noise: &NoiseStatus) -> Option<f64> {
    let throughput = noise.figures.iter().filter(|figure| figure.metric == MetricName::OperationsPerSecond);
    throughput.map(|figure| figure.between_repetitions).reduce(f64::max)
}

/// What a suite's run measures, the same for all its repetitions and in each round of a schedule.
fn combination(run: &BenchmarkRun) -> &str {
    let words = run.annotations().get(CELL_WORDS).map(String::as_str).unwrap_or_default();
    words.rsplit_once(", ").filter(|(_, which)| which.contains(" of ")).map_or(words, |(words, _)| words)
}

fn info(
    run: &BenchmarkRun,
    status: &BenchmarkRunStatus,
    instance_type: &InstanceTypes,
    base: &str,
    page: &mut Families,
) {
    let resolved = status.target.clone().unwrap_or_default();
    let observed = resolved.observed.as_ref();
    let server_node = resolved.nodes.first().map(String::as_str).unwrap_or_default();
    let client_node = status.nodes.iter().find(|node| node.loads).map_or("", |node| node.name.as_str());
    let own = [
        ("target", &*target(run, status)),
        ("engine", &text(observed.and_then(|truth| truth.engine))),
        ("engine_version", &text(observed.map(|truth| &truth.version))),
        ("threads", &text(observed.and_then(|truth| truth.threads))),
        ("instances", &text(resolved.servers)),
        ("server_instance_type", &text(instance_type(server_node))),
        ("client_instance_type", &text(instance_type(client_node))),
        ("server_node", server_node),
        ("client_node", client_node),
        ("suite", run.labels().get(SUITE).map(String::as_str).unwrap_or_default()),
        ("combination", combination(run)),
    ];
    page.add(&INFO, base, &own, 1.0);
}

pub fn families(
    run: &BenchmarkRun,
    detail: Detail,
    instance_types: &InstanceTypes,
    prices: &Prices,
) -> Families {
    let status = run.status.clone().unwrap_or_default();
    // The run's status outlives its nodes.
    let instance_type = |name: &str| {
        let recorded = status.nodes.iter().find(|node| node.name == name);
        recorded.and_then(|node| node.instance_type.clone()).or_else(|| instance_types(name))
    };
    let base = labels("", &[("namespace", &run.namespace().unwrap_or_default()), ("run", &run.name_any())]);
    let mut page = Families::default();
    info(run, &status, &instance_type, &base, &mut page);
    page.add(&STATE, &base, &[("state", &status.phase.to_string())], 1.0);
    if let Some(verdict) = status.verdict {
        page.add(&VERDICT, &base, &[("verdict", &verdict.to_string())], 1.0);
    }
    let progress = status.progress.filter(|progress| progress.total > 0);
    let share = progress.map(|progress| f64::from(progress.measured) / f64::from(progress.total));
    page.add(&PROGRESS, &base, &[], share);
    page.add(&START, &base, &[], seconds(status.started_at.as_ref()));
    page.add(&END, &base, &[], seconds(status.finished_at.as_ref()));
    let observed = status.target.as_ref().and_then(|target| target.observed.as_ref());
    let max_memory = observed.and_then(|truth| truth.max_memory_bytes).filter(|bytes| *bytes > 0);
    page.add(&MAX_MEMORY, &base, &[], max_memory.map(|bytes| bytes as f64));
    page.add(&NOISE, &base, &[], status.noise.as_ref().and_then(noise));
    let servers = status.target.iter().flat_map(|target| &target.nodes);
    let servers: Vec<Option<String>> = servers.map(|name| instance_type(name)).collect();
    let cost = |rate| prices.per_million_operations(&servers, rate);
    for (index, declared) in run.spec.phases.iter().enumerate() {
        let measured = status.phases.iter().find(|phase| phase.name == declared.name);
        let base = labels(&base, &[("phase", &declared.name)]);
        phases::info(run.spec.clients.pods, index, declared, measured, &base, &mut page);
        if let Some(measured) = measured {
            phases::figures(measured, detail, &cost, &base, &mut page);
        }
    }
    page
}

//! Results of a run: read back from its ConfigMaps, and checked against its status.

use crate::Env;
use anyhow::{Context, Result, ensure};
use dragstrip_core::labels::RUN_UID;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus,
    measured::LatencySummary,
    run::{OperationStatus, PhaseStatus},
};
use dragstrip_results::{result::RepetitionResult, stored::PART};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use std::{collections::BTreeMap, io::Read};

/// Key of the compressed result in its ConfigMap.
const KEY: &str = "result.json.gz";
/// Its annotation that says how many ConfigMaps hold the result.
const PARTS: &str = "dragstrip.dev/result-parts";
/// And the one with the end of the names of all but the first.
const CHECKSUM: &str = "dragstrip.dev/result-parts-checksum";

impl Env {
    /// The result that begins in the ConfigMap `name`.
    pub async fn result(&self, name: &str) -> Result<RepetitionResult> {
        let first = self.api::<ConfigMap>().get(name).await?;
        let parts = first.annotations().get(PARTS).map_or(Ok(1), |parts| parts.parse::<usize>())?;
        let checksum = first.annotations().get(CHECKSUM).cloned().unwrap_or_default();
        let mut bytes = part(first)?;
        for number in 2..=parts {
            bytes.extend(part(self.api().get(&format!("{name}.part-{number}-{checksum}")).await?)?);
        }
        let mut json = String::new();
        GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut json)
            .with_context(|| format!("ConfigMap {name} holds no gzip"))?;
        serde_json::from_str(&json).with_context(|| format!("ConfigMap {name} holds no result: {json:.200}"))
    }

    /// All results that a run's status points to, in the order measured.
    pub async fn results(&self, run: &BenchmarkRun) -> Result<Vec<RepetitionResult>> {
        let mut results = Vec::new();
        for phase in status(run)?.phases {
            for repetition in &phase.repetitions {
                results.push(self.result(&repetition.config_map).await?);
            }
        }
        results.sort_by_key(|result| window(result).0);
        Ok(results)
    }

    /// All results that the run with this uid stored, lost ones too, by the name of their ConfigMap.
    pub async fn stored_results(&self, uid: &str) -> Result<BTreeMap<String, RepetitionResult>> {
        let mut results = BTreeMap::new();
        for config_map in self.labelled::<ConfigMap>(&format!("{RUN_UID}={uid},!{PART}")).await? {
            let name = config_map.name_any();
            results.insert(name.clone(), self.result(&name).await?);
        }
        Ok(results)
    }

    /// How often the tools of a run sent `command`, warm-ups included.
    pub async fn sent(&self, status: &BenchmarkRunStatus, command: &str) -> Result<u64> {
        let mut sent = count(status, command);
        for repetition in status.phases.iter().flat_map(|phase| &phase.repetitions) {
            let result = self.result(&repetition.config_map).await?;
            sent += result.pods.iter().filter_map(|pod| pod.warmup.get(command)).sum::<u64>();
        }
        Ok(sent)
    }
}

fn part(config_map: ConfigMap) -> Result<Vec<u8>> {
    let name = config_map.name_any();
    let bytes = config_map.binary_data.unwrap_or_default().remove(KEY);
    Ok(bytes.with_context(|| format!("ConfigMap {name} has no {KEY}"))?.0)
}

/// A run's status; an error when it has none.
pub fn status(run: &BenchmarkRun) -> Result<BenchmarkRunStatus> {
    let name = run.name_any();
    run.status.clone().with_context(|| format!("run {name} has no status"))
}

/// Start and end of a result's load, in nanoseconds of Unix time.
pub fn window(result: &RepetitionResult) -> (i64, i64) {
    let starts = result.pods.iter().map(|pod| pod.window.start_unix_nanos);
    let end = |pod: &dragstrip_results::result::PodResult| {
        // A load lasts seconds to days: far below what an i64 of nanoseconds holds.
        #[allow(clippy::cast_possible_truncation)]
        let nanos = (pod.window.seconds * 1e9) as i64;
        pod.window.start_unix_nanos + nanos
    };
    (starts.min().unwrap_or_default(), result.pods.iter().map(end).max().unwrap_or_default())
}

/// Whether no two of these loads ran at the same time, whichever came first.
pub fn never_together(results: &[RepetitionResult]) -> Result<()> {
    let mut in_order: Vec<&RepetitionResult> = results.iter().collect();
    in_order.sort_by_key(|result| window(result));
    for pair in in_order.windows(2) {
        let ((_, end), (start, _)) = (window(pair[0]), window(pair[1]));
        ensure!(
            end <= start,
            "load of {} began {} ms before that of {} ended",
            pair[1].phase,
            (end - start) / 1_000_000,
            pair[0].phase
        );
    }
    Ok(())
}

/// The phase called `name` in a status.
pub fn phase<'a>(status: &'a BenchmarkRunStatus, name: &str) -> Result<&'a PhaseStatus> {
    let found = status.phases.iter().find(|phase| phase.name == name);
    found.with_context(|| format!("the status shows no phase {name}"))
}

/// The row of `operation` in a phase.
pub fn operation<'a>(phase: &'a PhaseStatus, operation: &str) -> Result<&'a OperationStatus> {
    let found = phase.operations.iter().find(|row| row.operation == operation);
    found.with_context(|| format!("phase {} shows no {operation}", phase.name))
}

/// All successful operations that the status shows for `name`, over all phases.
pub fn count(status: &BenchmarkRunStatus, name: &str) -> u64 {
    let rows = status.phases.iter().flat_map(|phase| &phase.operations);
    rows.filter(|row| row.operation == name).map(|row| row.count).sum()
}

fn ordered(latency: &LatencySummary) -> bool {
    let line = [latency.p50, latency.p90, latency.p95, latency.p99, latency.p999, latency.p9999, latency.max];
    // Few requests have no percentiles of the tail.
    line.into_iter().flatten().is_sorted() && latency.p50 > Some(0.0) && latency.mean > Some(0.0)
}

/// How many seconds a tool's own duration may be off: memtier averages whole
/// seconds and their fractions apart.
fn duration_error_seconds(tool: &str) -> f64 {
    if tool == "memtier" { 1.0 } else { 0.0 }
}

/// The rates that a tool may report for `total` a second over a window, where its
/// duration is off by as much as `off` seconds: 5 % more or less.
fn own_rates(total: f64, window: f64, off: f64) -> std::ops::RangeInclusive<f64> {
    let longest = total * window / (window - off).max(f64::MIN_POSITIVE);
    0.95 * total * window / (window + off)..=1.05 * longest
}

/// Whether a phase's numbers can be true at all, of a tool that counts its bytes.
pub fn plausible(phase: &PhaseStatus) -> Result<()> {
    let silent = phase.operations.iter().find(|row| row.bytes_per_second <= 0.0);
    ensure!(silent.is_none(), "phase {}: no bytes in {silent:?}", phase.name);
    plausible_without_bytes(phase)
}

/// The same of a tool that does not count them, as client libraries do not.
pub fn plausible_without_bytes(phase: &PhaseStatus) -> Result<()> {
    let name = &phase.name;
    ensure!(
        ["loadgen", "memtier", "bullmq", "exec"].iter().any(|tool| phase.tool.name.contains(tool)),
        "phase {name}: tool {:?}",
        phase.tool.name
    );
    // Adds and processed jobs are two things, without a sum.
    let jobs = phase.operations.iter().any(|row| row.operation == "PROCESS");
    ensure!(
        phase.operations.last().is_some_and(|row| (row.operation == "TOTAL") != jobs),
        "phase {name}: TOTAL is not the last row, or there is one of two things: {:?}",
        phase.operations
    );
    for row in &phase.operations {
        ensure!(
            row.count > 0 && row.errors == 0 && row.operations_per_second.mean > 100.0,
            "phase {name}: implausible {row:?}"
        );
        ensure!(ordered(&row.latency_milliseconds), "phase {name}: percentiles out of order in {row:?}");
    }
    for repetition in &phase.repetitions {
        let total = repetition.operations_per_second.with_context(|| format!("phase {name}: no total"))?;
        let tool = repetition.tool_operations_per_second.unwrap_or(total);
        let window = repetition.window_seconds;
        let own = own_rates(total, window, duration_error_seconds(&phase.tool.name));
        ensure!(
            own.contains(&tool) && repetition.client_cpus > 0.0 && window > 0.0,
            "phase {name}: implausible {repetition:?}"
        );
    }
    Ok(())
}

/// Whether a stored result says what the status says, for a phase measured once.
pub fn agrees(result: &RepetitionResult, phase: &PhaseStatus) -> Result<()> {
    ensure!(result.failure.is_none(), "phase {}: stored with failure {:?}", phase.name, result.failure);
    for row in &phase.operations {
        let stored = result.operations.iter().find(|op| op.name == row.operation);
        let stored = stored.with_context(|| format!("phase {}: no stored {}", phase.name, row.operation))?;
        ensure!(
            (stored.count, stored.errors, stored.hits, stored.misses)
                == (row.count, row.errors, row.hits, row.misses)
                && stored.latency_milliseconds == row.latency_milliseconds
                && stored.histogram.is_some(),
            "phase {}: status says {row:?}, the result {stored:?}",
            phase.name
        );
    }
    Ok(())
}

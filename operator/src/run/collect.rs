//! From pods that have ended to one repetition's result. [`read`] needs the
//! client; merging is pure: counts are summed, throughput is taken over the
//! window in which every client was active, histograms are added.

use super::{
    build::CLIENT_CONTAINER,
    validate::{Attempt, ValidatedRun},
};
use crate::cluster::pods;
use dragstrip_crds::{
    counters::{counters_agree, joined},
    histogram::{EncodedHistogram, Latencies, LatencySummary},
    result::{Failure, FailureStep, LOG_MARKER, MergedOperation, PodFailure, PodResult, RepetitionResult},
};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::{Api, Client, ResourceExt, api::LogParams};
use std::io::Write;

/// A step of storing a result that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The result could not be written as JSON.
    #[error("failed to write the result as JSON")]
    Encode(#[source] serde_json::Error),
    /// The result could not be compressed.
    #[error("failed to compress the result")]
    Compress(#[source] std::io::Error),
}

/// The result as gzipped JSON, as its ConfigMap keeps it.
pub fn pack(result: &RepetitionResult) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(result).map_err(Error::Encode)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json).map_err(Error::Compress)?;
    encoder.finish().map_err(Error::Compress)
}

/// The last whole result in a runner's log.
fn from_log(log: &str) -> Option<PodResult> {
    log.lines().rev().find_map(|line| serde_json::from_str(line.strip_prefix(LOG_MARKER)?).ok())
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    pods::containers(pod)
        .find(|container| container.name == CLIENT_CONTAINER)
        .and_then(|container| container.state.as_ref()?.terminated.as_ref())
}

/// What can be said of a pod that left no result.
fn without_result(attempt: &Attempt, pod: &Pod) -> PodResult {
    let ended = terminated(pod);
    let status = pod.status.as_ref();
    let why = status
        .and_then(|s| s.reason.clone())
        .or_else(|| ended.and_then(|e| e.reason.clone()))
        .unwrap_or_else(|| "no reason given".to_owned());
    let detail = status.and_then(|s| s.message.clone()).map(|m| format!(" ({m})")).unwrap_or_default();
    PodResult::failed(
        &attempt.phase,
        attempt.repetition,
        &pod.name_any(),
        Failure {
            step: FailureStep::Tool,
            message: format!("the pod ended without a result: {why}{detail}"),
            exit_code: ended.map(|e| e.exit_code),
            signal: ended.and_then(|e| e.signal),
            last_lines: Vec::new(),
        },
    )
}

/// What `pod` has to say: its log's result, else the compact one of its
/// termination message, else why there is none.
async fn read_pod(client: &Client, attempt: &Attempt, pod: &Pod) -> PodResult {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let parameters = LogParams { container: Some(CLIENT_CONTAINER.to_owned()), ..LogParams::default() };
    match api.logs(&pod.name_any(), &parameters).await {
        Ok(log) => {
            if let Some(result) = from_log(&log) {
                return result;
            }
        }
        // The node may be gone; the termination message is in the pod itself.
        Err(error) => {
            tracing::warn!(pod = %pod.name_any(), %error, "no log, falling back to the termination message");
        }
    }
    terminated(pod)
        .and_then(|ended| serde_json::from_str(ended.message.as_deref()?).ok())
        .unwrap_or_else(|| without_result(attempt, pod))
}

/// Reads the results of all `pods` of `attempt`.
pub async fn read(client: &Client, run: &ValidatedRun, attempt: &Attempt, pods: &[&Pod]) -> RepetitionResult {
    let mut results = Vec::with_capacity(pods.len());
    for pod in pods {
        results.push(read_pod(client, attempt, pod).await);
    }
    let mut merged = merge(attempt, run.pods(), results);
    if merged.failure.is_none()
        && let Some(message) = disagreement(run, attempt, &merged.pods)
    {
        merged.failure = Some(PodFailure {
            pod: attempt.name.clone(),
            failure: Failure {
                step: FailureStep::CounterCheck,
                message,
                exit_code: None,
                signal: None,
                last_lines: Vec::new(),
            },
        });
    }
    merged
}

/// The window in which every client was active, as start and end in seconds
/// after the earliest start.
fn common_window(results: &[PodResult]) -> (f64, f64) {
    let first = results.iter().map(|r| r.window.start_unix_nanos).min().unwrap_or(0);
    // Differences of pods of one repetition are seconds: exact as floats.
    let start = |r: &PodResult| (r.window.start_unix_nanos - first) as f64 / 1e9;
    let begin = results.iter().map(start).fold(0.0, f64::max);
    let end = results.iter().map(|r| start(r) + r.window.seconds).fold(f64::INFINITY, f64::min);
    (begin, end.max(begin))
}

/// Throughput of `count` operations: of one pod, its count over its window; of
/// several, the share of each pod's count that falls into the common window,
/// at that pod's own mean rate.
fn rates(results: &[PodResult], count: impl Fn(&PodResult) -> u64) -> f64 {
    results.iter().filter(|r| r.window.seconds > 0.0).map(|r| count(r) as f64 / r.window.seconds).sum()
}

fn merged_histogram<'a>(
    encoded: impl Iterator<Item = Option<&'a EncodedHistogram>>,
) -> Result<Option<Latencies>, dragstrip_crds::histogram::HistogramError> {
    let mut merged: Option<Latencies> = None;
    for histogram in encoded {
        let Some(histogram) = histogram else {
            return Ok(None);
        };
        let decoded = Latencies::decode(histogram)?;
        match &mut merged {
            None => merged = Some(decoded),
            Some(sum) => sum.add(&decoded)?,
        }
    }
    Ok(merged)
}

fn sum_known(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(|a, b| a + b)
}

fn merge_operation(name: &str, results: &[PodResult]) -> Result<MergedOperation, String> {
    let of = |r: &PodResult| {
        r.operations.iter().filter(|op| name == TOTAL || op.operation == name).cloned().collect::<Vec<_>>()
    };
    let all: Vec<_> = results.iter().flat_map(of).collect();
    let histogram =
        merged_histogram(all.iter().map(|op| op.histogram.as_ref())).map_err(|e| e.to_string())?;
    let latency = match (&histogram, all.as_slice()) {
        (Some(histogram), _) => histogram.summary(),
        // Logs were lost: one operation's compact summary is still right, several cannot be joined.
        (None, [single]) => single.latency_milliseconds,
        (None, _) => LatencySummary::default(),
    };
    Ok(MergedOperation {
        operation: name.to_owned(),
        count: all.iter().map(|op| op.count).sum(),
        operations_per_second: rates(results, |r| of(r).iter().map(|op| op.count).sum()),
        bytes_per_second: rates(results, |r| of(r).iter().map(|op| op.bytes).sum()),
        hits: sum_known(all.iter().map(|op| op.hits)),
        misses: sum_known(all.iter().map(|op| op.misses)),
        errors: all.iter().map(|op| op.errors).sum(),
        latency_milliseconds: latency,
        histogram: histogram.map(|h| h.encode()).transpose().map_err(|e| e.to_string())?,
    })
}

/// Name of the row of all operations together.
pub const TOTAL: &str = "TOTAL";

fn merge_operations(results: &[PodResult]) -> Result<Vec<MergedOperation>, String> {
    let mut names: Vec<&str> = Vec::new();
    for operation in results.iter().flat_map(|r| &r.operations) {
        // An operation nobody sent (the GET of a write-only phase) is no row.
        if operation.count + operation.errors > 0 && !names.contains(&operation.operation.as_str()) {
            names.push(&operation.operation);
        }
    }
    names.iter().chain(std::iter::once(&TOTAL)).map(|name| merge_operation(name, results)).collect()
}

/// What the server counted against what all clients counted together; `None`
/// when they agree or nothing can be compared. One client's runner did it itself.
fn disagreement(run: &ValidatedRun, attempt: &Attempt, results: &[PodResult]) -> Option<String> {
    let servers: Vec<_> = results.iter().filter_map(|r| r.server.as_ref()).collect();
    if results.len() < 2 || servers.len() < results.len() || servers.iter().any(|s| s.truth.cluster_enabled) {
        return None;
    }
    let before = joined(servers.iter().map(|s| &s.before), u64::min)?;
    let after = joined(servers.iter().filter_map(|s| s.after.as_ref()), u64::max)?;
    let operations: Vec<_> = results.iter().flat_map(|r| r.operations.clone()).collect();
    let in_flight = match attempt.tool.planned_seconds() {
        Some(_) => results.iter().map(|r| r.tool.connections * r.tool.pipeline.max(1)).sum(),
        None => 0,
    };
    let pods = run.pods();
    counters_agree(&operations, in_flight, &before, &after)
        .err()
        .map(|e| format!("over {pods} client pods, {e}"))
}

/// One repetition out of what its pods said. A failed or missing pod makes the
/// repetition failed, never a partial sum.
pub fn merge(attempt: &Attempt, expected: u32, results: Vec<PodResult>) -> RepetitionResult {
    let own = |pod: &str, message: String| PodFailure {
        pod: pod.to_owned(),
        failure: Failure {
            step: FailureStep::Output,
            message,
            exit_code: None,
            signal: None,
            last_lines: Vec::new(),
        },
    };
    // A pod that was told to stop because another one failed is not the cause.
    let failed = |interrupted: bool| {
        results.iter().find_map(|r| {
            let failure = r.failure.clone()?;
            (interrupted == (failure.step == FailureStep::Interrupted))
                .then(|| PodFailure { pod: r.pod.clone(), failure })
        })
    };
    let missing = || {
        let lost = u32::try_from(results.len()).unwrap_or(u32::MAX) < expected;
        lost.then(|| {
            own(
                &attempt.name,
                format!(
                    "{} of {expected} client pods left a result: the others were deleted or lost",
                    results.len()
                ),
            )
        })
    };
    let mut failure = failed(false).or_else(|| failed(true)).or_else(missing);
    let (begin, end) = common_window(&results);
    let operations = merge_operations(&results).unwrap_or_else(|error| {
        failure.get_or_insert_with(|| {
            own(&attempt.name, format!("the clients' histograms cannot be merged: {error}"))
        });
        Vec::new()
    });
    RepetitionResult {
        phase: attempt.phase.clone(),
        repetition: attempt.repetition,
        window_seconds: end - begin,
        operations,
        failure,
        pods: results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        fixtures::{pod_result, run},
        validate::validate,
    };

    fn attempt() -> Attempt {
        validate(&run(&["read"], 1)).unwrap().attempts.remove(0)
    }

    #[test]
    fn two_pods_are_summed_and_their_histograms_added() {
        let merged =
            merge(&attempt(), 2, vec![pod_result("a", 1000, 2.0, 100), pod_result("b", 3000, 2.0, 900)]);
        assert_eq!(merged.failure, None);
        let total = merged.operations.last().unwrap();
        assert_eq!((total.operation.as_str(), total.count), ("TOTAL", 4000));
        assert!((total.operations_per_second - 2000.0).abs() < 1e-9);
        // A quarter of all latencies is 100 µs, the rest 900 µs: no average of medians gives that.
        assert!((total.latency_milliseconds.p50 - 0.9).abs() < 0.001, "{:?}", total.latency_milliseconds);
        assert!((total.latency_milliseconds.mean - 0.7).abs() < 0.001, "{:?}", total.latency_milliseconds);
    }

    #[test]
    fn a_missing_pod_fails_the_repetition() {
        let merged = merge(&attempt(), 2, vec![pod_result("a", 1000, 2.0, 100)]);
        assert!(merged.failure.unwrap().failure.message.contains("1 of 2 client pods"));
    }

    #[test]
    fn the_cause_is_named_before_those_it_took_along() {
        let mut victim = pod_result("a", 10, 1.0, 100);
        let failure = |step| Failure {
            step,
            message: format!("{step:?}"),
            exit_code: None,
            signal: None,
            last_lines: vec![],
        };
        victim.failure = Some(failure(FailureStep::Interrupted));
        let mut cause = pod_result("b", 10, 1.0, 100);
        cause.failure = Some(failure(FailureStep::ErrorReplies));
        let merged = merge(&attempt(), 2, vec![victim, cause]);
        assert_eq!(merged.failure.unwrap().pod, "b");
    }

    #[test]
    fn the_common_window_is_where_all_were_active() {
        let mut late = pod_result("b", 10, 2.0, 100);
        late.window.start_unix_nanos += 500_000_000;
        let (begin, end) = common_window(&[pod_result("a", 10, 2.0, 100), late]);
        assert!((begin - 0.5).abs() < 1e-9 && (end - 2.0).abs() < 1e-9, "{begin}..{end}");
    }

    #[test]
    fn a_result_is_found_after_progress_lines() {
        let result = serde_json::to_string(&pod_result("a", 10, 1.0, 100)).unwrap();
        let log = format!("1s  10 ops/s\n{LOG_MARKER}{result}\nbye\n");
        assert_eq!(from_log(&log).unwrap().pod, "a");
        assert_eq!(from_log(&log[..log.len() / 2]), None, "half a result is none");
    }
}

//! What was measured: by one client pod ([`PodResult`]), by all pods of one
//! repetition together ([`RepetitionResult`]), and how the first become the
//! second. Counts are summed, throughput is taken over the window in which
//! every client was active, histograms are added bucket by bucket; percentiles
//! are never averaged.

use crate::{
    histogram::{EncodedHistogram, LatencySummary},
    observed::{CgroupUsage, ServerCounters, ServerTruth},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Marks the line of a runner's log that holds its whole [`PodResult`] as JSON.
pub const LOG_MARKER: &str = "DRAGSTRIP-RESULT ";

/// Where a measured repetition went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureStep {
    /// The runner could not read its own job.
    Job,
    /// Before the start line: address, connection, password, server mode, output directory.
    Preflight,
    /// No order to start arrived in time.
    StartLine,
    /// The tool could not be started.
    Launch,
    /// The tool ended badly, or said itself that something went wrong.
    Tool,
    /// The tool did not end in time and was killed.
    Watchdog,
    /// The tool's output could not be understood.
    Output,
    /// The server's own counters do not agree with the tool's.
    CounterCheck,
    /// The server answered with errors.
    ErrorReplies,
    /// The server was restarted or replaced while it was measured.
    ServerIdentity,
    /// Somebody asked the pod to stop.
    Interrupted,
}

/// Why a pod's numbers must not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The step that failed.
    pub step: FailureStep,
    /// One sentence for people, with both values where two disagree.
    pub message: String,
    /// The tool's exit code, where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The last lines the tool wrote, secrets removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// One operation as one pod measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The command's name in upper case, such as GET.
    pub operation: String,
    /// Replies that were not errors.
    pub count: u64,
    /// Reads that found their key; absent for operations that do not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Reads that found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Error replies.
    pub errors: u64,
    /// Bytes sent and received for this operation.
    pub bytes: u64,
    /// Latencies in milliseconds, read from the histogram.
    pub latency_milliseconds: LatencySummary,
    /// All latencies; absent only in the compact form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<EncodedHistogram>,
}

/// What the tool says of itself; recorded, never the headline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRecord {
    /// loadgen, memtier, ...
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The command line, secrets removed.
    pub arguments: Vec<String>,
    /// Throughput in operations per second by the tool's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_operations_per_second: Option<f64>,
    /// Duration in seconds by the tool's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_seconds: Option<f64>,
    /// Connections it was told to open.
    pub connections: u64,
    /// Requests sent before their replies are awaited, per connection.
    pub pipeline: u64,
}

/// The time in which a pod's load ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When the load began, in nanoseconds of Unix time by this pod's clock.
    pub start_unix_nanos: i64,
    /// How long it ran, in seconds, on the monotonic clock.
    pub seconds: f64,
    /// Start of the load after the start line, in seconds.
    pub start_skew_seconds: f64,
    /// This pod's clock minus the operator's when the start order arrived, in
    /// seconds; the order's travel time is in it.
    pub clock_offset_seconds: f64,
}

/// What the client itself used while the load ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientUsage {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// Time held back by its CPU limit, in seconds.
    pub throttled_seconds: f64,
    /// Scheduling periods with throttling.
    pub throttled_periods: u64,
    /// The cgroup at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupUsage>,
}

/// The server, as this pod's own connection saw it before and after the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    /// What it said of itself before the load.
    pub truth: ServerTruth,
    /// Counters just before the load.
    pub before: ServerCounters,
    /// Counters just after it; absent when the server was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ServerCounters>,
}

/// Everything one client pod has to say about one repetition of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResult {
    /// The phase measured.
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The pod's name.
    pub pod: String,
    /// Why the numbers must not be used; absent when they may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The tool.
    #[serde(default)]
    pub tool: ToolRecord,
    /// When the load ran.
    #[serde(default)]
    pub window: Window,
    /// One entry per operation.
    #[serde(default)]
    pub operations: Vec<OperationResult>,
    /// Error replies by their first word.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Operations answered in each whole second since the load began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<u64>,
    /// What the client used.
    #[serde(default)]
    pub client: ClientUsage,
    /// What the server said; absent when it was never reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRecord>,
}

impl PodResult {
    /// A result that only says what went wrong.
    pub fn failed(phase: &str, repetition: u32, pod: &str, failure: Failure) -> Self {
        Self {
            phase: phase.to_owned(),
            repetition,
            pod: pod.to_owned(),
            failure: Some(failure),
            tool: ToolRecord::default(),
            window: Window::default(),
            operations: Vec::new(),
            errors: BTreeMap::new(),
            per_second: Vec::new(),
            client: ClientUsage::default(),
            server: None,
        }
    }

    /// The same without what does not fit a termination message: histograms,
    /// the per-second series, the server's counters, and all but the last few
    /// lines of the tool, each line cut at 200 characters.
    #[must_use]
    pub fn compact(&self) -> Self {
        let mut compact = self.clone();
        compact.per_second.clear();
        compact.server = None;
        compact.tool.arguments.clear();
        for operation in &mut compact.operations {
            operation.histogram = None;
        }
        if let Some(failure) = &mut compact.failure {
            let skip = failure.last_lines.len().saturating_sub(5);
            failure.last_lines.drain(..skip);
            for line in &mut failure.last_lines {
                *line = line.chars().take(200).collect();
            }
            failure.message = failure.message.chars().take(1000).collect();
        }
        compact
    }
}

/// One operation over all pods of a repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergedOperation {
    /// The command's name in upper case, or `TOTAL`.
    pub operation: String,
    /// Replies that were not errors.
    pub count: u64,
    /// Throughput over the common window.
    pub operations_per_second: f64,
    /// Bytes per second over the common window.
    pub bytes_per_second: f64,
    /// Reads that found their key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Reads that found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Error replies.
    pub errors: u64,
    /// From the merged histogram.
    pub latency_milliseconds: LatencySummary,
    /// All latencies of all pods; absent when a pod's log was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<EncodedHistogram>,
}

/// One repetition of one phase over all its pods: what the run's ConfigMaps hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepetitionResult {
    /// The phase.
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Length of the window in which every client was active, in seconds.
    pub window_seconds: f64,
    /// Per operation, `TOTAL` last.
    pub operations: Vec<MergedOperation>,
    /// Why the numbers must not be used; with the pod it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<PodFailure>,
    /// Every pod's own account.
    pub pods: Vec<PodResult>,
}

/// A [`Failure`] and where it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFailure {
    /// The pod.
    pub pod: String,
    /// What happened.
    pub failure: Failure,
}

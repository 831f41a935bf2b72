//! What the phases of a run measured, as its status shows it.

use super::{
    memory::MemoryReading,
    search::SearchStatus,
    verdict::{LimitedBy, Limiter, Verdict, VerdictReason},
};
use crate::measured::{BatchStatistics, LatencySummary, Metric, ScheduleRecord, Spread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The result at a glance: that of one phase, in whole numbers.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Headline {
    /// The phase: that of spec.headline; else the last measured one that has a throughput or the
    /// metric that it declares as its headline.
    #[serde(default)]
    pub phase: String,
    /// Operations per second of all operations together, mean over repetitions; omitted
    /// for a tool that counts none, and if several operations ran one after the other.
    pub throughput: Option<i64>,
    /// 99th percentile of latency in microseconds; omitted if the tool does not report it.
    pub p99_latency_microseconds: Option<i64>,
    /// The metric that the phase declares as its headline, with its unit, such as `12,345 ns/op`;
    /// omitted if it declares none, or if it was not measured.
    pub metric: Option<String>,
    /// What limited the phase; omitted if it was not judged.
    pub limiter: Option<Limiter>,
}

/// What a million operations cost, in US dollars: (sum of the nodes' price per hour) / 3600 /
/// (operations per second) x 1,000,000. A node counts whole, however much of it is used.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostStatus {
    /// The servers' nodes alone.
    pub servers: Option<f64>,
    /// The servers' and the clients' nodes.
    pub servers_and_clients: Option<f64>,
}

/// Memory of all servers' containers together, as the kernel counts it; of several
/// repetitions the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerMemoryStatus {
    /// In use when the load had ended, in bytes.
    pub used_bytes: u64,
    /// The most that each has used since it started, in bytes.
    pub peak_bytes: u64,
}

/// A load tool.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// Its name, such as memtier.
    pub name: String,
    /// Its version, such as 2.1.4; omitted if the tool does not report it.
    pub version: Option<String>,
    /// The mode it ran in, of a tool with several, such as Published.
    pub mode: Option<String>,
    /// Its command line in the first client pod, secrets removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// Name of the rate of operations by the tool's own account, for headlines, reports and published
/// tables.
pub const TOOL_RATE: &str = "toolOperationsPerSecond";

/// One operation of one phase over all repetitions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// The command, or TOTAL.
    pub operation: String,
    /// Successful operations over all repetitions.
    pub count: u64,
    /// Throughput in operations per second and its spread over repetitions.
    pub operations_per_second: Spread,
    /// The tool's own figure, mean over repetitions; omitted if the tool does not report it.
    pub tool_operations_per_second: Option<f64>,
    /// Bytes per second, both directions, mean over repetitions; 0 if the tool does not report them.
    pub bytes_per_second: f64,
    /// Reads that found their key.
    pub hits: Option<u64>,
    /// Reads that found nothing.
    pub misses: Option<u64>,
    /// Error replies.
    pub errors: u64,
    /// Latency in milliseconds, from the histogram merged over clients and
    /// repetitions; a tool without histograms has its own figures here, where there
    /// is one client and one repetition. What is not known is omitted.
    #[serde(default)]
    pub latency_milliseconds: LatencySummary,
}

/// One measured repetition of a phase.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepetitionStatus {
    /// Which, from 1.
    pub repetition: u32,
    /// ConfigMap with the full result.
    pub config_map: String,
    /// Window in which every client was active, in seconds.
    pub window_seconds: f64,
    /// Throughput of all operations together, in operations per second; omitted if
    /// operations ran one after the other.
    pub operations_per_second: Option<f64>,
    /// The tool's own figure of all operations together, for comparison only.
    pub tool_operations_per_second: Option<f64>,
    /// 99th percentile of latency, in milliseconds; omitted if it is not known.
    pub p99_milliseconds: Option<f64>,
    /// CPU the client pods used, in CPUs.
    pub client_cpus: f64,
    /// Which measurement of this repetition it is, from 1: more than 1 after one was lost.
    #[serde(default)]
    pub measurement: u32,
    /// Client pods that were measured together.
    #[serde(default)]
    pub pods: u32,
    /// From the first pod's start of load to the last one's, in seconds, clock offsets taken out.
    #[serde(default)]
    pub start_skew_seconds: f64,
    /// Largest difference between a client pod's clock and the operator's, in seconds.
    #[serde(default)]
    pub clock_offset_seconds: f64,
    /// Share of reads that found their key, from 0 to 1.
    pub hit_ratio: Option<f64>,
    /// The same of the last third of the window, in which a cache is warm; omitted if all reads found their
    /// key, or if the tool does not report it by the second.
    pub warm_hit_ratio: Option<f64>,
    /// Keys that the servers evicted per second of load, the warm-up included; omitted for servers that
    /// never do.
    pub evictions_per_second: Option<f64>,
    /// Whether its numbers may be believed.
    pub verdict: Option<Verdict>,
    /// What its verdict is not Valid for, such as Steal; the phase has the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// What one more point with twice the connections showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationStatus {
    /// Connections per thread of the point.
    pub connections_per_thread: u64,
    /// Its throughput, in operations per second.
    pub operations_per_second: f64,
    /// By which share that is more than the mean of the repetitions; negative if it is less.
    pub gain: f64,
    /// The gain that noise may explain: the larger of 0.05 and 3 coefficients of variation of the
    /// repetitions. The server had room if the gain is larger.
    pub explained_by_noise: f64,
    /// What follows from it, in one sentence.
    pub message: String,
    /// ConfigMap with the full result.
    pub config_map: String,
}

/// A repetition that was lost and measured again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryStatus {
    /// The repetition.
    pub repetition: u32,
    /// The phase in which it was lost.
    pub phase: String,
    /// Which measurement of this repetition it was, from 1.
    pub measurement: u32,
    /// Why it was lost.
    pub reason: String,
}

/// Results of one phase.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseStatus {
    /// The phase's name.
    pub name: String,
    /// The tool.
    pub tool: ToolStatus,
    /// Per operation, TOTAL last; without a total where operations ran one after the other.
    pub operations: Vec<OperationStatus>,
    /// Per repetition.
    pub repetitions: Vec<RepetitionStatus>,
    /// Whether its numbers may be believed: the worst of its repetitions' verdicts, and of
    /// how they differ.
    pub verdict: Option<Verdict>,
    /// Why its verdict is not Valid, each reason once, with the evidence of the first
    /// repetition that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<VerdictReason>,
    /// What limited the throughput, in most of the repetitions.
    pub limited_by: Option<LimitedBy>,
    /// What the point of `confirm` showed of that limit; omitted if none was measured.
    pub confirmation: Option<ConfirmationStatus>,
    /// Figures of the tool's own, mean over repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Timed batches, of the last repetition.
    pub batches: Option<BatchStatistics>,
    /// Scheduled, sent and answered requests of an open loop, summed over
    /// repetitions; its rate is that of each repetition.
    pub schedule: Option<ScheduleRecord>,
    /// What a search found; the other figures are those at the value found, and until it
    /// has ended those at the best value so far.
    pub search: Option<SearchStatus>,
    /// CPUs that all servers together used, mean over repetitions; omitted if nothing could measure it.
    pub server_cpus: Option<f64>,
    /// Throughput of all operations together divided by the CPUs that the servers used, mean over
    /// repetitions.
    pub operations_per_core_second: Option<f64>,
    /// Memory of the servers; omitted if nothing could measure it.
    pub server_memory: Option<ServerMemoryStatus>,
    /// Memory of each server and of all together (member SUM), right after the phase and
    /// after its settle time; of the last repetition that counts. The phase's stored results
    /// have those of every repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryReading>,
    /// What a million operations cost, in US dollars; omitted if the price of an instance
    /// type is not known.
    pub cost_per_million_operations_usd: Option<CostStatus>,
    /// Seconds of load before each measured part.
    pub warmup_seconds: Option<f64>,
    /// Keys that were written before each measurement.
    pub loaded_keys: Option<u64>,
    /// What else to know of the numbers: what was left out, and why, and what a latency contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

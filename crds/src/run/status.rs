//! What became of a run, for people and for whoever reads it by machine: numbers
//! and lists, never texts that hold several values.

use super::{
    SearchStatus,
    verdict::{LimitedBy, Limiter, Verdict, VerdictReason},
};
use crate::{
    measured::{BatchStatistics, LatencySummary, Metric, ScheduleRecord, Spread},
    observed::ServerTruth,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a run stands. Derived from what exists on every pass, for people to
/// read; never read back to decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunPhase {
    /// Waiting for its target.
    #[default]
    Pending,
    /// Its own datastore is being made.
    Provisioning,
    /// Waiting for other runs.
    Queued,
    /// Client pods are starting.
    Preparing,
    /// Load is running.
    Running,
    /// Results are being stored.
    Collecting,
    /// Every phase was measured.
    Succeeded,
    /// It ended without a usable result.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunPhase {
    /// Whether a run in this phase has ended.
    pub fn finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for RunPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The target as it was resolved and verified.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// The Datastore's name, or the external address.
    pub name: String,
    /// Address the clients connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What the server said of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ServerTruth>,
    /// How many servers it has: shards, a primary and its replicas, or members; absent
    /// of an external target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<i32>,
    /// The nodes its servers run on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Digest of what the server is: its processes, pods, images and declaration;
    /// the same from the first phase to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// A node of a run's servers or clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its instance type, such as c7i.2xlarge; absent where its label does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Whether a server of the target ran on it.
    #[serde(default)]
    pub serves: bool,
    /// Whether a client pod loaded from it.
    #[serde(default)]
    pub loads: bool,
}

/// What a million operations cost, in US dollars: (sum of the nodes' price per hour) / 3600 /
/// (operations per second) x 1,000,000. A node counts whole, however much of it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostStatus {
    /// The servers' nodes alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<f64>,
    /// The servers' and the clients' nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// The clock of `spec.timeout`, which stands while the run waits for other runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClockStatus {
    /// Seconds of `spec.timeout` used up before `runningSince`.
    pub used_seconds: i64,
    /// Since when the clock has been running; absent while it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Time>,
}

/// What held the clients up when the turn was given back, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetbackStatus {
    /// A constant in UpperCamelCase, such as `ImagePullBackOff`.
    pub reason: String,
    /// What happened, and the remedy.
    pub message: String,
    /// How often the turn was given back because of it.
    pub count: i32,
    /// When the run asks for its turn again.
    pub retry_at: Time,
}

/// How much equal measurements differ in a place, as a run with `calibrate` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoiseStatus {
    /// Coefficient of variation of throughput over equal repetitions; of several phases
    /// the largest.
    pub throughput: f64,
    /// The same of the 99th percentile of latency; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The run that found it.
    pub found_by: RunReference,
    /// When it was found.
    pub measured_at: Time,
}

/// Another run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for RunReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// 1 means next.
    pub position: i32,
    /// The Lease that is held.
    pub lease: String,
    /// The run that holds it.
    // Not heldBy, which was a text: the apiserver can write no status over one whose
    // field has another type now. What is stored without it is written anew.
    #[serde(default)]
    pub holder: RunReference,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Measurements that are stored and count.
    pub measured: i32,
    /// Measurements of the whole run: phases times repetitions. Each point of a search is
    /// one, and before a search has ended this is the most that it may need.
    pub total: i32,
}

/// The result at a glance: whole numbers, one for each of `phases` in that order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Headline {
    /// Operations per second of all operations together, mean over repetitions; null of
    /// a tool that counts none, and where several operations ran one after the other.
    pub operations_per_second: Vec<Option<i64>>,
    /// 99th percentile of latency in microseconds; null where the tool does not tell.
    pub p99_microseconds: Vec<Option<i64>>,
    /// What limited each phase; null where it was not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limited_by: Vec<Option<Limiter>>,
}

/// A load tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// Its name, such as memtier.
    pub name: String,
    /// Its version, such as 2.1.4; absent where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The mode it ran in, of a tool with several, such as Published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// One operation of one phase over all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// The command, or TOTAL.
    pub operation: String,
    /// Successful operations over all repetitions.
    pub count: u64,
    /// Throughput in operations per second and its spread over repetitions.
    pub operations_per_second: Spread,
    /// The tool's own figure, mean over repetitions; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_operations_per_second: Option<f64>,
    /// Bytes per second, both directions, mean over repetitions; 0 where the tool does not tell.
    pub bytes_per_second: f64,
    /// Reads that found their key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Reads that found nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Error replies.
    pub errors: u64,
    /// Latency in milliseconds, from the histogram merged over clients and
    /// repetitions; a tool without histograms has its own figures here, where there
    /// is one client and one repetition. What is not known is absent.
    #[serde(default)]
    pub latency_milliseconds: LatencySummary,
}

/// One measured repetition of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepetitionStatus {
    /// Which, from 1.
    pub repetition: u32,
    /// ConfigMap with the full result.
    pub config_map: String,
    /// Window in which every client was active, in seconds.
    pub window_seconds: f64,
    /// Throughput of all operations together, in operations per second; absent where
    /// operations ran one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
    /// The tool's own figure of all operations together, for comparison only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_operations_per_second: Option<f64>,
    /// 99th percentile of latency, in milliseconds; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Whether its numbers may be believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What its verdict is not Valid for, such as Steal; the phase has the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why its verdict is not Valid, each reason once, with the evidence of the first
    /// repetition that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<VerdictReason>,
    /// What limited the throughput, in most of the repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
    /// Figures of the tool's own, mean over repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Timed batches, of the last repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchStatistics>,
    /// Scheduled, sent and answered requests of an open loop, summed over
    /// repetitions; its rate is that of each repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleRecord>,
    /// What a search found; the other figures are those at the value found, and until it
    /// has ended those at the best value so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchStatus>,
    /// Memory of the servers; absent where nobody could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_memory: Option<ServerMemoryStatus>,
    /// What a million operations cost, in US dollars; absent where the price of an instance
    /// type is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_million_operations_usd: Option<CostStatus>,
    /// Seconds of load before each measured part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_seconds: Option<f64>,
    /// Keys that were written and counted before each measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_keys: Option<u64>,
    /// What else to know of the numbers: what was left out, and why, and what a latency contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// The phase, where one was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The step that failed.
    pub step: String,
    /// What happened.
    pub message: String,
    /// The tool's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines the tool wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// What Grafana is told of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrafanaStatus {
    /// The annotation's id in Grafana's HTTP API. Absent until Grafana took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation_id: Option<i64>,
    /// Whether Grafana is still to be told something: the run's start, or its end.
    #[serde(default)]
    pub pending: bool,
}

/// What became of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkRunStatus {
    /// Generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the run stands.
    #[serde(default)]
    pub phase: RunPhase,
    /// What it waits for, or how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many of all measurements are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When it got its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The clock of `spec.timeout`, which stands while the run waits for other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockStatus>,
    /// What held the clients up when the turn was given back, and when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setback: Option<SetbackStatus>,
    /// What a queued run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
    /// The target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetStatus>,
    /// The nodes of its servers and clients, from the measurements that are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// Whether the run's numbers may be believed: the worst of its phases' verdicts, and
    /// Invalid when it failed. Absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why its verdict is not Valid: constants such as ClientSaturated, each once; the
    /// phases have the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// How much equal runs differ on these nodes; absent where no run with `calibrate`
    /// measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseStatus>,
    /// The result at a glance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// Results per phase, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Repetitions that were lost and measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetryStatus>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureStatus>,
    /// The run's annotation in Grafana, where the operator was told to make annotations
    /// and the load has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grafana: Option<GrafanaStatus>,
    /// Complete, Passed, TargetReady and ClientsReady; and of where servers and clients run
    /// SameZone, SamePlacementGroup, ClientStronger, DistinctNodes, ExclusiveCPUs, IoUring
    /// and ThreadsAsRequested, with the evidence in the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

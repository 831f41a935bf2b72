//! What one client pod measured, or why it measured nothing.

use crate::measured::{
    histogram::EncodedHistogram,
    hit_series::HitSeries,
    latency_series::EncodedSeries,
    observed::ServerCounters,
    operation::{Operation, added_seconds, due},
    usage::ContainerUsage,
};
use dragstrip_crds::{
    measured::{BatchStatistics, Metric, ScheduleRecord},
    observed::ServerTruth,
    run::MemoryReading,
    workload::ToolSpec,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Where a measured repetition went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureStep {
    /// The runner could not read its own job.
    Job,
    /// The keys of `load` could not be written, or are not all there.
    Load,
    /// The load before the measured part failed.
    Warmup,
    /// Fewer reads found their key than declared.
    HitRatio,
    /// The client pod or its node was lost, or the server was replaced before the load: the one failure
    /// that is measured again.
    Lost,
    /// Before the start line: address, connection, password, server mode, output directory.
    Preflight,
    /// No start command arrived in time.
    StartLine,
    /// The tool could not be started.
    Launch,
    /// The tool ended badly, or reported an error itself.
    Tool,
    /// The tool did not end in time and was killed.
    Watchdog,
    /// The tool's output could not be understood.
    Output,
    /// The server's own counters do not agree with the tool's.
    CounterCheck,
    ErrorReplies,
    /// The server evicted keys for memory.
    Eviction,
    /// The server was restarted or replaced while it was measured.
    ServerIdentity,
    /// Kubernetes or a user stopped the pod.
    Interrupted,
    /// A check that `spec.requirements` makes Required found something.
    Requirement,
}

/// Why a pod's numbers must not be used.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub step: FailureStep,
    /// One sentence for people, with both values where two disagree.
    pub message: String,
    /// The tool's exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The last lines the tool wrote, secrets removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

impl Failure {
    /// A failure without exit code or last lines.
    pub fn new(step: FailureStep, message: impl Into<String>) -> Self {
        Self { step, message: message.into(), exit_code: None, signal: None, last_lines: Vec::new() }
    }

    /// The same with at most `characters` of its message and of each of its last `lines`.
    #[must_use]
    pub fn shortened(&self, characters: usize, lines: usize) -> Self {
        let cut = |text: &String| text.chars().take(characters).collect();
        let skip = self.last_lines.len().saturating_sub(lines);
        Self {
            message: cut(&self.message),
            last_lines: self.last_lines.iter().skip(skip).map(cut).collect(),
            ..self.clone()
        }
    }
}

/// One worker thread of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRecord {
    /// writer or reader.
    pub role: String,
    pub index: u32,
    pub operations: u64,
    pub errors: u64,
    /// CPU it used, in seconds; 0 if the system does not report it.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Time in which it was ready to run and had no CPU, in seconds; 0 if the system does not report it.
    #[serde(default)]
    pub waiting_seconds: f64,
    /// Share of its own measured part in which its event loop was busy; 0 without an event loop.
    #[serde(default)]
    pub event_loop_utilization: f64,
}

/// Keys or jobs that must exist, and those that do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Presence {
    pub expected: u64,
    pub found: u64,
}

/// What the tool reports of itself; recorded, never the headline.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRecord {
    /// loadgen, memtier, ...
    pub name: String,
    pub version: Option<String>,
    /// The mode it ran in, of a tool with several, such as Published.
    pub mode: Option<String>,
    /// The command line, secrets removed.
    pub arguments: Vec<String>,
    /// Throughput in operations per second by the tool's own account.
    pub reported_operations_per_second: Option<f64>,
    /// Connections it was to open.
    pub connections: u64,
    /// Requests sent before their replies are awaited, per connection.
    pub pipeline: u64,
}

/// Requests that may be under way: in a cluster each connection is one to every shard.
pub fn in_flight(connections: u64, pipeline: u64, shards: u64) -> u64 {
    connections.saturating_mul(pipeline.max(1)).saturating_mul(shards.max(1))
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
    /// This pod's clock minus the operator's, as the operator measured it, in seconds.
    pub clock_offset_seconds: f64,
    /// The clock offset cannot be further off than this, in seconds.
    pub clock_uncertainty_seconds: f64,
}

/// One shard of a cluster, before and after the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardRecord {
    /// host:port.
    pub address: String,
    /// Counters just before the load.
    pub before: ServerCounters,
    /// Counters just after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ServerCounters>,
}

/// The server, as this pod's own connection saw it before and after the load.
/// For a cluster, the sums over its shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    /// What it reported before the load.
    pub truth: ServerTruth,
    /// Counters just before the load.
    pub before: ServerCounters,
    /// Counters just after it; absent when the server was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ServerCounters>,
    /// Shard by shard, for clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardRecord>,
}

impl ServerRecord {
    /// The `run_id` of every server, before the load and after it, if known.
    pub fn run_ids(&self) -> impl Iterator<Item = &str> {
        // The sums of several servers name only one of them.
        let sums = self.shards.is_empty().then_some([Some(&self.before), self.after.as_ref()]);
        let shards = self.shards.iter().map(|shard| [Some(&shard.before), shard.after.as_ref()]);
        let readings = sums.into_iter().chain(shards).flatten().flatten();
        readings.map(|counters| counters.run_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Servers to each of which a connection of a tool connects, at least 1.
    fn loaded_shards(&self) -> u64 {
        if self.truth.cluster_enabled { self.shards.len().max(1) as u64 } else { 1 }
    }
}

/// Everything that one client pod reports about one repetition of one phase.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResult {
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    pub pod: String,
    /// The node it ran on, as the operator saw it.
    pub node: Option<String>,
    /// Whether this is all that the pod reported. What was made to fit a termination
    /// message is not, and is shown to people only: no sum and no check rests on it.
    pub complete: bool,
    /// Why the numbers must not be used; absent when they may be.
    pub failure: Option<Failure>,
    pub tool: ToolRecord,
    pub window: Window,
    pub operations: Vec<Operation>,
    /// Error replies by their first word.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Operations answered in each whole second since the load began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<u64>,
    /// Latencies by the second; absent if the tool does not report them. A stored repetition has their
    /// percentiles instead.
    pub latency_series: Option<EncodedSeries>,
    /// What reads found by the second; absent without reads, and if the tool does not report it. A stored
    /// repetition has the sum of all pods instead.
    pub hit_series: Option<HitSeries>,
    /// Commands that the tool sent and got answered, by its own count, by the server's name in
    /// lower case: warm-up, retries after redirections and the parts of composed
    /// operations included, since the server counts those too. Empty if the
    /// operations say which commands they send.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, u64>,
    /// Keys written before the load.
    pub load: Option<Presence>,
    /// Operations of the warm-up; no other figure contains them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub warmup: BTreeMap<String, u64>,
    /// Jobs that must be in the queues after the load.
    pub queues: Option<Presence>,
    pub schedule: Option<ScheduleRecord>,
    /// Requests of the schedule that were due in each of its whole seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due_per_second: Vec<u64>,
    /// How long after they were due its requests were sent, in microseconds: all of them merge exactly.
    pub schedule_lag: Option<EncodedHistogram>,
    pub batches: Option<BatchStatistics>,
    /// Figures of the tool's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerRecord>,
    /// What else the tool says about its numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub client: ContainerUsage,
    /// What the server reported; absent if it was never reached.
    pub server: Option<ServerRecord>,
    /// The memory of the servers, if only this pod could query them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryReading>,
}

impl PodResult {
    /// Operations by second: those that the tool reported for all of them, or the sum of its rows.
    pub fn series(&self) -> Vec<u64> {
        match self.per_second.as_slice() {
            [] => added_seconds(due(&self.operations).map(|row| row.per_second.as_slice())),
            own => own.to_vec(),
        }
    }

    /// Requests that the server may have answered without the tool seeing the replies,
    /// when the clock ended the load: none when each connection sends a set number and
    /// awaits them all, which only the options of our own tools show.
    pub fn in_flight(&self, tool: &ToolSpec) -> u64 {
        let by_the_clock = matches!(tool, ToolSpec::Exec(_)) || tool.planned_seconds().is_some();
        let shards = self.server.as_ref().map_or(1, ServerRecord::loaded_shards);
        // An open loop has as many in flight as the server has not answered.
        let unanswered = self.schedule.as_ref().map_or(0, |schedule| schedule.unanswered);
        let in_flight = in_flight(self.tool.connections, self.tool.pipeline, shards);
        if by_the_clock { in_flight.saturating_add(unanswered) } else { 0 }
    }

    /// When its load began, in nanoseconds of Unix time by the operator's clock.
    pub fn started_unix_nanos(&self) -> i64 {
        // Clock offsets are far below the 292 years that fit: the cast is exact enough.
        #[allow(clippy::cast_possible_truncation)]
        let offset = (self.window.clock_offset_seconds * 1e9) as i64;
        self.window.start_unix_nanos.saturating_sub(offset)
    }

    /// A result with nothing but what went wrong.
    pub fn failed(phase: &str, repetition: u32, pod: &str, failure: Failure) -> Self {
        Self {
            phase: phase.to_owned(),
            repetition,
            pod: pod.to_owned(),
            complete: true,
            failure: Some(failure),
            ..Self::default()
        }
    }

    /// The same without what does not fit a termination message: histograms,
    /// the per-second series, the server's counters, and all but the last few
    /// lines of the tool.
    #[must_use]
    pub fn compact(&self) -> Self {
        let mut compact = self.clone();
        compact.complete = false;
        compact.per_second.clear();
        compact.due_per_second.clear();
        compact.latency_series = None;
        compact.hit_series = None;
        compact.schedule_lag = None;
        compact.commands.clear();
        compact.workers.clear();
        compact.notes.clear();
        compact.server = None;
        compact.memory.clear();
        compact.client.threads.clear();
        compact.tool.arguments.clear();
        for operation in &mut compact.operations {
            operation.histogram = None;
            operation.commands.clear();
            operation.per_second.clear();
        }
        compact.failure = self.failure.as_ref().map(|failure| failure.shortened(500, 5));
        compact
    }
}

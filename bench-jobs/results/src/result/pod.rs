//! What one client pod measured, or why it measured nothing.

use crate::{histogram::EncodedHistogram, observed::ServerCounters, usage::ContainerUsage};
use dragstrip_crds::{
    measured::{BatchStatistics, LatencySummary, Metric, ScheduleRecord},
    observed::ServerTruth,
    run::MemoryReading,
    workload::ToolSpec,
};
use serde::{Deserialize, Serialize};
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
    /// The client pod or its node was lost: the one failure that is measured again.
    Lost,
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
    /// The server evicted keys for memory.
    Eviction,
    /// The server was restarted or replaced while it was measured.
    ServerIdentity,
    /// Somebody asked the pod to stop.
    Interrupted,
    /// A check that `spec.requirements` makes Required found something.
    Requirement,
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

impl Failure {
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

/// One operation as one pod measured it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The name that the tool gives it: as a rule a command's in upper case, such as GET.
    pub operation: String,
    /// The server's commands, in lower case, one of which each use of the operation
    /// sends; empty where it is no command of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
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
    /// Latencies in milliseconds, read from the histogram; what the tool printed where it has none.
    #[serde(default)]
    pub latency_milliseconds: LatencySummary,
    /// All latencies; absent in the compact form, and for tools that only print
    /// percentiles, which then cannot be merged with another pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<EncodedHistogram>,
    /// Operations answered in each whole second since the load began; empty where the tool does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<u64>,
    /// Operations per second by the tool's own account, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_operations_per_second: Option<f64>,
    /// Operations per second over the operation's own time, where it did not share the
    /// pod's window with the others, or nothing is known of its count: then this is its
    /// rate, and has no sum with another operation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_operations_per_second: Option<f64>,
}

/// One worker thread of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRecord {
    /// writer or reader.
    pub role: String,
    /// Which, from 0.
    pub index: u32,
    /// Operations it did.
    pub operations: u64,
    /// Errors it met.
    pub errors: u64,
    /// CPU it used, in seconds.
    pub cpu_seconds: f64,
    /// Share of time in which its event loop was busy, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_loop_utilization: Option<f64>,
}

/// Keys or jobs that must be there, and those that are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Presence {
    /// How many there must be.
    pub expected: u64,
    /// How many there are.
    pub found: u64,
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
    /// The mode it ran in, of a tool with several, such as Published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The command line, secrets removed.
    pub arguments: Vec<String>,
    /// Throughput in operations per second by the tool's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_operations_per_second: Option<f64>,
    /// Operations counted, divided by the wall time of the tool's whole process,
    /// start-up and end included: a floor below which the truth cannot lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_operations_per_second: Option<f64>,
    /// Duration in seconds by the tool's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_seconds: Option<f64>,
    /// Connections it was told to open.
    pub connections: u64,
    /// Requests sent before their replies are awaited, per connection.
    pub pipeline: u64,
}

/// Requests that may be under way at a time: in a cluster every connection is one
/// to each of its shards.
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
    #[serde(default)]
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
/// Of a cluster the sums over its shards.
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
    /// Shard by shard, for clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardRecord>,
}

impl ServerRecord {
    /// The `run_id` of every server, before the load and after it, where known.
    pub fn run_ids(&self) -> impl Iterator<Item = &str> {
        // Of several servers the sums name one alone.
        let sums = self.shards.is_empty().then_some([Some(&self.before), self.after.as_ref()]);
        let shards = self.shards.iter().map(|shard| [Some(&shard.before), shard.after.as_ref()]);
        let looks = sums.into_iter().chain(shards).flatten().flatten();
        looks.map(|counters| counters.run_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Servers to each of which every connection of a tool is one, at least 1.
    fn loaded_shards(&self) -> u64 {
        if self.truth.cluster_enabled { self.shards.len().max(1) as u64 } else { 1 }
    }
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
    /// The node it ran on, as the operator saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether this is all that the pod had to say. What was made to fit a termination
    /// message is not, and is shown to people only: no sum and no check rests on it.
    #[serde(default)]
    pub complete: bool,
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
    /// Commands the tool says it sent and got answered, by the server's name in
    /// lower case: warm-up, retries after redirections and the parts of composed
    /// operations included, since the server counts those too. Empty where the
    /// operations say which commands they send.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, u64>,
    /// Keys written before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Presence>,
    /// Operations of the warm-up, which are in no other figure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub warmup: BTreeMap<String, u64>,
    /// Jobs that must be in the queues after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Presence>,
    /// An open loop's schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleRecord>,
    /// How long after they were due its requests were sent, in microseconds: all of them merge exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_lag: Option<EncodedHistogram>,
    /// Timed batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchStatistics>,
    /// Figures of the tool's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// The tool's worker threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerRecord>,
    /// What else the tool has to say of its numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the client used.
    #[serde(default)]
    pub client: ContainerUsage,
    /// What the server said; absent when it was never reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRecord>,
    /// The memory of the servers, where this pod alone could ask them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryReading>,
}

impl PodResult {
    /// Requests that the server may have answered without the tool seeing the replies,
    /// when the clock ended the load: none when each connection sends a set number and
    /// awaits them all, which is known of our own tools' options only.
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

    /// A result that only says what went wrong.
    pub fn failed(phase: &str, repetition: u32, pod: &str, failure: Failure) -> Self {
        Self {
            phase: phase.to_owned(),
            repetition,
            pod: pod.to_owned(),
            node: None,
            complete: true,
            failure: Some(failure),
            tool: ToolRecord::default(),
            window: Window::default(),
            operations: Vec::new(),
            errors: BTreeMap::new(),
            per_second: Vec::new(),
            commands: BTreeMap::new(),
            load: None,
            warmup: BTreeMap::new(),
            queues: None,
            schedule: None,
            schedule_lag: None,
            batches: None,
            metrics: Vec::new(),
            workers: Vec::new(),
            notes: Vec::new(),
            client: ContainerUsage::default(),
            server: None,
            memory: Vec::new(),
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

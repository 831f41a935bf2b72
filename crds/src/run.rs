//! `BenchmarkRun`: phases of load against one target, measured and judged.

use crate::{
    datastore::{DatastoreSpec, Placement, SecretKeyReference, ServerProtocol},
    measured::{BatchStatistics, LatencySummary, Metric, ScheduleRecord, Spread},
    observed::ServerTruth,
    units::Period,
    workload::{BullmqSpec, ExecSpec, LoadSpec, LoadgenSpec, MemtierSpec},
};
use k8s_openapi::{
    api::core::v1::ResourceRequirements,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A Datastore in the run's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatastoreReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How clients encrypt their connections to an external server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTls {
    /// Secret with ca.crt, which must have signed the server's certificate.
    /// The well-known authorities when absent; memtier and exec have those of their image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub ca_secret_name: Option<String>,
    /// Secret with the clients' tls.crt and tls.key. No client certificate when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub client_secret_name: Option<String>,
    /// Name the server's certificate must be valid for; the address's host when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
    /// Take any certificate. Only for tests: anybody could be in between.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// A server that Dragstrip did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalTarget {
    /// Host and port, such as `10.0.0.7:6379` or `redis.example.com:6379`.
    #[schemars(length(min = 3, max = 260))]
    #[x_kube(validation = Rule::new("self.matches('^([A-Za-z0-9.-]+|\\\\[[0-9A-Fa-f:]+\\\\]):[0-9]{1,5}$')")
        .message("address is HOST:PORT, such as 10.0.0.7:6379 or [fd00::7]:6379"))]
    pub address: String,
    /// The password. No password when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKeyReference>,
    /// ACL user; the default user when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub username: Option<String>,
    /// Encrypted connections. Plain ones when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// What the server speaks. Tcp leaves out every question over RESP; only exec tools can load it.
    #[serde(default)]
    pub protocol: ServerProtocol,
    /// Allow phases with `flush: true` to empty this server. It is not ours: false unless you say so.
    #[serde(default)]
    pub allow_flush: bool,
    /// Whether the server is expected to run in cluster mode; a mismatch fails the run before load.
    #[serde(default)]
    pub cluster: bool,
}

/// What is measured: exactly one of the three.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.datastoreRef), has(self.datastore), has(self.external)].filter(x, x).size() == 1")
        .message("target needs exactly one of datastoreRef (a Datastore that exists), datastore (made for this run) and external (an address)"),
)]
pub struct Target {
    /// A Datastore in the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore_ref: Option<DatastoreReference>,
    /// A Datastore made for this run and removed after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<DatastoreSpec>,
    /// A server that is already there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalTarget>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.memtier), has(self.bullmq), has(self.loadgen), has(self.exec)].filter(x, x).size() == 1")
        .message("a phase needs exactly one workload: memtier, bullmq, loadgen or exec"),
    validation = Rule::new("!has(self.warmup) || !has(self.exec)")
        .message("warmup is for memtier, bullmq and loadgen: let the tool of exec warm up by itself, or put a phase in front"),
)]
pub struct PhaseSpec {
    /// Name of the phase, unique in the run.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("a phase's name is made of a-z, 0-9 and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// Empty the datastore (FLUSHALL) before this phase. Data stays otherwise.
    #[serde(default)]
    pub flush: bool,
    /// Write these keys before the load, and make sure that all of them are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadSpec>,
    /// Load of the same kind for this long before the measured part, in no figure of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Period>,
    /// Share of reads that must find their key, from 0 to 1: below it the
    /// repetition is invalid, since reads that find nothing are cheaper.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub minimum_hit_ratio: Option<f64>,
    /// Run `memtier_benchmark`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memtier: Option<MemtierSpec>,
    /// Run Dragstrip's own load generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loadgen: Option<LoadgenSpec>,
    /// Run the BullMQ job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bullmq: Option<BullmqSpec>,
    /// Run any tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSpec>,
}

/// How client pods are spread over nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientSpread {
    /// As evenly as the nodes allow.
    #[default]
    Preferred,
    /// As many on each node as on every other, give or take one; else they wait.
    Required,
    /// No two on one node; else they wait.
    OnePerNode,
    /// Wherever the scheduler likes.
    None,
}

/// The client pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientsSpec {
    /// How many client pods load the target together.
    #[serde(default = "default_pods")]
    #[schemars(range(min = 1, max = 256))]
    pub pods: i32,
    /// CPU and memory of each client pod. Unlimited when absent: the client must be the stronger one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Which nodes they may run on; never one with a Dragstrip server, unless
    /// shareServerNode is true.
    #[serde(default)]
    pub placement: Placement,
    /// How they are spread over those nodes.
    #[serde(default)]
    pub spread: ClientSpread,
    /// Let clients run on the target's own node, beside the server: for clusters
    /// of one machine. Client and server then compete for its CPUs and the figures
    /// are not the server's alone. Default false: clients keep off every node that
    /// has a Dragstrip server.
    #[serde(default)]
    pub share_server_node: bool,
}

fn default_pods() -> i32 {
    1
}

impl Default for ClientsSpec {
    fn default() -> Self {
        Self {
            pods: default_pods(),
            resources: None,
            placement: Placement::default(),
            spread: ClientSpread::default(),
            share_server_node: false,
        }
    }
}

fn default_repetitions() -> i32 {
    1
}

fn default_max_retries() -> i32 {
    1
}

fn default_timeout() -> Period {
    Period::from_minutes(30)
}

/// A benchmark: phases of load, in order, against one target. The whole
/// sequence is repeated `repetitions` times. The spec cannot be changed once
/// the run has started, except for `cancel` and `ttlAfterFinished`.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "BenchmarkRun",
    plural = "benchmarkruns",
    doc = "Phases of load against one target, measured and judged.",
    namespaced,
    status = "BenchmarkRunStatus",
    derive = "PartialEq",
    shortname = "run",
    category = "dragstrip",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Target", type_ = "string", json_path = ".status.target.name"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Ops/s", type_ = "string", json_path = ".status.headline.operationsPerSecond"),
    printcolumn(name = "p99 ms", type_ = "string", json_path = ".status.headline.p99Milliseconds"),
    printcolumn(name = "Passed", type_ = "string", json_path = ".status.conditions[?(@.type==\"Passed\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,31}[a-z0-9])?$')")
        .message("metadata.name must be at most 33 characters of a-z, 0-9 and -: the Jobs' names are made from it"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.startedAt) || (self.spec.target == oldSelf.spec.target && self.spec.phases == oldSelf.spec.phases && self.spec.repetitions == oldSelf.spec.repetitions && self.spec.maxRetries == oldSelf.spec.maxRetries && self.spec.clients == oldSelf.spec.clients && self.spec.timeout == oldSelf.spec.timeout)")
        .message("the run has started: only cancel and ttlAfterFinished may change; make a new BenchmarkRun for other settings"),
)]
#[cfg_attr(any(test, feature = "cel"), kube(cel))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.target.external) || self.target.external.allowFlush || self.phases.all(p, !p.flush)")
        .message("flush: true would empty an external server: set target.external.allowFlush: true if that is meant"),
    validation = Rule::new("!has(self.target.external) || self.target.external.protocol == 'Resp' || self.phases.all(p, has(p.exec) && !p.flush && !has(p.load))")
        .message("a target with protocol Tcp can only be loaded by exec phases, without flush and load"),
)]
pub struct BenchmarkRunSpec {
    /// What is measured.
    pub target: Target,
    /// What is run, in order.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.all(p, self.exists_one(q, q.name == p.name))")
        .message("phase names must be unique within a run"))]
    pub phases: Vec<PhaseSpec>,
    /// How often the whole sequence of phases is measured.
    #[serde(default = "default_repetitions")]
    #[schemars(range(min = 1, max = 99))]
    pub repetitions: i32,
    /// How often a repetition that lost a client pod or its node is measured
    /// again, all its phases from the first. What was lost is kept, marked
    /// invalid, and never part of a sum. Other failures end the run.
    #[serde(default = "default_max_retries")]
    #[schemars(range(min = 0, max = 9))]
    pub max_retries: i32,
    /// The client pods.
    #[serde(default)]
    pub clients: ClientsSpec,
    /// Longest time the run may take, not counting the wait for other runs.
    #[serde(default = "default_timeout")]
    pub timeout: Period,
    /// Remove the run this long after it finished. Kept when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<Period>,
    /// Stop the run; what was measured stays.
    #[serde(default)]
    pub cancel: bool,
}

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
    /// The node the server runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Digest of what the server is: its processes, pods, images and declaration;
    /// the same from the first phase to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
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

/// What a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// 1 means next.
    pub position: i32,
    /// The Lease that is held.
    pub lease: String,
    /// The run that holds it, as namespace/name.
    pub held_by: String,
}

/// The result in two cells, one number per phase in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Headline {
    /// Operations per second, mean over repetitions, per phase.
    pub operations_per_second: String,
    /// 99th percentile of latency in milliseconds, per phase.
    pub p99_milliseconds: String,
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
    /// Latency in milliseconds, from the histogram merged over clients and repetitions.
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
    /// Throughput of all operations together, in operations per second.
    pub operations_per_second: f64,
    /// The tool's own figure, for comparison only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_operations_per_second: Option<f64>,
    /// 99th percentile of latency, in milliseconds.
    pub p99_milliseconds: f64,
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
    /// The tool and its version.
    pub tool: String,
    /// Per operation, TOTAL last.
    pub operations: Vec<OperationStatus>,
    /// Per repetition.
    pub repetitions: Vec<RepetitionStatus>,
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
    /// Seconds of load before each measured part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_seconds: Option<f64>,
    /// Keys that were written and counted before each measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_keys: Option<u64>,
    /// What was left out, and why.
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
    /// Phase, repetition and how many of all are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
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
    /// The result in two cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// Results per phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Repetitions that were lost and measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetryStatus>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureStatus>,
    /// Complete, Passed, TargetReady and ClientsReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests;

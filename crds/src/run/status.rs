//! State of a run, for people and programs: numbers and lists, never texts with several values.

use super::{
    comparability::ComparabilityStatus,
    measured::{Headline, PhaseStatus, RetryStatus},
    verdict::Verdict,
};
use crate::{
    observed::ServerTruth,
    thresholds::{MetricName, ThresholdStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::{collections::BTreeMap, fmt};

/// Phase of a run, derived on every pass for people, and never read back to decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunPhase {
    /// Waiting for its target.
    #[default]
    Pending,
    /// Its own Datastore starts.
    Provisioning,
    /// Waiting for other runs.
    Queued,
    /// Client pods are starting.
    Preparing,
    /// The load runs.
    Running,
    /// The operator stores results.
    Collecting,
    /// Every phase was measured.
    Succeeded,
    /// It ended without a usable result.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunPhase {
    /// Whether a run in this phase has ended.
    pub fn finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// The resolved and verified target.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// The Datastore's name, or the external address.
    pub name: String,
    /// Address for the clients.
    pub address: Option<String>,
    /// What the server reports.
    pub observed: Option<ServerTruth>,
    /// Number of servers: shards, a primary and its replicas, or members; omitted for an external
    /// target.
    pub servers: Option<i32>,
    /// Nodes of its servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Digest of the server's processes, pods, images and declaration, which stays the same from the
    /// first phase to the last.
    pub identity: Option<String>,
}

/// A node of a run's servers or clients.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of the node.
    pub name: String,
    /// Instance type, such as c7i.2xlarge; omitted if the node has no such label.
    pub instance_type: Option<String>,
    /// Zone, from its label.
    pub zone: Option<String>,
    /// Placement group; omitted if none or unknown.
    pub placement_group: Option<String>,
    /// Architecture, such as arm64.
    pub architecture: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Online CPUs.
    pub cpus: Option<u32>,
    /// Whether a server of the target ran on it.
    #[serde(default)]
    pub serves: bool,
    /// Whether a client pod loaded from it.
    #[serde(default)]
    pub loads: bool,
}

/// What else is needed to repeat the measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceStatus {
    /// Digest of the fields of the spec that affect the measurement.
    #[serde(default)]
    pub spec_hash: String,
    /// Version of the operator that judged the run.
    #[serde(default)]
    pub operator_version: String,
    /// Images of the servers' pods, by digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_images: Vec<String>,
    /// Command line of the first server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_command: Vec<String>,
    /// Images of the client pods, by digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_images: Vec<String>,
}

/// The clock of `spec.timeout`, which stops while the run waits for other runs.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClockStatus {
    /// Seconds of `spec.timeout` used before `runningSince`.
    pub used_seconds: i64,
    /// When the clock last started; omitted while it is stopped.
    pub running_since: Option<Time>,
}

/// A measurement that has its start command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedStatus {
    /// Name of its Job.
    pub job: String,
    /// Its start line.
    pub start_at: Time,
}

/// Why the clients did not start, and when the run tries again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetbackStatus {
    /// A constant in UpperCamelCase, such as `ImagePullBackOff`.
    pub reason: String,
    /// What happened, and the remedy.
    pub message: String,
    /// How often the run released its turn for this reason.
    pub count: i32,
    /// When the run queues for its turn again.
    pub retry_at: Time,
}

/// How much equal measurements of one figure differ.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoiseFigure {
    /// The phase.
    pub phase: String,
    /// The metric: OperationsPerSecond or P99Milliseconds of all operations together.
    pub metric: MetricName,
    /// Standard deviation of repetitions on one start of a server, as a share of the mean.
    pub between_repetitions: f64,
    /// Standard deviation that a new start of the server adds, as a share of the mean; omitted if only
    /// one start was measured.
    pub between_starts: Option<f64>,
    /// Starts that were measured.
    pub starts: u32,
    /// Repetitions that were measured, over all starts.
    pub repetitions: u32,
}

/// How much equal measurements differ, from runs with `calibrate` in the same namespace with the same
/// engine, workload and kind of machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoiseStatus {
    /// The noise of each phase and metric.
    #[serde(default)]
    pub figures: Vec<NoiseFigure>,
    /// The last run that measured it.
    pub found_by: RunReference,
    /// When that run ended.
    pub measured_at: Time,
}

/// Another run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReference {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the run.
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
    /// Place in the queue, from 1.
    pub position: i32,
    /// The Lease that another run holds.
    pub lease: String,
    /// The run that holds it.
    pub holder: RunReference,
    /// Every Lease that the run waits for. Runs that were created later do not acquire them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Stored measurements that count.
    pub measured: i32,
    /// Measurements of the run: phases times repetitions. Each point of a search is one; until a search
    /// ends, its largest number of points counts.
    pub total: i32,
}

/// Why a run failed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// The phase, if one ran.
    pub phase: Option<String>,
    /// The repetition.
    pub repetition: Option<u32>,
    /// The pod.
    pub pod: Option<String>,
    /// The step that failed.
    pub step: String,
    /// What happened.
    pub message: String,
    /// The tool's exit code.
    pub exit_code: Option<i32>,
    /// The last lines the tool wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// State of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkRunStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// The phase.
    #[serde(default)]
    pub phase: RunPhase,
    /// What it waits for, or how it ended.
    pub message: Option<String>,
    /// The progress.
    pub progress: Option<Progress>,
    /// When the run acquired its turn.
    pub started_at: Option<Time>,
    /// The measurement that started last, until its result is stored. If its Job disappears, it is lost
    /// and counts as a retry.
    pub started: Option<StartedStatus>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The clock of `spec.timeout`, which stops while the run waits for other runs.
    pub clock: Option<ClockStatus>,
    /// Why the clients did not start, and when the run tries again.
    pub setback: Option<SetbackStatus>,
    /// What a queued run waits for.
    pub queue: Option<QueueStatus>,
    /// The target.
    pub target: Option<TargetStatus>,
    /// The nodes of servers and clients, from the stored measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// Whether the run's numbers can be trusted: the worst verdict of its phases, and Invalid if it
    /// failed. Omitted until it ends.
    pub verdict: Option<Verdict>,
    /// Why the verdict is not Valid: constants such as ClientSaturated. The phases have the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// How much equal measurements differ; omitted if no run with `calibrate` in this namespace measured the
    /// same load on the same engine and kind of machines.
    pub noise: Option<NoiseStatus>,
    /// The result at a glance.
    pub headline: Option<Headline>,
    /// Seconds of warm-up of each phase that declares none, as decided before the run started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_warmup_seconds: BTreeMap<String, u32>,
    /// Every row of spec.thresholds with its figure, after the run has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdStatus>,
    /// Images by digest, command lines and versions.
    pub provenance: Option<ProvenanceStatus>,
    /// What two runs must have in common to be compared.
    pub comparability: Option<ComparabilityStatus>,
    /// Results of each phase, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Repetitions that were lost and measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetryStatus>,
    /// Why it failed.
    pub failure: Option<FailureStatus>,
    /// Complete, Passed, TargetReady and ClientsReady; and SameZone, SamePlacementGroup, ClientStronger,
    /// DistinctNodes, ExclusiveCPUs, IoUring and ThreadsAsRequested with the evidence in the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

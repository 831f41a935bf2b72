//! What became of a run, for people and for whoever reads it by machine: numbers
//! and lists, never texts that hold several values.

use super::{ComparabilityStatus, Headline, PhaseStatus, RetryStatus, Verdict};
use crate::{observed::ServerTruth, thresholds::ThresholdStatus};
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
    /// Its instance type, such as c7i.2xlarge; omitted if the node has no such label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Its zone, by its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its placement group; omitted if it is in none or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// Its architecture, such as arm64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Its kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Its CPUs' model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Online CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Whether a server of the target ran on it.
    #[serde(default)]
    pub serves: bool,
    /// Whether a client pod loaded from it.
    #[serde(default)]
    pub loads: bool,
}

/// Where the numbers come from: what else must be known to measure them again.
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

/// A measurement that has its start command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedStatus {
    /// Name of its Job.
    pub job: String,
    /// Its start line.
    pub start_at: Time,
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
    /// The same of the 99th percentile of latency; omitted if it is not known.
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
    /// Every Lease that the run waits for, held or not: runs that were created later leave
    /// them to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
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

/// Why a run failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// How many of all measurements are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When it got its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The measurement whose start line was given last, until its result is stored: one whose
    /// Job is gone meanwhile is lost, and never measured again in silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedStatus>,
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
    /// How much equal runs differ on these nodes; omitted if no run with `calibrate`
    /// measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseStatus>,
    /// The result at a glance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// Every row of spec.thresholds, once the run has ended, with the figure found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdStatus>,
    /// Images by digest, command lines and versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<ProvenanceStatus>,
    /// What was measured on what, with what, and what of it two runs must have in common
    /// to be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparability: Option<ComparabilityStatus>,
    /// Results per phase, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Repetitions that were lost and measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetryStatus>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureStatus>,
    /// Complete, Passed, TargetReady and ClientsReady; and of where servers and clients run
    /// SameZone, SamePlacementGroup, ClientStronger, DistinctNodes, ExclusiveCPUs, IoUring
    /// and ThreadsAsRequested, with the evidence in the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

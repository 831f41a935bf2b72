//! The messages between the operator and its runners: a runner's job, the start command, and the
//! runner's state. All requests are idempotent, so a restarted operator repeats them.

pub mod signing;

use dragstrip_crds::{
    datastore::ServerProtocol,
    workload::{LoadSpec, ToolSpec},
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use signing::VerifyingKey;
use std::net::SocketAddr;

/// Environment variable with the runner's [`JobSpec`] as JSON.
pub const JOB_VARIABLE: &str = "DRAGSTRIP_JOB";
/// Environment variable with the target's password, from a Secret.
pub const PASSWORD_VARIABLE: &str = "DRAGSTRIP_PASSWORD";
/// Environment variable that, when it is `true`, adds bytes, connections and latencies to the
/// progress lines of Dragstrip's own tools.
pub const PROGRESS_DETAIL_VARIABLE: &str = "DRAGSTRIP_PROGRESS_DETAIL";
pub const POD_NAME_VARIABLE: &str = "POD_NAME";
/// Environment variable with the pod's index within its Job, from Kubernetes.
pub const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Request header with the token that says which run (or Datastore) is meant,
/// so that nobody talks to a stranger that got a pod's old address.
pub const TOKEN_HEADER: &str = "x-dragstrip-token";
pub const RUNNER_PORT: u16 = 9181;
pub const OBSERVER_PORT: u16 = 9180;
/// A runner answers with 200 once it waits at the start line or is past it, and not before; an observer
/// once its servers have started, with 503 if one does not answer then.
pub const READY_PATH: &str = "/ready";
/// `POST` a [`StartCommand`], get a [`RunnerState`].
pub const START_PATH: &str = "/v1/start";
/// `GET` a [`RunnerState`].
pub const PROGRESS_PATH: &str = "/v1/progress";
/// `GET` a runner's clock as a [`ClockReading`], to measure its offset from the operator's.
pub const CLOCK_PATH: &str = "/v1/clock";
/// `POST` a [`TopologyCommand`] to an observer, get a [`TopologyState`].
pub const TOPOLOGY_PATH: &str = "/v1/topology";
/// Directory with ca.crt, if the target's authority is known.
pub const AUTHORITY_DIRECTORY: &str = "/dragstrip/tls-authority";
/// Directory with the client's tls.crt and tls.key, if it has any.
pub const CLIENT_CERTIFICATE_DIRECTORY: &str = "/dragstrip/tls-client";
/// Directory with the server's tls.crt, tls.key and ca.crt, in server pods.
pub const SERVER_CERTIFICATE_DIRECTORY: &str = "/dragstrip/tls-server";
/// `GET` an observer's [`crate::measured::observed::Observation`].
pub const OBSERVED_PATH: &str = "/v1/observed";
/// `GET` the memory of an observer's servers: a list of [`MemberMemory`](crate::measured::memory::MemberMemory).
pub const MEMORY_PATH: &str = "/v1/memory";

/// `POST` a [`UsageCommand`] to an observer: it samples what its servers use from then on.
/// `GET` with [`UsageWindow`] as query, get a list of [`crate::measured::usage::ServerUsage`], each
/// named by its port; this ends the sampling.
pub const USAGE_PATH: &str = "/v1/usage";

#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobTls {
    /// Name the server's certificate must be valid for; the host when absent.
    pub server_name: Option<String>,
    /// Whether [`AUTHORITY_DIRECTORY`] holds ca.crt.
    pub authority: bool,
    /// Whether [`CLIENT_CERTIFICATE_DIRECTORY`] holds tls.crt and tls.key.
    pub client_certificate: bool,
    pub insecure_skip_verify: bool,
}

/// One server of a target that has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobMember {
    /// Host name or IP address.
    pub host: String,
    pub port: u16,
    /// The `run_id` it had when it was verified; absent where it has none.
    pub run_id: Option<String>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobTarget {
    /// Host name or IP address.
    pub host: String,
    pub port: u16,
    pub cluster: bool,
    /// Whether it is one server that reports cluster mode, as Dragonfly emulates it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated_cluster: bool,
    /// The `run_id` the server had when it was verified; another one means that it was replaced.
    pub run_id: Option<String>,
    /// ACL user; the default user when absent.
    pub username: Option<String>,
    pub tls: Option<JobTls>,
    /// What it speaks: with [`ServerProtocol::Tcp`] there is no query over RESP.
    #[serde(default)]
    pub protocol: ServerProtocol,
    /// Every server, where there are several: the shards of a cluster, or a
    /// primary and its replicas. Empty for one server, and for external clusters,
    /// whose shards the runner queries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<JobMember>,
    /// The observers beside its servers: where the runner measures how long the network
    /// takes. Empty for external targets, and where nothing observes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<SocketAddr>,
    /// Networks that an external target's names may not lead to; empty for other targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<IpNet>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    pub run: String,
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// How many client pods load together.
    pub clients: u32,
    /// What requests to this runner must carry.
    pub token: String,
    /// The key that must have signed its commands; a runner refuses a job without one. Absent in
    /// jobs of the command line.
    pub verifying_key: Option<VerifyingKey>,
    pub target: JobTarget,
    /// FLUSHALL before the start line (by the pod with index 0).
    pub flush: bool,
    /// Keys to write and count before the start line; every client writes its share.
    pub load: Option<LoadSpec>,
    /// Load of the same kind before the measured part, in seconds.
    pub warmup_seconds: Option<f64>,
    /// Whether the server may evict keys while the load runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_eviction: bool,
    pub tool: ToolSpec,
    /// Seconds after the start line at which the tool is killed whatever it does.
    pub watchdog_seconds: f64,
    /// How long the runner stays for one more scrape of its metrics once its result is
    /// delivered, in seconds: only if it was scraped that shortly before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub linger_seconds: f64,
    /// Whether the runner reads the servers' memory; absent if the operator queries observers.
    pub memory: Option<JobMemory>,
}

/// When the runner reads the memory of the servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobMemory {
    /// How long after the load it is read once more, in seconds; only right after it when absent.
    pub settle_seconds: Option<f64>,
}

/// Longest time that a runner stays for one more scrape, in seconds: what waits for its
/// end counts it as lost a little later.
pub const LONGEST_LINGER_SECONDS: f64 = 10.0;

// A reference, because serde gives one.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(seconds: &f64) -> bool {
    *seconds <= 0.0
}

/// The start command, given to all runners of a Job with the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartCommand {
    /// The start line, in nanoseconds of Unix time by the operator's clock.
    pub start_at_unix_nanos: i64,
    /// The operator's clock when it sent the command.
    pub sent_at_unix_nanos: i64,
    /// The runner's clock minus the operator's, as the operator measured it.
    pub clock: ClockOffset,
}

impl StartCommand {
    /// The start line, in nanoseconds of Unix time by the runner's clock.
    pub fn line_unix_nanos(&self) -> i64 {
        self.start_at_unix_nanos.saturating_add(self.clock.offset_nanos)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockReading {
    pub unix_nanos: i64,
}

/// How far a runner's clock is from the operator's: Cristian's algorithm, the
/// reading compared with the middle between request and answer, of the
/// fastest of several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockOffset {
    /// The runner's clock minus the operator's, in nanoseconds.
    pub offset_nanos: i64,
    /// Half the time between request and answer: the offset cannot be further off than this.
    pub uncertainty_nanos: i64,
}

/// The command to sample what servers use. Idempotent: the same token continues, another restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageCommand {
    /// The measurement: the token of its runners.
    pub token: String,
    /// For how long at most, in seconds: an operator that is gone never stops it.
    pub seconds: u64,
}

/// Which part of the samples is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageWindow {
    pub token: String,
    /// Its begin, in nanoseconds of Unix time by the observer's clock.
    pub from_unix_nanos: i64,
    pub to_unix_nanos: i64,
}

/// Servers that an observer is to join. Idempotent: joined ones stay, separated ones are repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TopologyCommand {
    /// A cluster of primaries that share the slots evenly, in this order.
    Cluster {
        /// Every shard, as IP address and port.
        members: Vec<SocketAddr>,
        /// Their replicas: the first replicates the first shard and so on, again from the first.
        #[serde(default)]
        replicas: Vec<SocketAddr>,
    },
    Replication {
        primary: SocketAddr,
        replicas: Vec<SocketAddr>,
    },
}

/// How far an observer came with a [`TopologyCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyState {
    /// Whether everything is joined and in step.
    pub complete: bool,
    /// What is missing, or that nothing is.
    pub message: String,
    /// What this command changed, in sequence.
    #[serde(default)]
    pub changes: Vec<String>,
    #[serde(default)]
    pub members: Vec<TopologyMember>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyMember {
    pub address: SocketAddr,
    /// What it reports of itself; absent if it did not answer.
    pub truth: Option<dragstrip_crds::observed::ServerTruth>,
    /// primary, replica or shard.
    pub role: String,
    /// Slots it serves, such as 0-2047.
    pub slots: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunnerStage {
    /// Checking the target.
    #[default]
    Preflight,
    /// Writing and counting keys.
    Loading,
    /// Running the load that is not measured.
    WarmingUp,
    AtStartLine,
    /// Has the command, waits for the instant.
    Armed,
    Running,
    /// The result is written.
    Finished,
}

/// A runner's answer to a command and to a query of its progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerState {
    pub stage: RunnerStage,
    /// The command it obeys: the first it got. A later, different one is ignored.
    pub start_at_unix_nanos: Option<i64>,
    pub elapsed_seconds: f64,
    /// Operations so far, by the tool's progress output.
    pub operations: u64,
    pub errors: u64,
    /// What 99 of 100 latencies so far stay below, in milliseconds, roughly; absent if the
    /// tool does not report it while it runs.
    pub p99_milliseconds: Option<f64>,
    /// How much of a stage before the start line is done, from 0 to 1; absent if it is short.
    pub prepared_ratio: Option<f64>,
}

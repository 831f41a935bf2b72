//! What the operator and its runners tell each other: the job a runner is
//! given, the order to start, and the runner's state. All requests are
//! idempotent, so that a restarted operator simply asks again.

use crate::workload::{LoadgenSpec, MemtierSpec};
use serde::{Deserialize, Serialize};

/// Environment variable with the runner's [`JobSpec`] as JSON.
pub const JOB_VARIABLE: &str = "DRAGSTRIP_JOB";
/// Environment variable with the target's password, from a Secret.
pub const PASSWORD_VARIABLE: &str = "DRAGSTRIP_PASSWORD";
/// Environment variable with the pod's own name.
pub const POD_NAME_VARIABLE: &str = "POD_NAME";
/// Environment variable with the pod's index within its Job, from Kubernetes.
pub const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Request header with the token that says which run (or Datastore) is meant,
/// so that nobody talks to a stranger that got a pod's old address.
pub const TOKEN_HEADER: &str = "x-dragstrip-token";
/// Port a runner listens on.
pub const RUNNER_PORT: u16 = 9181;
/// Port an observer listens on.
pub const OBSERVER_PORT: u16 = 9180;
/// 200 when the preflight passed and the runner waits at the start line, or is past it.
pub const READY_PATH: &str = "/ready";
/// `POST` a [`StartOrder`], get a [`RunnerState`].
pub const START_PATH: &str = "/v1/start";
/// `GET` a [`RunnerState`].
pub const PROGRESS_PATH: &str = "/v1/progress";
/// `GET` an observer's [`crate::observed::Observation`].
pub const OBSERVED_PATH: &str = "/v1/observed";

/// The server a job is to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobTarget {
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether the server must be in cluster mode.
    pub cluster: bool,
    /// The `run_id` the server had when it was verified; another one means that it was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// The tool to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JobTool {
    /// Our load generator.
    Loadgen(LoadgenSpec),
    /// `memtier_benchmark`.
    Memtier(MemtierSpec),
}

impl JobTool {
    /// How long the load is declared to run, in seconds; `None` when it is
    /// bounded by a number of requests.
    pub fn planned_seconds(&self) -> Option<f64> {
        match self {
            Self::Loadgen(spec) => spec.duration.as_ref().map(crate::units::Period::seconds),
            Self::Memtier(spec) => spec.test_time.as_ref().map(crate::units::Period::seconds),
        }
    }
}

/// All a runner needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// Run's name.
    pub run: String,
    /// Phase's name.
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// How many client pods load together.
    pub clients: u32,
    /// What requests to this runner must carry.
    pub token: String,
    /// The server.
    pub target: JobTarget,
    /// FLUSHALL before the start line (by the pod with index 0).
    pub flush: bool,
    /// The tool.
    pub tool: JobTool,
    /// Seconds after the start line at which the tool is killed whatever it does.
    pub watchdog_seconds: f64,
}

/// The order to start, given to all runners of a Job with the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartOrder {
    /// The start line, in nanoseconds of Unix time by the operator's clock.
    pub start_at_unix_nanos: i64,
    /// The operator's clock when it sent the order.
    pub sent_at_unix_nanos: i64,
}

/// Where a runner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunnerStage {
    /// Checking the target.
    Preflight,
    /// Waiting for the order to start.
    AtStartLine,
    /// Has the order, waits for the instant.
    Armed,
    /// The tool runs.
    Running,
    /// The result is written.
    Finished,
}

/// A runner's answer to an order and to a question about progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerState {
    /// Where it stands.
    pub stage: RunnerStage,
    /// The order it obeys: the first it got. A later, different one is ignored.
    pub start_at_unix_nanos: Option<i64>,
    /// Seconds since the load began.
    pub elapsed_seconds: f64,
    /// Operations so far, by the tool's progress output.
    pub operations: u64,
    /// Errors so far.
    pub errors: u64,
}

//! The BullMQ job's report, as far as it is read.

use dragstrip_loadgen::counts::report::{ErrorReport, RunStatus, WarmupReport};
use dragstrip_results::result::{Operation, Presence, WorkerRecord};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub version: String,
    pub bullmq_version: String,
    pub ioredis_version: String,
    pub node_version: String,
    pub status: RunStatus,
    pub interrupted: Option<String>,
    pub failure: Option<FailureReport>,
    pub configuration: ConfigurationEcho,
    /// Begin of the measured part; a text, since a number of JSON would lose digits in Node.js.
    pub started_at_unix_nanos: Option<String>,
    pub window_seconds: f64,
    pub operations: Vec<OperationReport>,
    pub errors: Vec<ErrorReport>,
    pub per_second: Vec<BTreeMap<String, u64>>,
    pub warmup: WarmupReport,
    pub workers: Vec<WorkerRecord>,
    pub queues: Option<Presence>,
    pub notes: Vec<String>,
    pub nominal: Rates,
}

impl OperationReport {
    /// Jobs per second of its own load; `None` for an operation that did nothing.
    pub fn rate(&self) -> Option<f64> {
        let count = self.counts.count;
        (count > 0 && self.window_seconds > 0.0).then(|| count as f64 / self.window_seconds)
    }
}

impl Report {
    pub fn versions(&self) -> String {
        format!(
            "{} (bullmq {}, ioredis {}, node {})",
            self.version, self.bullmq_version, self.ioredis_version, self.node_version
        )
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FailureReport {
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConfigurationEcho {
    pub connections: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperationReport {
    #[serde(flatten)]
    pub counts: Operation,
    /// From the begin of its measured part to its last confirmation.
    pub window_seconds: f64,
    pub latency_contains: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rates {
    pub add_jobs_per_second: f64,
    pub process_jobs_per_second: f64,
}

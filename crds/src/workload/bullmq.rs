//! The BullMQ job.

use super::{default_true, one};
use crate::units::Period;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

fn default_queues() -> i32 {
    1
}

fn default_concurrency() -> i32 {
    2000
}

pub(super) fn default_prefix() -> String {
    "b".to_owned()
}

pub(super) fn default_queue_name() -> String {
    "{queue%d}".to_owned()
}

pub(super) fn default_payload() -> i64 {
    32
}

/// BullMQ's own client library on worker threads, adding jobs to queues and
/// processing them. The published command line `-w 16 -q 8 -d 30 -r 0` is
/// `writers: 16, queues: 8, duration: 30s, readers: 0`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.writers + self.readers > 0")
        .message("bullmq needs at least one writer or reader"),
    validation = Rule::new("!has(self.payload) || self.payloadBytes == 32")
        .message("set only one of payload and payloadBytes"),
)]
pub struct BullmqSpec {
    /// Image that holds `dragstrip-bullmq`; the operator's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Worker threads that add jobs, per client pod. Each needs a CPU of its own:
    /// Node.js is the limit at about 60,000 jobs per second and thread. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1024))]
    pub writers: i32,
    /// Worker threads that process jobs, per client pod. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1024))]
    pub readers: i32,
    /// Queues, shared by all threads in turn. Default 1.
    #[serde(default = "default_queues")]
    #[schemars(range(min = 1, max = 4096))]
    pub queues: i32,
    /// Adds each writer has in flight, and jobs each reader processes at a time; 1
    /// awaits every add. Default 2000, as the published tool has.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: i32,
    /// Jobs per addBulk; 0 adds them one by one. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub bulk: i32,
    /// How long to measure, such as 30s, 5m or 1h30m.
    pub duration: Period,
    /// Size of each job's data, in bytes of text. Default 32.
    #[serde(default = "default_payload")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub payload_bytes: i64,
    /// Each job's data as JSON text, instead of payloadBytes, such as `{"color":"red"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub payload: Option<String>,
    /// BullMQ's key prefix. Default b.
    #[serde(default = "default_prefix")]
    #[schemars(length(min = 1, max = 64))]
    pub prefix: String,
    /// Queue names, with %d for the queue's number. Braces make the name a hashtag,
    /// which keeps a queue's keys in one slot (Redis Cluster) or thread (Dragonfly).
    /// Default {queue%d}.
    #[serde(default = "default_queue_name")]
    #[schemars(length(min = 2, max = 128))]
    #[x_kube(validation = Rule::new("self.contains('%d')")
        .message("queueName needs %d where the queue's number goes, such as {queue%d}"))]
    pub queue_name: String,
    /// Use the cluster client although the target is not in cluster mode, or the
    /// plain one although it is. As the target is when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<bool>,
    /// Remove the queues' keys after the measurement. Default true.
    #[serde(default = "default_true")]
    pub clean_up: bool,
}

impl BullmqSpec {
    /// How long before the start line the program must be started: Node.js and the
    /// first connection take up to 5 s on a busy machine, and each worker thread, which loads the
    /// whole client library, 0.25 s more.
    pub fn head_start(&self) -> Duration {
        let threads = self.writers.unsigned_abs() + self.readers.unsigned_abs();
        Duration::from_secs(5) + Duration::from_millis(250) * threads
    }
}

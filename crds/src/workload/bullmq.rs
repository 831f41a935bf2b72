//! The BullMQ job.

use super::{default_true, one};
use crate::units::Period;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

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

/// How writers add jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BullmqMode {
    /// As the tool of the article on BullMQ and Dragonfly: 2,000 adds of its own jobs
    /// over all queues without waiting, each a write to its connection, then a wait for
    /// all of them; readers begin when the writers are done, for another `duration`.
    Published,
    /// `concurrency` adds in flight all the time, those of one turn of Node.js' event
    /// loop in one write; readers load together with the writers.
    #[default]
    Fast,
}

impl fmt::Display for BullmqMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Published => "Published",
            Self::Fast => "Fast",
        })
    }
}

/// BullMQ's own client library on worker threads, adding jobs to queues and
/// processing them. The published command line `-w 16 -q 8 -d 30 -r 0` is
/// `mode: Published, writers: 16, queues: 8, duration: 30s, readers: 0`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.writers + self.readers > 0")
        .message("bullmq needs at least one writer or reader"),
    validation = Rule::new("!has(self.payload) || !has(self.payloadBytes)")
        .message("set only one of payload and payloadBytes"),
    validation = Rule::new("self.mode != 'Published' || (self.concurrency == 2000 && self.bulk == 0 && !has(self.payload) && !has(self.payloadBytes))")
        .message("mode Published has its own jobs and batches: leave out concurrency, bulk, payload and payloadBytes, or use mode Fast"),
)]
pub struct BullmqSpec {
    /// Image that holds `dragstrip-bullmq`; the operator's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Published (the article's loop) or Fast. Defaults to Fast.
    #[serde(default)]
    pub mode: BullmqMode,
    /// Worker threads that add jobs, per client pod. Each needs a CPU of its own:
    /// Node.js is the limit at about 60,000 jobs per second and thread. Defaults to 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1024))]
    pub writers: i32,
    /// Worker threads that process jobs, per client pod. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1024))]
    pub readers: i32,
    /// Queues, shared by all threads in turn. Defaults to 1.
    #[serde(default = "default_queues")]
    #[schemars(range(min = 1, max = 4096))]
    pub queues: i32,
    /// Adds each writer has in flight in mode Fast; 1 awaits every add. Defaults to 2000.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: i32,
    /// Jobs each reader processes at a time, per queue. Defaults to 1, as BullMQ itself and
    /// the published tool have.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000))]
    pub reader_concurrency: i32,
    /// Jobs per addBulk; 0 adds them one by one. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub bulk: i32,
    /// How long to measure, such as 30s, 5m or 1h30m; in mode Published the writers, and
    /// then the readers for as long.
    pub duration: Period,
    /// Size of each job's data, in bytes of text. 32 if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub payload_bytes: Option<i64>,
    /// Each job's data as JSON text, instead of payloadBytes, such as `{"color":"red"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub payload: Option<String>,
    /// BullMQ's key prefix. Defaults to b.
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
    /// plain one although it is. As the target is if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<bool>,
    /// Remove the queues' keys after the measurement. What could not be removed in time
    /// is a note of the result. Defaults to true.
    #[serde(default = "default_true")]
    pub clean_up: bool,
}

impl BullmqSpec {
    /// How often `duration` is loaded, warm-up included: once, or by the readers after
    /// the writers.
    pub fn stages(&self) -> u32 {
        if self.mode == BullmqMode::Published && self.writers > 0 && self.readers > 0 { 2 } else { 1 }
    }

    /// Data of each job in mode Fast, in bytes of text, where `payload` does not say it.
    pub fn payload_size(&self) -> i64 {
        self.payload_bytes.unwrap_or_else(default_payload)
    }

    /// How long before the start line the program must be started: Node.js and the
    /// first connection take up to 5 s on a busy machine, and each worker thread, which loads the
    /// whole client library, 0.25 s more.
    pub fn head_start(&self) -> Duration {
        let threads = self.writers.unsigned_abs() + self.readers.unsigned_abs();
        Duration::from_secs(5) + Duration::from_millis(250) * threads
    }
}

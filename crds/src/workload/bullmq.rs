//! The BullMQ job.

use crate::{
    defaults::{int, long},
    units::Period,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::time::Duration;

fn queue_name() -> String {
    "{queue%d}".to_owned()
}

/// How writers add jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BullmqMode {
    /// As the tool of the article on BullMQ and Dragonfly: send 2,000 adds over all queues, each a
    /// write of its own, then await all of them. Readers begin when the writers have ended and run
    /// for another `duration`.
    Published,
    /// Keep `concurrency` adds in flight, one write for each turn of Node.js' event loop. Readers
    /// run together with the writers.
    #[default]
    Fast,
}

/// Worker threads that add jobs to BullMQ's queues and process them with BullMQ's own library. The
/// published `-w 16 -q 8 -d 30 -r 0` is
/// `{mode: Published, writers: 16, queues: 8, duration: 30s, readers: 0}`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.writers + self.readers > 0")
        .message("bullmq needs at least one writer or reader"),
    validation = Rule::new("self.mode != 'Published' || (self.concurrency == 2000 && self.bulk == 0 && self.payloadBytes == 32)")
        .message("mode Published has its own jobs and batches: leave out concurrency, bulk and payloadBytes, or use mode Fast"),
)]
pub struct BullmqSpec {
    /// Image with `dragstrip-bullmq`. Defaults to the operator's.
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Published (the article's loop) or Fast. Defaults to Fast.
    #[serde(default)]
    pub mode: BullmqMode,
    /// Worker threads that add jobs, in each client pod. Each needs a CPU: Node.js adds at most
    /// about 60,000 jobs per second and thread. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 0, max = 1024))]
    pub writers: i32,
    /// Worker threads that process jobs, in each client pod. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1024))]
    pub readers: i32,
    /// Number of queues. Every thread uses all of them in turn. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 4096))]
    pub queues: i32,
    /// Adds in flight of each writer in mode Fast; 1 awaits every add. Defaults to 2000.
    #[serde(default = "int::<2000>")]
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: i32,
    /// Jobs that each reader processes at a time, per queue. Defaults to 1, as in BullMQ.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 100_000))]
    pub reader_concurrency: i32,
    /// Jobs per addBulk; 0 adds them one by one. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub bulk: i32,
    /// How long to measure, such as 30s. In mode Published, writers and then readers each run this
    /// long.
    pub duration: Period,
    /// Size of each job's data in mode Fast, in bytes of text. Defaults to 32.
    #[serde(default = "long::<32>")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub payload_bytes: i64,
    /// Queue names, with %d for the queue's number. Braces make the name a hashtag, which keeps a
    /// queue's keys in one slot (Redis Cluster) or thread (Dragonfly). Defaults to {queue%d}.
    #[serde(default = "queue_name")]
    #[schemars(length(min = 2, max = 128))]
    #[x_kube(validation = Rule::new("self.contains('%d')")
        .message("queueName needs %d where the queue's number goes, such as {queue%d}"))]
    pub queue_name: String,
}

impl BullmqSpec {
    /// How often `duration` passes: twice if readers follow the writers.
    pub fn stages(&self) -> u32 {
        if self.mode == BullmqMode::Published && self.writers > 0 && self.readers > 0 { 2 } else { 1 }
    }

    /// How long before the start line the program must start: Node.js and the first connection
    /// take up to 5 s on a busy machine, and each worker thread 0.25 s more to load the library.
    pub fn head_start(&self) -> Duration {
        let threads = self.writers.unsigned_abs() + self.readers.unsigned_abs();
        Duration::from_secs(5) + Duration::from_millis(250) * threads
    }
}

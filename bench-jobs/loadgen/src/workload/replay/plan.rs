//! The validated description of a replay.

use serde::{Deserialize, Serialize};

use crate::wire::slots::hashtag;

/// What a job is called when its name does not matter.
pub const JOB_NAME: &str = "test";

/// Which jobs are added to which queues.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReplayPlan {
    /// BullMQ's key prefix.
    pub prefix: String,
    /// Names of the queues, at least one, all different.
    pub queues: Vec<String>,
    /// Data of every job, as the JSON that BullMQ stores.
    pub data: String,
}

impl ReplayPlan {
    /// What the keys of a queue begin with.
    pub fn key_prefix(&self, queue: &str) -> String {
        format!("{}:{queue}:", self.prefix)
    }

    /// Lists of waiting jobs, one of each queue.
    pub fn wait_keys(&self) -> Vec<String> {
        self.queues.iter().map(|queue| format!("{}wait", self.key_prefix(queue))).collect()
    }

    /// Whether all keys of a queue have one slot, which the script needs in a cluster.
    pub(crate) fn fits_cluster(&self) -> bool {
        self.queues.iter().all(|queue| hashtag(self.key_prefix(queue).as_bytes()).is_some())
    }

    /// The plan as a result echoes it.
    pub fn echo(&self) -> ReplayEcho {
        ReplayEcho {
            prefix: self.prefix.clone(),
            queues: self.queues.clone(),
            payload_bytes: self.data.len(),
            script: crate::workload::replay::requests::SCRIPT_ORIGIN.into(),
        }
    }
}

/// What was asked of a replay.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplayEcho {
    /// BullMQ's key prefix.
    pub prefix: String,
    /// Names of the queues.
    pub queues: Vec<String>,
    /// Bytes of a job's data as JSON.
    pub payload_bytes: usize,
    /// Package and version the script is from.
    pub script: String,
}

//! The memory of a run's servers: when it is read, and what was found.

use crate::units::Period;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Member of a reading that is all members together.
pub const SUM: &str = "SUM";

/// When the servers' memory is read again after a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemorySpec {
    /// Read the servers' memory once more this long after the load of the phase ended, such
    /// as 60s, when a server has freed or written what it could. The next phase waits for
    /// it, and it is part of the run's time. At most 1h.
    #[x_kube(validation = Rule::new("!self.matches('^([0-9]+(h|ms|m|s))+$') || duration(self) <= duration('1h')")
        .message("settle is at most 1h, such as 60s"))]
    pub settle: Period,
}

/// When a reading was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MemoryMoment {
    /// As soon as the phase's load had ended.
    RightAfter,
    /// After the settle time.
    Settled,
}

/// The memory of one server, or of all together, at one moment. What is not known is omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReading {
    /// RightAfter or Settled.
    pub moment: MemoryMoment,
    /// How long after the end of the load it was read, in seconds.
    pub seconds: f64,
    /// The server: its pod, with the port where a pod runs several servers; the address of
    /// an external one; SUM of all together.
    pub member: String,
    /// Memory that the server says its data and itself use (used_memory), in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Memory that the server says the system gave it (used_memory_rss), in bytes; of one
    /// that speaks no RESP what the kernel says of its process (VmRSS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// The most that it says it ever used (used_memory_peak), in bytes; of one that speaks
    /// no RESP the most that its process ever had (VmHWM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Memory of its container as the kernel counts it, without files that could be dropped
    /// (inactive_file), in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_bytes: Option<u64>,
    /// The most that its container ever used, files and all, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_peak_bytes: Option<u64>,
    /// Keys that it has (DBSIZE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// usedBytes / keys: what an empty server needs is in it, so that many keys tell more
    /// than few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_key: Option<f64>,
    /// Why a requested figure is missing; in SUM, which members it does not include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

//! The memory of a run's servers: when it is read, and its figures.

use crate::units::Period;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Member of a reading of all members together.
pub const SUM: &str = "SUM";

/// When to read the servers' memory again after a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemorySpec {
    /// Read the servers' memory again this long after the phase's load, such as 60s, when a server has
    /// freed or written what it could. The next phase waits, and the run's timeout includes it. At most
    /// 1h.
    #[x_kube(validation = Rule::new("!self.matches('^([0-9]+(h|ms|m|s))+$') || duration(self) <= duration('1h')")
        .message("settle is at most 1h, such as 60s"))]
    pub settle: Period,
}

/// When a reading was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MemoryMoment {
    /// Right after the phase's load.
    RightAfter,
    /// After the settle time.
    Settled,
}

/// The memory of one server, or of all together, at one moment. Unknown figures are omitted.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReading {
    /// RightAfter or Settled.
    pub moment: MemoryMoment,
    /// Time of the reading after the end of the load, in seconds.
    pub seconds: f64,
    /// The server: its pod, with a port if the pod runs several servers; the address of an external
    /// one; SUM for all together.
    pub member: String,
    /// Memory that the server reports for data and itself (used_memory), in bytes.
    pub used_bytes: Option<u64>,
    /// Resident memory that the server reports (used_memory_rss), or without RESP that of its process
    /// (VmRSS), in bytes.
    pub rss_bytes: Option<u64>,
    /// Peak memory that the server reports (used_memory_peak), or without RESP that of its process
    /// (VmHWM), in bytes.
    pub peak_bytes: Option<u64>,
    /// Memory of its container without inactive_file, in bytes.
    pub cgroup_bytes: Option<u64>,
    /// Peak memory of its container, files included, in bytes.
    pub cgroup_peak_bytes: Option<u64>,
    /// Number of keys (DBSIZE).
    pub keys: Option<u64>,
    /// usedBytes / keys. It includes the memory of an empty server, so use many keys.
    pub bytes_per_key: Option<f64>,
    /// Why a figure is missing; for SUM, the members that it does not include.
    pub unread: Option<String>,
}

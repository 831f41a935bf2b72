//! The answers of an observer, and a server's counters before and after the load.

use dragstrip_crds::observed::{HostTruth, ServerTruth};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// CPU and memory of a container, from its cgroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupUsage {
    /// CPU time used since the container started, in seconds.
    pub cpu_seconds: f64,
    /// Time the container wanted to run but its CPU limit did not let it, in seconds.
    pub throttled_seconds: f64,
    /// Scheduling periods in which it was throttled.
    pub throttled_periods: u64,
    /// CPUs it may run on, as a kernel list such as 0-3.
    pub cpuset: String,
    pub memory_bytes: u64,
    /// The part of it that is files which nobody used lately, and which the kernel could drop, in bytes.
    #[serde(default)]
    pub inactive_file_bytes: u64,
    pub memory_peak_bytes: u64,
}

/// An observer's answer to `GET /v1/observed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    pub server: ServerTruth,
    pub host: HostTruth,
    /// The server container's cgroup; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupUsage>,
    /// Every server of the pod, where it runs several (the shards of a cluster on
    /// one node), in the order of their ports; `server` is the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ServerTruth>,
}

/// Calls and failures of one command, from INFO commandstats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandCounter {
    /// Times the command ran, failures included.
    pub calls: u64,
    /// Times it ran and answered an error.
    pub failed: u64,
    /// Times it was refused before it ran (no permission, out of memory).
    pub rejected: u64,
}

/// Times of a server's main thread since it began, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MainThreadTime {
    /// In which it had work, by the server's own account.
    pub active_micros: u64,
    /// In which it was on a CPU, waiting for work in a busy loop included.
    pub cpu_micros: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCounters {
    /// Identifies the process that counted.
    pub run_id: String,
    /// By command in lower case; empty if the engine does not report them.
    pub commands: BTreeMap<String, CommandCounter>,
    /// All commands processed; absent if the engine does not report them.
    pub commands_processed: Option<u64>,
    /// Error replies by their first word.
    pub errors: BTreeMap<String, u64>,
    /// Whether the server counts its error replies at all.
    #[serde(default)]
    pub counts_errors: bool,
    pub evicted_keys: u64,
    pub expired_keys: u64,
    pub keyspace_hits: u64,
    pub keyspace_misses: u64,
    #[serde(default)]
    pub connections_received: u64,
    /// Absent if the engine does not report it, and for sums of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_thread: Option<MainThreadTime>,
}

/// Whether `actual` are other servers than `known`, each identified by its process; an empty
/// list is unknown and differs from nothing.
pub fn are_others(known: &[impl AsRef<str>], actual: &[impl AsRef<str>]) -> bool {
    fn ids(ids: &[impl AsRef<str>]) -> BTreeSet<&str> {
        ids.iter().map(AsRef::as_ref).collect()
    }
    let (known, actual) = (ids(known), ids(actual));
    !known.is_empty() && !actual.is_empty() && known != actual
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_servers_are_those_with_other_processes() {
        for (known, actual, others) in [
            (vec!["a", "b"], vec!["b", "a"], false),
            (vec!["a", "b"], vec!["a", "c"], true),
            (vec!["a", "b"], vec!["a"], true),
            (vec!["7@100"], vec!["7@101"], true),
            (vec!["a"], vec![], false),
        ] {
            assert_eq!(are_others(&known, &actual), others, "{known:?}, {actual:?}");
        }
    }
}

//! What a server reports over RESP, and its machine.

use crate::datastore::{Engine, NO_EVICTION};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// What a running server reports (INFO and CONFIG GET).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerTruth {
    /// The engine, recognised by INFO's fields; omitted if none matches.
    pub engine: Option<Engine>,
    /// The engine's version, such as 7.0.15.
    pub version: String,
    /// Threads that serve commands; omitted if the engine does not report them (Garnet).
    pub threads: Option<i32>,
    /// I/O interface: epoll, iouring, ...
    pub io_interface: Option<String>,
    /// Memory limit in bytes; 0 means unlimited.
    pub max_memory_bytes: Option<i64>,
    /// Eviction policy, such as noeviction.
    pub max_memory_policy: Option<String>,
    /// Settings of persistence as CONFIG GET shows them, such as save or appendonly; only those that the
    /// engine has. A server without an append-only file has none of the file's settings here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub persistence: BTreeMap<String, String>,
    /// Whether the server runs in cluster mode.
    pub cluster_enabled: bool,
    /// Whether the server is still loading its data set.
    pub loading: bool,
    /// Identifies the process: another value means a restart. The server's `run_id`; for an engine
    /// without one (Dragonfly) PROCESS@START, its number and start in seconds of Unix time; empty if the
    /// server reports neither.
    pub run_id: String,
    /// Memory used by data and the server, in bytes.
    pub used_memory_bytes: i64,
    /// master or slave, from INFO replication; omitted if it is not there.
    pub role: Option<String>,
}

impl ServerTruth {
    /// Whether the server evicts keys once its memory is full.
    pub fn evicts(&self) -> bool {
        self.max_memory_policy.as_deref().is_some_and(|policy| policy != NO_EVICTION)
    }
}

/// A server's machine, as its pod sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostTruth {
    /// Kernel release.
    pub kernel: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Number of online CPUs.
    pub cpus: i32,
}

//! What a server reports about itself over RESP, and what its machine is.

use crate::datastore::Engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A running server's own account of itself (INFO and CONFIG GET).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerTruth {
    /// The engine, recognised by INFO's fields; omitted if none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The engine's own version, such as 7.0.15.
    pub version: String,
    /// Threads serving commands; omitted if the engine does not report them (Garnet).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<i32>,
    /// I/O interface: epoll, iouring, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_interface: Option<String>,
    /// Memory limit in bytes; 0 means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_bytes: Option<i64>,
    /// Eviction policy, such as noeviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_policy: Option<String>,
    /// Whether the server runs in cluster mode.
    pub cluster_enabled: bool,
    /// Whether the server is still loading its data set.
    pub loading: bool,
    /// Identifies this process: another value means that the server was restarted. The
    /// `run_id` that it drew; of an engine that has none (Dragonfly) PROCESS@START, its
    /// number and the second in which it started, in Unix time; empty if the server reports neither.
    pub run_id: String,
    /// Memory used by data and the server, in bytes.
    pub used_memory_bytes: i64,
    /// master or slave, as INFO replication says; omitted if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// The machine a server runs on, as its pod sees it.
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

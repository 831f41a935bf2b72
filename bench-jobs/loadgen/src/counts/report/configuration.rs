//! What was asked for, as the report repeats it.

use serde::{Deserialize, Serialize};

/// How requests share the connection.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PipelineMode {
    /// A full batch is written at once and all its replies are awaited.
    Batch,
    /// A client library decides.
    Library,
    /// Each request is written when it is due, whatever is still unanswered.
    Schedule,
    /// A mode that this version does not know, or none.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What was asked for. Strings are in the notation of the command line.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationEcho {
    /// Host as it was named.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Addresses the host resolved to.
    pub addresses: Vec<String>,
    /// `resp2` or `resp3`.
    pub protocol: String,
    /// `none`, `password` or `usernameAndPassword`.
    pub authentication: String,
    /// Load threads.
    pub threads: usize,
    /// Connections of each thread; in a cluster, each is one to every shard.
    pub connections_per_thread: usize,
    /// `SET:GET`; empty when operations were declared.
    pub ratio: String,
    /// The declared operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// Path of the Unix socket that was used instead of host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket: Option<String>,
    /// `none`, `verified` or `insecure`.
    pub tls: String,
    /// Whether the shards of a cluster shared the load.
    pub cluster: bool,
    /// Whether the replicas of a cluster took the load.
    pub replica_reads: bool,
    /// Load before the measured window, in seconds.
    pub warmup_seconds: f64,
    /// Processes that shared the load.
    pub clients: u32,
    /// Number of this one of them, from 0.
    pub client_index: u32,
    /// Rate of an open loop, in operations per second of all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How long the answers of an open loop are awaited after its schedule, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_seconds: Option<f64>,
    /// `fixed` or `poisson`, for an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// Text before key numbers.
    pub key_prefix: String,
    /// Lowest key number.
    pub key_minimum: u64,
    /// Highest key number.
    pub key_maximum: u64,
    /// `uniform`, `sequential`, `gaussian` or `zipfian`.
    pub key_pattern: String,
    /// Centre of the gaussian pattern, as a key number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_median: Option<f64>,
    /// Standard deviation of the gaussian pattern, in keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_standard_deviation: Option<f64>,
    /// Exponent of the zipfian pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zipf_exponent: Option<f64>,
    /// Smallest value, in bytes.
    pub data_size_minimum: usize,
    /// Largest value, in bytes.
    pub data_size_maximum: usize,
    /// Whether values are random bytes.
    pub random_data: bool,
    /// Smallest and largest expiry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry_seconds: Option<(u64, u64)>,
    /// Requests of a batch.
    pub pipeline: usize,
    /// Requests of each connection, or `allkeys`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<String>,
    /// Wanted length of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Longest time for a connection to be ready, in seconds.
    pub connect_timeout_seconds: f64,
    /// Longest silence of the server, in seconds.
    pub response_timeout_seconds: f64,
    /// Wanted start instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at_unix_nanos: Option<u64>,
    /// What was asked of a client library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryEcho>,
}

/// What was asked of a client library.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LibraryEcho {
    /// `redis-rs`, `fred` or `bb8-redis`.
    pub client: String,
    /// `multiplexed` or `connection-manager`, for redis-rs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_kind: Option<String>,
    /// Name of the operation in the report.
    pub operation: String,
    /// Tokio tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// Connections or clients.
    pub pool_size: usize,
    /// Requests of all tasks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_requests: Option<u64>,
    /// Most requests in flight over all tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounded: Option<usize>,
    /// Whether replies to INCR were checked.
    pub assert_expected: bool,
    /// Chunks of a batch in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<usize>,
    /// Bytes of the keys of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<usize>,
    /// Life of a batch's items where they expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<f64>,
}

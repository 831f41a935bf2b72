//! What a phase runs: one tool with its typed options.

use crate::units::Period;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn default_threads() -> i32 {
    1
}

fn default_connections() -> i32 {
    20
}

fn default_ratio() -> String {
    "1:10".to_owned()
}

fn default_pipeline() -> i32 {
    1
}

fn default_key_maximum() -> i64 {
    1_000_000
}

fn default_data_size() -> i64 {
    32
}

fn default_memtier_threads() -> i32 {
    4
}

fn default_memtier_connections() -> i32 {
    50
}

fn default_memtier_key_maximum() -> i64 {
    10_000_000
}

fn default_memtier_key_pattern() -> String {
    "R:R".to_owned()
}

/// How keys are drawn from the key space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyPattern {
    /// Every key is equally likely.
    #[default]
    Uniform,
    /// Each connection walks its own share of the key space in order; together
    /// they visit every key once per pass.
    Sequential,
    /// Keys near the middle of the key space are likelier (normal distribution).
    Gaussian,
    /// Few keys are asked for most of the time (Zipf's law).
    Zipfian,
}

/// Dragstrip's own load generator: closed loop, one batch of `pipeline`
/// requests is sent and then all its replies are awaited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.duration) != has(self.requestsPerConnection)")
        .message("set exactly one of duration and requestsPerConnection: how long to measure, or how much"),
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("keyMaximum must not be below keyMinimum"),
)]
pub struct LoadgenSpec {
    /// Load threads per client pod. Give the pod at least as many CPUs.
    #[serde(default = "default_threads")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// Connections each thread opens.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 10000))]
    pub connections_per_thread: i32,
    /// How long to measure, such as 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Period>,
    /// How many requests each connection sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_connection: Option<i64>,
    /// SETs to GETs, such as 1:0 (writes only), 0:1 (reads only) or 1:10.
    #[serde(default = "default_ratio")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,6}:[0-9]{1,6}$') && !self.matches('^0+:0+$')")
        .message("ratio is SETs:GETs, two whole numbers that are not both 0, such as 1:10"))]
    #[schemars(length(max = 13))]
    pub ratio: String,
    /// Requests sent on a connection before their replies are awaited; 1 means no pipelining.
    #[serde(default = "default_pipeline")]
    #[schemars(range(min = 1, max = 10000))]
    pub pipeline: i32,
    /// Value size in bytes.
    #[serde(default = "default_data_size")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
    /// Text before the key's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// First key number.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub key_minimum: i64,
    /// Last key number.
    #[serde(default = "default_key_maximum")]
    #[schemars(range(min = 0))]
    pub key_maximum: i64,
    /// How keys are drawn.
    #[serde(default)]
    pub key_pattern: KeyPattern,
    /// Exponent of the Zipfian pattern; 0.99 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 10.0))]
    pub zipf_exponent: Option<f64>,
    /// Seed of the random numbers; another one per client pod is derived from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub seed: Option<i64>,
    /// Speak RESP3 instead of RESP2.
    #[serde(default)]
    pub resp3: bool,
}

/// `memtier_benchmark`, unchanged, from its own image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.testTime) != has(self.requestsPerConnection)")
        .message("set exactly one of testTime and requestsPerConnection: memtier refuses both together; prefer testTime"),
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("keyMaximum must not be below keyMinimum"),
)]
pub struct MemtierSpec {
    /// Image that holds `memtier_benchmark`; the operator's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// memtier's `--threads`, per client pod.
    #[serde(default = "default_memtier_threads")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// memtier's `--clients`: connections each thread opens.
    #[serde(default = "default_memtier_connections")]
    #[schemars(range(min = 1, max = 10000))]
    pub connections_per_thread: i32,
    /// memtier's `--test-time`, in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_time: Option<Period>,
    /// memtier's `--requests`: how many requests each connection sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_connection: Option<i64>,
    /// memtier's `--ratio`: SETs to GETs.
    #[serde(default = "default_ratio")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,6}:[0-9]{1,6}$') && !self.matches('^0+:0+$')")
        .message("ratio is SETs:GETs, two whole numbers that are not both 0, such as 1:10"))]
    #[schemars(length(max = 13))]
    pub ratio: String,
    /// memtier's `--pipeline`: requests in flight per connection.
    #[serde(default = "default_pipeline")]
    #[schemars(range(min = 1, max = 10000))]
    pub pipeline: i32,
    /// memtier's `--data-size`, in bytes.
    #[serde(default = "default_data_size")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
    /// memtier's `--key-prefix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// memtier's `--key-minimum`.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub key_minimum: i64,
    /// memtier's `--key-maximum`.
    #[serde(default = "default_memtier_key_maximum")]
    #[schemars(range(min = 0))]
    pub key_maximum: i64,
    /// memtier's `--key-pattern`, for SETs and GETs: R random, S sequential,
    /// G Gaussian, P parallel sequential, Z Zipfian (2.2.0 and later).
    #[serde(default = "default_memtier_key_pattern")]
    #[x_kube(validation = Rule::new("self.matches('^[RSGPZ]:[RSGPZ]$')")
        .message("keyPattern is two of R, S, G, P and Z with a colon between them, such as R:R"))]
    #[schemars(length(max = 3))]
    pub key_pattern: String,
    /// memtier's `--distinct-client-seed`: another random sequence per connection.
    #[serde(default)]
    pub distinct_client_seed: bool,
    /// memtier's `--cluster-mode`.
    #[serde(default)]
    pub cluster_mode: bool,
    /// Further arguments, passed on as they are. `--run-count`,
    /// `--reconnect-on-error`, `--multi-key-get`, `--json-out-file`, `--out-file`
    /// and the address and password options are the runner's own business.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 256)))]
    #[x_kube(validation = Rule::new("self.all(a, !a.matches('^(-x|--run-count|--reconnect-on-error|--multi-key-get|--json-out-file|--out-file|-o|--authenticate|-a|--uri|-u|--host|-h|--server|-s|--port|-p|--unix-socket|-S)(=.*)?$'))")
        .message("extraArgs may not set --run-count, --reconnect-on-error, --multi-key-get, an output file, the address or the password: use repetitions, target and authSecretRef"))]
    pub extra_args: Vec<String>,
}

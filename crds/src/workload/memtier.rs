//! memtier_benchmark.

pub mod options;

use super::{LARGEST, default_data_size, default_pipeline, default_ratio, one};
use crate::units::{Decimal, Period, decimal_between};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// memtier's `--protocol`: Redis (RESP2 without HELLO), Resp2 or Resp3; its own default (Redis) if omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemtierProtocol {
    /// `redis`: RESP2 without HELLO.
    Redis,
    /// `resp2` (HELLO 2).
    Resp2,
    /// `resp3` (HELLO 3).
    Resp3,
}

/// A command of memtier's `--command`, which replaces SETs and GETs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemtierCommand {
    /// The command, with `__key__` and `__data__` where a key and a value go, such as `INCR __key__`.
    #[schemars(length(min = 1, max = 1024))]
    pub command: String,
    /// memtier's `--command-ratio`: how often it is sent, relative to the others. Defaults to 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub ratio: i32,
    /// memtier's `--command-key-pattern`: R, S, G, P or Z, such as R; memtier's own default (R) if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[RSGPZ]$')").message("keyPattern of a command is R, S, G, P or Z"))]
    #[schemars(length(max = 1))]
    pub key_pattern: Option<String>,
}

/// `memtier_benchmark`, unchanged, from its own image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.testTime) != has(self.requestsPerConnection)")
        .message("set exactly one of testTime and requestsPerConnection: memtier refuses both together; prefer testTime"),
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("keyMaximum must not be below keyMinimum"),
    validation = Rule::new("[has(self.dataSizeRange), has(self.dataSizeList)].filter(x, x).size() <= 1")
        .message("set only one of dataSizeRange and dataSizeList"),
    validation = Rule::new("!has(self.zipfExponent) || self.keyPattern.contains('Z') || has(self.commands)")
        .message("zipfExponent goes with keyPattern Z"),
    validation = Rule::new("!(has(self.keyStandardDeviation) || has(self.keyMedian)) || (self.keyPattern.contains('G') && !has(self.commands))")
        .message("keyStandardDeviation and keyMedian go with keyPattern G: memtier refuses them beside commands"),
    validation = Rule::new("!has(self.commands) || self.commands.all(c, has(c.keyPattern) && c.keyPattern == 'P') || !self.commands.exists(c, has(c.keyPattern) && c.keyPattern == 'P')")
        .message("memtier takes keyPattern P for all commands or for none"),
    validation = Rule::new("!has(self.reconnectInterval) || !self.clusterMode")
        .message("memtier has no reconnectInterval in cluster mode: leave one of the two out"),
)]
pub struct MemtierSpec {
    /// Image that holds `memtier_benchmark`; the operator's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// memtier's `--threads`, per client pod. Defaults to 4. Give the pod at least as many
    /// CPUs: a lower limit in clients.resources is refused.
    #[serde(default = "default_memtier_threads")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// memtier's `--clients`: connections each thread opens. Defaults to 50.
    #[serde(default = "default_memtier_connections")]
    #[schemars(range(min = 1, max = 10000))]
    pub connections_per_thread: i32,
    /// memtier's `--test-time`, in whole seconds, such as 60s, 5m or 1h30m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("!self.endsWith('ms')")
        .message("memtier measures whole seconds: write testTime without ms, such as 2s instead of 1500ms"))]
    pub test_time: Option<Period>,
    /// memtier's `--requests`: how many requests each connection sends, such as 200000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LARGEST))]
    pub requests_per_connection: Option<i64>,
    /// memtier's `--ratio`: SETs to GETs, such as 1:0 (writes only) or 0:1 (reads only). Defaults to 1:10.
    #[serde(default = "default_ratio")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,6}:[0-9]{1,6}$') && !self.matches('^0+:0+$')")
        .message("ratio is SETs:GETs, two whole numbers that are not both 0, such as 1:10"))]
    #[schemars(length(max = 13))]
    pub ratio: String,
    /// memtier's `--pipeline`: requests in flight per connection. Defaults to 1.
    #[serde(default = "default_pipeline")]
    #[schemars(range(min = 1, max = 10000))]
    pub pipeline: i32,
    /// memtier's `--data-size`, in bytes. Defaults to 32.
    #[serde(default = "default_data_size")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
    /// memtier's `--data-size-range`, as MIN-MAX in bytes, such as 16-1024, instead of dataSize.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^0*[1-9][0-9]{0,9}-[0-9]{1,10}$')")
        .message("dataSizeRange is MIN-MAX in bytes, both above 0, such as 16-1024"))]
    #[schemars(length(max = 21))]
    pub data_size_range: Option<String>,
    /// memtier's `--data-size-list`, as SIZE:WEIGHT pairs with commas, such as
    /// 32:90,1024:10, instead of dataSize.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,10}:[0-9]{1,6}(,[0-9]{1,10}:[0-9]{1,6})*$')")
        .message("dataSizeList is SIZE:WEIGHT pairs, such as 32:90,1024:10"))]
    #[schemars(length(max = 1024))]
    pub data_size_list: Option<String>,
    /// memtier's `--random-data`: values of random bytes. Defaults to false.
    #[serde(default)]
    pub random_data: bool,
    /// memtier's `--expiry-range`, as MIN-MAX in seconds, such as 10-60. No expiry if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,10}-[0-9]{1,10}$')")
        .message("expiryRange is MIN-MAX in seconds, such as 10-60"))]
    #[schemars(length(max = 21))]
    pub expiry_range: Option<String>,
    /// memtier's `--rate-limiting`: requests per second of each connection (2.1.0
    /// and later), such as 1000. It hides stalls; loadgen's rate does not. No limit if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LARGEST))]
    pub rate_limit: Option<i64>,
    /// Commands to send instead of SETs and GETs, such as `[{command: "INCR __key__"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub commands: Vec<MemtierCommand>,
    /// memtier's `--protocol`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<MemtierProtocol>,
    /// memtier's `--reconnect-interval`: requests after which a connection is made anew,
    /// such as 100. Never if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LARGEST))]
    pub reconnect_interval: Option<i64>,
    /// memtier's `--key-zipf-exp` (2.2.0 and later), from "0.01" to "4.99", such as "1.1"; memtier's own if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(decimal_between("0.01", "4.99"))
        .message("zipfExponent is from 0.01 to 4.99, such as \"1.1\""))]
    pub zipf_exponent: Option<Decimal>,
    /// memtier's `--key-stddev`, for key pattern G, such as "1000" or "5.5"; memtier's own if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(decimal_between("0.000000001", "1e15"))
        .message("keyStandardDeviation is above 0, such as \"1000\""))]
    pub key_standard_deviation: Option<Decimal>,
    /// memtier's `--key-median`, for key pattern G, from keyMinimum to keyMaximum,
    /// such as "5000"; memtier's own if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(decimal_between("0.000000001", "1e15"))
        .message("keyMedian is above 0, such as \"5000\""))]
    pub key_median: Option<Decimal>,
    /// memtier's `--key-prefix`; its own (`memtier-`) if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// memtier's `--key-minimum`. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: i64,
    /// memtier's `--key-maximum`. Defaults to 10000000.
    #[serde(default = "default_memtier_key_maximum")]
    #[schemars(range(min = 1, max = LARGEST))]
    pub key_maximum: i64,
    /// memtier's `--key-pattern`, for SETs and GETs: R random, S sequential,
    /// G Gaussian, Z Zipfian (2.2.0 and later); or P:P, parallel sequential. Defaults to R:R.
    #[serde(default = "default_memtier_key_pattern")]
    #[x_kube(validation = Rule::new("self.matches('^([RSGZ]:[RSGZ]|P:P)$')")
        .message("keyPattern is two of R, S, G and Z with a colon between them, such as R:R, or P:P"))]
    #[schemars(length(max = 3))]
    pub key_pattern: String,
    /// memtier's `--distinct-client-seed`: another random sequence per connection. Defaults to false.
    #[serde(default)]
    pub distinct_client_seed: bool,
    /// memtier's `--cluster-mode`. Defaults to false.
    #[serde(default)]
    pub cluster_mode: bool,
    /// Further arguments, passed on as they are, such as `["--select-db=1"]`: names
    /// in full, values behind `=`. What a field, the target or the runner sets, and
    /// what makes memtier's numbers useless, is refused: docs/memtier.md has every option.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // The apiserver bounds a rule's cost by these lengths, and refuses the CRD beyond.
    #[schemars(length(max = 16), inner(length(max = 256)))]
    #[x_kube(validation = Rule::new(options::rule())
        .message("extraArgs takes options in full, such as --select-db=1, and none that a field, spec.target or the runner sets: docs/memtier.md has every option"))]
    pub extra_args: Vec<String>,
}

//! memtier_benchmark: its options as fields.

pub mod options;

use super::keys::{LARGEST, ratio};
use crate::{
    defaults::{int, long},
    units::Period,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

fn random() -> String {
    "R:R".to_owned()
}

/// memtier's `--protocol`: Redis (RESP2 without HELLO), Resp2 or Resp3. memtier's own default if omitted.
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemtierCommand {
    /// The command, with `__key__` and `__data__` where a key and a value go, such as `INCR __key__`.
    #[schemars(length(min = 1, max = 1024))]
    pub command: String,
    /// memtier's `--command-ratio`: how often it is sent, relative to the others. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub ratio: i32,
    /// memtier's `--command-key-pattern`: R, S, G, P or Z. Defaults to R.
    #[x_kube(validation = Rule::new("self.matches('^[RSGPZ]$')").message("keyPattern of a command is R, S, G, P or Z"))]
    #[schemars(length(max = 1))]
    pub key_pattern: Option<String>,
}

/// `memtier_benchmark`, unchanged, from its own image.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.testTime) != has(self.requestsPerConnection)")
        .message("set exactly one of testTime and requestsPerConnection: memtier refuses both together; prefer testTime"),
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("keyMaximum must not be below keyMinimum"),
    validation = Rule::new("[has(self.dataSizeRange), has(self.dataSizeList)].filter(x, x).size() <= 1")
        .message("set only one of dataSizeRange and dataSizeList"),
    validation = Rule::new("!has(self.commands) || self.commands.all(c, has(c.keyPattern) && c.keyPattern == 'P') || !self.commands.exists(c, has(c.keyPattern) && c.keyPattern == 'P')")
        .message("memtier takes keyPattern P for all commands or for none"),
)]
pub struct MemtierSpec {
    /// Image with `memtier_benchmark`. Defaults to the operator's.
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// memtier's `--threads` in each client pod. Defaults to 4. A limit in clients.resources must
    /// have as many CPUs.
    #[serde(default = "int::<4>")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// memtier's `--clients`: connections of each thread. Defaults to 50.
    #[serde(default = "int::<50>")]
    #[schemars(range(min = 1, max = 10000))]
    pub connections_per_thread: i32,
    /// memtier's `--test-time`, in whole seconds, such as 60s, 5m or 1h30m.
    #[x_kube(validation = Rule::new("!self.endsWith('ms')")
        .message("memtier measures whole seconds: write testTime without ms, such as 2s instead of 1500ms"))]
    pub test_time: Option<Period>,
    /// memtier's `--requests`: how many requests each connection sends, such as 200000.
    #[schemars(range(min = 1, max = LARGEST))]
    pub requests_per_connection: Option<i64>,
    /// memtier's `--ratio`: SETs to GETs, such as 1:0 (writes only) or 0:1 (reads only). Defaults to 1:10.
    #[serde(default = "ratio")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,6}:[0-9]{1,6}$') && !self.matches('^0+:0+$')")
        .message("ratio is SETs:GETs, two whole numbers that are not both 0, such as 1:10"))]
    #[schemars(length(max = 13))]
    pub ratio: String,
    /// memtier's `--pipeline`: requests in flight per connection. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 10000))]
    pub pipeline: i32,
    /// memtier's `--data-size`, in bytes. Defaults to 32.
    #[serde(default = "long::<32>")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
    /// memtier's `--data-size-range`, as MIN-MAX in bytes, such as 16-1024, instead of dataSize.
    #[x_kube(validation = Rule::new("self.matches('^0*[1-9][0-9]{0,9}-[0-9]{1,10}$')")
        .message("dataSizeRange is MIN-MAX in bytes, both above 0, such as 16-1024"))]
    #[schemars(length(max = 21))]
    pub data_size_range: Option<String>,
    /// memtier's `--data-size-list`, as SIZE:WEIGHT pairs, such as 32:90,1024:10, instead of dataSize.
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,10}:[0-9]{1,6}(,[0-9]{1,10}:[0-9]{1,6})*$')")
        .message("dataSizeList is SIZE:WEIGHT pairs, such as 32:90,1024:10"))]
    #[schemars(length(max = 1024))]
    pub data_size_list: Option<String>,
    /// memtier's `--rate-limiting` (2.1.0 and later): requests per second of each connection, such
    /// as 1000. It hides stalls; loadgen's rate does not. No limit if omitted.
    #[schemars(range(min = 1, max = LARGEST))]
    pub rate_limit: Option<i64>,
    /// Commands to send instead of SETs and GETs, such as `[{command: "INCR __key__"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub commands: Vec<MemtierCommand>,
    /// memtier's `--protocol`: Redis (RESP2 without HELLO), Resp2 or Resp3. memtier's own default if omitted.
    pub protocol: Option<MemtierProtocol>,
    /// memtier's `--key-prefix`. Defaults to memtier's own, `memtier-`.
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// memtier's `--key-minimum`. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: i64,
    /// memtier's `--key-maximum`. Defaults to 10000000.
    #[serde(default = "long::<10_000_000>")]
    #[schemars(range(min = 1, max = LARGEST))]
    pub key_maximum: i64,
    /// memtier's `--key-pattern` for SETs and GETs: R random, S sequential, G Gaussian, Z Zipfian
    /// (2.2.0 and later), or P:P, parallel sequential. Defaults to R:R.
    #[serde(default = "random")]
    #[x_kube(validation = Rule::new("self.matches('^([RSGZ]:[RSGZ]|P:P)$')")
        .message("keyPattern is two of R, S, G and Z with a colon between them, such as R:R, or P:P"))]
    #[schemars(length(max = 3))]
    pub key_pattern: String,
    /// memtier's `--distinct-client-seed`: each connection has its own random sequence. Defaults to false.
    #[serde(default)]
    pub distinct_client_seed: bool,
    /// Further arguments, such as `["--select-db=1"]`, with full names and values behind `=`.
    /// Options that a field, the target or the runner sets, or that spoil memtier's numbers, are
    /// refused: docs/memtier.md lists every option.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // These lengths bound the rule's cost; the API server refuses the CRD without them.
    #[schemars(length(max = 16), inner(length(max = 256)))]
    #[x_kube(validation = Rule::new(options::rule())
        .message("extraArgs takes options in full, such as --select-db=1, and none that a field, spec.target or the runner sets: docs/memtier.md lists every option"))]
    pub extra_args: Vec<String>,
}

//! What a phase runs: one tool with its typed options, and what is done before it.

mod bullmq;
mod exec;
mod loadgen;
mod memtier;

pub use bullmq::{BullmqMode, BullmqSpec};
pub use exec::{
    CsvColumn, CsvMeaning, CsvParser, ExecFiles, ExecSpec, FileParser, GoBenchParser, HdrHistogramLogFile,
    HdrHistogramLogParser, JsonMeaning, JsonParser, JsonValue, Merge, ParserSpec, RedisBenchmarkParser,
    RegexLine, RegexParser, TimeUnit,
};
pub use loadgen::{
    ArrivalSchedule, BatchOperation, BatchSpec, Client, ConnectionKind, LibrarySpec, LoadgenOperation,
    LoadgenSpec, OpenLoopSpec, OperationName,
};
pub use memtier::{MemtierCommand, MemtierProtocol, MemtierSpec, options as memtier_options};

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest key number, count or rate: far beyond any benchmark, exact in every
/// reader of JSON, and sums of it do not overflow.
const LARGEST: i64 = 1_000_000_000_000_000;

fn default_threads() -> i32 {
    1
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

fn one() -> i32 {
    1
}

fn default_true() -> bool {
    true
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
    /// A few keys get most of the requests (Zipf's law).
    Zipfian,
}

/// Keys written before a phase's load, each exactly once, by the client pods
/// together, and counted afterwards: the phase fails before its load unless
/// every one of them is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("load.keyMaximum must not be below load.keyMinimum"),
)]
pub struct LoadSpec {
    /// Text before the key's number. The prefix of the phase's tool if omitted:
    /// `memtier-` for memtier, `dragstrip-` for loadgen; exec and bullmq need one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// First key number. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: i64,
    /// Last key number, such as 999999 for a million keys from 0 on.
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_maximum: i64,
    /// Value size in bytes. Defaults to 32.
    #[serde(default = "default_data_size")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
}

impl LoadSpec {
    /// How many keys are written.
    pub fn keys(&self) -> u64 {
        (self.key_maximum - self.key_minimum + 1).unsigned_abs()
    }
}

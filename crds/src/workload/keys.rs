//! Keys of a load: how they are drawn, and which are written before it.

use crate::defaults::long;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Largest key number, count or rate: far beyond any benchmark, exact in every
/// reader of JSON, and sums of it do not overflow.
pub(super) const LARGEST: i64 = 1_000_000_000_000_000;

pub(super) fn ratio() -> String {
    "1:10".to_owned()
}

/// How keys are drawn: Uniform, Sequential (each key once per pass), Gaussian (near the middle) or Zipfian (few
/// keys most of the time). An entry of `operations` draws them like its load if omitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyPattern {
    /// Every key is equally likely.
    #[default]
    Uniform,
    /// Each connection takes its share of the keys in sequence; together they use every key once per
    /// pass.
    Sequential,
    /// Keys near the middle of the key space are likelier (normal distribution).
    Gaussian,
    /// A few keys get most of the requests (Zipf's law).
    Zipfian,
}

/// Keys that the client pods write before a phase's load, each exactly once, and then count: the phase
/// fails before its load if one is missing.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("load.keyMaximum must not be below load.keyMinimum"),
)]
pub struct LoadSpec {
    /// Text before the key's number. Required for exec and bullmq. Defaults to the tool's prefix:
    /// `memtier-` for memtier, `dragstrip-` for loadgen.
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// First key number. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: i64,
    /// Last key number, such as 999999 for a million keys from 0.
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_maximum: i64,
    /// Value size in bytes. Defaults to 32.
    #[serde(default = "long::<32>")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
}

impl LoadSpec {
    /// Number of keys.
    pub fn keys(&self) -> u64 {
        (self.key_maximum - self.key_minimum + 1).unsigned_abs()
    }
}

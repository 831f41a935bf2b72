//! The tool of a phase: exactly one of four.

use super::{bullmq::BullmqSpec, exec::ExecSpec, loadgen::LoadgenSpec, memtier::MemtierSpec};
use crate::units::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;

/// How long before the start line most tools are started: time to connect in.
pub const HEAD_START: Duration = Duration::from_secs(1);
/// The same for our own load generator, which is one small program.
const OWN_HEAD_START: Duration = Duration::from_millis(250);
/// Longest time to open a connection of the load generator while it opens many: a TLS handshake
/// with a server that has one thread.
const TIME_TO_CONNECT: Duration = Duration::from_millis(2);
/// How long after its planned end most tools may continue, in seconds.
pub const WIND_DOWN_SECONDS: f64 = 15.0;

/// The tool of a phase with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "ToolFields")]
// A run has few of them.
#[allow(clippy::large_enum_variant)]
pub enum ToolSpec {
    /// Dragstrip's own load generator.
    Loadgen(LoadgenSpec),
    /// `memtier_benchmark`.
    Memtier(MemtierSpec),
    /// The BullMQ job.
    Bullmq(BullmqSpec),
    /// Any tool.
    Exec(ExecSpec),
}

/// The fields of a phase that name its tool. Values, because serde forgets the path to a mistake in
/// a flattened field: here each error begins with it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ToolFields {
    /// Run `memtier_benchmark`, such as `{testTime: 60s, ratio: "1:10"}`.
    #[schemars(with = "Option<MemtierSpec>")]
    memtier: Option<Value>,
    /// Run Dragstrip's own load generator, such as `{duration: 60s, ratio: "1:10"}`.
    #[schemars(with = "Option<LoadgenSpec>")]
    loadgen: Option<Value>,
    /// Run the BullMQ job, such as `{duration: 30s, writers: 16, queues: 8}`.
    #[schemars(with = "Option<BullmqSpec>")]
    bullmq: Option<Value>,
    /// Run any tool, such as `{image: redis:8, command: [redis-benchmark, ...], parser: {redisBenchmarkCsv: {}}}`.
    #[schemars(with = "Option<ExecSpec>")]
    exec: Option<Value>,
}

fn options<T: DeserializeOwned>(field: &str, value: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("{field}.{}: {}", error.path(), error.inner()))
}

impl TryFrom<ToolFields> for ToolSpec {
    type Error = String;

    fn try_from(fields: ToolFields) -> Result<Self, String> {
        match (fields.memtier, fields.loadgen, fields.bullmq, fields.exec) {
            (Some(value), None, None, None) => options("memtier", &value).map(Self::Memtier),
            (None, Some(value), None, None) => options("loadgen", &value).map(Self::Loadgen),
            (None, None, Some(value), None) => options("bullmq", &value).map(Self::Bullmq),
            (None, None, None, Some(value)) => options("exec", &value).map(Self::Exec),
            _ => Err("a phase needs exactly one workload: memtier, bullmq, loadgen or exec".to_owned()),
        }
    }
}

impl ToolSpec {
    /// Its kind, in one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Loadgen(_) => "loadgen",
            Self::Memtier(_) => "memtier",
            Self::Bullmq(_) => "bullmq",
            Self::Exec(_) => "exec",
        }
    }

    /// Connections that one client pod opens; `None` if the tool decides.
    pub fn connections(&self) -> Option<u32> {
        match self {
            Self::Loadgen(spec) => Some(spec.connections()),
            Self::Memtier(spec) => {
                Some(spec.threads.unsigned_abs().saturating_mul(spec.connections_per_thread.unsigned_abs()))
            }
            Self::Bullmq(_) | Self::Exec(_) => None,
        }
    }

    /// How long after its planned end the tool may continue before the runner kills it, in
    /// seconds. Counting and removing BullMQ's queues takes about as long as filling them.
    pub fn wind_down_seconds(&self) -> f64 {
        match self {
            Self::Bullmq(spec) => WIND_DOWN_SECONDS + spec.duration.seconds(),
            Self::Loadgen(_) | Self::Memtier(_) | Self::Exec(_) => WIND_DOWN_SECONDS,
        }
    }

    /// How often the tool warms up and loads, one after the other.
    pub fn stages(&self) -> u32 {
        match self {
            Self::Bullmq(spec) => spec.stages(),
            Self::Loadgen(_) | Self::Memtier(_) | Self::Exec(_) => 1,
        }
    }

    /// How long before the start line the runner starts the tool, so that it can connect.
    pub fn head_start(&self) -> Duration {
        match self {
            Self::Bullmq(spec) => spec.head_start(),
            Self::Loadgen(spec) => OWN_HEAD_START + TIME_TO_CONNECT * spec.connections(),
            Self::Memtier(_) | Self::Exec(_) => HEAD_START,
        }
    }

    /// The declared duration of the load in seconds; `None` if a number of requests limits it.
    pub fn planned_seconds(&self) -> Option<f64> {
        match self {
            Self::Loadgen(spec) => spec.duration.as_ref().map(Period::seconds),
            Self::Memtier(spec) => spec.test_time.as_ref().map(Period::seconds),
            Self::Bullmq(spec) => Some(spec.duration.seconds() * f64::from(spec.stages())),
            Self::Exec(spec) => spec.duration.as_ref().map(Period::seconds),
        }
    }
}

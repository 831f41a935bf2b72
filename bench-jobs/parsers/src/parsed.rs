//! What a parser found. Everything a tool did not say is absent.

use dragstrip_crds::{measured::LatencySummary, workload::Merge};
use dragstrip_results::{commands, histogram::EncodedHistogram};
use std::collections::BTreeMap;

/// One tool's output, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// Per operation, without a total, in the order of the output.
    pub operations: Vec<Operation>,
    /// Figures of other kinds, in the order of the output.
    pub metrics: Vec<Metric>,
    /// Duration in seconds by the tool's own account: of all operations
    /// together, or of the only one.
    pub seconds: Option<f64>,
    /// When the load began, in nanoseconds of Unix time by the tool's clock.
    pub start_unix_nanos: Option<i64>,
    /// Operations of all kinds per whole second since the load began; empty
    /// where the tool does not tell.
    pub per_second: Vec<u64>,
    /// Whether the operations were parts of one load, at the same time: the rates of
    /// others, which ran one after the other or may have, are their own and have no sum.
    pub together: bool,
    /// Connections that the tool opened.
    pub connections: Option<u64>,
    /// Requests that each of them sends before it awaits their replies.
    pub pipeline: Option<u64>,
    /// Error replies by their first word, where the tool tells them apart.
    pub errors: BTreeMap<String, u64>,
    /// What the tool calls itself.
    pub tool: Option<ToolName>,
    /// Why some of the output must be missing; the numbers are then those of
    /// the whole records before the cut. No such result should count.
    pub incomplete: Option<String>,
}

/// One operation, as far as the tool told of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    /// Its name, as the parser's documentation says.
    pub name: String,
    /// The server's commands, in lower case, one of which each use of the operation
    /// sends; none where it is no command of the server.
    pub commands: Vec<String>,
    /// Operations that succeeded.
    pub count: Option<u64>,
    /// Operations per second, by the tool's own account.
    pub operations_per_second: Option<f64>,
    /// Reads that found their key.
    pub hits: Option<u64>,
    /// Reads that found nothing.
    pub misses: Option<u64>,
    /// Operations that failed.
    pub errors: Option<u64>,
    /// Bytes sent and received.
    pub bytes: Option<u64>,
    /// Duration of this operation's measurement in seconds.
    pub seconds: Option<f64>,
    /// Its latencies.
    pub latency: Option<LatencyReport>,
}

impl Operation {
    /// An operation of which only the name is known, which may begin with a command's.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { commands: commands::named(&name).into_iter().collect(), name, ..Self::default() }
    }

    /// Operations per second over its own time, where that is known.
    pub fn own_rate(&self) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0);
        self.operations_per_second.or_else(|| Some(self.count? as f64 / seconds?))
    }

    /// Whether nothing but the name is known.
    pub(crate) fn is_bare(&self) -> bool {
        *self == Self::named(self.name.as_str())
    }
}

/// Latencies of one operation.
#[derive(Debug, Clone, PartialEq)]
pub enum LatencyReport {
    /// Every latency, so that those of several clients can be merged exactly.
    Exact {
        /// All latencies in microseconds.
        histogram: EncodedHistogram,
        /// Read from the histogram, in milliseconds.
        summary: LatencySummary,
    },
    /// Only what the tool printed. Percentiles of several clients cannot be
    /// merged: each stands for its client alone.
    Printed(PrintedLatency),
}

/// Latencies in milliseconds as a tool printed them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrintedLatency {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Smallest.
    pub minimum: Option<f64>,
    /// Largest.
    pub maximum: Option<f64>,
    /// Percentiles, in rising order.
    pub percentiles: Vec<Percentile>,
}

impl PrintedLatency {
    /// Sets one percentile; `false` if it was there before.
    pub(crate) fn add_percentile(&mut self, percent: f64, milliseconds: f64) -> bool {
        let position = self.percentiles.partition_point(|known| known.percent < percent);
        if self.percentiles.get(position).is_some_and(|known| known.percent <= percent) {
            return false;
        }
        self.percentiles.insert(position, Percentile { percent, milliseconds });
        true
    }
}

/// One percentile of latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// Which, such as 99.9.
    pub percent: f64,
    /// The latency at or below which that many percent lie, in milliseconds.
    pub milliseconds: f64,
}

/// A figure of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The operation it belongs to, where it belongs to one.
    pub operation: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, as the tool wrote it.
    pub unit: Option<String>,
    /// How the values of several clients become one.
    pub merge: Merge,
}

impl From<&Metric> for dragstrip_crds::measured::Metric {
    /// As a run's result keeps it: with its operation's name in front, `SET ns/op`.
    fn from(metric: &Metric) -> Self {
        let name = match &metric.operation {
            Some(operation) => format!("{operation} {}", metric.name),
            None => metric.name.clone(),
        };
        Self { name, value: metric.value, unit: metric.unit.clone(), merge: metric.merge }
    }
}

/// What a tool calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
}

/// The duration of the only operation, which is then that of the whole.
pub(crate) fn only_duration(operations: &[Operation]) -> Option<f64> {
    match operations {
        [only] => only.seconds,
        _ => None,
    }
}

//! What a number must be for a run or suite to pass: the words for it in spec and status.

use crate::units::Decimal;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A figure of a phase, named with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MetricName {
    /// Throughput.
    OperationsPerSecond,
    /// Bytes in both directions.
    BytesPerSecond,
    /// Mean latency.
    MeanMilliseconds,
    /// Median latency.
    P50Milliseconds,
    /// 90th percentile of latency.
    P90Milliseconds,
    /// 95th percentile of latency.
    P95Milliseconds,
    /// 99th percentile of latency.
    P99Milliseconds,
    /// 99.9th percentile of latency.
    P999Milliseconds,
    /// 99.99th percentile of latency.
    P9999Milliseconds,
    /// Largest latency.
    MaxMilliseconds,
    /// Share of reads that found their key, from 0 to 1.
    HitRatio,
    /// Error replies of one repetition, on average.
    Errors,
    /// Items per second of timed batches.
    ElementsPerSecond,
    /// Seconds of one timed batch.
    SecondsPerBatch,
    /// Memory that all servers together say their data needs, in bytes: after the settle time
    /// of the phase, else right after it, as the other figures of memory.
    ServerUsedBytes,
    /// Resident memory of the servers, in bytes.
    ServerRssBytes,
    /// The most memory that the servers have used, in bytes.
    ServerPeakBytes,
    /// Memory of one key and its value, in bytes.
    BytesPerKey,
}

impl MetricName {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 18] = [
        Self::OperationsPerSecond,
        Self::BytesPerSecond,
        Self::MeanMilliseconds,
        Self::P50Milliseconds,
        Self::P90Milliseconds,
        Self::P95Milliseconds,
        Self::P99Milliseconds,
        Self::P999Milliseconds,
        Self::P9999Milliseconds,
        Self::MaxMilliseconds,
        Self::HitRatio,
        Self::Errors,
        Self::ElementsPerSecond,
        Self::SecondsPerBatch,
        Self::ServerUsedBytes,
        Self::ServerRssBytes,
        Self::ServerPeakBytes,
        Self::BytesPerKey,
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.to_string() == name)
    }

    /// Its unit for people; nothing of a share and of a count.
    pub fn unit(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "ops/s",
            Self::BytesPerSecond => "B/s",
            Self::MeanMilliseconds
            | Self::P50Milliseconds
            | Self::P90Milliseconds
            | Self::P95Milliseconds
            | Self::P99Milliseconds
            | Self::P999Milliseconds
            | Self::P9999Milliseconds
            | Self::MaxMilliseconds => "ms",
            Self::HitRatio | Self::Errors => "",
            Self::ElementsPerSecond => "items/s",
            Self::SecondsPerBatch => "s",
            Self::ServerUsedBytes | Self::ServerRssBytes | Self::ServerPeakBytes | Self::BytesPerKey => "B",
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::OperationsPerSecond | Self::BytesPerSecond | Self::HitRatio | Self::ElementsPerSecond
        )
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the limits of a threshold are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RelativeTo {
    /// The figure itself, in the metric's unit.
    #[default]
    Nothing,
    /// The figure divided by the baseline's: "0.95" is five percent less.
    Baseline,
}

impl RelativeTo {
    // serde asks with a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// What a figure must be, such as `{metric: P99Milliseconds, phase: read, maximum: "1.5"}` or
/// `{metric: OperationsPerSecond, minimum: "0.95", relativeTo: Baseline}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.minimum) || has(self.maximum)")
        .message("a threshold needs a minimum, a maximum, or both"),
    validation = Rule::new("!has(self.minimum) || !has(self.maximum) || double(self.minimum) <= double(self.maximum)")
        .message("minimum must not be above maximum: no figure can be both"),
    validation = Rule::new("!has(self.onlySignificant) || !self.onlySignificant || has(self.relativeTo) && self.relativeTo == 'Baseline'")
        .message("onlySignificant is about a difference: set relativeTo: Baseline"),
)]
pub struct Threshold {
    /// The figure, named with its unit: OperationsPerSecond, P99Milliseconds, ServerUsedBytes.
    pub metric: MetricName,
    /// The phase; every one that has the figure if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 20))]
    pub phase: Option<String>,
    /// The operation, such as GET; the total of the phase if omitted, and its only operation
    /// where it has no total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub operation: Option<String>,
    /// The least that is good enough, such as "100000".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Decimal>,
    /// The most that is good enough, such as "1.5".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Decimal>,
    /// What minimum and maximum are about: Nothing (the figure itself) or Baseline (its ratio
    /// to the baseline, which a BenchmarkSuite has). Defaults to Nothing.
    #[serde(default, skip_serializing_if = "RelativeTo::is_nothing")]
    pub relative_to: RelativeTo,
    /// Miss it only where the difference to the baseline is significant: the whole 95 %
    /// confidence interval of the ratio is beyond the limit. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_significant: bool,
}

/// How one figure stands to a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdStatus {
    /// The threshold's place in `spec.thresholds`, from 0.
    pub threshold: u32,
    /// The figure.
    pub metric: MetricName,
    /// The suite's variant and the values of its axes; absent in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// The figure, or its ratio to the baseline; omitted if the metric was not measured: the threshold then
    /// fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether it is good enough.
    pub met: bool,
    /// The figure and its limit in one sentence.
    pub message: String,
}

//! Thresholds: the figures that a run or suite needs to pass, in spec and status.

use crate::units::Decimal;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

// Its order is that of reports.
/// A figure of a phase, named with its unit, such as OperationsPerSecond or P99Milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MetricName {
    /// Throughput.
    OperationsPerSecond,
    /// Bytes per second in both directions.
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
    /// Throughput divided by the CPUs that the servers used.
    OperationsPerCoreSecond,
    /// Share of reads that found their key, from 0 to 1.
    HitRatio,
    /// Mean number of error replies in a repetition.
    Errors,
    /// Items per second of timed batches.
    ElementsPerSecond,
    /// Seconds of one timed batch.
    SecondsPerBatch,
    /// Memory that all servers report for their data, in bytes. All figures of memory are read after
    /// the phase's settle time, or right after the phase.
    ServerUsedBytes,
    /// Resident memory of the servers, in bytes.
    ServerRssBytes,
    /// Peak memory of the servers, in bytes.
    ServerPeakBytes,
    /// Memory of one key and its value, in bytes.
    BytesPerKey,
}

impl MetricName {
    /// The metric with this name.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }

    /// Its unit for people; empty for a share or a count.
    pub fn unit(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "ops/s",
            Self::OperationsPerCoreSecond => "ops/core-s",
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

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::OperationsPerSecond
                | Self::BytesPerSecond
                | Self::OperationsPerCoreSecond
                | Self::HitRatio
                | Self::ElementsPerSecond
        )
    }
}

/// What the limits of a threshold apply to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RelativeTo {
    /// The figure itself, in the metric's unit.
    #[default]
    Nothing,
    /// Its ratio to the baseline's figure: "0.95" is 5% less.
    Baseline,
}

/// The other figure of a claim: where it differs from the threshold's own.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherFigure {
    /// Name of the variant. Defaults to the same.
    #[schemars(length(min = 1, max = 40))]
    pub variant: Option<String>,
    /// Names of values by axis, such as `{pipeline: "1"}`. Defaults to the same values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Name of the phase. Defaults to the same.
    #[schemars(length(min = 1, max = 20))]
    pub phase: Option<String>,
}

/// Limits of a figure, such as `{metric: P99Milliseconds, phase: read, maximum: "1.5"}`,
/// `{metric: OperationsPerSecond, minimum: "0.95", relativeTo: Baseline}` or
/// `{metric: OperationsPerSecond, variant: dragonfly, minimum: "3.5", times: {variant: redis}}`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.metric) != has(self.toolMetric)")
        .message("a threshold needs either a metric or a toolMetric"),
    validation = Rule::new("has(self.minimum) || has(self.maximum)")
        .message("a threshold needs a minimum, a maximum, or both"),
    validation = Rule::new("!has(self.minimum) || !has(self.maximum) || double(self.minimum) <= double(self.maximum)")
        .message("minimum must not be above maximum"),
    validation = Rule::new("!has(self.onlySignificant) || !self.onlySignificant || has(self.relativeTo) && self.relativeTo == 'Baseline'")
        .message("onlySignificant needs relativeTo: Baseline"),
    validation = Rule::new("!has(self.times) || !has(self.relativeTo) || self.relativeTo == 'Nothing'")
        .message("times is a ratio of two figures already: leave relativeTo out"),
)]
pub struct Threshold {
    /// The metric, such as OperationsPerSecond, P99Milliseconds or ServerUsedBytes.
    pub metric: Option<MetricName>,
    /// Instead of metric: one that the tool reports itself, such as `ns/op`, in the tool's unit; or
    /// toolOperationsPerSecond, the throughput by the tool's own count.
    #[schemars(length(min = 1, max = 100))]
    pub tool_metric: Option<String>,
    /// Name of the phase. Defaults to every phase that has the metric.
    #[schemars(length(min = 1, max = 20))]
    pub phase: Option<String>,
    /// The operation, such as GET. Defaults to the phase's total, or to its only operation if it has
    /// no total.
    #[schemars(length(min = 1, max = 64))]
    pub operation: Option<String>,
    /// Name of the variant of a BenchmarkSuite. Defaults to each variant.
    #[schemars(length(min = 1, max = 40))]
    pub variant: Option<String>,
    /// Names of values of a BenchmarkSuite by axis, such as `{pipeline: "10"}`. Defaults to each value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Limit the ratio to this other figure of the same BenchmarkSuite, such as `{variant: redis}`. The
    /// threshold is a claim then: it passes only if the complete 95 % confidence interval of the ratio
    /// is within the limits.
    pub times: Option<OtherFigure>,
    /// The least that passes, such as "100000".
    pub minimum: Option<Decimal>,
    /// The most that passes, such as "1.5".
    pub maximum: Option<Decimal>,
    /// What minimum and maximum limit: Nothing (the figure itself) or Baseline (its ratio to the
    /// baseline of a BenchmarkSuite, of several to the first). Defaults to Nothing.
    #[serde(default)]
    pub relative_to: RelativeTo,
    /// Fail only if the difference is significant: the complete 95 % confidence interval of the ratio
    /// is beyond the limit. It also fails without an interval, as with a single measurement or server.
    /// Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_significant: bool,
}

impl Threshold {
    /// The name of its metric, whoever reports it.
    pub fn metric(&self) -> String {
        let own = self.metric.map(|metric| metric.to_string());
        own.or_else(|| self.tool_metric.clone()).unwrap_or_default()
    }
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClaimState {
    /// The complete interval of the ratio is within the limits.
    Holds,
    /// The complete interval of the ratio is beyond a limit.
    DoesNotHold,
    /// A limit is within the interval, or the interval is not known.
    Unclear,
    /// Both figures were measured under other conditions than declared, or are not the servers'.
    NotComparable,
    /// One of the figures was not measured, or is Invalid.
    NotMeasured,
}

/// A figure compared with a threshold.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdStatus {
    /// Index of the threshold in `spec.thresholds`, from 0.
    pub threshold: u32,
    /// The metric or toolMetric.
    pub metric: String,
    /// The suite's variant and the values of its axes; omitted in a run.
    pub cell: Option<String>,
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// The figure, or its ratio to the baseline or to the other figure of a claim. Omitted if the metric
    /// was not measured; the threshold then fails.
    pub value: Option<f64>,
    /// Whether it passes.
    pub met: bool,
    /// The state of a claim, which is a threshold with `times`; only one that Holds passes.
    pub state: Option<ClaimState>,
    /// The figure and its limit in one sentence.
    pub message: String,
}

//! State of a suite, for people and programs. It stays small; the stored report is complete.

use crate::{
    measured::{Estimate, Spread},
    run::Verdict,
    thresholds::{MetricName, ThresholdStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Phase of a suite: derived from its runs on every pass until it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SuitePhase {
    /// No run exists yet.
    #[default]
    Pending,
    /// It measures its runs.
    Running,
    /// It creates no further run.
    Suspended,
    /// It creates rounds at the times of its schedule.
    Scheduled,
    /// All runs have ended; the rows show how.
    Succeeded,
    /// It cannot be measured as declared, or a failed run stopped it.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl SuitePhase {
    /// Whether a suite in this phase has ended.
    pub fn finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// Progress of a suite.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuiteProgress {
    /// Runs that have ended.
    pub done: i32,
    /// Runs of the whole suite.
    pub total: i32,
    /// Current runs.
    pub running: i32,
    /// Ended runs that failed or are Invalid.
    pub failed: i32,
    /// Estimated seconds for the remaining runs; omitted before the first run ends, and if the suite
    /// does not continue.
    pub seconds_left: Option<i64>,
}

/// A figure compared with the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonVerdict {
    /// Better, beyond chance and the margin.
    Better,
    /// Worse, beyond chance and the margin.
    Worse,
    /// The difference is certainly smaller than the margin.
    Same,
    /// Too few repetitions, or repetitions that differ too much.
    Unclear,
    /// Not compared: it was measured under other conditions.
    NotComparable,
}

/// A ratio and its 95 % confidence interval.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RatioStatus {
    /// Lower end of the interval.
    pub low: f64,
    /// The ratio.
    pub mid: f64,
    /// Upper end of the interval; omitted if it has none.
    pub high: Option<f64>,
}

impl From<Estimate> for RatioStatus {
    fn from(Estimate { low, mid, high }: Estimate) -> Self {
        Self { low, mid, high: Some(high).filter(|high| high.is_finite()) }
    }
}

impl From<RatioStatus> for Estimate {
    fn from(RatioStatus { low, mid, high }: RatioStatus) -> Self {
        Self { low, mid, high: high.unwrap_or(f64::INFINITY) }
    }
}

/// A row of the table: a figure of one combination over its repetitions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowStatus {
    /// The variant and its values, such as `redis-8 threads=2 pipeline=10`.
    pub cell: String,
    /// The phase.
    pub phase: String,
    /// The operation, or TOTAL.
    pub operation: String,
    /// The figure.
    pub metric: MetricName,
    /// The figure over the repetitions that are not Invalid.
    pub spread: Option<Spread>,
    /// 99th percentile of latency in milliseconds, mean over the same repetitions.
    pub p99_milliseconds: Option<f64>,
    /// Ratio to the baseline's figure, with the 95 % confidence interval.
    pub ratio: Option<RatioStatus>,
    /// The result of the comparison.
    pub comparison: Option<ComparisonVerdict>,
    /// The worst verdict of its repetitions.
    pub verdict: Option<Verdict>,
}

/// The baseline of a suite; of several, the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineStatus {
    /// The variant, suite or table.
    pub name: String,
    /// Differences besides what varies, such as `server.kernel: 6.8 instead of 6.1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// Where a report is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportStatus {
    /// The first ConfigMap, with the report, or its first part, in key report.json.gz.
    pub config_map: String,
    /// Number of parts.
    pub parts: u32,
}

/// State of a suite.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkSuiteStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// The phase.
    #[serde(default)]
    pub phase: SuitePhase,
    /// The current step, or what failed, in one sentence.
    pub message: Option<String>,
    /// The progress.
    pub progress: Option<SuiteProgress>,
    /// When the suite started; from then on, what it measures cannot change.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// With schedule: the time of the last round.
    pub last_scheduled_at: Option<Time>,
    /// With schedule: when the next round is due.
    pub next_scheduled_at: Option<Time>,
    /// With schedule: when the last round ended. The condition Passed is that round's.
    pub last_ended_at: Option<Time>,
    /// With schedule: the last round.
    pub last_round: Option<String>,
    /// The first rows of the table, at most 32. The report has all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<RowStatus>,
    /// The variant with the highest throughput, if it is significantly higher than that of each other
    /// variant in every phase and at all values of the axes; omitted if not, since another one may be as
    /// fast. The figures are those of the first phase and values.
    pub best: Option<RowStatus>,
    /// The baseline; of several, the first.
    pub baseline: Option<BaselineStatus>,
    /// The figures compared with the thresholds, failures first, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdStatus>,
    /// Where the report is stored, after the suite has ended.
    pub report: Option<ReportStatus>,
    /// Complete (all runs have ended) and Passed (no run is Invalid, all thresholds pass).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

//! What became of a suite, for people and for whoever reads it by machine. Small however
//! many runs it has: the whole is in the stored report.

use crate::{
    measured::{Estimate, Spread},
    run::Verdict,
    thresholds::{MetricName, ThresholdStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a suite stands: derived from its runs on every pass until it has ended, and a record
/// from then on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SuitePhase {
    /// No run was made yet.
    #[default]
    Pending,
    /// Its runs are measured.
    Running,
    /// No further run is made for now.
    Suspended,
    /// It makes rounds at the times of its schedule.
    Scheduled,
    /// All runs have ended; the rows show how.
    Succeeded,
    /// It cannot be measured as declared, or was stopped by a run that failed.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl SuitePhase {
    /// Whether a suite in this phase has ended.
    pub fn finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for SuitePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How far a suite has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuiteProgress {
    /// Runs that have ended.
    pub done: i32,
    /// Runs of the whole suite.
    pub total: i32,
    /// Runs under way.
    pub running: i32,
    /// How many of them failed or are Invalid.
    pub failed: i32,
    /// Seconds that the runs that are left will take, by those that have ended; absent
    /// before the first has, and where the suite does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<i64>,
}

/// How a figure stands to the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonVerdict {
    /// Better, beyond chance and the noise of these nodes.
    Better,
    /// Worse, beyond chance and the noise of these nodes.
    Worse,
    /// The difference is smaller than the noise, and known well enough to say so.
    Same,
    /// Unknown: too few repetitions, or repetitions that differ too much.
    Unclear,
    /// Not compared: it was measured under other conditions.
    NotComparable,
}

impl fmt::Display for ComparisonVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One row of the table: a figure of one combination over its repetitions.
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
    /// It over the repetitions that are not Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// 99th percentile of latency in milliseconds, mean over the same repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_milliseconds: Option<f64>,
    /// Its ratio to the baseline's, with the 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Estimate>,
    /// What that says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonVerdict>,
    /// The worst verdict of its repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// What the numbers are compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineStatus {
    /// The variant, suite or table.
    pub name: String,
    /// What differs from it beyond what was varied, such as `server.kernel: 6.8 instead of 6.1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// Where the report is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportStatus {
    /// The first ConfigMap, whose key report.json.gz holds the report, or its first part.
    pub config_map: String,
    /// How many parts there are.
    pub parts: u32,
}

/// What became of a suite.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkSuiteStatus {
    /// Generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it stands.
    #[serde(default)]
    pub phase: SuitePhase,
    /// What happens now, or what went wrong, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<SuiteProgress>,
    /// When its first run was about to be made: from then on what it measures cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// With schedule: the time that the last round was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_at: Option<Time>,
    /// With schedule: when the next round is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_scheduled_at: Option<Time>,
    /// With schedule: when the last round ended; condition Passed is of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ended_at: Option<Time>,
    /// With schedule: the last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_round: Option<String>,
    /// The first rows of the table, at most 32; the report has all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<RowStatus>,
    /// The row of the highest throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<RowStatus>,
    /// The row of the lowest throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<RowStatus>,
    /// What the numbers are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineStatus>,
    /// How the figures stand to the thresholds: those that are not met first, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdStatus>,
    /// Where the report is stored, from the suite's end on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportStatus>,
    /// Complete (all runs have ended) and Passed (none is Invalid, all thresholds are met).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

//! What a report says, before it takes a form. Its JSON is the JSON report.

use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::{LimitedBy, NoiseStatus, RunPhase, Verdict, VerdictReason},
    suite::ComparisonVerdict,
    thresholds::ThresholdStatus,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The report of a suite, or of runs side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The suite's or the run's name.
    pub title: String,
    /// What is compared, in the order in which it is shown; of runs side by side their labels.
    #[serde(default)]
    pub variants: Vec<VariantHead>,
    /// What is varied, in the order in which values are shown.
    #[serde(default)]
    pub axes: Vec<AxisHead>,
    /// Every figure of every combination: by combination, phase, operation and metric.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// What the figures are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineHead>,
    /// How figures stand to thresholds.
    #[serde(default)]
    pub thresholds: Vec<ThresholdStatus>,
    /// Every run: how it ended, under what conditions, and what is drawn of it.
    #[serde(default)]
    pub runs: Vec<RunRecord>,
    /// What else a reader must know, such as that some runs are still missing.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Document {
    /// What else a reader must know, of the comparison too.
    pub fn all_notes(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().chain(self.baseline.iter().flat_map(|baseline| &baseline.notes))
    }
}

/// A variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariantHead {
    /// Its name.
    pub name: String,
    /// What readers should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An axis and its values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AxisHead {
    /// Its name.
    pub name: String,
    /// The names of its values, in the order of the declaration.
    pub values: Vec<String>,
}

/// A combination: a variant and a value of each axis.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The variant; of runs side by side the run's own label.
    pub variant: String,
    /// A value of each axis, in the order of [`Document::axes`].
    #[serde(default)]
    pub values: Vec<String>,
}

impl Cell {
    /// It for people, such as `redis-8 threads=2 pipeline=10`.
    pub fn label(&self, axes: &[AxisHead]) -> String {
        let values = axes.iter().zip(&self.values).map(|(axis, value)| format!(" {}={value}", axis.name));
        std::iter::once(self.variant.clone()).chain(values).collect()
    }
}

/// One figure of one combination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The combination.
    #[serde(flatten)]
    pub cell: Cell,
    /// The phase.
    pub phase: String,
    /// The operation, or TOTAL.
    pub operation: String,
    /// The figure: the name of a [`dragstrip_crds::thresholds::MetricName`], or what the tool
    /// itself calls it.
    pub metric: String,
    /// The unit for people, such as ops/s, ms, B.
    pub unit: String,
    /// Whether more of it is better; absent where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_is_better: Option<bool>,
    /// Each measurement, Invalid ones too, in the order of repetitions.
    pub samples: Vec<Sample>,
    /// Over the samples that count: none that is Invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// The worst verdict of its samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How it stands to the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Why it is not compared although there is a baseline, in one sentence; absent of the
    /// baseline's own rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompared: Option<String>,
}

/// One measurement of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The run that made it.
    pub run: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The figure.
    pub value: f64,
    /// Whether it may be believed. Invalid ones are struck out and are in no mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Whether it stands far from the others. It counts all the same.
    #[serde(default)]
    pub outlier: bool,
}

/// How a figure stands to the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The baseline's figure.
    pub baseline: f64,
    /// How many measurements the baseline's figure is the mean of; 0 of a published one.
    pub baseline_samples: u32,
    /// The figure divided by the baseline's, with the 95 % confidence interval; an interval
    /// without width where none can be told.
    pub ratio: Estimate,
    /// The figure less the baseline's, likewise, in the figure's unit.
    pub difference: Estimate,
    /// Whether the intervals are known: both sides have more than one measurement, or this
    /// side has and the baseline is a published figure, which is taken as it is.
    pub interval_known: bool,
    /// Up to which share of the baseline's figure a difference is noise, such as 0.03.
    pub margin: f64,
    /// The chance of a difference as large were there none (two-sided, Welch's t test);
    /// absent where no interval is known and of published figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// Of a Better or Worse one: whether it is beyond chance also among all comparisons of
    /// the report (Holm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_among_all: Option<bool>,
    /// What that says.
    pub verdict: ComparisonVerdict,
    /// Why, in one sentence.
    pub reason: String,
}

/// What figures are compared with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineHead {
    /// Its name.
    pub name: String,
    /// Where it comes from: "variant", "suite", "run" or "published".
    pub kind: String,
    /// What differs from it beyond what was varied.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// How the ratios' intervals were found, in one sentence.
    pub method: String,
    /// What else to know of the comparison.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How many rows were compared, with a known interval.
    #[serde(default)]
    pub compared: u32,
}

/// A condition that is not the same on both sides of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The combination that it is about; without values where it is about all of its variant;
    /// absent where it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// What differs, such as server.kernel.
    pub fact: String,
    /// The baseline's.
    pub baseline: String,
    /// This one's.
    pub here: String,
    /// Whether the variant or an axis says that it differs.
    pub varied: bool,
}

/// A run as reports show it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Its name.
    pub name: String,
    /// The combination that it measured.
    #[serde(flatten)]
    pub cell: Cell,
    /// Which of the combination's runs it is, from 1.
    pub repetition: u32,
    /// Where it stands.
    pub phase: RunPhase,
    /// Whether its numbers may be believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why not, by phase.
    #[serde(default)]
    pub reasons: Vec<PhaseReason>,
    /// What limited each phase.
    #[serde(default)]
    pub limited_by: Vec<PhaseLimit>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// When it began and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub finished_at: Option<Timestamp>,
    /// How much equal runs differ on its nodes, where that was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseStatus>,
    /// Images by digest, versions, flags, nodes, kernel, CPU model, placement, spec hash: by
    /// name such as server.kernel.
    #[serde(default)]
    pub provenance: BTreeMap<String, String>,
    /// Latency by percentile of each operation, from its merged histogram.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// Operations of each second of each phase and repetition.
    #[serde(default)]
    pub timelines: Vec<Timeline>,
    /// What searches measured.
    #[serde(default)]
    pub searches: Vec<Search>,
}

/// Why a phase's numbers are not Valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReason {
    /// The phase.
    pub phase: String,
    /// The reason with its evidence.
    #[serde(flatten)]
    pub reason: VerdictReason,
}

/// What limited a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseLimit {
    /// The phase.
    pub phase: String,
    /// The limit with its evidence.
    #[serde(flatten)]
    pub limited_by: LimitedBy,
}

/// Latency by percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Curve {
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// Percentile (0 to 100) and latency in milliseconds, both rising.
    pub points: Vec<(f64, f64)>,
}

/// Throughput by second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The phase.
    pub phase: String,
    /// The run's own repetition, from 1.
    pub repetition: u32,
    /// Operations of each whole second, from the start of the window.
    pub operations: Vec<u64>,
}

/// Points of a saturation search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    /// The phase.
    pub phase: String,
    /// What was raised, such as Connections.
    pub raised: String,
    /// Each point, by rising value.
    pub points: Vec<SearchFigure>,
    /// The value found, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<f64>,
}

/// One point of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchFigure {
    /// The value: connections, operations per second, pipeline depth.
    pub value: f64,
    /// Throughput.
    pub operations_per_second: f64,
    /// 99th percentile of latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_milliseconds: Option<f64>,
}

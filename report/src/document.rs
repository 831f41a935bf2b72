//! What a report says, before it takes a form. Its JSON is the JSON report.

#![warn(missing_docs)]

use crate::rules::Rules;
use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::{LimitedBy, NoiseStatus, RunPhase, SearchStatus, Verdict, VerdictReason},
    suite::{ComparisonVerdict, RatioStatus},
    thresholds::ThresholdStatus,
};
use dragstrip_results::{hit_series::HitSeries, latency_series::PercentileSeries};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{As, FromInto, skip_serializing_none};
use std::collections::BTreeMap;

/// Facts about a run by name, such as server.kernel.
pub type Facts = BTreeMap<String, String>;

/// The report of a suite, or of runs side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Name of the suite or run.
    pub title: String,
    /// The variants in display order; for runs side by side, their labels.
    pub variants: Vec<VariantHead>,
    /// The axes in display order.
    pub axes: Vec<AxisHead>,
    /// The metric that stands for a phase, for phases that declare one; of others it is the throughput.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headlines: BTreeMap<String, String>,
    /// Every figure, ordered by combination, phase, operation and metric.
    pub rows: Vec<Row>,
    /// The baseline of the comparison; of several, the first, which thresholds and the summary are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineHead>,
    /// The other baselines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_baselines: Vec<BaselineHead>,
    /// The outcome of each threshold.
    pub thresholds: Vec<ThresholdStatus>,
    /// Every run: how it ended, under which conditions, and the data of its charts.
    pub runs: Vec<RunRecord>,
    /// Warnings to the reader, for example that some runs have not finished.
    pub notes: Vec<String>,
    /// How figures are compared.
    #[serde(default)]
    pub rules: Rules,
}

impl Document {
    /// All baselines, the first one first.
    pub fn baselines(&self) -> impl Iterator<Item = &BaselineHead> {
        self.baseline.iter().chain(&self.other_baselines)
    }

    /// Each baseline with the comparison of `row`, or with the reason why `row` is not compared.
    pub fn compared<'a>(
        &'a self,
        row: &'a Row,
    ) -> impl Iterator<Item = (&'a BaselineHead, Option<&'a Comparison>, Option<&'a str>)> {
        let first = (row.comparison.as_ref(), row.uncompared.as_deref());
        let others = row.other_comparisons.iter();
        let others = others.map(|other| (other.comparison.as_ref(), other.uncompared.as_deref()));
        let all = std::iter::once(first).chain(others).chain(std::iter::repeat((None, None)));
        self.baselines().zip(all).map(|(baseline, (comparison, why))| (baseline, comparison, why))
    }

    /// All warnings to the reader, those about the comparisons included.
    pub fn all_notes(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().chain(self.baselines().flat_map(|baseline| &baseline.notes))
    }

    /// The name of `run`, and which one of a suite it is.
    pub fn describe(&self, run: &RunRecord) -> String {
        if run.cell.variant == run.name {
            return run.name.clone();
        }
        let alike = self.runs.iter().filter(|other| other.cell == run.cell);
        let which = match alike.map(|other| other.repetition).max() {
            Some(all) if all > 1 => format!(", {} of {all}", run.repetition),
            _ => String::new(),
        };
        format!("{} ({}{which})", run.name, run.cell.label(&self.axes))
    }
}

/// A variant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariantHead {
    /// Its name.
    pub name: String,
    /// A remark for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An axis and its values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AxisHead {
    /// Its name.
    pub name: String,
    /// The names of its values, as declared.
    pub values: Vec<String>,
}

/// A combination: a variant and one value of each axis.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The variant; for runs side by side, the label of the run.
    pub variant: String,
    /// One value of each axis, in the order of [`Document::axes`].
    pub values: Vec<String>,
}

impl Cell {
    /// The combination in words, such as `redis-8 threads=2 pipeline=10`.
    pub fn label(&self, axes: &[AxisHead]) -> String {
        let values = axes.iter().zip(&self.values).map(|(axis, value)| format!(" {}={value}", axis.name));
        std::iter::once(self.variant.clone()).chain(values).collect()
    }
}

/// One figure of one combination.
#[skip_serializing_none]
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
    /// The metric: a [`dragstrip_crds::thresholds::MetricName`], or the name that the tool uses.
    pub metric: String,
    /// The unit of the samples, such as ops/s, ms, B.
    pub unit: String,
    /// Whether more is better; omitted if unknown.
    pub more_is_better: Option<bool>,
    /// Each measurement, Invalid ones included, in the order of repetitions.
    pub samples: Vec<Sample>,
    /// Statistics over the samples that are not Invalid.
    pub spread: Option<Spread>,
    /// The worst verdict among the samples.
    pub verdict: Option<Verdict>,
    /// The comparison with the baseline.
    pub comparison: Option<Comparison>,
    /// Why the row is not compared although the report has a baseline; omitted in rows of the
    /// baseline itself.
    pub uncompared: Option<String>,
    /// The comparison with each of [`Document::other_baselines`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_comparisons: Vec<OtherComparison>,
}

impl Row {
    /// The samples that are not Invalid.
    pub fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| !sample.is_invalid())
    }
}

/// One measurement of a figure.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The run that made it.
    pub run: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// The same for all measurements of one start of a server; omitted if unknown.
    pub server: Option<String>,
    /// The value.
    pub value: f64,
    /// Whether the value can be trusted. Statistics exclude Invalid samples.
    pub verdict: Option<Verdict>,
    /// Whether it lies far from the other samples. Statistics include it all the same.
    pub outlier: bool,
}

impl Sample {
    /// Whether statistics exclude it.
    pub fn is_invalid(&self) -> bool {
        self.verdict == Some(Verdict::Invalid)
    }
}

/// The comparison of a figure with the baseline's.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The baseline's figure.
    pub baseline: f64,
    /// Number of measurements behind the baseline's figure; 0 for a published one.
    pub baseline_samples: u32,
    /// The figure divided by the baseline's, with the 95 % confidence interval; an interval
    /// without width if none can be computed.
    #[serde(with = "As::<FromInto<RatioStatus>>")]
    #[schemars(with = "RatioStatus")]
    pub ratio: Estimate,
    /// The figure minus the baseline's, likewise, in the unit of the figure.
    pub difference: Estimate,
    /// Whether the intervals are valid: both sides have measurements of several servers or of the
    /// same one, or this side has and the baseline is a published figure, which counts as exact.
    pub interval_known: bool,
    /// The smallest difference that these measurements show in four of five cases, as a share of the
    /// baseline's figure; omitted without an interval.
    pub detectable: Option<f64>,
    /// Differences up to this share of the baseline's figure, if proven, are called Same.
    pub margin: f64,
    /// The p value (two-sided, Welch's t test); omitted without an interval and for published
    /// figures.
    pub chance: Option<f64>,
    /// Whether a Better or Worse verdict remains after Holm's correction for the number of
    /// comparisons in the report.
    pub holds_among_all: Option<bool>,
    /// The verdict.
    pub verdict: ComparisonVerdict,
    /// The reason for the verdict, in one sentence.
    pub reason: String,
}

/// The comparison of a figure with another baseline than the first.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherComparison {
    /// The comparison.
    pub comparison: Option<Comparison>,
    /// Why the figure is not compared; omitted if it is the baseline's own.
    pub uncompared: Option<String>,
}

/// A baseline of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaselineHead {
    /// Its name.
    pub name: String,
    /// Its source: "variant", "above" (the variant above each), "suite", "run" or "published".
    pub kind: String,
    /// Conditions that differ between the baseline and the other combinations.
    pub differences: Vec<Difference>,
    /// The method behind the intervals, in a few sentences.
    pub method: String,
    /// Warnings about the comparison.
    pub notes: Vec<String>,
    /// Number of compared rows that have an interval.
    pub compared: u32,
}

/// A condition that differs between the two sides of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The combination; without values if it applies to every combination of the variant;
    /// omitted if it applies to every combination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// The fact that differs, such as server.kernel.
    pub fact: String,
    /// Its value in the baseline.
    pub baseline: String,
    /// Its value in this combination.
    pub here: String,
    /// Whether a variant or an axis declares the difference.
    pub varied: bool,
}

/// A run as reports show it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Its name.
    pub name: String,
    /// The combination that it measured.
    #[serde(flatten)]
    pub cell: Cell,
    /// Its number among the runs of the combination, from 1.
    pub repetition: u32,
    /// Its phase.
    pub phase: RunPhase,
    /// Whether its numbers can be trusted.
    pub verdict: Option<Verdict>,
    /// The reasons for the verdict, by phase of the workload.
    pub reasons: Vec<PhaseReason>,
    /// The bottleneck of each phase.
    pub limited_by: Vec<PhaseLimit>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Its start.
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// Its end.
    #[schemars(with = "Option<String>")]
    pub finished_at: Option<Timestamp>,
    /// How much equal runs differ on its nodes, if calibrated.
    pub noise: Option<NoiseStatus>,
    /// Images by digest, versions, flags, nodes, kernel, CPU model, placement, spec hash.
    pub provenance: Facts,
    /// Latency percentiles of each operation, from its merged histogram.
    pub curves: Vec<Curve>,
    /// Operations per second over time, by phase and repetition.
    pub timelines: Vec<Timeline>,
    /// The saturation searches.
    pub searches: Vec<Search>,
}

/// Why the numbers of a phase are not Valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReason {
    /// The phase.
    pub phase: String,
    /// The reason with its evidence.
    #[serde(flatten)]
    pub reason: VerdictReason,
}

/// The bottleneck of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseLimit {
    /// The phase.
    pub phase: String,
    /// The bottleneck with its evidence.
    #[serde(flatten)]
    pub limited_by: LimitedBy,
    /// What a point with twice the connections showed of it, in one sentence; omitted if none was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<String>,
}

/// Latency by percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Curve {
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// Pairs of percentile (0 to 100) and latency in milliseconds, both rising.
    pub points: Vec<(f64, f64)>,
}

/// Throughput by second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The phase.
    pub phase: String,
    /// The repetition within the run, from 1.
    pub repetition: u32,
    /// Operations of each full second, from the start of the window.
    pub operations: Vec<u64>,
    /// The 99th percentile of latency by the second; omitted if the tool does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<PercentileSeries>,
    /// What the reads found by the second; omitted if all found their key, or the tool does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<HitSeries>,
    /// Findings about parts of the time: stalls, a cold start, another level, a trend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<VerdictReason>,
}

/// A saturation search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    /// The phase.
    pub phase: String,
    /// What it raised, measured and found.
    #[serde(flatten)]
    pub found: SearchStatus,
}

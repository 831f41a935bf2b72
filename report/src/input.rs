//! What a report is built from. Pure.

use crate::{
    document::{AxisHead, Cell, Document, VariantHead},
    published,
    rules::Rules,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite,
    suite::{Baseline, Order, Variant},
    thresholds::Threshold,
};
use dragstrip_results::result::RepetitionResult;
use kube::ResourceExt;
use std::borrow::Cow;

#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Name of the suite or run.
    pub title: String,
    /// The variants in display order; if empty, they have the order of the entries.
    pub variants: Vec<VariantHead>,
    pub axes: Vec<AxisHead>,
    pub entries: Vec<Entry>,
    /// Relative thresholds and the summary are about the first.
    pub baselines: Vec<BaselineInput>,
    pub thresholds: Vec<Threshold>,
    pub rules: Rules,
}

impl Input {
    /// The declarations of `suite`, with its `axes`; no runs and no baseline yet.
    pub fn of_suite(suite: &BenchmarkSuite, axes: Vec<AxisHead>) -> Self {
        let head = |variant: &Variant| VariantHead { name: variant.name.clone(), note: variant.note.clone() };
        Self {
            title: suite.name_any(),
            variants: suite.spec.variants.iter().map(head).collect(),
            axes,
            thresholds: suite.spec.thresholds.clone(),
            rules: Rules {
                margins: suite.spec.margins.clone(),
                anyway: suite.spec.compare_anyway,
                in_blocks: suite.spec.order == Order::Interleaved,
            },
            ..Self::default()
        }
    }
}

/// A run and its stored results.
#[derive(Debug, Clone)]
pub struct Entry {
    pub cell: Cell,
    /// Its number among the runs of the combination, from 1.
    pub repetition: u32,
    pub run: BenchmarkRun,
    /// Its stored results; without them, the report has no curves and timelines and fewer
    /// figures of single repetitions.
    pub results: Vec<RepetitionResult>,
}

impl Entry {
    /// The results of the repetitions, without the points of a search, in the order in which they are declared.
    pub fn measured(&self) -> Vec<&RepetitionResult> {
        let phases = &self.run.spec.phases;
        let place = |result: &RepetitionResult| phases.iter().position(|phase| phase.name == result.phase);
        let mut results: Vec<_> = self.results.iter().filter(|result| result.point.is_none()).collect();
        results.sort_by_key(|result| (result.repetition, place(result)));
        results
    }
}

/// Access to runs one by one: thousands of them do not fit in memory at once.
pub trait Entries {
    /// The combination and number of each run.
    fn places(&self) -> Vec<(&Cell, u32)>;
    /// The run at this place, if it can be read.
    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>>;
}

impl Entries for Vec<Entry> {
    fn places(&self) -> Vec<(&Cell, u32)> {
        self.iter().map(|entry| (&entry.cell, entry.repetition)).collect()
    }

    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>> {
        self.get(place).map(Cow::Borrowed)
    }
}

#[derive(Debug, Clone)]
pub enum BaselineInput {
    /// This variant: each combination is compared with the one that has the same values.
    Variant(String),
    /// For each variant the one above it, at the same values.
    Above,
    /// The run with this label.
    Run(String),
    /// The report of an earlier suite or run: each combination is compared with itself there.
    Report {
        /// "suite" or "run".
        kind: String,
        document: Box<Document>,
    },
    Published {
        /// Its name, such as the name of its file or ConfigMap.
        name: String,
        table: published::Table,
    },
}

impl BaselineInput {
    /// The baselines of `declared` that the suite measures itself.
    pub fn within(declared: Option<&Baseline>) -> Vec<Self> {
        let variant = declared.and_then(|baseline| baseline.variant.clone()).map(Self::Variant);
        let above = declared.filter(|baseline| baseline.above).map(|_| Self::Above);
        variant.into_iter().chain(above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_declared_by_metric_and_have_defaults() {
        let margin = serde_json::from_value(serde_json::json!({"metric": "P50Milliseconds", "share": "0.1"}));
        let rules = Rules { margins: vec![margin.unwrap()], ..Rules::default() };
        let found = ["OperationsPerSecond", "P99Milliseconds", "P50Milliseconds", "ns/op"]
            .map(|metric| rules.margin(metric).to_string());
        assert_eq!(found, ["0.03", "0.05", "0.1", "0.03"]);
    }
}

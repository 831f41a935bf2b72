//! What reports are made of, apart from stored results. Pure.

use super::details;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, suite::Variant};
use dragstrip_report::{
    Entry, Input, build,
    document::{AxisHead, Cell, VariantHead},
    text,
};
use kube::ResourceExt;

/// Runs side by side, without their stored results.
pub fn side_by_side(runs: &[BenchmarkRun]) -> Input {
    let title = runs.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ");
    let entry = |run: &BenchmarkRun| {
        let cell = Cell { variant: run.name_any(), values: Vec::new() };
        Entry { cell, repetition: 1, run: run.clone(), results: Vec::new() }
    };
    // Runs side by side have thresholds of their own, and conditions that report them.
    let thresholds = if let [run] = runs { run.spec.thresholds.clone() } else { Vec::new() };
    Input { title, thresholds, entries: runs.iter().map(entry).collect(), ..Input::default() }
}

/// An input with the variants, axes and thresholds of `suite`, without runs.
pub fn suite_input(suite: &BenchmarkSuite, axes: Vec<AxisHead>) -> Input {
    let head = |variant: &Variant| VariantHead { name: variant.name.clone(), note: variant.note.clone() };
    Input {
        title: suite.name_any(),
        variants: suite.spec.variants.iter().map(head).collect(),
        axes,
        thresholds: suite.spec.thresholds.clone(),
        compare_anyway: suite.spec.compare_anyway,
        ..Input::default()
    }
}

/// The report of `runs` as text, from their statuses alone.
pub fn text_report(runs: &[BenchmarkRun]) -> String {
    text::render(&build(side_by_side(runs))) + &details::of(runs)
}

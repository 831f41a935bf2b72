//! What reports are made of, apart from stored results. Pure.

use super::details;
use dragstrip_crds::BenchmarkRun;
use dragstrip_report::{Entry, Input, build, document::Cell, text};
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

/// The report of `runs` as text, from their statuses alone.
pub fn text_report(runs: &[BenchmarkRun]) -> String {
    text::render(&build(side_by_side(runs))) + &details::of(runs)
}

//! From runs to the document: figures, comparisons, thresholds and records. Pure.

mod facts;
mod records;
mod rows;
mod samples;

use crate::{
    compare,
    document::{AxisHead, Cell, Document, VariantHead},
    input::{Entries, Input},
    thresholds,
};
use std::collections::BTreeMap;

const MOST_NAMES: usize = 3;

pub fn build(mut input: Input) -> Document {
    let entries = std::mem::take(&mut input.entries);
    build_of(input, &entries)
}

/// Build the document of `input` from these `entries` instead of its own.
pub fn build_of(input: Input, entries: &dyn Entries) -> Document {
    let variants = variants(input.variants, entries);
    let places = entries.places();
    let single_runs = places.iter().all(|(_, repetition)| *repetition <= 1);
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_cached_key(|place| (rank(&variants, &input.axes, places[*place].0), places[*place].1));
    let (mut runs, mut rows, mut repeated) = (Vec::new(), rows::Rows::new(single_runs), false);
    let mut headlines = BTreeMap::new();
    for entry in order.into_iter().filter_map(|place| entries.entry(place)) {
        rows.add(&entry);
        for phase in &entry.run.spec.phases {
            let declared = phase.headline.iter().map(|metric| (phase.name.clone(), metric.clone()));
            headlines.extend(declared);
        }
        runs.push(records::record(&entry));
        repeated |= single_runs && entry.run.spec.repetitions > 1;
    }
    let mut document = Document {
        title: input.title,
        headlines,
        rows: rows.finish(),
        runs,
        variants,
        axes: input.axes,
        rules: input.rules,
        ..Document::default()
    };
    document.notes = notes(&document, repeated);
    compare::mark_outliers(&mut document.rows);
    for baseline in &input.baselines {
        let rules = document.rules.clone();
        compare::compare(&mut document, entries, baseline, &rules);
    }
    document.thresholds = thresholds::evaluate(&input.thresholds, &document, entries);
    document
}

/// The declared variants, then those that only entries have.
fn variants(mut declared: Vec<VariantHead>, entries: &dyn Entries) -> Vec<VariantHead> {
    for (cell, _) in entries.places() {
        if !declared.iter().any(|head| head.name == cell.variant) {
            declared.push(VariantHead { name: cell.variant.clone(), note: None });
        }
    }
    declared
}

/// The position of `cell` among variants and axis values.
fn rank(variants: &[VariantHead], axes: &[AxisHead], cell: &Cell) -> Vec<usize> {
    let variant = variants.iter().position(|head| head.name == cell.variant);
    let values =
        axes.iter().zip(&cell.values).map(|(axis, value)| axis.values.iter().position(|v| v == value));
    std::iter::once(variant).chain(values).map(|place| place.unwrap_or(usize::MAX)).collect()
}

/// Warnings about the runs; `repeated` if single runs have several repetitions.
fn notes(document: &Document, repeated: bool) -> Vec<String> {
    let runs = &document.runs;
    let unfinished = runs.iter().filter(|run| !run.phase.finished()).map(|run| document.describe(run));
    let (count, mut notes) = (unfinished.clone().count(), Vec::new());
    if count > 0 {
        let names = unfinished.take(MOST_NAMES).collect::<Vec<_>>().join(", ");
        let more = if count > MOST_NAMES { ", ..." } else { "" };
        notes.push(format!("{count} of {} runs have not finished: {names}{more}", runs.len()));
    }
    if repeated {
        notes.push("each figure covers the repetitions of one run, which share a server: its interval does not include how much restarted servers differ".to_owned());
    }
    notes
}

#[cfg(test)]
pub(crate) mod tests;

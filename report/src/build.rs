//! From runs to the document: figures, comparisons, thresholds and records. Pure.

mod records;
mod rows;
mod samples;

use crate::{
    compare,
    document::{AxisHead, Cell, Document, VariantHead},
    published, thresholds,
};
use dragstrip_crds::{BenchmarkRun, thresholds::Threshold};
use dragstrip_results::result::RepetitionResult;
use kube::ResourceExt;
use std::borrow::Cow;

/// What a report is made of.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The suite's or the run's name.
    pub title: String,
    /// The variants in the order in which they are shown; in the order of the entries when empty.
    pub variants: Vec<VariantHead>,
    /// What is varied.
    pub axes: Vec<AxisHead>,
    /// Every run.
    pub entries: Vec<Entry>,
    /// What the figures are compared with.
    pub baseline: Option<BaselineInput>,
    /// What the figures must be.
    pub thresholds: Vec<Threshold>,
    /// Compare also what was measured under other conditions.
    pub compare_anyway: bool,
}

/// A run and what is stored of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The combination that it measured.
    pub cell: Cell,
    /// Which of the combination's runs it is, from 1.
    pub repetition: u32,
    /// The run with its status.
    pub run: BenchmarkRun,
    /// Its stored results, as far as they are at hand: without them there are no curves and
    /// timelines, and fewer figures of single repetitions.
    pub results: Vec<RepetitionResult>,
}

/// The runs that a report is made of, looked at one after the other: thousands of them are more
/// than fit in memory at once.
pub trait Entries {
    /// What each measured: its combination, and which of the combination's runs it is.
    fn places(&self) -> Vec<(&Cell, u32)>;
    /// The one at this place, or nothing where it cannot be read.
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

impl dyn Entries + '_ {
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Cow<'_, Entry>> {
        (0..self.places().len()).filter_map(|place| self.entry(place))
    }

    /// The first that measured `cell`.
    pub(crate) fn of_cell(&self, cell: &Cell) -> Option<Cow<'_, Entry>> {
        self.entry(self.places().iter().position(|(of, _)| *of == cell)?)
    }
}

/// What figures are compared with.
#[derive(Debug, Clone)]
pub enum BaselineInput {
    /// A variant of the entries: each combination with that variant's of the same values.
    Variant(String),
    /// One of the runs side by side, by its label, which is its cell's variant.
    Run(String),
    /// The report of an earlier suite or run: each combination with the same one in it.
    Report {
        /// "suite" or "run".
        kind: String,
        /// The report.
        document: Box<Document>,
    },
    /// A published table.
    Published {
        /// Its name, such as that of its file or ConfigMap.
        name: String,
        /// The table.
        table: published::Table,
    },
}

/// The document of `input`.
pub fn build(mut input: Input) -> Document {
    let entries = std::mem::take(&mut input.entries);
    build_of(input, &entries)
}

/// The document of `input` with these `entries` instead of its own.
pub fn build_of(input: Input, entries: &dyn Entries) -> Document {
    let variants = variants(input.variants, entries);
    let entries: &dyn Entries = &Sorted::of(entries, &variants, &input.axes);
    let alone = entries.places().iter().all(|(_, repetition)| *repetition <= 1);
    let mut notes = Notes::default();
    let (mut runs, mut rows) = (Vec::new(), rows::Rows::new(alone));
    for entry in entries.all() {
        rows.add(&entry);
        runs.push(records::record(&entry));
        notes.add(&entry.run);
    }
    let (title, notes) = (input.title, notes.told(alone));
    let axes = input.axes;
    let mut document =
        Document { title, rows: rows.told(), runs, notes, variants, axes, ..Document::default() };
    compare::mark_outliers(&mut document.rows);
    if let Some(baseline) = &input.baseline {
        compare::compare(&mut document, entries, baseline, input.compare_anyway);
    }
    document.thresholds = thresholds::evaluate(&input.thresholds, &document);
    document
}

/// The variants given, and those of entries that are not among them.
fn variants(mut given: Vec<VariantHead>, entries: &dyn Entries) -> Vec<VariantHead> {
    for (cell, _) in entries.places() {
        if !given.iter().any(|known| known.name == cell.variant) {
            given.push(VariantHead { name: cell.variant.clone(), note: None });
        }
    }
    given
}

/// The place of `cell` in the order of variants and of the axes' values.
fn rank(variants: &[VariantHead], axes: &[AxisHead], cell: &Cell) -> Vec<usize> {
    let variant = variants.iter().position(|known| known.name == cell.variant);
    let values =
        axes.iter().zip(&cell.values).map(|(axis, value)| axis.values.iter().position(|v| v == value));
    std::iter::once(variant).chain(values).map(|place| place.unwrap_or(usize::MAX)).collect()
}

/// Entries by variant, by the axes' values and by repetition.
struct Sorted<'a> {
    entries: &'a dyn Entries,
    order: Vec<usize>,
}

impl<'a> Sorted<'a> {
    fn of(entries: &'a dyn Entries, variants: &[VariantHead], axes: &[AxisHead]) -> Self {
        let places = entries.places();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_cached_key(|place| {
            let (cell, repetition) = places[*place];
            (rank(variants, axes, cell), repetition)
        });
        Self { entries, order }
    }
}

impl Entries for Sorted<'_> {
    fn places(&self) -> Vec<(&Cell, u32)> {
        let places = self.entries.places();
        self.order.iter().filter_map(|place| places.get(*place).copied()).collect()
    }

    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>> {
        self.entries.entry(*self.order.get(place)?)
    }
}

/// What is to be said of the runs besides their figures.
#[derive(Default)]
struct Notes {
    runs: usize,
    unfinished: Vec<String>,
    several: bool,
}

impl Notes {
    fn add(&mut self, run: &BenchmarkRun) {
        self.runs += 1;
        self.several |= run.spec.repetitions > 1;
        if !run.status.as_ref().is_some_and(|status| status.phase.finished()) {
            self.unfinished.push(run.name_any());
        }
    }

    /// Where no combination has several runs, the repetitions within each stand `alone`.
    fn told(self, alone: bool) -> Vec<String> {
        let Self { runs, unfinished, several } = self;
        let under_way = (!unfinished.is_empty()).then(|| {
            let some = unfinished.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = if unfinished.len() > 3 { ", ..." } else { "" };
            format!("{} of {runs} runs have not ended: {some}{more}", unfinished.len())
        });
        let within = (alone && several).then(|| {
            "each figure is over the repetitions within one run, which share a server: how servers started anew differ is not in its interval".to_owned()
        });
        under_way.into_iter().chain(within).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;

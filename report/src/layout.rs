//! Which tables a document has, whatever form they take: one line per combination, and by
//! the number of axes the matrices in which people compare. Pure.

mod ending;
mod facts;
mod grids;
mod phases;
mod pivot;

pub use ending::{Ending, endings};
pub use facts::Facts;
pub use grids::{Grid, Style, all_figures, listings, pivots as pivot_grids};
pub use phases::{Phases, phase_of, standing, told};
pub use pivot::{Pivot, pivots};

use crate::document::{AxisHead, Cell, Comparison, Document};
use dragstrip_crds::{suite::ComparisonVerdict, thresholds::MetricName};
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// The phases of `document`, in the order of its rows.
pub fn phases(document: &Document) -> Vec<&str> {
    distinct(document.rows.iter().map(|row| row.phase.as_str()))
}

/// Its combinations, in the order of its rows.
pub fn cells(document: &Document) -> Vec<&Cell> {
    distinct(document.rows.iter().map(|row| &row.cell))
}

/// Every combination, also those without a figure.
pub(crate) fn combinations(document: &Document) -> Vec<&Cell> {
    distinct(document.runs.iter().map(|run| &run.cell).chain(document.rows.iter().map(|row| &row.cell)))
}

/// Its variants as they were declared, then in the order in which they appear.
pub fn variants(document: &Document) -> Vec<&str> {
    let declared = document.variants.iter().map(|variant| &variant.name);
    let of_rows = document.rows.iter().map(|row| &row.cell.variant);
    let all = declared.chain(of_rows).chain(document.runs.iter().map(|run| &run.cell.variant));
    distinct(all.map(String::as_str))
}

/// Each of `all` once, in the order in which they come first.
pub(crate) fn distinct<T: Ord + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

/// Items under the key that they share, keys in the order of first appearance.
pub(crate) fn grouped<T, K: Eq + Hash + Clone>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The metric that stands for `phase`: throughput where it has one, else its first.
pub fn headline<'a>(document: &'a Document, phase: &str) -> Option<&'a str> {
    let metrics =
        distinct(document.rows.iter().filter(|row| row.phase == phase).map(|row| row.metric.as_str()));
    let wanted =
        [MetricName::OperationsPerSecond, MetricName::ElementsPerSecond].map(|name| name.to_string());
    let rate = wanted.iter().find_map(|name| metrics.iter().copied().find(|metric| metric == name));
    rate.or_else(|| metrics.first().copied())
}

/// Axes with more than one value: the others say nothing in a table.
pub(crate) fn varied(document: &Document) -> Vec<(usize, &AxisHead)> {
    document.axes.iter().enumerate().filter(|(_, axis)| axis.values.len() > 1).collect()
}

/// A sign for what a comparison says.
pub fn sign(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "▲",
        ComparisonVerdict::Worse => "▼",
        ComparisonVerdict::Same => "=",
        ComparisonVerdict::Unclear => "?",
        ComparisonVerdict::NotComparable => "≠",
    }
}

/// Whether there is a ratio that may be told: that of things measured under other conditions
/// would be taken for an answer.
pub fn has_ratio(comparison: &Comparison) -> bool {
    comparison.verdict != ComparisonVerdict::NotComparable
}

#[cfg(test)]
mod tests;

//! Which tables a document has, whatever form they take: one line per combination, and by
//! the number of axes the matrices in which people compare. Pure.

mod grids;
mod pivot;

pub use grids::{Grid, Style, all_figures, listings, pivots as pivot_grids};
pub use pivot::{Pivot, pivots};

use crate::document::{AxisHead, Cell, Document, Row};
use dragstrip_crds::{suite::ComparisonVerdict, thresholds::MetricName};
use dragstrip_results::result::TOTAL;
use std::collections::{BTreeMap, BTreeSet};

/// The phases of `document`, in the order of its rows.
pub fn phases(document: &Document) -> Vec<&str> {
    distinct(document.rows.iter().map(|row| row.phase.as_str()))
}

/// Its combinations, in the order of its rows.
pub fn cells(document: &Document) -> Vec<&Cell> {
    distinct(document.rows.iter().map(|row| &row.cell))
}

/// Each of `all` once, in the order in which they come first.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        // Neighbours are mostly the same.
        if seen.last() != Some(&one) && !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// The operations of `phase` that are worth showing: the total only where there are several
/// others, or none. Of operations that ran one after the other it may have memory alone.
pub fn operations<'a>(document: &'a Document, phase: &str) -> Vec<&'a str> {
    let rows = || document.rows.iter().filter(|row| row.phase == phase);
    let all = distinct(rows().map(|row| row.operation.as_str()));
    let others = all.iter().filter(|name| **name != TOTAL).count();
    let headline = headline(document, phase);
    let counted = rows().any(|row| row.operation == TOTAL && Some(row.metric.as_str()) == headline);
    let total = others == 0 || (others > 1 && counted);
    all.into_iter().filter(|name| total || *name != TOTAL).collect()
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

/// The row of `metric`; of a phase's figures, which are of all operations together, also
/// under its only operation.
pub fn find<'a>(
    document: &'a Document,
    cell: &Cell,
    phase: &str,
    operation: &str,
    metric: &str,
) -> Option<&'a Row> {
    let of = |operation: &str| {
        document.rows.iter().find(|row| {
            row.cell == *cell && row.phase == phase && row.operation == operation && row.metric == metric
        })
    };
    of(operation).or_else(|| if operations(document, phase).len() == 1 { of(TOTAL) } else { None })
}

/// Phases of combinations with one operation alone, which then is all of them together.
pub struct Single<'a> {
    phases: BTreeSet<(&'a Cell, &'a str)>,
    /// What is told of an operation.
    figures: BTreeSet<(&'a Cell, &'a str, &'a str)>,
}

impl<'a> Single<'a> {
    /// Those of `rows`.
    pub fn of(rows: &'a [Row]) -> Self {
        let mut operations: BTreeMap<(&Cell, &str), BTreeSet<&str>> = BTreeMap::new();
        let mut figures = BTreeSet::new();
        for row in rows.iter().filter(|row| row.operation != TOTAL) {
            operations.entry((&row.cell, &row.phase)).or_default().insert(&row.operation);
            figures.insert((&row.cell, row.phase.as_str(), row.metric.as_str()));
        }
        operations.retain(|_, operations| operations.len() == 1);
        Self { phases: operations.into_keys().collect(), figures }
    }

    /// Whether the phase of `row` has one operation.
    pub fn is_single(&self, row: &Row) -> bool {
        self.phases.contains(&(&row.cell, row.phase.as_str()))
    }

    /// Whether `row` is a total that repeats what the only operation says.
    pub fn is_twin(&self, row: &Row) -> bool {
        let figure = (&row.cell, row.phase.as_str(), row.metric.as_str());
        row.operation == TOTAL && self.is_single(row) && self.figures.contains(&figure)
    }
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

#[cfg(test)]
mod tests;

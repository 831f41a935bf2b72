//! The rows of a document by what they are of, and which of them are worth telling. Pure.

use super::{distinct, grouped};
use crate::document::{Cell, Document, Row};
use dragstrip_results::result::TOTAL;
use std::collections::BTreeMap;

/// The rows of each combination's phases. Where a combination has one operation alone, it is all
/// of them together: a total says the same again.
pub struct Phases<'a>(BTreeMap<(&'a Cell, &'a str), Vec<&'a Row>>);

impl<'a> Phases<'a> {
    /// Those of `rows`.
    pub fn of(rows: &'a [Row]) -> Self {
        let mut phases: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            phases.entry((&row.cell, row.phase.as_str())).or_default().push(row);
        }
        Self(phases)
    }

    fn rows<'b>(&'b self, cell: &'b Cell, phase: &'b str) -> &'b [&'a Row] {
        self.0.get(&(cell, phase)).map_or(&[], Vec::as_slice)
    }

    /// Whether `phase` of `cell` has one operation.
    pub fn has_one(&self, cell: &Cell, phase: &str) -> bool {
        let named = self.rows(cell, phase).iter().map(|row| &row.operation).filter(|name| *name != TOTAL);
        let mut named = named.peekable();
        named.peek().copied().is_some_and(|first| named.all(|name| name == first))
    }

    /// Whether the phase of `row` has one operation.
    pub fn is_single(&self, row: &Row) -> bool {
        self.has_one(&row.cell, &row.phase)
    }

    /// Whether `row` is a total that repeats what the only operation says.
    pub fn is_twin(&self, row: &Row) -> bool {
        let same = |other: &&Row| other.operation != TOTAL && other.metric == row.metric;
        row.operation == TOTAL && self.is_single(row) && self.rows(&row.cell, &row.phase).iter().any(same)
    }

    /// The operations of `cell` that a table of `metric` shows: the total only where there are
    /// several others, or none. Of operations that ran one after the other it may have memory alone.
    pub fn operations(&self, cell: &Cell, phase: &str, metric: &str) -> Vec<&'a str> {
        let rows = self.rows(cell, phase);
        let all = distinct(rows.iter().map(|row| row.operation.as_str()));
        let others = all.iter().filter(|name| **name != TOTAL).count();
        let counted = rows.iter().any(|row| row.operation == TOTAL && row.metric == metric);
        let total = others == 0 || (others > 1 && counted);
        all.into_iter().filter(|name| total || *name != TOTAL).collect()
    }

    /// The row of `metric`; what is known of all operations together also under the only one.
    pub fn find(&self, cell: &Cell, phase: &str, operation: &str, metric: &str) -> Option<&'a Row> {
        let of = |operation: &str| {
            let same = |row: &&&Row| row.operation == operation && row.metric == metric;
            self.rows(cell, phase).iter().find(same).copied()
        };
        let only = || {
            self.has_one(cell, phase) && self.rows(cell, phase).iter().any(|row| row.operation == operation)
        };
        of(operation).or_else(|| if only() { of(TOTAL) } else { None })
    }
}

/// Every row but the totals that repeat a single operation.
pub fn told(document: &Document) -> Vec<&Row> {
    let phases = Phases::of(&document.rows);
    document.rows.iter().filter(|row| !phases.is_twin(row)).collect()
}

/// What stands for each combination's phases: the total of several operations, or each operation
/// where nothing sums them up.
pub fn standing<'a>(document: &'a Document, metric: &str) -> Vec<&'a Row> {
    let rows = told(document).into_iter().filter(|row| row.metric == metric);
    let phases = grouped(rows, |row| (&row.cell, &row.phase)).into_iter();
    let standing = phases.flat_map(|(_, rows)| match rows.iter().find(|row| row.operation == TOTAL) {
        Some(total) => vec![*total],
        None => rows,
    });
    standing.collect()
}

/// The phase of `row`, with its operation where that is not all of them.
pub fn phase_of(row: &Row) -> String {
    if row.operation == TOTAL { row.phase.clone() } else { format!("{} {}", row.phase, row.operation) }
}

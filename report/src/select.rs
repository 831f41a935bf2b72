//! Combinations, phases and rows of a document, for comparisons, thresholds and forms. Pure.

use crate::document::{AxisHead, Cell, Document, Row};
use dragstrip_crds::thresholds::MetricName;
use dragstrip_results::result::{FILL, TOTAL};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
};

/// Each of `all` once, in the order of first appearance.
pub fn distinct<T: Ord + Clone>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

/// Items by the key that they share, keys in the order of first appearance.
pub fn grouped<T, K: Eq + Hash + Clone>(
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

pub fn phases(document: &Document) -> Vec<&str> {
    distinct(document.rows.iter().map(|row| row.phase.as_str()))
}

pub fn measured_cells(document: &Document) -> Vec<&Cell> {
    distinct(document.rows.iter().map(|row| &row.cell))
}

/// Every combination, those without a figure included.
pub fn all_cells(document: &Document) -> Vec<&Cell> {
    distinct(document.runs.iter().map(|run| &run.cell).chain(document.rows.iter().map(|row| &row.cell)))
}

/// Declared variants first, then the others in the order of first appearance.
pub fn variants(document: &Document) -> Vec<&str> {
    let declared = document.variants.iter().map(|variant| &variant.name);
    let of_rows = document.rows.iter().map(|row| &row.cell.variant);
    let all = declared.chain(of_rows).chain(document.runs.iter().map(|run| &run.cell.variant));
    distinct(all.map(String::as_str))
}

/// Axes with several values: a single value says nothing in a table.
pub fn varied_axes(document: &Document) -> Vec<(usize, &AxisHead)> {
    document.axes.iter().enumerate().filter(|(_, axis)| axis.values.len() > 1).collect()
}

pub fn metrics<'a>(document: &'a Document, phase: &str) -> Vec<(&'a str, &'a str)> {
    let rows = document.rows.iter().filter(|row| row.phase == phase);
    distinct(rows.map(|row| (row.metric.as_str(), row.unit.as_str())))
}

/// The most important metric of `phase`: the one that it declares, if measured, else throughput, or
/// else the first metric.
pub fn headline<'a>(document: &'a Document, phase: &str) -> Option<(&'a str, &'a str)> {
    let metrics = metrics(document, phase);
    let rates = [MetricName::OperationsPerSecond, MetricName::ElementsPerSecond];
    let declared = document.headlines.get(phase).cloned();
    let mut wanted = declared.into_iter().chain(rates.map(|rate| rate.to_string()));
    let find = |name: String| metrics.iter().find(|(metric, _)| *metric == name);
    wanted.find_map(find).or(metrics.first()).copied()
}

/// The metrics that phases declare as their headline, then `others`.
pub fn headlines_and<'a>(document: &'a Document, others: &[&'a str]) -> Vec<&'a str> {
    distinct(document.headlines.values().map(String::as_str).chain(others.iter().copied()))
}

/// `what`, such as a phase, and the operation unless it is the total.
pub fn with_operation(what: &str, operation: &str) -> String {
    if operation == TOTAL { what.to_owned() } else { format!("{what} {operation}") }
}

/// Whether the total of a phase counts the operation: it does not count itself, nor the SETs that follow misses.
pub fn is_counted(operation: &str) -> bool {
    ![TOTAL, FILL].contains(&operation)
}

/// Rows by combination and phase. If the total of a combination counts a single operation, it repeats it.
pub struct RowIndex<'a>(BTreeMap<(&'a Cell, &'a str), Vec<&'a Row>>);

impl<'a> RowIndex<'a> {
    pub fn of(rows: &'a [Row]) -> Self {
        let mut index: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            index.entry((&row.cell, row.phase.as_str())).or_default().push(row);
        }
        Self(index)
    }

    fn rows<'b>(&'b self, cell: &'b Cell, phase: &'b str) -> &'b [&'a Row] {
        self.0.get(&(cell, phase)).map_or(&[], Vec::as_slice)
    }

    pub fn has_single_operation(&self, cell: &Cell, phase: &str) -> bool {
        let named = self.rows(cell, phase).iter().map(|row| &row.operation);
        let mut named = named.filter(|name| is_counted(name)).peekable();
        named.peek().copied().is_some_and(|first| named.all(|name| name == first))
    }

    /// Whether `row` is a total that repeats the only operation.
    pub fn repeats(&self, row: &Row) -> bool {
        let same = |other: &&Row| is_counted(&other.operation) && other.metric == row.metric;
        row.operation == TOTAL
            && self.has_single_operation(&row.cell, &row.phase)
            && self.rows(&row.cell, &row.phase).iter().any(same)
    }

    /// The operations of `cell` that a table of `metric` lists. The total is listed only beside
    /// several operations or none; after operations that ran one by one it may have memory alone.
    pub fn operations(&self, cell: &Cell, phase: &str, metric: &str) -> Vec<&'a str> {
        let rows = self.rows(cell, phase);
        let all = distinct(rows.iter().map(|row| row.operation.as_str()));
        let others = all.iter().filter(|name| is_counted(name)).count();
        let has_total = rows.iter().any(|row| row.operation == TOTAL && row.metric == metric);
        let total = others == 0 || (others > 1 && has_total);
        all.into_iter().filter(|name| total || *name != TOTAL).collect()
    }

    /// The row of `metric`; a single operation has the metrics of the total too.
    pub fn find(&self, cell: &Cell, phase: &str, operation: &str, metric: &str) -> Option<&'a Row> {
        let rows = self.rows(cell, phase);
        let of = |operation: &str| {
            rows.iter().find(|row| row.operation == operation && row.metric == metric).copied()
        };
        let single = self.has_single_operation(cell, phase);
        let is_single = single && rows.iter().any(|row| row.operation == operation);
        of(operation).or_else(|| of(TOTAL).filter(|_| is_single))
    }
}

/// The rows that represent each combination and phase: the total, or else every operation.
pub fn totals<'a>(document: &'a Document, metric: &str) -> Vec<&'a Row> {
    let rows = document.rows.iter().filter(|row| row.metric == metric);
    let phases = grouped(rows, |row| (&row.cell, &row.phase)).into_iter();
    let of_phase = |rows: Vec<&'a Row>| match rows.iter().find(|row| row.operation == TOTAL) {
        Some(total) => vec![*total],
        None => rows,
    };
    phases.flat_map(|(_, rows)| of_phase(rows)).collect()
}

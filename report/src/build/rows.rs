//! Measurements to rows: by combination, phase, operation and metric. Pure.

use super::{
    Entry,
    samples::{Measurement, of_repetitions, of_run},
};
use crate::document::{Cell, Row, Sample};
use dragstrip_crds::{run::Verdict, thresholds::MetricName};
use dragstrip_results::{result::TOTAL, statistics};
use std::collections::BTreeMap;

/// Names in the order in which they were first seen.
#[derive(Default)]
struct Order(Vec<String>);

impl Order {
    fn rank(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

/// Known metrics in their order, then the tool's own as they were seen.
fn metric_rank(others: &mut Order, metric: &str) -> usize {
    let known = MetricName::ALL.iter().position(|known| known.to_string() == metric);
    known.unwrap_or_else(|| MetricName::ALL.len() + others.rank(metric))
}

/// Rows in the making.
pub struct Rows {
    alone: bool,
    cells: Vec<Cell>,
    phases: Order,
    operations: Order,
    metrics: Order,
    made: BTreeMap<[usize; 4], Row>,
}

impl Rows {
    /// Of nothing yet. Each run will be one measurement, or where runs stand `alone` each of
    /// its repetitions.
    pub fn new(alone: bool) -> Self {
        Self {
            alone,
            cells: Vec::new(),
            phases: Order::default(),
            operations: Order::default(),
            metrics: Order::default(),
            made: BTreeMap::new(),
        }
    }

    /// Adds a run's measurements.
    pub fn add(&mut self, entry: &Entry) {
        let cell = self.cells.iter().position(|known| *known == entry.cell).unwrap_or_else(|| {
            self.cells.push(entry.cell.clone());
            self.cells.len() - 1
        });
        let measurements = if self.alone { of_repetitions(entry) } else { of_run(entry) };
        for one in measurements {
            let operation =
                if one.operation == TOTAL { usize::MAX } else { self.operations.rank(&one.operation) };
            let metric = metric_rank(&mut self.metrics, &one.named.metric);
            let place = [cell, self.phases.rank(&one.phase), operation, metric];
            add(self.made.entry(place).or_insert_with(|| empty(&entry.cell, &one)), one);
        }
    }

    /// The rows: by combination, phase, operation and metric.
    pub fn told(self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.made.into_values().collect();
        rows.iter_mut().for_each(summarise);
        rows
    }
}

fn empty(cell: &Cell, one: &Measurement) -> Row {
    Row {
        cell: cell.clone(),
        phase: one.phase.clone(),
        operation: one.operation.clone(),
        metric: one.named.metric.clone(),
        unit: one.named.unit.clone(),
        more_is_better: one.named.more_is_better,
        ..Row::default()
    }
}

fn add(row: &mut Row, one: Measurement) {
    row.spread = one.within;
    row.samples.push(Sample {
        run: one.run,
        repetition: one.repetition,
        value: one.value,
        verdict: one.verdict,
        outlier: false,
    });
}

/// Fills in what follows from the samples.
fn summarise(row: &mut Row) {
    row.verdict = row.samples.iter().filter_map(|sample| sample.verdict).max();
    let counted: Vec<f64> = row.counted().map(|sample| sample.value).collect();
    let within = row.spread.take().filter(|_| row.samples.len() == 1 && counted.len() == 1);
    row.spread = within.or_else(|| statistics::spread(&counted));
}

impl Row {
    /// The samples that count: none that is Invalid.
    pub fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.verdict != Some(Verdict::Invalid))
    }
}

//! Groups measurements into rows by combination, phase, operation and metric. Pure.

use super::samples::{Measurement, of_repetitions, of_run};
use crate::{
    document::{Cell, Row, Sample},
    input::Entry,
    select::RowIndex,
};
use dragstrip_crds::thresholds::MetricName;
use dragstrip_results::{result::TOTAL, statistics};
use std::collections::BTreeMap;

/// The position of `one` in the order of first appearance.
fn rank<T: PartialEq + Clone>(seen: &mut Vec<T>, one: &T) -> usize {
    seen.iter().position(|other| other == one).unwrap_or_else(|| {
        seen.push(one.clone());
        seen.len() - 1
    })
}

#[derive(Default)]
pub struct Rows {
    single_runs: bool,
    cells: Vec<Cell>,
    phases: Vec<String>,
    operations: Vec<String>,
    tool_metrics: Vec<String>,
    by_place: BTreeMap<[usize; 4], Row>,
}

impl Rows {
    /// Each run is one measurement, or with `single_runs` each of its repetitions.
    pub fn new(single_runs: bool) -> Self {
        Self { single_runs, ..Self::default() }
    }

    pub fn add(&mut self, entry: &Entry) {
        let cell = rank(&mut self.cells, &entry.cell);
        let measurements = if self.single_runs { of_repetitions(entry) } else { of_run(entry) };
        for one in measurements {
            let operation = match one.operation.as_str() {
                TOTAL => usize::MAX,
                _ => rank(&mut self.operations, &one.operation),
            };
            let standard = MetricName::named(&one.figure.metric).map(|metric| metric as usize);
            let metric = standard
                .unwrap_or_else(|| usize::from(u8::MAX) + rank(&mut self.tool_metrics, &one.figure.metric));
            let place = [cell, rank(&mut self.phases, &one.phase), operation, metric];
            add(self.by_place.entry(place).or_insert_with(|| empty(&entry.cell, &one)), one);
        }
    }

    /// All rows, except totals that repeat the only operation.
    pub fn finish(self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.by_place.into_values().collect();
        rows.iter_mut().for_each(summarise);
        let index = RowIndex::of(&rows);
        rows.iter().filter(|row| !index.repeats(row)).cloned().collect()
    }
}

fn empty(cell: &Cell, one: &Measurement) -> Row {
    Row {
        cell: cell.clone(),
        phase: one.phase.clone(),
        operation: one.operation.clone(),
        metric: one.figure.metric.clone(),
        unit: one.figure.unit.clone(),
        more_is_better: one.figure.more_is_better,
        ..Row::default()
    }
}

fn add(row: &mut Row, one: Measurement) {
    row.spread = one.figure.within;
    row.samples.push(Sample {
        run: one.run,
        repetition: one.repetition,
        server: one.server,
        value: one.figure.value,
        verdict: one.verdict,
        outlier: false,
    });
}

fn summarise(row: &mut Row) {
    row.verdict = row.samples.iter().filter_map(|sample| sample.verdict).max();
    let counted: Vec<f64> = row.counted().map(|sample| sample.value).collect();
    let within = row.spread.take().filter(|_| row.samples.len() == 1 && counted.len() == 1);
    row.spread = within.or_else(|| statistics::spread(&counted));
}

//! Checks the figures of a document against thresholds. Pure.

mod claim;

use crate::{
    document::{AxisHead, Cell, Document, Row},
    input::Entries,
    select::{all_cells, phases},
};
use dragstrip_crds::{
    measured::Estimate,
    suite::ComparisonVerdict,
    thresholds::{OtherFigure, RelativeTo, Threshold, ThresholdStatus},
};
use dragstrip_results::{result::TOTAL, thresholds::stands};

/// A row for each threshold, combination that it selects, and phase. A threshold without a phase applies
/// to every phase that has its metric in some combination, or to all phases if none has. What was not
/// measured at all has a row too, and claims nothing.
pub fn evaluate(
    thresholds: &[Threshold],
    document: &Document,
    entries: &dyn Entries,
) -> Vec<ThresholdStatus> {
    let cells = all_cells(document);
    let of = |(index, threshold): (usize, &Threshold)| {
        let phases = phases_of(threshold, document);
        let own: Vec<&Cell> =
            cells.iter().copied().filter(|cell| selects(threshold, cell, &document.axes)).collect();
        let unmeasured = unmeasured(threshold);
        let own = if own.is_empty() { unmeasured.iter().collect() } else { own };
        let rows = own.iter().flat_map(|cell| phases.iter().map(move |phase| (*cell, *phase)));
        let rows = rows.filter_map(|(cell, phase)| match &threshold.times {
            Some(other) => claim::status(index, (threshold, other), (document, entries), cell, phase),
            None => status(index, threshold, document, cell, phase),
        });
        rows.collect::<Vec<_>>()
    };
    thresholds.iter().enumerate().flat_map(of).collect()
}

/// What `threshold` names, if it names anything, as a combination without figures.
fn unmeasured(threshold: &Threshold) -> Option<Cell> {
    let values = threshold.values.iter().map(|(axis, value)| format!("{axis}={value}"));
    let names: Vec<String> = threshold.variant.iter().cloned().chain(values).collect();
    (!names.is_empty()).then(|| Cell { variant: names.join(" "), values: Vec::new() })
}

/// Whether `threshold` is about `cell`, whose values are those of `axes`.
pub fn selects(threshold: &Threshold, cell: &Cell, axes: &[AxisHead]) -> bool {
    let values = || axes.iter().zip(&cell.values);
    threshold.variant.as_ref().is_none_or(|variant| *variant == cell.variant)
        && threshold
            .values
            .iter()
            .all(|(name, value)| values().any(|(axis, own)| axis.name == *name && own == value))
}

/// The combination that a claim compares `cell` with.
pub fn counterpart(other: &OtherFigure, cell: &Cell, axes: &[AxisHead]) -> Cell {
    let values = axes.iter().zip(&cell.values);
    Cell {
        variant: other.variant.as_ref().unwrap_or(&cell.variant).clone(),
        values: values.map(|(axis, own)| other.values.get(&axis.name).unwrap_or(own).clone()).collect(),
    }
}

fn phases_of<'a>(threshold: &'a Threshold, document: &'a Document) -> Vec<&'a str> {
    if let Some(phase) = &threshold.phase {
        return vec![phase];
    }
    let metric = threshold.metric();
    let has = |phase: &str| document.rows.iter().any(|row| row.phase == phase && row.metric == metric);
    let mut phases = phases(document);
    if phases.iter().any(|phase| has(phase)) {
        phases.retain(|phase| has(phase));
    }
    if phases.is_empty() { vec![""] } else { phases }
}

/// The row that `threshold` is about, or why there is none.
fn find<'a>(
    threshold: &Threshold,
    document: &'a Document,
    cell: &Cell,
    phase: &str,
) -> Result<&'a Row, String> {
    let metric = threshold.metric();
    let of_phase = |row: &&Row| row.cell == *cell && row.phase == phase && row.metric == metric;
    let rows: Vec<&Row> = document.rows.iter().filter(of_phase).collect();
    let named = |name: &str| rows.iter().copied().find(|row| row.operation == name);
    let operations = || rows.iter().map(|row| row.operation.as_str()).collect::<Vec<_>>().join(", ");
    match (&threshold.operation, rows.as_slice()) {
        (_, []) => Err("not measured".to_owned()),
        // The only operation stands for the total.
        (Some(name), [only]) if name == TOTAL => Ok(only),
        (Some(name), _) => {
            named(name).ok_or_else(|| format!("not measured for {name}, only for {}", operations()))
        }
        (None, [only]) => Ok(only),
        (None, _) => named(TOTAL)
            .ok_or_else(|| format!("its operations have no total: set operation to one of {}", operations())),
    }
}

fn status(
    index: usize,
    threshold: &Threshold,
    document: &Document,
    cell: &Cell,
    phase: &str,
) -> Option<ThresholdStatus> {
    let has_baseline = document.baseline.is_some();
    let is_relative = threshold.relative_to == RelativeTo::Baseline;
    let row = find(threshold, document, cell, phase);
    let is_own = |row: &&Row| row.comparison.is_none() && row.uncompared.is_none();
    if is_relative && has_baseline && row.as_ref().is_ok_and(is_own) {
        return None;
    }
    let unjudged = unjudged((index, threshold), document, cell, phase, row.as_ref().ok());
    let figure = row.clone().and_then(|row| figure(threshold, row, has_baseline));
    let about = if is_relative { " relative to the baseline" } else { "" };
    let what = format!("{}{about}", unjudged.message);
    let (met, message) = match &figure {
        Ok(estimate) => stands(&what, estimate, threshold),
        Err(why) => (false, format!("{what}: {why}")),
    };
    Some(ThresholdStatus { value: figure.ok().map(|estimate| estimate.mid), met, message, ..unjudged })
}

/// What a threshold is about, before its figure is judged: the message only names it.
fn unjudged(
    (index, threshold): (usize, &Threshold),
    document: &Document,
    cell: &Cell,
    phase: &str,
    row: Option<&&Row>,
) -> ThresholdStatus {
    let operation = row.map_or(threshold.operation.as_deref().unwrap_or(TOTAL), |row| &row.operation);
    let cell = label(document, cell);
    let whose = cell.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
    ThresholdStatus {
        threshold: u32::try_from(index).unwrap_or(u32::MAX),
        metric: threshold.metric(),
        message: format!("{whose}{phase} {operation} {}", threshold.metric()),
        cell,
        phase: phase.to_owned(),
        operation: operation.to_owned(),
        value: None,
        met: false,
        state: None,
    }
}

/// The name of `cell`, unless nothing else was measured.
fn label(document: &Document, cell: &Cell) -> Option<String> {
    let alone = document.axes.is_empty() && document.runs.iter().all(|run| run.cell == *cell);
    (!alone).then(|| cell.label(&document.axes))
}

/// That `row` has no Invalid measurement, or how many.
fn all_valid(row: &Row) -> Result<(), String> {
    let (all, invalid) = (row.samples.len(), row.samples.iter().filter(|one| one.is_invalid()).count());
    if invalid > 0 { Err(format!("{invalid} of {all} measurements are Invalid")) } else { Ok(()) }
}

/// The figure for the limits, or why the threshold fails whatever they are.
fn figure(threshold: &Threshold, row: &Row, has_baseline: bool) -> Result<Estimate, String> {
    all_valid(row)?;
    let mean = row.spread.as_ref().ok_or("not measured")?.mean;
    match (&row.comparison, threshold.relative_to) {
        (_, RelativeTo::Nothing) => Ok(Estimate { low: mean, mid: mean, high: mean }),
        (Some(found), _) if found.verdict == ComparisonVerdict::NotComparable => Err(found.reason.clone()),
        // Without an interval nothing is significant, whatever the difference.
        (Some(found), _) if threshold.only_significant && !found.interval_known => Err(found.reason.clone()),
        (Some(found), _) if has_baseline => Ok(found.ratio),
        _ => Err(row.uncompared.clone().unwrap_or_else(|| "there is no baseline".to_owned())),
    }
}

#[cfg(test)]
mod tests;

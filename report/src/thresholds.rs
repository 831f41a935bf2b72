//! Checks the figures of a document against thresholds. Pure.

use crate::{
    document::{Cell, Document, Row},
    figures::is_open,
    select::{all_cells, phases},
};
use dragstrip_crds::{
    measured::Estimate,
    suite::ComparisonVerdict,
    thresholds::{RelativeTo, Threshold, ThresholdStatus},
};
use dragstrip_results::{result::TOTAL, thresholds::stands};

/// A row for each threshold, combination and phase. A threshold without a phase applies to every
/// phase that has its metric in some combination, or to all phases if none has.
pub fn evaluate(thresholds: &[Threshold], document: &Document) -> Vec<ThresholdStatus> {
    let cells = all_cells(document);
    let of = |(index, threshold): (usize, &Threshold)| {
        let phases = phases_of(threshold, document);
        let rows = cells.iter().flat_map(|cell| phases.iter().map(move |phase| (*cell, *phase)));
        rows.filter_map(|(cell, phase)| status(index, threshold, document, cell, phase)).collect::<Vec<_>>()
    };
    thresholds.iter().enumerate().flat_map(of).collect()
}

fn phases_of<'a>(threshold: &'a Threshold, document: &'a Document) -> Vec<&'a str> {
    if let Some(phase) = &threshold.phase {
        return vec![phase];
    }
    let metric = threshold.metric.to_string();
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
    let metric = threshold.metric.to_string();
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
    let operation =
        row.as_ref().map_or(threshold.operation.as_deref().unwrap_or(TOTAL), |row| &row.operation);
    let figure = row.clone().and_then(|row| figure(threshold, row, has_baseline));
    let alone = document.axes.is_empty() && document.runs.iter().all(|run| run.cell == *cell);
    let label = (!alone).then(|| cell.label(&document.axes));
    let whose = label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
    let about = if is_relative { " relative to the baseline" } else { "" };
    let what = format!("{whose}{phase} {operation} {}{about}", threshold.metric);
    let (met, message) = match &figure {
        Ok(estimate) => stands(&what, estimate, threshold),
        Err(why) => (false, format!("{what}: {why}")),
    };
    Some(ThresholdStatus {
        threshold: u32::try_from(index).unwrap_or(u32::MAX),
        metric: threshold.metric,
        cell: label,
        phase: phase.to_owned(),
        operation: operation.to_owned(),
        value: figure.ok().map(|estimate| estimate.mid),
        met,
        message,
    })
}

/// The figure for the limits, or why the threshold fails whatever they are.
fn figure(threshold: &Threshold, row: &Row, has_baseline: bool) -> Result<Estimate, String> {
    let (all, invalid) = (row.samples.len(), row.samples.iter().filter(|one| one.is_invalid()).count());
    if invalid > 0 {
        return Err(format!("{invalid} of {all} measurements are Invalid"));
    }
    let mean = row.spread.as_ref().ok_or("not measured")?.mean;
    match (&row.comparison, threshold.relative_to) {
        (_, RelativeTo::Nothing) => Ok(Estimate { low: mean, mid: mean, high: mean }),
        (Some(found), _) if found.verdict == ComparisonVerdict::NotComparable => Err(found.reason.clone()),
        (Some(found), _) if has_baseline => {
            let high = if is_open(&found.ratio) { f64::INFINITY } else { found.ratio.high };
            Ok(Estimate { high, ..found.ratio })
        }
        _ => Err(row.uncompared.clone().unwrap_or_else(|| "there is no baseline".to_owned())),
    }
}

#[cfg(test)]
mod tests;

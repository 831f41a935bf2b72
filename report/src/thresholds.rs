//! How the figures of a document stand to thresholds. Pure.

use crate::{
    document::{Cell, Document, Row},
    layout::{combinations, phases},
};
use dragstrip_crds::{
    measured::Estimate,
    run::Verdict,
    suite::ComparisonVerdict,
    thresholds::{RelativeTo, Threshold, ThresholdStatus},
};
use dragstrip_results::{result::TOTAL, thresholds::stands};

/// A row for each threshold, combination and phase. A threshold without a phase is about each
/// phase that has its figure in some combination; where none has, about all of them.
pub fn evaluate(thresholds: &[Threshold], document: &Document) -> Vec<ThresholdStatus> {
    let cells = combinations(document);
    let phases = phases(document);
    let of = |(index, threshold): (usize, &Threshold)| {
        let metric = threshold.metric.to_string();
        let has = |phase: &&str| document.rows.iter().any(|row| row.phase == **phase && row.metric == metric);
        let with: Vec<&str> = phases.iter().copied().filter(has).collect();
        let about = match &threshold.phase {
            Some(phase) => vec![phase.as_str()],
            None if with.is_empty() => phases.clone(),
            None => with,
        };
        let about = if about.is_empty() { vec![""] } else { about };
        let rows = cells.iter().flat_map(|cell| about.iter().map(move |phase| (*cell, *phase)));
        rows.filter_map(|(cell, phase)| status(index, threshold, document, cell, phase)).collect::<Vec<_>>()
    };
    thresholds.iter().enumerate().flat_map(of).collect()
}

/// Whether `row` is of the baseline itself, which is not measured against itself.
fn is_own(row: &Row, document: &Document) -> bool {
    document.baseline.is_some() && row.comparison.is_none() && row.uncompared.is_none()
}

/// The row that `threshold` is about, or why there is none.
fn find<'a>(
    threshold: &Threshold,
    document: &'a Document,
    cell: &Cell,
    phase: &str,
) -> Result<&'a Row, String> {
    let metric = threshold.metric.to_string();
    let rows: Vec<&Row> = document
        .rows
        .iter()
        .filter(|row| row.cell == *cell && row.phase == phase && row.metric == metric)
        .collect();
    let named = |name: &str| rows.iter().copied().find(|row| row.operation == name);
    let known = || rows.iter().map(|row| row.operation.as_str()).collect::<Vec<_>>().join(", ");
    match (&threshold.operation, rows.as_slice()) {
        (_, []) => Err("there is no such figure".to_owned()),
        (Some(name), _) => {
            named(name).ok_or_else(|| format!("there is no such figure of {name}, but of {}", known()))
        }
        (None, [only]) => Ok(only),
        (None, _) => named(TOTAL)
            .ok_or_else(|| format!("its operations have no total: name one of {} in operation", known())),
    }
}

fn status(
    index: usize,
    threshold: &Threshold,
    document: &Document,
    cell: &Cell,
    phase: &str,
) -> Option<ThresholdStatus> {
    let found = find(threshold, document, cell, phase);
    let relative = threshold.relative_to == RelativeTo::Baseline;
    if relative && found.as_ref().is_ok_and(|row| is_own(row, document)) {
        return None;
    }
    let operation =
        found.as_ref().map_or(threshold.operation.as_deref().unwrap_or(TOTAL), |row| &row.operation);
    let judged = found.clone().and_then(|row| figure(threshold, row, document.baseline.is_some()));
    let alone = document.axes.is_empty() && document.runs.iter().all(|run| run.cell == *cell);
    let label = (!alone).then(|| cell.label(&document.axes));
    let whose = label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
    let about = match threshold.relative_to {
        RelativeTo::Nothing => "",
        RelativeTo::Baseline => " relative to the baseline",
    };
    let what = format!("{whose}{phase} {operation} {}{about}", threshold.metric);
    let (met, message) = match &judged {
        Ok(estimate) => stands(&what, estimate, threshold),
        Err(why) => (false, format!("{what}: {why}")),
    };
    Some(ThresholdStatus {
        threshold: u32::try_from(index).unwrap_or(u32::MAX),
        metric: threshold.metric,
        cell: label,
        phase: phase.to_owned(),
        operation: operation.to_owned(),
        value: judged.ok().map(|estimate| estimate.mid),
        met,
        message,
    })
}

/// The figure that the limits are about with its interval, or why it is not good enough
/// whatever they are.
fn figure(threshold: &Threshold, row: &Row, has_baseline: bool) -> Result<Estimate, String> {
    if row.verdict == Some(Verdict::Invalid) {
        let all = row.samples.len();
        let invalid = all - row.counted().count();
        return Err(format!("{invalid} of {all} measurements are Invalid"));
    }
    let spread = row.spread.as_ref().ok_or("there is no such figure")?;
    if threshold.relative_to == RelativeTo::Nothing {
        return Ok(Estimate { low: spread.mean, mid: spread.mean, high: spread.mean });
    }
    if !has_baseline {
        return Err("there is no baseline".to_owned());
    }
    match &row.comparison {
        Some(found) if found.verdict == ComparisonVerdict::NotComparable => Err(found.reason.clone()),
        Some(found) => Ok(found.ratio),
        None => Err(row.uncompared.clone().unwrap_or_else(|| "there is no baseline".to_owned())),
    }
}

#[cfg(test)]
mod tests;

//! Claims: thresholds on the ratio of two figures of a document. A claim holds only if the whole interval
//! of the ratio is within its limits, never by the estimate alone. Pure.

use super::{all_valid, counterpart, find, unjudged};
use crate::{
    compare,
    document::{Cell, Comparison, Document, Row},
    figures::{interval, ratio},
    input::Entries,
};
use dragstrip_crds::{
    thresholds::{ClaimState, OtherFigure, Threshold, ThresholdStatus},
    units::Decimal,
};
use dragstrip_results::thresholds::limits;

/// What `threshold` comes to for `cell` and `phase`; `None` if both figures would be the same one.
pub fn status(
    index: usize,
    (threshold, other): (&Threshold, &OtherFigure),
    (document, entries): (&Document, &dyn Entries),
    cell: &Cell,
    phase: &str,
) -> Option<ThresholdStatus> {
    let there = counterpart(other, cell, &document.axes);
    let other_phase = other.phase.as_deref().unwrap_or(phase);
    // A combination that was not measured at all has no values.
    if there == *cell && cell.values.len() == document.axes.len() && other_phase == phase {
        return None;
    }
    let here = find(threshold, document, cell, phase);
    let unjudged = unjudged((index, threshold), document, cell, phase, here.as_ref().ok());
    let than = [
        (there != *cell).then(|| there.label(&document.axes)),
        (other_phase != phase).then(|| other_phase.to_owned()),
    ];
    let than = than.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let found = measured(here).and_then(|here| {
        let there = measured(find(threshold, document, &there, other_phase));
        Ok(compare::rows(document, entries, here, there.map_err(|why| format!("{than}: {why}"))?))
    });
    let (state, words, value, verdict) = match found {
        Err(why) => (ClaimState::NotMeasured, "is not measured", None, format!(": {why}")),
        Ok(Err(why)) => (ClaimState::NotComparable, "is not comparable", None, format!(" and {than}: {why}")),
        Ok(Ok(found)) => {
            let (state, words, remedy) = judge(threshold, &found);
            let interval = if found.interval_known { interval(&found.ratio) } else { String::new() };
            let times = format!("{} {interval}", ratio(found.ratio.mid));
            let limits = limits(threshold);
            let verdict = format!(" is {} times that of {than} ({limits}){remedy}", times.trim_end());
            (state, words, Some(found.ratio.mid), verdict)
        }
    };
    Some(ThresholdStatus {
        value,
        met: state == ClaimState::Holds,
        state: Some(state),
        message: format!("claim {words}: {}{verdict}", unjudged.message),
        ..unjudged
    })
}

fn measured(row: Result<&Row, String>) -> Result<&Row, String> {
    let row = row?;
    all_valid(row)?;
    row.spread.as_ref().map(|_| row).ok_or_else(|| "not measured".to_owned())
}

/// Whether the interval of the ratio is within the limits, beyond one, or neither, and then what to do.
fn judge(threshold: &Threshold, found: &Comparison) -> (ClaimState, &'static str, String) {
    let least = threshold.minimum.as_ref().map_or(f64::NEG_INFINITY, Decimal::value);
    let most = threshold.maximum.as_ref().map_or(f64::INFINITY, Decimal::value);
    let unclear = |remedy: &str| (ClaimState::Unclear, "is unclear", format!(": {remedy}"));
    match (found.ratio.low, found.ratio.high) {
        _ if !found.interval_known => unclear(&found.reason),
        (low, high) if low >= least && high <= most => (ClaimState::Holds, "holds", String::new()),
        (low, high) if low > most || high < least => {
            (ClaimState::DoesNotHold, "does not hold", String::new())
        }
        _ => unclear("more repetitions narrow the interval"),
    }
}

#[cfg(test)]
mod tests;

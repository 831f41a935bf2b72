//! Rules over a suite's thresholds: what they name must be measured. Pure.

use super::{Plan, unmatched};
use dragstrip_crds::{
    BenchmarkSuiteSpec, near,
    suite::Exclusion,
    thresholds::{OtherFigure, Threshold},
};
use dragstrip_report::{counterpart, document::Cell, selects};
use std::collections::BTreeSet;

/// Everything that is wrong with the thresholds of `spec`, whose runs have these `phases`.
pub fn problems(spec: &BenchmarkSuiteSpec, plan: &Plan, phases: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, threshold) in spec.thresholds.iter().enumerate() {
        let field = format!("spec.thresholds[{index}]");
        let own = Exclusion { variant: threshold.variant.clone(), values: threshold.values.clone() };
        problems.extend(unknown(&field, threshold.phase.as_ref(), phases));
        problems.extend(unmatched(&own, spec).map(|why| format!("{field} is about nothing: {why}")));
        let Some(other) = &threshold.times else { continue };
        let field = format!("{field}.times");
        let there = Exclusion { variant: other.variant.clone(), values: other.values.clone() };
        problems.extend(unknown(&field, other.phase.as_ref(), phases));
        problems.extend(unmatched(&there, spec).map(|why| format!("{field} is about nothing: {why}")));
        if problems.is_empty() {
            problems.extend(pointless(&field, threshold, other, plan));
        }
    }
    problems
}

/// That no run has the phase that `field` names.
fn unknown(field: &str, phase: Option<&String>, phases: &BTreeSet<String>) -> Option<String> {
    let phase = phase.filter(|phase| !phases.contains(*phase))?;
    let known = || phases.iter().map(String::as_str);
    Some(format!(
        "{field}.phase: no run has a phase {phase:?}: they have {}{}",
        known().collect::<Vec<_>>().join(", "),
        near::did_you_mean(phase, known())
    ))
}

/// Why a claim can never hold: a combination has no counterpart that is measured, or all are their own.
fn pointless(field: &str, threshold: &Threshold, other: &OtherFigure, plan: &Plan) -> Option<String> {
    let measured: BTreeSet<&Cell> = plan.cells.iter().map(|planned| &planned.cell).collect();
    let mut compared = other.phase.is_some() && other.phase != threshold.phase;
    for planned in plan.cells.iter().filter(|planned| selects(threshold, &planned.cell, &plan.axes)) {
        let there = counterpart(other, &planned.cell, &plan.axes);
        if !measured.contains(&there) {
            return Some(format!("{field}: the counterpart of {} is excluded", planned.words));
        }
        compared |= there != planned.cell;
    }
    (!compared).then(|| format!("{field} names the same figures as the threshold: name what differs"))
}

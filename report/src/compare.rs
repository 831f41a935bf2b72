//! Compares rows with the baseline's: ratio, difference, their intervals, and a verdict.
//! docs/comparisons.md gives the reasons for these methods. Pure.

mod baseline;
mod chance;
mod conditions;
mod interval;
mod leaders;
mod limits;
mod outliers;
mod pair;
mod power;
mod verdict;

pub(crate) use conditions::between as conditions_between;
pub(crate) use interval::step;
pub use leaders::{best, between, leaders};
pub use outliers::mark as mark_outliers;
pub use power::starts_needed;
pub(crate) use verdict::judge;

use crate::{
    document::{BaselineHead, Cell, Comparison, Document, OtherComparison, Row},
    figures,
    input::{BaselineInput, Entries},
    rules::Rules,
    select::{RowIndex, grouped},
};
use baseline::{Baseline, Counterpart};
use dragstrip_crds::suite::ComparisonVerdict;
use std::collections::BTreeMap;

const WELCH: &str = "Ratios and differences of means have 95 % confidence intervals: Welch's for differences, Fieller's with Welch's degrees of freedom for ratios.";
const BLOCKS: &str = "Ratios and differences of means have 95 % confidence intervals from the t test of the differences within each repetition of all combinations, so that a drift of the machine cancels out.";
const PUBLISHED: &str = "Published figures count as exact: a ratio has the 95 % confidence interval of the mean measured here (Student's t). A figure is Better or Worse only if the published one is also outside the range that one more measurement here could give.";

/// Compare the rows of `document` with `baseline`, and add that to the document, after other baselines.
pub fn compare(document: &mut Document, entries: &dyn Entries, baseline: &BaselineInput, rules: &Rules) {
    document.rules.clone_from(rules);
    // Only combinations of the same suite share blocks.
    let in_suite = matches!(baseline, BaselineInput::Variant(_) | BaselineInput::Above);
    let in_blocks = rules.in_blocks && in_suite;
    let rules = &Rules { in_blocks, ..rules.clone() };
    let baseline = Baseline::of(document, baseline);
    let (differences, refusals) = conditions::check(document, entries, &baseline, rules.anyway);
    let index = RowIndex::of(&document.rows);
    let outcome = |row| {
        if let Some(reason) = limits::other_keys(row, document, &baseline) {
            return (None, Some(reason));
        }
        let (compared, reason) = outcome(row, &baseline, &index, rules, &refusals);
        (compared.map(|compared| limits::checked(compared, row, document, &baseline)), reason)
    };
    let mut outcomes: Vec<Outcome> = document.rows.iter().map(outcome).collect();
    let figures = document.rows.iter().zip(&mut outcomes);
    let compared = figures.filter_map(|(row, (comparison, _))| Some((row, comparison.as_mut()?)));
    let counted = compared.filter(|(row, comparison)| counts(row, comparison));
    // Used, RSS, peak and bytes per key are one question.
    let families = grouped(counted.enumerate(), |(place, (row, _))| {
        let own = (!limits::is_memory(row)).then_some(*place);
        (&row.cell, &row.phase, own)
    });
    let families = families.into_iter().map(|(_, rows)| rows.into_iter().map(|(_, (_, it))| it).collect());
    let family = chance::judge_together(families);
    let seen = power::notes(document, &baseline, &index);
    let method = match (&baseline.table, in_blocks) {
        (Some(_), _) => PUBLISHED,
        (None, true) => BLOCKS,
        (None, false) => WELCH,
    };
    let table_notes = baseline.table.map(|table| table.notes(document)).unwrap_or_default();
    let head = BaselineHead {
        name: baseline.name.clone(),
        kind: baseline.kind.clone(),
        differences,
        method: method.to_owned(),
        notes: table_notes.into_iter().chain(family.note()).chain(seen).collect(),
        compared: family.compared,
    };
    add(document, head, outcomes);
}

/// Adds the `outcomes` of a comparison: the first one is that of thresholds and the summary.
fn add(document: &mut Document, mut head: BaselineHead, outcomes: Vec<Outcome>) {
    let rows = document.rows.iter_mut().zip(outcomes);
    if document.baseline.is_none() {
        rows.for_each(|(row, outcome)| (row.comparison, row.uncompared) = outcome);
        document.baseline = Some(head);
        return;
    }
    rows.for_each(|(row, (comparison, uncompared))| {
        row.other_comparisons.push(OtherComparison { comparison, uncompared });
    });
    for note in &mut head.notes {
        *note = format!("compared with {}: {note}", head.name);
    }
    document.other_baselines.push(head);
}

/// The comparison of two rows of `document`, in its blocks if it has any; the error is why they are not
/// comparable.
pub(crate) fn rows(
    document: &Document,
    entries: &dyn Entries,
    here: &Row,
    there: &Row,
) -> Result<Comparison, String> {
    let by_clients = limits::by_both_clients(document, here, there) && here.phase == there.phase;
    let cells = (&here.cell, &there.cell);
    let refused = || conditions::refusal_between(document, entries, cells, by_clients);
    let other_keys = limits::other_keys_than(here, document, (document, &there.cell, &there.phase));
    match other_keys.or_else(refused) {
        Some(reason) => Err(reason),
        None => pair::with_measured(here, there, &document.rules),
    }
}

/// Whether a figure is one more that could differ by chance: what never varies, such as 0 errors,
/// differs only in truth.
fn counts(row: &Row, comparison: &Comparison) -> bool {
    !figures::repeats(&row.metric) && comparison.difference.low < comparison.difference.high
}

type Outcome = (Option<Comparison>, Option<String>);

fn outcome(
    row: &Row,
    baseline: &Baseline<'_>,
    index: &RowIndex<'_>,
    rules: &Rules,
    refusals: &BTreeMap<Cell, String>,
) -> Outcome {
    let compared = match baseline.counterpart(row, index) {
        None => return (None, Some(format!("the baseline {} has no such figure", baseline.name))),
        Some(Counterpart::Own) => return (None, None),
        Some(Counterpart::Row(there)) => pair::with_measured(row, there, rules),
        Some(Counterpart::Published(figure)) => pair::with_published(row, figure, rules),
    };
    match (compared, refusals.get(&row.cell)) {
        (Err(reason), _) => (None, Some(reason)),
        (Ok(comparison), None) => (Some(comparison), None),
        (Ok(comparison), Some(reason)) => {
            let verdict = ComparisonVerdict::NotComparable;
            (Some(Comparison { verdict, reason: reason.clone(), chance: None, ..comparison }), None)
        }
    }
}

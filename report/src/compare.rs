//! Rows against the baseline's: ratio and difference with their intervals, and what they say.
//! docs/comparisons.md tells why these methods and not others. Pure.

mod chance;
mod interval;
mod outliers;
mod verdict;

pub use interval::is_open;
pub use outliers::mark as mark_outliers;

use crate::{
    build::{BaselineInput, Entries},
    comparability::{self, Facts},
    document::{BaselineHead, Cell, Comparison, Difference, Document, Row},
    layout::{Phases, combinations},
    published,
};
use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::Verdict,
    suite::ComparisonVerdict,
};
use dragstrip_results::result::TOTAL;
use std::collections::BTreeMap;

const WELCH: &str = "ratios and differences of means with 95 % confidence intervals from Welch's t test (of the ratio Fieller's interval, with Welch's degrees of freedom)";
const PUBLISHED: &str = "ratios to published figures, which are taken as exact: the 95 % confidence intervals are those of this side's means (Student's t); Better and Worse only where a published figure is also outside of what one more measurement here would give";

/// Puts a comparison into every row of `document` that has a counterpart in `baseline`, and
/// tells of the baseline at the head.
pub fn compare(document: &mut Document, entries: &dyn Entries, baseline: &BaselineInput, anyway: bool) {
    let counterparts = Counterparts::of(document, baseline);
    let (differences, refused) = conditions(document, entries, &counterparts, anyway);
    let there =
        if let BaselineInput::Report { document, .. } = baseline { document.runs.as_slice() } else { &[] };
    let noise = verdict::Noise::of(document.runs.iter().chain(there));
    let phases = Phases::of(&document.rows);
    let mut compared: Vec<Option<Comparison>> = Vec::new();
    let mut reasons: Vec<Option<String>> = Vec::new();
    for row in &document.rows {
        let outcome = counterparts.of_row(row, &phases).map(|found| match found {
            Counterpart::Own => Err(None),
            Counterpart::Row(there) => measured(row, there, &noise).map_err(Some),
            Counterpart::Published(figure) => against_published(row, figure, &noise).map_err(Some),
        });
        let (comparison, reason) = match outcome {
            None => (None, Some(format!("the baseline {} has no such figure", counterparts.name))),
            Some(Ok(comparison)) => (Some(comparison), None),
            Some(Err(reason)) => (None, reason),
        };
        let comparison = comparison.map(|comparison| match refused.get(&row.cell) {
            Some(reason) => refuse(comparison, reason),
            None => comparison,
        });
        compared.push(comparison);
        reasons.push(reason);
    }
    let twins = twins(&document.rows, &phases, &compared);
    let judged = compared.iter_mut().enumerate().filter(|(place, _)| !twins.contains_key(place));
    let family = chance::judge_together(judged.filter_map(|(_, comparison)| comparison.as_mut()).collect());
    for (twin, only) in twins {
        let same = compared[only].clone();
        compared[twin] = same;
        reasons[twin] = None;
    }
    for ((row, comparison), reason) in document.rows.iter_mut().zip(compared).zip(reasons) {
        row.comparison = comparison;
        row.uncompared = reason;
    }
    let published = matches!(baseline, BaselineInput::Published { .. });
    let notes = counterparts.notes(document).into_iter().chain(family.note()).collect();
    document.baseline = Some(BaselineHead {
        name: counterparts.name.clone(),
        kind: counterparts.kind.clone(),
        differences,
        method: format!("{}; {}", if published { PUBLISHED } else { WELCH }, noise.told()),
        notes,
        compared: family.compared,
    });
}

/// Totals that repeat what the only operation says, by their places, with the places of the
/// operations' rows that are compared: a total is told to be the same.
fn twins(rows: &[Row], phases: &Phases<'_>, compared: &[Option<Comparison>]) -> BTreeMap<usize, usize> {
    let figure = |row: &Row| (row.cell.clone(), row.phase.clone(), row.metric.clone());
    let of_operations = rows.iter().zip(compared).enumerate();
    let of_operations: BTreeMap<_, usize> = of_operations
        .filter(|(_, (row, compared))| row.operation != TOTAL && compared.is_some())
        .map(|(place, (row, _))| (figure(row), place))
        .collect();
    let twins = rows.iter().enumerate().filter(|(_, row)| phases.is_twin(row));
    twins.filter_map(|(place, row)| Some((place, *of_operations.get(&figure(row))?))).collect()
}

fn refuse(mut comparison: Comparison, reason: &str) -> Comparison {
    comparison.verdict = ComparisonVerdict::NotComparable;
    reason.clone_into(&mut comparison.reason);
    comparison.chance = None;
    comparison
}

/// What is compared with what.
struct Counterparts {
    name: String,
    kind: String,
    /// The baseline's rows, by combination, phase, operation and metric.
    rows: BTreeMap<Key, Row>,
    /// The same of a published table.
    table: Option<published::Table>,
    /// The baseline's facts, by combination; those of a published table are of none.
    facts: BTreeMap<Cell, Facts>,
    /// Which combination of the baseline one here is compared with.
    cells: BTreeMap<Cell, Cell>,
    /// The baseline is among the document's own combinations.
    within: bool,
}

type Key = (Cell, String, String, String);

fn key(cell: &Cell, row: &Row) -> Key {
    (cell.clone(), row.phase.clone(), row.operation.clone(), row.metric.clone())
}

enum Counterpart<'a> {
    /// The row is the baseline's own.
    Own,
    Row(&'a Row),
    Published(&'a published::Figure),
}

impl Counterparts {
    fn of(document: &Document, baseline: &BaselineInput) -> Self {
        let here = combinations(document);
        let variant = |name: &String, kind: &str| {
            let of = |cell: &Cell| Cell { variant: name.clone(), ..cell.clone() };
            let pairs = here.iter().map(|cell| (Cell::clone(cell), of(cell))).collect();
            Self { within: true, ..Self::measured(name.clone(), kind, document, pairs) }
        };
        match baseline {
            BaselineInput::Variant(name) => variant(name, "variant"),
            BaselineInput::Run(name) => variant(name, "run"),
            BaselineInput::Report { kind, document: other } => {
                let there = combinations(other);
                let only = if let [only] = there.as_slice() { Some(only) } else { None };
                let of = |cell: &Cell| match only {
                    Some(only) if here.len() == 1 => Cell::clone(only),
                    _ => cell.clone(),
                };
                let pairs = here.iter().map(|cell| (Cell::clone(cell), of(cell))).collect();
                Self::measured(other.title.clone(), kind, other, pairs)
            }
            BaselineInput::Published { name, table } => Self {
                name: name.clone(),
                kind: "published".to_owned(),
                rows: BTreeMap::new(),
                table: Some(table.clone()),
                facts: here.iter().map(|cell| (Cell::clone(cell), table.facts.clone())).collect(),
                cells: here.iter().map(|cell| (Cell::clone(cell), Cell::clone(cell))).collect(),
                within: false,
            },
        }
    }

    fn measured(name: String, kind: &str, other: &Document, pairs: BTreeMap<Cell, Cell>) -> Self {
        let facts = |cell: &Cell| (cell.clone(), comparability::of_cell(other, cell));
        Self {
            name,
            kind: kind.to_owned(),
            rows: other.rows.iter().map(|row| (key(&row.cell, row), row.clone())).collect(),
            table: None,
            facts: pairs.values().map(facts).collect(),
            cells: pairs,
            within: false,
        }
    }

    /// Whether `cell` is itself what is compared with.
    fn is_own(&self, cell: &Cell) -> bool {
        self.within && self.cells.get(cell) == Some(cell)
    }

    fn of_row(&self, row: &Row, phases: &Phases<'_>) -> Option<Counterpart<'_>> {
        if let Some(table) = &self.table {
            return table.find(row, phases.is_single(row)).map(Counterpart::Published);
        }
        if self.is_own(&row.cell) {
            return Some(Counterpart::Own);
        }
        let cell = self.cells.get(&row.cell)?;
        self.rows.get(&key(cell, row)).map(Counterpart::Row)
    }

    /// What readers must know of the baseline.
    fn notes(&self, document: &Document) -> Vec<String> {
        self.table.as_ref().map(|table| table.notes(document)).unwrap_or_default()
    }
}

/// What differs from the baseline, and why combinations are not compared because of that.
fn conditions(
    document: &Document,
    entries: &dyn Entries,
    counterparts: &Counterparts,
    anyway: bool,
) -> (Vec<Difference>, BTreeMap<Cell, String>) {
    let mut found = Vec::new();
    let mut refused = BTreeMap::new();
    for (cell, other) in &counterparts.cells {
        if counterparts.is_own(cell) {
            continue;
        }
        let here = comparability::of_cell(document, cell);
        let empty = Facts::new();
        let there = counterparts.facts.get(other).unwrap_or(&empty);
        let paths =
            if counterparts.within { comparability::varied_paths(entries, cell, other) } else { Vec::new() };
        let differences = comparability::differences(&here, there, &paths);
        // A published table is always of other machines.
        if counterparts.table.is_none() && !anyway {
            refused.extend(refusal(&differences).map(|reason| (cell.clone(), reason)));
        }
        found.push((cell.clone(), differences));
    }
    (comparability::grouped(found), refused)
}

fn refusal(differences: &[Difference]) -> Option<String> {
    let mut unvaried = differences.iter().filter(|difference| !difference.varied);
    let first = unvaried.next()?;
    let more = match unvaried.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "measured under other conditions: {} is {} instead of {}{more}; compareAnyway compares all the same",
        first.fact, first.here, first.baseline
    ))
}

fn exact(value: f64) -> Estimate {
    Estimate { low: value, mid: value, high: value }
}

/// The mean of a row that counts, or why there is none.
fn counting<'a>(row: &'a Row, whose: &str) -> Result<&'a Spread, String> {
    row.spread.as_ref().ok_or_else(|| match row.verdict {
        Some(Verdict::Invalid) => format!("{whose} measurements are all Invalid"),
        _ => format!("{whose} figure was not measured"),
    })
}

fn zero(value: f64) -> bool {
    value == 0.0
}

/// What two figures are as the test of comparisons takes them; `None` where one of them was
/// measured once, or does not count.
fn sides(here: &Row, there: &Row) -> Option<(interval::Side, interval::Side)> {
    let step = interval::step(here.counted().chain(there.counted()).map(|sample| sample.value));
    let side = |row: &Row| interval::Side::of(row.spread.as_ref()?, step);
    side(here).zip(side(there))
}

/// Whether the test of comparisons tells two figures apart.
pub(crate) fn told_apart(one: &Row, other: &Row) -> bool {
    sides(one, other).is_some_and(|(x, y)| interval::told_apart(x, y))
}

/// `row` against a measured one; why not, where it cannot be.
fn measured(row: &Row, there: &Row, noise: &verdict::Noise) -> Result<Comparison, String> {
    let baseline = counting(there, "the baseline's")?;
    let here = counting(row, "this combination's")?;
    let margin = noise.margin(&row.metric);
    if zero(baseline.mean) && !zero(here.mean) {
        return Err(format!("the baseline's figure is 0: there is no ratio (here {})", here.mean));
    }
    let sides = sides(row, there);
    let ratio = match sides {
        _ if zero(baseline.mean) => exact(1.0),
        Some((x, y)) => interval::ratio(x, y),
        None => exact(here.mean / baseline.mean),
    };
    let (verdict, reason) = verdict::judge(&ratio, sides.is_some(), margin, row.more_is_better);
    Ok(Comparison {
        baseline: baseline.mean,
        baseline_samples: baseline.repetitions,
        ratio,
        difference: sides
            .map_or_else(|| exact(here.mean - baseline.mean), |(x, y)| interval::difference(x, y)),
        interval_known: sides.is_some(),
        verdict,
        reason,
        margin,
        chance: sides.map(|(x, y)| interval::chance(x, y)),
        holds_among_all: None,
    })
}

/// `row` against a figure that somebody published, of whose spread nothing is known.
fn against_published(
    row: &Row,
    figure: &published::Figure,
    noise: &verdict::Noise,
) -> Result<Comparison, String> {
    let here = counting(row, "this combination's")?;
    let (published, margin) = (figure.value, noise.margin(&row.metric));
    if zero(published) {
        return Err("the published figure is 0: there is no ratio".to_owned());
    }
    if figure.is_in_another_unit(row) {
        return Err(format!("the published figure is in {}, this one in {}", figure.unit, row.unit));
    }
    let around = |mid: f64, half: f64| Estimate { low: mid - half, mid, high: mid + half };
    let values = row.counted().map(|sample| sample.value).chain([published]);
    let half = interval::Side::of(here, interval::step(values)).map(interval::Side::half_width);
    let ratio = around(here.mean / published, half.unwrap_or_default() / published);
    let (verdict, reason) = verdict::judge(&ratio, half.is_some(), margin, row.more_is_better);
    // One more measurement here lies within mean +- half x sqrt(n + 1), 95 % of the time.
    let one_more = half.unwrap_or_default() * f64::from(here.repetitions + 1).sqrt();
    let within = (here.mean - published).abs() <= one_more;
    let (verdict, reason) = match verdict {
        ComparisonVerdict::Better | ComparisonVerdict::Worse if within => (
            ComparisonVerdict::Unclear,
            format!(
                "{reason}; but one more measurement here could give the published figure, of whose spread nothing is known"
            ),
        ),
        _ => (verdict, reason),
    };
    let note = figure.note.as_ref().map(|note| format!("; the table's note on it: {note}"));
    let reason = reason + &note.unwrap_or_default();
    Ok(Comparison {
        baseline: published,
        baseline_samples: 0,
        ratio,
        difference: around(here.mean - published, half.unwrap_or_default()),
        interval_known: half.is_some(),
        verdict,
        reason,
        margin,
        chance: None,
        holds_among_all: None,
    })
}

#[cfg(test)]
mod tests;

//! The history of a schedule: every figure over its rounds, the rounds in which it changed, and its
//! latest level against the first one, the anchor. Pure.

mod levels;
mod text;

pub use levels::FEWEST_ROUNDS;
pub use text::render as text;
pub(crate) use text::{conditions, confidence, figure_name, round_name, summary};

use crate::{
    compare::{conditions_between, judge, step},
    document::{AxisHead, Cell, Difference, Document, Row},
    figures,
    rules::Rules,
    select::{RowIndex, all_cells},
};
use dragstrip_crds::{measured::Estimate, suite::ComparisonVerdict};
use dragstrip_results::statistics::mean;
use jiff::Timestamp;
use levels::{LEVEL, Series};
use serde::Serialize;
use serde_with::skip_serializing_none;
use std::{collections::BTreeMap, ops::Range};

/// A round: its report, and where it comes from.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its name, or that of the file.
    pub name: String,
    /// When it was due, or when its first run started.
    pub time: Option<Timestamp>,
    pub report: Document,
}

/// What the rounds of a schedule show together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    pub title: String,
    /// The rounds, oldest first.
    pub rounds: Vec<RoundHead>,
    /// The axes of the latest round.
    pub axes: Vec<AxisHead>,
    /// Every figure of the latest round that measured it.
    pub figures: Vec<Figure>,
}

/// A round without its report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundHead {
    pub name: String,
    /// When it was due, or when its first run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

/// A figure over all rounds.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    #[serde(flatten)]
    pub cell: Cell,
    pub phase: String,
    /// The operation, or TOTAL.
    pub operation: String,
    pub metric: String,
    pub unit: String,
    /// Whether more is better; omitted if unknown.
    pub more_is_better: Option<bool>,
    /// The mean of each round; null where it was not measured, or where all measurements are Invalid.
    pub values: Vec<Option<f64>>,
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// The latest level against the anchor; omitted if fewer rounds measured the figure than can show
    /// a change, or if it was ever 0.
    pub latest: Option<Latest>,
}

/// A change from one level to the next.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The first round of the new level.
    pub round: RoundHead,
    /// The level before (geometric mean of its rounds).
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// The level after divided by that before, with its 95 % confidence interval.
    pub ratio: Estimate,
    /// 1 minus the chance of such a difference between equal levels.
    pub confidence: f64,
    /// Better, Worse, or Unclear if the metric has no known direction.
    pub verdict: ComparisonVerdict,
    /// Conditions that differ between this round and the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Difference>,
}

/// The latest level against the anchor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latest {
    /// The first level (geometric mean of its rounds).
    pub anchor: f64,
    pub anchor_rounds: usize,
    pub level: f64,
    /// Rounds of the latest level.
    pub rounds: usize,
    /// The latest level divided by the anchor, with its 95 % confidence interval; 1 without a change.
    pub ratio: Estimate,
    /// The chance of such a difference between equal levels; 1 without a change.
    pub chance: f64,
    /// Better, Worse, Same if nothing changed, or Unclear if the metric has no known direction or the
    /// latest level is as good as the anchor again.
    pub verdict: ComparisonVerdict,
    /// Whether a difference remains after Holm's correction for the number of figures.
    pub holds_among_all: bool,
}

impl History {
    /// Whether some figure was measured in enough rounds to show a change.
    pub fn shows_anything(&self) -> bool {
        self.figures.iter().any(|figure| figure.latest.is_some())
    }

    /// All changes with their figures, by round.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Change, &Figure)> {
        let of = |figure| move |change| (change, figure);
        let mut all: Vec<(&Change, &Figure)> =
            self.figures.iter().flat_map(|figure| figure.changes.iter().map(of(figure))).collect();
        all.sort_by_key(|(change, _)| self.rounds.iter().position(|round| *round == change.round));
        all.into_iter()
    }

    /// Whether the latest level of some figure is Worse than its anchor, after the correction for the
    /// number of figures.
    pub fn is_worse(&self) -> bool {
        let latest = self.figures.iter().filter_map(|figure| figure.latest.as_ref());
        latest.into_iter().any(|it| it.verdict == ComparisonVerdict::Worse && it.holds_among_all)
    }
}

type Key = (Cell, String, String, String);

/// The rows of a report by what they measure. Bytes per second repeat operations per second, and the
/// total of a single operation repeats that operation.
fn rows(report: &Document, single: bool) -> BTreeMap<Key, &Row> {
    let index = RowIndex::of(&report.rows);
    let counts = |row: &&Row| !figures::repeats(&row.metric) && !index.repeats(row);
    let key = |row: &Row| {
        // Single runs are compared whatever their names are.
        let cell = if single { Cell::default() } else { row.cell.clone() };
        (cell, row.phase.clone(), row.operation.clone(), row.metric.clone())
    };
    report.rows.iter().filter(counts).map(|row| (key(row), row)).collect()
}

pub fn history(title: &str, rounds: &[Round], rules: &Rules) -> History {
    let single = rounds.iter().all(|round| all_cells(&round.report).len() == 1);
    let by_round: Vec<BTreeMap<Key, &Row>> = rounds.iter().map(|round| rows(&round.report, single)).collect();
    let mut newest: BTreeMap<&Key, &Row> = BTreeMap::new();
    for rows in &by_round {
        newest.extend(rows.iter().map(|(key, row)| (key, *row)));
    }
    let figure = |(key, row): (&&Key, &&Row)| {
        let mean = |rows: &BTreeMap<Key, &Row>| Some(rows.get(*key)?.spread.as_ref()?.mean);
        let values = by_round.iter().map(mean).collect();
        figure(row, values, rounds, rules)
    };
    let mut figures: Vec<Figure> = newest.iter().map(figure).collect();
    judge_together(&mut figures);
    History {
        title: title.to_owned(),
        rounds: rounds.iter().map(Round::head).collect(),
        axes: rounds.last().map(|round| round.report.axes.clone()).unwrap_or_default(),
        figures,
    }
}

impl Round {
    fn head(&self) -> RoundHead {
        RoundHead { name: self.name.clone(), time: self.time }
    }
}

/// The figure of `row` with these means of its rounds.
fn figure(row: &Row, values: Vec<Option<f64>>, rounds: &[Round], rules: &Rules) -> Figure {
    let measured: Vec<(usize, f64)> =
        values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?))).collect();
    let mut figure = Figure {
        cell: row.cell.clone(),
        phase: row.phase.clone(),
        operation: row.operation.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        more_is_better: row.more_is_better,
        values,
        changes: Vec::new(),
        latest: None,
    };
    // Nothing has a ratio to 0.
    if measured.len() < FEWEST_ROUNDS || measured.iter().any(|(_, value)| *value <= 0.0) {
        return figure;
    }
    let logs: Vec<f64> = measured.iter().map(|(_, value)| value.ln()).collect();
    let step = step(measured.iter().map(|(_, value)| *value));
    let rounding = (step / mean(&logs).exp()).powi(2) / 12.0;
    let series = Series { logs: &logs, margin: rules.margin(&row.metric), rounding };
    let levels = series.levels();
    let places: Vec<usize> = measured.into_iter().map(|(place, _)| place).collect();
    figure.changes = levels
        .windows(2)
        .filter_map(|pair| change(&series, (&pair[0], &pair[1]), &places, rounds, row))
        .collect();
    figure.latest = latest(&series, &levels, row);
    figure
}

fn level(series: &Series<'_>, rounds: &Range<usize>) -> f64 {
    mean(series.logs.get(rounds.clone()).unwrap_or_default()).exp()
}

fn verdict(ratio: &Estimate, series: &Series<'_>, row: &Row) -> ComparisonVerdict {
    judge(ratio, Ok(0.0), series.margin, row.more_is_better).0
}

/// The change between two levels; `places` are the rounds that measured the figure.
fn change(
    series: &Series<'_>,
    (before, after): (&Range<usize>, &Range<usize>),
    places: &[usize],
    rounds: &[Round],
    row: &Row,
) -> Option<Change> {
    let round = |place: usize| rounds.get(*places.get(place)?);
    let (last, first) = (round(before.end.checked_sub(1)?)?, round(after.start)?);
    let difference = series.difference(before.clone(), after.clone());
    let ratio = difference.ratio();
    Some(Change {
        round: first.head(),
        before: level(series, before),
        after: level(series, after),
        ratio,
        confidence: 1.0 - difference.chance(levels::comparisons()),
        verdict: verdict(&ratio, series, row),
        conditions: conditions_between(&first.report, &last.report, &row.cell),
    })
}

fn latest(series: &Series<'_>, levels: &[Range<usize>], row: &Row) -> Option<Latest> {
    let (first, last) = (levels.first()?, levels.last()?);
    let mut latest = Latest {
        anchor: level(series, first),
        anchor_rounds: first.len(),
        level: level(series, last),
        rounds: last.len(),
        ratio: Estimate { low: 1.0, mid: 1.0, high: 1.0 },
        chance: 1.0,
        verdict: ComparisonVerdict::Same,
        holds_among_all: false,
    };
    if levels.len() > 1 {
        let difference = series.difference(first.clone(), last.clone());
        latest.ratio = difference.ratio();
        // The data chose every border.
        latest.chance = difference.chance(levels::comparisons() * (levels.len() - 1));
        latest.verdict = verdict(&latest.ratio, series, row);
    }
    Some(latest)
}

/// Mark the differences that remain significant by Holm's procedure, at the level of a single figure:
/// so the rounds in which any figure is Worse by chance are not more than those of one figure.
fn judge_together(figures: &mut [Figure]) {
    let mut all: Vec<&mut Latest> = figures.iter_mut().filter_map(|figure| figure.latest.as_mut()).collect();
    all.sort_by(|one, other| one.chance.total_cmp(&other.chance));
    let count = all.len();
    for (place, latest) in all.into_iter().enumerate() {
        if latest.chance > LEVEL / (count - place) as f64 {
            break;
        }
        latest.holds_among_all = true;
    }
}

#[cfg(test)]
mod tests;

//! Histories of schedules: how often a change of a figure is found, and how often chance is taken for
//! one.

use crate::{Property, property};
use dragstrip_crds::{suite::ComparisonVerdict, thresholds::MetricName};
use dragstrip_report::{
    Rules,
    document::{Cell, Document, Row, Sample},
    history::{FEWEST_ROUNDS, History, Round, history},
};
use dragstrip_results::statistics::spread;
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, StandardNormal};

/// The rounds before a change.
const BEFORE: usize = 40;
/// The most rounds of a history without a change.
const MOST: usize = 80;

/// The throughput of `phase`, if its true value is this multiple of 1,000.
fn row(phase: usize, level: f64, noise: f64, random: &mut SmallRng) -> Row {
    let normal: f64 = StandardNormal.sample(random);
    let value = 1000.0 * level * (1.0 + noise * normal);
    Row {
        cell: Cell { variant: "server".to_owned(), values: Vec::new() },
        phase: format!("phase-{phase}"),
        metric: MetricName::OperationsPerSecond.to_string(),
        more_is_better: Some(true),
        samples: vec![Sample { value, ..Sample::default() }],
        spread: spread(&[value]),
        ..Row::default()
    }
}

/// Rounds of so many figures, which all have the value that `level` gives for each round.
fn rounds(
    figures: usize,
    count: usize,
    noise: f64,
    level: impl Fn(usize) -> f64,
    random: &mut SmallRng,
) -> Vec<Round> {
    let round = |number: usize| {
        let rows = (0..figures).map(|figure| row(figure, level(number), noise, random)).collect();
        let report = Document { rows, ..Document::default() };
        Round { name: number.to_string(), time: None, report }
    };
    (0..count).map(round).collect()
}

fn of(rounds: &[Round]) -> History {
    history("nightly", rounds, &Rules::default())
}

/// Whether the latest level of the only figure is Worse.
fn is_worse(history: &History) -> bool {
    let mut latest = history.figures.iter().filter_map(|figure| figure.latest.as_ref());
    latest.any(|latest| latest.verdict == ComparisonVerdict::Worse)
}

fn changes(rounds: &[Round]) -> usize {
    of(rounds).figures.iter().map(|figure| figure.changes.len()).sum()
}

/// Rounds that a steady schedule may have, from the fewest that show anything.
fn some_rounds(random: &mut SmallRng) -> usize {
    random.random_range(FEWEST_ROUNDS..=MOST)
}

/// What is claimed of histories.
pub fn properties(cases: usize) -> Vec<Property> {
    let after = |count: usize, level: fn(i32) -> f64| {
        move |random: &mut SmallRng| {
            let since = |number: usize| i32::try_from((number + 1).saturating_sub(BEFORE)).unwrap_or(0);
            is_worse(&of(&rounds(1, BEFORE + count, 0.02, |number| level(since(number)), random)))
        }
    };
    let steady = |percent: u32| {
        let claim = format!("A round of a steady figure with {percent} % noise brings no false change");
        property(claim, 0.995, cases, move |random| {
            let count = some_rounds(random);
            let all = rounds(1, count, f64::from(percent) / 100.0, |_| 1.0, random);
            changes(&all) <= changes(&all[..count - 1])
        })
    };
    vec![
        property("A loss of 1 % a night at 2 % noise is found within 10 nights", 0.95, cases, {
            after(10, |nights| 0.99_f64.powi(nights))
        }),
        property("A step of 5 % at 2 % noise is found within 4 rounds", 0.95, cases, {
            after(4, |nights| if nights > 0 { 0.95 } else { 1.0 })
        }),
        steady(1),
        steady(2),
        steady(5),
        property(
            "A round of 16 steady figures with 2 % noise brings no false alarm of the gate",
            0.995,
            cases,
            |random| {
                let count = some_rounds(random);
                let all = rounds(16, count, 0.02, |_| 1.0, random);
                !of(&all).is_worse() || of(&all[..count - 1]).is_worse()
            },
        ),
    ]
}

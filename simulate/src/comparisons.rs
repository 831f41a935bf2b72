//! Comparisons of suites and runs: how often they call a winner between equal servers, and how often
//! they miss a difference.

use crate::{Property, property};
use dragstrip_crds::{suite::ComparisonVerdict, thresholds::MetricName};
use dragstrip_report::{
    BaselineInput, Entry, Rules, compare,
    document::{Cell, Comparison, Document, Row, Sample},
};
use dragstrip_results::statistics::spread;
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, StandardNormal};

/// What varies between measurements, as shares of the figure.
#[derive(Clone, Copy)]
struct Varies {
    /// From one start of a server to the next.
    starts: f64,
    /// From one repetition on a server to the next.
    repetitions: f64,
    /// How much faster the machine is at the end than at the beginning.
    drift: f64,
}

fn normal(deviation: f64, random: &mut SmallRng) -> f64 {
    let value: f64 = StandardNormal.sample(random);
    value * deviation
}

/// A figure of the variant `name`.
fn row(name: &str, metric: MetricName, number: usize, samples: Vec<Sample>) -> Row {
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    Row {
        cell: Cell { variant: name.to_owned(), values: Vec::new() },
        phase: format!("phase-{number}"),
        metric: metric.to_string(),
        more_is_better: Some(metric.more_is_better()),
        spread: spread(&values),
        samples,
        ..Row::default()
    }
}

/// A suite of two variants, measured repetition by repetition in random order, of which `branch` has
/// `ratio` times the figures of `base`. Each run has a server of its own, and one repetition.
fn suite(
    figures: usize,
    repetitions: u32,
    varies: Varies,
    ratio: f64,
    metric: MetricName,
    random: &mut SmallRng,
) -> Document {
    let figure = |number: usize, random: &mut SmallRng| {
        let (mut base, mut branch) = (Vec::new(), Vec::new());
        for repetition in 1..=repetitions {
            let base_first = random.random_bool(0.5);
            for place in 0..2 {
                let is_base = (place == 0) == base_first;
                let progress = f64::from(2 * (repetition - 1) + place) / f64::from(2 * repetitions - 1);
                let noise = normal(varies.starts, random) + normal(varies.repetitions, random);
                let value = 100.0 * (1.0 + varies.drift * progress) * (1.0 + noise);
                let run = format!("{}-{repetition}", if is_base { "base" } else { "branch" });
                let value = if is_base { value } else { value * ratio };
                let side = if is_base { &mut base } else { &mut branch };
                side.push(Sample { run, repetition, value, ..Sample::default() });
            }
        }
        [row("base", metric, number, base), row("branch", metric, number, branch)]
    };
    let rows = (0..figures).flat_map(|number| figure(number, random)).collect();
    Document { rows, ..Document::default() }
}

/// Two runs with these repetitions on one start of a server each.
fn runs(repetitions: u32, varies: Varies, random: &mut SmallRng) -> Document {
    let mut side = |name: &str| {
        let start = 100.0 * (1.0 + normal(varies.starts, random));
        let sample = |repetition| Sample {
            run: name.to_owned(),
            repetition,
            value: start * (1.0 + normal(varies.repetitions, random)),
            ..Sample::default()
        };
        let samples = (1..=repetitions).map(sample).collect();
        row(name, MetricName::OperationsPerSecond, 0, samples)
    };
    Document { rows: vec![side("base"), side("branch")], ..Document::default() }
}

/// Every comparison of the branch with its base.
fn comparisons(mut document: Document) -> Vec<Comparison> {
    let rules = Rules { in_blocks: true, ..Rules::default() };
    compare(&mut document, &Vec::<Entry>::new(), &BaselineInput::Variant("base".to_owned()), &rules);
    document.rows.into_iter().filter_map(|row| row.comparison).collect()
}

fn has_winner(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse)
}

/// What is claimed of comparisons.
pub fn properties(cases: usize) -> Vec<Property> {
    let usual = Varies { starts: 0.02, repetitions: 0.01, drift: 0.0 };
    let rate = MetricName::OperationsPerSecond;
    let equal = |repetitions: u32| {
        let claim = format!("Two equal servers with {repetitions} starts each have no winner");
        property(claim, 0.95, cases, move |random| {
            !comparisons(suite(1, repetitions, usual, 1.0, rate, random)).iter().any(has_winner)
        })
    };
    vec![
        property(
            "Two runs of five repetitions on one start of a server each have no winner",
            1.0,
            cases,
            |random| !comparisons(runs(5, usual, random)).iter().any(has_winner),
        ),
        equal(3),
        equal(5),
        equal(10),
        property("A gate of 16 equal figures with 5 starts each passes", 0.95, cases, |random| {
            let found = comparisons(suite(16, 5, usual, 1.0, rate, random));
            !found.iter().any(|found| found.holds_among_all == Some(true))
        }),
        property("A difference of 5 % is found in 5 repetitions of 1 % noise", 0.95, cases, |random| {
            let varies = Varies { starts: 0.01, repetitions: 0.0, drift: 0.0 };
            comparisons(suite(1, 5, varies, 0.95, rate, random)).iter().all(has_winner)
        }),
        property("The same while the machine gets 10 % faster", 0.95, cases, |random| {
            let varies = Varies { starts: 0.01, repetitions: 0.0, drift: 0.1 };
            comparisons(suite(1, 5, varies, 0.95, rate, random)).iter().all(has_winner)
        }),
        property(
            "A median latency 12 % longer is not called the same at a noise of 15 %",
            0.99,
            cases,
            |random| {
                let varies = Varies { starts: 0.15, repetitions: 0.0, drift: 0.0 };
                let found = comparisons(suite(1, 5, varies, 1.12, MetricName::P50Milliseconds, random));
                found.iter().all(|found| found.verdict != ComparisonVerdict::Same)
            },
        ),
    ]
}

use super::*;
use crate::document::{RunRecord, Sample};
use dragstrip_crds::{run::Verdict, thresholds::MetricName};
use dragstrip_results::statistics::spread;

const NOISE: [f64; 6] = [0.01, -0.012, 0.003, -0.006, 0.008, -0.004];

fn row(phase: &str, metric: MetricName, values: &[f64]) -> Row {
    let sample = |value: &f64| Sample { value: *value, ..Sample::default() };
    Row {
        cell: Cell { variant: "redis".to_owned(), values: Vec::new() },
        phase: phase.to_owned(),
        operation: "TOTAL".to_owned(),
        metric: metric.to_string(),
        more_is_better: Some(metric.more_is_better()),
        samples: values.iter().map(sample).collect(),
        spread: spread(values),
        ..Row::default()
    }
}

/// Round `number` with these rows, on a kernel of this version.
fn round(number: usize, kernel: &str, rows: Vec<Row>) -> Round {
    let provenance = [("machine.server.kernel".to_owned(), kernel.to_owned())].into();
    let cell = Cell { variant: "redis".to_owned(), values: Vec::new() };
    let run = RunRecord { cell, provenance, verdict: Some(Verdict::Valid), ..RunRecord::default() };
    Round {
        name: format!("nightly-{number}"),
        time: format!("2026-01-{:02}T03:00:00Z", number + 1).parse().ok(),
        report: Document { rows, runs: vec![run], ..Document::default() },
    }
}

/// So many nights of one level of throughput and latency, then so many of another.
fn nights(before: usize, after: usize, ratio: f64) -> Vec<Round> {
    let night = |number: usize| {
        let is_after = number >= before;
        let change = if is_after { ratio } else { 1.0 };
        let noise = 1.0 + NOISE[number % NOISE.len()];
        let rate = 1000.0 * change * noise;
        let rows = vec![
            row("read", MetricName::OperationsPerSecond, &[rate * 1.01, rate * 0.99]),
            row("read", MetricName::P99Milliseconds, &[2.0 / noise]),
        ];
        round(number, if is_after { "6.9" } else { "6.8" }, rows)
    };
    (0..before + after).map(night).collect()
}

fn of(rounds: &[Round]) -> History {
    history("nightly", rounds, &Rules::default())
}

#[test]
fn a_slowdown_is_reported_with_its_round_size_confidence_and_conditions() {
    let history = of(&nights(16, 6, 0.9));
    insta::assert_snapshot!(text(&history));
    assert!(history.is_worse() && history.shows_anything());
}

#[test]
fn the_page_has_each_change_and_a_chart_of_its_figure_alone() {
    let page = crate::html::history(&of(&nights(16, 6, 0.9)));
    assert_eq!(page.matches("<svg").count(), 1, "latency did not change: {page}");
    for part in ["nightly-16", "0.90 [0.89, 0.91] (-10.0 %)", ">Worse</td>", "6.9 instead of 6.8"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!crate::html::history(&of(&nights(16, 6, 1.0))).contains("<svg"), "nothing changed");
}

#[test]
fn a_steady_history_and_an_improvement_are_not_worse() {
    for ratio in [1.0, 1.2] {
        let history = of(&nights(16, 6, ratio));
        assert!(!history.is_worse(), "{}", text(&history));
    }
}

#[test]
fn one_percent_a_night_is_found_though_each_round_is_as_good_as_the_one_before() {
    let night = |number: usize| {
        let nights = i32::try_from(number.saturating_sub(12)).unwrap();
        let rate = 1000.0 * 0.99_f64.powi(nights) * (1.0 + NOISE[number % NOISE.len()]);
        round(number, "6.8", vec![row("read", MetricName::OperationsPerSecond, &[rate])])
    };
    let history = of(&(0..20).map(night).collect::<Vec<_>>());
    assert!(history.is_worse(), "{}", text(&history));
}

#[test]
fn a_round_without_the_figure_is_left_out_and_few_rounds_show_nothing() {
    let mut rounds = nights(16, 6, 0.9);
    rounds[4].report.rows.clear();
    rounds[18].report.rows[0].spread = None;
    let found = of(&rounds);
    let figure = found.figures.iter().find(|figure| figure.metric == "OperationsPerSecond").unwrap();
    assert_eq!((figure.values[4], figure.values[18]), (None, None));
    assert_eq!(figure.changes[0].round.name, "nightly-16", "{}", text(&found));
    let few = of(&rounds[..FEWEST_ROUNDS]);
    assert!(!few.shows_anything(), "{}", text(&few));
}

#[test]
fn files_of_single_runs_are_one_history_whatever_the_runs_are_called() {
    let mut rounds = nights(16, 6, 0.9);
    for (number, round) in rounds.iter_mut().enumerate() {
        let cell = Cell { variant: format!("redis-{number}"), values: Vec::new() };
        round.report.runs[0].cell = cell.clone();
        round.report.rows.iter_mut().for_each(|row| row.cell = cell.clone());
    }
    let history = of(&rounds);
    assert!(history.is_worse() && history.figures[0].cell.variant == "redis-21", "{}", text(&history));
}

#[test]
fn a_difference_must_hold_among_all_figures_to_count() {
    let night = |number: usize| {
        let mut rows: Vec<Row> = (0..40)
            .map(|figure| {
                let noise = NOISE[(number * 7 + figure * 5) % NOISE.len()];
                row(&format!("phase-{figure}"), MetricName::OperationsPerSecond, &[1000.0 * (1.0 + noise)])
            })
            .collect();
        // Just significant by itself.
        let change = if number >= 8 { [0.962, 0.94, 0.968][number - 8] } else { 1.0 };
        rows[0] =
            row("phase-0", MetricName::OperationsPerSecond, &[1000.0 * change * (1.0 + NOISE[number % 6])]);
        round(number, "6.8", rows)
    };
    let rounds: Vec<Round> = (0..FEWEST_ROUNDS).map(night).collect();
    let history = of(&rounds);
    let latest = history.figures[0].latest.as_ref().unwrap();
    assert_eq!(latest.verdict, ComparisonVerdict::Worse, "{latest:?}");
    assert!(!latest.holds_among_all && !history.is_worse(), "{latest:?}");
    assert!(text(&history).contains("Worse (alone)"), "{}", text(&history));
}

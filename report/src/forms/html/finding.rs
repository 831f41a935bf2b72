//! The finding in one sentence: which variant won, by how much, and how certain that is.

use super::verdicts;
use crate::{
    compare::differ,
    document::{Document, Row},
    figures,
    select::{distinct, grouped, phase_label, totals, varied_axes},
    tables::has_ratio,
};
use maud::{Markup, html};

/// A metric that decides who wins.
struct Contested {
    metric: &'static str,
    /// What the winner did.
    verb: &'static str,
    unit: &'static str,
    less_is_better: bool,
}

/// The first one that was measured decides.
const CONTESTED: [Contested; 4] = [
    Contested { metric: "OperationsPerSecond", verb: "was fastest", unit: "ops/s", less_is_better: false },
    Contested { metric: "ElementsPerSecond", verb: "was fastest", unit: "items/s", less_is_better: false },
    Contested { metric: "ServerUsedBytes", verb: "used the least memory", unit: "MiB", less_is_better: true },
    Contested { metric: "ServerRssBytes", verb: "used the least memory", unit: "MiB", less_is_better: true },
];
/// Longer lists of names end with a count.
const MOST_NAMES: usize = 3;

/// The figures of one phase, operation and set of axis values.
struct Contest<'a> {
    rows: Vec<&'a Row>,
    best: &'a Row,
    /// Those that do not differ significantly from the best.
    tied: Vec<&'a Row>,
}

pub fn sentence(document: &Document) -> Markup {
    let measured = CONTESTED.iter().find_map(|contested| {
        let mut rows = totals(document, contested.metric);
        rows.retain(|row| row.spread.is_some());
        (!rows.is_empty()).then_some((contested, rows))
    });
    let Some((contested, rows)) = measured else {
        let nothing = document.rows.is_empty();
        return html! { @if nothing { "Nothing has been measured yet." } @else { "No usable measurement: all are Invalid." } };
    };
    let is_comparable = |row: &&Row| row.comparison.is_none() || has_ratio(row);
    let (comparable, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_comparable(row));
    let contests: Vec<Contest<'_>> =
        rivals(contested, &comparable).into_iter().filter_map(Contest::of).collect();
    let found = match contests.as_slice() {
        [] if rivals(contested, &rows).is_empty() => return range(document, contested, rows),
        [] => html! { "The variants cannot be compared" },
        [only] => of_one(document, contested, only),
        several => tally(document, contested, several),
    };
    html! {
        (found) "."
        @if !others.is_empty() { " Not compared because conditions differ: " (others.len()) "." }
    }
}

fn mean(row: &Row) -> f64 {
    row.spread.map_or(f64::NAN, |spread| spread.mean)
}

fn label(row: &Row) -> String {
    phase_label(&row.phase, &row.operation)
}

/// The groups of several rows that differ only by variant, each with the best row first.
fn rivals<'a>(contested: &Contested, rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let groups = grouped(rows.iter().copied(), |row| (label(row), &row.cell.values)).into_iter();
    let several = groups.map(|(_, rows)| rows).filter(|rows| rows.len() > 1);
    several.map(|rows| best_first(contested, rows)).collect()
}

fn best_first<'a>(contested: &Contested, mut rows: Vec<&'a Row>) -> Vec<&'a Row> {
    rows.sort_by(|left, right| mean(right).total_cmp(&mean(left)));
    if contested.less_is_better {
        rows.reverse();
    }
    rows
}

impl<'a> Contest<'a> {
    fn of(rows: Vec<&'a Row>) -> Option<Self> {
        let (&best, others) = rows.split_first()?;
        let tied = others.iter().copied().filter(|row| !differ(best, row)).collect();
        Some(Self { rows, best, tied })
    }
}

fn figure(contested: &Contested, row: &Row) -> Markup {
    html! {
        @if let Some(spread) = row.spread {
            strong { (figures::figure(&row.metric, spread.mean)) " " (contested.unit) }
            @if let Some(half) = spread.confidence95 { " ± " (figures::figure(&row.metric, half)) }
            " (n=" (spread.repetitions) ")"
        }
    }
}

fn comparison(document: &Document, row: &Row) -> Markup {
    html! {
        @if let (Some(comparison), Some(baseline)) = (&row.comparison, &document.baseline) {
            ", "
            @if has_ratio(row) { (verdicts::ratio(row)) " " (baseline.name) ": " }
            (verdicts::comparison(comparison.verdict))
        }
    }
}

/// The figures of rows without rivals.
fn range(document: &Document, contested: &Contested, rows: Vec<&Row>) -> Markup {
    let of = |row: &Row| {
        html! { strong { (row.cell.label(&document.axes)) } " in " (label(row)) ": " (figure(contested, row)) }
    };
    html! {
        @match best_first(contested, rows).as_slice() {
            [best, .., worst] => { "From " (of(worst)) " to " (of(best)) "." },
            [only] => { (of(only)) (comparison(document, only)) "." },
            [] => {},
        }
    }
}

fn of_one(document: &Document, contested: &Contested, Contest { best, tied, .. }: &Contest<'_>) -> Markup {
    let verb = if tied.is_empty() { contested.verb } else { "had the best result" };
    let names: Vec<&str> = tied.iter().map(|row| row.cell.variant.as_str()).take(MOST_NAMES).collect();
    let more = tied.len() - names.len();
    html! {
        strong { (best.cell.label(&document.axes)) } " " (verb) " in " (label(best)) ": "
        (figure(contested, best)) (comparison(document, best))
        @if !tied.is_empty() {
            ", but the difference from " (names.join(", ")) @if more > 0 { " and " (more) " more" } " is not significant"
        }
    }
}

fn tally(document: &Document, contested: &Contested, contests: &[Contest<'_>]) -> Markup {
    let won = contests.iter().filter(|contest| contest.tied.is_empty());
    let mut won = grouped(won, |contest| contest.best.cell.variant.as_str());
    won.sort_by_key(|(_, contests)| std::cmp::Reverse(contests.len()));
    let tied = contests.iter().filter(|contest| !contest.tied.is_empty()).count();
    let phases = distinct(contests.iter().map(|contest| label(contest.best)));
    let axes = varied_axes(document).into_iter().map(|(_, axis)| axis.name.as_str());
    let by: Vec<&str> = (phases.len() > 1).then_some("phase").into_iter().chain(axes).collect();
    let combinations = format!("{} combinations of {}", contests.len(), by.join(", "));
    let names =
        if phases.len() > MOST_NAMES { format!("{} phases", phases.len()) } else { phases.join(", ") };
    html! {
        @if let Some(((variant, first), others)) = won.split_first() {
            strong { (variant) } " " (contested.verb) " in " strong { (first.len()) " of " (combinations) }
            (ratios(document, first))
            @for (variant, won) in others.iter().take(MOST_NAMES) { "; " (variant) " in " (won.len()) }
            @let rest: usize = others.iter().skip(MOST_NAMES).map(|(_, won)| won.len()).sum();
            @if rest > 0 { "; others in " (rest) }
            @if tied > 0 { "; no clear winner in " (tied) }
        } @else {
            "No clear winner in any of the " strong { (combinations) }
        }
        " (" (contested.unit) " in " (names) ", n=" (repetitions(contests)) ")"
    }
}

/// The number of measurements behind a figure.
fn repetitions(contests: &[Contest<'_>]) -> String {
    let all =
        contests.iter().flat_map(|contest| &contest.rows).filter_map(|row| Some(row.spread?.repetitions));
    match (all.clone().min(), all.max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or_default().to_string(),
    }
}

/// The range of the ratios to the baseline.
fn ratios(document: &Document, won: &[&Contest<'_>]) -> Markup {
    let mut ratios: Vec<f64> =
        won.iter().filter_map(|contest| Some(contest.best.comparison.as_ref()?.ratio.mid)).collect();
    ratios.sort_by(f64::total_cmp);
    html! {
        @if let (Some(least), Some(most), Some(baseline)) = (ratios.first(), ratios.last(), &document.baseline) {
            ", " (figures::ratio(*least)) "×" @if most > least { " to " (figures::ratio(*most)) "×" } " " (baseline.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        build::tests::{bullmq, invalid_run, suite, two_axes},
        document::Cell,
    };
    use dragstrip_crds::suite::ComparisonVerdict;
    use dragstrip_results::{result::TOTAL, statistics::spread};

    /// The finding without its markup.
    fn finding(document: &Document) -> String {
        let sentence = super::sentence(document).into_string();
        let parts = sentence.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect()
    }

    fn row(variant: &str, operation: &str, values: &[f64]) -> Row {
        Row {
            cell: Cell { variant: variant.to_owned(), values: Vec::new() },
            phase: "run".to_owned(),
            operation: operation.to_owned(),
            metric: "OperationsPerSecond".to_owned(),
            spread: spread(values),
            ..Row::default()
        }
    }

    fn document(rows: Vec<Row>) -> Document {
        Document { rows, ..Document::default() }
    }

    #[test]
    fn the_winner_is_counted_by_combination() {
        assert_eq!(
            finding(&suite()),
            "valkey-8 was fastest in 1 of 2 combinations of pipeline, 1.12× redis-7; no clear winner in 1 (ops/s in read GET, n=3)."
        );
    }

    #[test]
    fn without_a_baseline_the_same_test_decides() {
        let of = |fastest: [f64; 3]| {
            document(vec![
                row("a", "GET", &[100.0, 104.0, 96.0]),
                row("b", "GET", &fastest),
                row("c", "GET", &[50.0, 51.0]),
            ])
        };
        assert_eq!(
            finding(&of([101.0, 105.0, 97.0])),
            "b had the best result in run GET: 101 ops/s ± 9.937 (n=3), but the difference from a is not significant."
        );
        assert_eq!(finding(&of([120.0, 124.0, 116.0])), "b was fastest in run GET: 120 ops/s ± 9.937 (n=3).");
    }

    #[test]
    fn a_single_measurement_wins_nothing() {
        assert_eq!(
            finding(&document(vec![row("a", "GET", &[100.0, 101.0, 99.0]), row("b", "GET", &[900.0])])),
            "b had the best result in run GET: 900 ops/s (n=1), but the difference from a is not significant."
        );
        let backends = finding(&bullmq());
        assert!(
            backends.contains("difference from hashtag-locks, global-locks is not significant"),
            "{backends}"
        );
    }

    #[test]
    fn operations_without_a_total_are_judged_separately() {
        let rows = |variant: &str, set: f64, get: f64| {
            [
                row(variant, "SET", &[set, set + 1.0, set - 1.0]),
                row(variant, "GET", &[get, get + 1.0, get - 1.0]),
            ]
        };
        let rows = [rows("a", 100.0, 100.0), rows("b", 90.0, 200.0)];
        assert_eq!(
            finding(&document(rows.into_iter().flatten().collect())),
            "a was fastest in 1 of 2 combinations of phase; b in 1 (ops/s in run SET, run GET, n=3)."
        );
    }

    #[test]
    fn different_operations_do_not_compete() {
        let rows = vec![row("a", "INCR", &[100.0]), row("b", "GET", &[900.0]), row("b", TOTAL, &[900.0])];
        assert_eq!(
            finding(&document(rows)),
            "From a in run INCR: 100 ops/s (n=1) to b in run GET: 900 ops/s (n=1)."
        );
    }

    #[test]
    fn nothing_wins_under_different_conditions() {
        let mut document = suite();
        for row in &mut document.rows {
            if let Some(comparison) = &mut row.comparison {
                comparison.verdict = ComparisonVerdict::NotComparable;
            }
        }
        assert_eq!(
            finding(&document),
            "The variants cannot be compared. Not compared because conditions differ: 2."
        );
        document.rows.retain(|row| row.cell.variant == "valkey-8");
        assert!(
            finding(&document).starts_with("From valkey-8"),
            "one variant has no other: {}",
            finding(&document)
        );
    }

    #[test]
    fn one_variant_has_its_figure_or_the_range_of_its_figures() {
        assert_eq!(finding(&invalid_run()), "redis-7 in read GET: 101,000 ops/s ± 12,706 (n=2).");
        assert_eq!(
            finding(&two_axes()),
            "From dragonfly key=64 value=64 in read GET: 170,000 ops/s (n=1) to dragonfly key=8 value=8 in read GET: 200,000 ops/s (n=1)."
        );
    }

    #[test]
    fn nothing_measured_and_nothing_to_believe_are_finding() {
        assert_eq!(finding(&Document::default()), "Nothing has been measured yet.");
        assert_eq!(
            finding(&document(vec![Row { spread: None, ..row("a", "GET", &[1.0]) }])),
            "No usable measurement: all are Invalid."
        );
    }
}

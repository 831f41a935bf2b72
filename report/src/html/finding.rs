//! What was found, in one sentence: which variant was best, where that is known, and by how much.

use super::verdicts;
use crate::{
    compare::told_apart,
    document::{Document, Row},
    figures,
    layout::{distinct, grouped, has_ratio, phase_of, standing, varied},
};
use maud::{Markup, html};

/// What is best by a metric.
struct Kind {
    metric: &'static str,
    /// What the best did.
    words: &'static str,
    unit: &'static str,
    less_is_better: bool,
}

/// The first of them that was measured says what was found.
const KINDS: [Kind; 4] = [
    Kind { metric: "OperationsPerSecond", words: "was fastest", unit: "ops/s", less_is_better: false },
    Kind { metric: "ElementsPerSecond", words: "was fastest", unit: "items/s", less_is_better: false },
    Kind { metric: "ServerUsedBytes", words: "needed least memory", unit: "MiB", less_is_better: true },
    Kind { metric: "ServerRssBytes", words: "needed least memory", unit: "MiB", less_is_better: true },
];
/// More names than this are counted.
const MOST_NAMES: usize = 3;

/// What differs by nothing but the variant: of one phase, operation and value of each axis.
struct Contest<'a> {
    rows: Vec<&'a Row>,
    best: &'a Row,
    /// Whose difference to the best may be chance.
    tied: Vec<&'a Row>,
}

/// The finding.
pub fn sentence(document: &Document) -> Markup {
    let measured = KINDS.iter().find_map(|kind| {
        let mut rows = standing(document, kind.metric);
        rows.retain(|row| row.spread.is_some());
        (!rows.is_empty()).then_some((kind, rows))
    });
    let Some((kind, rows)) = measured else {
        let nothing = document.rows.is_empty();
        return html! { @if nothing { "Nothing has been measured yet." } @else { "No measurement can be believed: each is Invalid." } };
    };
    let (comparable, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_comparable(row));
    let contests: Vec<Contest<'_>> =
        contested(kind, &comparable).into_iter().filter_map(Contest::of).collect();
    let found = match contests.as_slice() {
        [] if contested(kind, &rows).is_empty() => return range(document, kind, rows),
        [] => html! { "The variants cannot be compared" },
        [only] => of_one(document, kind, only),
        several => tally(document, kind, several),
    };
    html! {
        (found) "."
        @if !others.is_empty() { " Measured under other conditions, and not compared: " (others.len()) "." }
    }
}

fn mean(row: &Row) -> f64 {
    row.spread.map_or(f64::NAN, |spread| spread.mean)
}

fn is_comparable(row: &Row) -> bool {
    row.comparison.as_ref().is_none_or(has_ratio)
}

/// Those of `rows` that differ by the variant alone, where there are several, the best first.
fn contested<'a>(kind: &Kind, rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let alike = grouped(rows.iter().copied(), |row| (phase_of(row), &row.cell.values)).into_iter();
    let contested = alike.map(|(_, rows)| rows).filter(|rows| rows.len() > 1);
    contested.map(|rows| best_first(kind, rows)).collect()
}

fn best_first<'a>(kind: &Kind, mut rows: Vec<&'a Row>) -> Vec<&'a Row> {
    rows.sort_by(|left, right| mean(right).total_cmp(&mean(left)));
    if kind.less_is_better {
        rows.reverse();
    }
    rows
}

impl<'a> Contest<'a> {
    fn of(rows: Vec<&'a Row>) -> Option<Self> {
        Some(Self { best: rows.first()?, tied: tied(&rows), rows })
    }
}

/// Which `rows` the first of them is not told apart from, by the test of comparisons.
fn tied<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let Some((best, others)) = rows.split_first() else { return Vec::new() };
    others.iter().copied().filter(|row| !told_apart(best, row)).collect()
}

/// A figure with what it rests on.
fn figure(kind: &Kind, row: &Row) -> Markup {
    html! {
        @if let Some(spread) = row.spread {
            strong { (figures::figure(&row.metric, spread.mean)) " " (kind.unit) }
            @if let Some(half) = spread.confidence95 { " ± " (figures::figure(&row.metric, half)) }
            " (n=" (spread.repetitions) ")"
        }
    }
}

/// How a figure stands to the baseline's.
fn compared(document: &Document, row: &Row) -> Markup {
    html! {
        @if let (Some(comparison), Some(baseline)) = (&row.comparison, &document.baseline) {
            ", "
            @if has_ratio(comparison) { (verdicts::ratio(comparison)) " of " (baseline.name) ": " }
            (verdicts::standing(comparison.verdict))
        }
    }
}

/// What was measured of one variant, or of each under other names.
fn range(document: &Document, kind: &Kind, rows: Vec<&Row>) -> Markup {
    let of = |row: &Row| {
        html! { strong { (row.cell.label(&document.axes)) } " in " (phase_of(row)) ": " (figure(kind, row)) }
    };
    html! {
        @match best_first(kind, rows).as_slice() {
            [best, .., worst] => { "From " (of(worst)) " to " (of(best)) "." },
            [only] => { (of(only)) (compared(document, only)) "." },
            [] => {},
        }
    }
}

fn of_one(document: &Document, kind: &Kind, Contest { best, tied, .. }: &Contest<'_>) -> Markup {
    let words = if tied.is_empty() { kind.words } else { "came out first" };
    let names: Vec<&str> = tied.iter().map(|row| row.cell.variant.as_str()).take(MOST_NAMES).collect();
    let more = tied.len() - names.len();
    html! {
        strong { (best.cell.label(&document.axes)) } " " (words) " in " (phase_of(best)) ": "
        (figure(kind, best)) (compared(document, best))
        @if !tied.is_empty() {
            ", but is not told apart from " (names.join(", ")) @if more > 0 { " and " (more) " more" }
        }
    }
}

/// Who was best how often.
fn tally(document: &Document, kind: &Kind, contests: &[Contest<'_>]) -> Markup {
    let won = contests.iter().filter(|contest| contest.tied.is_empty());
    let mut won = grouped(won, |contest| contest.best.cell.variant.as_str());
    won.sort_by_key(|(_, contests)| std::cmp::Reverse(contests.len()));
    let tied = contests.iter().filter(|contest| !contest.tied.is_empty()).count();
    let phases = distinct(contests.iter().map(|contest| phase_of(contest.best)));
    let axes = varied(document).into_iter().map(|(_, axis)| axis.name.as_str());
    let by: Vec<&str> = (phases.len() > 1).then_some("phase").into_iter().chain(axes).collect();
    let combinations = format!("{} combinations of {}", contests.len(), by.join(", "));
    html! {
        @if let Some(((variant, first), others)) = won.split_first() {
            strong { (variant) } " " (kind.words) " in " strong { (first.len()) " of " (combinations) }
            (ratios(document, first))
            @for (variant, won) in others.iter().take(MOST_NAMES) { "; " (variant) " in " (won.len()) }
            @let rest: usize = others.iter().skip(MOST_NAMES).map(|(_, won)| won.len()).sum();
            @if rest > 0 { "; others in " (rest) }
            @if tied > 0 { "; in " (tied) " the first is not told apart from the next" }
        } @else {
            "No variant " (kind.words) " beyond chance in any of " strong { (combinations) }
        }
        " (" (kind.unit) " of " (named(&phases)) ", n=" (repetitions(contests)) ")"
    }
}

fn named(phases: &[String]) -> String {
    if phases.len() > MOST_NAMES { format!("{} phases", phases.len()) } else { phases.join(", ") }
}

/// How many measurements figures have.
fn repetitions(contests: &[Contest<'_>]) -> String {
    let all =
        contests.iter().flat_map(|contest| &contest.rows).filter_map(|row| Some(row.spread?.repetitions));
    match (all.clone().min(), all.max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or_default().to_string(),
    }
}

/// The least and the greatest of the ratios to the baseline.
fn ratios(document: &Document, won: &[&Contest<'_>]) -> Markup {
    let mut ratios: Vec<f64> =
        won.iter().filter_map(|contest| Some(contest.best.comparison.as_ref()?.ratio.mid)).collect();
    ratios.sort_by(f64::total_cmp);
    html! {
        @if let (Some(least), Some(most), Some(baseline)) = (ratios.first(), ratios.last(), &document.baseline) {
            ", " (figures::ratio(*least)) "×" @if most > least { " to " (figures::ratio(*most)) "×" } " of " (baseline.name)
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
    fn told(document: &Document) -> String {
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
    fn the_best_of_each_combination_counts_and_not_that_of_the_deepest_pipeline() {
        assert_eq!(
            told(&suite()),
            "valkey-8 was fastest in 1 of 2 combinations of pipeline, 1.12× of redis-7; in 1 the first is not told apart from the next (ops/s of read GET, n=3)."
        );
    }

    #[test]
    fn without_a_baseline_a_winner_is_told_apart_by_the_same_test() {
        let of = |fastest: [f64; 3]| {
            document(vec![
                row("a", "GET", &[100.0, 104.0, 96.0]),
                row("b", "GET", &fastest),
                row("c", "GET", &[50.0, 51.0]),
            ])
        };
        assert_eq!(
            told(&of([101.0, 105.0, 97.0])),
            "b came out first in run GET: 101 ops/s ± 9.937 (n=3), but is not told apart from a."
        );
        assert_eq!(told(&of([120.0, 124.0, 116.0])), "b was fastest in run GET: 120 ops/s ± 9.937 (n=3).");
    }

    #[test]
    fn what_was_measured_once_wins_nothing() {
        assert_eq!(
            told(&document(vec![row("a", "GET", &[100.0, 101.0, 99.0]), row("b", "GET", &[900.0])])),
            "b came out first in run GET: 900 ops/s (n=1), but is not told apart from a."
        );
        let backends = told(&bullmq());
        assert!(backends.contains("not told apart from hashtag-locks, global-locks"), "{backends}");
    }

    #[test]
    fn operations_without_a_total_are_judged_each_and_named() {
        let rows = |variant: &str, set: f64, get: f64| {
            [
                row(variant, "SET", &[set, set + 1.0, set - 1.0]),
                row(variant, "GET", &[get, get + 1.0, get - 1.0]),
            ]
        };
        let rows = [rows("a", 100.0, 100.0), rows("b", 90.0, 200.0)];
        assert_eq!(
            told(&document(rows.into_iter().flatten().collect())),
            "a was fastest in 1 of 2 combinations of phase; b in 1 (ops/s of run SET, run GET, n=3)."
        );
    }

    #[test]
    fn other_operations_are_no_contest() {
        let rows = vec![row("a", "INCR", &[100.0]), row("b", "GET", &[900.0]), row("b", TOTAL, &[900.0])];
        assert_eq!(
            told(&document(rows)),
            "From a in run INCR: 100 ops/s (n=1) to b in run GET: 900 ops/s (n=1)."
        );
    }

    #[test]
    fn nothing_wins_against_what_was_measured_under_other_conditions() {
        let mut document = suite();
        for row in &mut document.rows {
            if let Some(comparison) = &mut row.comparison {
                comparison.verdict = ComparisonVerdict::NotComparable;
            }
        }
        assert_eq!(
            told(&document),
            "The variants cannot be compared. Measured under other conditions, and not compared: 2."
        );
        document.rows.retain(|row| row.cell.variant == "valkey-8");
        assert!(
            told(&document).starts_with("From valkey-8"),
            "one variant has no other: {}",
            told(&document)
        );
    }

    #[test]
    fn one_variant_has_its_figure_or_the_range_of_its_figures() {
        assert_eq!(told(&invalid_run()), "redis-7 in read GET: 101,000 ops/s ± 12,706 (n=2).");
        assert_eq!(
            told(&two_axes()),
            "From dragonfly key=64 value=64 in read GET: 170,000 ops/s (n=1) to dragonfly key=8 value=8 in read GET: 200,000 ops/s (n=1)."
        );
    }

    #[test]
    fn nothing_measured_and_nothing_to_believe_are_told() {
        assert_eq!(told(&Document::default()), "Nothing has been measured yet.");
        assert_eq!(
            told(&document(vec![Row { spread: None, ..row("a", "GET", &[1.0]) }])),
            "No measurement can be believed: each is Invalid."
        );
    }
}

//! The head of the page: what was found in one sentence, and what that rests on.

use super::{
    layout::{total_rows, variants},
    verdicts::{self, Ending, ending},
};
use crate::{
    document::{Document, Row},
    figures,
};
use dragstrip_crds::{measured::Spread, run::Verdict, suite::ComparisonVerdict};
use maud::{Markup, html};

/// Title, finding, badges and notes.
pub fn header(document: &Document) -> Markup {
    html! {
        header {
            p.brand { "Dragstrip report" }
            h1 { (document.title) }
            p.finding { (finding(document)) }
            @for (about, badges) in badges(document) {
                ul.badges {
                    li { (about) }
                    @for (count, class, text) in badges { li { span class={ "tag " (class) } { b { (count) } " " (text) } } }
                }
            }
            p.rests { (rests_on(document)) }
            @for note in &document.notes { p.note { (note) } }
            @let notes = document.variants.iter().filter_map(|head| Some((&head.name, head.note.as_ref()?)));
            @for (variant, note) in notes { p.rests { b { (variant) } ": " (note) } }
        }
    }
}

/// The best believable figure, and how it stands to the baseline.
fn finding(document: &Document) -> Markup {
    let Some(Best { words, unit, row: best, spread }) = best(document) else {
        let nothing = document.rows.is_empty();
        return html! { @if nothing { "Nothing has been measured yet." } @else { "No measurement can be believed: each is Invalid." } };
    };
    let alone = total_rows(document, &best.metric).len() == 1;
    html! {
        strong { (best.cell.label(&document.axes)) }
        @if !alone { " " (words) }
        ": " strong { (figures::figure(&best.metric, spread.mean)) " " (unit) }
        @if let Some(half) = spread.confidence95 { " ± " (figures::figure(&best.metric, half)) }
        " in " (best.phase)
        @if let (Some(comparison), Some(baseline)) = (&best.comparison, &document.baseline) {
            ", " (verdicts::ratio(comparison)) " of " (baseline.name) ": " (verdicts::standing(comparison.verdict))
        }
        "."
    }
}

/// What was best, in what, and in which unit it is told.
struct Best<'a> {
    words: &'static str,
    unit: &'static str,
    row: &'a Row,
    spread: Spread,
}

/// Of the first of these that was measured: throughput, or else memory.
fn best(document: &Document) -> Option<Best<'_>> {
    let kinds = [
        ("OperationsPerSecond", "was fastest", "ops/s", 1.0),
        ("ElementsPerSecond", "was fastest", "items/s", 1.0),
        ("ServerUsedBytes", "needed least memory", "MiB", -1.0),
        ("ServerRssBytes", "needed least memory", "MiB", -1.0),
    ];
    kinds.iter().find_map(|(metric, words, unit, sign)| {
        let rows = total_rows(document, metric).into_iter();
        let believable = rows.filter_map(|row| Some(Best { words, unit, row, spread: row.spread? }));
        believable.max_by(|left, right| (sign * left.spread.mean).total_cmp(&(sign * right.spread.mean)))
    })
}

/// A count with its colour and word.
type Badge = (usize, &'static str, &'static str);

/// What was counted, without what is zero: how runs ended, thresholds, comparisons of throughput.
fn badges(document: &Document) -> Vec<(String, Vec<Badge>)> {
    let ended = |wanted: fn(Ending) -> bool| document.runs.iter().filter(|run| wanted(ending(run))).count();
    let runs = vec![
        (ended(|it| it == Ending::Judged(Some(Verdict::Valid))), "good", "✓ Valid"),
        (ended(|it| it == Ending::Judged(Some(Verdict::Degraded))), "fair", "! Degraded"),
        (ended(|it| it == Ending::Judged(Some(Verdict::Invalid))), "bad", "✗ Invalid, struck out"),
        (ended(|it| it == Ending::Judged(None)), "", "– no verdict"),
        (ended(|it| it == Ending::Failed), "bad", "✗ Failed"),
        (ended(|it| it == Ending::Cancelled), "fair", "– Cancelled"),
        (ended(|it| matches!(it, Ending::Unfinished(_))), "", "… not finished"),
    ];
    let missed = document.thresholds.iter().filter(|status| !status.met).count();
    let thresholds = vec![(missed, "bad", "✗ missed"), (document.thresholds.len() - missed, "good", "✓ met")];
    let compared = total_rows(document, "OperationsPerSecond");
    let stands = |verdict| {
        compared
            .iter()
            .filter(|row| row.comparison.as_ref().is_some_and(|found| found.verdict == verdict))
            .count()
    };
    let throughput = vec![
        (stands(ComparisonVerdict::Better), "good", "▲ Better"),
        (stands(ComparisonVerdict::Worse), "bad", "▼ Worse"),
        (stands(ComparisonVerdict::Same), "", "= Same"),
        (stands(ComparisonVerdict::Unclear), "", "? Unclear"),
        (stands(ComparisonVerdict::NotComparable), "", "≠ not comparable"),
    ];
    let baseline = document.baseline.as_ref().map_or("the baseline", |baseline| &baseline.name);
    let groups = [
        ("Runs".to_owned(), runs),
        ("Thresholds".to_owned(), thresholds),
        (format!("Throughput against {baseline}"), throughput),
    ];
    let counted =
        |badges: Vec<Badge>| badges.into_iter().filter(|(count, ..)| *count > 0).collect::<Vec<_>>();
    groups
        .map(|(about, badges)| (about, counted(badges)))
        .into_iter()
        .filter(|(_, badges)| !badges.is_empty())
        .collect()
}

fn rests_on(document: &Document) -> String {
    let cells: std::collections::HashSet<_> = document.runs.iter().map(|run| &run.cell).collect();
    let axes = document.axes.iter().filter(|axis| axis.values.len() > 1);
    let axes = axes.map(|axis| format!("{} {} ({})", axis.values.len(), axis.name, axis.values.join(", ")));
    let mut varied: Vec<String> = axes.collect();
    match variants(document).len() {
        0 | 1 => (),
        count => varied.insert(0, format!("{count} variants")),
    }
    let varied = if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(" × ")) };
    format!(
        "{} of {}{varied}. Each run's verdict rests on its own checks of client, server and network.",
        counted(document.runs.len(), "run"),
        counted(cells.len(), "combination"),
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

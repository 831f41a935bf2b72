//! The figures: the important ones side by side, and all of them below each other.

use super::{table, verdicts};
use crate::{
    document::{Document, Row},
    figures::{figure, heading},
    select::{distinct, grouped, rows_without_repeats},
    tables::all_figures,
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

const HEADLINE: [&str; 6] = [
    "OperationsPerSecond",
    "ElementsPerSecond",
    "SecondsPerBatch",
    "P50Milliseconds",
    "P99Milliseconds",
    "P999Milliseconds",
];

pub fn results(document: &Document) -> Option<Markup> {
    let present = |metric: &&&str| document.rows.iter().any(|row| row.metric == **metric);
    let metrics: Vec<&str> = HEADLINE.iter().filter(present).copied().collect();
    side_by_side(document, &metrics)
}

pub fn memory(document: &Document) -> Option<Markup> {
    let rows = document.rows.iter().filter(|row| matches!(row.unit.as_str(), "B" | "MiB"));
    side_by_side(document, &distinct(rows.map(|row| row.metric.as_str())))
}

fn side_by_side(document: &Document, metrics: &[&str]) -> Option<Markup> {
    let rows = rows_without_repeats(document).into_iter();
    let rows = rows.filter(|row| metrics.contains(&row.metric.as_str()));
    let lines = grouped(rows, |row| (&row.cell, &row.phase, &row.operation));
    let column = |metric: &&str| {
        let row = document.rows.iter().find(|row| row.metric == *metric);
        table::number(&heading(metric, row.map_or("", |row| row.unit.as_str())))
    };
    let heads = html! {
        (table::combination(&document.axes)) (table::filter("Phase")) (table::filter("Operation"))
        @for metric in metrics { (column(metric)) }
        (table::filter("Verdict"))
    };
    let body = html! { @for (_, rows) in &lines { (line(document, metrics, rows)) } };
    (!lines.is_empty()).then(|| table::sorted(" figures", &heads, &body))
}

fn line(document: &Document, metrics: &[&str], rows: &[&Row]) -> Markup {
    let unusable = rows.iter().all(|row| row.spread.is_none());
    html! {
        tr class=[unusable.then_some("struck")] {
            @if let Some(Row { cell, phase, operation, .. }) = rows.first().copied() {
                th scope="row" { (cell.variant) }
                @for place in 0..document.axes.len() { th { (cell.values.get(place).map_or("", String::as_str)) } }
                th { (phase) } th { (operation) }
            }
            @for metric in metrics {
                td { @if let Some(row) = rows.iter().find(|row| row.metric == *metric) { (value(document, row)) } }
            }
            td.v { (verdict(document, rows)) }
        }
    }
}

fn value(document: &Document, row: &Row) -> Markup {
    let invalid = row.samples.iter().filter(|sample| sample.is_invalid());
    let invalid: Vec<String> = invalid.map(|sample| figure(&row.metric, sample.value)).collect();
    html! {
        @if let Some(spread) = &row.spread {
            b { (figure(&row.metric, spread.mean)) }
            @if let Some(half) = spread.confidence95 { " " small { "±" (figure(&row.metric, half)) } }
        }
        @if !invalid.is_empty() { " " s title=(reasons(document, row)) { (invalid.join(", ")) } }
        @if let Some(comparison) = &row.comparison {
            div { (verdicts::comparison(comparison.verdict)) " " (verdicts::ratio(row)) }
        }
    }
}

fn reasons(document: &Document, row: &Row) -> String {
    let reasons = verdicts::reasons(document, row);
    if reasons.is_empty() { "see the run for the reason".to_owned() } else { reasons.join("\n") }
}

/// The worst verdict of the rows and its reasons: in words if Invalid. A Degraded one has their
/// names alone, because a machine that all runs share would fill the page with the words.
fn verdict(document: &Document, rows: &[&Row]) -> Markup {
    let worst = rows.iter().max_by_key(|row| row.verdict);
    html! {
        @if let Some(row) = worst {
            (verdicts::badge(row))
            @let reasons = reasons(document, row);
            @match row.verdict {
                Some(Verdict::Invalid) => { @for reason in reasons.lines() { " " small { (reason) } } },
                Some(Verdict::Degraded) => {
                    " " small title=(reasons) { (verdicts::reason_names(document, row).join(", ")) }
                },
                _ => {},
            }
        }
    }
}

pub fn every(document: &Document) -> Option<Markup> {
    let all = all_figures(document);
    (!all.lines.is_empty()).then(|| {
        html! { details { summary { (all.lines.len()) " figures" } (table::grid(&all)) } }
    })
}

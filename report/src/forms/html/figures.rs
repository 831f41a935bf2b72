//! The figures: the important ones side by side, matrices of them, and all below each other.

use super::{table, verdicts};
use crate::{
    document::{Document, Row},
    figures::{CACHE, figure, heading},
    select::{distinct, grouped, headlines_and, varied_axes},
    tables::{Column, Kind, all_figures, conditions, identity_columns, pivot_grids, ratio_heading},
};
use dragstrip_crds::{run::Verdict, thresholds::MetricName};
use dragstrip_results::result::TOTAL;
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
    let present = |metric: &&str| document.rows.iter().any(|row| row.metric == *metric);
    let metrics = headlines_and(document, &HEADLINE).into_iter().filter(present);
    side_by_side(document, &metrics.collect::<Vec<_>>())
}

pub fn memory(document: &Document) -> Option<Markup> {
    let rows = document.rows.iter().filter(|row| matches!(row.unit.as_str(), "B" | "MiB"));
    side_by_side(document, &distinct(rows.map(|row| row.metric.as_str())))
}

/// The figures of caches whose reads missed.
pub fn cache(document: &Document) -> Option<Markup> {
    let [hit_ratio, bytes] = [MetricName::HitRatio, MetricName::BytesPerKey].map(|name| name.to_string());
    document.rows.iter().find(|row| CACHE.contains(&row.metric.as_str()))?;
    let [warm, evictions] = CACHE;
    side_by_side(document, &[&hit_ratio, warm, evictions, &bytes])
}

/// Which names the lines of a table have: not a variant that is the page's title, nor TOTAL alone.
#[derive(Clone, Copy)]
struct Names {
    variant: bool,
    operation: bool,
}

fn side_by_side(document: &Document, metrics: &[&str]) -> Option<Markup> {
    let rows = document.rows.iter().filter(|row| metrics.contains(&row.metric.as_str()));
    let lines = grouped(rows, |row| (&row.cell, &row.phase, &row.operation));
    let column = |metric: &&str| {
        let row = document.rows.iter().find(|row| row.metric == *metric);
        Column::new(heading(metric, row.map_or("", |row| row.unit.as_str())), Kind::Figure)
    };
    let axes: Vec<_> = document.axes.iter().enumerate().collect();
    let names = Names {
        variant: lines.iter().any(|((cell, ..), _)| cell.variant != document.title),
        operation: lines.iter().any(|((.., operation), _)| *operation != TOTAL),
    };
    let mut columns = identity_columns(&axes).split_off(usize::from(!names.variant));
    columns.push(Column::name("Phase"));
    columns.extend(names.operation.then(|| Column::name("Operation")));
    columns.extend(metrics.iter().map(column));
    columns.push(Column::new("Verdict", Kind::Choice));
    let body = html! { @for (_, rows) in &lines { (line(document, metrics, rows, names)) } };
    (!lines.is_empty()).then(|| table::sorted(" figures", &columns, &body))
}

fn line(document: &Document, metrics: &[&str], rows: &[&Row], names: Names) -> Markup {
    let unusable = rows.iter().all(|row| row.spread.is_none());
    html! {
        tr class=[unusable.then_some("struck")] {
            @if let Some(Row { cell, phase, operation, .. }) = rows.first().copied() {
                @if names.variant { th scope="row" { (cell.variant) } }
                @for place in 0..document.axes.len() { th { (cell.values.get(place).map_or("", String::as_str)) } }
                th scope=[(!names.variant).then_some("row")] { (phase) }
                @if names.operation { th { (operation) } }
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
        @if !invalid.is_empty() { " " s title=(verdicts::reasons(document, row).join("\n")) { (invalid.join(", ")) } }
        @for (baseline, found, _) in document.compared(row) {
            @if let Some(found) = found {
                div {
                    @if !document.other_baselines.is_empty() { small { (ratio_heading(baseline)) ": " } }
                    (verdicts::comparison(found.verdict)) " " (verdicts::ratio(found))
                }
            }
        }
    }
}

/// The worst verdict of the rows, and its reasons if it is Invalid: a machine that all runs share
/// would fill the page with the reasons of Degraded ones.
fn verdict(document: &Document, rows: &[&Row]) -> Markup {
    let worst = rows.iter().max_by_key(|row| row.verdict);
    html! {
        @if let Some(row) = worst {
            (verdicts::badge(row))
            @if row.verdict == Some(Verdict::Invalid) {
                @for reason in verdicts::reasons(document, row) { " " small { (reason) } }
            }
        }
    }
}

/// The matrices of two varied axes or more: with fewer, the results say the same.
pub fn matrices(document: &Document) -> Option<Markup> {
    let grids = if varied_axes(document).len() > 1 { pivot_grids(document) } else { Vec::new() };
    (!grids.is_empty()).then(|| {
        html! { div.matrices { @for grid in &grids { div { h3 { (grid.title) } (table::grid(grid)) } } } }
    })
}

pub fn conditions_of_runs(document: &Document) -> Option<Markup> {
    let conditions = conditions(document);
    (!conditions.lines.is_empty()).then(|| table::grid(&conditions))
}

pub fn every(document: &Document) -> Option<Markup> {
    let all = all_figures(document);
    (!all.lines.is_empty()).then(|| {
        html! { details { summary { (all.lines.len()) " figures" } (table::grid(&all)) } }
    })
}

//! Tables of figures: the ones that count side by side, and all of them one below the other.

use super::verdicts;
use crate::{
    document::{AxisHead, Comparison, Document, Row, Sample},
    figures::{figure, heading},
    layout::{distinct, grouped, told},
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

/// The figures that people compare servers by, in the order of columns.
const HEADLINE: [&str; 6] = [
    "OperationsPerSecond",
    "ElementsPerSecond",
    "SecondsPerBatch",
    "P50Milliseconds",
    "P99Milliseconds",
    "P999Milliseconds",
];

/// Throughput and latency of each combination, phase and operation.
pub fn results(document: &Document) -> Option<Markup> {
    let present = |metric: &&&str| document.rows.iter().any(|row| row.metric == **metric);
    let metrics: Vec<&str> = HEADLINE.iter().filter(present).copied().collect();
    side_by_side(document, &metrics)
}

/// Memory of the servers. Whatever is measured in bytes stands here.
pub fn memory(document: &Document) -> Option<Markup> {
    let rows = document.rows.iter().filter(|row| matches!(row.unit.as_str(), "B" | "MiB"));
    side_by_side(document, &distinct(rows.map(|row| row.metric.as_str())))
}

fn side_by_side(document: &Document, metrics: &[&str]) -> Option<Markup> {
    let rows = told(document).into_iter().filter(|row| metrics.contains(&row.metric.as_str()));
    let lines = grouped(rows, |row| (&row.cell, &row.phase, &row.operation));
    if lines.is_empty() {
        return None;
    }
    Some(html! {
        div.box { table.sort.figures {
            thead { tr {
                (identity_heads(document))
                @for metric in metrics { th scope="col" class="n" { (column(document, metric)) } }
                th scope="col" data-filter { "Verdict" }
            } }
            tbody { @for (_, rows) in &lines { (line(document, metrics, rows)) } }
        } }
    })
}

fn identity_heads(document: &Document) -> Markup {
    html! {
        th scope="col" data-filter { "Variant" }
        @for axis in &document.axes { th scope="col" data-filter data-declared=(declared(axis)) { (axis.name) } }
        th scope="col" data-filter { "Phase" }
        th scope="col" data-filter { "Operation" }
    }
}

/// The values of an axis as a sorted column has them, a line for each.
pub fn declared(axis: &AxisHead) -> String {
    axis.values.join("\n")
}

fn identity(document: &Document, row: &Row) -> Markup {
    html! {
        th scope="row" { (row.cell.variant) }
        @for index in 0..document.axes.len() { th { (row.cell.values.get(index).map_or("", String::as_str)) } }
        th { (row.phase) }
        th { (row.operation) }
    }
}

/// A metric's heading, with the unit in which it is told.
fn column(document: &Document, metric: &str) -> String {
    let unit = document.rows.iter().find(|row| row.metric == metric).map_or("", |row| row.unit.as_str());
    heading(metric, unit)
}

fn line(document: &Document, metrics: &[&str], rows: &[&Row]) -> Markup {
    let struck = rows.iter().all(|row| row.spread.is_none());
    html! {
        tr class=[struck.then_some("struck")] {
            @if let Some(first) = rows.first() { (identity(document, first)) }
            @for metric in metrics {
                @match rows.iter().find(|row| row.metric == *metric) {
                    Some(row) => td {
                        (value(document, row))
                        @if let Some(comparison) = &row.comparison { div { (compared(comparison)) } }
                    },
                    None => td {},
                }
            }
            td.v { (verdict(document, rows)) }
        }
    }
}

/// The mean with its interval, and beside it what was struck out of it.
fn value(document: &Document, row: &Row) -> Markup {
    let struck: Vec<&Sample> = row.samples.iter().filter(|sample| verdicts::is_invalid(sample)).collect();
    html! {
        @if let Some(spread) = &row.spread {
            b { (figure(&row.metric, spread.mean)) }
            @if let Some(half) = spread.confidence95 {
                " " small { "±" (figure(&row.metric, half)) }
            }
        }
        @if !struck.is_empty() {
            " " s title=(why(document, row)) {
                @for (index, sample) in struck.iter().enumerate() {
                    @if index > 0 { ", " }
                    (figure(&row.metric, sample.value))
                }
            }
        }
    }
}

fn why(document: &Document, row: &Row) -> String {
    let reasons = verdicts::reasons(document, &row.samples, &row.phase);
    if reasons.is_empty() { "its run says why".to_owned() } else { reasons.join("\n") }
}

fn compared(comparison: &Comparison) -> Markup {
    html! { (verdicts::standing(comparison.verdict)) " " (verdicts::ratio(comparison)) }
}

/// The worst verdict of the rows, and why: what is Invalid in words; what is Degraded by name,
/// since its words stand at the run, and a machine that all runs share would fill the page.
fn verdict(document: &Document, rows: &[&Row]) -> Markup {
    let worst = rows.iter().max_by_key(|row| row.verdict);
    html! {
        @if let Some(row) = worst {
            (verdicts::badge(row.verdict, &verdicts::of_row(row)))
            @let told = why(document, row);
            @match row.verdict {
                Some(Verdict::Invalid) => { @for reason in told.lines() { " " small { (reason) } } },
                Some(Verdict::Degraded) => {
                    " " small title=(told) { (verdicts::reason_names(document, &row.samples, &row.phase).join(", ")) }
                },
                _ => {},
            }
        }
    }
}

/// Every row of the document, with how it was repeated and compared.
pub fn every(document: &Document) -> Option<Markup> {
    let compared = document.baseline.is_some();
    let rows = told(document);
    (!rows.is_empty()).then(|| {
        html! {
            details {
                summary { (rows.len()) " figures" }
                div.box { table.sort.figures {
                    thead { tr {
                        (identity_heads(document))
                        th scope="col" data-filter { "Metric" }
                        th scope="col" class="n" { "Mean" }
                        th scope="col" class="n" { "n" }
                        th scope="col" class="n" { "CV" }
                        @if compared {
                            th scope="col" class="n" { "Baseline" }
                            th scope="col" class="n" { "Ratio" }
                            th scope="col" data-filter { "Standing" }
                        }
                        th scope="col" data-filter { "Verdict" }
                    } }
                    tbody { @for row in &rows { (figure_row(document, row, compared)) } }
                } }
            }
        }
    })
}

fn figure_row(document: &Document, row: &Row, compared: bool) -> Markup {
    let cv = row.spread.and_then(|spread| spread.coefficient_of_variation);
    html! {
        tr class=[row.spread.is_none().then_some("struck")] {
            (identity(document, row))
            th { (heading(&row.metric, &row.unit)) }
            td { (value_alone(document, row)) }
            td { (row.spread.map_or(0, |spread| spread.repetitions)) (outliers(row)) }
            td { @if let Some(cv) = cv { (format!("{:.1} %", cv * 100.0)) } }
            @if compared { (comparison_cells(row)) }
            td { (verdicts::of_row(row)) }
        }
    }
}

fn value_alone(document: &Document, row: &Row) -> Markup {
    html! {
        @match (row.spread, row.samples.first()) {
            (Some(spread), _) => {
                (figure(&row.metric, spread.mean))
                @if let Some(half) = spread.confidence95 { " ±" (figure(&row.metric, half)) }
            },
            (None, Some(sample)) => s title=(why(document, row)) { (figure(&row.metric, sample.value)) },
            (None, None) => {},
        }
    }
}

fn outliers(row: &Row) -> Markup {
    let names = row.samples.iter().filter(|sample| sample.outlier).map(|sample| sample.run.as_str());
    let names: Vec<&str> = names.collect();
    html! { @if !names.is_empty() { " " span title={ "far from the others, counted all the same: " (names.join(", ")) } { "⚑" (names.len()) } } }
}

fn comparison_cells(row: &Row) -> Markup {
    html! {
        @match &row.comparison {
            Some(comparison) => {
                td { (figure(&row.metric, comparison.baseline)) }
                td { (verdicts::ratio(comparison)) }
                td title=(comparison.reason) { (verdicts::standing(comparison.verdict)) }
            },
            None => { td {} td {} td title=[row.uncompared.as_ref()] { @if row.uncompared.is_some() { "not compared" } } },
        }
    }
}

//! Matrices of two axes as shaded tables: numbers that people can read, copy and hear.

use super::verdicts;
use crate::{
    document::{Document, Row},
    figures::{figure, heading, short},
    tables::{Pivot, matrices},
};
use maud::{Markup, html};

const METRICS: [&str; 3] = ["OperationsPerSecond", "ElementsPerSecond", "P99Milliseconds"];
/// Bars show fewer combinations better.
const LEAST_CELLS: usize = 9;
/// Nobody reads more of them.
const MOST_MAPS: usize = 36;

pub fn maps(document: &Document) -> Option<Markup> {
    let mut maps = Vec::new();
    for metric in METRICS {
        let pivots = matrices(document, metric).into_iter();
        let large = pivots.filter(|pivot| pivot.columns.len() * pivot.lines.len() >= LEAST_CELLS);
        maps.extend(large.map(|pivot| (metric, pivot)).filter(|(_, pivot)| rows(pivot).next().is_some()));
    }
    let omitted = maps.len().saturating_sub(MOST_MAPS);
    (!maps.is_empty()).then(|| {
        html! {
            @if omitted > 0 { p.about { "The page omits " (omitted) " more matrices: the table of results has their figures." } }
            div.cards { @for (metric, pivot) in maps.iter().take(MOST_MAPS) { (map(metric, pivot)) } }
        }
    })
}

fn rows<'a>(pivot: &Pivot<'a>) -> impl Iterator<Item = &'a Row> {
    pivot.lines.iter().flat_map(|(_, rows)| rows.iter().copied().flatten())
}

fn map(metric: &str, pivot: &Pivot<'_>) -> Markup {
    let less_is_better = rows(pivot).any(|row| row.more_is_better == Some(false));
    let ends = ends(pivot);
    html! {
        figure.card {
            figcaption {
                b { (heading(metric, "")) " · " (pivot.title) }
                span { @if less_is_better { "less is better" } }
            }
            div.box { table.heat {
                thead { tr {
                    th scope="col" { (pivot.down) "\u{a0}↓ " (pivot.across) "\u{a0}→" }
                    @for value in &pivot.columns { th scope="col" { (value) } }
                } }
                tbody {
                    @for (value, rows) in &pivot.lines {
                        tr {
                            th scope="row" { (value) }
                            @for row in rows { @match row { Some(row) => (shaded(row, ends)), None => td {} } }
                        }
                    }
                }
            } }
        }
    }
}

fn shaded(row: &Row, ends: (f64, f64)) -> Markup {
    let Some(spread) = row.spread else {
        let value = row.samples.first().map_or(String::new(), |sample| short(sample.value));
        return html! { td { s title="Invalid" { (value) } br; small { "Invalid" } } };
    };
    html! {
        td style={ "--t:" (format!("{:.2}", shade(spread.mean, ends))) } title=(figure(&row.metric, spread.mean)) {
            (short(spread.mean))
            @if let Some(comparison) = &row.comparison {
                br; small title=(verdicts::word(comparison.verdict)) { (verdicts::brief(row)) }
            }
        }
    }
}

fn ends(pivot: &Pivot<'_>) -> (f64, f64) {
    let means = rows(pivot).filter_map(|row| Some(row.spread?.mean)).filter(|mean| *mean > 0.0);
    means.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), mean| (least.min(mean), most.max(mean)))
}

/// From 0 to 1 on a logarithmic scale: a matrix may span orders of magnitude.
fn shade(value: f64, (least, most): (f64, f64)) -> f64 {
    if most > least && value > 0.0 { (value / least).ln() / (most / least).ln() } else { 0.0 }
}

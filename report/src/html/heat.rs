//! Matrices of two axes as tables whose cells are shaded: numbers that can be read, copied
//! and heard.

use super::{format, verdicts};
use crate::{
    document::{AxisHead, Cell, Document, Row},
    figures::{figure, heading},
    layout::{grouped, phase_of, standing, varied},
};
use maud::{Markup, html};

/// Below this many combinations bars say it better.
const LEAST_CELLS: usize = 9;
/// More maps than this are not read by anybody.
const MOST_MAPS: usize = 36;

/// Maps of throughput and of p99: the last two axes that vary span them, and each phase,
/// variant and value of the other axes has its own.
pub fn maps(document: &Document) -> Option<Markup> {
    let [.., down, across] = varied(document)[..] else { return None };
    if down.1.values.len() * across.1.values.len() < LEAST_CELLS {
        return None;
    }
    let mut maps = Vec::new();
    for metric in ["OperationsPerSecond", "ElementsPerSecond", "P99Milliseconds"] {
        let places = [down.0, across.0];
        let by_map =
            grouped(standing(document, metric), |row| (phase_of(row), rest_of(document, &row.cell, places)));
        for ((phase, rest), rows) in by_map {
            let map = Map { down, across, rows };
            maps.push(map.draw(&format!("{} · {phase} · {rest}", heading(metric, ""))));
        }
    }
    let left_out = maps.len().saturating_sub(MOST_MAPS);
    (!maps.is_empty()).then(|| {
        html! {
            @if left_out > 0 { p.about { (left_out) " more are not drawn: the table of results has them." } }
            div.cards { @for map in maps.iter().take(MOST_MAPS) { (map) } }
        }
    })
}

/// What a combination is besides its place in a map.
fn rest_of(document: &Document, cell: &Cell, places: [usize; 2]) -> String {
    let values = document.axes.iter().zip(&cell.values).enumerate();
    let others = values.filter(|(index, (axis, _))| !places.contains(index) && axis.values.len() > 1);
    let others = others.map(|(_, (axis, value))| format!(" {}={value}", axis.name));
    std::iter::once(cell.variant.clone()).chain(others).collect()
}

struct Map<'a> {
    down: (usize, &'a AxisHead),
    across: (usize, &'a AxisHead),
    rows: Vec<&'a Row>,
}

impl Map<'_> {
    fn draw(&self, name: &str) -> Markup {
        let less = self.rows.first().is_some_and(|row| row.more_is_better == Some(false));
        html! {
            figure.card {
                figcaption { b { (name) } span { @if less { "less is better" } } }
                div.box { table.heat {
                    thead { tr {
                        th scope="col" { (self.down.1.name) "\u{a0}↓ " (self.across.1.name) "\u{a0}→" }
                        @for value in &self.across.1.values { th scope="col" { (value) } }
                    } }
                    tbody { @for value in &self.down.1.values { (self.line(value)) } }
                } }
            }
        }
    }

    fn line(&self, down: &str) -> Markup {
        html! {
            tr {
                th scope="row" { (down) }
                @for across in &self.across.1.values {
                    @match self.at(down, across) {
                        Some(row) => (self.shaded(row)),
                        None => td {},
                    }
                }
            }
        }
    }

    fn at(&self, down: &str, across: &str) -> Option<&Row> {
        let has = |row: &Row, axis: usize, value: &str| {
            row.cell.values.get(axis).is_some_and(|there| there == value)
        };
        self.rows.iter().find(|row| has(row, self.down.0, down) && has(row, self.across.0, across)).copied()
    }

    fn shaded(&self, row: &Row) -> Markup {
        let Some(spread) = row.spread else {
            let value = row.samples.first().map_or(String::new(), |sample| format::even(sample.value));
            return html! { td { s title="Invalid" { (value) } br; small { "Invalid" } } };
        };
        html! {
            td style={ "--t:" (format!("{:.2}", self.shade(spread.mean))) } title=(figure(&row.metric, spread.mean)) {
                (format::even(spread.mean))
                @if let Some(comparison) = &row.comparison {
                    br; small title=(verdicts::word(comparison.verdict)) { (verdicts::brief(comparison)) }
                }
            }
        }
    }

    /// From 0 for the least to 1 for the most, by logarithm: matrices span magnitudes.
    fn shade(&self, value: f64) -> f64 {
        let means = self.rows.iter().filter_map(|row| Some(row.spread?.mean)).filter(|mean| *mean > 0.0);
        let ends = (f64::MAX, f64::MIN_POSITIVE);
        let (least, most) = means.fold(ends, |(least, most), mean| (least.min(mean), most.max(mean)));
        if most > least && value > 0.0 { (value / least).ln() / (most / least).ln() } else { 0.0 }
    }
}

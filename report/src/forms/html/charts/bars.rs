//! Throughput, latency and memory as bars with error bars and dots for repetitions.

use super::{
    super::verdicts,
    axis::Axis,
    card::{card, cards},
    series::SeriesLayout,
    svg::{Ink, WIDTH, dot, path, pixel, rectangle, svg, text},
};
use crate::{
    document::{Document, Row},
    figures::{self, short},
    select::{grouped, headlines_and, totals, with_operation},
};
use maud::{Markup, html};

const METRICS: [&str; 4] = ["OperationsPerSecond", "ElementsPerSecond", "P99Milliseconds", "ServerUsedBytes"];
/// A table shows more combinations better.
const MOST_BARS: usize = 64;
/// Pixels of a group's heading, and of a bar with its name above it.
const HEADING: f64 = 26.0;
const BAR: f64 = 32.0;

pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let mut drawn = Vec::new();
    let mut omitted = 0;
    for metric in headlines_and(document, &METRICS) {
        for (phase, rows) in
            grouped(totals(document, metric), |row| with_operation(&row.phase, &row.operation))
        {
            match rows.len() {
                0 | 1 => (),
                2..=MOST_BARS => drawn.push(chart(layout, metric, &phase, &rows)),
                _ => omitted += 1,
            }
        }
    }
    let mut note = "Means of repetitions with their 95 % confidence intervals. Each repetition is a dot; an Invalid one is a cross, and the mean excludes it.".to_owned();
    note.extend(
        (omitted > 0).then(|| format!(" The page omits {omitted} charts with more than {MOST_BARS} bars.")),
    );
    cards(&html! {}, &drawn, &note)
}

fn chart(layout: &SeriesLayout, metric: &str, phase: &str, rows: &[&Row]) -> Markup {
    let unit = rows.first().map_or("", |row| row.unit.as_str());
    let heading = figures::heading(metric, unit);
    let less_is_better = rows.iter().any(|row| row.more_is_better == Some(false));
    let values = rows.iter().flat_map(|row| {
        let end = row.spread.map(|spread| spread.mean + spread.confidence95.unwrap_or(0.0));
        row.samples.iter().map(|sample| sample.value).chain(end)
    });
    let axis = Axis::from_zero("", values.fold(0.0, f64::max) * 1.04, short);
    let mut height = 0.0;
    let mut content = Vec::new();
    for (name, rows) in grouped(rows.iter().copied(), |row| layout.panel_of(&row.cell)) {
        if !name.is_empty() {
            content.push(text(Ink::Muted, (2.0, height + 14.0), "start", &name));
            height += HEADING;
        }
        for row in rows {
            content.push(bar(layout, &axis, row, height));
            height += BAR;
        }
    }
    let content = html! { @for part in &content { (part) } };
    let drawn = svg(height, &format!("Bars: {heading} in {phase}"), &content);
    card(&format!("{heading} · {phase}"), if less_is_better { "less is better" } else { "" }, &drawn)
}

/// Name and figure above the bar, dots and error bar on it.
fn bar(layout: &SeriesLayout, axis: &Axis, row: &Row, top: f64) -> Markup {
    let (left, right, middle) = (2.0, WIDTH - 4.0, top + 22.0);
    let at = |value: f64| left + axis.share(value) * (right - left);
    let interval = row.spread.and_then(|spread| Some((spread.mean, spread.confidence95?)));
    let whiskers = interval.map(|(mean, half)| {
        let (low, high) = (pixel(at(mean - half)), pixel(at(mean + half)));
        format!("M{low} {}v8m0-4H{high}m0-4v8", middle - 4.0)
    });
    html! {
        (text(Ink::Text, (left, top + 8.0), "start", &layout.series_name(&row.cell)))
        (text(Ink::Text, (right, top + 8.0), "end", &figure_of(row)))
        @if let Some(spread) = row.spread {
            (rectangle(Ink::Series(layout.series_of(&row.cell)), (left, top + 16.0), (at(spread.mean) - left, 12.0)))
        }
        @for sample in &row.samples {
            @let x = at(sample.value);
            @if sample.is_invalid() {
                (path(Ink::Bad, 2.0, &format!("M{} {}l8 8m-8 0l8-8", pixel(x - 4.0), middle - 4.0)))
            } @else {
                (dot(Ink::Text, (x, middle), 1.7))
            }
        }
        @if let Some(whiskers) = whiskers { (path(Ink::Text, 1.3, &whiskers)) }
    }
}

fn figure_of(row: &Row) -> String {
    let Some(spread) = row.spread else { return "Invalid".to_owned() };
    let figure = figures::figure(&row.metric, spread.mean);
    if row.comparison.is_some() { format!("{figure}  {}", verdicts::brief(row)) } else { figure }
}

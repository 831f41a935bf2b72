//! Saturation searches: the latency that comes with more throughput.

use super::{
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Ink, Point, dot, ring, svg, text},
};
use crate::{
    document::{Document, RunRecord, Search},
    figures::short,
    select::{distinct, grouped},
};
use dragstrip_crds::measured::LatencySummary;
use maud::{Markup, html};

const HEIGHT: f64 = 240.0;

/// What a line shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Load {
    /// The values of the search.
    Rising,
    /// An open loop at shares of the throughput found.
    Shares,
}

/// The measurements of a repetition of a search: each value, or rate, once.
struct Curve<'a> {
    run: &'a RunRecord,
    search: &'a Search,
    load: Load,
    points: Vec<(u64, Point)>,
}

/// The curves of a search, one for each repetition and load.
fn curves<'a>(run: &'a RunRecord, search: &'a Search) -> impl Iterator<Item = Curve<'a>> {
    let rising = search.found.points.iter().filter_map(|point| {
        let place = place(point.operations_per_second, &point.latency_milliseconds)?;
        Some((Load::Rising, point.repetition, point.value, place))
    });
    let shares = search.found.rates.iter().filter_map(|share| {
        let place = place(share.asked_operations_per_second, &share.latency_milliseconds)?;
        Some((Load::Shares, share.repetition, (share.share * 1e6).round().to_bits(), place))
    });
    let each = grouped(rising.chain(shares), |(load, repetition, ..)| (*load, *repetition));
    each.into_iter().map(move |((load, _), measured)| {
        let values = grouped(measured, |(_, _, value, _)| *value);
        let points =
            values.into_iter().map(|(value, measured)| (value, typical(measured.iter().map(|one| one.3))));
        Curve { run, search, load, points: points.collect() }
    })
}

/// The one of several measurements of a value that has the median latency.
fn typical(places: impl Iterator<Item = Point>) -> Point {
    let mut places: Vec<Point> = places.collect();
    places.sort_by(|a, b| a.1.total_cmp(&b.1));
    places.get(places.len() / 2).copied().unwrap_or_default()
}

/// A chart for each phase, load and panel, a line for each repetition.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let searches = document.runs.iter().flat_map(|run| run.searches.iter().map(move |search| (run, search)));
    let curves = searches.flat_map(|(run, search)| curves(run, search));
    let panels = grouped(curves, |curve| {
        let raised = format!("{:?}", curve.search.found.raise);
        (&curve.search.phase, raised, curve.load, layout.chart_of(&curve.run.cell))
    });
    let chart = |((phase, raised, load, panel), curves): ((&String, String, Load, String), Vec<Curve>)| {
        let name = if panel.is_empty() { phase.clone() } else { format!("{phase} · {panel}") };
        let about = match load {
            Load::Rising => format!("rising {raised}, {}", knees(&curves)),
            Load::Shares => "open loop at shares of the throughput found".to_owned(),
        };
        card(&name, &about, &svg(HEIGHT, &format!("Saturation: {name}, {about}"), &lines(layout, &curves)))
    };
    let drawn: Vec<Markup> = panels.into_iter().map(chart).collect();
    cards(
        &layout.legend(),
        &drawn,
        "p99 against throughput under rising load, and against the rate of open loops. A ring marks the knee.",
    )
}

/// The knees of the curves, for people.
fn knees(curves: &[Curve]) -> String {
    let knees = curves.iter().filter_map(|curve| Some(curve.search.found.knee.as_ref()?.value));
    let knees: Vec<String> = distinct(knees).into_iter().map(|knee| short(knee as f64)).collect();
    if knees.is_empty() { "no knee found".to_owned() } else { format!("knee at {}", knees.join(", ")) }
}

/// Throughput and latency, if it was measured.
fn place(operations_per_second: f64, latency: &LatencySummary) -> Option<Point> {
    Some((operations_per_second, latency.p99.filter(|p99| *p99 > 0.0)?))
}

fn lines(layout: &SeriesLayout, curves: &[Curve]) -> Markup {
    let line = |curve: &Curve| {
        Line::of(layout.series_of(&curve.run.cell), curve.points.iter().map(|(_, place)| *place).collect())
    };
    let lines: Vec<Line> = curves.iter().map(line).collect();
    let all = || lines.iter().flat_map(|line| &line.points);
    let most = all().map(|(rate, _)| *rate).fold(0.0, f64::max);
    let y = Axis::logarithmic("p99, ms", all().map(|(_, p99)| *p99), short);
    let plot = Plot::new(HEIGHT, Axis::from_zero("operations per second", most * 1.1, short), y);
    html! {
        (plot.frame())
        @for line in &lines {
            (plot.line(line, 2.0))
            @for point in &line.points { (dot(line.ink, plot.at(*point), 3.0)) }
        }
        (plot.numbers(layout, &lines))
        @for curve in curves.iter().filter(|curve| curve.load == Load::Rising) {
            @for (value, place) in &curve.points {
                @if curve.search.found.knee.as_ref().is_some_and(|knee| knee.value == *value) {
                    (knee(curve.search, *value, plot.at(*place), place.0 > most / 2.0))
                }
            }
        }
    }
}

fn knee(search: &Search, value: u64, (x, y): Point, label_left: bool) -> Markup {
    let label = format!("knee: {} {:?}", short(value as f64), search.found.raise);
    let (x_of_label, anchor) = if label_left { (x - 13.0, "end") } else { (x + 13.0, "start") };
    html! { (ring(Ink::Text, (x, y), 8.0)) (text(Ink::Text, (x_of_label, y), anchor, &label)) }
}

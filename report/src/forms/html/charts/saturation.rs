//! Saturation searches: the latency that comes with more throughput.

use super::{
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Ink, Point, dot, ring, svg, text},
};
use crate::{
    document::{Document, Search},
    figures::short,
    select::{distinct, grouped},
    tables::{Curve, Load, curves},
};
use maud::{Markup, html};

const HEIGHT: f64 = 240.0;

/// A chart for each phase, load and panel, a line for each repetition.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let panels = grouped(curves(document), |curve| {
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

fn knees(curves: &[Curve]) -> String {
    let knees = curves.iter().filter_map(|curve| Some(curve.search.found.knee.as_ref()?.value));
    let knees: Vec<String> = distinct(knees).into_iter().map(|knee| short(knee as f64)).collect();
    if knees.is_empty() { "no knee found".to_owned() } else { format!("knee at {}", knees.join(", ")) }
}

fn lines(layout: &SeriesLayout, curves: &[Curve]) -> Markup {
    let line =
        |curve: &Curve| Line::of(layout.series_of(&curve.run.cell), curve.points.values().copied().collect());
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
        @for curve in curves {
            @for (value, place) in &curve.points {
                @if curve.is_knee(*value) {
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

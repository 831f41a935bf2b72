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
use dragstrip_crds::run::SearchPointStatus;
use maud::{Markup, html};

const HEIGHT: f64 = 240.0;

/// The points that a repetition of a search measured.
type Curve<'a> = (&'a RunRecord, &'a Search, Vec<&'a SearchPointStatus>);

/// A chart for each phase and panel, a line for each repetition.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let searches = document.runs.iter().flat_map(|run| run.searches.iter().map(move |search| (run, search)));
    let curves = searches.flat_map(|(run, search)| {
        let shown = search.found.points.iter().filter(|point| place(point).is_some());
        grouped(shown, |point| point.repetition).into_iter().map(move |(_, points)| (run, search, points))
    });
    let panels = grouped(curves, |(run, search, _)| {
        (&search.phase, format!("{:?}", search.found.raise), layout.chart_of(&run.cell))
    });
    let chart = |((phase, raised, panel), curves): ((&String, String, String), Vec<Curve>)| {
        let name = if panel.is_empty() { phase.clone() } else { format!("{phase} · {panel}") };
        let knees = curves.iter().filter_map(|(_, search, _)| Some(search.found.knee.as_ref()?.value));
        let knees: Vec<String> = distinct(knees).into_iter().map(|knee| short(knee as f64)).collect();
        let knees = if knees.is_empty() {
            "no knee found".to_owned()
        } else {
            format!("knee at {}", knees.join(", "))
        };
        let about = format!("rising {raised}, {knees}");
        card(&name, &about, &svg(HEIGHT, &format!("Saturation: {name}, {about}"), &lines(layout, &curves)))
    };
    let drawn: Vec<Markup> = panels.into_iter().map(chart).collect();
    cards(&layout.legend(), &drawn, "p99 against throughput under rising load. A ring marks the knee.")
}

/// Throughput and latency, if it was measured.
fn place(point: &SearchPointStatus) -> Option<Point> {
    let p99 = point.latency_milliseconds.p99.filter(|p99| *p99 > 0.0)?;
    Some((point.operations_per_second, p99))
}

fn lines(layout: &SeriesLayout, curves: &[Curve]) -> Markup {
    let line = |(run, _, points): &Curve| {
        Line::of(layout.series_of(&run.cell), points.iter().filter_map(|point| place(point)).collect())
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
        @for ((_, search, points), line) in curves.iter().zip(&lines) {
            @for (point, place) in points.iter().zip(&line.points) {
                @if search.found.knee.as_ref().is_some_and(|knee| knee.value == point.value) {
                    (knee(search, point.value, plot.at(*place), place.0 > most / 2.0))
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

//! Saturation searches: the latency that comes with more throughput.

use super::{
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Ink, Point, dot, ring, spot, svg, text},
};
use crate::{
    document::{Document, RunRecord, Search, SearchFigure},
    figures::{number, short},
    select::grouped,
};
use maud::{Markup, html};

const HEIGHT: f64 = 240.0;

type RunSearch<'a> = (&'a RunRecord, &'a Search);

/// A chart for each phase and panel, a line for each search.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let searches = document.runs.iter().flat_map(|run| run.searches.iter().map(move |search| (run, search)));
    let searches = searches.filter(|(_, search)| points(search).next().is_some());
    let panels =
        grouped(searches, |(run, search)| (&search.phase, &search.raised, layout.chart_of(&run.cell)));
    let chart = |((phase, raised, panel), searches): ((&String, &String, String), Vec<RunSearch>)| {
        let name = if panel.is_empty() { phase.clone() } else { format!("{phase} · {panel}") };
        let knees: Vec<String> = searches.iter().filter_map(|(_, search)| search.knee).map(short).collect();
        let knees = if knees.is_empty() {
            "no knee found".to_owned()
        } else {
            format!("knee at {}", knees.join(", "))
        };
        let about = format!("rising {raised}, {knees}");
        card(&name, &about, &svg(HEIGHT, &format!("Saturation: {name}, {about}"), &lines(layout, &searches)))
    };
    let drawn: Vec<Markup> = panels.into_iter().map(chart).collect();
    cards(&layout.legend(), &drawn, "p99 against throughput under rising load. A ring marks the knee.")
}

/// The figures that have a latency, with their places on both axes.
fn points(search: &Search) -> impl Iterator<Item = (&SearchFigure, Point)> {
    let all = search.points.iter().filter_map(|figure| Some((figure, figure.p99_milliseconds?)));
    all.filter(|(_, p99)| *p99 > 0.0).map(|(figure, p99)| (figure, (figure.operations_per_second, p99)))
}

fn lines(layout: &SeriesLayout, searches: &[RunSearch]) -> Markup {
    let all = || searches.iter().flat_map(|(_, search)| points(search)).map(|(_, point)| point);
    let most = all().map(|(rate, _)| rate).fold(0.0, f64::max);
    let y = Axis::logarithmic("p99, ms", all().map(|(_, p99)| p99), short);
    let plot = Plot::new(HEIGHT, Axis::from_zero("operations per second", most * 1.1, short), y);
    let line = |(run, search): &RunSearch| {
        Line::of(layout.series_of(&run.cell), points(search).map(|(_, point)| point).collect())
    };
    let lines: Vec<Line> = searches.iter().map(line).collect();
    html! {
        (plot.frame())
        @for line in &lines {
            (plot.line(line, 2.0))
            @for point in &line.points { (dot(line.ink, plot.at(*point), 3.0)) }
        }
        (plot.numbers(layout, &lines))
        @for (run, search) in searches {
            @for (figure, point) in points(search) {
                @if search.knee == Some(figure.value) { (knee(search, figure, plot.at(point), point.0 > most / 2.0)) }
                (spot(plot.at(point), &details(layout, run, search, figure, point)))
            }
        }
    }
}

fn knee(search: &Search, figure: &SearchFigure, (x, y): Point, label_left: bool) -> Markup {
    let label = format!("knee: {} {}", short(figure.value), search.raised);
    let (x_of_label, anchor) = if label_left { (x - 13.0, "end") } else { (x + 13.0, "start") };
    html! { (ring(Ink::Text, (x, y), 8.0)) (text(Ink::Text, (x_of_label, y), anchor, &label)) }
}

fn details(
    layout: &SeriesLayout,
    run: &RunRecord,
    search: &Search,
    figure: &SearchFigure,
    (rate, p99): Point,
) -> String {
    let (series, value) = (layout.series_name(&run.cell), short(figure.value));
    format!("{series}, {} {value}: {} ops/s, p99 {} ms", search.raised, number(rate), short(p99))
}

//! Saturation searches: what more load brings in throughput, and costs in latency.

use super::{
    super::{format, layout::Layout},
    Area, Axis, Failure, INK, Line, MOST_PANELS, Spot, card, cards, colour, left_out, lines, numbers, plot,
    svg, text,
};
use crate::{
    document::{Document, RunRecord, Search, SearchFigure},
    figures,
    layout::grouped,
};
use maud::Markup;
use plotters::{
    element::{Circle, Text},
    style::{Color, text_anchor::HPos},
};

type Drawn<'a> = (&'a RunRecord, &'a Search);

/// A chart for each phase and panel, a line for each search.
pub fn draw(document: &Document, layout: &Layout) -> Option<Markup> {
    let searches = document.runs.iter().flat_map(|run| run.searches.iter().map(move |search| (run, search)));
    let searches = searches.filter(|(_, search)| figures(search).next().is_some());
    let panels =
        grouped(searches, |(run, search)| (&search.phase, &search.raised, layout.chart_of(&run.cell)));
    let note = format!(
        "p99 against throughput while load is raised; a ring marks the knee that was found.{}",
        left_out(panels.len())
    );
    let drawn: Vec<Markup> = panels
        .into_iter()
        .take(MOST_PANELS)
        .map(|((phase, raised, panel), searches)| {
            let name = if panel.is_empty() { phase.clone() } else { format!("{phase} · {panel}") };
            let about = format!("{raised} raised{}", knees(&searches));
            let words = format!("Saturation: {name}, {about}");
            card(&name, &about, &svg(240, &words, |area| paint(area, layout, &searches)))
        })
        .collect();
    cards(&layout.legend(), &drawn, &note)
}

fn knees(searches: &[Drawn]) -> String {
    let knees: Vec<String> =
        searches.iter().filter_map(|(_, search)| search.knee).map(format::short).collect();
    if knees.is_empty() { ", no knee found".to_owned() } else { format!(", knee at {}", knees.join(", ")) }
}

/// The figures that have a latency to show.
fn figures(search: &Search) -> impl Iterator<Item = (&SearchFigure, f64)> {
    let told = search.points.iter().filter_map(|figure| Some((figure, figure.p99_milliseconds?)));
    told.filter(|(_, latency)| *latency > 0.0)
}

fn paint(area: &Area, layout: &Layout, searches: &[Drawn]) -> Result<Vec<Spot>, Failure> {
    let all = || searches.iter().flat_map(|(_, search)| figures(search));
    let most = all().map(|(figure, _)| figure.operations_per_second).fold(0.0, f64::max);
    let y = Axis::logarithmic("p99, ms", all().map(|(_, latency)| latency), format::short);
    let mut chart = plot(area, Axis::from_zero("operations per second", most * 1.1, format::short), y)?;
    let mut spots = Vec::new();
    let line = |(run, search): &Drawn| {
        let series = layout.series_of(&run.cell);
        let points = figures(search).map(|(figure, latency)| (figure.operations_per_second, latency));
        Line { series, colour: colour(series), points: points.collect() }
    };
    let drawn: Vec<Line> = searches.iter().map(line).collect();
    lines(&mut chart, &drawn, 6)?;
    numbers(area, &chart, layout, &drawn)?;
    for ((run, search), Line { colour, points, .. }) in searches.iter().zip(&drawn) {
        chart
            .draw_series(points.iter().map(|point| Circle::new(*point, 3 * super::FINE, colour.filled())))?;
        for (figure, latency) in figures(search) {
            let point = (figure.operations_per_second, latency);
            if search.knee == Some(figure.value) {
                chart.draw_series([Circle::new(
                    point,
                    8 * super::FINE,
                    INK.stroke_width(2 * super::FINE),
                )])?;
                let label = format!("knee: {} {}", format::short(figure.value), search.raised);
                let (side, room) =
                    if point.0 > most / 2.0 { (HPos::Right, -0.05) } else { (HPos::Left, 0.05) };
                chart.draw_series([Text::new(
                    label,
                    (point.0 + most * room, point.1),
                    text(INK, 12, side),
                )])?;
            }
            spots.push(Spot::around(chart.backend_coord(&point), told(layout, run, search, figure, latency)));
        }
    }
    Ok(spots)
}

fn told(layout: &Layout, run: &RunRecord, search: &Search, figure: &SearchFigure, latency: f64) -> String {
    format!(
        "{}, {} {}: {} ops/s, p99 {} ms",
        layout.series_name(&run.cell),
        search.raised,
        format::short(figure.value),
        figures::number(figure.operations_per_second),
        format::short(latency)
    )
}

//! Latency by percentile on two logarithmic scales: a line for each run.

use super::{
    axis::{Axis, MOST_PERCENTILE},
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Point, svg},
};
use crate::{
    document::{Curve, Document, RunRecord},
    figures::short,
    select::grouped,
};
use dragstrip_crds::run::Verdict;
use dragstrip_results::result::TOTAL;
use maud::{Markup, html};

const HEIGHT: f64 = 220.0;

type RunCurve<'a> = (&'a RunRecord, &'a Curve);

/// A chart for each phase, operation and panel; those of an operation have one scale.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let usable = document.runs.iter().filter(|run| run.verdict != Some(Verdict::Invalid));
    let curves = usable.flat_map(|run| run.curves.iter().map(move |curve| (run, curve)));
    let curves = curves.filter(|(_, curve)| points(curve).next().is_some());
    let mut drawn = Vec::new();
    for ((phase, operation), curves) in grouped(curves, |(_, curve)| (&curve.phase, &curve.operation)) {
        let latencies = curves.iter().flat_map(|(_, curve)| points(curve)).map(|(_, latency)| latency);
        let milliseconds = Axis::logarithmic("", latencies, short);
        let operation = if operation == TOTAL { "all operations" } else { operation };
        for (panel, curves) in grouped(curves.iter().copied(), |(run, _)| layout.chart_of(&run.cell)) {
            let name = if panel.is_empty() { phase.clone() } else { format!("{phase} · {panel}") };
            let words = format!("Latency by percentile: {name}, {operation}");
            let chart = svg(HEIGHT, &words, &lines(layout, &curves, milliseconds.clone()));
            drawn.push(card(&name, &format!("{operation}, ms"), &chart));
        }
    }
    cards(&layout.legend(), &drawn, "Each run is a line. Invalid runs are omitted.")
}

/// The points that a logarithmic scale can show.
fn points(curve: &Curve) -> impl Iterator<Item = Point> {
    let all = curve.points.iter().copied();
    all.filter(|(percentile, latency)| *percentile <= MOST_PERCENTILE && *latency > 0.0)
}

fn lines(layout: &SeriesLayout, curves: &[RunCurve], milliseconds: Axis) -> Markup {
    let percentiles = curves.iter().flat_map(|(_, curve)| points(curve)).map(|(percentile, _)| percentile);
    let plot = Plot::new(HEIGHT, Axis::percentiles(percentiles.fold(0.0, f64::max)), milliseconds);
    let line = |(run, curve): &RunCurve| Line::of(layout.series_of(&run.cell), points(curve).collect());
    let lines: Vec<Line> = curves.iter().map(line).collect();
    html! {
        (plot.frame())
        @for line in &lines { (plot.line(line, 1.3)) }
        (plot.numbers(layout, &lines))
    }
}

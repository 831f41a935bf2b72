//! Latency by percentile, both by logarithm: a line for each run.

use super::{
    super::{format, layout::Layout, layout::grouped},
    Area, Axis, Failure, Line, MOST_PANELS, Spot,
    axis::MOST_PERCENTILE,
    card, cards, colour, left_out, lines, plot, svg,
};
use crate::document::{Curve, Document, RunRecord};
use dragstrip_crds::run::Verdict;
use dragstrip_results::result::TOTAL;
use maud::Markup;

/// Percentiles that tell their latencies on hover.
const TOLD: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

type Drawn<'a> = (&'a RunRecord, &'a Curve);

/// A chart for each phase, operation and panel, all of an operation on one scale.
pub fn draw(document: &Document, layout: &Layout) -> Option<Markup> {
    let believed = document.runs.iter().filter(|run| run.verdict != Some(Verdict::Invalid));
    let curves = believed.flat_map(|run| run.curves.iter().map(move |curve| (run, curve)));
    let curves = curves.filter(|(_, curve)| latencies(curve).next().is_some());
    let by_operation = grouped(curves, |(_, curve)| (&curve.phase, &curve.operation));
    let mut panels = Vec::new();
    let operations = |phase: &str| by_operation.iter().filter(|((of, _), _)| *of == phase).count();
    let summed = |(phase, operation): &(&String, &String)| *operation == TOTAL && operations(phase) == 2;
    for ((phase, operation), curves) in by_operation.iter().filter(|(key, _)| !summed(key)) {
        let all: Vec<f64> =
            curves.iter().flat_map(|(_, curve)| latencies(curve)).map(|(_, latency)| latency).collect();
        for (panel, curves) in grouped(curves.iter().copied(), |(run, _)| layout.panel_of(&run.cell)) {
            let operation = if *operation == TOTAL { "all operations" } else { operation };
            let name = if panel.is_empty() { (*phase).clone() } else { format!("{phase} · {panel}") };
            panels.push((name, operation, curves, Axis::logarithmic("", all.iter().copied(), format::short)));
        }
    }
    let note = format!("Each run is a line; Invalid ones are not drawn.{}", left_out(panels.len()));
    let drawn: Vec<Markup> = panels
        .into_iter()
        .take(MOST_PANELS)
        .map(|(name, operation, curves, milliseconds)| {
            let words = format!("Latency by percentile: {name}, {operation}");
            card(
                &name,
                &format!("{operation}, ms"),
                &svg(220, &words, |area| paint(area, layout, &curves, milliseconds)),
            )
        })
        .collect();
    cards(&layout.legend(), &drawn, &note)
}

/// What a logarithm can show.
fn latencies(curve: &Curve) -> impl Iterator<Item = (f64, f64)> {
    curve
        .points
        .iter()
        .copied()
        .filter(|(percentile, latency)| *percentile <= MOST_PERCENTILE && *latency > 0.0)
}

fn paint(area: &Area, layout: &Layout, curves: &[Drawn], milliseconds: Axis) -> Result<Vec<Spot>, Failure> {
    let most = curves
        .iter()
        .flat_map(|(_, curve)| latencies(curve))
        .map(|(percentile, _)| percentile)
        .fold(0.0, f64::max);
    let mut chart = plot(area, Axis::percentiles(most), milliseconds)?;
    let drawn: Vec<Line> = curves
        .iter()
        .map(|(run, curve)| Line {
            colour: colour(layout.series_of(&run.cell)),
            points: latencies(curve).collect(),
        })
        .collect();
    lines(&mut chart, &drawn, 4)?;
    let mut spots = Vec::new();
    for (name, curves) in grouped(curves, |(run, _)| layout.series_name(&run.cell)) {
        for percentile in TOLD {
            let at = |curve: &Curve| {
                latencies(curve).find(|(at, _)| *at >= percentile - 1e-9).map(|(_, latency)| latency)
            };
            let told: Vec<f64> = curves.iter().filter_map(|(_, curve)| at(curve)).collect();
            let Some(first) = told.first() else { continue };
            let latencies = told.iter().copied().map(format::short).collect::<Vec<_>>().join(", ");
            let point = chart.backend_coord(&(percentile, *first));
            spots.push(Spot::around(point, format!("{name}: p{percentile} {latencies} ms")));
        }
    }
    Ok(spots)
}

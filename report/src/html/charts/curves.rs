//! Latency by percentile, both by logarithm: a line for each run.

use super::{
    super::{format, layout::Layout},
    Area, Axis, Failure, Line, MOST_PANELS, Spot,
    axis::MOST_PERCENTILE,
    card, cards, colour, left_out, lines, numbers, plot, svg,
};
use crate::{
    document::{Curve, Document, RunRecord},
    layout::{Phases, grouped},
};
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
    let phases = Phases::of(&document.rows);
    let twin = |(run, curve): &Drawn| {
        let another = |other: &Curve| other.phase == curve.phase && other.operation != TOTAL;
        curve.operation == TOTAL && phases.has_one(&run.cell, &curve.phase) && run.curves.iter().any(another)
    };
    let curves = curves.filter(|drawn| !twin(drawn) && latencies(drawn.1).next().is_some());
    let by_operation = grouped(curves, |(_, curve)| (&curve.phase, &curve.operation));
    let mut panels = Vec::new();
    for ((phase, operation), curves) in &by_operation {
        let all: Vec<f64> =
            curves.iter().flat_map(|(_, curve)| latencies(curve)).map(|(_, latency)| latency).collect();
        for (panel, curves) in grouped(curves.iter().copied(), |(run, _)| layout.chart_of(&run.cell)) {
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
        .map(|(run, curve)| {
            let series = layout.series_of(&run.cell);
            Line { series, colour: colour(series), points: latencies(curve).collect() }
        })
        .collect();
    lines(&mut chart, &drawn, 4)?;
    numbers(area, &chart, layout, &drawn)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Cell, Row};

    #[test]
    fn a_curve_of_all_operations_is_not_drawn_beside_that_of_the_only_one() {
        let mut document = Document::default();
        for (variant, operations) in
            [("a", ["INCR", TOTAL].as_slice()), ("b", &["GET", TOTAL]), ("c", &[TOTAL])]
        {
            let cell = Cell { variant: variant.to_owned(), values: Vec::new() };
            let curve = |operation: &&str| Curve {
                phase: "load".to_owned(),
                operation: (*operation).to_owned(),
                points: vec![(0.0, 1.0), (99.0, 2.0)],
            };
            let row = |operation: &&str| Row {
                cell: cell.clone(),
                phase: "load".to_owned(),
                operation: (*operation).to_owned(),
                ..Row::default()
            };
            document.rows.extend(operations.iter().map(row));
            let curves = operations.iter().map(curve).collect();
            document.runs.push(RunRecord { cell: cell.clone(), curves, ..RunRecord::default() });
        }
        let drawn =
            draw(&document, &Layout::of(&document)).map(maud::PreEscaped::into_string).unwrap_or_default();
        let lines = |operation: &str| {
            let chart = drawn.split(&format!("load, {operation}\"")).nth(1).unwrap_or_default();
            let chart = chart.split("</svg>").next().unwrap_or_default();
            (0..3).filter(|series| chart.contains(&format!("class=\"s{series}\""))).count()
        };
        assert_eq!(["INCR", "GET", "all operations"].map(lines), [1, 1, 1], "{drawn}");
    }
}

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
    select::{RowIndex, grouped},
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
    let index = RowIndex::of(&document.rows);
    let repeats = |(run, curve): &RunCurve| {
        let another = |other: &Curve| other.phase == curve.phase && other.operation != TOTAL;
        curve.operation == TOTAL
            && index.has_single_operation(&run.cell, &curve.phase)
            && run.curves.iter().any(another)
    };
    let curves = curves.filter(|drawn| !repeats(drawn) && points(drawn.1).next().is_some());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Cell, Row};

    #[test]
    fn the_curve_of_the_total_is_omitted_beside_that_of_the_only_operation() {
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
        let drawn = draw(&document, &SeriesLayout::of(&document))
            .map(maud::PreEscaped::into_string)
            .unwrap_or_default();
        let lines = |operation: &str| {
            let chart = drawn.split(&format!("load, {operation}\"")).nth(1).unwrap_or_default();
            let chart = chart.split("</svg>").next().unwrap_or_default();
            (0..3).filter(|series| chart.contains(&format!("class=\"s{series}\""))).count()
        };
        assert_eq!(["INCR", "GET", "all operations"].map(lines), [1, 1, 1], "{drawn}");
    }
}

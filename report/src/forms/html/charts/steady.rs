//! Throughput and p99 by the second of unsteady repetitions, with that part marked.

use super::{
    super::super::words::intervals,
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Point, svg},
    timelines::{averaged, seconds_label},
};
use crate::{
    document::{Document, RunRecord, Timeline},
    figures::short,
};
use dragstrip_crds::run::VerdictReason;
use dragstrip_results::latency_series::PercentileSeries;
use maud::{Markup, html};

const HEIGHT: f64 = 140.0;
/// Room above the line for the name of the marked part.
const ABOVE: f64 = 1.3;

pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let findings = document.runs.iter().flat_map(|run| {
        run.timelines
            .iter()
            .flat_map(move |timeline| timeline.findings.iter().map(move |found| (run, timeline, found)))
    });
    let drawn: Vec<Markup> =
        findings.map(|(run, timeline, found)| finding(document, layout, run, timeline, found)).collect();
    let note = "Repetitions whose throughput stalled, was at another level for a part of the time, or rose or fell. The marked part is what the check NotSteady found.";
    cards(&html! {}, &drawn, note)
}

fn finding(
    document: &Document,
    layout: &SeriesLayout,
    run: &RunRecord,
    timeline: &Timeline,
    found: &VerdictReason,
) -> Markup {
    let name = format!("{} · {}", run.cell.label(&document.axes), timeline.phase);
    let about = format!("{}, repetition {}", document.describe(run), timeline.repetition);
    let series = layout.series_of(&run.cell);
    let seconds = timeline.operations.len() as f64;
    let throughput = chart("ops/s", seconds, &averaged(&timeline.operations), series, found);
    let p99 = timeline.p99.as_ref().map(latencies).filter(|points| points.len() > 1);
    let p99 = p99.map(|points| chart("p99 ms", seconds, &points, series, found));
    let content = html! { (throughput) @if let Some(chart) = p99 { (chart) } p.why { (found.message) } };
    card(&name, &about, &content)
}

/// The middle of each part and its percentile.
fn latencies(p99: &PercentileSeries) -> Vec<Point> {
    let parts = p99.milliseconds.iter().enumerate();
    let point =
        |(part, value): (usize, &Option<f64>)| Some(((part as f64 + 0.5) * p99.seconds as f64, (*value)?));
    parts.filter_map(point).collect()
}

fn chart(unit: &'static str, seconds: f64, points: &[Point], series: usize, found: &VerdictReason) -> Markup {
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let across = Axis::from_zero("", seconds, seconds_label);
    let plot = Plot::new(HEIGHT, across, Axis::from_zero(unit, most * ABOVE, short));
    let parts = found.intervals.iter().map(|one| (f64::from(one.from_second), f64::from(one.to_second)));
    let parts: Vec<Point> = parts.collect();
    let first = found.intervals.get(..1).unwrap_or_default();
    let more = if parts.len() > 1 { format!(" and {} more", parts.len() - 1) } else { String::new() };
    let words = intervals(first) + &more;
    let content = html! {
        (plot.shaded(&parts, &words))
        (plot.frame())
        (plot.line(&Line::of(series, points.to_vec()), 1.5))
    };
    svg(HEIGHT, &format!("{unit} by the second: {words}"), &content)
}

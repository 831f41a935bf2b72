//! Throughput second by second: a small chart for each combination and phase.

use super::{
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    series::SeriesLayout,
    svg::{Ink, Point, svg},
};
use crate::{
    document::{Document, RunRecord, Timeline},
    figures::short,
    select::grouped,
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

const HEIGHT: f64 = 120.0;
/// The points of a line: in longer ones, each is the mean of several seconds.
const MOST_POINTS: usize = 110;

type RunTimeline<'a> = (&'a RunRecord, &'a Timeline);

/// The lines of a combination's runs share a chart.
pub fn draw(document: &Document, layout: &SeriesLayout) -> Option<Markup> {
    let timelines =
        document.runs.iter().flat_map(|run| run.timelines.iter().map(move |timeline| (run, timeline)));
    let timelines = timelines.filter(|(_, timeline)| timeline.operations.len() > 1);
    let panels = grouped(timelines, |(run, timeline)| (&run.cell, &timeline.phase));
    let drawn: Vec<Markup> = panels
        .into_iter()
        .map(|((cell, phase), timelines)| {
            let name = format!("{} · {phase}", cell.label(&document.axes));
            let (least, most) = extremes(&timelines);
            let about = format!("{} to {} ops/s", short(least), short(most));
            let words = format!("Second by second: {name}, {about}");
            let throughput = svg(HEIGHT, &words, &lines(layout, &timelines, most));
            card(&name, &about, &html! { (throughput) (hit_ratios(layout, &timelines, &name)) })
        })
        .collect();
    let note = "Operations per second; each chart has a scale of its own. Each repetition is a line, an Invalid one dashed.";
    cards(&html! {}, &drawn, note)
}

fn extremes(timelines: &[RunTimeline]) -> (f64, f64) {
    let seconds = timelines.iter().flat_map(|(_, timeline)| &timeline.operations).map(|count| *count as f64);
    let (least, most) =
        seconds.fold((f64::MAX, 0.0_f64), |(least, most), count| (least.min(count), most.max(count)));
    (least.min(most), most)
}

fn lines(layout: &SeriesLayout, timelines: &[RunTimeline], most: f64) -> Markup {
    let seconds = timelines.iter().map(|(_, timeline)| timeline.operations.len()).max().unwrap_or(1);
    let plot = Plot::new(
        HEIGHT,
        Axis::from_zero("", seconds as f64, seconds_label),
        Axis::from_zero("", most * 1.08, short),
    );
    let line = |(run, timeline): &RunTimeline| {
        let line = Line::of(layout.series_of(&run.cell), averaged(&timeline.operations));
        if run.verdict == Some(Verdict::Invalid) { Line { ink: Ink::Bad, ..line } } else { line }
    };
    html! {
        (plot.frame())
        @for timeline in timelines { (plot.line(&line(timeline), 1.0)) }
    }
}

/// The share of reads that found their key, below the throughput; nothing if all did.
fn hit_ratios(layout: &SeriesLayout, timelines: &[RunTimeline], name: &str) -> Markup {
    let line = |(run, timeline): &RunTimeline| {
        let hits = timeline.hits.as_ref()?;
        let at = |part: usize| (part as f64 + 0.5) * hits.seconds as f64;
        let points = hits.ratios().enumerate().filter_map(|(part, ratio)| Some((at(part), ratio? * 100.0)));
        Some(Line::of(layout.series_of(&run.cell), points.collect()))
    };
    let lines: Vec<Line> = timelines.iter().filter_map(line).collect();
    let seconds = timelines.iter().map(|(_, timeline)| timeline.operations.len()).max().unwrap_or(1);
    let across = Axis::from_zero("", seconds as f64, seconds_label);
    let plot = Plot::new(HEIGHT, across, Axis::from_zero("hits %", 100.0, short));
    let content = html! { (plot.frame()) @for line in &lines { (plot.line(line, 1.0)) } };
    html! { @if !lines.is_empty() { (svg(HEIGHT, &format!("Hit ratio by the second: {name}"), &content)) } }
}

/// Seconds on an axis; the 0 would stand below the other axis' 0.
pub fn seconds_label(value: f64) -> String {
    if value > 0.0 { format!("{value} s") } else { String::new() }
}

pub fn averaged(operations: &[u64]) -> Vec<Point> {
    let width = operations.len().div_ceil(MOST_POINTS).max(1);
    let buckets = operations.chunks(width).enumerate();
    let mean = |bucket: &[u64]| bucket.iter().map(|count| *count as f64).sum::<f64>() / bucket.len() as f64;
    buckets.map(|(index, bucket)| ((index * width) as f64 + width as f64 / 2.0, mean(bucket))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_becomes_a_line_of_few_points_with_the_same_mean() {
        let points = averaged(&(0..3600).collect::<Vec<u64>>());
        assert!(points.len() <= MOST_POINTS, "{} points", points.len());
        let mean = points.iter().map(|(_, count)| count).sum::<f64>() / points.len() as f64;
        assert!((mean - 1799.5).abs() < 20.0, "{mean}");
    }
}

//! Throughput second by second: a small chart for each combination and phase.

use super::{
    super::{format, layout::Layout},
    Area, Axis, BAD, Failure, Line, MOST_PANELS, Spot, card, cards, colour, left_out, lines, plot, svg,
};
use crate::{
    document::{Document, RunRecord, Timeline},
    layout::grouped,
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

/// Points of a line; of longer ones neighbouring seconds are averaged.
const MOST_POINTS: usize = 110;

type Drawn<'a> = (&'a RunRecord, &'a Timeline);

/// Lines of one combination's runs share a chart.
pub fn draw(document: &Document, layout: &Layout) -> Option<Markup> {
    let timelines =
        document.runs.iter().flat_map(|run| run.timelines.iter().map(move |timeline| (run, timeline)));
    let timelines = timelines.filter(|(_, timeline)| timeline.operations.len() > 1);
    let panels = grouped(timelines, |(run, timeline)| (&run.cell, &timeline.phase));
    let note = format!(
        "Operations per second, each chart with a scale of its own; each repetition is a line, an Invalid one dashed.{}",
        left_out(panels.len())
    );
    let drawn: Vec<Markup> = panels
        .into_iter()
        .take(MOST_PANELS)
        .map(|((cell, phase), timelines)| {
            let name = format!("{} · {phase}", cell.label(&document.axes));
            let (least, most) = extremes(&timelines);
            let about = format!("{} to {} ops/s", format::short(least), format::short(most));
            let words = format!("Second by second: {name}, {about}");
            card(&name, &about, &svg(120, &words, |area| paint(area, layout, &timelines, most)))
        })
        .collect();
    cards(&html! {}, &drawn, &note)
}

fn extremes(timelines: &[Drawn]) -> (f64, f64) {
    let seconds = timelines.iter().flat_map(|(_, timeline)| &timeline.operations).map(|count| *count as f64);
    let (least, most) =
        seconds.fold((f64::MAX, 0.0_f64), |(least, most), count| (least.min(count), most.max(count)));
    (least.min(most), most)
}

fn paint(area: &Area, layout: &Layout, timelines: &[Drawn], most: f64) -> Result<Vec<Spot>, Failure> {
    let seconds = timelines.iter().map(|(_, timeline)| timeline.operations.len()).max().unwrap_or(1);
    let x =
        Axis::from_zero(
            "",
            seconds as f64,
            |value| if value > 0.0 { format!("{value} s") } else { String::new() },
        );
    let mut chart = plot(area, x, Axis::from_zero("", most * 1.08, format::short))?;
    let drawn: Vec<Line> = timelines
        .iter()
        .map(|(run, timeline)| {
            let series = layout.series_of(&run.cell);
            let colour = if run.verdict == Some(Verdict::Invalid) { BAD } else { colour(series) };
            Line { series, colour, points: averaged(&timeline.operations) }
        })
        .collect();
    lines(&mut chart, &drawn, 3)?;
    Ok(Vec::new())
}

fn averaged(operations: &[u64]) -> Vec<(f64, f64)> {
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

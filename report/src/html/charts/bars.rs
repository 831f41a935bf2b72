//! Throughput and latency of all combinations as bars with error bars, every repetition a dot.

use super::{
    super::{format, layout::Layout, verdicts},
    Area, Axis, BAD, FINE, Failure, INK, MUTED, Plot, Spot, WIDTH, card, cards, colour, svg, text,
};
use crate::{
    document::{Document, Row},
    figures,
    layout::{grouped, has_ratio, phase_of, standing},
};
use maud::{Markup, html};
use plotters::{
    element::{Circle, Cross, PathElement, Rectangle, Text},
    prelude::ChartBuilder,
    style::{Color, text_anchor::HPos},
};

/// More bars than this are a table.
const MOST_BARS: usize = 64;
/// Pixels of a group's heading, and of a bar with its name above it.
const HEADING: u32 = 26;
const BAR: u32 = 32;

/// A chart for each phase, of throughput, of p99 and of memory.
pub fn draw(document: &Document, layout: &Layout) -> Option<Markup> {
    let metrics = ["OperationsPerSecond", "ElementsPerSecond", "P99Milliseconds", "ServerUsedBytes"];
    let by_metric = metrics.map(|metric| grouped(standing(document, metric), |row| phase_of(row)));
    let mut drawn = Vec::new();
    let mut skipped = 0;
    for (metric, phases) in metrics.iter().zip(by_metric) {
        for (phase, rows) in phases {
            match rows.len() {
                0 | 1 => (),
                2..=MOST_BARS => drawn.push(chart(layout, metric, &phase, &rows)),
                _ => skipped += 1,
            }
        }
    }
    let note = "Mean of repetitions with its 95 % confidence interval; each repetition is a dot, an Invalid one a cross that is in no mean.";
    let note = if skipped > 0 {
        format!("{note} {skipped} charts of more than {MOST_BARS} bars are not drawn.")
    } else {
        note.to_owned()
    };
    cards(&html! {}, &drawn, &note)
}

fn chart(layout: &Layout, metric: &str, phase: &str, rows: &[&Row]) -> Markup {
    let groups = grouped(rows.iter().copied(), |row| layout.panel_of(&row.cell));
    let headings = groups.iter().filter(|(name, _)| !name.is_empty()).count();
    let height =
        HEADING * u32::try_from(headings).unwrap_or(0) + BAR * u32::try_from(rows.len()).unwrap_or(0);
    let less =
        if rows.first().is_some_and(|row| row.more_is_better == Some(false)) { "less is better" } else { "" };
    let words = format!("Bars: {} in {phase}", figures::heading(metric, ""));
    let drawn = svg(height, &words, |area| paint(area, layout, &groups, height));
    card(&format!("{} · {phase}", figures::heading(metric, "")), less, &drawn)
}

fn paint(
    area: &Area,
    layout: &Layout,
    groups: &[(String, Vec<&Row>)],
    height: u32,
) -> Result<Vec<Spot>, Failure> {
    let values = groups.iter().flat_map(|(_, rows)| rows).flat_map(|row| {
        let mean = row.spread.map(|spread| spread.mean + spread.confidence95.unwrap_or(0.0));
        row.samples.iter().map(|sample| sample.value).chain(mean)
    });
    let most = values.fold(0.0, f64::max) * 1.04;
    // Pixels from below: bars are laid out from above.
    let mut chart = ChartBuilder::on(area).margin_left(2 * FINE).margin_right(4 * FINE).build_cartesian_2d(
        Axis::from_zero("", most, format::short),
        Axis::from_zero("", f64::from(height), format::short),
    )?;
    let mut spots = Vec::new();
    let mut top = f64::from(height);
    for (name, rows) in groups {
        if !name.is_empty() {
            let heading = Text::new(name.clone(), (0.0, top - 14.0), text(MUTED, 12, HPos::Left));
            chart.draw_series([heading])?;
            top -= f64::from(HEADING);
        }
        for row in rows {
            bar(&mut chart, layout, row, top, most)?;
            let up = chart.backend_coord(&(0.0, top)).1;
            let size = ((WIDTH * FINE).cast_signed(), (BAR * FINE).cast_signed());
            spots.push(Spot { at: (0, up), size, text: told(row) });
            top -= f64::from(BAR);
        }
    }
    Ok(spots)
}

/// Name and figure above the bar, dots and error bar on it.
fn bar(chart: &mut Plot<'_, '_>, layout: &Layout, row: &Row, top: f64, most: f64) -> Result<(), Failure> {
    let mean = row.spread.map(|spread| spread.mean);
    let (below, middle) = (top - f64::from(BAR) + 4.0, top - 22.0);
    chart.draw_series([
        Text::new(layout.series_name(&row.cell), (0.0, top - 8.0), text(INK, 12, HPos::Left)),
        Text::new(figure_of(row), (most, top - 8.0), text(INK, 12, HPos::Right)),
    ])?;
    let fill = colour(layout.series_of(&row.cell)).filled();
    chart.draw_series(mean.map(|mean| Rectangle::new([(0.0, below), (mean, top - 16.0)], fill)))?;
    let (invalid, valid): (Vec<_>, Vec<_>) =
        row.samples.iter().partition(|sample| verdicts::is_invalid(sample));
    chart.draw_series(
        valid.iter().map(|sample| Circle::new((sample.value, middle), FINE + 2, INK.filled())),
    )?;
    let cross = BAD.stroke_width(2 * FINE);
    chart.draw_series(invalid.iter().map(|sample| Cross::new((sample.value, middle), 4 * FINE, cross)))?;
    let interval = row.spread.and_then(|spread| Some((spread.mean, spread.confidence95?)));
    chart.draw_series(interval.map(|(mean, half)| {
        let (low, high) = ((mean - half).max(0.0), mean + half);
        let whisker = [(low, 4.0), (low, -4.0), (low, 0.0), (high, 0.0), (high, -4.0), (high, 4.0)];
        PathElement::new(whisker.map(|(value, up)| (value, middle + up)), INK.stroke_width(FINE + 1))
    }))?;
    Ok(())
}

/// The mean, and how it stands to the baseline's.
fn figure_of(row: &Row) -> String {
    let Some(spread) = row.spread else { return "Invalid".to_owned() };
    let figure = figures::figure(&row.metric, spread.mean);
    row.comparison.as_ref().map_or(figure.clone(), |found| format!("{figure}  {}", verdicts::brief(found)))
}

fn told(row: &Row) -> String {
    let samples = row.samples.iter().map(|sample| {
        let mark = if verdicts::is_invalid(sample) { " (Invalid)" } else { "" };
        format!("{}{mark}", figures::figure(&row.metric, sample.value))
    });
    let samples = samples.collect::<Vec<_>>().join(", ");
    let standing = row.comparison.as_ref().map_or(String::new(), |found| {
        let word = verdicts::word(found.verdict);
        if has_ratio(found) {
            format!("\n{}× of the baseline: {word}", figures::ratio(found.ratio.mid))
        } else {
            format!("\n{word}")
        }
    });
    format!("{}: {samples} {}{standing}", row.cell.variant, row.unit)
}

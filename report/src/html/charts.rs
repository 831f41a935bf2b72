//! Charts, drawn by plotters as SVG and put under the page's style: colours become classes,
//! so that the dark has its own, and spots with titles tell their figures on hover.
//!
//! Every chart is drawn for a phone's width, where its text has 12 px, and laid out side by
//! side on wider screens.

pub mod axis;
pub mod bars;
pub mod curves;
pub mod saturation;
pub mod timelines;

use super::layout::{COLOURS, Layout};
use crate::layout::grouped;
use axis::Axis;
use maud::{Markup, PreEscaped, html};
use plotters::prelude::IntoDrawingArea;
use plotters::{
    coord::Shift,
    element::{Circle, PathElement, Text},
    prelude::{
        Cartesian2d, ChartBuilder, ChartContext, DrawingArea, DrawingAreaErrorKind, RGBColor, SVGBackend,
    },
    style::{
        Color, IntoFont, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

/// Width of a chart in pixels of a phone.
const WIDTH: u32 = 340;
/// plotters puts everything on whole pixels: there are so many to one of a phone.
const FINE: u32 = 3;
/// Pixels at the right of a plot, for numbers at the ends of lines.
const NUMBER: u32 = 28;
/// Pixels of a line of text.
const TEXT: u32 = 12;
/// More charts of one kind than this are not read by anybody.
const MOST_PANELS: usize = 36;

/// Stand for what the style sheet says; plotters knows no classes.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
const BAD: RGBColor = RGBColor(3, 3, 3);
const MUTED: RGBColor = RGBColor(4, 4, 4);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Failure = DrawingAreaErrorKind<std::io::Error>;

/// A place that tells something when it is pointed at, in fine pixels.
struct Spot {
    at: (i32, i32),
    size: (i32, i32),
    text: String,
}

impl Spot {
    fn around((x, y): (i32, i32), text: String) -> Self {
        let reach = 7 * FINE.cast_signed();
        Self { at: (x - reach, y - reach), size: (2 * reach, 2 * reach), text }
    }
}

/// One line of a chart.
struct Line {
    series: usize,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// The colour of a series.
fn colour(series: usize) -> RGBColor {
    RGBColor(9, 9, u8::try_from(series % COLOURS).unwrap_or_default())
}

fn class_of(colour: RGBColor) -> String {
    match colour {
        INK => "ink".to_owned(),
        GRID => "grid".to_owned(),
        BAD => "bad".to_owned(),
        MUTED => "muted".to_owned(),
        RGBColor(_, _, series) => series.to_string(),
    }
}

/// A chart with its heading; what it says in words is for those who cannot see it.
fn card(name: &str, about: &str, chart: &Markup) -> Markup {
    html! { figure.card { figcaption { b { (name) } span { (about) } } (chart) } }
}

/// Cards in columns, as many as there is room for, below what their colours mean.
fn cards(legend: &Markup, cards: &[Markup], note: &str) -> Option<Markup> {
    (!cards.is_empty()).then(|| {
        html! {
            (legend)
            @if !note.is_empty() { p.about { (note) } }
            div.cards { @for card in cards { (card) } }
        }
    })
}

/// What to say where not all is drawn.
fn left_out(count: usize) -> String {
    match count.saturating_sub(MOST_PANELS) {
        0 => String::new(),
        more => format!(" {more} more are not drawn: the report as JSON has them."),
    }
}

/// An SVG of a height in pixels. What cannot be drawn says so in its place.
fn svg(height: u32, words: &str, paint: impl FnOnce(&Area) -> Result<Vec<Spot>, Failure>) -> Markup {
    let size = (WIDTH * FINE, height * FINE);
    let mut drawn = String::new();
    let painted = {
        let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        paint(&area).and_then(|spots| area.present().map(|()| spots))
    };
    match painted {
        Ok(spots) => styled(&drawn, size, words, &spots),
        Err(error) => html! { p.note { "This chart could not be drawn: " (error) } },
    }
}

/// plotters' text with classes for its colours and without what the style sheet says.
fn styled(drawn: &str, size: (u32, u32), words: &str, spots: &[Spot]) -> Markup {
    let mut body = drawn.split_once('>').map_or("", |(_, body)| body).replace("</svg>", "");
    let said_by_style = [
        "opacity=\"1\"",
        "font-family=\"sans-serif\"",
        "font-size=\"36\"",
        "stroke=\"none\"",
        "stroke-width=\"3\"",
        "fill=\"none\"",
    ];
    for part in said_by_style {
        body = body.replace(&format!(" {part}"), "");
    }
    body = body.replace('\n', "");
    for colour in [INK, GRID, BAD, MUTED].into_iter().chain((0..COLOURS).map(colour)) {
        let RGBColor(red, green, blue) = colour;
        let class = class_of(colour);
        body = body
            .replace(&format!("fill=\"#{red:02X}{green:02X}{blue:02X}\""), &format!("class=\"f{class}\""));
        body = body
            .replace(&format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\""), &format!("class=\"s{class}\""));
    }
    html! {
        svg viewBox={ "0 0 " (size.0) " " (size.1) } role="img" aria-label=(words) {
            (PreEscaped(body))
            @for Spot { at, size, text } in spots {
                rect.spot x=(at.0) y=(at.1) width=(size.0) height=(size.1) { title { (text) } }
            }
        }
    }
}

/// Text of a size in pixels.
fn text(colour: RGBColor, pixels: u32, across: HPos) -> TextStyle<'static> {
    // plotters-svg divides by 1.24 what it is told.
    let size = f64::from(pixels * FINE) * 1.24;
    ("sans-serif", size).into_font().color(&colour).pos(Pos::new(across, VPos::Center))
}

/// Axes with grid and names; what is drawn comes after.
fn plot<'a, 'b>(area: &'a Area<'b>, x: Axis, y: Axis) -> Result<Plot<'a, 'b>, Failure> {
    let label = || ("sans-serif", f64::from(12 * FINE) * 1.24).into_font().color(&MUTED);
    let (x_text, y_text) = (x.text, y.text);
    let (x_name, y_name) = (x.name.clone(), y.name.clone());
    let mut chart = ChartBuilder::on(area)
        .margin_right(NUMBER * FINE)
        .margin_top(8 * FINE)
        .x_label_area_size(if x_name.is_empty() { 22 } else { 36 } * FINE)
        .y_label_area_size(if y_name.is_empty() { 44 } else { 60 } * FINE)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(GRID.mix(0.0))
        .bold_line_style(GRID.stroke_width(FINE))
        .axis_style(GRID.stroke_width(FINE))
        .set_all_tick_mark_size(4 * FINE)
        .label_style(label())
        .x_label_formatter(&|value| x_text(*value))
        .y_label_formatter(&|value| y_text(*value))
        .x_desc(x_name)
        .y_desc(y_name)
        .axis_desc_style(label())
        .draw()?;
    Ok(chart)
}

/// Draws lines of so many fine pixels, without the points that fall on one that is there.
fn lines(plot: &mut Plot<'_, '_>, lines: &[Line], width: u32) -> Result<(), Failure> {
    for line in lines {
        let mut last = (i32::MIN, i32::MIN);
        let mut points = Vec::new();
        for point in &line.points {
            let at = plot.backend_coord(point);
            if at.0.abs_diff(last.0) >= 6 * FINE || at.1.abs_diff(last.1) >= 6 * FINE {
                points.push(*point);
                last = at;
            }
        }
        plot.draw_series([PathElement::new(points, line.colour.stroke_width(width))])?;
    }
    Ok(())
}

/// Writes at the ends of lines which series they are, since not everybody sees colours: a number
/// for each, none on another.
fn numbers(area: &Area, plot: &Plot<'_, '_>, layout: &Layout, lines: &[Line]) -> Result<(), Failure> {
    let ends = lines.iter().filter_map(|line| Some((line.series, plot.backend_coord(line.points.last()?))));
    let mut ends: Vec<(usize, (i32, i32))> = grouped(ends, |(series, _)| *series)
        .into_iter()
        .filter_map(|(series, ends)| {
            let middle = ends.iter().map(|(_, (_, y))| y).sum::<i32>() / i32::try_from(ends.len()).ok()?;
            Some((series, (ends.iter().map(|(_, (x, _))| *x).max()?, middle)))
        })
        .collect();
    ends.sort_by_key(|(_, (_, y))| *y);
    let mut heights: Vec<i32> = ends.iter().map(|(_, (_, y))| *y).collect();
    apart(&mut heights, (TEXT * FINE).cast_signed(), plot.plotting_area().get_pixel_range().1.end);
    let fine = FINE.cast_signed();
    for ((series, (x, _)), y) in ends.into_iter().zip(heights) {
        let Some(number) = layout.number(series) else { continue };
        area.draw(&Circle::new((x + 7 * fine, y), 3 * FINE, colour(series).filled()))?;
        area.draw(&Text::new(number, (x + 12 * fine, y), text(INK, TEXT, HPos::Left)))?;
    }
    Ok(())
}

/// Moves `heights`, which rise, until they are `least` apart, and above `bottom` as far as there
/// is room.
fn apart(heights: &mut [i32], least: i32, bottom: i32) {
    let mut from = i32::MIN;
    for height in heights.iter_mut() {
        *height = (*height).max(from);
        from = *height + least;
    }
    let mut to = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(to);
        to = *height - least;
    }
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn numbers_at_lines_that_end_together_stand_below_each_other() {
        for (mut heights, expected) in [
            (vec![10, 11, 40], [10, 20, 40]),
            (vec![93, 94, 95], [80, 90, 100]),
            (vec![10, 50, 99], [10, 50, 99]),
        ] {
            apart(&mut heights, 10, 100);
            assert_eq!(heights, expected);
        }
    }
}

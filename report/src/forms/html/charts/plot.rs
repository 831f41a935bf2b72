//! Lines between two axes.

use super::{
    axis::Axis,
    series::SeriesLayout,
    svg::{Ink, Point, TEXT, WIDTH, dot, path, pixel, polyline, rectangle, text},
};
use crate::select::grouped;
use maud::{Markup, html};

/// Room at the right for the numbers at the ends of lines.
const RIGHT: f64 = WIDTH - 28.0;
const TOP: f64 = 8.0;
/// A letter is at most this wide on average.
const LETTER: f64 = 6.4;
/// Closer points of a line coincide for the eye.
const CLOSE: f64 = 6.0;

pub struct Plot {
    x: Axis,
    y: Axis,
    left: f64,
    bottom: f64,
}

pub struct Line {
    pub series: usize,
    pub ink: Ink,
    pub points: Vec<Point>,
}

impl Line {
    pub fn of(series: usize, points: Vec<Point>) -> Self {
        Self { series, ink: Ink::Series(series), points }
    }
}

impl Plot {
    pub fn new(height: f64, x: Axis, y: Axis) -> Self {
        let bottom = height - if x.name.is_empty() { 22.0 } else { 36.0 };
        let left = if y.name.is_empty() { 44.0 } else { 60.0 };
        Self { x, y, left, bottom }
    }

    pub fn at(&self, (x, y): Point) -> Point {
        let (x, y) = (self.x.share(x), self.y.share(y));
        (self.left + x * (RIGHT - self.left), self.bottom - y * (self.bottom - TOP))
    }

    pub fn frame(&self) -> Markup {
        let Self { x, y, left, bottom } = self;
        let across = |tick: &f64| left + x.share(*tick) * (RIGHT - left);
        let down = |tick: &f64| bottom - y.share(*tick) * (bottom - TOP);
        let vertical = x.ticks.iter().map(|tick| format!("M{} {TOP}V{}", pixel(across(tick)), bottom + 4.0));
        let horizontal = y.ticks.iter().map(|tick| format!("M{} {}H{RIGHT}", left - 4.0, pixel(down(tick))));
        let border = format!("M{left} {TOP}V{bottom}H{RIGHT}");
        let grid: String = vertical.chain(horizontal).chain([border]).collect();
        let middle = (bottom + TOP) / 2.0;
        html! {
            (path(Ink::Grid, 1.0, &grid))
            @for tick in &x.ticks {
                (text(Ink::Muted, (across(tick), bottom + 13.0), "middle", &(x.text)(*tick)))
            }
            @for tick in &y.ticks {
                (text(Ink::Muted, (left - 7.0, down(tick)), "end", &(y.text)(*tick)))
            }
            (text(Ink::Muted, ((left + RIGHT) / 2.0, bottom + 29.0), "middle", x.name))
            text.fmuted text-anchor="middle" transform={ "translate(8 " (middle) ") rotate(-90)" } { (y.name) }
        }
    }

    /// Marks the parts of the horizontal axis between these values, and names them in `words`.
    pub fn shaded(&self, parts: &[(f64, f64)], words: &str) -> Markup {
        let ends = parts.iter().map(|(from, to)| (self.at((*from, 0.0)).0, self.at((*to, 0.0)).0));
        let ends: Vec<Point> = ends.collect();
        let middle = ends.first().map_or(self.left, |(from, to)| f64::midpoint(*from, *to));
        let half = words.chars().count() as f64 * LETTER / 2.0;
        let middle = middle.min(WIDTH - half).max(self.left + half);
        html! {
            @for (from, to) in &ends {
                (rectangle(Ink::Shade, (*from, TOP), ((to - from).max(1.0), self.bottom - TOP)))
            }
            (text(Ink::Text, (middle, TOP + TEXT / 2.0), "middle", words))
        }
    }

    pub fn line(&self, line: &Line, width: f64) -> Markup {
        let mut points: Vec<Point> = Vec::new();
        for point in &line.points {
            let (x, y) = self.at(*point);
            let is_close = |last: &Point| (x - last.0).abs() < CLOSE && (y - last.1).abs() < CLOSE;
            if !points.last().is_some_and(is_close) {
                points.push((x, y));
            }
        }
        polyline(line.ink, width, &points)
    }

    /// The number of each series at the end of its lines, for readers who cannot distinguish the colours.
    pub fn numbers(&self, layout: &SeriesLayout, lines: &[Line]) -> Markup {
        let ends = lines.iter().filter_map(|line| Some((line.series, self.at(*line.points.last()?))));
        let end = |(series, ends): (usize, Vec<(usize, Point)>)| {
            let middle = ends.iter().map(|(_, (_, y))| y).sum::<f64>() / ends.len() as f64;
            (series, ends.iter().map(|(_, (x, _))| *x).fold(0.0, f64::max), middle)
        };
        let mut ends: Vec<_> = grouped(ends, |(series, _)| *series).into_iter().map(end).collect();
        ends.sort_by(|(_, _, one), (_, _, other)| one.total_cmp(other));
        let mut heights: Vec<f64> = ends.iter().map(|(_, _, y)| *y).collect();
        spread_out(&mut heights, TEXT, self.bottom);
        html! {
            @for ((series, x, _), y) in ends.into_iter().zip(heights) {
                @if let Some(number) = layout.number(series) {
                    (dot(Ink::Series(series), (x + 7.0, y), 3.0))
                    (text(Ink::Text, (x + 12.0, y), "start", &number))
                }
            }
        }
    }
}

/// Moves rising `heights` until they are `least` apart and, as far as possible, above `bottom`.
fn spread_out(heights: &mut [f64], least: f64, bottom: f64) {
    let mut from = f64::MIN;
    for height in heights.iter_mut() {
        *height = height.max(from);
        from = *height + least;
    }
    let mut to = bottom;
    for height in heights.iter_mut().rev() {
        *height = height.min(to);
        to = *height - least;
    }
}

#[cfg(test)]
mod tests {
    use super::spread_out;

    #[test]
    fn numbers_at_lines_that_end_together_stand_below_each_other() {
        for (mut heights, expected) in [
            (vec![10.0, 11.0, 40.0], [10.0, 20.0, 40.0]),
            (vec![93.0, 94.0, 95.0], [80.0, 90.0, 100.0]),
            (vec![10.0, 50.0, 99.0], [10.0, 50.0, 99.0]),
        ] {
            spread_out(&mut heights, 10.0, 100.0);
            assert_eq!(heights, expected);
        }
    }
}

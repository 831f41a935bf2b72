//! The elements of charts as SVG, whose classes have the style sheet's colours.

use maud::{Markup, html};
use std::fmt;

pub const WIDTH: f64 = 340.0;
pub const TEXT: f64 = 12.0;
/// The number of series colours in the style sheet.
pub const COLOURS: usize = 8;

/// Pixels from the left and from the top.
pub type Point = (f64, f64);

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ink {
    Series(usize),
    Text,
    Muted,
    Bad,
    Grid,
    /// The background of a part.
    Shade,
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Series(series) => write!(f, "{}", series % COLOURS),
            Self::Text => f.write_str("ink"),
            Self::Muted => f.write_str("muted"),
            Self::Bad => f.write_str("bad"),
            Self::Grid => f.write_str("grid"),
            Self::Shade => f.write_str("shade"),
        }
    }
}

/// A tenth of a pixel is fine enough.
pub fn pixel(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A chart; `words` describe it to those who cannot see it.
pub fn svg(height: f64, words: &str, content: &Markup) -> Markup {
    html! { svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(words) { (content) } }
}

/// `anchor` as in SVG: start, middle or end.
pub fn text(ink: Ink, (x, y): Point, anchor: &str, content: &str) -> Markup {
    html! { text class={ "f" (ink) } x=(pixel(x)) y=(pixel(y)) text-anchor=(anchor) { (content) } }
}

pub fn dot(ink: Ink, (x, y): Point, radius: f64) -> Markup {
    html! { circle class={ "f" (ink) } cx=(pixel(x)) cy=(pixel(y)) r=(radius) {} }
}

pub fn ring(ink: Ink, (x, y): Point, radius: f64) -> Markup {
    html! { circle class={ "s" (ink) } cx=(pixel(x)) cy=(pixel(y)) r=(radius) stroke-width="2" {} }
}

pub fn rectangle(ink: Ink, (x, y): Point, (width, height): Point) -> Markup {
    html! { rect class={ "f" (ink) } x=(pixel(x)) y=(pixel(y)) width=(pixel(width)) height=(pixel(height)) {} }
}

pub fn path(ink: Ink, width: f64, steps: &str) -> Markup {
    html! { path class={ "s" (ink) } stroke-width=(width) d=(steps) {} }
}

pub fn polyline(ink: Ink, width: f64, points: &[Point]) -> Markup {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", pixel(*x), pixel(*y))).collect();
    html! { polyline class={ "s" (ink) } stroke-width=(width) points=(points.join(" ")) {} }
}

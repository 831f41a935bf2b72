//! Figures that changed over the rounds of a schedule: the mean of each round, the levels, and the
//! rounds in which one level ends.

use super::{
    axis::Axis,
    card::{card, cards},
    plot::{Line, Plot},
    svg::{Ink, Point, svg},
};
use crate::{
    figures::{percent, short},
    history::{Change, Figure, History, figure_name},
};
use dragstrip_crds::suite::ComparisonVerdict;
use maud::{Markup, html};

const HEIGHT: f64 = 160.0;

/// A card for each figure that changed.
pub fn draw(history: &History) -> Option<Markup> {
    let changed = history.figures.iter().filter(|figure| !figure.changes.is_empty());
    let drawn: Vec<Markup> = changed.map(|figure| chart(history, figure)).collect();
    let note = "The mean of each round on a logarithmic scale. Bold lines are levels, red after a change for the worse; a mark shows the first round of each.";
    cards(&html! {}, &drawn, note)
}

fn ink_of(change: &Change) -> Ink {
    if change.verdict == ComparisonVerdict::Worse { Ink::Bad } else { Ink::Text }
}

/// Numbers of rounds on an axis, which begin with 1.
fn round_label(value: f64) -> String {
    if value > 0.0 { value.to_string() } else { String::new() }
}

fn chart(history: &History, figure: &Figure) -> Markup {
    let name = figure_name(figure, history);
    let changes: Vec<String> = figure.changes.iter().map(|change| percent(change.ratio.mid)).collect();
    let about = changes.join(", ");
    let points: Vec<Point> = (1_u32..)
        .zip(&figure.values)
        .filter_map(|(round, value)| Some((f64::from(round), (*value)?)))
        .collect();
    let rounds = history.rounds.len() as f64;
    let plot = Plot::new(
        HEIGHT,
        Axis::from_zero("round", rounds + 1.0, round_label),
        Axis::logarithmic("", points.iter().map(|(_, value)| *value), short),
    );
    let marks: Vec<Point> = starts(history, figure).map(|start| (start, start)).collect();
    let content = html! {
        (plot.shaded(&marks, &about))
        (plot.frame())
        (plot.line(&Line::of(0, points), 1.0))
        @for level in levels(history, figure) { (plot.line(&level, 2.5)) }
    };
    card(&name, &about, &svg(HEIGHT, &format!("{name} by round: {about}"), &content))
}

/// Where each level but the first begins: before its first round.
fn starts(history: &History, figure: &Figure) -> impl Iterator<Item = f64> {
    let place = |change: &Change| history.rounds.iter().position(|round| *round == change.round);
    figure.changes.iter().filter_map(place).map(|place| place as f64 + 0.5)
}

fn levels(history: &History, figure: &Figure) -> Vec<Line> {
    let ends: Vec<f64> = std::iter::once(0.5)
        .chain(starts(history, figure))
        .chain([history.rounds.len() as f64 + 0.5])
        .collect();
    let first = figure.changes.first().map(|change| (change.before, Ink::Text));
    let later = figure.changes.iter().map(|change| (change.after, ink_of(change)));
    let line = |(pair, (level, ink)): (&[f64], (f64, Ink))| Line {
        series: 0,
        ink,
        points: pair.iter().map(|end| (*end, level)).collect(),
    };
    ends.windows(2).zip(first.into_iter().chain(later)).map(line).collect()
}

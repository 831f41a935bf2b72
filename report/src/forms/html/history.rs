//! A history as a page: a table of the changes, and a chart for each figure that changed.

use super::{charts::history::draw, head};
use crate::{
    figures::{figure, interval, percent, ratio},
    history::{Change, Figure, History, conditions, confidence, figure_name, round_name, summary},
};
use maud::{DOCTYPE, Markup, html};

pub fn render(history: &History) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&history.title))
            body {
                header {
                    p.brand { "Dragstrip history" }
                    h1 { (history.title) }
                    p { (summary(history)) }
                }
                main {
                    @if history.changes().next().is_some() {
                        section id="changes" { h2 { "Changes" } (table(history)) }
                    }
                    @if let Some(charts) = draw(history) {
                        section id="figures" { h2 { "Figures that changed" } (charts) }
                    }
                }
                footer { "Made by Dragstrip " (env!("CARGO_PKG_VERSION")) ". Ratios have 95 % confidence intervals." }
            }
        }
    }
    .into_string()
}

fn table(history: &History) -> Markup {
    let changes: Vec<_> = history.changes().collect();
    html! {
        div.box {
            table {
                thead { tr { @for head in ["Figure", "Before", "After", "Ratio", "Confidence", "Verdict"] { th { (head) } } } }
                @for changes in changes.chunk_by(|(one, _), (other, _)| one.round == other.round) {
                    tbody { (round(changes)) @for (change, figure) in changes { (line(history, change, figure)) } }
                }
            }
        }
    }
}

/// The head of a round's changes, with the facts that changed.
fn round(changes: &[(&Change, &Figure)]) -> Markup {
    let name = changes.first().map(|(change, _)| round_name(&change.round));
    html! {
        tr { th colspan="6" { (name.unwrap_or_default()) @for fact in conditions(changes) { br; small { (fact) } } } }
    }
}

fn line(history: &History, change: &Change, of: &Figure) -> Markup {
    let shown = |value| figure(&of.metric, value);
    html! {
        tr {
            td.text { (figure_name(of, history)) }
            td { (shown(change.before)) }
            td { (shown(change.after)) }
            td { (ratio(change.ratio.mid)) " " (interval(&change.ratio)) " (" (percent(change.ratio.mid)) ")" }
            td { (confidence(change.confidence)) }
            td.v { (change.verdict) }
        }
    }
}

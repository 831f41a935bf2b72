//! A history as a page: a table of the changes, and a chart for each figure that changed.

use super::{charts::history::draw, head};
use crate::{
    figures::{figure, interval, percent, ratio},
    history::{Change, Figure, History, confidence, figure_name, round_name, summary},
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
    html! {
        div.box {
            table {
                thead { tr { @for head in ["Round", "Figure", "Before", "After", "Ratio", "Confidence", "Verdict", "Differs"] { th { (head) } } } }
                tbody { @for (change, figure) in history.changes() { (line(history, change, figure)) } }
            }
        }
    }
}

fn line(history: &History, change: &Change, of: &Figure) -> Markup {
    let shown = |value| figure(&of.metric, value);
    html! {
        tr {
            td { (round_name(&change.round)) }
            td { (figure_name(of, history)) }
            td { (shown(change.before)) }
            td { (shown(change.after)) }
            td { (ratio(change.ratio.mid)) " " (interval(&change.ratio)) " (" (percent(change.ratio.mid)) ")" }
            td { (confidence(change.confidence)) }
            td.v { (change.verdict) }
            td { @for one in &change.conditions { p { (one.fact) ": " (one.here) " instead of " (one.baseline) } } }
        }
    }
}

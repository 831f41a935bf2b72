//! Charts with headings, in as many columns as there is room for.

use maud::{Markup, html};

/// Nobody reads more charts of one kind.
pub const MOST_CARDS: usize = 36;

pub fn card(name: &str, about: &str, chart: &Markup) -> Markup {
    html! { figure.card { figcaption { b { (name) } span { (about) } } (chart) } }
}

/// All cards below a legend and a note; `None` without cards.
pub fn cards(legend: &Markup, cards: &[Markup], note: &str) -> Option<Markup> {
    let hidden = cards.len().saturating_sub(MOST_CARDS);
    (!cards.is_empty()).then(|| {
        html! {
            (legend)
            p.about {
                (note)
                @if hidden > 0 { " The page omits " (hidden) " more charts: the JSON report has their data." }
            }
            div.cards { @for card in cards.iter().take(MOST_CARDS) { (card) } }
        }
    })
}

//! Tables that the page's script can sort and filter.

use crate::{
    document::AxisHead,
    tables::{Grid, Item, Kind, Piece},
};
use maud::{Markup, html};

pub fn head(name: &str) -> Markup {
    html! { th scope="col" { (name) } }
}

pub fn filter(name: &str) -> Markup {
    html! { th scope="col" data-filter { (name) } }
}

pub fn number(name: &str) -> Markup {
    html! { th scope="col" class="n" { (name) } }
}

/// The head of an axis, whose values are sorted as declared.
pub fn axis(name: &str, values: &[String]) -> Markup {
    html! { th scope="col" data-filter data-declared=(values.join("\n")) { (name) } }
}

pub fn combination(axes: &[AxisHead]) -> Markup {
    html! { (filter("Variant")) @for one in axes { (axis(&one.name, &one.values)) } }
}

pub fn sorted(class: &str, heads: &Markup, lines: &Markup) -> Markup {
    html! { div.box { table class={ "sort" (class) } { thead { tr { (heads) } } tbody { (lines) } } } }
}

pub fn grid(grid: &Grid) -> Markup {
    let heads = html! {
        @for column in &grid.columns {
            @match &column.kind {
                Kind::Name(values) if !values.is_empty() => (axis(&column.heading, values)),
                Kind::Name(_) | Kind::Choice => (filter(&column.heading)),
                Kind::Figure => (number(&column.heading)),
                Kind::Words => (head(&column.heading)),
            }
        }
    };
    let lines = html! {
        @for line in &grid.lines {
            tr {
                @for (place, (column, item)) in grid.columns.iter().zip(line).enumerate() {
                    @match &column.kind {
                        Kind::Name(_) => th scope=[(place == 0).then_some("row")] { (cell(item)) },
                        Kind::Figure => td { (cell(item)) },
                        Kind::Choice | Kind::Words => td.v { (cell(item)) },
                    }
                }
            }
        }
    };
    sorted(" figures all", &heads, &lines)
}

fn cell(item: &Item) -> Markup {
    html! {
        @for piece in &item.0 {
            @match piece {
                Piece::Plain(text) => (text),
                Piece::Struck(text) => s { (text) },
            }
        }
    }
}

//! Tables that the page's script can sort and filter.

use crate::tables::{Column, Grid, Item, Kind, Piece};
use maud::{Markup, html};

/// The head of a column; the values of an axis are sorted as declared.
fn head(Column { heading, kind }: &Column) -> Markup {
    html! {
        @match kind {
            Kind::Name(values) if !values.is_empty() => {
                th scope="col" data-filter data-declared=(values.join("\n")) { (heading) }
            }
            Kind::Name(_) | Kind::Choice => th scope="col" data-filter { (heading) },
            Kind::Figure => th scope="col" class="n" { (heading) },
            Kind::Words => th scope="col" { (heading) },
        }
    }
}

pub fn sorted(class: &str, columns: &[Column], lines: &Markup) -> Markup {
    html! {
        div.box {
            table class={ "sort" (class) } {
                thead { tr { @for column in columns { (head(column)) } } }
                tbody { (lines) }
            }
        }
    }
}

pub fn grid(grid: &Grid) -> Markup {
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
    sorted(" figures all", &grid.columns, &lines)
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

//! The model of a table: every form renders the same cells. Pure.

use crate::document::{AxisHead, Cell};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    pub title: String,
    pub columns: Vec<Column>,
    pub lines: Vec<Vec<Item>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub heading: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Identifies the line; values of an axis have the order of their declaration.
    Name(Vec<String>),
    Figure,
    /// One of a few words, which readers may filter by.
    Choice,
    Words,
}

impl Column {
    pub fn new(heading: impl Into<String>, kind: Kind) -> Self {
        Self { heading: heading.into(), kind }
    }

    pub fn name(heading: impl Into<String>) -> Self {
        Self::new(heading, Kind::Name(Vec::new()))
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item(pub Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Plain(String),
    Struck(String),
}

impl Item {
    pub fn text(text: impl Into<String>) -> Self {
        Self(vec![Piece::Plain(text.into())])
    }

    pub fn nothing() -> Self {
        Self::text("---")
    }

    pub fn or_nothing(text: Option<String>) -> Self {
        text.map_or_else(Self::nothing, Self::text)
    }

    /// The cell in one string, with `struck` around Invalid figures.
    pub fn render(&self, plain: impl Fn(&str) -> String, struck: impl Fn(&str) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Plain(text) => plain(text),
            Piece::Struck(text) => struck(text),
        };
        self.0.iter().map(piece).collect()
    }
}

/// The columns and cells that identify a combination: its variant and the values of `axes`.
pub fn identity_columns(axes: &[(usize, &AxisHead)]) -> Vec<Column> {
    let axis = |(_, axis): &(usize, &AxisHead)| Column::new(&axis.name, Kind::Name(axis.values.clone()));
    std::iter::once(Column::name("Variant")).chain(axes.iter().map(axis)).collect()
}

pub fn identity(axes: &[(usize, &AxisHead)], cell: &Cell) -> Vec<Item> {
    let value =
        |(place, _): &(usize, &AxisHead)| Item::text(cell.values.get(*place).cloned().unwrap_or_default());
    std::iter::once(Item::text(&cell.variant)).chain(axes.iter().map(value)).collect()
}

//! The tables of a document, before a form renders them. Pure.

mod all;
mod cells;
mod facts;
mod grid;
mod listing;
mod pivot;
mod saturation;

pub use all::all_figures;
pub use cells::{has_ratio, ratio_heading, sign, word};
pub use facts::conditions;
pub use grid::{Column, Grid, Item, Kind, Piece, identity_columns};
pub use listing::{Style, listings};
pub use pivot::pivot_grids;
pub use saturation::{Curve, Load, curves, saturation};

#[cfg(test)]
mod tests;

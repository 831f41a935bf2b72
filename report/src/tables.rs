//! The tables of a document, before a form renders them. Pure.

mod all;
mod cells;
mod facts;
mod grid;
mod listing;
mod pivot;

pub use all::all_figures;
pub use cells::{has_ratio, sign};
pub use facts::Facts;
pub use grid::{Grid, Item, Kind, Piece};
pub use listing::{Style, listings};
pub use pivot::{Pivot, matrices, pivot_grids};

#[cfg(test)]
mod tests;

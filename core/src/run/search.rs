//! The search for the limit of a server: its points, the rule that picks them, and what it found. Pure.

mod attempts;
pub(super) mod figures;
pub mod knee;
pub(super) mod point;

pub use attempts::{raised, settle};

//! The charts of the page.
//!
//! A chart is as wide as a phone, where its text has 12 px; wider screens show several side by side.

mod axis;
pub mod bars;
mod card;
pub mod curves;
pub mod history;
mod plot;
pub mod saturation;
mod series;
pub mod steady;
mod svg;
pub mod timelines;

pub use series::SeriesLayout;

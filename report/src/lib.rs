//! Reports of runs and suites. What was measured becomes a [`document::Document`], which
//! holds every figure, comparison and record that a report shows; each form of a report
//! (text, Markdown, CSV, JSON, JUnit, HTML) is made from it alone.
//!
//! Pure: no client, no clock, no environment, no file.

mod build;
mod comparability;
mod compare;
pub mod csv;
pub mod document;
pub mod figures;
pub mod html;
pub mod json;
pub mod junit;
pub mod layout;
pub mod markdown;
pub mod published;
pub mod text;
pub mod thresholds;

pub use build::{BaselineInput, Entries, Entry, Input, build, build_of};
pub use compare::compare;

//! Reports of runs and suites. [`build()`] turns measurements into a [`document::Document`],
//! which holds every figure, comparison and record; each of the [forms] renders that document.
//!
//! Pure: no client, no clock, no environment, no file.

mod build;
mod compare;
pub mod document;
mod figures;
mod forms;
pub mod history;
mod input;
pub mod published;
mod rules;
mod select;
mod tables;
mod thresholds;

pub use build::{build, build_of};
pub use compare::{best, compare, starts_needed};
pub use forms::{csv, html, json, junit, markdown, text};
pub use input::{BaselineInput, Entries, Entry, Input};
pub use rules::Rules;
pub use select::{distinct, totals};
pub use thresholds::{counterpart, selects};

//! A suite: its runs, their order, what to do next, and the rounds of a schedule. Pure.

mod axes;
pub mod decide;
pub mod expand;
pub mod other;
mod paths;
pub mod rights;
pub mod round;
pub mod schedule;
pub mod validate;

use crate::labels::CELL_WORDS;
use kube::{Resource, ResourceExt};

/// The name of `run`, and if a suite made it, what it measures.
pub fn described(run: &impl Resource) -> String {
    match run.annotations().get(CELL_WORDS) {
        Some(words) => format!("{} ({words})", run.name_any()),
        None => run.name_any(),
    }
}

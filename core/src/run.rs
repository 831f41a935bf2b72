//! A run: from its declaration and what was observed to its next step, results and status. Pure.

pub mod away;
mod confirm;
pub mod decide;
pub mod job;
pub mod judge;
pub mod merge;
pub mod noise;
pub(crate) mod observe;
pub mod offline;
pub mod plan;
pub mod search;
pub mod start_line;
pub mod status;
pub mod summary;
pub mod turn;
pub mod validate;

pub use observe::{attempts, fetched, identity, snapshot, stored_result};
pub use plan::{clock, timing};

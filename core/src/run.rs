//! A run: from its declaration and what was observed of it to its next step, its results and its
//! status. Pure.

mod checks;
pub mod clock;
pub mod connection;
pub mod decide;
pub mod identity;
pub mod job;
pub mod judge;
pub mod merge;
pub mod offline;
pub mod plan;
pub mod search;
pub mod snapshot;
pub mod status;
pub mod stored_result;
pub mod summary;
pub mod timing;
pub mod validate;

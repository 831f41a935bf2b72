//! What was counted: recorders while the load runs, and the report
//! and the exit code made of them. Writes the result's file and nothing else.

pub mod assemble;
pub(crate) mod errors;
pub(crate) mod exit;
pub(crate) mod output;
pub mod recorder;
pub(crate) mod replies;
pub mod report;

pub use errors::UNEXPECTED_REPLY;

//! What was counted: recorders while the load runs, and the report, the summary
//! and the exit code made of them. Writes the result's file and nothing else.

pub mod assemble;
pub mod errors;
pub mod exit;
pub mod output;
pub mod recorder;
pub(crate) mod replies;
pub mod report;

//! From pods that have ended to a stored result: reads their logs, gathers evidence from the
//! observers, and stores both.

pub mod evidence;
mod log;
mod pod_results;
pub mod store;

pub use log::LARGE_RESULTS;

//! From ended pods to a stored result: reads logs, gathers the observers' evidence, stores both.

pub mod evidence;
mod log;
mod pod_results;
pub mod store;

pub use log::LARGE_RESULTS;

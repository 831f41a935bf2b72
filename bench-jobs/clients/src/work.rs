//! What is sent through a client library: single requests of many tasks, or batches.

pub(crate) mod batches;
pub(crate) mod tasks;

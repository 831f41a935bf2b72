//! What is counted during the load, and the report made of it.

pub(crate) mod assemble;
pub(crate) mod batch_statistics;
pub(crate) mod counters;
pub(crate) mod cpu_threads;

//! Tools: what each counts, the server confirms.

mod bullmq;
mod exec;
mod loadgen;
pub(crate) mod memtier;

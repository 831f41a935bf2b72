//! Tools: what each counts, the server confirms.

mod bullmq;
mod exec;
mod loadgen;
mod memtier;

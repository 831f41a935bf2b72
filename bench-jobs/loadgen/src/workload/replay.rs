//! Replay of the very calls that a real BullMQ `Queue.add` makes, written by
//! the raw client: one EVALSHA of BullMQ's own script for each job.
//!
//! [`options`] reads the command line into a [`plan::ReplayPlan`], [`requests`]
//! encodes the calls, and [`crate::driver::replay`] loads the script before the run
//! and counts the jobs in the queues after it. The script is BullMQ's, unchanged:
//! build.rs takes it from the npm package that bench-jobs/bullmq pins.

pub mod options;
pub mod plan;
pub mod requests;

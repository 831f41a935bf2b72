//! Loads a server through a client library (redis-rs, fred, bb8), so that
//! libraries can be compared on the same ground.
//! What surrounds the load (options, start line, signals, counts, report) is the
//! load generator's.
//!
//! [`cli`] reads the command line into a [`plan::LibraryPlan`], [`run`] carries it
//! out on a multi-threaded runtime, and each library is one file that knows
//! everything about it. It opens connections to the server it is told and writes
//! the result's file.

mod assemble;
mod batch_work;
mod batches;
mod bb8_pool;
pub mod cli;
mod connect;
mod counters;
mod cpu_threads;
mod error;
mod fred_client;
mod link;
mod loss;
pub mod plan;
mod program;
mod redis_client;
mod request;
pub mod run;
mod task_work;
mod tls;

pub use program::main;

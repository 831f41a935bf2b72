//! Load through client libraries instead of hand-written RESP, so that
//! libraries can be compared on the same ground.
//!
//! [`options`] reads the command line into a [`plan::LibraryPlan`], [`run`]
//! carries it out on a multi-threaded runtime, and each library is one file
//! below that knows everything about it. They open connections to the server
//! they are told and write nothing.

mod assemble;
mod batch_work;
mod bb8_pool;
mod connect;
mod counters;
mod cpu_threads;
pub(crate) mod error;
mod fred_client;
mod link;
pub(crate) mod loss;
pub mod options;
pub mod plan;
pub(crate) mod redis_client;
pub mod run;
mod task_work;
mod tls;

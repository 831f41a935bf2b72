//! The runner: PID 1 of every client container. It checks the target, waits at
//! the start line, starts the tool, watches it, reads its output into a
//! [`dragstrip_results::result::PodResult`] and delivers that. The same binary is the
//! observer beside every server.
//!
//! It must run as a static program in an empty, read-only root: no C library
//! resolver, no shell, no /tmp, no HOME.

// A test that returns the code's own result may still unwrap its own preparations.
#![cfg_attr(test, allow(clippy::unwrap_in_result))]

pub mod cli;
mod delivery;
mod frame;
mod measuring;
mod observe;
mod run;
mod server;
mod tools;

pub use delivery::state::at_the_line;
pub use frame::{
    install::{CLIENTS_NAME, LOADGEN_NAME, RUNNER_NAME},
    stop::Stop,
};
pub use observe::TOKEN_VARIABLE;
pub use server::{counters::read_counters, info::Info};
pub use tools::{
    adapter::{Adapter, Ended, Exit, Launch, LaunchContext, Progress, Rejected},
    adapter_for,
    memtier::{MemtierAdapter, Observed},
};

#[cfg(test)]
mod tests;

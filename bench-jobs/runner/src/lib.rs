//! The runner: PID 1 of every client container. It checks the target, waits at
//! the start line, starts the tool, watches it, reads its output into a
//! [`dragstrip_results::result::PodResult`] and delivers that so that it cannot be
//! lost. The same binary is the observer beside every server.
//!
//! It must run as a static program in an empty, read-only root: no C library
//! resolver, no shell, no /tmp, no HOME.

// A test that hands on what the code under test said may still unwrap its own preparations.
#![cfg_attr(test, allow(clippy::unwrap_in_result))]

pub mod access;
pub mod activity;
pub mod adapters;
pub mod aside;
pub mod bullmq;
pub mod cgroup;
pub mod check;
pub mod cli;
pub mod clock;
pub mod deliver;
pub mod encryption;
pub mod exec;
pub mod exposition;
pub mod failure;
#[cfg(test)]
mod fixtures;
pub mod flush;
pub mod gate;
pub mod guard;
pub mod host;
pub mod http;
pub mod install;
pub mod job;
pub mod load;
pub mod loadgen;
pub mod members;
pub mod memtier;
pub mod metrics;
pub mod network;
pub mod observe;
pub mod output;
pub mod own_process;
mod own_tools;
pub mod pace;
pub mod preflight;
pub mod process;
pub mod resolve;
pub mod round_trip;
pub mod run;
pub mod server;
pub mod state;
pub mod statsd;
pub mod stop;
pub mod threads;
pub mod tls_files;
pub mod tool;
pub mod topology;
pub mod usage;
pub mod warmup;
pub mod watch;

use std::io::Write as _;

/// Writes a line to stdout. A log that is gone must not end a measurement.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

//! Dragstrip's own load generator for RESP datastores, as a library. A run goes
//! through four modules:
//!
//! - [`workload`]: what to send: keys, values, operations, the mix of them.
//! - [`driver`]: the loop: threads, connections, when each request is sent.
//! - [`wire`]: connections, encryption, replies, clusters.
//! - [`counts`]: what was counted, and the report made of it.
//!
//! [`instant`] is not part of a run: it is the server that measures the generator itself.
//!
//! [`driver::run::run`] carries out a [`configuration::Configuration`], which is a validated
//! [`specification::Specification`], and returns a [`counts::report::Report`]. [`cli`] is the
//! command line around it.
//!
//! The generator is a closed loop: each connection writes a batch of requests, awaits all replies
//! and continues. With a rate it is an open loop: requests leave when they are due, whatever the
//! server does. It opens sockets to the declared server, writes the declared report, and changes
//! nothing else but its own limit of open files.

pub mod cli;
pub mod configuration;
pub mod counts;
pub mod driver;
mod instant;
#[cfg(test)]
#[path = "../tests/integration/notation.rs"]
mod notation;
pub mod specification;
pub mod wire;
pub mod workload;

use std::process::ExitCode;

use cli::Program;
use configuration::Configuration;

/// Runs `dragstrip-loadgen` as this process.
pub fn main() -> ExitCode {
    let program = Program {
        name: "dragstrip-loadgen",
        about: "Generate load on a RESP datastore and measure it",
        example: specification::EXAMPLE,
    };
    program.main(Configuration::of_raw_client, |configuration| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let report = runtime.block_on(driver::run::run(configuration));
        // A name resolution that never ends must not delay the exit.
        runtime.shutdown_background();
        Ok(report)
    })
}

//! Loads a server through a client library (redis-rs, fred, bb8), so that libraries can be
//! compared on the same ground. What surrounds the load (specification, start line, signals,
//! counts, report) is the load generator's.
//!
//! `plan` validates what a specification declares, `run` carries it out on a multi-threaded
//! runtime. It opens connections to the declared server and writes the report.

mod clients;
mod plan;
mod report;
mod run;
mod work;

use std::process::ExitCode;

use dragstrip_loadgen::cli::Program;

pub use plan::read;

/// Runs `dragstrip-clients` as this process.
pub fn main() -> ExitCode {
    let program = Program {
        name: "dragstrip-clients",
        about: "Load a RESP datastore through a client library and measure it",
        example: include_str!("example.json"),
    };
    program.main(plan::read, |(configuration, plan)| run::run_to_end(&configuration, &plan))
}

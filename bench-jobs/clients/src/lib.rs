//! Loads a server through a client library (redis-rs, fred, bb8), so that libraries can be
//! compared on the same ground. What surrounds the load (specification, start line, signals,
//! counts, report) is the load generator's.
//!
//! [`plan`] validates what a specification declares, [`run`] carries it out on a multi-threaded
//! runtime. It opens connections to the declared server and writes the report.

mod clients;
pub mod plan;
mod report;
pub mod run;
mod work;

use std::process::ExitCode;

use dragstrip_loadgen::cli::Program;

/// The whole `dragstrip-clients` program, as this process.
pub fn main() -> ExitCode {
    let program = Program {
        name: "dragstrip-clients",
        about: "Load a RESP datastore through a client library and measure it",
        example: include_str!("example.json"),
    };
    program.main(plan::read, |(configuration, plan)| run::run_to_end(&configuration, &plan))
}

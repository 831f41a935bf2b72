//! The `dragstrip-clients` command: reads its command line, runs the load through
//! a client library, writes the result and says how it ended in its exit code.

use std::process::ExitCode;

use clap::Parser as _;
use dragstrip_loadgen::process;

use crate::{cli::Arguments, run};

/// The whole program, as this process.
pub fn main() -> ExitCode {
    match Arguments::parse().into_plan() {
        Ok((configuration, plan)) => {
            process::conduct(configuration, |configuration| run::run_to_end(&configuration, &plan))
        }
        Err(error) => process::refuse(&error),
    }
}

//! The `dragstrip-loadgen` command: reads its command line, runs the load,
//! writes the result and says how it ended in its exit code.

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Arguments;
use crate::configuration::Configuration;
use crate::counts::report::Report;
use crate::driver::run;
use crate::process;

/// The whole program, as this process.
pub fn main() -> ExitCode {
    match Arguments::parse().into_configuration() {
        Ok(configuration) => process::conduct(configuration, run_to_end),
        Err(error) => process::refuse(&error),
    }
}

/// Runs the load on this thread's event loop; load threads have their own.
fn run_to_end(configuration: Configuration) -> std::io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(run::run(configuration));
    // A name resolution that never ends must not hold up the exit.
    runtime.shutdown_background();
    Ok(report)
}

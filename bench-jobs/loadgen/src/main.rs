//! The `dragstrip-loadgen` command: reads its command line, runs the load,
//! writes the result and says how it ended in its exit code.

use std::process::ExitCode;

use clap::Parser as _;
use dragstrip_loadgen::cli::Arguments;
use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::output::{self, JsonOutput};
use dragstrip_loadgen::report::Report;
use dragstrip_loadgen::{exit, libraries, replay, run};

fn main() -> ExitCode {
    let configuration = match Arguments::parse().into_configuration() {
        Ok(configuration) => configuration,
        Err(error) => return complain(&error, exit::USAGE),
    };
    let json = match configuration.json_out_file.as_deref().map(JsonOutput::open).transpose() {
        Ok(json) => json,
        Err(error) => return complain(&error, exit::RESULT_NOT_WRITTEN),
    };
    let report = match run_to_end(configuration) {
        Ok(report) => report,
        Err(error) => return complain(&error, exit::USAGE),
    };
    if let Some(failure) = &report.failure {
        eprintln!("error: {}", failure.message);
    }
    if report.exit_code == exit::KEYS_MISSING
        && let Some(verified) = report.verified
    {
        eprintln!("error: only {} of {} keys exist", verified.present, verified.expected);
    }
    if !matches!(json, Some(JsonOutput::Standard)) {
        print!("{}", output::summary(&report));
    }
    match json.map(|json| json.write(&report)).transpose() {
        Ok(_) => ExitCode::from(report.exit_code),
        Err(error) => complain(&error, exit::RESULT_NOT_WRITTEN),
    }
}

/// Runs the load on this thread's event loop; load threads have their own.
fn run_to_end(configuration: Configuration) -> std::io::Result<Report> {
    if let Some(plan) = &configuration.library {
        return libraries::run::run_to_end(&configuration, plan);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match configuration.replay.clone() {
        Some(plan) => runtime.block_on(replay::session::run(configuration, plan)),
        None => runtime.block_on(run::run(configuration)),
    };
    // A name resolution that never ends must not hold up the exit.
    runtime.shutdown_background();
    Ok(report)
}

fn complain(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

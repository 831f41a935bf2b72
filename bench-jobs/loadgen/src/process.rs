//! What every program that loads a server does around its run: opens the result's
//! file before it, writes result and summary after it, and says in its exit code
//! how it ended.

use std::process::ExitCode;

use crate::configuration::Configuration;
use crate::counts::exit;
use crate::counts::output::{self, JsonOutput};
use crate::counts::report::Report;

/// Runs `load` as `configuration` says.
pub fn conduct(
    configuration: Configuration,
    load: impl FnOnce(Configuration) -> std::io::Result<Report>,
) -> ExitCode {
    let json = match configuration.json_out_file.as_deref().map(JsonOutput::open).transpose() {
        Ok(json) => json,
        Err(error) => return complain(&error, exit::RESULT_NOT_WRITTEN),
    };
    let report = match load(configuration) {
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

/// Ends a program whose command line or environment is not usable.
pub fn refuse(error: &dyn std::fmt::Display) -> ExitCode {
    complain(error, exit::USAGE)
}

fn complain(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

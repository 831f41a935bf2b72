//! The command line of both load generators, and the steps around a run: reads the
//! specification and the password, opens the report's file before the run, and writes the report
//! after it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use dragstrip_results::protocol::PASSWORD_VARIABLE;
use thiserror::Error;

use crate::configuration::SpecificationError;
use crate::counts::exit;
use crate::counts::output::{JsonOutput, OutputError};
use crate::counts::report::Report;
use crate::instant;
use crate::specification::Specification;

#[derive(Debug, Parser)]
#[command(version, after_long_help = exit::HELP, arg_required_else_help = true)]
struct Arguments {
    /// Print an example specification.
    #[arg(long, exclusive = true)]
    example: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the load that a specification describes.
    ///
    /// Put the server's password, if it needs one, into the environment variable
    /// `DRAGSTRIP_PASSWORD`.
    Run {
        /// File that holds the specification in JSON, or - to read standard input.
        #[arg(value_name = "SPEC.json")]
        specification: PathBuf,
    },
    /// Answer every command at once with a fixed reply, to measure the client and the network alone.
    Answer {
        /// Listen on this port.
        #[arg(long, default_value_t = 6379)]
        port: u16,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub about: &'static str,
    pub example: &'static str,
}

/// Why a specification or a password cannot be used.
#[derive(Debug, Error)]
enum InputError {
    #[error("cannot read the specification {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the specification {path} is not valid: {source}; --example prints one that is")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("the environment variable {PASSWORD_VARIABLE} is not valid UTF-8")]
    DecodePassword,
}

impl Program {
    /// Runs the program as this process: `prepare` validates the specification, `load`
    /// carries it out.
    pub fn main<P>(
        &self,
        prepare: impl FnOnce(Specification, Option<String>) -> Result<P, SpecificationError>,
        load: impl FnOnce(P) -> io::Result<Report>,
    ) -> ExitCode {
        let matches = Arguments::command().name(self.name).about(self.about).get_matches();
        let path = match Arguments::from_arg_matches(&matches) {
            Ok(Arguments { command: Some(Command::Run { specification }), .. }) => specification,
            Ok(Arguments { command: Some(Command::Answer { port }), .. }) => {
                return instant::run(port)
                    .map_or_else(|error| refuse(&error, exit::USAGE), |()| ExitCode::SUCCESS);
            }
            Ok(Arguments { command: None, .. }) => {
                print!("{}", self.example);
                return ExitCode::SUCCESS;
            }
            Err(error) => error.exit(),
        };
        let input = read(&path).and_then(|specification| Ok((specification, password()?)));
        let (specification, password) = match input {
            Ok(input) => input,
            Err(error) => return refuse(&error, exit::USAGE),
        };
        let report_file = specification.report_file.clone();
        match prepare(specification, password) {
            Ok(prepared) => conduct(report_file.as_deref(), || load(prepared)),
            Err(error) => refuse(&error, exit::USAGE),
        }
    }
}

fn read(path: &Path) -> Result<Specification, InputError> {
    let text =
        if path.as_os_str() == "-" { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|source| InputError::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| InputError::Parse { path: path.to_owned(), source })
}

fn password() -> Result<Option<String>, InputError> {
    let password = std::env::var_os(PASSWORD_VARIABLE).map(OsString::into_string);
    password.transpose().map_err(|_| InputError::DecodePassword)
}

fn conduct(report_file: Option<&Path>, load: impl FnOnce() -> io::Result<Report>) -> ExitCode {
    let json = match report_file.map(JsonOutput::open).transpose() {
        Ok(json) => json,
        Err(error) => return refuse(&error, exit::REPORT_NOT_WRITTEN),
    };
    let report = match load() {
        Ok(report) => report,
        Err(error) => return refuse(&error, exit::USAGE),
    };
    if let Some(failure) = &report.failure {
        eprintln!("error: {}", failure.message);
    }
    if report.exit_code == exit::KEYS_MISSING
        && let Some(verified) = report.verified
    {
        eprintln!("error: only {} of {} keys exist", verified.found, verified.expected);
    }
    let written = match json {
        Some(json) => json.write(&report),
        None => report
            .to_json()
            .map(|text| println!("{text}"))
            .map_err(|source| OutputError::Serialize { source }),
    };
    match written {
        Ok(()) => ExitCode::from(report.exit_code),
        Err(error) => refuse(&error, exit::REPORT_NOT_WRITTEN),
    }
}

fn refuse(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_example_is_a_specification() {
        let example: Specification = serde_json::from_str(crate::specification::EXAMPLE).unwrap();
        crate::configuration::Configuration::new(example, None).unwrap();
    }
}

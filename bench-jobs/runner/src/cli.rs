//! The command line; README.md has what the operator must set and may ask. Touches stdout and stderr; the tasks touch the rest.

use crate::{
    frame::{install, stdout::print_line},
    observe, run,
};
use clap::{Parser, Subcommand};
use dragstrip_results::error_chain::chain;
use std::{path::PathBuf, process::ExitCode};

/// Runs benchmark clients, and observes servers, for the Dragstrip operator.
#[derive(Debug, Parser)]
#[command(name = "dragstrip-runner", version, about, max_term_width = 100)]
pub struct Cli {
    /// The task to run.
    #[command(subcommand)]
    pub role: Role,
}

/// The tasks of the program.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Copy this program, and the load generator beside it, into a directory.
    ///
    /// For an init container: the main container, made from the tool's own
    /// image, then starts the runner from the volume they share.
    Install {
        /// Target directory; created if it does not exist.
        directory: PathBuf,
    },
    /// Check the target, wait for the start command, run the tool, deliver its result.
    Run(run::Options),
    /// Observe the server beside this container, and report about it over HTTP.
    Observe(observe::Options),
}

impl Cli {
    pub async fn execute(self) -> ExitCode {
        match self.role {
            Role::Install { directory } => report(install::install(&directory).map(|files| {
                for file in files {
                    print_line(&format!("installed {}", file.display()));
                }
            })),
            Role::Run(options) => ExitCode::from(Box::pin(run::run(&options)).await),
            Role::Observe(options) => report(observe::observe(options).await),
        }
    }
}

/// Success, or the error with all its causes on stderr.
fn report<E: std::error::Error + 'static>(outcome: Result<(), E>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{}", chain(&error));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_a_pod() {
        let cli = Cli::parse_from(["dragstrip-runner", "run"]);
        let Role::Run(options) = cli.role else { panic!("another role") };
        assert_eq!(options.listen.to_string(), "0.0.0.0:9181");
        assert_eq!(options.termination_log, PathBuf::from("/dev/termination-log"));
    }
}

//! The command line. Touches stdout and stderr; the tasks touch the rest.

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
    #[command(after_long_help = RUN_HELP)]
    Run(run::Options),
    /// Observe the server beside this container, and report about it over HTTP.
    #[command(after_long_help = OBSERVE_HELP)]
    Observe(observe::Options),
}

const RUN_HELP: &str = "\
Environment:
  DRAGSTRIP_JOB          the job as JSON (JobSpec)
  DRAGSTRIP_PASSWORD     the target's password, if it requires one
  POD_NAME               the pod's own name
  JOB_COMPLETION_INDEX   the pod's index among the clients, from 0

HTTP:
  GET  /ready        200 at the start line or later, 503 with the stage before
  POST /v1/start     accept a StartCommand; the first one counts; 409 before the start line
  GET  /v1/progress  the runner's stage and the tool's progress
  GET  /v1/clock     the runner's clock, which the operator compares with its own
  GET  /metrics      live metrics for Prometheus
  Requests under /v1 need the job's token in the header x-dragstrip-token;
  POST /v1/start also needs the operator's signature in x-dragstrip-signature.

The runner always writes a result: as one line DRAGSTRIP-RESULT {json} on
stdout, and to the termination log, shortened if it exceeds 4096 bytes.

SIGTERM and SIGINT end the tool in the way it needs to write its result, and mark
the result as interrupted; before the start line they end the runner at once.

Exit codes:
  0  the numbers can be used
  2  the command line is invalid
  3  the numbers cannot be used; the delivered result says why
  4  the runner could not deliver the result to both places";

const OBSERVE_HELP: &str = "\
Environment:
  DRAGSTRIP_PASSWORD       the server's password, if it requires one
  DRAGSTRIP_TOKEN          the token that requests under /v1 need in x-dragstrip-token
  DRAGSTRIP_VERIFYING_KEY  the operator's public key: /v1/usage and /v1/topology also need
                           the operator's signature in x-dragstrip-signature

HTTP:
  GET  /ready        200 if the server answers PING and has loaded its data set
  GET  /v1/observed  facts about the server, its container and its machine
  GET  /v1/memory    the memory of each server, by its own account and its container's
  POST /v1/usage     accept a UsageCommand: sample what the servers use until its time is over
  GET  /v1/usage     what the servers used in a UsageWindow; ends the sampling
  GET  /v1/clock     the observer's clock, which the operator compares with its own
  POST /v1/topology  accept a TopologyCommand: join servers to a cluster or a primary;
                     servers that are joined already stay as they are
  GET  /metrics      live metrics of the server for Prometheus

The observer finds the server's container through a process namespace that the pod's
containers share, as the same user id; without one, it reports no CPU or memory of the
container. With --without-resp it sends nothing to the server: /ready and /v1/observed
answer 503, and memory is the kernel's account of the process and container.";

impl Cli {
    /// Runs the task.
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

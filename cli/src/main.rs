//! Dragstrip's command line: parses the arguments and runs a command.

mod cluster;
mod completions;
mod examples;
#[cfg_attr(not(target_os = "linux"), path = "local/elsewhere.rs")]
mod local;
mod manifests;
mod output;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cluster::{
    apply, calibrate, cancel,
    client::{self, Cluster},
    compare, doctor, follow, report,
};
use manifests::validate;
use output::{errors::chain, print};
use std::{path::Path, process::ExitCode};

/// Run benchmarks of in-memory datastores, on a cluster or on this machine, and report their results.
#[derive(Debug, Parser)]
#[command(name = "dragstrip", version)]
struct Arguments {
    #[command(flatten)]
    cluster: client::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the benchmarks of manifests, on the cluster or, with --local, on this machine. With
    /// --watch or --local: exit code 0 if all passed, 1 if one did not, 2 if the result is unknown.
    Run(apply::Options),
    /// Show the progress of runs and suites until all have ended. Exit code 0 if all passed, 1 if
    /// one did not, 2 if the result is unknown.
    Follow(follow::Options),
    /// Print the report of a suite, or of runs side by side. Exit code 1 if one has no results yet.
    Report(report::Options),
    /// Compare two runs, suites, reports or published tables. Exit code 0 if nothing is worse than
    /// the baseline, 1 if something is, 2 if nothing could be compared.
    Compare(compare::Options),
    /// Stop runs and suites, and keep their measurements.
    Cancel(cancel::Options),
    /// Check manifests as the API server and the operator would, without contacting either. Exit
    /// code 1 if something is wrong.
    Validate(validate::Options),
    /// Check whether the cluster is ready for races, and print a remedy for each problem. Exit
    /// code 1 if no run can work.
    Doctor(doctor::Options),
    /// Measure how much equal measurements differ on some nodes, for later runs there to report.
    Calibrate(calibrate::Options),
    /// Print the script that lets a shell complete these commands.
    Completions(completions::Options),
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Cluster(#[from] client::Error),
    #[error(transparent)]
    Local(#[from] local::Error),
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Follow(#[from] follow::Error),
    #[error(transparent)]
    Report(#[from] report::Error),
    #[error(transparent)]
    Compare(#[from] compare::Error),
    #[error(transparent)]
    Cancel(#[from] cancel::Error),
    #[error(transparent)]
    Validate(#[from] validate::Error),
    #[error(transparent)]
    Doctor(#[from] doctor::Error),
    #[error(transparent)]
    Calibrate(#[from] calibrate::Error),
    #[error(transparent)]
    Print(#[from] print::Error),
}

/// The command line of `program`, which may be a plugin of kubectl.
fn program_command(program: Option<&Path>) -> clap::Command {
    let plugin = program.and_then(Path::file_stem).is_some_and(|name| name == "kubectl-dragstrip");
    let name = if plugin { "kubectl dragstrip" } else { "dragstrip" };
    examples::with(Arguments::command().bin_name(name), name)
}

async fn dispatch(arguments: Arguments, command: clap::Command) -> Result<ExitCode, Error> {
    let connect = || Cluster::connect(&arguments.cluster);
    let namespace = arguments.cluster.namespace.as_deref();
    Ok(match arguments.command {
        Command::Run(options) if options.local => local::run(options.files).await?,
        Command::Run(options) => apply::run(&connect().await?, &options, namespace).await?,
        Command::Follow(options) => follow::follow(&connect().await?, &options).await?,
        Command::Report(options) => report::report(&connect().await?, &options).await?,
        Command::Compare(options) => {
            let cluster = if compare::needs_cluster(&options) { Some(connect().await?) } else { None };
            compare::compare(cluster.as_ref(), &options).await?
        }
        Command::Cancel(options) => cancel::cancel(&connect().await?, &options).await?,
        Command::Validate(options) => validate::validate(&options)?,
        Command::Doctor(options) => doctor::doctor(&connect().await?, &options).await?,
        Command::Calibrate(options) => calibrate::calibrate(&connect().await?, &options).await?,
        Command::Completions(options) => completions::completions(command, &options)?,
    })
}

fn main() -> ExitCode {
    local::other_program().unwrap_or_else(command)
}

#[tokio::main]
async fn command() -> ExitCode {
    let program = std::env::args_os().next();
    let command = program_command(program.as_deref().map(Path::new));
    let matches = command.clone().get_matches();
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    match Box::pin(dispatch(arguments, command)).await {
        Ok(code) => code,
        Err(error) => {
            let text = chain(&error);
            // A reader that has gone away does not want a message.
            if text != print::Error::Closed.to_string() {
                print::warn(&format!("error: {text}"));
            }
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn only_some_commands_have_an_output_form() {
        for (line, valid) in [
            ("cancel a -o json", true),
            ("validate -f a.yaml -o json", true),
            ("run -f a.yaml -o json", true),
            ("run -f a.yaml -o json --watch", false),
            ("run -f a.yaml -o json --local", false),
            ("doctor -o json", true),
            ("follow a -o json", false),
            ("report a -o json", false),
            ("compare a b -o json", false),
            ("calibrate --datastore a -o json", false),
        ] {
            let words = ["dragstrip"].into_iter().chain(line.split(' '));
            let parsed = crate::Arguments::command().try_get_matches_from(words);
            assert_eq!(parsed.is_ok(), valid, "{line}: {:?}", parsed.err());
        }
    }
}

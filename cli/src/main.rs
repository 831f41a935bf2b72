//! Dragstrip's command line: reads the arguments and hands them to a command.

mod calibrate;
mod cancel;
mod causes;
mod cluster;
mod compare;
mod completions;
mod details;
mod doctor;
mod examples;
mod follow;
mod gather;
mod get;
mod local;
mod logs;
mod manifest;
mod output;
mod report;
mod results;
mod run;
mod validate;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cluster::Cluster;
use std::{path::Path, process::ExitCode};

/// Runs benchmarks of in-memory datastores, on a cluster or on this machine, and reads their results.
#[derive(Debug, Parser)]
#[command(name = "dragstrip", version)]
struct Arguments {
    #[command(flatten)]
    cluster: cluster::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run what manifests declare, on the cluster or with --local on this machine alone. With
    /// --watch or --local exit code 0 when all passed, 1 when one did not, 2 when that cannot be told.
    Run(run::Options),
    /// Show what runs and suites do until all have ended. Exit code 0 when all passed, 1 when one
    /// did not, 2 when that cannot be told.
    Follow(follow::Options),
    /// List runs, suites and datastores.
    Get(get::Options),
    /// Print the report of runs, side by side, or of a suite. Exit code 1 when one of them has no
    /// results yet.
    Report(report::Options),
    /// Compare two runs, suites, reports or published tables. Exit code 0 when nothing is worse
    /// than the baseline, 1 when something is, 2 when nothing could be compared.
    Compare(compare::Options),
    /// Print what the client pods and servers of a run say, or what is kept of it.
    Logs(logs::Options),
    /// Stop runs and suites; what was measured stays.
    Cancel(cancel::Options),
    /// Say what the apiserver and the operator would say against manifests, without either. Exit
    /// code 1 when something is wrong.
    Validate(validate::Options),
    /// Look whether the cluster is ready for races, and say what to do where it is not. Exit code 1
    /// when no run can work.
    Doctor(doctor::Options),
    /// Measure how much equal measurements differ in a place, and keep that for later runs there.
    Calibrate(calibrate::Options),
    /// Print what a shell needs to complete these commands.
    Completions(completions::Options),
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error(transparent)]
    Local(#[from] local::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Follow(#[from] follow::Error),
    #[error(transparent)]
    Get(#[from] get::Error),
    #[error(transparent)]
    Report(#[from] report::Error),
    #[error(transparent)]
    Compare(#[from] compare::Error),
    #[error(transparent)]
    Logs(#[from] logs::Error),
    #[error(transparent)]
    Cancel(#[from] cancel::Error),
    #[error(transparent)]
    Validate(#[from] validate::Error),
    #[error(transparent)]
    Doctor(#[from] doctor::Error),
    #[error(transparent)]
    Calibrate(#[from] calibrate::Error),
    #[error(transparent)]
    Completions(#[from] output::Error),
}

/// The command line as it is called: a plugin of kubectl names itself so.
fn called(program: Option<&Path>) -> clap::Command {
    let plugin = program.and_then(Path::file_stem).is_some_and(|name| name == "kubectl-dragstrip");
    let name = if plugin { "kubectl dragstrip" } else { "dragstrip" };
    examples::with(Arguments::command().bin_name(name), name)
}

async fn dispatch(arguments: Arguments, command: clap::Command) -> Result<ExitCode, Error> {
    let connect = || Cluster::connect(&arguments.cluster);
    let namespace = arguments.cluster.namespace.as_deref();
    Ok(match arguments.command {
        Command::Run(options) if options.local => local::run(options.files).await?,
        Command::Run(options) => run::run(&connect().await?, &options, namespace).await?,
        Command::Follow(options) => follow::follow(&connect().await?, &options).await?,
        Command::Get(options) => get::get(&connect().await?, &options).await?,
        Command::Report(options) => report::command(&connect().await?, &options).await?,
        Command::Compare(options) => {
            let cluster = if compare::needs_cluster(&options) { Some(connect().await?) } else { None };
            compare::compare(cluster.as_ref(), &options).await?
        }
        Command::Logs(options) => logs::logs(&connect().await?, &options).await?,
        Command::Cancel(options) => cancel::cancel(&connect().await?, &options).await?,
        Command::Validate(options) => validate::validate(&options)?,
        Command::Doctor(options) if options.inside => doctor::inside()?,
        Command::Doctor(options) => doctor::doctor(&connect().await?, &options).await?,
        Command::Calibrate(options) => calibrate::calibrate(&connect().await?, &options).await?,
        Command::Completions(options) => completions::completions(command, &options)?,
    })
}

/// Tells `error` with its causes; nothing where nobody reads any more.
fn tell(error: &Error) {
    let text = causes::told(error);
    if text != output::Error::Closed.to_string() {
        output::warn(&format!("error: {text}"));
    }
}

fn main() -> ExitCode {
    local::other_program().unwrap_or_else(command)
}

#[tokio::main]
async fn command() -> ExitCode {
    let program = std::env::args_os().next();
    let command = called(program.as_deref().map(Path::new));
    let matches = command.clone().get_matches();
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    match Box::pin(dispatch(arguments, command)).await {
        Ok(code) => code,
        Err(error) => {
            tell(&error);
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod reference;

//! Dragstrip's command line: parses the arguments and runs a command.

mod cluster;
mod completions;
#[cfg_attr(not(target_os = "linux"), path = "local/elsewhere.rs")]
mod local;
mod manifests;
mod output;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cluster::{
    apply, calibrate, cancel,
    client::{self, Cluster},
    compare, doctor, follow, gather, history, report,
};
use manifests::validate;
use output::{
    errors::{Outcome, chain},
    print,
};
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
    /// --watch or --local, exit with 0 if all passed, 1 if one did not, 2 if the result is unknown.
    #[command(after_help = "Example:
  dragstrip run --local -f examples/local.yaml
  dragstrip run -f examples/quickstart.yaml --watch
  dragstrip run -f examples/quickstart.yaml --name-suffix 2 --watch")]
    Run(apply::Options),
    /// Show the progress of runs and suites until all have ended. Exit with 0 if all passed, 1 if one
    /// did not, 2 if the result is unknown.
    #[command(after_help = "Example:
  dragstrip follow redis-read valkey-read
  dragstrip follow suite/engines --timeout 3h")]
    Follow(follow::Options),
    /// Print the report of a suite, or of runs side by side. Exit with 1 if one has no results yet.
    #[command(after_help = "Example:
  dragstrip report redis-read valkey-read
  dragstrip report ~/.cache/dragstrip/runs/first-race-20260101T120000000Z --format html --output-file race.html
  dragstrip report suite engines --format html --output-file engines.html")]
    Report(report::Options),
    /// Compare a run, suite or report with another, or with a published table. Exit with 0 if nothing
    /// is worse than the baseline, 1 if something is or a run failed, 2 if a figure could not be compared.
    #[command(after_help = "Example:
  dragstrip compare redis-read valkey-read
  dragstrip compare published.csv suite/engines
  dragstrip compare main.json branch.json --format markdown")]
    Compare(compare::Options),
    /// Show in which rounds of a schedule a figure changed, and its latest level against the first one.
    /// Exit with 0 if nothing is worse than at first, 1 if something is, 2 if there are too few rounds
    /// to know.
    #[command(after_help = "Example:
  dragstrip history suite/nightly
  dragstrip history 2026-01-01.json 2026-01-02.json 2026-01-03.json --format json")]
    History(history::Options),
    /// Stop runs and suites. Stored measurements are kept.
    #[command(after_help = "Example:
  dragstrip cancel redis-read suite/engines")]
    Cancel(cancel::Options),
    /// Check manifests as the API server and the operator would, without contacting either. Exit with
    /// 1 if something is wrong.
    #[command(after_help = "Example:
  dragstrip validate -f examples/quickstart.yaml
  helm template my-chart | dragstrip validate -f -")]
    Validate(validate::Options),
    /// Check whether the cluster is ready for benchmarks, and print a remedy for each problem. Exit with 1
    /// if no run can work.
    #[command(after_help = "Example:
  dragstrip doctor
  dragstrip doctor -f examples/quickstart.yaml")]
    Doctor(doctor::Options),
    /// Measure how much equal repetitions and equal starts of a server differ. With --floor, measure how
    /// much of a result is overhead of the harness and the network.
    #[command(after_help = "Example:
  dragstrip calibrate redis-read --starts 8
  dragstrip calibrate redis-read --floor")]
    Calibrate(calibrate::Options),
    /// Print the script that lets a shell complete these commands.
    #[command(after_help = "Example:
  source <(dragstrip completions bash)")]
    Completions(completions::Options),
}

/// The command line of `program`, which may be a plugin of kubectl.
fn program_command(program: Option<&Path>) -> clap::Command {
    let plugin = program.and_then(Path::file_stem).is_some_and(|name| name == "kubectl-dragstrip");
    let name = if plugin { "kubectl dragstrip" } else { "dragstrip" };
    Arguments::command().bin_name(name)
}

async fn dispatch(arguments: Arguments, command: clap::Command) -> Outcome<ExitCode> {
    let connect = || Cluster::connect(&arguments.cluster);
    let cluster_of = async |names: Vec<&String>| gather::cluster_of(&arguments.cluster, names).await;
    let namespace = arguments.cluster.namespace.as_deref();
    Ok(match arguments.command {
        Command::Run(options) if options.local => local::run(options.files).await?,
        Command::Run(options) => apply::run(&connect().await?, &options, namespace).await?,
        Command::Follow(options) => follow::follow(&connect().await?, &options).await?,
        Command::Report(options) => {
            let cluster = cluster_of(options.names.iter().collect()).await?;
            report::report(cluster.as_ref(), &options).await?
        }
        Command::Compare(options) => {
            let cluster = cluster_of(vec![&options.baseline, &options.name]).await?;
            compare::compare(cluster.as_ref(), &options).await?
        }
        Command::History(options) => {
            let cluster = cluster_of(options.names.iter().collect()).await?;
            history::show(cluster.as_ref(), &options).await?
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
            let text = chain(&*error);
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
    use super::*;

    #[test]
    fn every_command_has_an_example_that_parses() {
        let command = Arguments::command();
        for below in command.get_subcommands() {
            let help = below.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("dragstrip "), "{} has no example", below.get_name());
            for line in help.lines().map(str::trim).filter(|line| line.starts_with("dragstrip")) {
                let parsed = command.clone().try_get_matches_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
            }
        }
    }

    #[test]
    fn a_plugin_of_kubectl_shows_its_own_name() {
        let plugin = Path::new("/usr/local/bin/kubectl-dragstrip");
        let usage = program_command(Some(plugin)).render_usage().to_string();
        assert!(usage.contains("kubectl dragstrip"), "{usage}");
    }

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
            ("calibrate a -o json", false),
        ] {
            let words = ["dragstrip"].into_iter().chain(line.split(' '));
            let parsed = Arguments::command().try_get_matches_from(words);
            assert_eq!(parsed.is_ok(), valid, "{line}: {:?}", parsed.err());
        }
    }
}

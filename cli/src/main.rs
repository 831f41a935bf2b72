//! Dragstrip's command line.

mod doctor;
mod follow;
mod report;
mod results;

use clap::{Parser, Subcommand};
use dragstrip_crds::BenchmarkRun;
use kube::{Api, Client, ResourceExt};
use std::{collections::BTreeMap, process::ExitCode};

/// Follows BenchmarkRuns and prints their results; looks whether a cluster is ready for them.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Namespace of the runs; the current context's when absent.
    #[arg(short, long, global = true)]
    namespace: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what runs do until all have ended. Exit code 0 when all passed, 1 when one did not.
    Follow {
        /// Names of the runs.
        #[arg(required = true)]
        runs: Vec<String>,
        /// Give up after so many seconds, with exit code 2.
        #[arg(long, default_value_t = 3600)]
        timeout_seconds: u64,
    },
    /// Look whether the cluster is ready for races, and say what to do where it is not. Exit code 1
    /// when no run can work.
    Doctor {
        /// Namespace of the operator; all are looked through when absent.
        #[arg(long)]
        operator_namespace: Option<String>,
        /// Helm release of the operator; any when absent.
        #[arg(long)]
        release: Option<String>,
    },
    /// Print a table of results, several runs side by side. Exit code 1 when one of them has none.
    Report {
        /// Names of the runs.
        #[arg(required = true)]
        runs: Vec<String>,
        /// Print what each client pod measured, repetition by repetition, too.
        #[arg(long)]
        pods: bool,
        /// Print the whole stored results instead, as JSON: by run, a list of repetitions.
        #[arg(long, conflicts_with = "pods")]
        json: bool,
    },
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to read the kubeconfig")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    #[error("failed to make a Kubernetes client")]
    Client(#[source] kube::Error),
    #[error("failed to ask the apiserver what it serves")]
    Doctor(#[source] kube::Error),
    #[error("failed to read BenchmarkRun {1}")]
    Read(#[source] kube::Error, String),
    #[error(transparent)]
    Follow(#[from] follow::Error),
    #[error(transparent)]
    Results(#[from] results::Error),
    #[error("failed to write the results as JSON")]
    Json(#[source] serde_json::Error),
}

async fn report(
    client: Client,
    namespace: &str,
    runs: Vec<String>,
    pods: bool,
    json: bool,
) -> Result<ExitCode, Error> {
    let api: Api<BenchmarkRun> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::new();
    for name in runs {
        found.push(api.get(&name).await.map_err(|error| Error::Read(error, name))?);
    }
    let mut stored = Vec::new();
    if pods || json {
        for run in &found {
            stored.push((run.name_any(), results::of(&client, namespace, run).await?));
        }
    }
    if json {
        let by_run: BTreeMap<_, _> = stored.into_iter().collect();
        println!("{}", serde_json::to_string_pretty(&by_run).map_err(Error::Json)?);
    } else {
        print!("{}", report::report(&found));
        for (name, results) in &stored {
            print!("\n{}", report::pods::table(name, results));
        }
    }
    let complete =
        found.iter().all(|run| run.status.as_ref().is_some_and(|status| !status.phases.is_empty()));
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    // A kubeconfig, or in a pod its ServiceAccount.
    let config = kube::Config::infer().await.map_err(Error::Kubeconfig)?;
    let namespace = arguments.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(Error::Client)?;
    match arguments.command {
        Command::Follow { runs, timeout_seconds } => {
            Ok(follow::follow(client, &namespace, &runs, std::time::Duration::from_secs(timeout_seconds))
                .await?)
        }
        Command::Doctor { operator_namespace: namespace, release } => {
            doctor::doctor(&client, &doctor::Which { namespace, release }).await.map_err(Error::Doctor)
        }
        Command::Report { runs, pods, json } => report(client, &namespace, runs, pods, json).await,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            let mut text = error.to_string();
            let mut next = std::error::Error::source(&error);
            while let Some(cause) = next {
                text = format!("{text}: {cause}");
                next = cause.source();
            }
            eprintln!("error: {text}");
            ExitCode::from(2)
        }
    }
}

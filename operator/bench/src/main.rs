//! Measures the operator's resources on a cluster without kubelets and compares them with goals: see
//! docs/scale.md. `make bench-operator` runs it.

mod report;
mod scenarios;
mod sweep;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dragstrip_bench_operator::{
    arguments::Ground,
    cluster::Cluster,
    kubelet, operator,
    runners::{self, Simulation},
};
use operator::Operator;
use report::Report;
use std::{path::PathBuf, process::ExitCode};
use tokio::signal::unix::{SignalKind, signal};

/// Measures the operator on the cluster of testbed/without-kubelets.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    ground: Ground,
    /// File for the operator's log.
    #[arg(long, default_value = "/dev/null")]
    log: PathBuf,
    /// Runs that have ended before the operator starts.
    #[arg(long, default_value_t = 10_000)]
    finished: usize,
    /// Active runs at the same time.
    #[arg(long, default_value_t = 100)]
    active: usize,
    /// Datastores created at once.
    #[arg(long, default_value_t = 200)]
    datastores: usize,
    /// Finished runs of a suite: ten of each combination, from 10 to 2560.
    #[arg(long, default_value_t = 1000)]
    suite_runs: usize,
}

async fn measure(cluster: &Cluster, arguments: &Arguments, kubelet: u16, report: &mut Report) -> Result<()> {
    cluster.prepare(arguments.active).await?;
    let token = cluster.metrics_token().await?;
    let start = async || {
        Operator::start(&arguments.ground.operator, &arguments.ground.kubeconfig, &arguments.log, &token)
            .await
    };
    let operator = start().await?;
    scenarios::idle(&operator, report).await?;
    let written = scenarios::datastores(cluster, &operator, arguments.datastores, report).await?;
    let ended = scenarios::three_phases(cluster, &operator, report).await?;
    scenarios::collisions(cluster, &operator, report).await?;
    scenarios::refusing_runners(cluster, &operator, arguments.active, report).await?;
    operator.stop().await?;
    let operator = start().await?;
    scenarios::large_results(cluster, &operator, kubelet, report).await?;
    scenarios::make_active(cluster, arguments.active).await?;
    operator.stop().await?;
    scenarios::bare_datastores(cluster, &written, report).await?;
    scenarios::make_finished(cluster, &ended, arguments.finished).await?;
    scenarios::make_last(cluster).await?;
    let operator = start().await?;
    scenarios::start_beside_history(cluster, &operator, arguments, report).await?;
    operator.stop().await?;
    sweep::make(cluster, &ended, arguments.suite_runs).await?;
    let operator = start().await?;
    sweep::end(cluster, &operator, arguments, report).await?;
    operator.stop().await
}

async fn run(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let cluster = Cluster::connect(&arguments.ground.fast_kubeconfig).await?;
    let simulation = Simulation::new(cluster.clone(), arguments.ground.pod_log.clone());
    let kubelet = kubelet::start(simulation.large.clone()).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A signal also ends the operator, a child of this process.
    tokio::select! {
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
        measured = measure(&cluster, arguments, kubelet, report) => measured,
        served = runners::serve(simulation) => {
            served.and_then(|()| bail!("it ended by itself")).context("the simulated runners ended")
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut report = Report::default();
    let measured = Box::pin(run(&arguments, &mut report)).await;
    report.print();
    match measured {
        Ok(()) if report.all_met() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("FAIL: {error:#}");
            ExitCode::FAILURE
        }
    }
}

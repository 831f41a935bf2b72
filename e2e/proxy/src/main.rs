//! Injects every fault of [`plan::KINDS`] at every request of the operator and compares the outcome with
//! that of a run without faults: see docs/reliability.md. `make test-proxy` runs it.

mod experiment;
mod judge;
mod operator;
mod plan;
mod report;
mod scenario;
mod state;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use dragstrip_bench_operator::{
    arguments::Ground,
    cluster::{Cluster, until},
    runners::{self, Simulation},
};
use dragstrip_crds::Datastore;
use dragstrip_fault_proxy::{engine::Entry, proxy::upstream};
use experiment::{Laboratory, Shown};
use futures::{StreamExt, future::try_join_all, stream};
use kube::{Resource, api::DeleteParams};
use plan::Plan;
use report::{Ending, Record, Records};
use scenario::Scenario;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicUsize,
    time::{Duration, Instant},
};

/// Injects faults between the operator and the API server of testbed/without-kubelets.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    ground: Ground,
    /// Directory for the operators' logs and requests, and for the record of the plans.
    #[arg(long)]
    directory: PathBuf,
    /// Scenarios; all if omitted.
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,
    /// Kinds of faults by a part of their name; all if omitted.
    #[arg(long)]
    fault: Vec<String>,
    /// Only plans whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Run so many plans, of every kind in turn.
    #[arg(long)]
    sample: Option<usize>,
    /// Seed for the choice and order of plans.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plans at the same time.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Skip the plans that the record has as survived.
    #[arg(long)]
    resume: bool,
    /// List the plans, and run none.
    #[arg(long)]
    list: bool,
}

/// The requests that both runs without a fault have.
fn common(one: &[Entry], other: &[Entry]) -> Vec<Entry> {
    let place = |entry: &Entry| (entry.request.words(), entry.number);
    let places: BTreeSet<_> = other.iter().map(place).collect();
    one.iter().filter(|entry| places.contains(&place(entry))).cloned().collect()
}

/// The scenario without a fault, twice: what differs between the two would be no finding.
async fn golden(laboratory: &Laboratory, scenario: Scenario) -> Result<(Shown, Vec<Entry>)> {
    let first = experiment::run(laboratory, scenario, None, None).await?;
    let failed = judge::failed(&first.end);
    ensure!(failed.is_empty(), "without a fault, {}", failed.join("; "));
    let again = experiment::run(laboratory, scenario, None, Some(&first)).await?;
    let judged = judge::judge(&first, &again);
    if !judged.wrong.is_empty() {
        bail!("two {scenario}s without a fault differ: {}", judged.wrong.join("; "));
    }
    // A fault costs what a run with it takes longer than the shorter of the two.
    let first = Shown { took: first.took.min(again.took), ..first };
    let entries = common(&first.entries, &again.entries);
    let writes = entries.iter().filter(|entry| entry.request.mutates).count();
    println!(
        "{scenario}: {} requests, {writes} of them writes, in {:.0} s",
        entries.len(),
        first.took.as_secs_f64()
    );
    Ok((first, entries))
}

async fn carry_out(laboratory: &Laboratory, plan: &Plan, golden: &Shown) -> Record {
    let mut record = Record {
        plan: plan.name(),
        kind: plan.kind.name.to_owned(),
        ending: Ending::Failed,
        longer: 0.0,
        exits: 0,
        retries: 0,
        wrong: Vec::new(),
    };
    match experiment::run(laboratory, plan.scenario, Some(plan), Some(golden)).await {
        Ok(shown) => {
            let judged = judge::judge(golden, &shown);
            (record.longer, record.retries, record.exits) = (judged.longer, judged.retries, shown.exits);
            record.ending = match (shown.injected, judged.wrong.is_empty()) {
                (_, false) => Ending::Failed,
                (false, true) => Ending::Absent,
                (true, true) => Ending::Survived,
            };
            record.wrong = judged.wrong;
            if record.ending == Ending::Failed {
                record.wrong.push(format!("see {}", shown.directory.display()));
            } else if let Err(error) = std::fs::remove_dir_all(&shown.directory) {
                eprintln!("cannot remove the logs of {}: {error}", record.plan);
            }
        }
        Err(error) => record.wrong = vec![format!("{error:#}")],
    }
    record
}

fn selected(arguments: &Arguments, plans: Vec<Plan>) -> Vec<Plan> {
    let wanted = |plan: &Plan| {
        let kind = plan.kind.name;
        (arguments.fault.is_empty() || arguments.fault.iter().any(|fault| kind.contains(fault.as_str())))
            && arguments.only.as_ref().is_none_or(|only| plan.name().contains(only.as_str()))
    };
    let plans = plans.into_iter().filter(wanted).collect();
    plan::sample(plans, arguments.seed, arguments.sample.unwrap_or(usize::MAX))
}

/// Runs the plans; returns whether all survived.
async fn test(laboratory: &Laboratory, arguments: &Arguments) -> Result<bool> {
    let scenarios = if arguments.scenario.is_empty() { &scenario::ALL[..] } else { &arguments.scenario };
    let (mut goldens, mut plans) = (BTreeMap::new(), Vec::new());
    let without_fault = try_join_all(scenarios.iter().map(|scenario| golden(laboratory, *scenario))).await?;
    for (scenario, (shown, entries)) in scenarios.iter().zip(without_fault) {
        plans.extend(plan::plans(*scenario, &entries));
        goldens.insert(*scenario, shown);
    }
    let plans = selected(arguments, plans);
    if arguments.list {
        for plan in &plans {
            println!("{}", plan.name());
        }
        return Ok(true);
    }
    let path = arguments.directory.join("plans.jsonl");
    if !arguments.resume && path.exists() {
        std::fs::remove_file(&path)?;
    }
    let records = Records::read(&path)?;
    let (names, begun) = (plans.iter().map(Plan::name).collect::<Vec<_>>(), Instant::now());
    let left: Vec<&Plan> = plans.iter().filter(|plan| !records.has(&plan.name())).collect();
    println!("{} plans, {} of them to run, seed {}", plans.len(), left.len(), arguments.seed);
    let runs = left.iter().map(|plan| carry_out(laboratory, plan, &goldens[&plan.scenario]));
    let mut runs = stream::iter(runs).buffer_unordered(arguments.jobs);
    while let Some(record) = runs.next().await {
        if record.ending == Ending::Failed {
            println!("FAIL: {}: {}", record.plan, record.wrong.join("; "));
        }
        records.add(record)?;
    }
    let kinds = plan::KINDS.map(|kind| kind.name);
    println!(
        "\n{}\n\nin {:.0} s, seed {}",
        records.table(&kinds, &names),
        begun.elapsed().as_secs_f64(),
        arguments.seed
    );
    let failed = records.failed(&names);
    for record in &failed {
        println!("FAIL: {}: {}", record.plan, record.wrong.join("; "));
    }
    Ok(failed.is_empty())
}

/// Creates the directory, without the logs of earlier experiments.
fn prepare(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// Waits until the garbage collector knows the CRDs: it looks for new kinds every 30 s, and what it does
/// not collect yet would be part of the end state.
async fn await_collector(cluster: &Cluster) -> Result<()> {
    let namespace = "dragstrip-system";
    let spec = json!({"engine": "Redis", "version": "7.0", "threads": 1, "maxMemory": "64Mi"});
    let owner = json!({"metadata": {"name": "owner"}, "spec": spec});
    let owner = cluster.create::<Datastore>(namespace, owner).await?.owner_ref(&());
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": [owner]}, "spec": spec});
    cluster.create::<Datastore>(namespace, owned).await?;
    let datastores = cluster.api::<Datastore>(namespace);
    datastores.delete("owner", &DeleteParams::background()).await?;
    let collected = async || Ok(datastores.get_opt("owned").await?.is_none());
    until("the garbage collector", Duration::from_secs(120), collected).await?;
    Ok(())
}

async fn run(arguments: &Arguments) -> Result<bool> {
    prepare(&arguments.directory).context("no directory for the record")?;
    let cluster = Cluster::connect(&arguments.ground.fast_kubeconfig).await?;
    cluster.prepare(0).await?;
    await_collector(&cluster).await?;
    let laboratory = Laboratory {
        cluster: cluster.clone(),
        upstream: upstream(&arguments.ground.kubeconfig).await?,
        simulation: Simulation::new(cluster, arguments.ground.pod_log.clone()),
        program: arguments.ground.operator.clone(),
        directory: arguments.directory.clone(),
        number: AtomicUsize::new(1),
        http: reqwest::Client::builder().no_proxy().build()?,
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        tested = Box::pin(test(&laboratory, arguments)) => tested,
        served = runners::serve(laboratory.simulation.clone()) => {
            served.and_then(|()| bail!("it ended by itself")).context("the simulated runners ended")
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("FAIL: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Injects faults into runs on real kubelets, a fault a run, each from a seed, and judges what the runs show by
//! what servers and client pods counted. Needs root on the machine of the testbed, and breaks its cluster.

mod clock;
mod disk;
mod inject;
mod judge;
mod lane;
mod memory;
mod moment;
mod plan;
mod record;
mod shared;
mod witness;

use anyhow::{Result, ensure};
use clap::Parser;
use lane::Lane;
use plan::{Fault, Plan};
use record::Record;
use shared::Shared;
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};
use tokio::task::LocalSet;

/// Inject seeded faults into runs on the testbed, and judge what the runs show.
#[derive(Parser)]
struct Arguments {
    /// Measure this many runs, each with a fault of its own
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// Begin with this seed; each further run has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Append a line of JSON per run to this file, and skip the seeds that it has
    #[arg(long)]
    file: PathBuf,
    /// Inject only this kind of fault, and skip the seeds of others; may be repeated
    #[arg(long)]
    only: Vec<Fault>,
    /// Hold the lock of this file while a part of the cluster is stopped that others use
    #[arg(long)]
    lock: Option<PathBuf>,
    /// Begin no run after this many seconds; the next call goes on
    #[arg(long)]
    within: Option<u64>,
    /// Print the table of the file, and measure nothing
    #[arg(long)]
    table: bool,
}

/// The seeds that are left.
struct Work<'a> {
    plans: Vec<Plan>,
    next: AtomicUsize,
    until: Option<Instant>,
    shared: &'a Shared,
    file: &'a PathBuf,
}

impl Work<'_> {
    fn next(&self) -> Option<&Plan> {
        let late = self.until.is_some_and(|until| Instant::now() > until);
        self.plans.get(self.next.fetch_add(1, Ordering::Relaxed)).filter(|_| !late)
    }

    /// Measures one run after the other until none is left.
    async fn measure(&self, mut lane: Lane) -> Result<()> {
        while let Some(plan) = self.next() {
            match Box::pin(lane.run(plan, self.shared)).await {
                Ok(record) => {
                    record::append(self.file, &record)?;
                    print(&record);
                }
                // The seed is left for the next call.
                Err(error) => eprintln!("seed {} ({}): {error:#}", plan.seed, plan.fault),
            }
        }
        lane.close().await
    }
}

fn print(record: &Record) {
    let Record { seed, fault, moment, end, seconds, .. } = record;
    println!("{seed:5} {seconds:5.1} s  {fault} {moment:?}: {end:?}");
    if !record.good() {
        println!("      {}", serde_json::to_string(record).unwrap_or_default());
    }
}

/// Measures what is left of these seeds, two runs at a time.
async fn measure(arguments: &Arguments, plans: Vec<Plan>) -> Result<()> {
    let cluster = dragstrip_e2e::connect().await?;
    let nodes = dragstrip_e2e::nodes::all(&cluster).await?;
    let shared = Shared::new(arguments.lock.clone());
    let work = Work {
        plans,
        next: AtomicUsize::new(0),
        until: arguments.within.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        shared: &shared,
        file: &arguments.file,
    };
    let lane = |number: usize| {
        let (server, client) = (&nodes.servers[number], &nodes.clients[number]);
        // What an earlier call left when it was killed.
        _ = disk::restore_image(client.trim_start_matches("dragstrip-"));
        Lane::new(number, cluster.clone(), server, client)
    };
    let beside = LocalSet::new();
    let (one, other) =
        Box::pin(beside.run_until(async { tokio::join!(work.measure(lane(0)), work.measure(lane(1))) }))
            .await;
    // Homes that are not removed yet.
    beside.await;
    one.and(other)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let seeds = arguments.seed..arguments.seed + arguments.runs;
    let chosen = |fault: Fault| arguments.only.is_empty() || arguments.only.contains(&fault);
    let plans: Vec<Plan> = seeds.clone().map(Plan::of).filter(|plan| chosen(plan.fault)).collect();
    let all = plans.len();
    if !arguments.table {
        let done: BTreeSet<u64> = record::read(&arguments.file)?.iter().map(|record| record.seed).collect();
        let left: Vec<Plan> = plans.into_iter().filter(|plan| !done.contains(&plan.seed)).collect();
        println!("{} of {all} seeds are left", left.len());
        if !left.is_empty() {
            Box::pin(measure(&arguments, left)).await?;
        }
    }
    let mut records = record::read(&arguments.file)?;
    records.retain(|record| seeds.contains(&record.seed) && chosen(record.fault));
    println!("\n{}", record::table(&records));
    let bad: Vec<u64> = records.iter().filter(|record| !record.good()).map(|record| record.seed).collect();
    ensure!(
        bad.is_empty(),
        "results are lost or contradicted: seeds {bad:?} in {}",
        arguments.file.display()
    );
    ensure!(records.len() == all || arguments.table, "{} of {all} seeds are measured", records.len());
    Ok(())
}

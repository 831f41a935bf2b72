//! Measures one run after the other for hours, of all kinds, and fails if what the operator uses rises.

mod load;
mod sample;
mod trend;

use anyhow::{Result, ensure};
use clap::Parser;
use dragstrip_e2e::{Env, manifests::REDIS};
use sample::{GAUGES, Sample, Sampler};
use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

/// Between two samples.
const SAMPLE_AGAIN: Duration = Duration::from_secs(10);

/// Measure runs of all kinds back to back, and fail if the operator's memory, open files, threads, tasks, watches
/// or calls rise after the first tenth.
#[derive(Parser)]
struct Arguments {
    /// Go on for this many hours, and to the end of the cycle
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
}

/// Samples for ever, into the last cycle.
async fn sample_on(sampler: &Sampler, cycles: &RefCell<Vec<Vec<Sample>>>) -> Result<()> {
    loop {
        let sample = sampler.sample().await?;
        if let Some(cycle) = cycles.borrow_mut().last_mut() {
            cycle.push(sample);
        }
        tokio::time::sleep(SAMPLE_AGAIN).await;
    }
}

async fn soak(env: &Env, hours: f64) -> Result<Vec<Vec<Sample>>> {
    env.datastore("redis", REDIS).await?;
    env.datastore_ready("redis").await?;
    let (kinds, sampler) = (load::kinds(env).await?, Sampler::new(env.client.clone()).await?);
    let until = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let cycles = RefCell::new(Vec::new());
    let measure = async {
        while Instant::now() < until {
            cycles.borrow_mut().push(Vec::new());
            let (number, begun) = (cycles.borrow().len(), Instant::now());
            for kind in &kinds {
                kind.measure(env, number).await?;
            }
            let memory = cycles.borrow().last().and_then(|samples: &Vec<Sample>| samples.last()?.values[0]);
            let memory =
                memory.map_or_else(|| "unknown memory".to_owned(), |mebibytes| format!("{mebibytes:.1} MiB"));
            println!(
                "cycle {number}: {} runs in {:.0} s, {memory}",
                kinds.len(),
                begun.elapsed().as_secs_f64()
            );
        }
        anyhow::Ok(())
    };
    tokio::select! {
        measured = measure => measured?,
        failed = sample_on(&sampler, &cycles) => failed?,
    }
    Ok(cycles.into_inner())
}

/// Prints the table, and returns what rises.
fn judge(cycles: &[Vec<Sample>], hours: f64) -> Vec<&'static str> {
    let mut rising = Vec::new();
    println!("\n| | first cycle | last | growth | of which noise | |\n|---|--:|--:|--:|--:|---|");
    for ((name, share, amount), values) in GAUGES.into_iter().zip(trend::means(cycles)) {
        let Some(trend) = trend::Trend::of(&values) else {
            println!("| {name} | | | | | not measured: {} cycles |", values.len());
            continue;
        };
        let rises = trend.rises(share, amount, hours);
        let verdict = if rises { "rises" } else { "flat" };
        let trend::Trend { first, last, growth, noise, .. } = trend;
        println!("| {name} | {first:.1} | {last:.1} | {growth:+.2} | ±{noise:.2} | {verdict} |");
        rising.extend(rises.then_some(name));
    }
    rising
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Arguments { hours } = Arguments::parse();
    let env = Env::make(dragstrip_e2e::connect().await?, "soak").await?;
    let soaked = soak(&env, hours).await;
    let removed = env.remove().await;
    let cycles = soaked?;
    let rising = judge(&cycles, hours);
    removed?;
    let fewest = trend::FEWEST;
    ensure!(cycles.len() > fewest, "{} cycles are too few to see a trend: raise --hours", cycles.len());
    ensure!(rising.is_empty(), "what the operator uses rises: {}", rising.join(", "));
    Ok(())
}

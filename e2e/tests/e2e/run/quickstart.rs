//! The manifests people start from.

use crate::common::{complete, end_event};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun,
    conditions::{holds, types::PASSED},
    run::{Progress, RunPhase},
};
use dragstrip_e2e::{
    Env, SHORT_RUN, alone, nodes,
    results::{self, agrees, count, never_together, operation, phase, plausible},
};

use kube::ResourceExt;

const QUICKSTART: &str = include_str!("../../../../examples/quickstart.yaml");
/// Both runs, one after the other, with their servers' start.
const BOTH: std::time::Duration = SHORT_RUN.saturating_mul(2);
const DURATION_SECONDS: f64 = 5.0;

#[tokio::test]
async fn the_quickstart_ends_in_numbers_that_the_servers_confirm() -> Result<()> {
    alone("quickstart", |env| async move {
        env.manifest(QUICKSTART).await?;
        let (mut all, mut placed) = (Vec::new(), Vec::new());
        for datastore in ["redis", "valkey"] {
            let name = format!("quickstart-{datastore}");
            let run = env.run_in(&name, RunPhase::Succeeded, BOTH).await?;
            check_status(&run, datastore).with_context(|| name.clone())?;
            check_results(&env, &run).await.with_context(|| name.clone())?;
            check_server(&env, &run, datastore).await.with_context(|| name.clone())?;
            check_columns(&env, &run, datastore).await.with_context(|| name.clone())?;
            check_events(&env, &run).await?;
            all.extend(env.results(&run).await?);
            placed.push(nodes::of(&env.server_pod(datastore).await?)?);
        }
        // Servers on one node are loaded one after the other.
        if placed[0] == placed[1] {
            all.sort_by_key(|result| results::window(result).0);
            never_together(&all)?;
        }
        Ok(())
    })
    .await
}

fn check_status(run: &BenchmarkRun, datastore: &str) -> Result<()> {
    complete(run, "Succeeded")?;
    let status = results::status(run)?;
    ensure!(
        holds(&status.conditions, PASSED, run.metadata.generation),
        "not Passed: {:?}",
        status.conditions
    );
    ensure!(status.observed_generation == run.metadata.generation, "observedGeneration is old");
    ensure!(status.progress == Some(Progress { measured: 3, total: 3 }), "progress {:?}", status.progress);
    ensure!(status.started_at <= status.finished_at && status.started_at.is_some(), "started after it ended");
    ensure!(status.failure.is_none() && status.queue.is_none(), "leftovers: {status:?}");
    let target = status.target.clone().context("no target")?;
    let observed = target.observed.context("the target's server was not observed")?;
    ensure!(
        target.name == datastore && !target.nodes.is_empty() && observed.threads == Some(1),
        "target {:?}",
        status.target
    );
    for name in ["write", "read", "pipelined-read"] {
        plausible(phase(&status, name)?)?;
    }
    ensure!(
        operation(phase(&status, "write")?, "SET")?.count == 400_000,
        "20 connections wrote 20000 keys each"
    );
    for name in ["read", "pipelined-read"] {
        let phase = phase(&status, name)?;
        let reads = operation(phase, "GET")?;
        ensure!(reads.hits == Some(reads.count) && reads.misses == Some(0), "every key exists: {reads:?}");
        let window = phase.repetitions[0].window_seconds;
        ensure!(
            (window - DURATION_SECONDS).abs() < 0.5,
            "{name} ran {window} s, declared {DURATION_SECONDS} s"
        );
    }
    Ok(())
}

async fn check_results(env: &Env, run: &BenchmarkRun) -> Result<()> {
    let status = results::status(run)?;
    let stored = env.results(run).await?;
    ensure!(stored.len() == 3, "{} results are stored", stored.len());
    for (result, name) in stored.iter().zip(["write", "read", "pipelined-read"]) {
        ensure!(
            (result.phase.as_str(), result.repetition) == (name, 1),
            "{} came when {name} should",
            result.phase
        );
        agrees(result, phase(&status, name)?)?;
    }
    never_together(&stored)
}

async fn check_server(env: &Env, run: &BenchmarkRun, datastore: &str) -> Result<()> {
    let status = results::status(run)?;
    let mut server = env.server(datastore).await?;
    ensure!(server.keys().await? == 100_000, "the server holds {} keys", server.keys().await?);
    let calls = server.calls().await?;
    let calls = |command: &str| calls.get(command).copied().unwrap_or_default();
    ensure!(calls("set") == count(&status, "SET"), "the server counted {} SETs", calls("set"));
    // What was in flight when the time was over: one request of 20 connections, and ten.
    let (server, tool) = (calls("get"), count(&status, "GET"));
    ensure!((tool..=tool + 220).contains(&server), "the server counted {server} GETs, the tool {tool}");
    Ok(())
}

async fn check_columns(env: &Env, run: &BenchmarkRun, datastore: &str) -> Result<()> {
    let headline = results::status(run)?.headline.context("no headline")?;
    ensure!(headline.phase == "pipelined-read", "the last phase with a throughput: {headline:?}");
    let cell = |number: Option<i64>| number.map(|number| number.to_string()).context("no figure");
    let columns = env.columns("BenchmarkRun", run.metadata.name.as_deref().unwrap_or_default()).await?;
    for (column, wanted) in [
        ("Phase", "Succeeded"),
        ("Target", datastore),
        ("Done", "3"),
        ("Of", "3"),
        ("Ops/s", &cell(headline.throughput)?),
        ("p99 us", &cell(headline.p99_latency_microseconds)?),
        ("Passed", "True"),
    ] {
        ensure!(
            columns.get(column).is_some_and(|cell| cell == wanted),
            "{column} should be {wanted}: {columns:?}"
        );
    }
    let columns = env.columns("Datastore", datastore).await?;
    for (column, wanted) in [("Ready", "True"), ("Threads", "1")] {
        ensure!(
            columns.get(column).is_some_and(|cell| cell == wanted),
            "{column} should be {wanted}: {columns:?}"
        );
    }
    Ok(())
}

async fn check_events(env: &Env, run: &BenchmarkRun) -> Result<()> {
    let end = end_event(run)?;
    for (reason, text) in [("Running", "phase write"), ("Running", "phase pipelined-read"), (end, "3")] {
        env.event("BenchmarkRun", &run.name_any(), reason, text, dragstrip_e2e::NOTICE).await?;
    }
    Ok(())
}

//! The manifests people start from.

use crate::common::{complete, end_event};
use crate::suite::life::{ended, measured_once};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    BenchmarkRun,
    conditions::{holds, types::PASSED},
    run::Progress,
};
use dragstrip_e2e::{
    Env, SHORT_RUN, alone,
    results::{self, agrees, never_together, operation, phase, plausible},
};

use kube::ResourceExt;

const QUICKSTART: &str = include_str!("../../../../examples/quickstart.yaml");
/// Six runs in turns, and the start of two servers.
const ALL: std::time::Duration = SHORT_RUN.saturating_mul(6);
const REPETITIONS: usize = 3;
const DURATION_SECONDS: f64 = 3.0;

#[tokio::test]
async fn the_quickstart_ends_in_numbers_that_the_servers_confirm() -> Result<()> {
    alone("quickstart", |env| async move {
        env.manifest(QUICKSTART).await?;
        let suite = ended(&env, "quickstart", ALL).await?;
        measured_once(&env, &suite, 2 * REPETITIONS).await?;
        let runs: Vec<BenchmarkRun> = env.labelled("dragstrip.dev/suite=quickstart").await?;
        for datastore in ["redis", "valkey"] {
            let runs: Vec<&BenchmarkRun> = runs.iter().filter(|run| target(run) == datastore).collect();
            ensure!(runs.len() == REPETITIONS, "{} runs against {datastore}", runs.len());
            for run in &runs {
                check_run(&env, run, datastore).await.with_context(|| run.name_any())?;
            }
            check_server(&env, &runs, datastore).await?;
        }
        let mut all = Vec::new();
        for run in &runs {
            all.extend(env.results(run).await?);
        }
        all.sort_by_key(|result| results::window(result).0);
        never_together(&all)
    })
    .await
}

fn target(run: &BenchmarkRun) -> String {
    run.status.clone().and_then(|status| status.target).map(|target| target.name).unwrap_or_default()
}

async fn check_run(env: &Env, run: &BenchmarkRun, datastore: &str) -> Result<()> {
    check_status(run, datastore)?;
    check_results(env, run).await?;
    check_columns(env, run, datastore).await?;
    check_events(env, run).await
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

async fn check_server(env: &Env, runs: &[&BenchmarkRun], datastore: &str) -> Result<()> {
    let mut server = env.server(datastore).await?;
    ensure!(server.keys().await? == 100_000, "the server holds {} keys", server.keys().await?);
    let calls = server.calls().await?;
    let calls = |command: &str| calls.get(command).copied().unwrap_or_default();
    let (mut sets, mut gets) = (0, 0);
    for run in runs {
        let status = results::status(run)?;
        sets += env.sent(&status, "SET").await?;
        gets += env.sent(&status, "GET").await?;
    }
    ensure!(calls("set") == sets, "{datastore} counted {} SETs, the runs {sets}", calls("set"));
    // When the time of a phase ends, 20 connections have one request in flight, or ten.
    let in_flight = 220 * runs.len() as u64;
    let counted = calls("get");
    ensure!(
        (gets..=gets + in_flight).contains(&counted),
        "{datastore} counted {counted} GETs, the runs {gets}"
    );
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

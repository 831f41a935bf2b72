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
/// Six runs in turns, each with the start of its server.
const ALL: std::time::Duration = SHORT_RUN.saturating_mul(7);
const REPETITIONS: usize = 3;
const DURATION_SECONDS: f64 = 3.0;

#[tokio::test]
async fn the_quickstart_ends_in_numbers_that_the_servers_confirm() -> Result<()> {
    alone("quickstart", |env| async move {
        env.manifest(QUICKSTART).await?;
        let suite = ended(&env, "quickstart", ALL).await?;
        measured_once(&env, &suite, 2 * REPETITIONS).await?;
        let runs: Vec<BenchmarkRun> = env.labelled("dragstrip.dev/suite=quickstart").await?;
        for engine in ["Redis", "Valkey"] {
            let runs: Vec<&BenchmarkRun> = runs.iter().filter(|run| engine_of(run) == engine).collect();
            ensure!(runs.len() == REPETITIONS, "{} runs against {engine}", runs.len());
            for run in &runs {
                check_run(&env, run).await.with_context(|| run.name_any())?;
            }
        }
        let status = suite.status.context("the suite has no status")?;
        let compared = status.rows.iter().filter(|row| row.ratio.is_some_and(|ratio| ratio.low < ratio.mid));
        ensure!(compared.count() == 3, "each phase is compared, with an interval: {:?}", status.rows);
        let mut all = Vec::new();
        for run in &runs {
            all.extend(env.results(run).await?);
        }
        all.sort_by_key(|result| results::window(result).0);
        never_together(&all)
    })
    .await
}

fn engine_of(run: &BenchmarkRun) -> String {
    run.spec.target.datastore().map(|server| server.engine.to_string()).unwrap_or_default()
}

async fn check_run(env: &Env, run: &BenchmarkRun) -> Result<()> {
    check_status(run)?;
    check_results(env, run).await?;
    check_columns(env, run).await?;
    check_events(env, run).await
}

fn check_status(run: &BenchmarkRun) -> Result<()> {
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
        target.name == run.name_any() && !target.nodes.is_empty() && observed.threads == Some(1),
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

async fn check_columns(env: &Env, run: &BenchmarkRun) -> Result<()> {
    let headline = results::status(run)?.headline.context("no headline")?;
    ensure!(headline.phase == "pipelined-read", "the last phase with a throughput: {headline:?}");
    let cell = |number: Option<i64>| number.map(|number| number.to_string()).context("no figure");
    let name = run.name_any();
    let columns = env.columns("BenchmarkRun", &name).await?;
    let combination = run.annotations()["dragstrip.dev/cell-in-words"].as_str();
    ensure!(combination.ends_with(" of 3"), "{combination}");
    for (column, wanted) in [
        ("Phase", "Succeeded"),
        ("Target", &name),
        ("Combination", combination),
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
    Ok(())
}

async fn check_events(env: &Env, run: &BenchmarkRun) -> Result<()> {
    let end = end_event(run)?;
    for (reason, text) in [("Running", "phase write"), ("Running", "phase pipelined-read"), (end, "3")] {
        env.event("BenchmarkRun", &run.name_any(), reason, text, dragstrip_e2e::NOTICE).await?;
    }
    Ok(())
}

//! BullMQ with its own client library.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, SERVER_UP, SHORT_RUN,
    manifests::against,
    results::{self, operation, phase},
    with_namespace,
};

const JOBS: &str = "
phases:
- name: add
  bullmq: {writers: 2, queues: 8, duration: 2s, concurrency: 16}
  warmup: 1s
- name: bulk
  bullmq: {writers: 1, queues: 8, duration: 1s, bulk: 50, concurrency: 4}
- name: process
  bullmq: {writers: 1, readers: 1, queues: 2, duration: 2s, concurrency: 8}
- name: published
  bullmq: {mode: Published, writers: 1, readers: 1, queues: 2, duration: 2s, readerConcurrency: 4}
timeout: 5m
";
const CLUSTER: &str = "
engine: Redis
version: '7.0'
image: dragstrip.dev/testbed/redis:7.0
threads: 1
port: 7000
maxMemory: 128Mi
cluster: {shards: 8}
resources:
  requests: {cpu: 50m, memory: 64Mi}
  limits: {cpu: 2, memory: 208Mi}
";
const CLUSTER_JOBS: &str = "
phases:
- name: add
  bullmq: {writers: 2, queues: 8, duration: 2s, concurrency: 16}
timeout: 5m
";

async fn measured(env: &Env, datastore: &str, phases: &str, names: &[&str]) -> Result<()> {
    env.run("jobs", &against(datastore, phases)).await?;
    let run = env.run_in("jobs", RunPhase::Succeeded, SHORT_RUN * 2).await?;
    complete(&run, "Succeeded")?;
    let status = results::status(&run)?;
    for (result, name) in env.results(&run).await?.iter().zip(names) {
        let operation = operation(phase(&status, name)?, "ADD")?;
        ensure!(operation.count > 500 && operation.errors == 0, "{name}: {operation:?}");
        ensure!(operation.latency_milliseconds.p50 > Some(0.0), "{name}: {operation:?}");
        let pod = &result.pods[0];
        let queues = pod.queues.context("the queues were not counted")?;
        ensure!(queues.expected == queues.found && queues.found >= operation.count, "{name}: {queues:?}");
        let adds: u64 = pod.workers.iter().filter(|w| w.role == "writer").map(|w| w.operations).sum();
        ensure!(adds == operation.count, "{name}: the workers added {adds}, together {}", operation.count);
        ensure!(pod.workers.iter().all(|w| w.cpu_seconds > 0.0), "{name}: {:?}", pod.workers);
    }
    Ok(())
}

/// Whether adds and processed jobs have their own rates and no total, and the mode is named.
async fn two_things(env: &Env) -> Result<()> {
    let run = env.run_in("jobs", RunPhase::Succeeded, SHORT_RUN).await?;
    let status = results::status(&run)?;
    for (name, mode) in [("process", "Fast"), ("published", "Published")] {
        let phase = phase(&status, name)?;
        let rows: Vec<_> = phase.operations.iter().map(|row| row.operation.as_str()).collect();
        ensure!(rows == ["ADD", "PROCESS"], "{name}: {rows:?}");
        ensure!(phase.tool.mode.as_deref() == Some(mode), "{name}: {:?}", phase.tool);
        ensure!(phase.notes.iter().any(|note| note.starts_with("the latency of ADD")), "{:?}", phase.notes);
        for row in &phase.operations {
            // Both parts of the published measurement take 2 s, together 4 s.
            let seconds = row.count as f64 / row.operations_per_second.mean;
            ensure!((1.5..3.0).contains(&seconds), "{name}: {row:?} is of {seconds} s");
        }
    }
    Ok(())
}

#[tokio::test]
async fn bullmq_adds_and_processes_jobs_on_redis() -> Result<()> {
    with_namespace("bullmq", |env| async move {
        redis(&env).await?;
        measured(&env, "redis", JOBS, &["add", "bulk", "process", "published"]).await?;
        two_things(&env).await?;
        let keys = env.server("redis").await?.keys().await?;
        ensure!(keys == 0, "{keys} keys of the queues were left behind");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn bullmq_adds_jobs_on_a_cluster_of_eight_shards() -> Result<()> {
    with_namespace("bullmq-cluster", |env| async move {
        env.datastore("cluster", CLUSTER).await?;
        let datastore = env.datastore_is("cluster", "eight shards", SERVER_UP * 2, |datastore| {
            let members = datastore.status.as_ref().map(|status| status.members.clone()).unwrap_or_default();
            members.len() == 8 && members.iter().all(|member| !member.slots.is_empty())
        });
        datastore.await?;
        env.datastore_ready("cluster").await?;
        measured(&env, "cluster", CLUSTER_JOBS, &["add"]).await
    })
    .await
}

//! Points with twice the connections, of a real server.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::{ConfirmationStatus, Limiter, PhaseStatus, RunPhase};
use dragstrip_e2e::{
    Env, SHORT_RUN, alone,
    manifests::against,
    results::{self, phase},
};
use std::time::Duration;

/// Four measurements, each of which starts a pod.
const MEASUREMENTS: Duration = Duration::from_secs(90);

/// A command that the server answers after 10 ms without using a CPU: each connection adds its 100 a second,
/// whatever else the machine does.
const WAIT: &str = "{command: BLPOP __key__ 0.01}";

const READ: &str = "{operation: Get}";

/// A phase of `operation` on so many connections, measured so often and then once more with twice as many.
fn phases(operation: &str, connections: u32, repetitions: u32) -> String {
    format!(
        "
phases:
- name: read
  confirm: true
  loadgen: {{duration: 4s, operations: [{operation}], keyMaximum: 9999, connectionsPerThread: {connections}}}
repetitions: {repetitions}
timeout: 5m
"
    )
}

/// What the point of a run with so many connections showed, after checks that hold of every point.
async fn confirmed(
    env: &Env,
    name: &str,
    operation: &str,
    connections: u32,
    repetitions: u32,
) -> Result<PhaseStatus> {
    env.run(name, &against("redis", &phases(operation, connections, repetitions))).await?;
    let run = env.run_in(name, RunPhase::Succeeded, SHORT_RUN + MEASUREMENTS).await?;
    complete(&run, "Succeeded")?;
    let status = results::status(&run)?;
    let read = phase(&status, "read")?;
    let point = confirmation(read)?;
    ensure!(point.connections_per_thread == u64::from(2 * connections), "{point:?}");
    ensure!(read.repetitions.len() == repetitions as usize, "the point is counted: {:?}", read.repetitions);
    let mean = read.operations.last().context("no operation")?.operations_per_second.mean;
    let gain = point.operations_per_second / mean - 1.0;
    ensure!((gain - point.gain).abs() < 1e-6, "{gain} is not {point:?}");
    let stored = env.result(&point.config_map).await?.point.context("the result is no point")?;
    ensure!(stored.value == point.connections_per_thread, "{stored:?}");
    let progress = status.progress.context("no progress")?;
    ensure!(progress.measured == progress.total, "{progress:?}");
    Ok(read.clone())
}

fn confirmation(phase: &PhaseStatus) -> Result<&ConfirmationStatus> {
    phase.confirmation.as_ref().with_context(|| format!("there is no confirmation: {:?}", phase.notes))
}

#[tokio::test]
async fn twice_the_connections_bring_more_from_one_and_nothing_from_two_hundred() -> Result<()> {
    alone("confirmed", |env| async move {
        redis(&env).await?;
        // A single repetition: any gain of more than 5 % shows room.
        let few = confirmed(&env, "few", WAIT, 1, 1).await?;
        let room = confirmation(&few)?;
        ensure!(room.gain > 0.8, "twice the connections do not bring twice the waits: {room:?}");
        ensure!(room.message.contains("the server had room"), "{room:?}");
        let many = confirmed(&env, "many", READ, 200, 3).await?;
        let full = confirmation(&many)?;
        ensure!(full.gain <= full.explained_by_noise, "200 connections left room: {full:?}");
        let limiter = many.limited_by.as_ref().map(|limited| limited.by);
        ensure!(limiter != Some(Limiter::Connections), "{limiter:?}: {full:?}");
        Ok(())
    })
    .await
}

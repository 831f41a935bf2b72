//! Points with twice the connections, of a real server.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::{ConfirmationStatus, Limiter, PhaseStatus, RunPhase};
use dragstrip_e2e::{
    SHORT_RUN, alone,
    manifests::against,
    results::{self, phase},
};
use std::time::Duration;

/// Eight measurements, each of which starts a pod.
const MEASUREMENTS: Duration = Duration::from_secs(180);

const FEW_AND_MANY: &str = "
phases:
- name: few
  confirm: true
  loadgen: {duration: 4s, ratio: '0:1', keyMaximum: 9999, connectionsPerThread: 1}
- name: many
  confirm: true
  loadgen: {duration: 4s, ratio: '0:1', keyMaximum: 9999, connectionsPerThread: 200}
repetitions: 3
timeout: 10m
";

fn confirmation(phase: &PhaseStatus) -> Result<&ConfirmationStatus> {
    phase
        .confirmation
        .as_ref()
        .with_context(|| format!("{} has no confirmation: {:?}", phase.name, phase.notes))
}

#[tokio::test]
async fn twice_the_connections_bring_more_from_one_and_nothing_from_two_hundred() -> Result<()> {
    alone("confirmed", |env| async move {
        redis(&env).await?;
        env.run("sure", &against("redis", FEW_AND_MANY)).await?;
        let run = env.run_in("sure", RunPhase::Succeeded, SHORT_RUN + MEASUREMENTS).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let (few, many) = (phase(&status, "few")?, phase(&status, "many")?);
        let (room, full) = (confirmation(few)?, confirmation(many)?);
        ensure!(room.gain > room.explained_by_noise, "one connection left no room: {room:?}");
        ensure!(room.message.contains("the server had room"), "{room:?}");
        ensure!(full.gain <= full.explained_by_noise, "200 connections left room: {full:?}");
        let limiter = many.limited_by.as_ref().map(|limited| limited.by);
        ensure!(limiter != Some(Limiter::Connections), "{limiter:?}: {full:?}");
        ensure!((room.connections_per_thread, full.connections_per_thread) == (2, 400), "{room:?}, {full:?}");
        for (of_phase, point) in [(few, room), (many, full)] {
            ensure!(of_phase.repetitions.len() == 3, "the point is counted: {:?}", of_phase.repetitions);
            let mean = of_phase.operations.last().context("no operation")?.operations_per_second.mean;
            let gain = point.operations_per_second / mean - 1.0;
            ensure!((gain - point.gain).abs() < 1e-6, "{gain} is not {point:?}");
            let result = env.result(&point.config_map).await?;
            let stored = result.point.context("the result does not say that it is a point")?;
            ensure!(stored.value == point.connections_per_thread, "{stored:?}");
        }
        let progress = status.progress.context("no progress")?;
        ensure!((progress.measured, progress.total) == (8, 8), "{progress:?}");
        Ok(())
    })
    .await
}

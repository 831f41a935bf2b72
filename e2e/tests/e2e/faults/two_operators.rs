//! Two operators at once, as while one replaces the other: each thing is done once.

use crate::common::{confirmed, jobs_made_since, jobs_now, leases_gone};
use anyhow::{Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, SHORT_RUN, alone,
    manifests::{REDIS, against},
    operator,
    results::{self, never_together, plausible},
};
use futures::TryStreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    ResourceExt,
    api::{WatchEvent, WatchParams},
};
use std::collections::{BTreeMap, BTreeSet};

const START_AT: &str = "dragstrip.dev/start-at-unix-nanos";
const PHASES: &str = "
clients: {pods: 2}
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 2s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 2s}
- name: both
  loadgen: {ratio: '1:1', keyMaximum: 9999, duration: 2s}
timeout: 5m
";
const JOBS: [&str; 3] = ["twice-write-1", "twice-read-1", "twice-both-1"];

#[tokio::test]
async fn two_operators_measure_every_phase_once() -> Result<()> {
    alone("two-operators", |env| async move {
        let then = jobs_now(&env).await?;
        let run = operator::twice(&env.client, async {
            env.datastore("redis", REDIS).await?;
            env.run("twice", &against("redis", PHASES)).await?;
            env.run_in("twice", RunPhase::Succeeded, SHORT_RUN.saturating_mul(2)).await
        })
        .await?;
        let made = jobs_made_since(&env, &then).await?;
        ensure!(made == JOBS, "each Job is made once and in order, not {made:?}");
        for (job, lines) in start_lines_since(&env, &then).await? {
            ensure!(lines.len() == 1, "Job {job} had the start lines {lines:?}");
        }
        leases_gone(&env, "twice").await?;

        let status = results::status(&run)?;
        ensure!(status.failure.is_none() && status.retries.is_empty(), "{status:?}");
        ensure!(status.phases.len() == JOBS.len(), "{status:?}");
        for phase in &status.phases {
            ensure!(phase.repetitions.len() == 1, "{:?}", phase.repetitions);
            plausible(phase)?;
        }
        let stored = env.results(&run).await?;
        for result in &stored {
            ensure!(
                result.pods.len() == 2 && result.start_skew_seconds < 0.5,
                "{} s apart",
                result.start_skew_seconds
            );
        }
        never_together(&stored)?;
        confirmed(&env, &status).await
    })
    .await
}

/// Every start line that ever stood on each Job since.
async fn start_lines_since(env: &Env, then: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let jobs = env.api::<Job>();
    // The apiserver replays history at once, then ends the watch.
    let events = jobs.watch(&WatchParams::default().timeout(1), then).await?;
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(job) | WatchEvent::Modified(job) => {
                let line = job.annotations().get(START_AT).cloned();
                lines.entry(job.name_any()).or_default().extend(line);
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            _ => {}
        }
    }
    Ok(lines)
}

//! An operator that dies and comes back: nothing is lost, nothing measured twice.

use crate::common::{confirmed, jobs_made_since, jobs_now, leases_gone};
use anyhow::{Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, Look, SERVER_UP, SHORT_RUN, alone,
    manifests::{REDIS, against},
    operator,
    results::{self, never_together, plausible},
    until,
};
use k8s_openapi::api::core::v1::ConfigMap;

const PHASES: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 2s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 2s}
repetitions: 2
timeout: 5m
";
const JOBS: [&str; 4] = ["steady-write-1", "steady-read-1", "steady-write-2", "steady-read-2"];

#[tokio::test]
async fn an_operator_killed_in_every_phase_of_a_run_measures_each_once() -> Result<()> {
    alone("restarts", |env| async move {
        let then = jobs_now(&env).await?;
        // Pending: the target appears while no operator is there.
        env.run("steady", &against("redis", PHASES)).await?;
        env.run_in("steady", RunPhase::Pending, SHORT_RUN).await?;
        let killed = operator::kill(&env.client).await?;
        env.datastore("redis", REDIS).await?;
        operator::await_ready(&env.client, Some(&killed)).await?;
        // Preparing: client pods come to the start line and nobody starts them.
        env.run_in("steady", RunPhase::Preparing, SERVER_UP).await?;
        operator::restart(&env.client).await?;
        // Between phases: one result is stored, the next Job is not or just made.
        stored(&env, "steady-write-1").await?;
        operator::restart(&env.client).await?;
        // Running: load runs on, and ends with nobody there.
        env.load_runs("steady", "write", SHORT_RUN).await?;
        operator::restart(&env.client).await?;
        // Finishing: the last result is stored, the end is not yet reported.
        stored(&env, "steady-read-2").await?;
        operator::restart(&env.client).await?;

        let run = env.run_in("steady", RunPhase::Succeeded, SHORT_RUN).await?;
        let made = jobs_made_since(&env, &then).await?;
        ensure!(made == JOBS, "each Job is made once and in order, not {made:?}");
        leases_gone(&env, "steady").await?;

        let status = results::status(&run)?;
        ensure!(
            status.progress.is_some_and(|progress| progress.measured == 4 && progress.total == 4)
                && status.phases.len() == 2,
            "{status:?}"
        );
        for phase in &status.phases {
            ensure!(phase.repetitions.len() == 2, "{:?}", phase.repetitions);
            plausible(phase)?;
        }
        let stored = env.results(&run).await?;
        ensure!(stored.len() == JOBS.len(), "{} results are stored", stored.len());
        never_together(&stored)?;
        confirmed(&env, &status).await
    })
    .await
}

async fn stored(env: &Env, name: &str) -> Result<()> {
    let config_maps = env.api::<ConfigMap>();
    until(&format!("result {name} stored"), SHORT_RUN, || async {
        Ok(match config_maps.get_opt(name).await? {
            Some(_) => Look::Done(()),
            None => Look::NotYet("it is not".to_owned()),
        })
    })
    .await
}

//! Nothing hangs beyond its timeout.

use crate::common::{client_pod, failed, leases_gone, load_gone, of_run, redis, says};
use anyhow::{Result, ensure};
use dragstrip_e2e::{
    SHORT_RUN,
    manifests::{NO_IMAGE, against, unpullable},
    results, with_namespace,
};
use k8s_openapi::api::batch::v1::Job;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(8);
/// On a busy machine client pods alone take several seconds to come up.
const TIMEOUT_UNDER_LOAD: Duration = Duration::from_secs(12);
/// What a failed run may take to say so, on top of its timeout.
const SLACK: Duration = Duration::from_secs(5);

const TOO_LONG: &str = "
phases:
- name: endless
  # The duration of so many requests is unknown.
  loadgen: {ratio: '1:0', keyMaximum: 9999, requestsPerConnection: 1000000000}
timeout: 8s
";

#[tokio::test]
async fn a_run_whose_target_never_becomes_ready_fails_at_its_timeout() -> Result<()> {
    with_namespace("never-ready", |env| async move {
        env.datastore("broken", &unpullable()).await?;
        env.turn().await;
        let begun = Instant::now();
        env.run("patient", &against("broken", TOO_LONG)).await?;
        let (_, failure) = failed(&env, "patient", TIMEOUT + SLACK).await?;
        // Timestamps of objects have whole seconds.
        ensure!(
            begun.elapsed() + Duration::from_secs(1) >= TIMEOUT,
            "it gave up after {:?}",
            begun.elapsed()
        );
        ensure!(failure.step == "Timeout", "{failure:?}");
        says(&failure.message, &["spec.timeout (8s)", "Datastore broken is not ready", NO_IMAGE])
    })
    .await
}

#[tokio::test]
async fn a_run_that_takes_longer_than_its_timeout_fails_and_its_load_stops() -> Result<()> {
    with_namespace("too-long", |env| async move {
        redis(&env).await?;
        env.run("greedy", &against("redis", &TOO_LONG.replace("timeout: 8s", "timeout: 12s"))).await?;
        env.load_runs("greedy", "endless", SHORT_RUN).await?;
        let pod = client_pod(&env, "greedy").await?;
        let (run, failure) = failed(&env, "greedy", TIMEOUT_UNDER_LOAD + SLACK).await?;
        ensure!(failure.step == "Timeout" && failure.phase.as_deref() == Some("endless"), "{failure:?}");
        says(&failure.message, &["spec.timeout (12s)", "load"])?;
        ensure!(results::status(&run)?.phases.is_empty(), "numbers are shown");
        load_gone(&env, "redis", &pod).await?;
        leases_gone(&env, "greedy").await?;
        let jobs: Vec<Job> = env.labelled(&of_run("greedy")).await?;
        ensure!(jobs.len() <= 1, "it was measured {} times", jobs.len());
        Ok(())
    })
    .await
}

//! Upgrades of the operator: no server is touched, no run is lost.

use crate::common::{life, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    SHORT_RUN, alone,
    faults::{local, testbed},
    helm::upgraded,
    manifests::{ONE_PHASE, against},
    not_run, operator,
    results::{self, never_together, plausible},
};
use std::path::PathBuf;

const CONTAINERFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench-jobs/runner/Containerfile");
/// The runner under another name, as that of the next version is.
const NEXT_RUNNER: &str = "dragstrip.dev/runner-upgraded";

const PHASES: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 10s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
  minimumHitRatio: '0.9'
timeout: 5m
";

/// Where `make build` puts the runner.
fn runner() -> Result<PathBuf> {
    let directory = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let cache = directory("DRAGSTRIP_CACHE")
        .or_else(|| directory("XDG_CACHE_HOME").map(|cache| cache.join("dragstrip")))
        .or_else(|| directory("HOME").map(|home| home.join(".cache/dragstrip")));
    Ok(cache.context("none of DRAGSTRIP_CACHE, XDG_CACHE_HOME and HOME is set")?.join("dist/runner"))
}

#[tokio::test]
async fn an_upgrade_of_the_operator_in_mid_run_restarts_no_server_and_the_run_succeeds() -> Result<()> {
    if !local() {
        not_run(
            "an upgrade of the operator in mid-run",
            "the next version's image is made on the testbed: CLUSTER=local",
        );
        return Ok(());
    }
    let image = format!("{NEXT_RUNNER}:{}", env!("CARGO_PKG_VERSION"));
    let context = runner()?.display().to_string();
    testbed(&["build-image", &image, CONTAINERFILE, &context])?;
    alone("upgrade", |env| async move {
        redis(&env).await?;
        let before = life(&env, "redis").await?;
        let old = operator::await_ready(&env.client, None).await?.metadata.uid;
        env.run("unmoved", &against("redis", PHASES)).await?;
        env.load_runs("unmoved", "write", SHORT_RUN).await?;
        let settings = [&*format!("image.runner={NEXT_RUNNER}"), "podAnnotations.upgraded=yes"];
        let measured = Box::pin(async {
            let new = operator::await_ready(&env.client, old.as_deref()).await?.metadata.uid;
            ensure!(new != old, "the operator was not replaced");
            let run = env.run_in("unmoved", RunPhase::Succeeded, SHORT_RUN).await?;
            let status = results::status(&run)?;
            ensure!(
                status.progress.as_ref().is_some_and(|done| (done.measured, done.total) == (2, 2)),
                "{:?}",
                status.progress
            );
            status.phases.iter().try_for_each(plausible)?;
            never_together(&env.results(&run).await?)?;
            // Nor is it restarted afterwards, when no run holds it and another one comes.
            env.datastore_ready("redis").await?;
            env.run("after", &against("redis", ONE_PHASE)).await?;
            env.run_in("after", RunPhase::Succeeded, SHORT_RUN).await?;
            let now = life(&env, "redis").await?;
            ensure!(now == before, "the upgrade restarted the server: {before:?} became {now:?}");
            Ok(())
        });
        upgraded(&settings, measured).await
    })
    .await
}

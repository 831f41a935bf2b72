//! What was measured is what was declared, from the first phase to the last.

use crate::common::{client_pod, failed, life, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, conditions::find, conditions::types::READY, run::RunPhase};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, NOTICE, SERVER_UP, SHORT_RUN, alone,
    manifests::{ONE_PHASE, REDIS, against, made_for_run},
    message, operator, phase,
    results::{self, plausible},
    until, with_namespace,
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{ResourceExt, api::EvictParams};

const WRITE_THEN_READ: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 3s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
timeout: 5m
";
const TWICE: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 3s}
repetitions: 2
timeout: 5m
";

enum Blow {
    /// The process dies and is started again in its pod.
    Kill,
    /// The pod is deleted and recreated.
    Remove,
}

/// Once the load of `client` has ended, makes the server another one.
async fn strike(env: &Env, client: &str, blow: Blow) -> Result<()> {
    let pods = env.api::<Pod>();
    until("the end of the first load", SHORT_RUN, || async {
        let phase = pods.get(client).await?.status.and_then(|status| status.phase).unwrap_or_default();
        Ok(if phase == "Succeeded" { Look::Done(()) } else { Look::NotYet(phase) })
    })
    .await?;
    let before = life(env, "redis").await?;
    match blow {
        Blow::Kill => env.kill_server("redis").await?,
        Blow::Remove => env.delete::<Pod>(&env.server_pod("redis").await?.name_any()).await?,
    }
    until("another server, ready", SERVER_UP, || async {
        let pod = env.server_pod("redis").await?;
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.clone().any(|c| c.type_ == "Ready" && c.status == "True");
        let other = life(env, "redis").await? != before && pod.metadata.deletion_timestamp.is_none();
        Ok(if ready && other {
            Look::Done(())
        } else {
            Look::NotYet(format!("ready: {ready}, other: {other}"))
        })
    })
    .await
}

/// Asserts that a run whose server is another one after its first measurement fails
/// with that reason. There is no operator while the server changes: so it changes
/// after one load and before the next for sure.
async fn another_server_ends_the_run(env: &Env, phases: &str, blow: Blow) -> Result<()> {
    redis(env).await?;
    env.run("misled", &against("redis", phases)).await?;
    env.load_runs("misled", "write", SHORT_RUN).await?;
    let client = client_pod(env, "misled").await?.name_any();
    operator::without(&env.client, Box::pin(strike(env, &client, blow))).await?;

    let (run, failure) = failed(env, "misled", SHORT_RUN).await?;
    ensure!(failure.step == "ServerChanged", "{failure:?}");
    let status = results::status(&run)?;
    ensure!(
        status.progress.as_ref().is_some_and(|done| (done.measured, done.total) == (1, 2)),
        "{:?}",
        status.progress
    );
    let measured: usize = status.phases.iter().map(|phase| phase.repetitions.len()).sum();
    ensure!(measured <= 1, "figures of two servers are put together: {:?}", status.phases);
    // Another run measures the new server from its first phase on.
    env.datastore_ready("redis").await?;
    env.run("anew", &against("redis", phases)).await?;
    env.run_in("anew", RunPhase::Succeeded, SHORT_RUN).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_restarted_between_phases_ends_the_run() -> Result<()> {
    alone(
        "restarted",
        |env| async move { another_server_ends_the_run(&env, WRITE_THEN_READ, Blow::Kill).await },
    )
    .await
}

#[tokio::test]
async fn a_server_whose_pod_was_recreated_between_repetitions_ends_the_run() -> Result<()> {
    alone("rolled", |env| async move { another_server_ends_the_run(&env, TWICE, Blow::Remove).await }).await
}

#[tokio::test]
async fn a_run_reports_that_its_datastore_was_deleted() -> Result<()> {
    with_namespace("target-gone", |env| async move {
        redis(&env).await?;
        env.run("orphan", &against("redis", &WRITE_THEN_READ.replace("duration: 3s", "duration: 20s")))
            .await?;
        env.load_runs("orphan", "write", SHORT_RUN).await?;
        env.delete::<Datastore>("redis").await?;
        let (_, failure) = failed(&env, "orphan", SHORT_RUN).await?;
        says(&failure.message, &["Datastore redis", "deleted"])
    })
    .await
}

const OTHER_MEMORY: i64 = 200 << 20;

fn edited() -> String {
    REDIS.replace("maxMemory: 256Mi", "maxMemory: 200Mi")
}

#[tokio::test]
async fn a_run_created_together_with_an_edit_waits_for_the_rollout_and_measures_what_was_declared()
-> Result<()> {
    with_namespace("edit-and-run", |env| async move {
        redis(&env).await?;
        env.turn().await;
        env.datastore("redis", &edited()).await?;
        env.run("at-once", &against("redis", ONE_PHASE)).await?;
        let run = env.run_in("at-once", RunPhase::Succeeded, SHORT_RUN).await?;
        let observed = results::status(&run)?.target.and_then(|target| target.observed);
        let memory = observed.and_then(|observed| observed.max_memory_bytes);
        ensure!(memory == Some(OTHER_MEMORY as _), "it measured a server with {memory:?} bytes");
        Ok(())
    })
    .await
}

/// Long enough to edit, look and evict.
const LOADED: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 8s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
timeout: 5m
";

#[tokio::test]
async fn an_edit_of_a_datastore_waits_for_the_end_of_its_run() -> Result<()> {
    with_namespace("edit-waits", |env| async move {
        redis(&env).await?;
        env.run("holder", &against("redis", LOADED)).await?;
        env.load_runs("holder", "write", SHORT_RUN).await?;
        let set = env.api::<StatefulSet>().get("redis").await?;
        let before = life(&env, "redis").await?;
        env.datastore("redis", &edited()).await?;
        env.datastore_is("redis", "Ready=False, ChangeWaits, that names the run", NOTICE, |datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            find(&conditions, READY).is_some_and(|ready| {
                ready.status == "False" && ready.reason == "ChangeWaits" && ready.message.contains("holder")
            })
        })
        .await?;
        let untouched = env.api::<StatefulSet>().get("redis").await?;
        ensure!(untouched.spec == set.spec, "the StatefulSet was changed under a run");
        let run = env.api::<BenchmarkRun>().get("holder").await?;
        ensure!(phase(&run) == RunPhase::Running, "the run was over too soon to show anything");
        let run = env.run_in("holder", RunPhase::Succeeded, SHORT_RUN).await?;
        results::status(&run)?.phases.iter().try_for_each(plausible)?;
        ensure!(results::status(&run)?.phases.len() == 2, "{:?}", results::status(&run)?.phases);

        // Then it is carried out by itself.
        let datastore = env.datastore_ready("redis").await?;
        let observed = datastore.status.and_then(|status| status.observed);
        let memory = observed.and_then(|observed| observed.max_memory_bytes);
        ensure!(memory == Some(OTHER_MEMORY as _), "the server has {memory:?} bytes");
        ensure!(life(&env, "redis").await? != before, "the server was not rolled");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_reserved_server_cannot_be_evicted_or_scaled_away() -> Result<()> {
    with_namespace("evicted", |env| async move {
        redis(&env).await?;
        env.run("holder", &against("redis", LOADED)).await?;
        env.load_runs("holder", "write", SHORT_RUN).await?;
        let pod = env.server_pod("redis").await?;
        for (annotation, value) in [
            ("karpenter.sh/do-not-disrupt", "true"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ] {
            let found = pod.annotations().get(annotation);
            ensure!(
                found.is_some_and(|found| found == value),
                "the server's pod has {annotation}: {found:?}"
            );
        }
        let name = pod.name_any();
        // The client itself tries again for some seconds when the answer is that it is too early.
        match env.api::<Pod>().evict(&name, &EvictParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 429 => {}
            other => {
                let run = env.api::<BenchmarkRun>().get("holder").await?;
                ensure!(phase(&run).finished(), "a server under load was evicted: {other:?}");
            }
        }
        env.run_in("holder", RunPhase::Succeeded, SHORT_RUN).await?;
        // Nobody needs it any more: a node can be drained.
        let pods = env.api::<Pod>();
        until("the eviction of a server that no run holds", LOAD_GONE, || async {
            pods.evict(&name, &EvictParams::default()).await.context("still refused")?;
            Ok(Look::Done(()))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_run_that_is_deleted_and_applied_again_is_a_new_run() -> Result<()> {
    with_namespace("reapplied", |env| async move {
        let spec = made_for_run(REDIS, WRITE_THEN_READ);
        env.run("again", &spec).await?;
        let first = env.load_runs("again", "write", SHORT_RUN).await?.uid();
        env.delete::<BenchmarkRun>("again").await?;
        let runs = env.api::<BenchmarkRun>();
        until("the first run gone", SERVER_UP, || async {
            Ok(match runs.get_opt("again").await? {
                Some(run) => Look::NotYet(message(&run)),
                None => Look::Done(()),
            })
        })
        .await?;
        // Its Jobs and its Datastore may still be there.
        env.run("again", &spec).await?;
        let run = env.run_in("again", RunPhase::Succeeded, SHORT_RUN).await?;
        ensure!(run.uid() != first, "it is the first run");
        let status = results::status(&run)?;
        ensure!(
            status.progress.as_ref().is_some_and(|done| (done.measured, done.total) == (2, 2)),
            "{:?}",
            status.progress
        );
        status.phases.iter().try_for_each(plausible)?;
        Ok(())
    })
    .await
}

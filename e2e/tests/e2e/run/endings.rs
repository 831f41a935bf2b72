//! Runs that are deleted, cancelled, or clear up after themselves.

use crate::common::{client_pod, complete, leases_gone, load_gone, of_run, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, SERVER_UP, SHORT_RUN,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against, made_for_run},
    results::{self, plausible},
    until, with_namespace,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{ConfigMap, Pod, Service},
    },
};
use kube::Resource;
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration};

const WRITE_THEN_ENDLESS: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}
- name: endless
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 10m}
timeout: 20m
";

#[tokio::test]
async fn a_run_deleted_under_load_takes_everything_with_it() -> Result<()> {
    with_namespace("deleted", |env| async move {
        redis(&env).await?;
        env.run("short-lived", &against("redis", WRITE_THEN_ENDLESS)).await?;
        env.load_runs("short-lived", "endless", SHORT_RUN).await?;
        let pod = client_pod(&env, "short-lived").await?;
        env.delete::<BenchmarkRun>("short-lived").await?;
        load_gone(&env, "redis", &pod).await?;
        let label = of_run("short-lived");
        env.none_labelled::<Pod>(&label, LOAD_GONE).await?;
        env.none_labelled::<Job>(&label, LOAD_GONE).await?;
        env.none_labelled::<ConfigMap>(&label, LOAD_GONE).await?;
        leases_gone(&env, "short-lived").await
    })
    .await
}

#[tokio::test]
async fn a_started_run_can_be_cancelled_but_not_changed_and_keeps_its_results() -> Result<()> {
    with_namespace("cancelled", |env| async move {
        redis(&env).await?;
        let spec = against("redis", WRITE_THEN_ENDLESS);
        env.run("stopped", &spec).await?;
        let spec = spec.replace("timeout: 20m", "timeout: 30m");
        // Not started yet: the timeout may change.
        env.run("stopped", &spec).await.context("before it started")?;
        env.load_runs("stopped", "endless", SHORT_RUN).await?;
        unchangeable(&env, "stopped", &spec).await?;
        // What may change, may.
        let spec = format!("{spec}ttlAfterFinished: 1h\n");
        env.run("stopped", &spec).await?;
        let pod = client_pod(&env, "stopped").await?;
        env.run("stopped", &format!("{spec}cancel: true\n")).await?;
        let run = env.run_in("stopped", RunPhase::Cancelled, LOAD_GONE).await?;
        load_gone(&env, "redis", &pod).await?;
        complete(&run, "Cancelled")?;
        leases_gone(&env, "stopped").await?;

        let status = results::status(&run)?;
        let shown: Vec<&str> = status.phases.iter().map(|phase| phase.name.as_str()).collect();
        ensure!(shown == ["write"], "numbers are shown of {shown:?}");
        plausible(&status.phases[0])?;
        ensure!(env.results(&run).await?.len() == 1, "the finished phase's result stays");
        // Another run can have the server at once.
        env.run("next", &against("redis", ONE_PHASE)).await?;
        env.run_in("next", RunPhase::Succeeded, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

async fn unchangeable(env: &Env, run: &str, spec: &str) -> Result<()> {
    let message = env.refusal("BenchmarkRun", run, &against("redis", ONE_PHASE)).await?;
    says(&message, &["the run has started", "make a new BenchmarkRun"])?;
    let longer = spec.replace("timeout: 30m", "timeout: 40m");
    says(&env.refusal("BenchmarkRun", run, &longer).await?, &["the run has started"])
}

#[tokio::test]
async fn a_run_creates_uses_and_removes_its_own_datastore() -> Result<()> {
    with_namespace("own", |env| async move {
        let phases = format!("{ONE_PHASE}ttlAfterFinished: 6s\n");
        env.run("whole", &made_for_run(REDIS, &phases)).await?;
        env.run_in("whole", RunPhase::Provisioning, SERVER_UP).await?;
        let run = env.run_in("whole", RunPhase::Succeeded, SHORT_RUN).await?;
        plausible(&results::status(&run)?.phases[0])?;
        gone::<Datastore>(&env, "whole").await?;
        gone::<StatefulSet>(&env, "whole").await?;
        gone::<Service>(&env, "whole").await?;
        leases_gone(&env, "whole").await?;
        // The run itself follows when its time is over.
        gone::<BenchmarkRun>(&env, "whole").await?;
        env.none_labelled::<Job>(&of_run("whole"), LOAD_GONE).await
    })
    .await
}

#[tokio::test]
async fn a_deleted_run_stops_the_load_on_its_own_datastore_too() -> Result<()> {
    with_namespace("own-deleted", |env| async move {
        env.run("whole", &made_for_run(REDIS, LONG_PHASE)).await?;
        env.load_runs("whole", "endless", SHORT_RUN).await?;
        env.delete::<BenchmarkRun>("whole").await?;
        env.none_labelled::<Pod>("app.kubernetes.io/managed-by=dragstrip-operator", Duration::from_secs(20))
            .await?;
        leases_gone(&env, "whole").await
    })
    .await
}

async fn gone<K>(env: &Env, name: &str) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api = env.api::<K>();
    until(&format!("{} {name} gone", K::kind(&())), Duration::from_secs(20), || async {
        Ok(match api.get_opt(name).await? {
            None => Look::Done(()),
            Some(found) => Look::NotYet(format!("deletion requested: {:?}", found.meta().deletion_timestamp)),
        })
    })
    .await
}

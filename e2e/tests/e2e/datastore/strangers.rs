//! Foreign objects with the names we need: the operator reports them and leaves them alone.

use crate::common::{redis, run_reports};
use anyhow::{Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, conditions::find, conditions::types::READY, run::RunPhase};
use dragstrip_e2e::{
    Env, NOTICE, SHORT_RUN,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against},
    nodes::server_on,
    with_namespace,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{ConfigMap, Service},
    },
};
use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::fmt::Debug;

/// A pod that never runs.
fn pod() -> Value {
    json!({
        "metadata": {"labels": {"app": "stranger"}},
        "spec": {"restartPolicy": "Never", "nodeSelector": {"nowhere": "true"}, "containers": [{
            "name": "main", "image": "dragstrip.dev/testbed/redis:7.0",
        }]}
    })
}

/// Asserts that a stranger is what it was.
async fn untouched<K>(env: &Env, before: &K) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let now = env.api::<K>().get(&before.name_any()).await?;
    let (was, is) = (before.meta(), now.meta());
    ensure!(
        was.uid == is.uid
            && was.labels == is.labels
            && was.owner_references == is.owner_references
            && is.deletion_timestamp.is_none()
            && serde_json::to_value(before)?["spec"] == serde_json::to_value(&now)?["spec"]
            && serde_json::to_value(before)?["data"] == serde_json::to_value(&now)?["data"],
        "a stranger's {} was changed: {before:?} is now {now:?}",
        K::kind(&())
    );
    Ok(())
}

/// Asserts that a Datastore called redis reports the foreign object that has its name,
/// touches nothing of it, and becomes Ready when it is gone.
async fn in_the_way_of_a_datastore<K>(env: &Env, stranger: Value) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let kind = K::kind(&());
    let stranger: K = env.create(stranger).await?;
    env.datastore("redis", REDIS).await?;
    env.datastore_is(
        "redis",
        &format!("reports the {kind} in its way, and the remedy"),
        NOTICE,
        |datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            find(&conditions, READY).is_some_and(|ready| {
                ready.status == "False"
                    && [&kind, "redis", "delete it", "another name"]
                        .iter()
                        .all(|text| ready.message.contains(*text))
            })
        },
    )
    .await?;
    untouched(env, &stranger).await?;
    env.delete::<K>(&stranger.name_any()).await?;
    env.datastore_ready("redis").await?;
    Ok(())
}

#[tokio::test]
async fn a_foreign_service_with_a_datastores_name_is_reported_and_left_alone() -> Result<()> {
    with_namespace("their-service", |env| async move {
        let headless = json!({
            "metadata": {"name": "redis", "labels": {"app": "stranger"}},
            "spec": {"clusterIP": "None", "selector": {"app": "stranger"}, "ports": [{"port": 6379}]},
        });
        in_the_way_of_a_datastore::<Service>(&env, headless).await
    })
    .await
}

#[tokio::test]
async fn a_foreign_stateful_set_with_a_datastores_name_is_reported_and_left_alone() -> Result<()> {
    with_namespace("their-set", |env| async move {
        let mut template = pod();
        template["spec"]["restartPolicy"] = json!("Always");
        let set = json!({
            "metadata": {"name": "redis"},
            "spec": {
                "serviceName": "stranger", "replicas": 0,
                "selector": {"matchLabels": {"app": "stranger"}}, "template": template,
            },
        });
        in_the_way_of_a_datastore::<StatefulSet>(&env, set).await
    })
    .await
}

#[tokio::test]
async fn a_foreign_service_outlives_the_datastore_with_its_name() -> Result<()> {
    with_namespace("outlived", |env| async move {
        let service: Service = env
            .create(json!({
                "metadata": {"name": "redis"},
                "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 6379}]},
            }))
            .await?;
        env.datastore("redis", REDIS).await?;
        env.datastore_is("redis", "looked at", NOTICE, |datastore| datastore.status.is_some()).await?;
        env.delete::<Datastore>("redis").await?;
        env.none_labelled::<StatefulSet>("dragstrip.dev/datastore=redis", SHORT_RUN).await?;
        untouched(&env, &service).await
    })
    .await
}

/// Asserts that a run called sprint reports the foreign object `sprint-write-1` in its
/// way, with the remedy, and touches nothing of it.
async fn in_the_way_of_a_run<K>(env: &Env, stranger: Value) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    redis(env).await?;
    let stranger: K = env.create(stranger).await?;
    env.run("sprint", &against("redis", ONE_PHASE)).await?;
    run_reports(env, "sprint", &[&K::kind(&()), "sprint-write-1", "another name"], NOTICE).await?;
    untouched(env, &stranger).await?;
    env.delete::<BenchmarkRun>("sprint").await?;
    env.none_labelled::<Job>("dragstrip.dev/run=sprint", SHORT_RUN).await?;
    untouched(env, &stranger).await
}

#[tokio::test]
async fn a_foreign_job_with_a_runs_name_is_reported_and_left_alone() -> Result<()> {
    with_namespace("their-job", |env| async move {
        let job =
            json!({"metadata": {"name": "sprint-write-1"}, "spec": {"suspend": true, "template": pod()}});
        in_the_way_of_a_run::<Job>(&env, job).await
    })
    .await
}

#[tokio::test]
async fn a_foreign_config_map_with_a_results_name_is_reported_and_left_alone() -> Result<()> {
    with_namespace("their-map", |env| async move {
        let map = json!({"metadata": {"name": "sprint-write-1"}, "data": {"theirs": "yes"}});
        in_the_way_of_a_run::<ConfigMap>(&env, map).await
    })
    .await
}

#[tokio::test]
async fn two_runs_whose_jobs_have_one_name_do_not_take_each_others_results() -> Result<()> {
    with_namespace("one-name", |env| async move {
        let nodes = env.nodes().await?;
        for (name, node) in [("one", &nodes.servers[0]), ("two", &nodes.servers[1])] {
            env.datastore(name, &server_on(REDIS, node)).await?;
            env.datastore_ready(name).await?;
        }
        // Both need a Job a-b-c-1, and neither waits for the other.
        env.run("a", &against("one", &LONG_PHASE.replace("name: endless", "name: b-c"))).await?;
        env.load_runs("a", "b-c", SHORT_RUN).await?;
        let job = env.api::<Job>().get("a-b-c-1").await?;
        env.run("a-b", &against("two", &ONE_PHASE.replace("name: write", "name: c"))).await?;
        run_reports(&env, "a-b", &["a-b-c-1", "another name"], NOTICE).await?;
        untouched(&env, &job).await?;
        env.run_in("a", RunPhase::Running, NOTICE).await?;
        Ok(())
    })
    .await
}

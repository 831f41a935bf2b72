//! Pods that the cluster refuses: the status says so in the apiserver's words.

use crate::common::{redis, run_says};
use anyhow::{Result, ensure};
use dragstrip_crds::{
    BenchmarkRun,
    conditions::{find, types::CLIENTS_READY, types::READY},
    run::RunPhase,
};
use dragstrip_e2e::{
    Env, NOTICE, SERVER_UP, SHORT_RUN, kubectl,
    manifests::{NO_IMAGE, ONE_PHASE, REDIS, against, object},
    with_namespace,
};
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;

/// A controller that was refused a pod waits longer before each try.
const TRIED_AGAIN: Duration = SHORT_RUN.saturating_mul(2);

async fn quota(env: &Env, hard: serde_json::Value) -> Result<()> {
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": hard}});
    env.create::<ResourceQuota>(quota).await?;
    // Only what its controller has counted is enforced.
    dragstrip_e2e::until("a quota that is enforced", SERVER_UP, || async {
        let found = env.api::<ResourceQuota>().get("few").await?;
        let hard = found.status.and_then(|status| status.hard);
        Ok(match hard {
            Some(_) => dragstrip_e2e::Look::Done(()),
            None => dragstrip_e2e::Look::NotYet("not counted".to_owned()),
        })
    })
    .await
}

async fn ready_says(env: &Env, datastore: &str, text: &str) -> Result<()> {
    env.datastore_is(datastore, &format!("Ready=False that says {text:?}"), NOTICE, |datastore| {
        let conditions = datastore.status.clone().unwrap_or_default().conditions;
        find(&conditions, READY).is_some_and(|ready| ready.status == "False" && ready.message.contains(text))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn fields_without_a_value_are_omitted_and_a_refusal_quotes_any_character() -> Result<()> {
    with_namespace("unusual", |env| async move {
        let spec = "{engine: Redis, threads: 1, tls: , authSecretRef: , image: , pod: {affinity: }, \
                    resources: {limits: {\"c\\x7fpu\": few}}}";
        let manifest = serde_json::to_string(&object("Datastore", "redis", spec)?)?;
        let output = kubectl::run(&["create", "-n", &env.namespace, "-f", "-"], &manifest).await?;
        ensure!(output.success, "fields without a value are refused: {}", output.stderr);
        ready_says(&env, "redis", "c\u{7f}pu").await
    })
    .await
}

#[tokio::test]
async fn a_server_refused_by_a_quota_is_reported_and_starts_when_there_is_room() -> Result<()> {
    with_namespace("server-quota", |env| async move {
        quota(&env, json!({"pods": "0"})).await?;
        env.datastore("redis", REDIS).await?;
        env.event("StatefulSet", "redis", "FailedCreate", "exceeded quota", SERVER_UP).await?;
        ready_says(&env, "redis", "exceeded quota").await?;
        env.change::<ResourceQuota>("few", json!({"spec": {"hard": {"pods": "5"}}})).await?;
        env.datastore_is("redis", "Ready=True", TRIED_AGAIN, |datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            find(&conditions, READY).is_some_and(|ready| ready.status == "True")
        })
        .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn clients_refused_by_a_quota_are_reported_and_start_when_there_is_room() -> Result<()> {
    with_namespace("client-quota", |env| async move {
        redis(&env).await?;
        quota(&env, json!({"pods": "1"})).await?;
        let phases = ONE_PHASE.replace("timeout: 2m", "timeout: 10m");
        env.run("crowded", &against("redis", &phases)).await?;
        env.event("Job", "crowded-write-1", "FailedCreate", "exceeded quota", SHORT_RUN).await?;
        run_says(&env, "crowded", CLIENTS_READY, "HeldUp", &["exceeded quota"]).await?;
        env.change::<ResourceQuota>("few", json!({"spec": {"hard": {"pods": "5"}}})).await?;
        env.run_in("crowded", RunPhase::Succeeded, TRIED_AGAIN).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_run_names_the_field_for_limits_that_a_quota_requires() -> Result<()> {
    with_namespace("limits-quota", |env| async move {
        redis(&env).await?;
        quota(&env, json!({"limits.cpu": "64", "limits.memory": "64Gi", "requests.cpu": "64"})).await?;
        let phases = ONE_PHASE.replace("timeout: 2m", "timeout: 10m");
        env.run("unlimited", &against("redis", &phases)).await?;
        env.event(
            "Job",
            "unlimited-write-1",
            "FailedCreate",
            "must specify limits.cpu for: client",
            SHORT_RUN,
        )
        .await?;
        let texts = ["must specify limits.cpu for: client", "spec.clients.resources.limits"];
        run_says(&env, "unlimited", CLIENTS_READY, "HeldUp", &texts).await?;
        let limited = "clients: {resources: {limits: {cpu: \"1\", memory: 256Mi}}}";
        env.delete::<BenchmarkRun>("unlimited").await?;
        env.run("limited", &format!("{}\n{limited}", against("redis", ONE_PHASE).trim_end())).await?;
        env.run_in("limited", RunPhase::Succeeded, TRIED_AGAIN).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_with_quotas_and_default_limits_has_servers_and_runs() -> Result<()> {
    with_namespace("quota-and-limits", |env| async move {
        let defaults = json!({"metadata": {"name": "defaults"}, "spec": {"limits": [{
            "type": "Container", "default": {"cpu": "1", "memory": "512Mi"},
            "max": {"cpu": "4", "memory": "1Gi"}, "min": {"cpu": "1m", "memory": "4Mi"},
        }]}});
        env.create::<LimitRange>(defaults).await?;
        let hard = json!({
            "pods": "10", "requests.cpu": "4", "requests.memory": "4Gi", "limits.cpu": "20", "limits.memory": "8Gi"
        });
        quota(&env, hard).await?;
        redis(&env).await?;
        env.run("limited", &against("redis", ONE_PHASE)).await?;
        env.run_in("limited", RunPhase::Succeeded, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

/// Use of `io_uring` needs a pod without seccomp profile, which no Pod Security Standard allows.
const UNCONFINED: &str = "{engine: Dragonfly, threads: 1, ioUring: Require, image: 'IMAGE'}";

#[tokio::test]
async fn pods_refused_by_pod_security_are_reported_and_ordinary_ones_meet_the_strictest_standard()
-> Result<()> {
    with_namespace("restricted", |env| async move {
        let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        let namespaces: Api<Namespace> = Api::all(env.client.clone());
        namespaces.patch(&env.namespace, &PatchParams::default(), &Patch::Merge(label)).await?;
        env.datastore("unconfined", &UNCONFINED.replace("IMAGE", NO_IMAGE)).await?;
        env.event("StatefulSet", "unconfined", "FailedCreate", "violates PodSecurity", SERVER_UP).await?;
        ready_says(&env, "unconfined", "violates PodSecurity").await?;

        redis(&env).await?;
        env.run("allowed", &against("redis", ONE_PHASE)).await?;
        let run = env.run_in("allowed", RunPhase::Succeeded, SHORT_RUN).await?;
        ensure!(run.status.is_some_and(|status| status.failure.is_none()), "it failed");
        Ok(())
    })
    .await
}

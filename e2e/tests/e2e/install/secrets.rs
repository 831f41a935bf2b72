//! Passwords: the run reports a wrong one, and shows none.

use crate::common::{failed, of_run, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use dragstrip_e2e::{
    Env, SHORT_RUN,
    manifests::{ONE_PHASE, REDIS, against},
    operator, with_namespace,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{ConfigMap, Event, Pod},
    },
};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, LogParams},
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

const RIGHT: &str = "correct-horse-7391";
const WRONG: &str = "wrong-staple-8264";

fn external(address: &str, secret: &str) -> String {
    format!("target: {{external: {{address: '{address}', authSecretRef: {{name: {secret}}}}}}}\n{ONE_PHASE}")
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_no_password_is_shown() -> Result<()> {
    with_namespace("secrets", |env| async move {
        env.secret("right", RIGHT).await?;
        env.secret("wrong", WRONG).await?;
        env.datastore("guarded", &format!("{REDIS}\nauthSecretRef: {{name: right}}")).await?;
        env.datastore_ready("guarded").await?;
        let address = env.server_address("guarded").await?;

        env.run("locked-out", &external(&address, "wrong")).await?;
        let (_, failure) = failed(&env, "locked-out", SHORT_RUN).await?;
        says(&failure.message, &["WRONGPASS", &address, "authSecretRef"])?;
        ensure!(failure.step == "Preflight", "{failure:?}");

        env.run("let-in", &external(&address, "right")).await?;
        env.run_in("let-in", RunPhase::Succeeded, SHORT_RUN).await?;
        env.run("by-name", &against("guarded", ONE_PHASE)).await?;
        env.run_in("by-name", RunPhase::Succeeded, SHORT_RUN).await?;
        by_reference(&env, "by-name").await?;
        nowhere(&env).await
    })
    .await
}

#[tokio::test]
async fn a_secret_that_does_not_exist_is_named() -> Result<()> {
    with_namespace("no-secret", |env| async move {
        env.datastore("guarded", &format!("{REDIS}\nauthSecretRef: {{name: forgotten}}")).await?;
        let texts = ["forgotten"];
        crate::common::datastore_says(&env, "guarded", "Ready", "ConfigurationMissing", &texts).await
    })
    .await
}

async fn by_reference(env: &Env, run: &str) -> Result<()> {
    let pods: Vec<Pod> = env.labelled(&of_run(run)).await?;
    let pod = pods.first().and_then(|pod| pod.spec.clone()).context("no client pod")?;
    let variables = pod.containers.iter().flat_map(|container| container.env.iter().flatten());
    let names: Vec<_> = variables
        .filter_map(|variable| variable.value_from.as_ref()?.secret_key_ref.clone())
        .map(|secret| secret.name)
        .collect();
    ensure!(names == ["right"], "the client's environment refers to Secrets {names:?}");
    Ok(())
}

/// Looks for both passwords wherever somebody might.
async fn nowhere(env: &Env) -> Result<()> {
    absent("runs", &all::<BenchmarkRun>(env).await?)?;
    absent("datastores", &all::<Datastore>(env).await?)?;
    absent("jobs", &all::<Job>(env).await?)?;
    absent("statefulsets", &all::<StatefulSet>(env).await?)?;
    absent("pods", &all::<Pod>(env).await?)?;
    absent("events", &all::<Event>(env).await?)?;
    absent("the operator's log", &operator::whole_log(&env.client).await?)?;
    for config_map in env.api::<ConfigMap>().list(&ListParams::default()).await? {
        let name = config_map.name_any();
        if config_map.binary_data.is_some() {
            absent(&name, &serde_json::to_string(&env.result(&name).await?)?)?;
        }
    }
    for pod in env.api::<Pod>().list(&ListParams::default()).await? {
        let spec = pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let parameters = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            let log = env.api::<Pod>().logs(&pod.name_any(), &parameters).await?;
            absent(&format!("log of {}/{}", pod.name_any(), container.name), &log)?;
        }
    }
    Ok(())
}

async fn all<K>(env: &Env) -> Result<String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let list = env.api::<K>().list(&ListParams::default()).await?;
    ensure!(!list.items.is_empty(), "there are no {} to look through", K::plural(&()));
    Ok(serde_json::to_string(&list.items)?)
}

fn absent(place: &str, text: &str) -> Result<()> {
    for password in [RIGHT, WRONG] {
        ensure!(!text.contains(password), "a password is shown in {place}");
    }
    Ok(())
}

//! Mistakes that only the cluster can find: a condition and an event report them at once.

use crate::common::{datastore_says, failed, of_run, redis, run_says, says, unpulled};
use anyhow::{Result, ensure};
use dragstrip_crds::{
    conditions::types::{CLIENTS_READY, READY, TARGET_READY},
    run::RunPhase,
};
use dragstrip_e2e::{
    Env, SERVER_UP, SHORT_RUN,
    manifests::{NO_IMAGE, ONE_PHASE, REDIS, against, against_address, unpullable},
    with_namespace,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

#[tokio::test]
async fn a_datastore_that_fits_no_node_is_created_and_reports_what_fits() -> Result<()> {
    with_namespace("threads", |env| async move {
        // Without resources of its own, which would be what it requests.
        let (huge, _) = REDIS.split_once("resources:").unwrap_or((REDIS, ""));
        env.datastore("huge", &huge.replace("threads: 1", "threads: 1000")).await?;
        let texts = ["pod huge-0 requests", "for all pods, daemons included", "select a larger node"];
        datastore_says(&env, "huge", READY, "Unschedulable", &texts).await?;
        env.datastore("nowhere", &format!("{REDIS}\nplacement: {{nodeSelector: {{shelf: top}}}}")).await?;
        let texts = ["no node matches spec.placement.nodeSelector (shelf=top)"];
        datastore_says(&env, "nowhere", READY, "Unschedulable", &texts).await
    })
    .await
}

#[tokio::test]
async fn a_run_waits_for_a_target_that_does_not_exist_yet() -> Result<()> {
    with_namespace("missing", |env| async move {
        env.run("early", &against("redis", ONE_PHASE)).await?;
        let texts = ["there is no Datastore named redis", "spec.target.datastoreRef.name"];
        run_says(&env, "early", TARGET_READY, "NotFound", &texts).await?;
        env.datastore("redis", REDIS).await?;
        env.run_in("early", RunPhase::Preparing, SERVER_UP).await?;
        env.run_in("early", RunPhase::Succeeded, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_unreachable_address_fails_the_run_with_the_address() -> Result<()> {
    with_namespace("unreachable", |env| async move {
        redis(&env).await?;
        let address = env.server_address("redis").await?;
        let closed = address.replace(":6379", ":6399");
        env.run("closed-port", &against_address(&closed, ONE_PHASE)).await?;
        let nobody = format!("{}:6379", free_address(&env, &address).await?);
        let nobody_there =
            |failure: &str| says(failure, &[&nobody, "Check that the server runs and listens there"]);

        let (_, failure) = failed(&env, "closed-port", SHORT_RUN).await?;
        ensure!(failure.step == "Preflight" && failure.pod.is_some(), "{failure:?}");
        says(&failure.message, &[&closed, "refused", "Check that the server runs and listens there"])?;

        env.run("nobody-there", &against_address(&nobody, ONE_PHASE)).await?;
        let (_, failure) = failed(&env, "nobody-there", SHORT_RUN).await?;
        ensure!(failure.step == "Preflight", "{failure:?}");
        nobody_there(&failure.message)?;

        env.run("no-name", &against_address("no-such-host.invalid:6379", ONE_PHASE)).await?;
        let (_, failure) = failed(&env, "no-name", SHORT_RUN).await?;
        says(&failure.message, &["no-such-host.invalid:6379", "Check the target's address"])
    })
    .await
}

/// An address of the server's pod network that no pod has.
async fn free_address(env: &Env, near: &str) -> Result<String> {
    let pods = Api::<Pod>::all(env.client.clone()).list(&ListParams::default()).await?;
    let taken: Vec<String> = pods.items.into_iter().filter_map(|pod| pod.status?.pod_ip).collect();
    let network = near.rsplit_once('.').map_or(near, |(network, _)| network);
    let free = (1..255).rev().map(|last| format!("{network}.{last}")).find(|ip| !taken.contains(ip));
    free.ok_or_else(|| anyhow::anyhow!("no free address in {network}"))
}

#[tokio::test]
async fn images_that_cannot_be_pulled_are_named_at_once() -> Result<()> {
    with_namespace("images", |env| async move {
        env.datastore("unpulled", &unpullable()).await?;
        unpulled(&env, "dragstrip.dev/datastore=unpulled").await?;
        let texts = [NO_IMAGE];
        datastore_says(&env, "unpulled", READY, "ImageUnavailable", &texts).await?;

        redis(&env).await?;
        let phases = format!(
            "
phases: [{{name: write, memtier: {{image: '{NO_IMAGE}', testTime: 2s}}}}]
timeout: 20s
"
        );
        env.run("unpulled", &against("redis", &phases)).await?;
        unpulled(&env, &of_run("unpulled")).await?;
        let texts = [NO_IMAGE, "container client"];
        run_says(&env, "unpulled", CLIENTS_READY, "HeldUp", &texts).await?;
        let (_, failure) = failed(&env, "unpulled", SHORT_RUN).await?;
        ensure!(failure.step == "Timeout", "{failure:?}");
        says(&failure.message, &["spec.timeout (20s)", NO_IMAGE])
    })
    .await
}

#[tokio::test]
async fn a_client_node_pool_that_does_not_exist_is_reported_at_once() -> Result<()> {
    with_namespace("pool", |env| async move {
        redis(&env).await?;
        let phases = ONE_PHASE
            .replace("timeout: 2m", "timeout: 8s\nclients: {placement: {nodeSelector: {pool: none}}}");
        env.run("homeless", &against("redis", &phases)).await?;
        let texts = ["no node for clients", "pool=none"];
        run_says(&env, "homeless", CLIENTS_READY, "HeldUp", &texts).await?;
        let (_, failure) = failed(&env, "homeless", SHORT_RUN).await?;
        ensure!(failure.step == "Timeout", "{failure:?}");
        says(&failure.message, &["spec.timeout (8s)", "no node for clients"])
    })
    .await
}

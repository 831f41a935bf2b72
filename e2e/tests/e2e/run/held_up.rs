//! One mistake never blocks everybody: clients that cannot start give the turn back.

use crate::common::{leases_gone, of_run, queued_behind, run_reports};
use anyhow::{Result, ensure};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_e2e::{
    Env, LOAD_GONE, SHORT_RUN, TURN_KEPT,
    manifests::{NO_IMAGE, ONE_PHASE, REDIS, against},
    message,
    nodes::{clients_on, server_on},
    phase, with_namespace,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Secret};
use serde_json::json;
use std::time::Duration;

const PASSWORD: &str = "correct-horse-7391";
/// From a run's Job to its Leases given back.
const GIVEN_BACK: Duration = TURN_KEPT.saturating_add(Duration::from_secs(20));
/// From the mended mistake to the end of the run: the pause before the next try comes first.
const MENDED: Duration = SHORT_RUN.saturating_mul(2);

/// Waits until the run has given its turn back: no Lease, no Job, and a run that
/// waited behind it has ended. Its message must still say `texts`, and that it retries.
async fn gives_back(env: &Env, unlucky: &str, patient: &str, texts: &[&str]) -> Result<()> {
    let label = of_run(unlucky);
    env.run_is(unlucky, "its turn given back", GIVEN_BACK, |run| {
        run.status
            .as_ref()
            .is_some_and(|status| status.setback.as_ref().is_some_and(|setback| setback.count > 0))
    })
    .await?;
    leases_gone(env, unlucky).await?;
    env.none_labelled::<Job>(&label, LOAD_GONE).await?;
    env.run_in(patient, RunPhase::Succeeded, SHORT_RUN).await?;
    let run = env.api::<BenchmarkRun>().get(unlucky).await?;
    ensure!(!phase(&run).finished(), "it ended: {}", message(&run));
    let reported: Vec<&str> = texts.iter().copied().chain(["retri"]).collect();
    run_reports(env, unlucky, &reported, LOAD_GONE).await?;
    Ok(())
}

#[tokio::test]
async fn a_run_without_its_secret_releases_its_leases_and_continues_once_the_secret_exists() -> Result<()> {
    with_namespace("no-password", |env| async move {
        let nodes = env.nodes().await?;
        env.secret("right", PASSWORD).await?;
        let guarded = format!("{REDIS}\nauthSecretRef: {{name: right}}");
        env.datastore("guarded", &server_on(&guarded, &nodes.servers[0])).await?;
        env.datastore_ready("guarded").await?;
        let address = env.server_address("guarded").await?;
        let there = clients_on(&nodes.clients[0]);
        let unlucky = format!(
            "target: {{external: {{address: '{address}', authSecretRef: {{name: forgotten}}}}}}\n{}{there}",
            ONE_PHASE.replace("timeout: 2m", "timeout: 20m"),
        );
        env.run("unlucky", &unlucky).await?;
        run_reports(&env, "unlucky", &["forgotten"], SHORT_RUN).await?;
        env.run("patient", &against("guarded", &format!("{ONE_PHASE}{there}"))).await?;
        queued_behind(&env, "patient", "unlucky").await?;
        gives_back(&env, "unlucky", "patient", &["forgotten"]).await?;

        // Half mended: the Secret is there, and has another key.
        env.create::<Secret>(json!({"metadata": {"name": "forgotten"}, "stringData": {"typo": PASSWORD}}))
            .await?;
        run_reports(&env, "unlucky", &["forgotten", "key"], MENDED).await?;
        env.change::<Secret>("forgotten", json!({"stringData": {"password": PASSWORD}})).await?;
        let run = env.run_in("unlucky", RunPhase::Succeeded, MENDED).await?;
        ensure!(
            run.status.as_ref().is_some_and(|status| status.setback.is_none()),
            "a run that ended well still reports its setback: {:?}",
            run.status
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_run_whose_image_cannot_be_pulled_releases_its_leases_until_it_is_cancelled() -> Result<()> {
    with_namespace("no-image", |env| async move {
        let nodes = env.nodes().await?;
        env.datastore("redis", &server_on(REDIS, &nodes.servers[1])).await?;
        env.datastore_ready("redis").await?;
        let there = clients_on(&nodes.clients[1]);
        let unpulled = against(
            "redis",
            &format!("phases: [{{name: write, memtier: {{image: '{NO_IMAGE}', testTime: 2s}}}}]\ntimeout: 20m\n{there}"),
        );
        env.run("unpulled", &unpulled).await?;
        run_reports(&env, "unpulled", &[NO_IMAGE], SHORT_RUN).await?;
        env.run("patient", &against("redis", &format!("{ONE_PHASE}{there}"))).await?;
        queued_behind(&env, "patient", "unpulled").await?;
        gives_back(&env, "unpulled", "patient", &[NO_IMAGE]).await?;
        env.run("unpulled", &format!("{unpulled}cancel: true\n")).await?;
        env.run_in("unpulled", RunPhase::Cancelled, LOAD_GONE).await?;
        leases_gone(&env, "unpulled").await
    })
    .await
}

#[tokio::test]
async fn a_healthy_run_waits_for_one_attempt_of_each_run_whose_image_cannot_be_pulled() -> Result<()> {
    with_namespace("no-images", |env| async move {
        let nodes = env.nodes().await?;
        env.datastore("redis", &server_on(REDIS, &nodes.servers[0])).await?;
        env.datastore_ready("redis").await?;
        let there = clients_on(&nodes.clients[0]);
        let unpulled = format!(
            "phases: [{{name: write, memtier: {{image: '{NO_IMAGE}', testTime: 2s}}}}]\ntimeout: 20m\n{there}"
        );
        env.run("one", &against("redis", &unpulled)).await?;
        run_reports(&env, "one", &[NO_IMAGE], SHORT_RUN).await?;
        env.run("two", &against("redis", &unpulled)).await?;
        queued_behind(&env, "two", "one").await?;
        // If runs are created in the same second, the first by name comes first.
        env.run("well", &against("redis", &format!("{ONE_PHASE}{there}"))).await?;
        env.run_in("well", RunPhase::Succeeded, GIVEN_BACK.saturating_mul(2) + SHORT_RUN).await?;
        for unlucky in ["one", "two"] {
            let run = env.api::<BenchmarkRun>().get(unlucky).await?;
            let count = run.status.and_then(|status| status.setback).map_or(0, |setback| setback.count);
            ensure!(count == 1, "run {unlucky} had failed to start {count} times");
        }
        Ok(())
    })
    .await
}

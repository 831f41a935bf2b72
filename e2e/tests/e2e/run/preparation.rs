//! What is done before a measured load: keys loaded and counted, warm-up, flush.

use crate::{
    common::{failed, redis, says},
    run::tool::memtier::IMAGE_VARIABLE,
};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_e2e::{
    Env, SHORT_RUN, alone,
    manifests::against,
    message, not_run,
    results::{self, operation, phase, plausible},
    with_namespace,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Event};
use kube::{ResourceExt, api::ListParams};
use std::time::Duration;

const PREPARED: &str = "
phases:
- name: read
  flush: true
  load: {keyMaximum: 49999, dataSize: 64}
  warmup: 2s
  minimumHitRatio: '1'
  loadgen: {ratio: '0:1', keyMaximum: 49999, duration: 2s}
clients: {pods: 2}
timeout: 3m
";

#[tokio::test]
async fn reads_find_what_was_loaded_and_the_warm_up_is_in_no_figure() -> Result<()> {
    alone("prepared", |env| async move {
        redis(&env).await?;
        let mut server = env.server("redis").await?;
        server.set("leftover", "of an earlier run").await?;
        env.run("prepared", &against("redis", PREPARED)).await?;
        let run = env.run_in("prepared", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        let read = phase(&status, "read")?;
        plausible(read)?;
        ensure!(server.keys().await? == 50_000, "the server holds {} keys", server.keys().await?);
        ensure!(read.repetitions[0].hit_ratio == Some(1.0), "{:?}", read.repetitions[0]);
        let window = read.repetitions[0].window_seconds;
        ensure!((window - 2.0).abs() < 0.2, "the window is {window} s: the warm-up is in it");
        let result = env.results(&run).await?.remove(0);
        let loaded: u64 = result.pods.iter().filter_map(|pod| pod.load).map(|load| load.found).sum();
        ensure!(loaded == 50_000, "the pods counted {loaded} keys");
        let warmup: u64 = result.pods.iter().flat_map(|pod| pod.warmup.values()).sum();
        let measured = operation(read, "GET")?.count;
        let calls = server.calls().await?;
        let server = calls.get("get").copied().context("no GETs")?;
        ensure!(warmup > 0, "nothing was warmed up");
        ensure!(
            (warmup + measured..=warmup + measured + 80).contains(&server),
            "the server counted {server} GETs; {warmup} of warm-up, {measured} measured"
        );
        no_probe_failed(&env).await
    })
    .await
}

/// Each probe that fails leaves a Warning event, which looks like a fault.
async fn no_probe_failed(env: &Env) -> Result<()> {
    let failed_probes = ListParams::default().fields("reason=Unhealthy");
    let mut events = env.api::<Event>().list(&failed_probes).await?.items;
    // A busy node started the program after its first probe.
    events.retain(|event| !event.message.as_deref().unwrap_or_default().contains("connection refused"));
    ensure!(
        events.is_empty(),
        "a server that starts and a client that prepares or ends are healthy: {events:?}"
    );
    Ok(())
}

const HALF: &str = "
phases:
- name: read
  flush: true
  load: {keyMaximum: 4999}
  minimumHitRatio: '0.9'
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 2s}
timeout: 3m
";

#[tokio::test]
async fn a_phase_whose_reads_find_too_few_keys_has_no_result() -> Result<()> {
    with_namespace("half", |env| async move {
        redis(&env).await?;
        env.run("half", &against("redis", HALF)).await?;
        let (run, failure) = failed(&env, "half", SHORT_RUN).await?;
        ensure!(failure.step == "HitRatio", "{failure:?}");
        says(&failure.message, &["0.9"])?;
        ensure!(results::status(&run)?.phases.is_empty(), "numbers are shown");
        Ok(())
    })
    .await
}

/// A client with so little CPU writes and counts so many keys for longer than the status shows two figures, 10 s each:
/// for 45 s on a fast machine.
const MANY_KEYS: &str = "
phases:
- name: read
  flush: true
  load: {keyMaximum: 999999, dataSize: 64}
  loadgen: {ratio: '0:1', keyMaximum: 999999, duration: 1s}
clients: {resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {cpu: 20m, memory: 256Mi}}}
timeout: 5m
";
/// Longer than clients may take to start.
const LONG_WARM_UP: &str = "
phases:
- name: write
  warmup: 310s
  memtier: {image: 'IMAGE', threads: 1, connectionsPerThread: 1, testTime: 2s, ratio: '1:0', keyMaximum: 9999}
timeout: 10m
";
/// Until a status must show another figure.
const FIGURE: Duration = Duration::from_secs(60);

/// Waits until the message of the run has `text` and a figure other than those in `shown`; returns it.
async fn percent(env: &Env, run: &str, text: &str, shown: &[&str]) -> Result<String> {
    let figure = |run: &BenchmarkRun| {
        let message = message(run);
        let (_, figure) = message.split_once(text)?;
        Some(figure.trim_start_matches(": ").to_owned()).filter(|it| it.ends_with(" % done"))
    };
    let new = |run: &BenchmarkRun| figure(run).is_some_and(|figure| !shown.contains(&figure.as_str()));
    let found = env.run_is(run, &format!("the progress of '{text}'"), FIGURE, new).await?;
    figure(&found).context("the figure is gone")
}

#[tokio::test]
async fn the_status_shows_how_many_keys_are_written() -> Result<()> {
    with_namespace("many-keys", |env| async move {
        redis(&env).await?;
        env.run("many", &against("redis", MANY_KEYS)).await?;
        let first = percent(&env, "many", "write and count the keys of load", &[]).await?;
        percent(&env, "many", "write and count the keys of load", &[&first]).await?;
        no_probe_failed(&env).await
    })
    .await
}

#[tokio::test]
async fn a_warm_up_longer_than_clients_may_take_to_start_is_shown_and_its_phase_is_measured() -> Result<()> {
    let Ok(image) = std::env::var(IMAGE_VARIABLE) else {
        not_run("a warm-up of memtier", &format!("no memtier image: set {IMAGE_VARIABLE}"));
        return Ok(());
    };
    with_namespace("long-warm-up", |env| async move {
        redis(&env).await?;
        env.run("patient", &against("redis", &LONG_WARM_UP.replace("IMAGE", &image))).await?;
        let first = percent(&env, "patient", "client pods warm up", &[]).await?;
        percent(&env, "patient", "client pods warm up", &[&first]).await?;
        let job = env.api::<Job>().get("patient-write-1").await?.uid();
        let run = env.run_in("patient", RunPhase::Succeeded, Duration::from_secs(310) + SHORT_RUN).await?;
        ensure!(env.api::<Job>().get("patient-write-1").await?.uid() == job, "the Job was created again");
        let status = results::status(&run)?;
        ensure!(status.setback.is_none() && status.retries.is_empty(), "{status:?}");
        plausible(phase(&status, "write")?)
    })
    .await
}

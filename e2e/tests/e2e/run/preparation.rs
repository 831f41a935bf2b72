//! What is done before a measured load: keys loaded and counted, warm-up, flush.

use crate::common::{failed, redis, says};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    SHORT_RUN, alone,
    manifests::against,
    results::{self, operation, phase, plausible},
    with_namespace,
};

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
        Ok(())
    })
    .await
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

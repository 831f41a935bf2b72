//! Several client pods as one client, and pods that get lost.

use crate::common::{client_pod, complete, of_run, redis, says};
use crate::datastore::placement::apart;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    NOTICE, SHORT_RUN, alone,
    manifests::against,
    results::{self, agrees, operation, phase, plausible},
    with_namespace,
};
use dragstrip_results::histogram::Latencies;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;

const THREE_PODS: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyPattern: Sequential, keyMaximum: 29999, duration: 3s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 29999, duration: 3s}
  minimumHitRatio: '1'
clients: {pods: 3, placement: {nodeSelector: {dragstrip.dev/role: client}}}
timeout: 3m
";

#[tokio::test]
async fn three_client_pods_on_client_nodes_are_one_client() -> Result<()> {
    alone("three-pods", |env| async move {
        redis(&env).await?;
        env.run("together", &against("redis", THREE_PODS)).await?;
        let run = env.run_in("together", RunPhase::Succeeded, SHORT_RUN).await?;
        complete(&run, "Succeeded")?;
        apart(&env, "together").await?;
        let status = results::status(&run)?;
        for (result, (name, command)) in
            env.results(&run).await?.iter().zip([("write", "SET"), ("read", "GET")])
        {
            let phase = phase(&status, name)?;
            plausible(phase)?;
            agrees(result, phase)?;
            ensure!(result.pods.len() == 3, "{name}: {} pods", result.pods.len());
            let of_pods: u64 = result.pods.iter().flat_map(|pod| &pod.operations).map(|op| op.count).sum();
            let total = result.operations.last().map(|op| op.count);
            ensure!(total == Some(of_pods), "{name}: TOTAL is {total:?}, the pods did {of_pods}");
            let row = operation(phase, command)?;
            ensure!(row.count == of_pods, "{name}: {} are shown, the pods did {of_pods}", row.count);
            let mut merged: Option<Latencies> = None;
            for histogram in
                result.pods.iter().flat_map(|pod| &pod.operations).filter_map(|op| op.histogram.as_ref())
            {
                let decoded = Latencies::decode(histogram)?;
                match &mut merged {
                    None => merged = Some(decoded),
                    Some(sum) => sum.add(&decoded)?,
                }
            }
            let merged = merged.context("no pod has a histogram")?;
            ensure!(
                merged.summary() == row.latency_milliseconds,
                "{name}: percentiles are not the merged ones"
            );
            let repetition = &phase.repetitions[0];
            ensure!(
                repetition.pods == 3
                    && repetition.start_skew_seconds < 0.5
                    && repetition.clock_offset_seconds.abs() < 0.05,
                "{name}: pods of one machine started together by one clock: {repetition:?}"
            );
        }
        let calls = env.server("redis").await?.calls().await?;
        let (server, tool) = (calls["set"], env.sent(&status, "SET").await?);
        ensure!((tool..=tool + 60).contains(&server), "the server counted {server} SETs, the pods {tool}");
        Ok(())
    })
    .await
}

const RETRIED: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 1s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 6s}
maxRetries: 1
timeout: 5m
";

#[tokio::test]
async fn a_repetition_that_lost_a_pod_is_repeated_from_its_first_phase() -> Result<()> {
    with_namespace("retried", |env| async move {
        redis(&env).await?;
        env.run("unlucky", &against("redis", RETRIED)).await?;
        env.load_runs("unlucky", "read", SHORT_RUN).await?;
        let pod = client_pod(&env, "unlucky").await?.name_any();
        env.delete::<Pod>(&pod).await?;
        let run = env.run_in("unlucky", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        ensure!(status.retries.len() == 1, "{:?}", status.retries);
        let retry = &status.retries[0];
        ensure!((retry.phase.as_str(), retry.repetition, retry.measurement) == ("read", 1, 1), "{retry:?}");
        says(&retry.reason, &[&pod])?;
        env.event("BenchmarkRun", "unlucky", "Retrying", "read", NOTICE).await?;
        for phase in &status.phases {
            plausible(phase)?;
            ensure!(phase.repetitions.len() == 1, "a partial measurement is shown: {phase:?}");
        }
        let lost = env.result("unlucky-read-1").await?;
        ensure!(lost.failure.is_some(), "the lost result is stored as lost: {:?}", lost.failure);
        let jobs: Vec<Job> = env.labelled(&of_run("unlucky")).await?;
        ensure!(jobs.iter().any(|job| job.name_any() == "unlucky-write-1b"), "write was not measured again");
        Ok(())
    })
    .await
}

//! Parts of the cluster that fail under a run.

use crate::common::{client_pod, confirmed, failed, ip, of_run, redis, says};
use anyhow::{Result, ensure};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    faults::{Fault, local},
    manifests::against,
    nodes::{self, clients_on},
    not_run,
    results::{self, never_together, plausible},
    server::Server,
    until,
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Node};
use kube::{Api, ResourceExt, api::ListParams};
use std::time::Duration;

const PHASES: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 6s}
- name: read
  loadgen: {ratio: '0:1', keyMaximum: 9999, duration: 1s}
timeout: 10m
";
const SHORT_PHASE: &str = "
phases:
- name: write
  loadgen: {ratio: '1:0', keyMaximum: 9999, duration: 3s}
maxRetries: RETRIES
timeout: 10m
";
/// From the loss of a client: the rest of its load, the watchdog's and the result's grace.
const LOST: Duration = Duration::from_secs(75);
const NODES_BACK: Duration = Duration::from_secs(60);

/// Faults can be made on the testbed only.
fn skipped(what: &str) -> bool {
    let skipped = !local();
    if skipped {
        not_run(what, "faults need the testbed's own cluster: CLUSTER=local");
    }
    skipped
}

#[tokio::test]
async fn a_load_that_ends_while_the_apiserver_is_down_is_not_lost() -> Result<()> {
    if skipped("an apiserver that is down under load") {
        return Ok(());
    }
    alone("apiserver", |env| async move {
        redis(&env).await?;
        env.run("unmoved", &against("redis", PHASES)).await?;
        env.load_runs("unmoved", "write", SHORT_RUN).await?;
        let client = ip(&client_pod(&env, "unmoved").await?)?;
        let job = env.api::<Job>().get("unmoved-write-1").await?.uid();
        let address = env.server_address("redis").await?;
        let fault = Fault::stop("apiserver")?;
        load_ends(&address, &client).await?;
        fault.mend()?;

        let run = env.run_in("unmoved", RunPhase::Succeeded, SHORT_RUN).await?;
        let jobs: Vec<Job> = env.labelled(&of_run("unmoved")).await?;
        ensure!(
            jobs.len() == 2 && jobs.iter().any(|found| found.uid() == job),
            "the Job was recreated: {jobs:?}"
        );
        let status = results::status(&run)?;
        ensure!(status.phases.len() == 2, "{:?}", status.phases);
        status.phases.iter().try_for_each(plausible)?;
        never_together(&env.results(&run).await?)?;
        confirmed(&env, &status).await
    })
    .await
}

async fn load_ends(server: &str, client: &str) -> Result<()> {
    let mut server = Server::connect(server, None).await?;
    until("the end of the load", Duration::from_secs(20), async || {
        Ok(match server.connections_from(client).await? {
            0 => Look::Done(()),
            some => Look::NotYet(format!("{some} connections")),
        })
    })
    .await
}

#[tokio::test]
async fn a_client_node_lost_under_load_fails_the_run() -> Result<()> {
    if skipped("a client node lost under load") {
        return Ok(());
    }
    alone("node-lost", |env| async move {
        redis(&env).await?;
        env.run("cut-off", &against("redis", &SHORT_PHASE.replace("RETRIES", "0"))).await?;
        env.load_runs("cut-off", "write", SHORT_RUN).await?;
        let fault = Fault::kill_node(&nodes::of(&client_pod(&env, "cut-off").await?)?)?;
        let (run, failure) = failed(&env, "cut-off", LOST).await?;
        ensure!(failure.phase.as_deref() == Some("write"), "{failure:?}");
        says(&failure.message, &["a client pod or its node is lost"])?;
        ensure!(results::status(&run)?.phases.is_empty(), "numbers are shown");
        fault.mend()?;
        nodes_ready(&env).await
    })
    .await
}

#[tokio::test]
async fn a_repetition_lost_with_its_node_is_repeated_when_the_node_is_back() -> Result<()> {
    if skipped("a client node lost under load and found again") {
        return Ok(());
    }
    alone("node-found", |env| async move {
        redis(&env).await?;
        // It could go to another node: this one is the only one it may have.
        let node = env.nodes().await?.clients.remove(0);
        let phase = SHORT_PHASE.replace("RETRIES", "1") + &clients_on(&node);
        env.run("again", &against("redis", &phase)).await?;
        env.load_runs("again", "write", SHORT_RUN).await?;
        let fault = Fault::kill_node(&node)?;
        let retrying =
            |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| !status.retries.is_empty());
        env.run_is("again", "a retry", LOST, retrying).await?;
        fault.mend()?;
        nodes_ready(&env).await?;
        let run = env.run_in("again", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = results::status(&run)?;
        ensure!(status.retries.len() == 1 && status.phases.len() == 1, "{:?}", status.retries);
        plausible(&status.phases[0])?;
        ensure!(status.phases[0].repetitions.len() == 1, "a partial measurement is shown: {status:?}");
        ensure!(env.result("again-write-1").await?.failure.is_some(), "the lost result is stored as lost");
        Ok(())
    })
    .await
}

async fn nodes_ready(env: &Env) -> Result<()> {
    let nodes: Api<Node> = Api::all(env.client.clone());
    until("all nodes Ready", NODES_BACK, || async {
        let list = nodes.list(&ListParams::default()).await?;
        let ready = |node: &Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.clone().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        let away: Vec<String> =
            list.items.iter().filter(|node| !ready(node)).map(ResourceExt::name_any).collect();
        Ok(if away.is_empty() { Look::Done(()) } else { Look::NotYet(format!("not ready: {away:?}")) })
    })
    .await
}

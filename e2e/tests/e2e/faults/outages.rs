//! Parts of the cluster that fail under a run.

use crate::common::{client_pod, confirmed, failed, ip, of_run, redis, says};
use anyhow::{Result, ensure};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    faults::{Fault, local},
    manifests::against,
    message,
    nodes::{self, clients_on},
    not_run, operator, phase,
    results::{self, never_together, plausible},
    server::Server,
    until,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Node, Pod},
};
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

/// Longer than the operator tries to reach runners at the start line.
const AWAY: Duration = Duration::from_secs(72);
/// Keys that take some seconds to write: the fault begins before clients come to the start line.
const FILLED: &str = "
phases:
- name: read
  flush: true
  load: {keyMaximum: 1499999, dataSize: 16}
  loadgen: {ratio: '0:1', keyMaximum: 1499999, duration: 1s}
maxRetries: 0
timeout: 10m
";

/// Starts a run and waits until its client writes keys.
async fn filling(env: &Env) -> Result<Option<String>> {
    redis(env).await?;
    env.run("standing", &against("redis", FILLED)).await?;
    env.run_is("standing", "its client pod", SHORT_RUN, |run| phase(run) == RunPhase::Preparing).await?;
    until("a client pod that runs", SHORT_RUN, async || {
        Ok(match env.labelled::<Pod>(&of_run("standing")).await?.first().and_then(|pod| pod.status.clone()) {
            Some(status) if status.phase.as_deref() == Some("Running") => Look::Done(()),
            status => Look::NotYet(format!("{status:?}")),
        })
    })
    .await?;
    Ok(env.api::<Job>().get("standing-read-1").await?.uid())
}

/// Asserts that the run is measured by this Job, and was never set back.
async fn goes_on(env: &Env, job: Option<String>) -> Result<()> {
    let set_back = |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| status.setback.is_some());
    let run =
        env.run_is("standing", "its end", SHORT_RUN, |run| phase(run).finished() || set_back(run)).await?;
    ensure!(phase(&run) == RunPhase::Succeeded, "it is {}: {}", phase(&run), message(&run));
    ensure!(env.api::<Job>().get("standing-read-1").await?.uid() == job, "the Job was created again");
    Ok(())
}

#[tokio::test]
async fn clients_wait_at_the_start_line_for_an_operator_that_is_away() -> Result<()> {
    alone("operator-away", |env| async move {
        let job = filling(&env).await?;
        operator::without(&env.client, async {
            until("a client at the start line", SHORT_RUN, async || {
                let ready = operator::ready(&client_pod(&env, "standing").await?);
                Ok(if ready { Look::Done(()) } else { Look::NotYet("it is not ready".to_owned()) })
            })
            .await?;
            tokio::time::sleep(AWAY).await;
            Ok(())
        })
        .await?;
        goes_on(&env, job).await
    })
    .await
}

#[tokio::test]
async fn clients_wait_at_the_start_line_for_an_apiserver_that_is_away() -> Result<()> {
    if skipped("an apiserver that is away while clients stand at the start line") {
        return Ok(());
    }
    alone("apiserver-away", |env| async move {
        let job = filling(&env).await?;
        let fault = Fault::stop("apiserver")?;
        tokio::time::sleep(AWAY).await;
        fault.mend()?;
        goes_on(&env, job).await
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
        says(&failure.message, &["the measurement is lost"])?;
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

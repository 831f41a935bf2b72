//! Where clients and servers run.

use crate::common::{failed, of_run, run_says, says};
use anyhow::{Result, ensure};
use dragstrip_crds::{
    Datastore,
    conditions::types::{CLIENTS_READY, READY},
    run::RunPhase,
};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, SERVER_UP, SHORT_RUN, alone,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against},
    nodes::{self, ROLE, clients_on, on, server_on},
    until, with_namespace,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Asserts that the run's client pods and the server redis are where they belong.
pub async fn apart(env: &Env, run: &str) -> Result<()> {
    let pods: Vec<Pod> = env.labelled(&of_run(run)).await?;
    ensure!(!pods.is_empty(), "no client pods");
    for pod in &pods {
        let role = env.role(&nodes::of(pod)?).await?;
        ensure!(role == "client", "{} ran on a node for {role}s", pod.name_any());
    }
    let role = env.role(&nodes::of(&env.server_pod("redis").await?)?).await?;
    ensure!(role == "server", "the server runs on a node for {role}s");
    Ok(())
}

#[tokio::test]
async fn a_client_without_any_node_of_its_own_is_not_put_beside_the_server_but_told_the_remedy() -> Result<()>
{
    with_namespace("separation", |env| async move {
        // The node without taint: only the rule keeps the client off it.
        let node = env.nodes().await?.servers.remove(0);
        env.datastore("redis", &server_on(REDIS, &node)).await?;
        env.datastore_ready("redis").await?;
        let phases = ONE_PHASE.replace("timeout: 2m", "timeout: 8s") + &clients_on(&node);
        env.run("beside", &against("redis", &phases)).await?;
        let texts = ["no node for clients", &node, "spec.clients.shareServerNode"];
        run_says(&env, "beside", CLIENTS_READY, "HeldUp", &texts).await?;
        let pods: Vec<Pod> = env.labelled(&of_run("beside")).await?;
        ensure!(pods.iter().all(|pod| nodes::of(pod).is_err()), "a client was put on a node: {pods:?}");
        let (_, failure) = failed(&env, "beside", SHORT_RUN).await?;
        ensure!(failure.step == "Timeout", "{failure:?}");
        says(&failure.message, &["spec.timeout (8s)", "no node for clients"])
    })
    .await
}

#[tokio::test]
async fn clients_that_may_share_the_servers_node_run_beside_it() -> Result<()> {
    with_namespace("shared-node", |env| async move {
        let node = env.nodes().await?.servers.remove(0);
        env.datastore("redis", &server_on(REDIS, &node)).await?;
        env.datastore_ready("redis").await?;
        let clients = format!("clients: {{shareServerNode: true, placement: {}}}\n", on(&node));
        env.run("beside", &against("redis", &format!("{ONE_PHASE}{clients}"))).await?;
        env.run_in("beside", RunPhase::Succeeded, SHORT_RUN).await?;
        for pod in env.labelled::<Pod>(&of_run("beside")).await? {
            let found = nodes::of(&pod)?;
            ensure!(found == node, "the client ran on {found}, not on {node}, the only one it may have");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_server_is_never_placed_beside_the_clients_of_a_run() -> Result<()> {
    alone("server-beside", |env| async move {
        let nodes = env.nodes().await?;
        env.datastore("redis", &server_on(REDIS, &nodes.servers[0])).await?;
        env.datastore_ready("redis").await?;
        env.run("loading", &against("redis", &format!("{LONG_PHASE}{}", clients_on(&nodes.clients[0]))))
            .await?;
        env.load_runs("loading", "endless", SHORT_RUN).await?;
        let beside = server_on(REDIS, &nodes.clients[0]).replace(
            "placement: {",
            &format!("placement: {{tolerations: [{{key: {ROLE}, operator: Exists, effect: NoSchedule}}], "),
        );
        env.datastore("intruder", &beside).await?;
        let unplaced = |datastore: &Datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            let ready = dragstrip_crds::conditions::find(&conditions, READY);
            ready.is_some_and(|ready| ready.status == "False" && ready.message.contains("0/"))
        };
        env.datastore_is("intruder", "no node for its server, by the scheduler's words", SERVER_UP, unplaced)
            .await?;
        for pod in env.labelled::<Pod>("dragstrip.dev/datastore=intruder").await? {
            ensure!(nodes::of(&pod).is_err(), "a server was put beside the clients of a run: {pod:?}");
        }
        env.delete::<dragstrip_crds::BenchmarkRun>("loading").await?;
        env.none_labelled::<Pod>(&of_run("loading"), LOAD_GONE).await?;
        // The scheduler tries again when the clients have gone, not five minutes later.
        until("the server on the node that is free", SERVER_UP, || async {
            let pods: Vec<Pod> = env.labelled("dragstrip.dev/datastore=intruder").await?;
            Ok(match pods.first().map(nodes::of) {
                Some(Ok(_)) => Look::Done(()),
                _ => Look::NotYet("no node".to_owned()),
            })
        })
        .await
    })
    .await
}

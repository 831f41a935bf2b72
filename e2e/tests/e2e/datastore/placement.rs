//! Where clients and servers run.

use crate::common::{datastore_says, failed, held, of_run, run_says, says};
use anyhow::{Result, ensure};
use dragstrip_crds::{
    BenchmarkRun, Datastore,
    conditions::{
        find,
        types::{CLIENTS_READY, READY},
    },
    run::RunPhase,
};
use dragstrip_e2e::{
    Env, LOAD_GONE, Look, SERVER_UP, SHORT_RUN, alone, faults,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against},
    nodes::{self, ROLE, clients_on, on, server_on},
    not_run, until, with_namespace,
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
async fn clients_without_a_free_node_stay_off_the_servers_node_and_the_run_names_the_remedy() -> Result<()> {
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
async fn clients_may_share_the_servers_node_if_declared() -> Result<()> {
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
        env.delete::<BenchmarkRun>("loading").await?;
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

const ZONE: &str = "topology.kubernetes.io/zone";
const GROUP: &str = "dragstrip.dev/placement-group";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Asserts what a condition of a run says, and with which evidence.
fn condition(run: &BenchmarkRun, kind: &str, status: &str, reason: &str, texts: &[&str]) -> Result<()> {
    let conditions = run.status.clone().unwrap_or_default().conditions;
    let found = find(&conditions, kind);
    ensure!(
        found.is_some_and(|found| found.status == status && found.reason == reason),
        "{kind} is not {status}, {reason}, but {found:?}"
    );
    says(&found.map(|found| found.message.clone()).unwrap_or_default(), texts)
}

/// The fields of a placement on nodes like this one, by its labels.
async fn place_of(env: &Env, node: &str) -> Result<String> {
    let [zone, group, kind] =
        [env.label(node, ZONE).await?, env.label(node, GROUP).await?, env.label(node, INSTANCE_TYPE).await?];
    ensure!(
        ![&zone, &group, &kind].into_iter().any(String::is_empty),
        "this test needs nodes with the labels {ZONE}, {GROUP} and {INSTANCE_TYPE}, as \
         'testbed/cluster up' makes them; {node} has {zone:?}, {group:?} and {kind:?}"
    );
    Ok(format!("{{zone: {zone}, placementGroup: {group}, instanceType: {kind}}}"))
}

#[tokio::test]
async fn pods_land_in_the_declared_zones_groups_and_instance_types_and_the_run_reports_them() -> Result<()> {
    with_namespace("declared-place", |env| async move {
        let nodes = env.nodes().await?;
        let (server, client) = (&nodes.servers[0], &nodes.clients[0]);
        let placed = format!("{REDIS}placement: {}\n", place_of(&env, server).await?);
        env.datastore("redis", &placed).await?;
        env.datastore_ready("redis").await?;
        let clients = format!("clients: {{placement: {}}}\n", place_of(&env, client).await?);
        let wanted = "requirements:\n- {check: SameZone, level: Required}\n- {check: SamePlacementGroup, level: Required}\n- {check: ThreadsAsRequested, level: Required}\n";
        env.run("placed", &against("redis", &format!("{ONE_PHASE}{clients}{wanted}"))).await?;
        let run = env.run_in("placed", RunPhase::Succeeded, SHORT_RUN).await?;
        let at = nodes::of(&env.server_pod("redis").await?)?;
        let kind = env.label(&at, INSTANCE_TYPE).await?;
        ensure!(kind == env.label(server, INSTANCE_TYPE).await?, "the server is on a {kind}");
        for pod in env.labelled::<Pod>(&of_run("placed")).await? {
            let kind = env.label(&nodes::of(&pod)?, INSTANCE_TYPE).await?;
            ensure!(kind == env.label(client, INSTANCE_TYPE).await?, "a client is on a {kind}");
        }
        let zone = env.label(&at, ZONE).await?;
        condition(&run, "SameZone", "True", "Label", &[&format!("{at} in {zone}"), "TCP's handshake"])?;
        condition(&run, "SamePlacementGroup", "True", "Label", &[GROUP, &at])?;
        condition(&run, "ThreadsAsRequested", "True", "ReportedByServer", &["1 declared, the server runs with 1"])?;
        condition(&run, "IoUring", "False", "ReportedByServer", &["epoll"])?;
        if faults::local() {
            condition(&run, "DistinctNodes", "False", "SharedNode", &["clients and servers share a machine", &at])?;
        }
        Ok(())
    })
    .await
}

/// Asserts that `run`, which waits for a node, has neither Leases nor pods: in a cloud, pods make an
/// autoscaler add one, and the testbed has none.
async fn reserves_nothing(env: &Env, run: &str) -> Result<()> {
    if faults::local() {
        let (held, pods) = (held(env, run).await?, env.labelled::<Pod>(&of_run(run)).await?.len());
        ensure!(held.is_empty() && pods == 0, "it has {pods} pods and holds {held:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_waits_for_a_place_without_nodes_names_the_field_and_the_label() -> Result<()> {
    with_namespace("nowhere", |env| async move {
        let placed = format!("{REDIS}placement: {{placementGroup: pg-nowhere}}\n");
        env.datastore("lost", &placed).await?;
        let texts = ["no node matches spec.placement.placementGroup", &format!("{GROUP}=pg-nowhere")];
        datastore_says(&env, "lost", READY, "Unschedulable", &texts).await?;
        env.datastore("redis", REDIS).await?;
        env.datastore_ready("redis").await?;
        let clients = "clients: {placement: {zone: nowhere-1a}}\n";
        env.run("lost", &against("redis", &format!("{ONE_PHASE}{clients}"))).await?;
        let texts = ["no node for clients", &format!("zone: {ZONE}=nowhere-1a")];
        run_says(&env, "lost", CLIENTS_READY, "HeldUp", &texts).await?;
        reserves_nothing(&env, "lost").await?;
        env.run("found", &against("redis", ONE_PHASE)).await?;
        env.run_in("found", RunPhase::Succeeded, SHORT_RUN).await?;
        reserves_nothing(&env, "lost").await
    })
    .await
}

#[tokio::test]
async fn clients_are_placed_near_the_server_and_wait_while_its_node_has_no_label_for_it() -> Result<()> {
    alone("colocate", |env| async move {
        let nodes = env.nodes().await?;
        let (server, near, far) = (&nodes.servers[0], &nodes.clients[0], &nodes.clients[1]);
        env.datastore("redis", &server_on(REDIS, server)).await?;
        env.datastore_ready("redis").await?;
        let spec = against("redis", &format!("{ONE_PHASE}clients: {{colocate: PlacementGroup}}\n"));
        let beside = Box::pin(async {
            env.run("beside", &spec).await?;
            let run = env.run_in("beside", RunPhase::Succeeded, SHORT_RUN).await?;
            for pod in env.labelled::<Pod>(&of_run("beside")).await? {
                let node = nodes::of(&pod)?;
                ensure!(node == *near, "the client is on {node}, not on {near} in the server's group");
            }
            condition(&run, "SamePlacementGroup", "True", "Label", &["in pair"])
        });
        let pair = Box::pin(env.relabelled(near, GROUP, "pair", beside));
        let paired = Box::pin(env.relabelled(server, GROUP, "pair", pair));
        env.relabelled(far, GROUP, "other", paired).await?;
        let waits = Box::pin(async {
            env.run("bare", &spec).await?;
            let texts =
                ["spec.clients.colocate is PlacementGroup", &format!("{server} has none"), "label them"];
            run_says(&env, "bare", CLIENTS_READY, "HeldUp", &texts).await?;
            let pods: Vec<Pod> = env.labelled(&of_run("bare")).await?;
            ensure!(pods.is_empty(), "pods were made for nowhere: {pods:?}");
            Ok(())
        });
        env.relabelled(server, GROUP, "", waits).await?;
        env.run_in("bare", RunPhase::Succeeded, SHORT_RUN).await.map(|_| ())
    })
    .await
}

#[tokio::test]
async fn a_required_group_that_is_not_shared_fails_the_run_before_any_load() -> Result<()> {
    alone("required-group", |env| async move {
        let nodes = env.nodes().await?;
        let (server, client) = (&nodes.servers[0], &nodes.clients[0]);
        env.datastore("redis", &server_on(REDIS, server)).await?;
        env.datastore_ready("redis").await?;
        let wanted = "requirements: [{check: SamePlacementGroup, level: Required}]\n";
        let spec = against("redis", &format!("{ONE_PHASE}{}{wanted}", clients_on(client)));
        let outcome = Box::pin(async {
            env.run("apart", &spec).await?;
            failed(&env, "apart", SHORT_RUN).await
        });
        let (run, failure) = env.relabelled(client, GROUP, "elsewhere", outcome).await?;
        ensure!(failure.step == "Placement", "{failure:?}");
        says(&failure.message, &["SamePlacementGroup", &format!("{client} in elsewhere"), server])?;
        condition(&run, "SamePlacementGroup", "False", "Label", &["in elsewhere"])?;
        let status = run.status.unwrap_or_default();
        ensure!(status.reasons == ["PlacementNotAsDeclared"], "{:?}", status.reasons);
        ensure!(status.started_at.is_none() && status.phases.is_empty(), "load was sent: {status:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn clients_on_the_node_of_a_server_leave_it_its_exclusive_cpus() -> Result<()> {
    alone("same-node", |env| async move {
        if !faults::local() {
            not_run("exclusive CPUs", "no node has a label for the static CPU manager policy");
            return Ok(());
        }
        let node = env.nodes().await?.servers.remove(0);
        // A whole CPU, guaranteed: what a static CPU manager makes exclusive.
        let whole = REDIS.replace("cpu: 100m", "cpu: 1").replace("cpu: 2,", "cpu: 1,");
        env.datastore("redis", &server_on(&whole, &node)).await?;
        env.datastore_ready("redis").await?;
        let wanted = "requirements:\n- {check: ExclusiveCPUs, level: Required}\n- {check: SharedNode, level: Ignore}\n";
        let clients = "clients: {placement: {sameNodeAs: redis}}\n";
        env.run("beside", &against("redis", &format!("{ONE_PHASE}{clients}{wanted}"))).await?;
        let run = env.run_in("beside", RunPhase::Succeeded, SHORT_RUN).await?;
        for pod in env.labelled::<Pod>(&of_run("beside")).await? {
            let found = nodes::of(&pod)?;
            ensure!(found == node, "the client ran on {found}, not on {node}, the server's");
        }
        condition(&run, "ExclusiveCPUs", "True", "SeenFromInside", &["redis-0 may run on CPUs", "(1 requested)"])?;
        condition(&run, "DistinctNodes", "False", "SharedNode", &[&node])?;
        // A server that shares its CPUs is not measured at all.
        env.datastore("shares", &server_on(REDIS, &node)).await?;
        env.datastore_ready("shares").await?;
        env.run("shares", &against("shares", &format!("{ONE_PHASE}{wanted}"))).await?;
        let (run, failure) = failed(&env, "shares", SHORT_RUN).await?;
        ensure!(failure.step == "Placement", "{failure:?}");
        says(&failure.message, &["ExclusiveCPUs", "shares-0 may run on CPUs", "no whole CPUs requested"])?;
        condition(&run, "ExclusiveCPUs", "False", "SharedCPUs", &["shares-0"])
    })
    .await
}

//! What manifests say of their pods, seen on the pods themselves and from inside.

use crate::common::of_run;
use anyhow::{Context, Result, ensure};
use dragstrip_crds::{
    Datastore,
    conditions::{find, types::READY},
    run::RunPhase,
};
use dragstrip_e2e::{
    SERVER_UP, SHORT_RUN, kubectl,
    manifests::{ONE_PHASE, REDIS, against},
    nodes::{self, on, server_on},
    not_run, with_namespace,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodSpec};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;

const SETTINGS: &str = "
  labels: {team: caches}
  annotations: {sidecar.istio.io/inject: 'false'}
  imagePullSecrets: [{name: registry}]
  serviceAccountName: default
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
  volumes:
  - {mountPath: /scratch, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
";

/// The settings below `key`, indented by so many spaces more.
fn settings(key: &str, spaces: usize) -> String {
    let indent = " ".repeat(spaces);
    format!("{indent}{key}:{}", SETTINGS.replace('\n', &format!("\n{indent}")))
}

/// Asserts that a pod has what [`SETTINGS`] say.
fn has_settings(pod: &Pod) -> Result<()> {
    let name = pod.name_any();
    ensure!(pod.labels().get("team").is_some_and(|team| team == "caches"), "{name}: {:?}", pod.labels());
    ensure!(pod.annotations().contains_key("sidecar.istio.io/inject"), "{name}: {:?}", pod.annotations());
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    let PodSpec { image_pull_secrets, automount_service_account_token, topology_spread_constraints, .. } =
        spec;
    ensure!(image_pull_secrets.iter().flatten().any(|secret| secret.name == "registry"), "{name}");
    ensure!(*automount_service_account_token == Some(false), "{name} has the account's token");
    let zones = |key: &str| key == "topology.kubernetes.io/zone";
    ensure!(topology_spread_constraints.iter().flatten().any(|it| zones(&it.topology_key)), "{name}");
    let mounts = spec.containers[0].volume_mounts.iter().flatten();
    ensure!(mounts.into_iter().any(|mount| mount.mount_path == "/scratch"), "{name}");
    Ok(())
}

const OWN_TOOL: &str = "
phases:
- name: own
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [sh, -c, 'set -e; : >/scratch/it-can-be-written; read -r line </workloads/figure; echo \"Throughput: $line\"']
    files: [{configMap: workloads, mountPath: /workloads}]
    user: 1000
    parser: {regex: {lines: [{pattern: 'Throughput: (?P<operationsPerSecond>[0-9]+)', operation: GET}]}}
timeout: 2m
clients:
";

#[tokio::test]
async fn pods_of_servers_and_clients_have_the_settings_of_their_manifests() -> Result<()> {
    with_namespace("pod-settings", |env| async move {
        let figure: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "workloads"}, "data": {"figure": "4242\n"}
        }))?;
        env.api::<ConfigMap>().create(&kube::api::PostParams::default(), &figure).await?;
        env.datastore("redis", &format!("{REDIS}\n{}", settings("pod", 0))).await?;
        env.datastore_ready("redis").await?;
        has_settings(&env.server_pod("redis").await?)?;
        env.run("own", &against("redis", &format!("{OWN_TOOL}{}", settings("pod", 2)))).await?;
        let run = env.run_in("own", RunPhase::Succeeded, SHORT_RUN).await?;
        let status = dragstrip_e2e::results::status(&run)?;
        let own = dragstrip_e2e::results::phase(&status, "own")?;
        ensure!(
            own.operations.iter().any(|row| (row.operations_per_second.mean - 4242.0).abs() < 0.5),
            "the tool did not read its file: {own:?}"
        );
        let pods: Vec<Pod> = env.labelled(&of_run("own")).await?;
        ensure!(!pods.is_empty(), "no client pods");
        for pod in &pods {
            has_settings(pod)?;
            let user = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.run_as_user);
            ensure!(user == Some(1000), "the tool ran as {user:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_operators_own_labels_are_refused_by_name() -> Result<()> {
    with_namespace("pod-labels", |env| async move {
        let spec = format!("{REDIS}\npod: {{labels: {{dragstrip.dev/component: client}}}}\n");
        let refusal = env.refusal("Datastore", "redis", &spec).await?;
        ensure!(
            refusal.contains("set by Dragstrip or Kubernetes, leave them out: dragstrip.dev/"),
            "{refusal}"
        );
        Ok(())
    })
    .await
}

/// What the node's kubelet is set to.
async fn cpu_policy(node: &str) -> Result<String> {
    let config = kubectl::must(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/configz")], "").await?;
    let config: serde_json::Value = serde_json::from_str(&config)?;
    Ok(config["kubeletconfig"]["cpuManagerPolicy"].as_str().unwrap_or("none").to_owned())
}

const WHICH_CPUS: &str = "while read -r key value; do case $key in Cpus_allowed_list:) echo $value;; esac; done </proc/self/status";

#[tokio::test]
async fn a_server_with_exclusive_cpus_gets_them_on_a_node_with_the_static_policy() -> Result<()> {
    with_namespace("exclusive", |env| async move {
        let node = env.nodes().await?.servers.remove(0);
        if cpu_policy(&node).await? != "static" {
            not_run("CPUs of a server's own", &format!("{node} has no static CPU manager policy"));
            return Ok(());
        }
        let own = "engine: Redis\nversion: '7.0'\nimage: dragstrip.dev/testbed/redis:7.0\nthreads: 1\nmaxMemory: 256Mi\ncpu: {exclusive: true}\n";
        env.datastore("redis", &server_on(own, &node)).await?;
        env.datastore_ready("redis").await?;
        let pod = env.server_pod("redis").await?;
        let class = pod.status.as_ref().and_then(|status| status.qos_class.clone());
        ensure!(class.as_deref() == Some("Guaranteed"), "the pod is {class:?}");
        let inside = ["exec", "-n", env.namespace.as_str(), "redis-0", "-c", "server", "--", "sh", "-c", WHICH_CPUS];
        let list = kubectl::must(&inside, "").await?;
        ensure!(list.trim().parse::<u32>().is_ok(), "not one CPU but {list:?}");
        Ok(())
    })
    .await
}

/// A server on its node's network at a port that nothing else has.
fn on_the_host(port: u16) -> String {
    format!("{REDIS}\nport: {port}\npod: {{hostNetwork: true}}\n")
}

#[tokio::test]
async fn a_server_on_its_nodes_network_is_measured_and_a_second_one_reports_the_port_conflict() -> Result<()>
{
    with_namespace("host-network", |env| async move {
        let node = env.nodes().await?.servers.remove(0);
        env.datastore("redis", &server_on(&on_the_host(26379), &node)).await?;
        env.datastore_ready("redis").await?;
        let pod = env.server_pod("redis").await?;
        let status = pod.status.clone().unwrap_or_default();
        ensure!(
            status.pod_ip == status.host_ip,
            "{:?} is not the node's {:?}",
            status.pod_ip,
            status.host_ip
        );
        let ports =
            pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|it| it.ports.iter().flatten());
        let ports: BTreeMap<_, _> = ports.map(|port| (port.container_port, port.host_port)).collect();
        ensure!(ports == BTreeMap::from([(26379, Some(26379)), (9180, Some(9180))]), "{ports:?}");
        env.run("load", &against("redis", ONE_PHASE)).await?;
        env.run_in("load", RunPhase::Succeeded, SHORT_RUN).await?;
        // Another port of its own: the observers' one is taken all the same.
        env.datastore("second", &server_on(&on_the_host(26380), &node)).await?;
        let reported = |datastore: &Datastore| {
            let conditions = datastore.status.clone().unwrap_or_default().conditions;
            find(&conditions, READY).is_some_and(|ready| {
                ready.status == "False"
                    && ready.message.contains("26380, 9180")
                    && ready.message.contains("remove hostNetwork")
            })
        };
        env.datastore_is("second", "a port conflict in its status", SERVER_UP, reported).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_client_with_an_exclusive_cpu_may_share_the_servers_node() -> Result<()> {
    with_namespace("exclusive-both", |env| async move {
        let node = env.nodes().await?.servers.remove(0);
        env.datastore("redis", &server_on(REDIS, &node)).await?;
        env.datastore_ready("redis").await?;
        // One CPU is all that a node with two gives away: the server keeps to the others.
        let clients = format!(
            "clients: {{shareServerNode: true, cpu: {{exclusive: true}}, placement: {}}}\n",
            on(&node)
        );
        env.run("beside", &against("redis", &format!("{ONE_PHASE}{clients}"))).await?;
        env.run_in("beside", RunPhase::Succeeded, SHORT_RUN).await?;
        for pod in env.labelled::<Pod>(&of_run("beside")).await? {
            ensure!(nodes::of(&pod)? == node, "the client ran elsewhere");
            let class = pod.status.and_then(|status| status.qos_class);
            ensure!(class.as_deref() == Some("Guaranteed"), "the client's pod is {class:?}");
        }
        Ok(())
    })
    .await
}

//! The flagship example on nodes as EKS makes them: the real operator and the real
//! scheduler put its server and its clients where they belong.

use crate::{
    machines::{MACHINES, Reserved},
    manifests::read,
    player,
};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::Datastore;
use dragstrip_e2e::{Look, kubectl, until};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use std::{net::Ipv4Addr, path::Path, process::Stdio, time::Duration};
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};

const WITHIN: Duration = Duration::from_secs(60);

/// The published pairs: the server's type and threads, its memory, the clients' type.
const PAIRS: [(&str, u32, &str, &str); 8] = [
    ("c6gn.12xlarge", 48, "80Gi", "c7gn.16xlarge"),
    ("c7gn.12xlarge", 48, "80Gi", "c7gn.16xlarge"),
    ("c6in.12xlarge", 48, "80Gi", "c7gn.16xlarge"),
    ("c7i.2xlarge", 8, "10Gi", "c7i.16xlarge"),
    ("c7i.4xlarge", 16, "20Gi", "c7i.16xlarge"),
    ("c7i.8xlarge", 32, "40Gi", "c7i.8xlarge"),
    ("m7i.12xlarge", 48, "80Gi", "m7i.12xlarge"),
    ("r6a.metal", 192, "80Gi", "r6a.metal"),
];

/// The operator of `make build`, and the file that it logs to; it ends with this.
fn operator() -> Result<(Child, NamedTempFile)> {
    let program = std::env::var_os("DRAGSTRIP_OPERATOR")
        .context("DRAGSTRIP_OPERATOR is not set: run 'make test-eks'")?;
    let log = NamedTempFile::new()?;
    let started = Command::new(&program)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(log.reopen()?)
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn();
    let started = started.with_context(|| format!("cannot start {}", Path::new(&program).display()))?;
    Ok((started, log))
}

/// An operator that was there before its CRDs, as it is when a chart installs them late.
async fn operator_before_its_crds() -> Result<(Child, NamedTempFile)> {
    kubectl::must(&["create", "namespace", "dragstrip-system"], "").await?;
    let (mut operator, log) = operator()?;
    until("the operator to wait for the CRDs", WITHIN, async || {
        let reported = std::fs::read_to_string(log.path())?;
        Ok(match operator.try_wait()? {
            Some(exit) => Look::Never(format!("it ended with {exit}: {reported}")),
            None if reported.contains("the operator waits until the CRDs are installed") => Look::Done(()),
            None => Look::NotYet(reported),
        })
    })
    .await?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds/yaml");
    kubectl::must(&["apply", "--server-side", "--filename", crds], "").await?;
    Ok((operator, log))
}

/// Every machine as a node with its daemons, in place of those that are there.
async fn make_nodes(client: &Client, reserved: Reserved) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    nodes.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    until("the end of other nodes", WITHIN, || async {
        let left = nodes.list(&ListParams::default()).await?.items.len()
            + pods.list(&ListParams::default()).await?.items.len();
        Ok(if left == 0 { Look::Done(()) } else { Look::NotYet(format!("{left} nodes and daemons")) })
    })
    .await?;
    for machine in &MACHINES {
        nodes.create(&PostParams::default(), &serde_json::from_value(machine.node(reserved))?).await?;
        pods.create(&PostParams::default(), &serde_json::from_value(machine.daemons())?).await?;
    }
    Ok(())
}

/// A pod with `labels` once it has a node, and that one's instance type.
async fn bound(client: &Client, namespace: &str, labels: &str) -> Result<(Pod, String)> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let what = format!("a pod {labels} in {namespace} to have a node");
    let pod = until(&what, WITHIN, || async {
        let found = pods.list(&ListParams::default().labels(labels)).await?.items;
        let reported = || found.iter().map(|pod| format!("{:?}", pod.status)).collect::<Vec<_>>().join("; ");
        let on_node = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        Ok(found.iter().find(on_node).cloned().map_or_else(|| Look::NotYet(reported()), Look::Done))
    })
    .await?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let node = Api::<Node>::all(client.clone()).get(&node).await?;
    let kind = node.labels().get("node.kubernetes.io/instance-type").cloned().unwrap_or_default();
    Ok((pod, kind))
}

/// The flagship example for other machines than its own: for one machine if both are of the same type.
fn example(server: &str, threads: u32, memory: &str, clients: &str) -> Result<String> {
    let example = read("examples/memtier-dragonfly.yaml")?;
    let requested = format!("cpu: \"{}\"", threads - 2);
    let clients_field =
        if server == clients { "  clients:\n    shareServerNode: true\n" } else { "  clients:\n" };
    Ok(example
        .replace("  clients:\n", clients_field)
        .replace("c6gn.12xlarge", server)
        .replace("c7gn.16xlarge", clients)
        .replace("threads: 48", &format!("threads: {threads}"))
        .replace("maxMemory: 80Gi", &format!("maxMemory: {memory}"))
        .replace("cpu: \"46\"", &requested))
}

/// The example with CPUs of the server's own, two fewer than the machine has.
fn exclusive(example: &str, threads: u32) -> String {
    let (requested, own) =
        (format!("resources: {{requests: {{cpu: \"{}\"}}}}", threads - 2), "cpu: {exclusive: true}");
    example
        .replace(&requested, own)
        .replace(&format!("threads: {threads}"), &format!("threads: {}", threads - 2))
}

/// Applies the example in a namespace of its own, and sees where its pods go.
async fn placed(client: &Client, namespace: &str, example: &str, address: Ipv4Addr) -> Result<[String; 2]> {
    kubectl::must(&["create", "namespace", namespace], "").await?;
    kubectl::must(&["apply", "--namespace", namespace, "--filename", "-"], example).await?;
    let (pod, server) = bound(client, namespace, "dragstrip.dev/component=server").await?;
    let declared = Api::<Datastore>::namespaced(client.clone(), namespace).get("dragonfly").await?;
    let pods = Api::namespaced(client.clone(), namespace);
    let _observer = player::start(&pods, &pod, &declared, address).await?;
    let (_, clients) = bound(client, namespace, "dragstrip.dev/component=client").await?;
    // The namespace's end takes its time, and the next clients want these ones' node.
    kubectl::must(&["delete", "benchmarkrun", "--all", "--namespace", namespace], "").await?;
    kubectl::must(&["delete", "namespace", namespace, "--wait=false"], "").await?;
    Ok([server, clients])
}

#[tokio::test]
async fn servers_and_clients_of_the_flagship_fit_the_machines_they_were_published_on() -> Result<()> {
    let client = Client::try_default().await?;
    let (_operator, log) = operator_before_its_crds().await?;
    for (reserved, nodes) in [(Reserved::Usual, "usual"), (Reserved::OneCpu, "one-cpu")] {
        make_nodes(&client, reserved).await?;
        for (number, (server, threads, memory, clients)) in (1..).zip(PAIRS) {
            let shipped = example(server, threads, memory, clients)?;
            // With one CPU reserved, as deploy/eks has it, servers get CPUs of their own in turn.
            let own = nodes == "one-cpu" && number % 2 == 0;
            let example = if own { exclusive(&shipped, threads) } else { shipped };
            ensure!(
                example.contains("exclusive: true") == own,
                "the example is written otherwise: {example}"
            );
            let namespace = format!("{nodes}-{number}");
            let address = Ipv4Addr::new(127, 2, u8::from(nodes == "usual"), number);
            let found = placed(&client, &namespace, &example, address)
                .await
                .with_context(|| format!("{server} and {clients}, {reserved:?} reservation"))
                .with_context(|| std::fs::read_to_string(log.path()).unwrap_or_default())?;
            ensure!(found == [server, clients], "wanted {server} and {clients}, found {found:?}");
        }
    }
    Ok(())
}

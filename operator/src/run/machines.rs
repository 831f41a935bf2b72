//! The nodes that a repetition's clients and servers ran on. Pure.

use super::validate::ValidatedRun;
use crate::{cluster::nodes, labels};
use dragstrip_results::result::{NodeRecord, PodResult};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use std::{collections::BTreeMap, sync::Arc};

/// Whether `pod` is a server of the Datastore that `run` loads.
fn serves(pod: &Pod, run: &ValidatedRun) -> bool {
    let target = &run.spec.target;
    let referred = target.datastore_ref.as_ref().map(|reference| &reference.name);
    let name = referred.or_else(|| target.datastore.as_ref().map(|_| &run.holder.name));
    let label = |key| pod.labels().get(key).map(String::as_str);
    name.is_some()
        && label(labels::COMPONENT) == Some(labels::SERVER)
        && label(labels::DATASTORE) == name.map(String::as_str)
        && pod.namespace().as_ref() == Some(&run.holder.namespace)
}

/// The nodes of `clients` and of the servers of `run` among all `pods`.
pub fn records(
    run: &ValidatedRun,
    clients: &[PodResult],
    all: &[Arc<Node>],
    pods: &[Arc<Pod>],
) -> Vec<NodeRecord> {
    let mut records: BTreeMap<String, NodeRecord> = BTreeMap::new();
    let servers = pods.iter().filter(|pod| serves(pod, run));
    let servers = servers.filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    for (name, serves) in servers
        .map(|node| (node, true))
        .chain(clients.iter().filter_map(|pod| Some((pod.node.clone()?, false))))
    {
        let node = all.iter().find(|node| node.name_any() == name);
        let record = records.entry(name.clone()).or_insert_with(|| record(name, node.map(Arc::as_ref)));
        record.serves |= serves;
        record.loads |= !serves;
    }
    records.into_values().collect()
}

fn record(name: String, node: Option<&Node>) -> NodeRecord {
    let facts = node.map(nodes::facts);
    let system = node.and_then(|node| node.status.as_ref()?.node_info.as_ref());
    NodeRecord {
        zone: facts.as_ref().and_then(|facts| facts.zone.clone()),
        placement_group: facts.as_ref().and_then(|facts| facts.placement_group.clone()),
        instance_type: facts.and_then(|facts| facts.instance_type),
        boot_id: system.map(|system| system.boot_id.clone()).filter(|id| !id.is_empty()),
        name,
        ..NodeRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        fixtures::{pod_result, run},
        validate::validate,
    };
    use serde_json::{Value, json};

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn server(datastore: &str, namespace: &str, node: &str) -> Arc<Pod> {
        object(json!({
            "metadata": {"name": format!("{datastore}-0"), "namespace": namespace, "labels": {
                (labels::COMPONENT): labels::SERVER, (labels::DATASTORE): datastore
            }},
            "spec": {"nodeName": node, "containers": []}
        }))
    }

    #[test]
    fn the_nodes_of_clients_and_of_the_runs_own_servers_are_recorded() {
        let run = validate(&run(&["read"], 1)).unwrap();
        let mut client = pod_result("p", 1, 1.0, 1);
        client.node = Some("client-a".into());
        let node = |name: &str, zone: &str| {
            object(json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"nodeInfo": {
                    "architecture": "", "bootID": format!("boot-{name}"), "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                    "operatingSystem": "", "osImage": "", "systemUUID": ""
                }}
            }))
        };
        let nodes = [node("client-a", "z1"), node("server-a", "z2"), node("server-b", "z2")];
        let pods = [
            server("redis", "races", "server-a"),
            server("redis", "others", "server-b"),
            server("other", "races", "server-b"),
        ];
        let found = records(&run, &[client], &nodes, &pods);
        let told: Vec<_> = found.iter().map(|node| (node.name.as_str(), node.serves, node.loads)).collect();
        assert_eq!(told, [("client-a", false, true), ("server-a", true, false)]);
        assert_eq!(found[1].zone.as_deref(), Some("z2"));
        assert_eq!(found[1].boot_id.as_deref(), Some("boot-server-a"));
    }
}

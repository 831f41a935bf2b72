//! The nodes that a repetition's clients and servers ran on. Pure.

use super::{decide::DatastoreKey, target, validate::ValidatedRun};
use crate::cluster::nodes;
use dragstrip_results::result::{NodeRecord, PodResult};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use std::{collections::BTreeMap, sync::Arc};

/// The nodes of `clients` and of the servers of `run` among all `pods`.
pub fn records(
    run: &ValidatedRun,
    clients: &[PodResult],
    all: &[Arc<Node>],
    pods: &[Arc<Pod>],
) -> Vec<NodeRecord> {
    let mut records: BTreeMap<String, NodeRecord> = BTreeMap::new();
    let key = run
        .datastore_name()
        .map(|name| DatastoreKey { namespace: run.holder.namespace.clone(), name: name.to_owned() });
    let servers =
        key.iter().flat_map(|key| target::servers(pods, key)).filter_map(|pod| target::node_of(pod));
    let clients = clients.iter().filter_map(|pod| pod.node.clone());
    for (name, serves) in servers.map(|node| (node, true)).chain(clients.map(|node| (node, false))) {
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
    use crate::labels;
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

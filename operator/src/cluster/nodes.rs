//! Facts about nodes: pure readings of Node objects, and the one call that lists them.

use crate::labels;
use dragstrip_crds::datastore::{NodeFacts, Placement};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt, api::ListParams};

/// All nodes of the cluster.
pub async fn list(client: &Client) -> kube::Result<Vec<Node>> {
    Ok(Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items)
}

/// CPU capacity in whole CPUs; `None` when the node does not tell.
pub fn cpus(node: &Node) -> Option<i32> {
    let capacity = node.status.as_ref()?.capacity.as_ref()?.get("cpu")?;
    match capacity.0.strip_suffix('m') {
        Some(milli) => milli.parse::<i32>().ok().map(|m| m / 1000),
        None => capacity.0.parse().ok(),
    }
}

/// What a Datastore's status says of `node`.
pub fn facts(node: &Node) -> NodeFacts {
    let label = |key: &str| node.labels().get(key).cloned();
    NodeFacts {
        name: node.name_any(),
        instance_type: label("node.kubernetes.io/instance-type"),
        zone: label("topology.kubernetes.io/zone"),
        placement_group: labels::PLACEMENT_GROUPS.iter().find_map(|key| label(key)),
        cpus: cpus(node),
        kernel: node.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|i| i.kernel_version.clone()),
        cpu_model: None,
    }
}

/// Whether `node` has all labels that `placement` asks for.
pub fn selected(node: &Node, placement: &Placement) -> bool {
    placement.node_selector.iter().all(|(key, value)| node.labels().get(key) == Some(value))
}

/// `key=value, key=value`, for messages.
pub fn describe(placement: &Placement) -> String {
    let pairs: Vec<String> =
        placement.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "any node".to_owned() } else { pairs.join(", ") }
}

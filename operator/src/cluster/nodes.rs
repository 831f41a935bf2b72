//! Facts about nodes: pure readings of Node objects, and the one call that lists them.

use crate::labels;
use dragstrip_crds::{
    datastore::{NodeFacts, Placement},
    pod::PodSettings,
};
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm};
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

/// Whether a label (or field) with this value is what `requirement` asks for, as the scheduler sees it.
fn fulfilled(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.contains(value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn meant(node: &Node, term: &NodeSelectorTerm) -> bool {
    let labels = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    // A term without conditions means no node. The one field that there is is the name.
    labels.clone().chain(fields.clone()).next().is_some()
        && labels.into_iter().all(|label| fulfilled(label, node.labels().get(&label.key)))
        && fields.into_iter().all(|field| fulfilled(field, node.metadata.name.as_ref()))
}

/// Whether `node` is one that `settings` require by node affinity, or require nothing.
pub fn affine(node: &Node, settings: &PodSettings) -> bool {
    let affinity = settings.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|selector| selector.node_selector_terms.iter().any(|term| meant(node, term)))
}

/// `key=value, key=value`, for messages.
pub fn describe(placement: &Placement) -> String {
    let pairs: Vec<String> =
        placement.node_selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "any node".to_owned() } else { pairs.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn affine_to(terms: Value) -> bool {
        let node = json!({"metadata": {"name": "a", "labels": {"zone": "1a", "generation": "7"}}});
        let settings = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }}});
        affine(&serde_json::from_value(node).unwrap(), &serde_json::from_value(settings).unwrap())
    }

    fn label(key: &str, operator: &str, values: Value) -> Value {
        json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])
    }

    #[test]
    fn a_required_affinity_means_the_nodes_that_the_scheduler_takes_it_for() {
        for (key, operator, values) in [
            ("zone", "In", json!(["1a", "1b"])),
            ("zone", "NotIn", json!(["1b"])),
            ("rack", "NotIn", json!(["r"])),
            ("zone", "Exists", json!([])),
            ("rack", "DoesNotExist", json!([])),
            ("generation", "Gt", json!(["6"])),
            ("generation", "Lt", json!(["8"])),
        ] {
            assert!(affine_to(label(key, operator, values)), "{key} {operator}");
        }
        for (key, operator, values) in [
            ("zone", "In", json!(["1b"])),
            ("zone", "NotIn", json!(["1a"])),
            ("rack", "In", json!(["r"])),
            ("rack", "Exists", json!([])),
            ("zone", "DoesNotExist", json!([])),
            ("generation", "Gt", json!(["7"])),
            ("zone", "Lt", json!(["8"])),
        ] {
            assert!(!affine_to(label(key, operator, values)), "{key} {operator}");
        }
        assert!(!affine_to(json!([{}])), "a term of nothing means no node");
        assert!(affine_to(
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}])
        ));
        assert!(affine(&Node::default(), &PodSettings::default()), "nothing is required");
    }
}

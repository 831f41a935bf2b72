//! Why no node takes a Datastore's pod, and what would help. Pure.

use dragstrip_core::{
    datastore::{
        resources,
        room::{Room, largest, open, taints},
        validate::ValidatedDatastore,
    },
    nodes::{describe, selected, unmet, wants},
};
use dragstrip_crds::DatastoreSpec;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt;
use std::{borrow::Borrow, collections::BTreeSet};

/// The changes that would make a pod fit one of the `open` nodes.
fn remedies(spec: &DatastoreSpec, open: &[&Node]) -> String {
    let rooms: Vec<Room> = open.iter().map(|node| Room::of_node(node)).collect();
    let most_cpus = largest(&rooms);
    let fits = |other: &DatastoreSpec| {
        let needed = Room::sum([resources::of_pod(other, most_cpus), resources::DAEMONS]);
        rooms.iter().any(|room| room.holds(needed))
    };
    let mut remedies = vec!["select a larger node".to_owned()];
    if spec.resources.is_some() {
        remedies.insert(0, "lower spec.resources.requests".to_owned());
    } else if spec.max_memory.is_some()
        && !rooms.iter().any(|room| room.memory >= resources::of_pod(spec, most_cpus).memory)
    {
        remedies.insert(0, "lower spec.maxMemory".to_owned());
    }
    let fewer = |threads: i32| fits(&DatastoreSpec { threads, ..spec.clone() });
    if let Some(threads) = (1..spec.threads).rev().find(|threads| fewer(*threads)) {
        remedies.insert(0, format!("use at most {threads} threads"));
    }
    remedies.join(", or ")
}

/// Why none of `nodes`, which match the pod's affinity, takes `pod`, and what would help.
pub fn explain<N: Borrow<Node>>(
    datastore: &ValidatedDatastore,
    pod: &Pod,
    nodes: &[N],
    scheduler: &str,
) -> String {
    let (name, spec) = (pod.name_any(), &datastore.spec);
    let placement = describe(&spec.placement);
    let labelled: Vec<&Node> =
        nodes.iter().map(Borrow::borrow).filter(|node| selected(node, &spec.placement)).collect();
    if nodes.is_empty() {
        return format!(
            "pod {name} waits for a node: the cluster has none yet, or none that matches spec.pod.affinity"
        );
    }
    if labelled.is_empty() {
        let lacking = unmet(&wants(&spec.placement), &nodes.iter().map(Borrow::borrow));
        return format!(
            "pod {name} waits for a node: {lacking}: label a node, correct the placement, or wait if an autoscaler adds nodes"
        );
    }
    let open = open(nodes, &spec.placement);
    let needed = Room::of_pod(pod);
    if open.is_empty() {
        let taint = |taint: &Taint| {
            format!("{}={}:{}", taint.key, taint.value.clone().unwrap_or_default(), taint.effect)
        };
        let taints: BTreeSet<String> =
            labelled.iter().flat_map(|node| taints(node, &spec.placement)).map(taint).collect();
        let taints = Vec::from_iter(taints).join(", ");
        return format!(
            "pod {name} waits for a node: every node that spec.placement selects ({placement}) has a taint that keeps servers away ({taints}): add it to spec.placement.tolerations"
        );
    }
    if let Some(other) = spec.placement.same_node_as.as_ref().filter(|_| scheduler.contains("affinity")) {
        return format!(
            "pod {name} waits for the node of Datastore {other}, which spec.placement.sameNodeAs names: it has no server yet, or its node has no room: {scheduler}"
        );
    }
    let large: Vec<String> =
        open.iter().filter(|node| Room::of_node(node).holds(needed)).map(|node| node.name_any()).collect();
    if !large.is_empty() {
        let large = large.join(", ");
        return format!(
            "pod {name} requests {needed}, and waits for room on {large}, which other pods and daemons have taken: {scheduler}"
        );
    }
    // The node that lacks the smallest share of what the pod needs.
    let shortage = |node: &&&Node| {
        let room = Room::of_node(node);
        (needed.cpus / room.cpus).max(needed.memory / room.memory)
    };
    let largest = open.iter().min_by(|a, b| shortage(a).total_cmp(&shortage(b)));
    let has =
        largest.map(|node| format!("{} has {}", node.name_any(), Room::of_node(node))).unwrap_or_default();
    let remedies = remedies(spec, &open);
    format!(
        "pod {name} requests {needed}, but no node that spec.placement selects ({placement}) is large enough: {has} for all pods, daemons included: {remedies}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::build::build;
    use dragstrip_core::datastore::{room::most_cpus, validate::validate};
    use dragstrip_crds::datastore::Placement;
    use serde_json::{Value, json};

    fn node(name: &str, cpus: &str, more: Value) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"pool": "fast"}},
            "status": {"allocatable": {"cpu": cpus, "memory": "14Gi"}},
        });
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(node).unwrap()
    }

    /// The explanation for a pod of `spec` if the cluster has `nodes`.
    fn explained(spec: Value, nodes: &[Node]) -> String {
        let datastore = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "spec": spec,
            "metadata": {"name": "racer", "namespace": "pits", "uid": "u", "generation": 1},
        }))
        .unwrap();
        let datastore = validate(&datastore, nodes).unwrap();
        let template = build(&datastore, "runner", None).stateful_set.spec.unwrap().template;
        let mut pod = Pod { spec: template.spec, ..Pod::default() };
        pod.metadata.name = Some("racer-0".to_owned());
        explain(&datastore, &pod, nodes, "0/1 nodes are available: 1 Insufficient cpu.")
    }

    #[test]
    fn a_selector_that_no_node_matches_yet_is_named() {
        let spec = json!({"engine": "Redis", "threads": 1, "placement": {"nodeSelector": {"pool": "none"}}});
        let reported = explained(spec, &[node("a", "7910m", json!({}))]);
        assert!(reported.contains("no node matches spec.placement.nodeSelector (pool=none)"), "{reported}");
        assert!(reported.contains("wait if an autoscaler adds nodes"), "{reported}");
    }

    #[test]
    fn a_zone_or_group_that_no_node_is_in_is_named_with_its_label() {
        let placed = |placement: Value| {
            explained(
                json!({"engine": "Redis", "threads": 1, "placement": placement}),
                &[node("a", "8", json!({}))],
            )
        };
        let reported = placed(json!({"zone": "eu-1a"}));
        assert!(
            reported.contains("spec.placement.zone (zone: topology.kubernetes.io/zone=eu-1a)"),
            "{reported}"
        );
        let reported = placed(json!({"placementGroup": "pg-1"}));
        let either = "karpenter.k8s.aws/placement-group-id=pg-1 or dragstrip.dev/placement-group=pg-1";
        assert!(
            reported.contains(&format!("spec.placement.placementGroup (placementGroup: {either})")),
            "{reported}"
        );
    }

    #[test]
    fn too_many_threads_for_any_node_are_reported_with_the_number_that_fits() {
        let nodes = [node("a", "3920m", json!({})), node("b", "7910m", json!({}))];
        let reported = explained(json!({"engine": "Redis", "threads": 12}), &nodes);
        assert!(reported.contains("pod racer-0 requests 11.05 CPUs and 1248 MiB"), "{reported}");
        assert!(
            reported.contains("b has 7.91 CPUs and 14336 MiB for all pods, daemons included"),
            "{reported}"
        );
        assert!(reported.contains("use at most 8 threads, or select a larger node"), "{reported}");
    }

    #[test]
    fn the_number_of_threads_that_is_advised_fits() {
        for cpus in ["940m", "1900m", "3920m", "7910m", "47810m"] {
            let nodes = [node("a", cpus, json!({}))];
            let reported = explained(json!({"engine": "Redis", "threads": 1000}), &nodes);
            let advised = reported.split("use at most ").nth(1).unwrap().split(' ').next().unwrap();
            let spec = serde_json::from_value(json!({
                "engine": "Redis", "threads": advised.parse::<i32>().unwrap()
            }))
            .unwrap();
            let most = most_cpus(&nodes, &Placement::default());
            let needed = Room::sum([resources::of_pod(&spec, most), resources::DAEMONS]);
            assert!(Room::of_node(&nodes[0]).holds(needed), "{advised} threads do not fit {cpus}");
        }
    }

    #[test]
    fn no_number_of_threads_is_advised_if_none_fits() {
        let reported = explained(
            json!({"engine": "Redis", "threads": 2, "maxMemory": "20Gi"}),
            &[node("a", "2", json!({}))],
        );
        assert!(!reported.contains("threads"), "{reported}");
        assert!(reported.ends_with("lower spec.maxMemory, or select a larger node"), "{reported}");
        let declared = json!({"engine": "Redis", "threads": 2, "resources": {"requests": {"cpu": "3"}}});
        let reported = explained(declared, &[node("a", "2", json!({}))]);
        assert!(reported.ends_with("lower spec.resources.requests, or select a larger node"), "{reported}");
    }

    #[test]
    fn a_taint_that_keeps_servers_away_is_named() {
        let taints = json!({"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}});
        let spec = |tolerations: Value| json!({"engine": "Redis", "threads": 99, "placement": {"tolerations": tolerations}});
        let reported = explained(spec(json!([])), &[node("a", "8", taints.clone())]);
        assert!(reported.contains("(team=a:NoSchedule): add it to spec.placement.tolerations"), "{reported}");
        let reported =
            explained(spec(json!([{"key": "team", "operator": "Exists"}])), &[node("a", "8", taints)]);
        assert!(reported.contains("a has 8 CPUs"), "{reported}");
    }

    #[test]
    fn a_full_node_is_reported_in_the_schedulers_words() {
        let reported = explained(json!({"engine": "Redis", "threads": 1}), &[node("a", "8", json!({}))]);
        assert!(
            reported.contains("waits for room on a, which other pods and daemons have taken: 0/1 nodes"),
            "{reported}"
        );
    }
}

//! Which nodes have room for a Datastore's pod, and what to say when none has. Pure.

use super::{resources, shape::Shape, validate::ValidatedDatastore};
use crate::{
    cluster::nodes::{describe, selected, tolerated, unmet, wants},
    datastore::tolerations,
    labels,
};
use dragstrip_crds::{
    DatastoreSpec,
    datastore::{Placement, ShardPlacement},
};
use k8s_openapi::{
    api::core::v1::{Container, Node, Pod, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// CPUs, and memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    /// CPUs.
    pub cpus: f64,
    /// Memory in bytes.
    pub memory: f64,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = format!("{:.2}", self.cpus);
        let cpus = cpus.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{cpus} CPUs and {:.0} MiB", self.memory / f64::from(1 << 20))
    }
}

impl Room {
    /// A quantity as Kubernetes writes it (250m, 2, 1.5Gi, 1e3) as a number.
    pub fn number(quantity: &Quantity) -> Option<f64> {
        let text = &quantity.0;
        if let Ok(plain) = text.parse() {
            return Some(plain);
        }
        let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
        let factor = match unit {
            "n" => 1e-9,
            "u" => 1e-6,
            "m" => 1e-3,
            _ => {
                let letter = unit.trim_end_matches('i');
                let power = ["", "k", "M", "G", "T", "P", "E"]
                    .iter()
                    .position(|it| it.eq_ignore_ascii_case(letter))?;
                let base: f64 = if unit.ends_with('i') { 1024.0 } else { 1000.0 };
                base.powi(i32::try_from(power).ok()?)
            }
        };
        Some(number.parse::<f64>().ok()? * factor)
    }

    /// The CPUs and memory among `amounts`.
    pub fn of(amounts: Option<&BTreeMap<String, Quantity>>) -> Self {
        let amount = |kind| amounts.and_then(|amounts| Self::number(amounts.get(kind)?)).unwrap_or(0.0);
        Self { cpus: amount("cpu"), memory: amount("memory") }
    }

    /// All of `parts` together.
    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |sum, part| Self {
            cpus: sum.cpus + part.cpus,
            memory: sum.memory + part.memory,
        })
    }

    /// What `node` has for pods, daemons included.
    pub fn of_node(node: &Node) -> Self {
        Self::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
    }

    /// What `pod` requests: its containers and those beside them all its life.
    fn of_pod(pod: &Pod) -> Self {
        let requests = |container: &Container| {
            Self::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
        };
        let spec = pod.spec.as_ref();
        let beside = spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .filter(|container| container.restart_policy.is_some());
        Self::sum(spec.iter().flat_map(|spec| &spec.containers).chain(beside).map(requests))
    }

    /// Whether `other` is no more than this. Sums of decimal fractions are not exact.
    pub fn holds(self, other: Self) -> bool {
        other.cpus <= self.cpus + 1e-6 && other.memory <= self.memory
    }
}

/// The taints of `node` that keep a server away. Those that Kubernetes itself sets
/// come and go with the node's state, and say nothing of what it is for.
fn taints<'a>(node: &'a Node, placement: &Placement) -> Vec<&'a Taint> {
    let tolerations = tolerations(labels::SERVER, placement);
    let all = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    all.filter(|taint| !taint.key.starts_with("node.kubernetes.io/") && !tolerated(taint, &tolerations))
        .collect()
}

/// The nodes that `placement` selects and a server may be on.
fn open<'a, N: Borrow<Node>>(nodes: &'a [N], placement: &Placement) -> Vec<&'a Node> {
    let nodes = nodes.iter().map(Borrow::borrow);
    nodes.filter(|node| selected(node, placement) && taints(node, placement).is_empty()).collect()
}

/// Most CPUs that any node has for pods on which `placement` allows a server;
/// `None` when there is no such node.
pub fn most_cpus<N: Borrow<Node>>(nodes: &[N], placement: &Placement) -> Option<f64> {
    largest(&open(nodes, placement).into_iter().map(Room::of_node).collect::<Vec<_>>())
}

fn largest(rooms: &[Room]) -> Option<f64> {
    rooms.iter().map(|room| room.cpus).max_by(f64::total_cmp)
}

/// What may be changed so that a pod fits one of `open`: only what is true.
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
    if let Some(cluster) =
        spec.cluster.as_ref().filter(|_| matches!(Shape::of(spec), Shape::ShardsInOnePod(_)))
    {
        let mut spread = spec.clone();
        spread.cluster = Some(dragstrip_crds::datastore::ClusterSpec {
            placement: ShardPlacement::Spread,
            ..cluster.clone()
        });
        if fits(&spread) {
            remedies.push("declare another Datastore with cluster.placement Spread".to_owned());
        }
    }
    remedies.join(", or ")
}

/// Why no node takes `pod`, and what would help.
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
        return format!("pod {name} waits for a node: the cluster has none yet");
    }
    if labelled.is_empty() {
        let lacking = unmet(&wants(&spec.placement), &nodes.iter().map(Borrow::borrow));
        return format!(
            "pod {name} waits for a node: {lacking}: label a node, correct the placement, or wait where an autoscaler brings one"
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
    // Of the largest nodes the one that has most of what lacks most.
    let short = |node: &&&Node| {
        let room = Room::of_node(node);
        (needed.cpus / room.cpus).max(needed.memory / room.memory)
    };
    let largest = open.iter().min_by(|a, b| short(a).total_cmp(&short(b)));
    let has =
        largest.map(|node| format!("{} has {}", node.name_any(), Room::of_node(node))).unwrap_or_default();
    let remedies = remedies(spec, &open);
    format!(
        "pod {name} requests {needed}, but no node that spec.placement selects ({placement}) is so large: {has} for all pods, daemons included: {remedies}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::{build::build, validate::validate};
    use serde_json::{Value, json};

    fn node(name: &str, cpus: &str, more: Value) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"pool": "fast"}},
            "status": {"allocatable": {"cpu": cpus, "memory": "14Gi"}},
        });
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(node).unwrap()
    }

    /// What is said of a pod of `spec` as it would be made beside `nodes`.
    fn explained(spec: Value, nodes: &[Node]) -> String {
        let datastore = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "spec": spec,
            "metadata": {"name": "racer", "namespace": "pits", "uid": "u", "generation": 1},
        }))
        .unwrap();
        let datastore = validate(&datastore, nodes).unwrap();
        let template = build(&datastore, "runner").stateful_set.spec.unwrap().template;
        let mut pod = Pod { spec: template.spec, ..Pod::default() };
        pod.metadata.name = Some("racer-0".to_owned());
        explain(&datastore, &pod, nodes, "0/1 nodes are available: 1 Insufficient cpu.")
    }

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, number) in [
            ("2", 2.0),
            ("250m", 0.25),
            ("1.5Gi", 1_610_612_736.0),
            ("3k", 3000.0),
            ("2M", 2e6),
            ("1e3", 1e3),
        ] {
            assert_eq!(Room::number(&Quantity(text.to_owned())), Some(number), "{text}");
        }
        assert_eq!(Room::number(&Quantity("1 elephant".to_owned())), None);
    }

    #[test]
    fn a_selector_that_no_node_has_yet_is_named() {
        let spec = json!({"engine": "Redis", "threads": 1, "placement": {"nodeSelector": {"pool": "none"}}});
        let told = explained(spec, &[node("a", "7910m", json!({}))]);
        assert!(told.contains("no node matches spec.placement.nodeSelector (pool=none)"), "{told}");
        assert!(told.contains("wait where an autoscaler brings one"), "{told}");
    }

    #[test]
    fn a_zone_or_group_that_no_node_is_in_is_named_with_its_label() {
        let placed = |placement: Value| {
            explained(
                json!({"engine": "Redis", "threads": 1, "placement": placement}),
                &[node("a", "8", json!({}))],
            )
        };
        let told = placed(json!({"zone": "eu-1a"}));
        assert!(told.contains("spec.placement.zone (zone: topology.kubernetes.io/zone=eu-1a)"), "{told}");
        let told = placed(json!({"placementGroup": "pg-1"}));
        let either = "karpenter.k8s.aws/placement-group-id=pg-1 or dragstrip.dev/placement-group=pg-1";
        assert!(
            told.contains(&format!("spec.placement.placementGroup (placementGroup: {either})")),
            "{told}"
        );
    }

    #[test]
    fn more_threads_than_any_node_has_room_for_are_told_with_what_fits() {
        let nodes = [node("a", "3920m", json!({})), node("b", "7910m", json!({}))];
        let told = explained(json!({"engine": "Redis", "threads": 12}), &nodes);
        assert!(told.contains("pod racer-0 requests 11.05 CPUs and 1248 MiB"), "{told}");
        assert!(told.contains("b has 7.91 CPUs and 14336 MiB for all pods, daemons included"), "{told}");
        assert!(told.contains("use at most 8 threads, or select a larger node"), "{told}");
    }

    #[test]
    fn the_number_of_threads_that_is_advised_fits() {
        for cpus in ["940m", "1900m", "3920m", "7910m", "47810m"] {
            let nodes = [node("a", cpus, json!({}))];
            let told = explained(json!({"engine": "Redis", "threads": 1000}), &nodes);
            let advised = told.split("use at most ").nth(1).unwrap().split(' ').next().unwrap();
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
    fn no_number_of_threads_is_advised_where_none_fits() {
        let told = explained(
            json!({"engine": "Redis", "threads": 2, "maxMemory": "20Gi"}),
            &[node("a", "2", json!({}))],
        );
        assert!(!told.contains("threads"), "{told}");
        assert!(told.ends_with("lower spec.maxMemory, or select a larger node"), "{told}");
        let declared = json!({"engine": "Redis", "threads": 2, "resources": {"requests": {"cpu": "3"}}});
        let told = explained(declared, &[node("a", "2", json!({}))]);
        assert!(told.ends_with("lower spec.resources.requests, or select a larger node"), "{told}");
    }

    #[test]
    fn a_cluster_too_large_for_a_node_may_be_spread_where_a_shard_fits() {
        let spec = json!({"engine": "Redis", "threads": 2, "maxMemory": "1Gi", "cluster": {"shards": 8}});
        let told = explained(spec, &[node("a", "7910m", json!({}))]);
        assert!(told.contains("declare another Datastore with cluster.placement Spread"), "{told}");
    }

    #[test]
    fn a_taint_that_keeps_servers_away_is_named() {
        let taints = json!({"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}});
        let spec = |tolerations: Value| json!({"engine": "Redis", "threads": 99, "placement": {"tolerations": tolerations}});
        let told = explained(spec(json!([])), &[node("a", "8", taints.clone())]);
        assert!(told.contains("(team=a:NoSchedule): add it to spec.placement.tolerations"), "{told}");
        let told = explained(spec(json!([{"key": "team", "operator": "Exists"}])), &[node("a", "8", taints)]);
        assert!(told.contains("a has 8 CPUs"), "{told}");
    }

    #[test]
    fn a_node_that_is_taken_for_the_moment_is_told_in_the_schedulers_words() {
        let told = explained(json!({"engine": "Redis", "threads": 1}), &[node("a", "8", json!({}))]);
        assert!(
            told.contains("waits for room on a, which other pods and daemons have taken: 0/1 nodes"),
            "{told}"
        );
    }
}

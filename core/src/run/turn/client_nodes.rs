//! The nodes that a run's clients may use: without servers of ours and other runs. Pure.

use crate::{
    datastore::{resources::of_client, room::Room},
    labels,
    nodes::{self, Want, client_tolerations, tolerated},
    pods,
    run::validate::{ValidatedRun, client_needs},
};
use dragstrip_crds::run::{ClientSpread, RunReference};
use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod};
use kube::ResourceExt;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Whether a pod may only go to nodes by name: those that its run holds.
fn bound_by_name(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|pod| pod.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_some_and(|nodes| nodes.node_selector_terms.iter().any(|term| term.match_fields.is_some()))
}

/// The current users of nodes.
#[derive(Debug, Default)]
pub struct Uses {
    /// Nodes with a server of ours.
    pub servers: BTreeSet<String>,
    /// Nodes with a client pod, and its run.
    pub clients: BTreeMap<String, RunReference>,
    /// Client pods that wait for any node, and their runs.
    pub waiting: Vec<(Arc<Pod>, RunReference)>,
}

impl Uses {
    /// The users of nodes that `pods` show, except clients of the run with this uid.
    pub fn of(pods: &[Arc<Pod>], except_uid: &str) -> Self {
        let mut uses = Self::default();
        for pod in pods.iter().filter(|pod| !pods::ended(pod)) {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let label = |key| pod.labels().get(key).map(String::as_str);
            let run = || {
                let name = label(labels::RUN).unwrap_or("?").to_owned();
                RunReference { namespace: pod.namespace().unwrap_or_default(), name }
            };
            match (label(labels::COMPONENT) == Some(labels::SERVER), node) {
                (true, Some(node)) => {
                    uses.servers.insert(node);
                }
                (false, Some(node)) if label(labels::RUN_UID) != Some(except_uid) => {
                    uses.clients.insert(node, run());
                }
                (false, None) if label(labels::RUN_UID) != Some(except_uid) && !bound_by_name(pod) => {
                    uses.waiting.push((Arc::clone(pod), run()));
                }
                _ => {}
            }
        }
        uses
    }

    /// The run for whose waiting clients `node` was created: it is younger than they are, and they
    /// request its kind. Their run holds no Lease for it, since it did not exist, and the scheduler
    /// would bind them to it between two phases of another run.
    pub fn awaited_by(&self, node: &Node) -> Option<&RunReference> {
        let made_for = |pod: &Pod| {
            let (made, waits) = (&node.metadata.creation_timestamp, &pod.metadata.creation_timestamp);
            made.as_ref().zip(waits.as_ref()).is_some_and(|(made, waits)| made.0 > waits.0)
                && pod.spec.as_ref().is_some_and(|pod| nodes::eligible(node, pod))
        };
        self.waiting.iter().find(|(pod, _)| made_for(pod)).map(|(_, run)| run)
    }
}

/// The smallest number of nodes that the clients need, and the largest that they use.
pub fn wanted(run: &ValidatedRun) -> (usize, usize) {
    let pods = usize::try_from(run.most_pods()).unwrap_or(usize::MAX);
    match run.spec.clients.spread {
        ClientSpread::OnePerNode => (pods, pods),
        // Their runners listen on the same port of the node.
        _ if run.spec.clients.pod.host_network => (pods, pods),
        _ => (1, pods),
    }
}

/// The nodes of the target's servers, and what the clients' nodes must have in common with them.
#[derive(Debug, Default)]
pub struct Servers<'a> {
    pub nodes: Vec<&'a Node>,
    /// The request of `clients.colocate`.
    pub beside: Option<Want>,
}

impl Servers<'_> {
    fn has(&self, node: &Node) -> bool {
        self.nodes.iter().any(|own| own.name_any() == node.name_any())
    }

    /// Whether `node` is in the zone and placement group of a server, by its labels.
    fn near(&self, node: &Node) -> bool {
        let place = |node: &Node| {
            let keys = labels::PLACEMENT_GROUPS.into_iter().chain([labels::ZONE]);
            keys.map(|key| node.labels().get(key).cloned()).collect::<Vec<_>>()
        };
        self.nodes.iter().any(|own| place(own) == place(node))
    }
}

/// Whether a single client declares more resources than `node` has.
fn too_small(run: &ValidatedRun, node: &Node) -> bool {
    let clients = &run.spec.clients;
    let reported = node.status.as_ref().is_some_and(|status| status.allocatable.is_some());
    let needed = of_client(clients, client_needs(&run.spec, true)).requests;
    reported && !Room::of_node(node).holds(Room::of(needed.as_ref()))
}

/// Why no client can go to `node`, whatever runs there; `None` if one can.
fn unfit(run: &ValidatedRun, node: &Node, servers: &Servers<'_>) -> Option<&'static str> {
    let placement = &run.spec.clients.placement;
    let tolerations = client_tolerations(&run.spec.clients);
    let spec = node.spec.as_ref();
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let ready = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !nodes::selected(node, placement) || !nodes::affine(node, &run.spec.clients.pod) {
        Some("not selected")
    } else if placement.same_node_as.is_some() && !servers.has(node) {
        Some("not the server's node")
    } else if servers.beside.as_ref().is_some_and(|want| !want.met(node)) {
        Some("not beside the server")
    } else if too_small(run, node) {
        Some("too small")
    } else if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
        Some("cordoned")
    } else if !ready.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        Some("not ready")
    } else if taints.iter().any(|taint| !tolerated(taint, &tolerations)) {
        Some("tainted")
    } else {
        None
    }
}

/// The nodes that clients of `run` can go to, sorted by preference: labelled for clients, in the
/// zone and group of the server, with more CPUs, and by name. Only a run that declares it shares the
/// nodes of the target.
pub fn candidates(
    run: &ValidatedRun,
    nodes: &[Arc<Node>],
    uses: &Uses,
    servers: &Servers<'_>,
) -> Vec<String> {
    let shares = |node: &Node| run.spec.clients.share_node() && servers.has(node);
    let mut fit: Vec<&Arc<Node>> = nodes
        .iter()
        .filter(|node| unfit(run, node, servers).is_none())
        .filter(|node| !uses.servers.contains(&node.name_any()) || shares(node))
        .collect();
    fit.sort_by_key(|node| {
        let role = node.labels().get(labels::NODE_ROLE).map(String::as_str);
        let labelled = match role {
            Some(labels::CLIENT) => 0,
            None => 1,
            Some(_) => 2,
        };
        // A node of their own is better than the server's.
        (shares(node), labelled, !servers.near(node), Reverse(nodes::cpus(node)), node.name_any())
    });
    fit.into_iter().map(|node| node.name_any()).collect()
}

/// Programs that run a cluster on one machine, which no autoscaler extends, name a provider too.
const OF_ONE_MACHINE: [&str; 3] = ["kind", "k3s", "minikube"];

/// Whether an autoscaler may add nodes to `nodes`: every autoscaler needs a provider of machines, whose
/// controller writes its name into each node.
pub fn may_grow(nodes: &[Arc<Node>]) -> bool {
    let provider = |node: &Arc<Node>| {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        id.split_once("://").is_some_and(|(provider, _)| !OF_ONE_MACHINE.contains(&provider))
    };
    nodes.is_empty() || nodes.iter().any(provider)
}

/// All label requirements on the clients' nodes.
fn wanted_of(run: &ValidatedRun, servers: &Servers<'_>) -> Vec<Want> {
    nodes::wants(&run.spec.clients.placement).into_iter().chain(servers.beside.clone()).collect()
}

/// What a node must have that does not exist yet, beside the pods' own `nodeSelector`.
pub fn terms(run: &ValidatedRun, servers: &Servers<'_>) -> Vec<NodeSelectorTerm> {
    let named = wanted_of(run, servers).into_iter().filter(|want| want.field != "nodeSelector");
    nodes::terms(&named.collect::<Vec<_>>())
}

/// Why there are too few [`candidates`], with the remedy.
pub fn none_fits(run: &ValidatedRun, nodes: &[Arc<Node>], uses: &Uses, servers: &Servers<'_>) -> String {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let reason = unfit(run, node, servers)
            .or(uses.servers.contains(&node.name_any()).then_some("has a Datastore's server"));
        reasons.entry(reason.unwrap_or("fits")).or_default().push(node.name_any());
    }
    let reported: Vec<String> = reasons
        .into_iter()
        .map(|(reason, mut names)| {
            names.sort_unstable();
            let more = names.len().saturating_sub(5);
            names.truncate(5);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{reason}: {}{more}", names.join(", "))
        })
        .collect();
    let (least, _) = wanted(run);
    let needed = if least == 1 {
        "no node for clients".to_owned()
    } else {
        format!("no node for clients: {least} are needed")
    };
    format!(
        "{needed} that spec.clients.placement ({}) selects and that has no server ({}); add or label a node, correct the placement, or set spec.clients.shareServerNode",
        nodes::reported(&wanted_of(run, servers)),
        if reported.is_empty() { "the cluster has no nodes".to_owned() } else { reported.join("; ") },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::run::validate::validate;
    use dragstrip_crds::{BenchmarkRun, run::Colocate};
    use serde_json::json;

    fn node(name: &str, more: serde_json::Value) -> Arc<Node> {
        let mut node = json!({
            "metadata": {"name": name, "labels": {}}, "spec": {},
            "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
        });
        for (key, value) in more.as_object().unwrap() {
            node.pointer_mut(key).unwrap().clone_from(value);
        }
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn pod(node: &str, component: &str, uid: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "races", "labels": {
                    labels::COMPONENT: component, labels::RUN_UID: uid, labels::RUN: "other"
                }},
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}
            }))
            .unwrap(),
        )
    }

    fn found(share: bool, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Vec<String> {
        let mut run = fixtures::run(&["read"], 1);
        run.spec.clients.share_server_node = share;
        placed(&run, nodes, pods, None)
    }

    /// The nodes for clients of `run`, whose server is on server-1.
    fn placed(
        run: &BenchmarkRun,
        nodes: &[Arc<Node>],
        pods: &[Arc<Pod>],
        beside: Option<Want>,
    ) -> Vec<String> {
        let run = validate(run).unwrap();
        let own = nodes.iter().map(Arc::as_ref).filter(|node| node.name_any() == "server-1");
        let servers = Servers { nodes: own.collect(), beside };
        candidates(&run, nodes, &Uses::of(pods, &run.holder.uid), &servers)
    }

    fn in_zone(name: &str, zone: &str, cpus: &str) -> Arc<Node> {
        node(name, json!({"/metadata/labels": {labels::ZONE: zone}, "/status/capacity": {"cpu": cpus}}))
    }

    #[test]
    fn nodes_of_the_servers_zone_come_before_larger_ones_of_others_and_colocate_leaves_no_others() {
        let nodes = [in_zone("far", "z2", "64"), in_zone("near", "z1", "4"), in_zone("server-1", "z1", "4")];
        let server = [pod("server-1", "server", "")];
        let mut run = fixtures::run(&["read"], 1);
        assert_eq!(placed(&run, &nodes, &server, None), ["near", "far"]);
        run.spec.clients.colocate = Some(Colocate::Zone);
        let beside = || nodes::beside(run.spec.clients.colocate, &[&nodes[2]]).unwrap();
        assert_eq!(placed(&run, &nodes, &server, beside()), ["near"]);
        let servers = Servers { nodes: vec![&nodes[2]], beside: beside() };
        let uses = Uses::of(&server, "run-uid");
        let reported = none_fits(&validate(&run).unwrap(), &nodes[..1], &uses, &servers);
        for words in ["colocate: topology.kubernetes.io/zone=z1", "not beside the server: far"] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
        let term = terms(&validate(&run).unwrap(), &servers);
        assert_eq!(term.len(), 1, "a node that an autoscaler makes must be in the zone too: {term:?}");
    }

    #[test]
    fn clients_on_the_node_of_the_server_go_nowhere_else() {
        let nodes =
            [in_zone("server-1", "z1", "4"), in_zone("server-2", "z1", "4"), in_zone("free", "z1", "4")];
        let servers = [pod("server-1", "server", ""), pod("server-2", "server", "")];
        let mut run = fixtures::run(&["read"], 1);
        run.spec.clients.placement.same_node_as = Some("redis".into());
        assert_eq!(placed(&run, &nodes, &servers, None), ["server-1"]);
    }

    #[test]
    fn clients_keep_off_every_node_with_a_server_whoever_owns_it() {
        let nodes = [node("server-1", json!({})), node("server-2", json!({})), node("client", json!({}))];
        let servers = [pod("server-1", "server", ""), pod("server-2", "server", "")];
        assert_eq!(found(false, &nodes, &servers), ["client"]);
        assert_eq!(
            found(true, &nodes, &servers),
            ["client", "server-1"],
            "only the target's own node is shared, and last"
        );
    }

    #[test]
    fn labelled_and_larger_nodes_come_first() {
        let role = |role: &str| json!({"/metadata/labels": {labels::NODE_ROLE: role}});
        let nodes = [
            node("a-server", role("server")),
            node("b-plain", json!({})),
            node("c-client", role("client")),
            node(
                "d-large",
                json!({"/metadata/labels": {labels::NODE_ROLE: "client"}, "/status/capacity": {"cpu": "64"}}),
            ),
        ];
        assert_eq!(found(false, &nodes, &[]), ["d-large", "c-client", "b-plain", "a-server"]);
    }

    #[test]
    fn nodes_that_take_no_client_are_left_out_and_reported() {
        let taint = |value: &str| json!({"/spec": {"taints": [{"key": labels::NODE_ROLE, "value": value, "effect": "NoSchedule"}]}});
        let nodes = [
            node("for-servers", taint("server")),
            node("for-clients", taint("client")),
            node("cordoned", json!({"/spec": {"unschedulable": true}})),
            node("down", json!({"/status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})),
        ];
        assert_eq!(found(false, &nodes, &[]), ["for-clients"]);
        let run = validate(&fixtures::run(&["read"], 1)).unwrap();
        let reported = none_fits(&run, &nodes[..1], &Uses::default(), &Servers::default());
        assert!(
            reported.contains("no node for clients") && reported.contains("tainted: for-servers"),
            "{reported}"
        );
    }

    #[test]
    fn clients_that_share_the_node_of_the_server_tolerate_its_taint() {
        let taints = json!({"/spec": {"taints": [{"key": labels::NODE_ROLE, "value": "server", "effect": "NoSchedule"}]}});
        let (nodes, server) = ([node("server-1", taints)], [pod("server-1", "server", "")]);
        assert_eq!(found(true, &nodes, &server), ["server-1"]);
        let mut run = fixtures::run(&["read"], 1);
        run.spec.clients.placement.same_node_as = Some("redis".into());
        assert_eq!(placed(&run, &nodes, &server, None), ["server-1"]);
    }

    #[test]
    fn a_node_that_is_too_small_or_not_affine_is_not_a_candidate() {
        let with = |name: &str, cpu: &str| {
            node(
                name,
                json!({
                    "/metadata/labels": {"size": name},
                    "/status": {
                        "capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu, "memory": "8Gi"},
                        "conditions": [{"type": "Ready", "status": "True"}]
                    }
                }),
            )
        };
        let nodes = [with("small", "2"), with("large", "8")];
        let candidates_of = |clients: serde_json::Value| {
            let mut run = fixtures::run(&["read"], 1);
            run.spec.clients = serde_json::from_value(clients).unwrap();
            let run = validate(&run).unwrap();
            let (uses, servers) = (Uses::default(), Servers::default());
            (candidates(&run, &nodes, &uses, &servers), none_fits(&run, &nodes, &uses, &servers))
        };
        let four = json!({"cpu": {"exclusive": true}, "resources": {"limits": {"cpu": "4"}}});
        assert_eq!(candidates_of(four).0, ["large"]);
        assert_eq!(candidates_of(json!({})).0, ["large", "small"], "nothing is declared");
        let sixteen = json!({"resources": {"requests": {"cpu": "16"}}});
        let (none, reported) = candidates_of(sixteen);
        assert!(none.is_empty() && reported.contains("too small: large, small"), "{none:?} {reported}");
        let affinity = json!({"pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "size", "operator": "In", "values": ["small"]}]}]
        }}}}});
        assert_eq!(candidates_of(affinity).0, ["small"]);
    }

    #[test]
    fn clients_on_the_nodes_network_each_take_a_node() {
        let mut run = fixtures::run(&["read"], 1);
        run.spec.clients = serde_json::from_value(json!({"pods": 3, "pod": {"hostNetwork": true}})).unwrap();
        assert_eq!(wanted(&validate(&run).unwrap()), (3, 3));
    }

    #[test]
    fn the_clients_of_others_are_seen_and_ended_ones_are_not() {
        let mut over = (*pod("client", "client", "theirs")).clone();
        over.status.as_mut().unwrap().phase = Some("Succeeded".into());
        assert!(Uses::of(&[Arc::new(over)], "mine").clients.is_empty());
        let uses = Uses::of(&[pod("client", "client", "theirs"), pod("other", "client", "mine")], "mine");
        assert_eq!(
            uses.clients,
            [("client".to_owned(), RunReference { namespace: "races".into(), name: "other".into() })].into()
        );
    }
}

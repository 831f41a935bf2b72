//! Nodes: what their objects report, and which of them a pod may use. Pure.

use crate::labels;
use dragstrip_crds::{
    datastore::{NodeFacts, Placement},
    pod::PodSettings,
    run::{ClientsSpec, Colocate},
};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt;

/// CPU capacity in whole CPUs; `None` if the node does not report it.
pub fn cpus(node: &Node) -> Option<i32> {
    let capacity = node.status.as_ref()?.capacity.as_ref()?.get("cpu")?;
    match capacity.0.strip_suffix('m') {
        Some(milli) => milli.parse::<i32>().ok().map(|m| m / 1000),
        None => capacity.0.parse().ok(),
    }
}

/// What a Datastore's status shows of `node`.
pub fn facts(node: &Node) -> NodeFacts {
    let label = |key: &str| node.labels().get(key).cloned();
    NodeFacts {
        name: node.name_any(),
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        placement_group: labels::PLACEMENT_GROUPS.iter().find_map(|key| label(key)),
        cpus: cpus(node),
        kernel: node.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|i| i.kernel_version.clone()),
        cpu_model: None,
    }
}

/// A label that a node must have, because `field` of a placement demands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The field, such as zone.
    pub field: &'static str,
    /// Labels and values of which one is enough.
    pub labels: Vec<(String, String)>,
}

impl Want {
    pub fn met(&self, node: &Node) -> bool {
        self.labels.iter().any(|(key, value)| node.labels().get(key) == Some(value))
    }
}

pub fn wants(placement: &Placement) -> Vec<Want> {
    let named = [
        ("zone", &placement.zone, &[labels::ZONE][..]),
        ("placementGroup", &placement.placement_group, &labels::PLACEMENT_GROUPS[..]),
        ("instanceType", &placement.instance_type, &[labels::INSTANCE_TYPE][..]),
    ];
    let named = named.into_iter().filter_map(|(field, value, keys)| {
        let value = value.as_ref()?;
        let labels = keys.iter().map(|key| ((*key).to_owned(), value.clone())).collect();
        Some(Want { field, labels })
    });
    let selector = placement.node_selector.iter();
    let selector = selector
        .map(|(key, value)| Want { field: "nodeSelector", labels: vec![(key.clone(), value.clone())] });
    named.chain(selector).collect()
}

/// What `colocate` demands of the clients' nodes if the server is on `servers`; the error says why
/// no node can have it, with the remedy.
pub fn beside(colocate: Option<Colocate>, servers: &[&Node]) -> Result<Option<Want>, String> {
    let (keys, what) = match colocate {
        None => return Ok(None),
        Some(Colocate::Zone) => (&[labels::ZONE][..], "Zone"),
        Some(Colocate::PlacementGroup) => (&labels::PLACEMENT_GROUPS[..], "PlacementGroup"),
    };
    let shared = |key: &&str| {
        let mut values = servers.iter().map(|node| node.labels().get(*key));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then(|| ((*key).to_owned(), first.clone()))
    };
    let labels: Vec<(String, String)> = keys.iter().filter_map(shared).collect();
    if !labels.is_empty() {
        return Ok(Some(Want { field: "colocate", labels }));
    }
    let reported = |node: &&Node| {
        let has = keys.iter().filter_map(|key| Some(format!("{key}={}", node.labels().get(*key)?)));
        let has = has.collect::<Vec<_>>().join(", ");
        format!("{} has {}", node.name_any(), if has.is_empty() { "none" } else { &has })
    };
    let nodes: Vec<String> = servers.iter().map(reported).collect();
    let nodes = if nodes.is_empty() { "its node is unknown".to_owned() } else { nodes.join(", ") };
    Err(format!(
        "spec.clients.colocate is {what}, but the server's nodes have no label {} in common ({nodes}): label them, or declare spec.clients.placement instead",
        keys.join(" or ")
    ))
}

/// Whether `node` has all labels that `placement` demands.
pub fn selected(node: &Node, placement: &Placement) -> bool {
    wants(placement).iter().all(|want| want.met(node))
}

/// Whether a label (or field) with this value meets `requirement`, by the scheduler's rules.
fn meets(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
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

fn matches(node: &Node, term: &NodeSelectorTerm) -> bool {
    let labels = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    // A term without conditions matches no node. The only field is the name.
    labels.clone().chain(fields.clone()).next().is_some()
        && labels.into_iter().all(|label| meets(label, node.labels().get(&label.key)))
        && fields.into_iter().all(|field| meets(field, node.metadata.name.as_ref()))
}

fn required(node: &Node, affinity: Option<&Affinity>) -> bool {
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|selector| selector.node_selector_terms.iter().any(|term| matches(node, term)))
}

/// Whether `node` meets the node affinity that `settings` require, if any.
pub fn affine(node: &Node, settings: &PodSettings) -> bool {
    required(node, settings.affinity.as_ref())
}

/// Whether `node` meets the node selector and the node affinity of a pod.
pub fn eligible(node: &Node, pod: &PodSpec) -> bool {
    let selected = |(key, value): (&String, &String)| node.labels().get(key) == Some(value);
    pod.node_selector.iter().flatten().all(selected) && required(node, pod.affinity.as_ref())
}

/// The tolerations of a server: of its role's taint, and the declared ones.
pub fn server_tolerations(placement: &Placement) -> Vec<Toleration> {
    tolerations(&[labels::SERVER], placement)
}

/// The tolerations of clients, as those of a server. Clients that may share its node tolerate its taint too.
pub fn client_tolerations(clients: &ClientsSpec) -> Vec<Toleration> {
    let roles: &[&str] =
        if clients.share_node() { &[labels::CLIENT, labels::SERVER] } else { &[labels::CLIENT] };
    tolerations(roles, &clients.placement)
}

fn tolerations(roles: &[&str], placement: &Placement) -> Vec<Toleration> {
    let of_role = |role: &&str| Toleration {
        key: Some(labels::NODE_ROLE.to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some((*role).to_owned()),
        ..Toleration::default()
    };
    roles.iter().map(of_role).chain(placement.tolerations.iter().cloned()).collect()
}

/// Whether a pod with these `tolerations` may run on a node with this `taint`.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    taint.effect == "PreferNoSchedule"
        || tolerations.iter().any(|toleration| {
            let exists = toleration.operator.as_deref() == Some("Exists");
            let value = |value: &Option<String>| value.clone().unwrap_or_default();
            let key = toleration.key.as_deref().unwrap_or_default();
            // A toleration without key, or without effect, covers all of them.
            let named = key == taint.key || key.is_empty() && exists;
            let effect =
                toleration.effect.as_ref().is_none_or(|effect| effect.is_empty() || *effect == taint.effect);
            named && effect && (exists || value(&toleration.value) == value(&taint.value))
        })
}

/// The terms of a required node affinity for `wants`: a node must match one of them.
pub fn terms(wants: &[Want]) -> Vec<NodeSelectorTerm> {
    let requirement = |(key, value): &(String, String)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(vec![value.clone()]),
    };
    let mut terms = vec![Vec::new()];
    for want in wants {
        let with = |label| {
            let longer = |term: &Vec<_>| term.iter().cloned().chain([requirement(label)]).collect();
            terms.iter().map(longer).collect::<Vec<_>>()
        };
        terms = want.labels.iter().flat_map(with).collect();
    }
    let term = |expressions| NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None };
    if wants.is_empty() { Vec::new() } else { terms.into_iter().map(term).collect() }
}

/// The terms for what `placement` demands beside its `nodeSelector`, which the pod has itself.
pub fn by_fields(placement: &Placement) -> Vec<NodeSelectorTerm> {
    let named: Vec<Want> = wants(placement).into_iter().filter(|want| want.field != "nodeSelector").collect();
    terms(&named)
}

/// `wants` with their fields and labels, for messages.
pub fn reported<'a>(wants: impl IntoIterator<Item = &'a Want>) -> String {
    let one = |want: &Want| {
        let labels: Vec<String> = want.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = labels.join(" or ");
        if want.field == "nodeSelector" { labels } else { format!("{}: {labels}", want.field) }
    };
    let all: Vec<String> = wants.into_iter().map(one).collect();
    if all.is_empty() { "any node".to_owned() } else { all.join(", ") }
}

/// `key=value, key=value` of what `placement` demands, for messages.
pub fn describe(placement: &Placement) -> String {
    reported(&wants(placement))
}

/// Which of `wants` no node has, by its field; all of them if only their combination is missing.
pub fn unmet<'a>(wants: &[Want], nodes: &(impl Iterator<Item = &'a Node> + Clone)) -> String {
    let lacking: Vec<&Want> = wants.iter().filter(|want| !nodes.clone().any(|node| want.met(node))).collect();
    let fields = |wants: &[&Want]| {
        let mut fields: Vec<&str> = wants.iter().map(|want| want.field).collect();
        fields.dedup();
        fields.join(", ")
    };
    if lacking.is_empty() {
        format!("no node matches all of spec.placement ({})", reported(wants))
    } else {
        format!("no node matches spec.placement.{} ({})", fields(&lacking), reported(lacking.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use crate::nodes::*;
    use serde_json::{Value, json};

    fn node(name: &str, labels: serde_json::Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn placement(fields: serde_json::Value) -> Placement {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_node_matches_every_field_and_a_group_by_either_label() {
        let declared =
            placement(json!({"zone": "z1", "placementGroup": "g", "nodeSelector": {"pool": "fast"}}));
        let with = |group: &str, zone: &str| {
            node("n", json!({(group): "g", "topology.kubernetes.io/zone": zone, "pool": "fast"}))
        };
        assert!(selected(&with("dragstrip.dev/placement-group", "z1"), &declared), "people's own label");
        assert!(
            selected(&with("karpenter.k8s.aws/placement-group-id", "z1"), &declared),
            "Karpenter's label"
        );
        assert!(!selected(&with("dragstrip.dev/placement-group", "z2"), &declared), "another zone");
        assert!(!selected(&with("other", "z1"), &declared), "no group");
        assert!(selected(&node("n", json!({})), &Placement::default()), "nothing is demanded");
    }

    #[test]
    fn the_affinity_has_a_term_for_each_label_of_the_group() {
        let wants =
            wants(&placement(json!({"zone": "z1", "placementGroup": "g", "instanceType": "c7i.large"})));
        let terms = serde_json::to_value(terms(&wants)).unwrap();
        let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let (zone, kind) =
            (is("topology.kubernetes.io/zone", "z1"), is("node.kubernetes.io/instance-type", "c7i.large"));
        let expected = json!([
            {"matchExpressions": [zone, is("karpenter.k8s.aws/placement-group-id", "g"), kind]},
            {"matchExpressions": [zone, is("dragstrip.dev/placement-group", "g"), kind]},
        ]);
        assert_eq!(terms, expected);
        assert_eq!(super::terms(&[]), vec![], "nothing is declared");
    }

    #[test]
    fn clients_are_put_beside_the_server_by_the_labels_that_all_its_nodes_have() {
        let zone = "topology.kubernetes.io/zone";
        let (a, b, c) = (
            node("a", json!({(zone): "z1"})),
            node("b", json!({(zone): "z1"})),
            node("c", json!({(zone): "z2"})),
        );
        let want = beside(Some(Colocate::Zone), &[&a, &b]).unwrap().unwrap();
        assert!(want.met(&a) && !want.met(&c));
        assert_eq!(beside(None, &[&a, &c]), Ok(None));
        let apart = beside(Some(Colocate::Zone), &[&a, &c]).unwrap_err();
        assert!(
            apart.contains("a has topology.kubernetes.io/zone=z1, c has topology.kubernetes.io/zone=z2"),
            "{apart}"
        );
        let bare = beside(Some(Colocate::PlacementGroup), &[&a]).unwrap_err();
        for words in [
            "spec.clients.colocate is PlacementGroup",
            "a has none",
            "karpenter.k8s.aws/placement-group-id or dragstrip.dev/placement-group",
            "spec.clients.placement",
        ] {
            assert!(bare.contains(words), "{words}: {bare}");
        }
    }

    #[test]
    fn what_no_node_has_is_named_by_field_and_label() {
        let wants = wants(&placement(json!({"zone": "z1", "instanceType": "huge"})));
        let nodes = [
            node("a", json!({"topology.kubernetes.io/zone": "z1"})),
            node("b", json!({"node.kubernetes.io/instance-type": "small"})),
        ];
        assert_eq!(
            unmet(&wants, &nodes.iter()),
            "no node matches spec.placement.instanceType (instanceType: node.kubernetes.io/instance-type=huge)"
        );
        let huge = node("c", json!({"node.kubernetes.io/instance-type": "huge"}));
        let reported = unmet(&wants, &[&nodes[0], &huge].into_iter());
        assert!(reported.starts_with("no node matches all of spec.placement (zone: "), "{reported}");
    }

    #[test]
    fn a_toleration_without_effect_or_key_is_for_all_of_them() {
        let taint: Taint =
            serde_json::from_value(json!({"key": "team", "value": "a", "effect": "NoSchedule"})).unwrap();
        let by = |toleration: Value| tolerated(&taint, &[serde_json::from_value(toleration).unwrap()]);
        for toleration in [
            json!({"key": "team", "operator": "Equal", "value": "a", "effect": ""}),
            json!({"key": "team", "value": "a", "effect": "NoSchedule"}),
            json!({"key": "team", "operator": "Exists"}),
            json!({"operator": "Exists"}),
            json!({"key": "", "operator": "Exists", "effect": ""}),
        ] {
            assert!(by(toleration.clone()), "{toleration}");
        }
        for toleration in [
            json!({"key": "team", "value": "b"}),
            json!({"key": "team", "value": "a", "effect": "NoExecute"}),
            json!({"key": "other", "operator": "Exists"}),
            json!({"operator": "Equal", "value": "a"}),
        ] {
            assert!(!by(toleration.clone()), "{toleration}");
        }
        let hint = Taint { effect: "PreferNoSchedule".into(), ..taint };
        assert!(tolerated(&hint, &[]), "it is only a preference");
    }

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

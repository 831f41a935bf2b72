//! Which nodes the client pods of an attempt may run on. Pure.

use crate::objects::{HOST, matching, node_affinity, same_node};
use dragstrip_core::{
    labels,
    run::validate::{Attempt, ValidatedRun},
};
use dragstrip_crds::run::ClientSpread;
use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAntiAffinity, TopologySpreadConstraint,
};

/// Label with which Kubernetes marks the pods of a Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Clients never run on a node with any Datastore's server, nor beside another run's clients, nor
/// beside each other if the run declares that.
///
/// Servers and other runs' clients are one term: at the end of a pod, kube-scheduler retries only
/// those waiting pods whose every term that pod matched (its interpodaffinity plugin), and no pod
/// is both.
pub(super) fn separation(run: &ValidatedRun, attempt: &Attempt) -> PodAntiAffinity {
    let components: &[&str] =
        if run.spec.clients.share_node() { &[labels::CLIENT] } else { &[labels::CLIENT, labels::SERVER] };
    let others =
        matching(&[(labels::COMPONENT, "In", components), (labels::RUN_UID, "NotIn", &[&run.holder.uid])]);
    let mut terms = vec![same_node(others, true)];
    if run.spec.clients.spread == ClientSpread::OnePerNode {
        terms.push(same_node(matching(&[(JOB_NAME, "In", &[&attempt.name])]), false));
    }
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        ..PodAntiAffinity::default()
    }
}

/// How evenly the pods of an attempt are spread over nodes; nothing for a single pod.
pub(super) fn spread(run: &ValidatedRun, attempt: &Attempt) -> Option<Vec<TopologySpreadConstraint>> {
    let otherwise = match run.spec.clients.spread {
        _ if attempt.pods < 2 => return None,
        ClientSpread::OnePerNode | ClientSpread::None => return None,
        ClientSpread::Preferred => "ScheduleAnyway",
        ClientSpread::Required => "DoNotSchedule",
    };
    Some(vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOST.to_owned(),
        when_unsatisfiable: otherwise.to_owned(),
        label_selector: Some(matching(&[(JOB_NAME, "In", &[&attempt.name])])),
        // Tainted nodes, where no client can go, must not count as empty ones.
        node_taints_policy: Some("Honor".to_owned()),
        ..TopologySpreadConstraint::default()
    }])
}

/// The nodes that the run holds for its clients and no others; if there are too few yet, nodes
/// with what is `wanted`, preferably those for clients. These pods name no node, not even one to
/// avoid: Karpenter creates none for a pod with `matchFields` or a requirement of a host name.
pub(super) fn nodes(client_nodes: &[String], wanted: Vec<NodeSelectorTerm>) -> NodeAffinity {
    let on = |node: &String| NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.clone()]),
        }]),
        match_expressions: None,
    };
    // A field can be compared with one value only: a term for each node, any of which suffices.
    let held: Vec<NodeSelectorTerm> = client_nodes.iter().map(on).collect();
    node_affinity(if held.is_empty() { wanted } else { held }, labels::CLIENT)
}

//! Which nodes the client pods of an attempt may run on. Pure.

use crate::{
    datastore::prefer_role,
    labels,
    run::{
        decide::ReadyTarget,
        validate::{Attempt, ValidatedRun},
    },
};
use dragstrip_crds::run::ClientSpread;
use k8s_openapi::{
    api::core::v1::{
        NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
        PodAntiAffinity, TopologySpreadConstraint,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

/// Label with which Kubernetes marks the pods of a Job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Label with a node's host name.
const HOST: &str = "kubernetes.io/hostname";

fn requirement(key: &str, operator: &str, value: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![value.to_owned()]),
    }
}

fn never_beside(expressions: Vec<LabelSelectorRequirement>, all_namespaces: bool) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: HOST.to_owned(),
        label_selector: Some(LabelSelector {
            match_expressions: Some(expressions),
            ..LabelSelector::default()
        }),
        // An empty selector means every namespace.
        namespace_selector: all_namespaces.then(LabelSelector::default),
        ..PodAffinityTerm::default()
    }
}

/// Clients never run on the server's node, nor beside another run's clients, nor
/// beside each other where that is declared.
pub(super) fn separation(run: &ValidatedRun, attempt: &Attempt, target: &ReadyTarget) -> PodAntiAffinity {
    let mut terms = vec![never_beside(
        vec![
            requirement(labels::COMPONENT, "In", labels::CLIENT),
            requirement(labels::RUN_UID, "NotIn", &run.holder.uid),
        ],
        true,
    )];
    if target.datastore {
        terms.push(never_beside(
            vec![
                requirement(labels::COMPONENT, "In", labels::SERVER),
                requirement(labels::DATASTORE, "In", &target.name),
            ],
            false,
        ));
    }
    if run.spec.clients.spread == ClientSpread::OnePerNode {
        terms.push(never_beside(vec![requirement(JOB_NAME, "In", &attempt.name)], false));
    }
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(terms),
        ..PodAntiAffinity::default()
    }
}

/// How evenly the pods of an attempt are spread over nodes; nothing for a single pod.
pub(super) fn spread(run: &ValidatedRun, attempt: &Attempt) -> Option<Vec<TopologySpreadConstraint>> {
    let otherwise = match run.spec.clients.spread {
        _ if run.pods() < 2 => return None,
        ClientSpread::OnePerNode | ClientSpread::None => return None,
        ClientSpread::Preferred => "ScheduleAnyway",
        ClientSpread::Required => "DoNotSchedule",
    };
    Some(vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOST.to_owned(),
        when_unsatisfiable: otherwise.to_owned(),
        label_selector: Some(LabelSelector {
            match_expressions: Some(vec![requirement(JOB_NAME, "In", &attempt.name)]),
            ..LabelSelector::default()
        }),
        // Tainted nodes, where no client can go, must not count as empty ones.
        node_taints_policy: Some("Honor".to_owned()),
        ..TopologySpreadConstraint::default()
    }])
}

/// Nodes the clients prefer, and those they are kept off by name: anti-affinity
/// alone would let the server's own node count as an empty one to be filled.
pub(super) fn nodes(run: &ValidatedRun, target: &ReadyTarget) -> NodeAffinity {
    let even = run.spec.clients.spread == ClientSpread::Required && run.pods() > 1;
    let not_there = |node: &String| NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![node.clone()]),
    };
    let fields: Vec<NodeSelectorRequirement> = target.nodes.iter().filter(|_| even).map(not_there).collect();
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: (!fields.is_empty()).then(|| NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_fields: Some(fields),
                match_expressions: None,
            }],
        }),
        ..prefer_role(labels::CLIENT)
    }
}

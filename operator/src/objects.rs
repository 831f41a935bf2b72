//! Parts of Kubernetes objects that several builders use. Pure.

use dragstrip_core::labels;
use k8s_openapi::{
    api::core::v1::{
        Capabilities, ContainerPort, EmptyDirVolumeSource, HTTPGetAction, NodeAffinity, NodeSelector,
        NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSecurityContext,
        PreferredSchedulingTerm, Probe, SeccompProfile, SecurityContext, Volume, VolumeMount,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::Resource;
use std::collections::BTreeMap;

/// A reference to the controller of this kind, `name` and `uid`.
pub fn owner<K: Resource<DynamicType = ()>>(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub fn with_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}

/// Selects objects with these labels: for each a key, an operator and values.
pub fn matching(requirements: &[(&str, &str, &[&str])]) -> LabelSelector {
    let requirement = |(key, operator, values): &(&str, &str, &[&str])| LabelSelectorRequirement {
        key: (*key).to_owned(),
        operator: (*operator).to_owned(),
        values: (!values.is_empty()).then(|| values.iter().map(|value| (*value).to_owned()).collect()),
    };
    LabelSelector {
        match_expressions: Some(requirements.iter().map(requirement).collect()),
        ..LabelSelector::default()
    }
}

/// Label with a node's host name.
pub const HOST: &str = "kubernetes.io/hostname";

/// The nodes with pods that `selector` selects, in the pod's own namespace or in all.
pub fn same_node(selector: LabelSelector, all_namespaces: bool) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: HOST.to_owned(),
        label_selector: Some(selector),
        // An empty selector means every namespace.
        namespace_selector: all_namespaces.then(LabelSelector::default),
        ..PodAffinityTerm::default()
    }
}

pub fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort { name: Some(name.to_owned()), container_port: number, ..ContainerPort::default() }
}

/// A probe each second of an HTTP path; `failure_threshold` failures in sequence count.
pub fn http_probe(path: &str, port: i32, timeout_seconds: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(port),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(1),
        failure_threshold: Some(3),
        timeout_seconds: Some(timeout_seconds),
        ..Probe::default()
    }
}

pub fn empty_directory(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

pub fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

pub fn locked_down() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// The restrictions of a pod whose containers run as this user and group.
pub fn run_as(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Requires a node that matches one of `terms`, if there are any, and prefers nodes labelled for `role`.
pub fn node_affinity(terms: Vec<NodeSelectorTerm>, role: &str) -> NodeAffinity {
    let preferred = NodeSelectorTerm {
        match_expressions: Some(vec![NodeSelectorRequirement {
            key: labels::NODE_ROLE.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![role.to_owned()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: (!terms.is_empty())
            .then_some(NodeSelector { node_selector_terms: terms }),
        preferred_during_scheduling_ignored_during_execution: Some(vec![PreferredSchedulingTerm {
            weight: 100,
            preference: preferred,
        }]),
    }
}

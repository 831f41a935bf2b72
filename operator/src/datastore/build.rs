//! The objects a Datastore becomes. Pure; infallible, since everything was
//! checked before.

mod pod;

use crate::{cluster::pods::OBSERVER, pod_settings};
use dragstrip_core::{
    datastore::{shape::Shape, validate::ValidatedDatastore},
    env::variable,
    labels,
};
use dragstrip_crds::Datastore;
use dragstrip_results::signing::{VERIFYING_KEY_VARIABLE, VerifyingKey};
use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{
            Capabilities, EmptyDirVolumeSource, NodeAffinity, NodeSelector, NodeSelectorRequirement,
            NodeSelectorTerm, PodTemplateSpec, PreferredSchedulingTerm, SecurityContext, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

/// Everything that is applied for a Datastore for as long as it is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    /// Headless: clients get the pod's own address, no proxy in between.
    pub service: Service,
    pub stateful_set: StatefulSet,
}

/// The metadata of an object of the Datastore with this name and uid.
fn metadata_of(name: &str, namespace: &str, uid: &str) -> ObjectMeta {
    let owner = OwnerReference {
        api_version: Datastore::api_version(&()).into_owned(),
        kind: Datastore::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels::common([(labels::DATASTORE, name)])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

fn metadata(datastore: &ValidatedDatastore) -> ObjectMeta {
    metadata_of(&datastore.name, &datastore.namespace, &datastore.uid)
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn pod_labels(datastore: &ValidatedDatastore) -> BTreeMap<String, String> {
    labels::common([(labels::COMPONENT, labels::SERVER), (labels::DATASTORE, &datastore.name)])
}

fn selector(name: &str) -> BTreeMap<String, String> {
    pairs([(labels::COMPONENT, labels::SERVER), (labels::DATASTORE, name)])
}

/// A volume in a container.
pub(crate) fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// What every container of ours is denied.
pub(crate) fn locked_down() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// An empty directory as a volume.
pub(crate) fn empty_directory(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

/// Prefers nodes labelled for `role`, where there are any.
pub(crate) fn prefer_role(role: &str) -> NodeAffinity {
    NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![PreferredSchedulingTerm {
            weight: 100,
            preference: NodeSelectorTerm {
                match_expressions: Some(vec![NodeSelectorRequirement {
                    key: labels::NODE_ROLE.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![role.to_owned()]),
                }]),
                ..NodeSelectorTerm::default()
            },
        }]),
        ..NodeAffinity::default()
    }
}

/// A node must match any of `terms`; nothing where there are none.
pub(crate) fn required(terms: Vec<NodeSelectorTerm>) -> Option<NodeSelector> {
    (!terms.is_empty()).then_some(NodeSelector { node_selector_terms: terms })
}

/// Whose addresses the Service's name stands for: all pods, or the primary's
/// alone, so that a client that is told the name never writes to a replica.
fn service_selector(datastore: &ValidatedDatastore) -> BTreeMap<String, String> {
    let mut labels = selector(&datastore.name);
    if matches!(Shape::of(&datastore.spec), Shape::Replicated(_)) {
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), format!("{}-0", datastore.name));
    }
    labels
}

fn service_port(name: &str, port: i32) -> ServicePort {
    ServicePort { name: Some(name.to_owned()), port, ..ServicePort::default() }
}

fn service(datastore: &ValidatedDatastore) -> Service {
    let spec = &datastore.spec;
    let further = spec.custom.iter().flat_map(|custom| &custom.ports);
    let servers = Shape::of(spec).ports(spec).enumerate();
    let ports = servers
        .map(|(index, port)| service_port(&pod::port_name(spec, index), i32::from(port)))
        .chain(further.map(|further| service_port(&further.name, further.port)));
    Service {
        metadata: metadata(datastore),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // A pod that is not ready still has a name: members that wait for each other
            // find each other, and a runner can say what is wrong with it.
            publish_not_ready_addresses: Some(true),
            selector: Some(service_selector(datastore)),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Keeps the pods of `datastore` from being evicted. Named as the Lease of the run that asks for it.
pub fn budget(datastore: &Datastore) -> PodDisruptionBudget {
    let name = datastore.name_any();
    let (namespace, uid) = (datastore.namespace().unwrap_or_default(), datastore.uid().unwrap_or_default());
    let mut metadata = metadata_of(&name, &namespace, &uid);
    metadata.name = Some(budget_name(&name));
    PodDisruptionBudget {
        metadata,
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(0)),
            selector: Some(LabelSelector { match_labels: Some(selector(&name)), ..LabelSelector::default() }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Name of the PodDisruptionBudget of the Datastore called `name`.
pub fn budget_name(name: &str) -> String {
    format!("dragstrip-{name}")
}

impl Resources {
    /// The same, its observers taking commands that were signed with `key` alone. What stands
    /// is not built anew for it: those observers go on to take the token.
    pub fn obeying(mut self, key: Option<&VerifyingKey>) -> Self {
        let pod = self.stateful_set.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        let helpers = pod.and_then(|pod| pod.init_containers.as_mut()).into_iter().flatten();
        for observer in helpers.filter(|container| container.name == OBSERVER) {
            let key = key.map(|key| variable(VERIFYING_KEY_VARIABLE, &String::from(key.clone())));
            observer.env.get_or_insert_default().extend(key);
        }
        self
    }
}

fn template(datastore: &ValidatedDatastore, runner_image: &str) -> PodTemplateSpec {
    let own = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(datastore)),
            annotations: Some(pairs(labels::UNMOVED)),
            ..ObjectMeta::default()
        }),
        spec: Some(pod::pod(datastore, runner_image)),
    };
    let servers = LabelSelector { match_labels: Some(selector(&datastore.name)), ..LabelSelector::default() };
    pod_settings::applied(&datastore.spec.pod, &servers, own)
}

/// The Service and StatefulSet of `datastore`.
pub fn build(datastore: &ValidatedDatastore, runner_image: &str) -> Resources {
    let built_for = datastore.generation.to_string();
    let stateful_set = StatefulSet {
        metadata: ObjectMeta {
            annotations: Some(pairs([(labels::BUILT_FOR, &built_for)])),
            ..metadata(datastore)
        },
        spec: Some(StatefulSetSpec {
            replicas: Some(i32::from(Shape::of(&datastore.spec).pods())),
            // With OrderedReady a pod that never became ready would block its own repair,
            // and members that wait for each other would never start.
            pod_management_policy: Some("Parallel".to_owned()),
            service_name: Some(datastore.name.clone()),
            selector: LabelSelector {
                match_labels: Some(selector(&datastore.name)),
                ..LabelSelector::default()
            },
            template: template(datastore, runner_image),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    };
    Resources { service: service(datastore), stateful_set }
}

#[cfg(test)]
mod tests;

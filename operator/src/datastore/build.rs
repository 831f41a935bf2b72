//! Builds the objects of a Datastore. Pure; infallible, since everything was checked before.

mod pod;

use crate::{
    objects::{owner, with_labels},
    pod_settings,
};
use dragstrip_core::{
    datastore::{shape::Shape, validate::ValidatedDatastore},
    labels,
};
use dragstrip_crds::Datastore;
use dragstrip_results::signing::VerifyingKey;
use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{PodTemplateSpec, Service, ServicePort, ServiceSpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

/// The objects that a Datastore has for as long as it exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    /// Headless: clients connect to the pod's own address, without a proxy.
    pub service: Service,
    pub stateful_set: StatefulSet,
}

fn metadata(name: &str, namespace: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels::common([(labels::DATASTORE, name)])),
        owner_references: Some(vec![owner::<Datastore>(name, uid)]),
        ..ObjectMeta::default()
    }
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

/// The Service's pods: all, or the primary alone, so that a client never writes to a replica.
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
    let custom = spec.custom.iter().flat_map(|custom| &custom.ports);
    let servers = Shape::of(spec).ports(spec).enumerate();
    let ports = servers
        .map(|(index, port)| service_port(&pod::port_name(spec, index), i32::from(port)))
        .chain(custom.map(|port| service_port(&port.name, port.port)));
    Service {
        metadata: metadata(&datastore.name, &datastore.namespace, &datastore.uid),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // A pod that is not ready has a name too: members that wait for each other find each other,
            // and a runner can report what is wrong with it.
            publish_not_ready_addresses: Some(true),
            selector: Some(service_selector(datastore)),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Protects the pods of `datastore` from eviction. It has the name of the Datastore's Lease.
pub fn budget(datastore: &Datastore) -> PodDisruptionBudget {
    let name = datastore.name_any();
    let (namespace, uid) = (datastore.namespace().unwrap_or_default(), datastore.uid().unwrap_or_default());
    let mut metadata = metadata(&name, &namespace, &uid);
    metadata.name = Some(budget_name(&name));
    PodDisruptionBudget {
        metadata,
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(0)),
            selector: Some(with_labels(selector(&name))),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

pub fn budget_name(name: &str) -> String {
    format!("dragstrip-{name}")
}

fn template(
    datastore: &ValidatedDatastore,
    runner_image: &str,
    key: Option<&VerifyingKey>,
) -> PodTemplateSpec {
    let own = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(datastore)),
            annotations: Some(pairs(labels::UNMOVED)),
            ..ObjectMeta::default()
        }),
        spec: Some(pod::pod(datastore, runner_image, key)),
    };
    pod_settings::applied(&datastore.spec.pod, &with_labels(selector(&datastore.name)), own)
}

/// The Service and StatefulSet of `datastore`. Observers demand commands signed with `key`.
pub fn build(datastore: &ValidatedDatastore, runner_image: &str, key: Option<&VerifyingKey>) -> Resources {
    let built_for = datastore.generation.to_string();
    let stateful_set = StatefulSet {
        metadata: ObjectMeta {
            annotations: Some(pairs([(labels::BUILT_FOR, &built_for)])),
            ..metadata(&datastore.name, &datastore.namespace, &datastore.uid)
        },
        spec: Some(StatefulSetSpec {
            replicas: Some(i32::from(Shape::of(&datastore.spec).pods())),
            // With OrderedReady a pod that never becomes ready would block its own repair, and
            // members that wait for each other would never start.
            pod_management_policy: Some("Parallel".to_owned()),
            service_name: Some(datastore.name.clone()),
            selector: with_labels(selector(&datastore.name)),
            template: template(datastore, runner_image, key),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    };
    Resources { service: service(datastore), stateful_set }
}

#[cfg(test)]
mod tests;

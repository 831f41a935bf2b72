//! The objects a Datastore becomes. Pure; infallible, since everything was
//! checked before.

use super::{engines, validate::ValidatedDatastore};
use crate::labels;
use dragstrip_crds::{
    Datastore,
    datastore::{Placement, SecretKeyReference},
    protocol::{OBSERVER_PORT, PASSWORD_VARIABLE, READY_PATH},
};
use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{
            Affinity, Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
            HTTPGetAction, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSecurityContext,
            PodSpec, PodTemplateSpec, PreferredSchedulingTerm, Probe, ResourceRequirements,
            SecretKeySelector, SecurityContext, Service, ServicePort, ServiceSpec, TCPSocketAction,
            Toleration, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::{Resource, api::ObjectMeta};
use std::collections::BTreeMap;

/// Name of the server's container.
const SERVER_CONTAINER: &str = "server";

/// Everything that is applied for a Datastore.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    /// Headless: clients get the pod's own address, no proxy in between.
    pub service: Service,
    /// One pod.
    pub stateful_set: StatefulSet,
}

fn owner(datastore: &ValidatedDatastore) -> OwnerReference {
    OwnerReference {
        api_version: Datastore::api_version(&()).into_owned(),
        kind: Datastore::kind(&()).into_owned(),
        name: datastore.name.clone(),
        uid: datastore.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn metadata(datastore: &ValidatedDatastore) -> ObjectMeta {
    ObjectMeta {
        name: Some(datastore.name.clone()),
        namespace: Some(datastore.namespace.clone()),
        labels: Some(labels::common([(labels::DATASTORE, &datastore.name)])),
        owner_references: Some(vec![owner(datastore)]),
        ..ObjectMeta::default()
    }
}

fn pod_labels(datastore: &ValidatedDatastore) -> BTreeMap<String, String> {
    labels::common([(labels::COMPONENT, labels::SERVER), (labels::DATASTORE, &datastore.name)])
}

fn selector(datastore: &ValidatedDatastore) -> BTreeMap<String, String> {
    [(labels::COMPONENT, labels::SERVER), (labels::DATASTORE, datastore.name.as_str())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// An environment variable with a Secret's value.
pub(crate) fn secret_variable(name: &str, reference: &SecretKeyReference) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: reference.name.clone(),
                key: reference.key.clone(),
                optional: Some(false),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// An environment variable with a plain value.
pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() }
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

/// The declared tolerations, and that of the role's own taint.
pub(crate) fn tolerations(role: &str, placement: &Placement) -> Vec<Toleration> {
    let own = Toleration {
        key: Some(labels::NODE_ROLE.to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some(role.to_owned()),
        ..Toleration::default()
    };
    std::iter::once(own).chain(placement.tolerations.iter().cloned()).collect()
}

/// `{cpu, memory}` as requests and limits alike.
fn fixed_resources(cpu: &str, memory: &str) -> ResourceRequirements {
    let amounts: BTreeMap<String, Quantity> = [("cpu", cpu), ("memory", memory)]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), Quantity(v.to_owned())))
        .collect();
    ResourceRequirements {
        requests: Some(amounts.clone()),
        limits: Some(amounts),
        ..ResourceRequirements::default()
    }
}

/// The observer: a native sidecar, so that it is there before the server and
/// never keeps a pod from ending. Its readiness is the pod's: it asks the
/// server over RESP, where a probe of the server's own would fork processes on
/// the measured CPUs.
fn observer(datastore: &ValidatedDatastore, runner_image: &str) -> Container {
    let mut env = vec![variable("DRAGSTRIP_TOKEN", &datastore.uid)];
    env.extend(
        datastore.spec.auth_secret_ref.as_ref().map(|secret| secret_variable(PASSWORD_VARIABLE, secret)),
    );
    Container {
        name: "observer".to_owned(),
        image: Some(runner_image.to_owned()),
        command: Some(vec!["/dragstrip-runner".to_owned()]),
        args: Some(vec!["observe".to_owned(), "--port".to_owned(), datastore.spec.port.to_string()]),
        env: Some(env),
        restart_policy: Some("Always".to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some("observer".to_owned()),
            container_port: i32::from(OBSERVER_PORT),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some(READY_PATH.to_owned()),
                port: IntOrString::Int(i32::from(OBSERVER_PORT)),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            timeout_seconds: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        resources: Some(fixed_resources("50m", "64Mi")),
        security_context: Some(locked_down()),
        ..Container::default()
    }
}

fn server_environment(datastore: &ValidatedDatastore) -> Vec<EnvVar> {
    let rules = engines::rules(datastore.spec.engine);
    let mut env: Vec<EnvVar> =
        rules.environment().into_iter().map(|(name, value)| variable(name, value)).collect();
    if let Some(secret) = &datastore.spec.auth_secret_ref {
        env.push(secret_variable(rules.password_variable().unwrap_or(PASSWORD_VARIABLE), secret));
    }
    env.extend(datastore.spec.env.iter().cloned());
    env
}

fn server(datastore: &ValidatedDatastore) -> Container {
    let spec = &datastore.spec;
    let rules = engines::rules(spec.engine);
    let mut command = rules.command(spec);
    command.extend(spec.extra_args.iter().cloned());
    Container {
        name: SERVER_CONTAINER.to_owned(),
        image: Some(datastore.image.clone()),
        command: Some(command),
        env: Some(server_environment(datastore)),
        ports: Some(vec![ContainerPort {
            name: Some("resp".to_owned()),
            container_port: spec.port,
            ..ContainerPort::default()
        }]),
        // Holds readiness back until the port is open; nothing probes the server after that.
        startup_probe: Some(Probe {
            tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(spec.port), host: None }),
            period_seconds: Some(1),
            failure_threshold: Some(120),
            ..Probe::default()
        }),
        resources: Some(datastore.resources.clone()),
        security_context: Some(SecurityContext {
            seccomp_profile: Some(rules.seccomp(spec)),
            ..locked_down()
        }),
        volume_mounts: Some(vec![
            VolumeMount { name: "data".to_owned(), mount_path: "/data".to_owned(), ..VolumeMount::default() },
            VolumeMount { name: "tmp".to_owned(), mount_path: "/tmp".to_owned(), ..VolumeMount::default() },
        ]),
        working_dir: Some("/data".to_owned()),
        ..Container::default()
    }
}

fn pod(datastore: &ValidatedDatastore, runner_image: &str) -> PodSpec {
    let user = engines::rules(datastore.spec.engine).user();
    let placement = &datastore.spec.placement;
    PodSpec {
        init_containers: Some(vec![observer(datastore, runner_image)]),
        containers: vec![server(datastore)],
        // Lets the observer read the server's cgroup and processes, which the same user id allows it to.
        share_process_namespace: Some(true),
        // A Service named dfly-x would become DFLY_X_SERVICE_HOST, and Dragonfly
        // exits on any DFLY_ variable that it does not know.
        enable_service_links: Some(false),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(5),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(user),
            run_as_group: Some(user),
            fs_group: Some(user),
            seccomp_profile: Some(k8s_openapi::api::core::v1::SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        node_selector: Some(placement.node_selector.clone()).filter(|labels| !labels.is_empty()),
        affinity: Some(Affinity { node_affinity: Some(prefer_role(labels::SERVER)), ..Affinity::default() }),
        tolerations: Some(tolerations(labels::SERVER, placement)),
        volumes: Some(vec![empty_directory("data"), empty_directory("tmp")]),
        ..PodSpec::default()
    }
}

/// The Service and StatefulSet of `datastore`.
pub fn build(datastore: &ValidatedDatastore, runner_image: &str) -> Resources {
    let service = Service {
        metadata: metadata(datastore),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // A pod that is not ready still has a name, so that a runner can say what is wrong with it.
            publish_not_ready_addresses: Some(true),
            selector: Some(selector(datastore)),
            ports: Some(vec![ServicePort {
                name: Some("resp".to_owned()),
                port: datastore.spec.port,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let stateful_set = StatefulSet {
        metadata: metadata(datastore),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            // With OrderedReady a pod that never became ready would block its own repair.
            pod_management_policy: Some("Parallel".to_owned()),
            service_name: Some(datastore.name.clone()),
            selector: LabelSelector { match_labels: Some(selector(datastore)), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(pod_labels(datastore)), ..ObjectMeta::default() }),
                spec: Some(pod(datastore, runner_image)),
            },
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    };
    Resources { service, stateful_set }
}

#[cfg(test)]
mod tests;

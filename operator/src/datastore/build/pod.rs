//! Builds the pod of a Datastore: its servers, and the observer beside them. Pure.

use super::selector;
use crate::{
    cluster::pods::OBSERVER,
    objects::{
        HOST, empty_directory, http_probe, locked_down, matching, mount, node_affinity, port, run_as,
        same_node, with_labels,
    },
};
use dragstrip_core::{
    datastore::{
        engines, resources, server,
        shape::{Shape, service_domain},
        validate::ValidatedDatastore,
    },
    env::{secret_variable, variable},
    labels,
    nodes::{self, server_tolerations},
};
use dragstrip_crds::DatastoreSpec;
use dragstrip_results::{
    protocol::{
        CLIENT_CERTIFICATE_DIRECTORY, OBSERVER_PORT, PASSWORD_VARIABLE, READY_PATH,
        SERVER_CERTIFICATE_DIRECTORY,
    },
    signing::{VERIFYING_KEY_VARIABLE, VerifyingKey},
};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, ContainerPort, PodAffinity, PodAntiAffinity, PodSpec, Probe, SecretVolumeSource,
        SecurityContext, TCPSocketAction, TopologySpreadConstraint, Volume, VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

const SERVER_CERTIFICATE: &str = "tls-server";
/// Volume with a client's certificate, for the observer.
const CLIENT_CERTIFICATE: &str = "tls-client";
/// The last lines of a container that fails go into the pod's status.
const LAST_WORDS: &str = "FallbackToLogsOnError";
/// Difference between the port of a shard's bus and its own.
const BUS_PORT_ABOVE: i32 = 10_000;
/// Seconds that the observer's answer may take: it waits for a server that starts.
const STARTED_WITHIN: i32 = 60;
/// Readable by the user and group, which are the server's.
const CERTIFICATE_MODE: i32 = 0o440;

pub(super) fn port_name(spec: &DatastoreSpec, index: usize) -> String {
    let name = if engines::speaks_resp(spec) { "resp" } else { "server" };
    if index == 0 { name.to_owned() } else { format!("{name}-{index}") }
}

fn tcp_probe(port: i32, failure_threshold: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port), host: None }),
        period_seconds: Some(1),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}

fn observer_arguments(datastore: &ValidatedDatastore) -> Vec<String> {
    let spec = &datastore.spec;
    let mut arguments = vec!["observe".to_owned(), "--port".to_owned(), spec.port.to_string()];
    let servers = Shape::of(spec).servers_per_pod();
    if servers > 1 {
        arguments.extend(["--servers".to_owned(), servers.to_string()]);
    }
    if !engines::speaks_resp(spec) {
        arguments.push("--without-resp".to_owned());
    } else if let Some(tls) = &spec.tls {
        let name = service_domain(&datastore.name, &datastore.namespace);
        arguments.extend(["--tls-server-name".to_owned(), name]);
        if tls.client_secret_name.is_some() {
            let directory = CLIENT_CERTIFICATE_DIRECTORY.to_owned();
            arguments.extend(["--tls-client-directory".to_owned(), directory]);
        }
    }
    arguments
}

fn observer_mounts(spec: &DatastoreSpec) -> Option<Vec<VolumeMount>> {
    let tls = spec.tls.as_ref().filter(|_| engines::speaks_resp(spec))?;
    let mut mounts = vec![mount(SERVER_CERTIFICATE, SERVER_CERTIFICATE_DIRECTORY, true)];
    if tls.client_secret_name.is_some() {
        mounts.push(mount(CLIENT_CERTIFICATE, CLIENT_CERTIFICATE_DIRECTORY, true));
    }
    Some(mounts)
}

/// The observer: a native sidecar, so that it runs before the server and never keeps a pod from ending.
/// If it queries the server over RESP, its readiness is the pod's: a probe in the server's container
/// would fork processes on the measured CPUs.
fn observer(datastore: &ValidatedDatastore, runner_image: &str, key: Option<&VerifyingKey>) -> Container {
    let spec = &datastore.spec;
    let queries = engines::speaks_resp(spec);
    let mut env = vec![variable("DRAGSTRIP_TOKEN", &datastore.uid)];
    let password = spec.auth_secret_ref.as_ref().filter(|_| queries);
    env.extend(password.map(|secret| secret_variable(PASSWORD_VARIABLE, secret)));
    env.extend(key.map(|key| variable(VERIFYING_KEY_VARIABLE, &String::from(key.clone()))));
    Container {
        name: OBSERVER.to_owned(),
        image: Some(runner_image.to_owned()),
        command: Some(vec!["/dragstrip-runner".to_owned()]),
        args: Some(observer_arguments(datastore)),
        env: Some(env),
        restart_policy: Some("Always".to_owned()),
        ports: Some(vec![port(OBSERVER, i32::from(OBSERVER_PORT))]),
        readiness_probe: queries.then(|| http_probe(READY_PATH, i32::from(OBSERVER_PORT), STARTED_WITHIN)),
        resources: Some(resources::of_helper()),
        termination_message_policy: Some(LAST_WORDS.to_owned()),
        security_context: Some(locked_down()),
        volume_mounts: observer_mounts(spec),
        ..Container::default()
    }
}

fn server_ports(spec: &DatastoreSpec, index: usize) -> Vec<ContainerPort> {
    let custom = spec.custom.iter().flat_map(|custom| &custom.ports);
    // On the host network the scheduler must know every port in use.
    let bus = (spec.pod.host_network && spec.cluster.is_some())
        .then(|| port(&format!("bus-{index}"), spec.port + BUS_PORT_ABOVE));
    std::iter::once(port(&port_name(spec, index), spec.port))
        .chain(bus)
        .chain(custom.map(|custom| port(&custom.name, custom.port)))
        .collect()
}

/// The probes by which the kubelet detects that a server has started and is ready. If the observer
/// queries the server, the observer's readiness counts and nothing probes the server's.
fn probes(spec: &DatastoreSpec) -> (Option<Probe>, Option<Probe>) {
    let custom = spec.custom.as_ref();
    let path = custom.and_then(|custom| custom.readiness_path.as_ref());
    let mut answer = path.map(|path| http_probe(path, spec.port, 2));
    if let Some(http) = answer.as_mut().and_then(|probe| probe.http_get.as_mut()) {
        http.scheme = spec.tls.is_some().then(|| "HTTPS".to_owned());
    }
    if engines::speaks_resp(spec) {
        // The pod is not ready before the port is open.
        (Some(tcp_probe(spec.port, 120)), answer)
    } else {
        // Members may wait long for each other: no probe restarts them.
        (None, Some(answer.unwrap_or_else(|| tcp_probe(spec.port, 3))))
    }
}

fn server_mounts(spec: &DatastoreSpec) -> Vec<VolumeMount> {
    let certificate =
        spec.tls.as_ref().map(|_| mount(SERVER_CERTIFICATE, SERVER_CERTIFICATE_DIRECTORY, true));
    [mount("data", "/data", false), mount("tmp", "/tmp", false)].into_iter().chain(certificate).collect()
}

/// The server with this index in the pod; `spec` has its port.
fn server(datastore: &ValidatedDatastore, spec: &DatastoreSpec, index: usize) -> Container {
    let shard = matches!(Shape::of(spec), Shape::ClusterInOnePod(_));
    let rules = engines::rules(spec.engine);
    let (command, arguments) = server::command(spec);
    let (startup_probe, readiness_probe) = probes(spec);
    Container {
        name: if shard { format!("shard-{index}") } else { "server".to_owned() },
        image: Some(datastore.image.clone()),
        command: Some(command).filter(|command| !command.is_empty()),
        args: Some(arguments).filter(|arguments| !arguments.is_empty()),
        env: Some(server::environment(datastore)),
        ports: Some(server_ports(spec, index)),
        startup_probe,
        readiness_probe,
        resources: Some(datastore.resources.clone()),
        termination_message_policy: Some(LAST_WORDS.to_owned()),
        security_context: Some(SecurityContext {
            seccomp_profile: Some(rules.seccomp(spec)),
            ..locked_down()
        }),
        volume_mounts: Some(server_mounts(spec)),
        working_dir: Some("/data".to_owned()),
        ..Container::default()
    }
}

fn servers(datastore: &ValidatedDatastore) -> Vec<Container> {
    Shape::of(&datastore.spec)
        .ports(&datastore.spec)
        .enumerate()
        .map(|(index, port)| {
            let spec = DatastoreSpec { port: i32::from(port), ..datastore.spec.clone() };
            server(datastore, &spec, index)
        })
        .collect()
}

fn secret_volume(name: &str, secret: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            default_mode: Some(CERTIFICATE_MODE),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn volumes(spec: &DatastoreSpec) -> Vec<Volume> {
    let mut volumes = vec![empty_directory("data"), empty_directory("tmp")];
    if let Some(tls) = &spec.tls {
        volumes.push(secret_volume(SERVER_CERTIFICATE, &tls.secret_name));
        let client = tls.client_secret_name.as_ref().filter(|_| engines::speaks_resp(spec));
        volumes.extend(client.map(|secret| secret_volume(CLIENT_CERTIFICATE, secret)));
    }
    volumes
}

/// Several pods go to different nodes if there are enough.
fn spread(datastore: &ValidatedDatastore) -> Option<Vec<TopologySpreadConstraint>> {
    (Shape::of(&datastore.spec).pods() > 1).then(|| {
        vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: HOST.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(with_labels(selector(&datastore.name))),
            ..TopologySpreadConstraint::default()
        }]
    })
}

/// A server never goes to a node with clients of any run, unless their label allows it. The clients'
/// own anti-affinity would keep the server off too, but the scheduler retries a waiting server when
/// clients have gone only because of this term.
fn never_beside_clients() -> PodAntiAffinity {
    let clients = matching(&[
        (labels::COMPONENT, "In", &[labels::CLIENT]),
        (labels::SHARES_SERVER_NODE, "DoesNotExist", &[]),
    ]);
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![same_node(clients, true)]),
        ..PodAntiAffinity::default()
    }
}

/// The node of the Datastore named `other`.
fn beside(other: &str) -> PodAffinity {
    let servers = with_labels(selector(other));
    PodAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![same_node(servers, false)]),
        ..PodAffinity::default()
    }
}

pub(super) fn pod(datastore: &ValidatedDatastore, runner_image: &str, key: Option<&VerifyingKey>) -> PodSpec {
    let spec = &datastore.spec;
    let placement = &spec.placement;
    PodSpec {
        init_containers: Some(vec![observer(datastore, runner_image, key)]),
        containers: servers(datastore),
        // The observer reads the server's cgroup and processes, as the same user.
        share_process_namespace: Some(true),
        // A Service named dfly-x would become DFLY_X_SERVICE_HOST, and Dragonfly
        // exits on any DFLY_ variable that it does not know.
        enable_service_links: Some(false),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(5),
        security_context: Some(run_as(engines::rules(spec.engine).user(spec))),
        node_selector: Some(placement.node_selector.clone()).filter(|labels| !labels.is_empty()),
        affinity: Some(Affinity {
            node_affinity: Some(node_affinity(nodes::by_fields(placement), labels::SERVER)),
            pod_affinity: placement.same_node_as.as_deref().map(beside),
            pod_anti_affinity: Some(never_beside_clients()),
        }),
        tolerations: Some(server_tolerations(placement)),
        topology_spread_constraints: spread(datastore),
        volumes: Some(volumes(spec)),
        ..PodSpec::default()
    }
}

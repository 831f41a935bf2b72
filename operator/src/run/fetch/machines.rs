//! The nodes of a run's clients and servers, the CPUs that these may run on, and which
//! conditions on their places hold. [`fill`] and [`placed`] read what the watches show; the rest
//! is pure.

use super::servers;
use crate::{metrics::Prices, run::context::Pass};
use dragstrip_core::{
    datastore::room::Room,
    digest::digest,
    labels, nodes,
    run::{decide::ReadyTarget, judge, validate::ValidatedRun},
};
use dragstrip_crds::{DatastoreSpec, datastore::Placement, pod::PodSettings, units::whole};
use dragstrip_results::{
    observed::Observation,
    result::{CpuSetRecord, EnvironmentRecord, GroupEvidence, GroupRecord, NodeRecord, RepetitionResult},
    verdict::placed::{Placed, exclusive_cpus, of_nodes, of_server},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Records in `result` the nodes of its clients, whose pods are `clients`, and of its servers,
/// and the CPUs that they could run on.
pub fn fill(pass: &Pass<'_>, clients: &[&Pod], result: &mut RepetitionResult) {
    let (nodes, pods) = (pass.world.nodes.state(), pass.world.pods.state());
    let loading = result.pods.iter().filter_map(|pod| pod.node.clone());
    result.nodes = records(pass.run, loading, &nodes, &pods, &pass.prices);
    let key = servers::key(pass.run);
    let servers: Vec<&Pod> =
        key.iter().flat_map(|key| servers::servers(&pods, key)).map(Arc::as_ref).collect();
    let pod = |name: &str| clients.iter().chain(&servers).find(|pod| pod.name_any() == name);
    result.cpusets = judge::cpu_sets(result, |name| whole_cpus(pod(name)?));
    let datastore = servers::datastore(pass);
    result.environment = Some(environment(servers, clients, datastore.as_deref().map(|one| &one.spec)));
}

/// What ran in `servers` and `clients`, and the digest of what `declared` says besides its
/// place, its image and its threads, which have records of their own.
fn environment(
    mut servers: Vec<&Pod>,
    clients: &[&Pod],
    declared: Option<&DatastoreSpec>,
) -> EnvironmentRecord {
    servers.sort_by_key(|pod| pod.name_any());
    let host_network = |pods: &[&Pod]| {
        pods.iter().any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true)))
    };
    let declaration = declared.map(|spec| {
        let rest = DatastoreSpec {
            threads: 0,
            image: None,
            placement: Placement::default(),
            pod: PodSettings::default(),
            ..spec.clone()
        };
        // A spec that came as JSON has a JSON form.
        digest(&serde_json::to_string(&rest).unwrap_or_default())
    });
    EnvironmentRecord {
        server_images: images(&servers),
        server_command: servers.first().map(|pod| command(pod)).unwrap_or_default(),
        server_declaration: declaration,
        client_images: images(clients),
        server_host_network: host_network(&servers),
        client_host_network: host_network(clients),
    }
}

/// The images of `pods` by digest, as far as the kubelet reports them.
fn images(pods: &[&Pod]) -> BTreeSet<String> {
    // Init containers run the operator's own image, which has its version.
    let statuses = pods.iter().flat_map(|pod| pod.status.iter());
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|container| container.image_id.clone()).filter(|image| !image.is_empty()).collect()
}

/// The command and arguments of the first container of `pod`.
fn command(pod: &Pod) -> Vec<String> {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let parts = container.into_iter().flat_map(|container| [&container.command, &container.args]);
    parts.flatten().flatten().cloned().collect()
}

/// Which conditions hold, before any load, for clients on `client_nodes` and the servers of
/// `run`; also for the server's own answers, if it was queried for `target`.
pub fn placed(pass: &Pass<'_>, client_nodes: &[String], target: Option<&ReadyTarget>) -> Vec<Placed> {
    let (nodes, pods) = (pass.world.nodes.state(), pass.world.pods.state());
    let records = records(pass.run, client_nodes.iter().cloned(), &nodes, &pods, &pass.prices);
    let mut placed = of_nodes(&records, None);
    if let Some(target) = target {
        let declared = servers::datastore(pass).map(|datastore| datastore.spec.threads);
        placed.extend(of_server(target.truth.as_ref(), declared));
        placed.push(exclusive_cpus(target.cpus.as_slice(), false));
    }
    placed
}

/// Whole CPUs that the first container of `pod` requests and is limited to.
fn whole_cpus(pod: &Pod) -> Option<u32> {
    let resources = pod.spec.as_ref()?.containers.first()?.resources.as_ref()?;
    let request = Room::of(resources.requests.as_ref()).cpus;
    let limit = Room::of(resources.limits.as_ref()).cpus;
    let exclusive = request > 0.0 && request.fract() == 0.0 && request.to_bits() == limit.to_bits();
    u32::try_from(whole(request)).ok().filter(|_| exclusive)
}

/// The CPUs that the server in `pod` may run on, as its observer sees them.
pub fn seen(pod: &Pod, observation: &Observation) -> Option<CpuSetRecord> {
    Some(CpuSetRecord {
        pod: pod.name_any(),
        node: servers::node_of(pod),
        serves: true,
        cpus: observation.cgroup.as_ref()?.cpuset.clone(),
        online: u32::try_from(observation.host.cpus).unwrap_or(0),
        whole_cpus: whole_cpus(pod),
    })
}

/// The nodes of `clients` and of the servers of `run` among all `pods`.
fn records(
    run: &ValidatedRun,
    clients: impl Iterator<Item = String>,
    all: &[Arc<Node>],
    pods: &[Arc<Pod>],
    prices: &Prices,
) -> Vec<NodeRecord> {
    let mut records: BTreeMap<String, NodeRecord> = BTreeMap::new();
    let key = servers::key(run);
    let servers =
        key.iter().flat_map(|key| servers::servers(pods, key)).filter_map(|pod| servers::node_of(pod));
    for (name, serves) in servers.map(|node| (node, true)).chain(clients.map(|node| (node, false))) {
        let node = all.iter().find(|node| node.name_any() == name);
        let record =
            records.entry(name.clone()).or_insert_with(|| record(name, node.map(Arc::as_ref), prices));
        record.serves |= serves;
        record.loads |= !serves;
    }
    records.into_values().collect()
}

/// The placement groups that the labels of `node` name.
fn groups(node: &Node) -> Vec<GroupRecord> {
    let evidence = [GroupEvidence::KarpenterLabel, GroupEvidence::Label];
    let reported = labels::PLACEMENT_GROUPS.into_iter().zip(evidence);
    let record =
        |(key, evidence)| Some(GroupRecord { evidence, group: Some(node.labels().get(key)?.clone()) });
    reported.filter_map(record).collect()
}

fn network_layers(node: &Node) -> Vec<String> {
    let value = |layer| node.labels().get(&format!("{}{layer}", labels::NETWORK_LAYER)).cloned();
    (1..=3).map_while(value).collect()
}

/// Its network's bandwidth by Karpenter's label, else by its instance type.
fn bandwidth(node: &Node, prices: &Prices) -> Option<u64> {
    let label = node.labels().get(labels::NETWORK_BANDWIDTH).and_then(|rate| rate.parse().ok());
    label.or_else(|| prices.network_megabits_per_second(node.labels().get(labels::INSTANCE_TYPE)?))
}

fn record(name: String, node: Option<&Node>, prices: &Prices) -> NodeRecord {
    let facts = node.map(nodes::facts);
    let system = node.and_then(|node| node.status.as_ref()?.node_info.as_ref());
    let millicpus = node.map(|node| whole((Room::of_node(node).cpus * 1e3).round()));
    NodeRecord {
        zone: facts.as_ref().and_then(|facts| facts.zone.clone()),
        placement_group: facts.as_ref().and_then(|facts| facts.placement_group.clone()),
        architecture: system.map(|system| system.architecture.clone()).filter(|it| !it.is_empty()),
        kernel: system.map(|system| system.kernel_version.clone()).filter(|it| !it.is_empty()),
        instance_type: facts.and_then(|facts| facts.instance_type),
        boot_id: system.map(|system| system.boot_id.clone()).filter(|id| !id.is_empty()),
        groups: node.map(groups).unwrap_or_default(),
        network_layers: node.map(network_layers).unwrap_or_default(),
        allocatable_millicpus: millicpus.filter(|cpus| *cpus > 0),
        network_megabits_per_second: node.and_then(|node| bandwidth(node, prices)),
        name,
        ..NodeRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run;
    use dragstrip_core::{labels, run::validate::validate};
    use serde_json::{Value, json};

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn server(datastore: &str, namespace: &str, node: &str) -> Arc<Pod> {
        object(json!({
            "metadata": {"name": format!("{datastore}-0"), "namespace": namespace, "labels": {
                (labels::COMPONENT): labels::SERVER, (labels::DATASTORE): datastore
            }},
            "spec": {"nodeName": node, "containers": []}
        }))
    }

    #[test]
    fn the_nodes_of_clients_and_of_the_runs_own_servers_are_recorded() {
        let run = validate(&run(&["read"], 1)).unwrap();
        let node = |name: &str, zone: &str| {
            object(json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"nodeInfo": {
                    "architecture": "", "bootID": format!("boot-{name}"), "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                    "operatingSystem": "", "osImage": "", "systemUUID": ""
                }}
            }))
        };
        let nodes = [node("client-a", "z1"), node("server-a", "z2"), node("server-b", "z2")];
        let pods = [
            server("redis", "races", "server-a"),
            server("redis", "others", "server-b"),
            server("other", "races", "server-b"),
        ];
        let found = records(&run, ["client-a".to_owned()].into_iter(), &nodes, &pods, &Prices::default());
        let reported: Vec<_> =
            found.iter().map(|node| (node.name.as_str(), node.serves, node.loads)).collect();
        assert_eq!(reported, [("client-a", false, true), ("server-a", true, false)]);
        assert_eq!(found[1].zone.as_deref(), Some("z2"));
        assert_eq!(found[1].boot_id.as_deref(), Some("boot-server-a"));
    }

    #[test]
    fn what_labels_and_the_table_of_instance_types_tell_of_a_node_is_recorded() {
        let node = |labels: Value| -> Node {
            serde_json::from_value(json!({
                "metadata": {"name": "n", "labels": labels},
                "status": {"allocatable": {"cpu": "7910m"}}
            }))
            .unwrap()
        };
        let prices = Prices::with("").unwrap();
        let of = |labels: Value| record("n".into(), Some(&node(labels)), &prices);
        let both = of(json!({
            "karpenter.k8s.aws/placement-group-id": "pg-1", "dragstrip.dev/placement-group": "fast",
            "node.kubernetes.io/instance-type": "c7i.2xlarge"
        }));
        let reported: Vec<_> = both.groups.iter().map(|one| (one.evidence, one.group.as_deref())).collect();
        assert_eq!(
            reported,
            [(GroupEvidence::KarpenterLabel, Some("pg-1")), (GroupEvidence::Label, Some("fast"))]
        );
        assert_eq!((both.allocatable_millicpus, both.network_megabits_per_second), (Some(7910), Some(3125)));
        assert!(both.network_layers.is_empty(), "a missing label is not a layer: {both:?}");
        let placed = of(
            json!({"topology.k8s.aws/network-node-layer-1": "nn-a", "topology.k8s.aws/network-node-layer-2": "nn-b",
            "topology.k8s.aws/network-node-layer-3": "nn-c"}),
        );
        assert_eq!(placed.network_layers, ["nn-a", "nn-b", "nn-c"]);
        let karpenter = of(json!({"karpenter.k8s.aws/instance-network-bandwidth": "12500",
            "node.kubernetes.io/instance-type": "c7i.2xlarge"}));
        assert_eq!(karpenter.network_megabits_per_second, Some(12_500), "the label counts before the table");
        let gone = record("n".into(), None, &prices);
        assert_eq!((gone.groups, gone.allocatable_millicpus), (vec![], None));
    }

    #[test]
    fn only_equal_and_whole_requests_and_limits_ask_for_cpus_of_their_own() {
        let pod = |requests: &str, limits: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "server", "resources": {"requests": {"cpu": requests}, "limits": {"cpu": limits}}}
            ]}}))
            .unwrap()
        };
        for (requests, limits, complete) in
            [("4", "4", Some(4)), ("4", "4000m", Some(4)), ("4", "5", None), ("1500m", "1500m", None)]
        {
            assert_eq!(whole_cpus(&pod(requests, limits)), complete, "{requests} of {limits}");
        }
    }
}

//! The addresses of a Datastore's servers. Pure.

use crate::cluster::pods;
use dragstrip_core::datastore::shape::Shape;
use dragstrip_crds::DatastoreSpec;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{net::SocketAddr, sync::Arc};

/// A server: its pod, its node and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub pod: String,
    pub node: Option<String>,
    pub address: SocketAddr,
}

/// Every server whose pod has an address, by pod and port.
pub fn places(spec: &DatastoreSpec, pods: &[Arc<Pod>]) -> Vec<Place> {
    let shape = Shape::of(spec);
    let servers_of = |pod: &Arc<Pod>| {
        let (node, name) = (pod.spec.as_ref().and_then(|spec| spec.node_name.clone()), pod.name_any());
        let place = move |address| Place { pod: name.clone(), node: node.clone(), address };
        let address = pods::address(pod);
        let addresses = address.map(|ip| shape.ports(spec).map(move |port| SocketAddr::new(ip, port)));
        addresses.into_iter().flatten().map(place).collect::<Vec<_>>()
    };
    pods.iter().flat_map(servers_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::protocol::TopologyCommand;
    use serde_json::{Value, json};

    fn spec(more: Value) -> DatastoreSpec {
        let mut spec = json!({"engine": "Redis", "threads": 1, "port": 7000});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn pod(name: &str, ip: &str) -> Arc<Pod> {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"containers": [], "nodeName": "worker"}, "status": {"podIP": ip}
        }));
        Arc::new(pod.unwrap())
    }

    #[test]
    fn a_cluster_on_one_node_is_one_pod_with_a_port_for_each_shard() {
        let spec = spec(json!({"cluster": {"shards": 3}}));
        let shape = Shape::of(&spec);
        assert_eq!((shape.pods(), shape.servers()), (1, 3));
        let places = places(&spec, &[pod("racer-0", "10.0.0.7")]);
        let texts: Vec<_> = places.iter().map(|place| place.address.to_string()).collect();
        assert_eq!(texts, ["10.0.0.7:7000", "10.0.0.7:7001", "10.0.0.7:7002"]);
        assert!(places.iter().all(|place| place.pod == "racer-0" && place.node.as_deref() == Some("worker")));
    }

    #[test]
    fn the_replicas_of_a_cluster_come_after_all_its_shards() {
        let spec = spec(json!({"cluster": {"shards": 3, "replicas": 1}}));
        assert_eq!((Shape::of(&spec).pods(), Shape::of(&spec).servers()), (1, 6));
        let places = places(&spec, &[pod("racer-0", "10.0.0.7")]);
        let addresses = places.iter().map(|place| place.address).collect();
        let Some(TopologyCommand::Cluster { members, replicas }) = Shape::of(&spec).command(addresses) else {
            panic!("no command for a cluster")
        };
        assert_eq!((members[2].port(), replicas[0].port(), replicas.len()), (7002, 7003, 3));
    }

    #[test]
    fn a_spread_cluster_is_a_pod_for_each_shard() {
        let spec = spec(json!({"cluster": {"shards": 3, "placement": "Spread"}}));
        assert_eq!((Shape::of(&spec).pods(), Shape::of(&spec).servers_per_pod()), (3, 1));
        let places = places(&spec, &[pod("racer-0", "10.0.0.1"), pod("racer-1", "10.0.0.2")]);
        let Some(TopologyCommand::Cluster { members, .. }) =
            Shape::of(&spec).command(places.iter().map(|place| place.address).collect())
        else {
            panic!("no command for a cluster")
        };
        assert_eq!(members, ["10.0.0.1:7000".parse().unwrap(), "10.0.0.2:7000".parse().unwrap()]);
    }

    #[test]
    fn the_first_pod_is_the_primary() {
        let shape = Shape::of(&spec(json!({"replicas": 2})));
        assert_eq!(shape.pods(), 3);
        let at = |text: &str| text.parse().unwrap();
        let command = shape.command(vec![at("10.0.0.1:7000"), at("10.0.0.2:7000"), at("10.0.0.3:7000")]);
        let Some(TopologyCommand::Replication { primary, replicas }) = command else { panic!("{command:?}") };
        assert_eq!((primary, replicas.len()), (at("10.0.0.1:7000"), 2));
    }

    #[test]
    fn one_server_needs_no_command() {
        assert_eq!(Shape::of(&spec(json!({}))).command(vec!["10.0.0.1:7000".parse().unwrap()]), None);
    }
}

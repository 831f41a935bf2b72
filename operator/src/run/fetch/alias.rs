//! Which Datastore of ours an external address is: a server has one Lease, however addressed. Pure.

use dragstrip_core::{labels, run::decide::DatastoreKey};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{net::IpAddr, sync::Arc};

/// The Datastores that `host` may name, longest form first: POD.SERVICE.NAMESPACE.svc,
/// SERVICE.NAMESPACE.svc, and what a pod's resolver completes in `namespace`: SERVICE.NAMESPACE
/// and SERVICE.
fn names(host: &str, namespace: &str) -> Vec<DatastoreKey> {
    let key = |name: &str, namespace: &str| DatastoreKey { namespace: namespace.into(), name: name.into() };
    let labels: Vec<&str> = host.split('.').collect();
    // Whatever follows .svc is the cluster's own domain.
    match labels.iter().position(|label| *label == "svc") {
        Some(at @ 2..) => vec![key(labels[at - 2], labels[at - 1])],
        _ => match labels.as_slice() {
            [name] => vec![key(name, namespace)],
            // A resolver completes POD.SERVICE as it does SERVICE.NAMESPACE: try both.
            [first, second] => vec![key(first, second), key(second, namespace)],
            [_, name, namespace] => vec![key(name, namespace)],
            _ => Vec::new(),
        },
    }
}

fn is_server(pod: &Pod) -> bool {
    pod.labels().get(labels::COMPONENT).is_some_and(|component| component == labels::SERVER)
}

fn has_address(pod: &Pod, address: IpAddr) -> bool {
    let status = pod.status.as_ref();
    let one = status.and_then(|status| status.pod_ip.as_deref());
    let all = status.iter().flat_map(|status| status.pod_ips.iter().flatten()).map(|ip| ip.ip.as_str());
    one.into_iter().chain(all).any(|ip| ip.parse() == Ok(address))
}

/// The Datastore that clients in `namespace` reach at `host`, by the name of its
/// Service or one of its pods, in any spelling, or by a pod's address; `None` if it is outside
/// the cluster. `exists` says whether there is such a Datastore.
pub fn datastore_at(
    host: &str,
    namespace: &str,
    pods: &[Arc<Pod>],
    exists: impl Fn(&DatastoreKey) -> bool,
) -> Option<DatastoreKey> {
    if let Ok(address) = host.parse::<IpAddr>() {
        let pod = pods.iter().find(|pod| is_server(pod) && has_address(pod, address))?;
        let name = pod.labels().get(labels::DATASTORE)?.clone();
        return Some(DatastoreKey { namespace: pod.namespace()?, name });
    }
    let host = host.trim_end_matches('.').to_lowercase();
    names(&host, namespace).into_iter().find(exists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(host: &str) -> Option<String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "redis-0", "namespace": "races", "labels": {
                labels::COMPONENT: labels::SERVER, labels::DATASTORE: "redis"
            }},
            "status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::7"}]}
        }))
        .unwrap();
        let exists = |key: &DatastoreKey| (key.namespace.as_str(), key.name.as_str()) == ("races", "redis");
        datastore_at(host, "races", &[Arc::new(pod)], exists)
            .map(|key| format!("{}/{}", key.namespace, key.name))
    }

    #[test]
    fn every_spelling_of_a_datastores_address_is_that_datastore() {
        for host in [
            "redis",
            "REDIS",
            "redis.races",
            "redis.races.svc",
            "Redis.Races.SVC.",
            "redis.races.svc.cluster.local",
            "redis.races.svc.my.own.domain.",
            "redis-0.redis",
            "redis-0.redis.races",
            "redis-0.redis.races.svc.cluster.local",
            "10.1.2.3",
            "fd00:0:0::7",
        ] {
            assert_eq!(found(host).as_deref(), Some("races/redis"), "{host} was taken for an outsider");
        }
    }

    #[test]
    fn an_outsider_is_no_datastore() {
        for host in ["redis.example.com", "redis.elsewhere.svc", "valkey", "10.1.2.4", "svc", "a.b.c.d"] {
            assert_eq!(found(host), None, "{host} was taken for a Datastore");
        }
    }
}

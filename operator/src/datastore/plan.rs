//! Decides what the existing objects of a Datastore need. Pure.

use dragstrip_core::labels;
use dragstrip_crds::Datastore;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Service, ServiceSpec},
};
use kube::{Resource, ResourceExt};

/// An object with a name that the Datastore needs, which it must not touch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    #[error(
        "there is a {0} in namespace {1} that does not belong to this Datastore: delete it, or give the Datastore another name"
    )]
    Taken(String, String),
    #[error(
        "the {0} in namespace {1}, of an earlier Datastore or deleted by hand, is still being deleted: the operator creates a new one after that"
    )]
    Leaving(String, String),
}

/// Fails unless `object` belongs to the Datastore with this `uid` and is not being deleted.
pub fn ours<K: Resource<DynamicType = ()>>(object: &K, uid: &str) -> Result<(), NotOurs> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    let leaving = object.meta().deletion_timestamp.is_some();
    let name = format!("{} named {}", K::kind(&()), object.name_any());
    let namespace = object.namespace().unwrap_or_default();
    match owner {
        Some(owner) if owner.uid == uid && !leaving => Ok(()),
        // The garbage collector removes the objects of a Datastore that is gone.
        Some(owner)
            if owner.kind == Datastore::kind(&()) && owner.api_version == Datastore::api_version(&()) =>
        {
            Err(NotOurs::Leaving(name, namespace))
        }
        _ if leaving => Err(NotOurs::Leaving(name, namespace)),
        _ => Err(NotOurs::Taken(name, namespace)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    /// The declared number of pods, which somebody has changed.
    Rescale,
    /// A new template: the Datastore has changed since the old one was built.
    Rebuild,
}

pub fn built_for(stateful_set: &StatefulSet) -> Option<i64> {
    stateful_set.annotations().get(labels::BUILT_FOR)?.parse().ok()
}

/// What `existing` needs so that it has the template of `generation` and `pods` pods. Generations are
/// compared instead of templates, because another version of the operator may build another template of
/// the same declaration, which is not a reason to restart a server.
pub fn change(existing: &StatefulSet, generation: i64, pods: i32) -> Change {
    let replicas = existing.spec.as_ref().and_then(|spec| spec.replicas);
    if built_for(existing) != Some(generation) {
        Change::Rebuild
    } else if replicas == Some(pods) {
        Change::None
    } else {
        Change::Rescale
    }
}

/// The part of a Service's spec that the operator declares; the API server adds the rest.
fn declared(spec: Option<&ServiceSpec>) -> impl PartialEq {
    let ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<_> = ports.map(|port| (port.name.clone(), port.port)).collect();
    (
        ports,
        spec.and_then(|spec| spec.selector.clone()),
        spec.and_then(|spec| spec.publish_not_ready_addresses),
    )
}

/// `existing` with what `wanted` declares, if that differs.
pub fn corrected(existing: &Service, wanted: &Service) -> Option<Service> {
    if declared(existing.spec.as_ref()) == declared(wanted.spec.as_ref()) {
        return None;
    }
    let mut corrected = existing.clone();
    let spec = corrected.spec.get_or_insert_default();
    let wanted = wanted.spec.clone().unwrap_or_default();
    spec.ports = wanted.ports;
    spec.selector = wanted.selector;
    spec.publish_not_ready_addresses = wanted.publish_not_ready_addresses;
    Some(corrected)
}

/// `wanted` as the replacement of `existing`, on condition that `existing` has not changed.
pub fn replacement(existing: &StatefulSet, mut wanted: StatefulSet) -> StatefulSet {
    let metadata = &existing.metadata;
    wanted.metadata.uid.clone_from(&metadata.uid);
    wanted.metadata.resource_version.clone_from(&metadata.resource_version);
    for (key, value) in existing.annotations() {
        wanted.annotations_mut().entry(key.clone()).or_insert_with(|| value.clone());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn stateful_set(metadata: Value, replicas: i32) -> StatefulSet {
        let mut all = json!({"name": "racer", "namespace": "pits"});
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": all,
            "spec": {"replicas": replicas, "selector": {}, "serviceName": "racer", "template": {}},
        }))
        .unwrap()
    }

    fn owned(kind: &str, uid: &str) -> Value {
        let version = if kind == "Datastore" { "dragstrip.dev/v1alpha1" } else { "v1" };
        json!([{"apiVersion": version, "kind": kind, "name": "racer", "uid": uid, "controller": true}])
    }

    #[test]
    fn only_objects_of_this_datastore_are_ours() {
        let of = |metadata: Value| ours(&stateful_set(metadata, 1), "me").map_err(|error| error.to_string());
        assert_eq!(of(json!({"ownerReferences": owned("Datastore", "me")})), Ok(()));
        let earlier = of(json!({"ownerReferences": owned("Datastore", "before")})).unwrap_err();
        assert!(earlier.contains("still being deleted"), "{earlier}");
        let leaving = of(json!({
            "ownerReferences": owned("Datastore", "me"), "deletionTimestamp": "2026-01-01T00:00:00Z"
        }));
        assert!(leaving.unwrap_err().contains("still being deleted"));
        for stranger in [json!({}), json!({"ownerReferences": owned("Helm", "me-not")})] {
            let reported = of(stranger).unwrap_err();
            assert!(reported.contains("StatefulSet named racer in namespace pits"), "{reported}");
            assert!(reported.contains("delete it, or give the Datastore another name"), "{reported}");
        }
    }

    #[test]
    fn a_template_is_built_once_for_each_generation() {
        let built_for = |generation: &str, replicas| {
            stateful_set(json!({"annotations": {"dragstrip.dev/built-for-generation": generation}}), replicas)
        };
        assert_eq!(change(&built_for("3", 1), 3, 1), Change::None, "whatever its template is");
        assert_eq!(change(&built_for("2", 1), 3, 1), Change::Rebuild);
        assert_eq!(change(&built_for("3", 4), 3, 1), Change::Rescale);
        assert_eq!(change(&built_for("2", 4), 3, 1), Change::Rebuild);
    }

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "racer", "resourceVersion": "7"}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn a_service_is_written_only_where_what_we_declare_differs() {
        let wanted = service(json!({"clusterIP": "None", "ports": [{"name": "resp", "port": 7000}],
            "selector": {"a": "b"}, "publishNotReadyAddresses": true}));
        let mut stored = json!({
            "clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"], "sessionAffinity": "None",
            "ports": [{"name": "resp", "port": 7000, "protocol": "TCP", "targetPort": 7000}],
            "selector": {"a": "b"}, "publishNotReadyAddresses": true,
        });
        assert_eq!(corrected(&service(stored.clone()), &wanted), None);
        stored["ports"][0]["port"] = json!(6379);
        let corrected = corrected(&service(stored), &wanted).unwrap();
        assert_eq!(corrected.metadata.resource_version.as_deref(), Some("7"), "only if it is still that one");
        assert_eq!(corrected.spec.as_ref().unwrap().cluster_ips, Some(vec!["None".to_owned()]));
        assert_eq!(corrected.spec.unwrap().ports.unwrap()[0].port, 7000);
    }
}

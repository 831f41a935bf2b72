//! The server that answers at once, in place of a Datastore, and what of a load it can be given. Pure.

use dragstrip_crds::Datastore;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// The sidecar whose image contains that server.
const OBSERVER: &str = "observer";
/// Fields of a phase that need a real datastore, or make it more than one measurement.
const LEFT_OUT: [&str; 6] = ["load", "flush", "memory", "minimumHitRatio", "allowEviction", "search"];

/// The phases that only read and write keys, without what that server cannot do.
pub fn phases(declared: &Value) -> Value {
    let simple = |phase: &&Value| phase.get("loadgen").is_some() || phase.get("memtier").is_some();
    let mut phases: Vec<Value> = declared.as_array().into_iter().flatten().filter(simple).cloned().collect();
    for fields in phases.iter_mut().filter_map(Value::as_object_mut) {
        fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    }
    json!(phases)
}

/// A Datastore of that server on the node of `pod`, a server of `datastore`; `None` if it has no node yet.
pub fn server(datastore: &Datastore, pod: &Pod) -> Option<Value> {
    let spec = pod.spec.as_ref()?;
    let observer = spec.init_containers.iter().flatten().find(|one| one.name == OBSERVER)?;
    let mut placement = datastore.spec.placement.clone();
    placement.node_selector.insert("kubernetes.io/hostname".to_owned(), spec.node_name.clone()?);
    Some(json!({
        "engine": "Custom",
        "image": observer.image,
        "threads": 1,
        "custom": {"command": ["/dragstrip-loadgen", "answer"], "protocol": "Resp"},
        "placement": placement
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_phases_of_plain_reads_and_writes_have_a_floor() {
        let declared = json!([{"name": "a", "memtier": {}, "search": {}}, {"name": "b", "bullmq": {}}]);
        assert_eq!(phases(&declared), json!([{"name": "a", "memtier": {}}]));
    }
}

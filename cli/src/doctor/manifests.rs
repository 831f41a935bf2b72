//! Whether the nodes have room for what manifests declare. Pure.

use super::{
    finding::{Finding, ok, warn},
    nodes::usable,
};
use crate::validate::Object;
use dragstrip_core::{
    datastore::{
        resources::{of_client, of_pod},
        room::{Room, most_cpus},
    },
    nodes::selected,
    run::validate::client_needs,
    suite::expand::expand,
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, DatastoreSpec, datastore::Placement};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

/// Whether one of `nodes` that `placement` means has room for `needed`.
fn room(what: &str, placement: &Placement, nodes: &[Node], needed: Room) -> Finding {
    let meant: Vec<&Node> = nodes.iter().filter(|node| usable(node) && selected(node, placement)).collect();
    if meant.is_empty() {
        return warn(
            format!("room: no usable node has the labels that {what} asks for"),
            "label a node, change placement, or let an autoscaler make one",
        );
    }
    if let Some(node) = meant.iter().find(|node| Room::of_node(node).holds(needed)) {
        ok(format!("room: {what} requests {needed}, and {} has {}", node.name_any(), Room::of_node(node)))
    } else {
        let most = meant.iter().map(|node| format!("{} has {}", node.name_any(), Room::of_node(node)));
        warn(
            format!(
                "room: {what} requests {needed}, and no node that it means is so large: {}",
                most.collect::<Vec<_>>().join(", ")
            ),
            "ask for less (resources, threads, maxMemory), or take a larger machine",
        )
    }
}

fn server(name: &str, spec: &DatastoreSpec, nodes: &[Node]) -> Finding {
    let meant: Vec<&Node> = nodes.iter().filter(|node| usable(node)).collect();
    room(
        &format!("the server of {name}"),
        &spec.placement,
        nodes,
        of_pod(spec, most_cpus(&meant, &spec.placement)),
    )
}

fn clients(run: &BenchmarkRun, nodes: &[Node]) -> Finding {
    let clients = &run.spec.clients;
    let requested = of_client(clients, client_needs(&run.spec, true)).requests;
    let what = format!("each client of {}", run.name_any());
    room(&what, &clients.placement, nodes, Room::of(requested.as_ref()))
}

/// Of the server and the clients of `run`.
fn of_run(run: &BenchmarkRun, nodes: &[Node]) -> Vec<Finding> {
    let own = run.spec.target.datastore.as_ref();
    let server = own.map(|spec| server(&run.name_any(), spec, nodes));
    server.into_iter().chain([clients(run, nodes)]).collect()
}

/// Of the runs of `suite`: of those of one variant that need the same, once.
fn of_suite(suite: &BenchmarkSuite, nodes: &[Node]) -> Vec<Finding> {
    let mut found = Vec::new();
    // Of a suite that cannot be expanded its faults tell.
    for child in expand(suite).map(|expanded| expanded.runs).unwrap_or_default() {
        let name = format!("{}, variant {}", suite.name_any(), child.cell.variant);
        for finding in of_run(&BenchmarkRun::new(&name, child.spec), nodes) {
            if !found.contains(&finding) {
                found.push(finding);
            }
        }
    }
    found
}

/// Of every server and client that `objects` declare, and that `suites` would make.
pub fn manifests(objects: &[Object], suites: &[BenchmarkSuite], nodes: &[Node]) -> Vec<Finding> {
    let of_objects = objects.iter().flat_map(|object| match object {
        Object::Datastore(datastore) => vec![server(&datastore.name_any(), &datastore.spec, nodes)],
        Object::Run(run) => of_run(run, nodes),
        Object::Suite => Vec::new(),
    });
    of_objects.chain(suites.iter().flat_map(|suite| of_suite(suite, nodes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{
        finding::Level,
        nodes::tests::{node, told},
    };
    use dragstrip_crds::Datastore;
    use serde_json::json;

    fn datastore(cpu: &str, selector: &serde_json::Value) -> Object {
        let spec = json!({"engine": "Redis", "threads": 1, "maxMemory": "64Mi",
            "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}, "placement": {"nodeSelector": selector}});
        Object::Datastore(Box::new(Datastore::new("redis", serde_json::from_value(spec).unwrap())))
    }

    fn large(name: &str) -> Node {
        let mut node = node(name, None, "4");
        let amounts = json!({"cpu": "4", "memory": "8Gi"});
        node.status.as_mut().unwrap().allocatable = serde_json::from_value(amounts).unwrap();
        node
    }

    #[test]
    fn a_server_that_is_larger_than_every_node_is_told_with_both_sizes() {
        let nodes = [large("a")];
        for (object, level, words) in [
            (datastore("2", &json!({})), Level::Ok, "and a has 4 CPUs"),
            (datastore("8", &json!({})), Level::Warn, "no node that it means is so large: a has 4 CPUs"),
            (datastore("2", &json!({"disk": "fast"})), Level::Warn, "no usable node has the labels"),
        ] {
            let (levels, text) = told(&manifests(&[object], &[], &nodes));
            assert_eq!(levels, [level], "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn of_a_suite_each_size_of_server_that_a_variant_takes_is_told_once() {
        let suite: BenchmarkSuite = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite", "metadata": {"name": "engines"},
            "spec": {
                "variants": [{"name": "redis", "target": {"datastore": {"engine": "Redis", "threads": 1, "maxMemory": "64Mi"}}}],
                "axes": [{"name": "cpu", "paths": ["/target/datastore/resources"], "values": [
                    {"name": "small", "value": {"requests": {"cpu": "2", "memory": "128Mi"}}},
                    {"name": "large", "value": {"requests": {"cpu": "8", "memory": "128Mi"}}}
                ]}],
                "run": {"phases": [{"name": "read", "loadgen": {"duration": "5s"}}]}, "repetitions": 3
            }
        }))
        .unwrap();
        let (levels, text) = told(&manifests(&[], &[suite], &[large("a")]));
        let servers = text.matches("room: the server of engines, variant redis requests").count();
        let clients = text.matches("room: each client of engines, variant redis requests").count();
        assert_eq!((servers, clients), (2, 1), "{text}");
        assert!(levels.contains(&Level::Warn), "eight CPUs are too many: {text}");
    }
}

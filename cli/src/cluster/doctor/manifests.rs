//! Whether the nodes have room for the objects of manifests. Pure.

use super::{
    finding::{Finding, ok, warn},
    nodes::usable,
};
use crate::manifests::check::Object;
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

/// Whether one of the nodes that `placement` selects has room for `needed`.
fn fits(what: &str, placement: &Placement, nodes: &[Node], needed: Room) -> Finding {
    let selected: Vec<&Node> =
        nodes.iter().filter(|node| usable(node) && selected(node, placement)).collect();
    if selected.is_empty() {
        return warn(
            format!("room: no usable node has the labels that {what} requires"),
            "label a node, change the placement, or let an autoscaler add one",
        );
    }
    if let Some(node) = selected.iter().find(|node| Room::of_node(node).holds(needed)) {
        ok(format!("room: {what} requests {needed}, and {} has {}", node.name_any(), Room::of_node(node)))
    } else {
        let most = selected.iter().map(|node| format!("{} has {}", node.name_any(), Room::of_node(node)));
        warn(
            format!(
                "room: {what} requests {needed}, and no selected node is that large: {}",
                most.collect::<Vec<_>>().join(", ")
            ),
            "request less (resources, threads, maxMemory), or use a larger machine",
        )
    }
}

fn server(name: &str, spec: &DatastoreSpec, nodes: &[Node]) -> Finding {
    let usable: Vec<&Node> = nodes.iter().filter(|node| usable(node)).collect();
    fits(
        &format!("the server of {name}"),
        &spec.placement,
        nodes,
        of_pod(spec, most_cpus(&usable, &spec.placement)),
    )
}

fn clients(run: &BenchmarkRun, nodes: &[Node]) -> Finding {
    let clients = &run.spec.clients;
    let requested = of_client(clients, client_needs(&run.spec, true)).requests;
    let what = format!("each client of {}", run.name_any());
    fits(&what, &clients.placement, nodes, Room::of(requested.as_ref()))
}

fn of_run(run: &BenchmarkRun, nodes: &[Node]) -> Vec<Finding> {
    let own = run.spec.target.datastore();
    let server = own.map(|spec| server(&run.name_any(), spec, nodes));
    server.into_iter().chain([clients(run, nodes)]).collect()
}

/// The runs of `suite`; runs of one variant that need the same are reported once.
fn of_suite(suite: &BenchmarkSuite, nodes: &[Node]) -> Vec<Finding> {
    let mut found = Vec::new();
    // A valid suite can be expanded.
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

/// Whether `nodes` have room for every server and client of `objects`.
pub fn room(objects: &[Object], nodes: &[Node]) -> Vec<Finding> {
    let findings = objects.iter().flat_map(|object| match object {
        Object::Datastore(datastore) => vec![server(&datastore.name_any(), &datastore.spec, nodes)],
        Object::Run(run) => of_run(run, nodes),
        Object::Suite(suite) => of_suite(suite, nodes),
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{
        finding::Level,
        nodes::tests::{node, summary},
    };
    use super::*;
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
    fn a_server_that_is_larger_than_every_node_is_reported_with_both_sizes() {
        let nodes = [large("a")];
        for (object, level, words) in [
            (datastore("2", &json!({})), Level::Ok, "and a has 4 CPUs"),
            (datastore("8", &json!({})), Level::Warn, "no selected node is that large: a has 4 CPUs"),
            (datastore("2", &json!({"disk": "fast"})), Level::Warn, "no usable node has the labels"),
        ] {
            let (levels, text) = summary(&room(&[object], &nodes));
            assert_eq!(levels, [level], "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn each_size_of_server_in_a_suite_is_reported_once() {
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
        let (levels, text) = summary(&room(&[Object::Suite(Box::new(suite))], &[large("a")]));
        let servers = text.matches("room: the server of engines, variant redis requests").count();
        let clients = text.matches("room: each client of engines, variant redis requests").count();
        assert_eq!((servers, clients), (2, 1), "{text}");
        assert!(levels.contains(&Level::Warn), "eight CPUs are too many: {text}");
    }
}

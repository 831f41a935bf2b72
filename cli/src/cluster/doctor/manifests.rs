//! Whether the nodes have room, CPUs and images for the objects of manifests. Pure.

use super::{
    finding::{Finding, ok, skip, warn},
    nodes::usable,
};
use crate::manifests::check::Object;
use dragstrip_core::{
    datastore::{
        engines,
        resources::{of_client, of_pod},
        room::{Room, most_cpus},
    },
    nodes::selected,
    run::validate::client_needs,
    suite::expand::expand,
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, DatastoreSpec, datastore::Placement, workload::ToolSpec};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use std::collections::BTreeSet;

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

/// Whether a selected node has a CPU for each thread of a server, if it has fewer.
fn threads(name: &str, spec: &DatastoreSpec, most: Option<f64>) -> Option<Finding> {
    let cpus = most.filter(|cpus| *cpus < f64::from(spec.threads))?;
    Some(warn(
        format!(
            "threads: the server of {name} has {} threads, and no selected node more than {cpus} CPUs",
            spec.threads
        ),
        "declare fewer threads, or use a larger machine: threads that share a CPU wait for each other",
    ))
}

/// `image` with the registry and path that container runtimes add.
fn complete(image: &str) -> String {
    match image.split_once('/') {
        None => format!("docker.io/library/{image}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
    }
}

/// That `image` must be pulled before it can run, if no node has it.
fn absent_image(image: &str, nodes: &[Node]) -> Option<Finding> {
    let present = nodes.iter().filter_map(|node| node.status.as_ref()?.images.as_ref()).flatten();
    let mut names = present.flat_map(|image| image.names.iter().flatten());
    let image = complete(image);
    (!names.any(|name| complete(name) == image)).then(|| {
        skip(
            format!("image: {image} is on no node, and whether the nodes can pull it was not checked"),
            "watch the condition Ready or ClientsReady of its first object",
        )
    })
}

fn server(name: &str, spec: &DatastoreSpec, nodes: &[Node]) -> Vec<Finding> {
    let usable: Vec<&Node> = nodes.iter().filter(|node| usable(node)).collect();
    let most = most_cpus(&usable, &spec.placement);
    let room = fits(&format!("the server of {name}"), &spec.placement, nodes, of_pod(spec, most));
    let image = absent_image(&engines::image(spec), nodes);
    [room].into_iter().chain(threads(name, spec, most)).chain(image).collect()
}

fn clients(run: &BenchmarkRun, nodes: &[Node]) -> Finding {
    let clients = &run.spec.clients;
    let requested = of_client(clients, client_needs(&run.spec, true)).requests;
    let what = format!("each client of {}", run.name_any());
    fits(&what, &clients.placement, nodes, Room::of(requested.as_ref()))
}

fn of_run(run: &BenchmarkRun, nodes: &[Node]) -> Vec<Finding> {
    let own = run.spec.target.datastore();
    let server = own.into_iter().flat_map(|spec| server(&run.name_any(), spec, nodes));
    // The chart's values name the images of the other phases.
    let images = run.spec.phases.iter().filter_map(|phase| match &phase.tool {
        ToolSpec::Exec(exec) => Some(exec.image.as_str()),
        ToolSpec::Memtier(memtier) => memtier.image.as_deref(),
        ToolSpec::Bullmq(bullmq) => bullmq.image.as_deref(),
        ToolSpec::Loadgen(_) => None,
    });
    let images: BTreeSet<&str> = images.collect();
    let images = images.into_iter().filter_map(|image| absent_image(image, nodes));
    server.chain([clients(run, nodes)]).chain(images).collect()
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
pub fn room<'a>(objects: impl Iterator<Item = &'a Object>, nodes: &[Node]) -> Vec<Finding> {
    let findings = objects.flat_map(|object| match object {
        Object::Datastore(datastore) => server(&datastore.name_any(), &datastore.spec, nodes),
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
            let (levels, text) = summary(&room([&object].into_iter(), &nodes));
            assert_eq!(levels[0], level, "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn threads_beyond_every_node_and_images_that_no_node_has_are_reported() {
        let declared = |image: &str, threads: u32| {
            let spec = json!({"engine": "Redis", "threads": threads, "maxMemory": "64Mi", "image": image,
                "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}});
            Object::Datastore(Box::new(Datastore::new("redis", serde_json::from_value(spec).unwrap())))
        };
        let mut node = large("a");
        let images = json!([{"names": ["docker.io/library/redis:8.2"]}]);
        node.status.as_mut().unwrap().images = serde_json::from_value(images).unwrap();
        let found = |object: Object| summary(&room([&object].into_iter(), std::slice::from_ref(&node)));
        let (levels, text) = found(declared("redis:8.2", 8));
        assert_eq!(levels, [Level::Ok, Level::Warn], "{text}");
        assert!(text.contains("redis has 8 threads, and no selected node more than 4 CPUs"), "{text}");
        let (levels, text) = found(declared("example.com/redis:8.2", 4));
        assert_eq!(levels, [Level::Ok, Level::Skip], "{text}");
        assert!(text.contains("image: example.com/redis:8.2 is on no node"), "{text}");
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
        let (levels, text) = summary(&room([&Object::Suite(Box::new(suite))].into_iter(), &[large("a")]));
        let servers = text.matches("room: the server of engines, variant redis requests").count();
        let clients = text.matches("room: each client of engines, variant redis requests").count();
        assert_eq!((servers, clients), (2, 1), "{text}");
        assert!(levels.contains(&Level::Warn), "eight CPUs are too many: {text}");
    }
}

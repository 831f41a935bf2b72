//! Every manifest of examples/ is one that the apiserver would take and the
//! operator can work with, on nodes that are large enough, and fits the machines
//! that it names. Reads those files.

// A manifest that cannot be read fails its test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dragstrip_core::{
    datastore::{
        self,
        resources::{DAEMONS, of_client, of_helper, of_pod},
        room::{Room, most_cpus},
    },
    nodes::wants,
    run::{self, validate::client_needs},
    suite::expand::expand,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunSpec, BenchmarkSuite, Datastore, DatastoreSpec, datastore::Placement,
};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity};
use kube::{
    CustomResourceExt,
    core::cel::{CompiledSchema, compile_schema, validate_compiled},
};
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

fn manifests(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { manifests(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect()
}

/// Whether `object` is of one of the project's own kinds; certificates are cert-manager's.
fn ours(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("dragstrip.dev/"))
}

/// A node with more CPUs than any example asks for, and the labels it selects by.
fn node(placement: &Placement) -> Node {
    let wants = wants(placement).into_iter();
    let labels: BTreeMap<_, _> = wants.filter_map(|want| want.labels.into_iter().next()).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "large", "labels": labels},
        "status": {"allocatable": {"cpu": "192", "memory": "768Gi"}},
    }))
    .unwrap()
}

// Compiled once: `validate_cel` makes the schema anew for each object, which takes most of a minute.
static DATASTORE_RULES: LazyLock<CompiledSchema> = LazyLock::new(rules::<Datastore>);
static RUN_RULES: LazyLock<CompiledSchema> = LazyLock::new(rules::<BenchmarkRun>);

fn rules<K: CustomResourceExt>() -> CompiledSchema {
    let schema = K::crd().spec.versions.remove(0).schema.unwrap().open_api_v3_schema;
    compile_schema(&serde_json::to_value(schema).unwrap())
}

fn admitted(object: &impl Serialize, rules: &CompiledSchema) -> Result<(), String> {
    let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    validate_compiled(rules, &object, None).map_err(|errors| format!("{errors:?}"))
}

fn datastore_complaint(declared: &Datastore) -> Result<(), String> {
    admitted(declared, &DATASTORE_RULES)?;
    let nodes = [node(&declared.spec.placement)];
    datastore::validate::validate(declared, &nodes).map(drop).map_err(|invalid| invalid.to_string())
}

fn run_complaint(declared: &BenchmarkRun) -> Result<(), String> {
    admitted(declared, &RUN_RULES)?;
    run::validate::validate(declared).map(drop).map_err(|invalid| invalid.to_string())
}

/// The first run of each variant as the apiserver would see it. The rules of the suite's own
/// schema are left to the apiserver, which takes every example in `make test-chart`.
fn suite_complaint(declared: &BenchmarkSuite) -> Result<(), String> {
    let runs = expand(declared).map_err(|invalid| invalid.to_string())?.runs;
    let mut seen = BTreeSet::new();
    let firsts = runs.into_iter().filter(|run| seen.insert(run.cell.variant.clone()));
    firsts.into_iter().try_for_each(|child| {
        let mut run = BenchmarkRun::new(&child.name, child.spec);
        run.metadata.namespace = Some("races".to_owned());
        run.metadata.uid = Some("uid".to_owned());
        run_complaint(&run).map_err(|why| format!("{}: {why}", child.name))
    })
}

/// What admission or the operator says against `object`, as the apiserver would hand it over.
fn complaint(mut object: Value) -> String {
    object["metadata"]["namespace"] = json!("races");
    object["metadata"]["uid"] = json!("uid");
    let taken = match object["kind"].as_str() {
        Some("Datastore") => serde_json::from_value(object)
            .map_err(|error| error.to_string())
            .and_then(|it| datastore_complaint(&it)),
        Some("BenchmarkRun") => serde_json::from_value(object)
            .map_err(|error| error.to_string())
            .and_then(|it| run_complaint(&it)),
        Some("BenchmarkSuite") => serde_json::from_value(object)
            .map_err(|error| error.to_string())
            .and_then(|it| suite_complaint(&it)),
        other => Err(format!("kind {other:?} is not one of the project's")),
    };
    taken.err().unwrap_or_default()
}

/// vCPUs and GiB of the instance types that examples name.
const INSTANCE_TYPES: [(&str, u32, f64); 9] = [
    ("c6gn.12xlarge", 48, 96.0),
    ("c6in.12xlarge", 48, 96.0),
    ("c7gn.12xlarge", 48, 96.0),
    ("c7gn.16xlarge", 64, 128.0),
    ("c7i.2xlarge", 8, 16.0),
    ("c7i.8xlarge", 32, 64.0),
    ("c7i.16xlarge", 64, 128.0),
    ("m7i.12xlarge", 48, 192.0),
    ("r6a.metal", 192, 1536.0),
];

/// The node that EKS makes of an instance type. Its kubelet keeps 6% of the first CPU
/// for itself, 1% of the second, 0.5% of the next two and 0.25% of all others; the
/// machine 7.5% of the memory, and the kubelet 3 GiB.
fn node_of_type(placement: &Placement) -> Option<Result<Node, String>> {
    let selected = || placement.node_selector.get("node.kubernetes.io/instance-type");
    let name = placement.instance_type.as_ref().or_else(selected)?;
    let known = INSTANCE_TYPES.iter().find(|(known, ..)| known == name);
    Some(known.ok_or_else(|| format!("{name} is not in the table of instance types")).map(
        |(_, cpus, gib)| {
            let stored = 60.0 + 10.0 + 2.0 * 5.0 + (f64::from(*cpus) - 4.0) * 2.5;
            let cpus = format!("{}m", f64::from(*cpus) * 1000.0 - stored);
            let memory = format!("{:.0}Mi", (gib * 0.925 - 3.0) * 1024.0);
            let mut node = node(placement);
            let amounts = [("cpu".to_owned(), Quantity(cpus)), ("memory".to_owned(), Quantity(memory))];
            node.status.get_or_insert_default().allocatable = Some(amounts.into());
            node
        },
    ))
}

/// Whether pods that request `needed` fit beside daemons on the machine that `placement` names.
fn fits(placement: &Placement, needed: impl Fn(&Node) -> Vec<Room>) -> Result<(), String> {
    let Some(node) = node_of_type(placement).transpose()? else { return Ok(()) };
    let room = Room::of_node(&node);
    let too_much = needed(&node).into_iter().find(|needed| !room.holds(Room::sum([*needed, DAEMONS])));
    too_much.map_or(Ok(()), |needed| Err(format!("it requests {needed} of a machine that has {room}")))
}

fn server_fits(spec: &DatastoreSpec) -> Result<(), String> {
    fits(&spec.placement, |node| {
        let with_node = of_pod(spec, most_cpus(std::slice::from_ref(node), &spec.placement));
        vec![with_node, of_pod(spec, None)]
    })
}

fn clients_fit(spec: &BenchmarkRunSpec) -> Result<(), String> {
    let clients = &spec.clients;
    let requested = of_client(clients, client_needs(spec, false)).requests;
    fits(&clients.placement, |_| {
        vec![Room::of(requested.as_ref()), Room::of(of_helper().requests.as_ref())]
    })?;
    spec.target.datastore().map_or(Ok(()), server_fits)
}

fn suite_fits(suite: &BenchmarkSuite) -> Result<(), String> {
    let runs = expand(suite).map_err(|invalid| invalid.to_string())?.runs;
    runs.iter().try_for_each(|run| clients_fit(&run.spec).map_err(|why| format!("{}: {why}", run.name)))
}

/// Every object of the project's kinds in examples/, with its file.
fn objects() -> Vec<(PathBuf, Value)> {
    let files = manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"));
    assert!(files.len() >= 18, "only {} examples were found", files.len());
    let objects = files.into_iter().flat_map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let objects = serde_yaml::Deserializer::from_str(&text).map(|object| {
            Value::deserialize(object).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        });
        objects.filter(ours).map(|object| (file.clone(), object)).collect::<Vec<_>>()
    });
    objects.collect()
}

#[test]
fn every_example_is_admitted_and_passes_the_operators_own_rules() {
    for (file, object) in objects() {
        let name = object["metadata"]["name"].clone();
        assert_eq!(complaint(object), "", "{} in {}", name, file.display());
    }
}

#[test]
fn every_example_fits_the_machines_that_it_names() {
    let mut named = 0;
    for (file, object) in objects() {
        let text = object.to_string();
        named += usize::from(
            ["node.kubernetes.io/instance-type", "instanceType"].iter().any(|n| text.contains(n)),
        );
        let fit = match object["kind"].as_str() {
            Some("Datastore") => server_fits(&serde_json::from_value::<Datastore>(object).unwrap().spec),
            Some("BenchmarkSuite") => suite_fits(&serde_json::from_value(object).unwrap()),
            _ => clients_fit(&serde_json::from_value::<BenchmarkRun>(object).unwrap().spec),
        };
        assert_eq!(fit, Ok(()), "{}", file.display());
    }
    assert!(named >= 10, "examples name no machines any more: this test is idle");
}

#[test]
fn an_example_that_asks_for_all_of_a_machine_is_found() {
    let spec = json!({
        "engine": "Dragonfly", "threads": 48, "resources": {"requests": {"cpu": "48"}},
        "placement": {"nodeSelector": {"node.kubernetes.io/instance-type": "c6gn.12xlarge"}}
    });
    let complaint = server_fits(&serde_json::from_value(spec).unwrap()).unwrap_err();
    assert!(
        complaint.starts_with("it requests 48.05 CPUs") && complaint.contains("has 47.81"),
        "{complaint}"
    );
}

#[test]
fn the_index_names_every_example() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let index = fs::read_to_string(directory.join("README.md")).unwrap();
    for part in [directory.clone(), directory.join("published")] {
        for entry in fs::read_dir(part).unwrap() {
            let path = entry.unwrap().path();
            let link = format!("({})", path.strip_prefix(&directory).unwrap().display());
            let own = ["(README.md)", "(published)"].contains(&link.as_str());
            assert!(own || index.contains(&link), "examples/README.md does not name {link}");
        }
    }
}

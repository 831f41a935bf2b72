//! Every manifest of examples/ is one that the apiserver would take and the
//! operator can work with, on nodes that are large enough. Reads those files.

use crate::{datastore, run};
use dragstrip_crds::{BenchmarkRun, Datastore, datastore::Placement};
use k8s_openapi::api::core::v1::Node;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn manifests(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { manifests(&path) } else { vec![path] }).collect()
}

/// Whether `object` is of one of the project's own kinds; certificates are cert-manager's.
fn ours(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("dragstrip.dev/"))
}

/// A node with more CPUs than any example asks for, and the labels it selects by.
fn node(placement: &Placement) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "large", "labels": placement.node_selector},
        "status": {"allocatable": {"cpu": "192", "memory": "768Gi"}},
    }))
    .unwrap()
}

fn datastore_complaint(declared: &Datastore) -> Result<(), String> {
    declared.validate_cel().map_err(|errors| format!("{errors:?}"))?;
    let nodes = [node(&declared.spec.placement)];
    datastore::validate::validate(declared, &nodes).map(drop).map_err(|invalid| invalid.to_string())
}

fn run_complaint(declared: &BenchmarkRun) -> Result<(), String> {
    declared.validate_cel().map_err(|errors| format!("{errors:?}"))?;
    run::validate::validate(declared).map(drop).map_err(|invalid| invalid.to_string())
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
        other => Err(format!("kind {other:?} is not one of the project's")),
    };
    taken.err().unwrap_or_default()
}

#[test]
fn every_example_is_admitted_and_passes_the_operators_own_rules() {
    let files = manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"));
    assert!(files.len() >= 18, "only {} examples were found", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let objects = serde_yaml::Deserializer::from_str(&text).map(|object| {
            Value::deserialize(object).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        });
        for object in objects.filter(ours) {
            let name = object["metadata"]["name"].clone();
            assert_eq!(complaint(object), "", "{} in {}", name, file.display());
        }
    }
}

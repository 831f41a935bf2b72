//! Every manifest of examples/ is one that the apiserver would take. Reads those files.

use crate::{BenchmarkRun, Datastore};
use serde_json::Value;
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

/// Why admission refuses `object`; empty if it does not.
fn refusal(object: Value) -> String {
    let refused = match object["kind"].as_str() {
        Some("Datastore") => match serde_json::from_value::<Datastore>(object) {
            Ok(datastore) => datastore.validate_cel().map_err(|errors| format!("{errors:?}")),
            Err(error) => Err(error.to_string()),
        },
        Some("BenchmarkRun") => match serde_json::from_value::<BenchmarkRun>(object) {
            Ok(run) => run.validate_cel().map_err(|errors| format!("{errors:?}")),
            Err(error) => Err(error.to_string()),
        },
        other => Err(format!("kind {other:?} is not one of the project's")),
    };
    refused.err().unwrap_or_default()
}

#[test]
fn every_example_is_admitted() {
    let files = manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"));
    assert!(files.len() >= 18, "only {} examples were found", files.len());
    for file in files {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for object in objects.into_iter().filter(ours) {
            let name = object["metadata"]["name"].clone();
            assert_eq!(refusal(object), "", "{} in {}", name, file.display());
        }
    }
}

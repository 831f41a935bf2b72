//! The parsers that the project's examples declare. Reads examples/.

use dragstrip_crds::workload::ParserSpec;
use serde::Deserialize as _;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A phase of an example that runs somebody's own tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecPhase {
    /// The file below examples/, without its ending.
    pub example: String,
    /// The phase's name.
    pub phase: String,
    /// How its output is read.
    pub parser: ParserSpec,
}

/// Every such phase, in the order of the files' names.
///
/// # Panics
/// If an example cannot be read.
pub fn exec_phases() -> Vec<ExecPhase> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut files = manifests(&root);
    files.sort();
    files.iter().flat_map(|file| phases_of(&root, file)).collect()
}

/// The parser of one phase.
///
/// # Panics
/// If there is no such phase.
pub fn parser(example: &str, phase: &str) -> ParserSpec {
    let found = exec_phases().into_iter().find(|known| known.example == example && known.phase == phase);
    found.unwrap_or_else(|| panic!("examples/{example}.yaml has no exec phase {phase}")).parser
}

fn manifests(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { manifests(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect()
}

fn phases_of(root: &Path, file: &Path) -> Vec<ExecPhase> {
    let example = file.strip_prefix(root).unwrap().with_extension("").display().to_string();
    let objects: Vec<Value> = serde_yaml::Deserializer::from_str(&fs::read_to_string(file).unwrap())
        .map(|object| Value::deserialize(object).unwrap_or_else(|error| panic!("{example}: {error}")))
        .collect();
    let phases = objects.iter().filter_map(|object| object["spec"]["phases"].as_array()).flatten();
    phases
        .filter(|phase| phase["exec"].is_object())
        .map(|phase| ExecPhase {
            example: example.clone(),
            phase: phase["name"].as_str().unwrap().to_owned(),
            parser: serde_json::from_value(phase["exec"]["parser"].clone())
                .unwrap_or_else(|error| panic!("{example}, phase {}: {error}", phase["name"])),
        })
        .collect()
}

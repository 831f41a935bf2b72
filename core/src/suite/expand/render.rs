//! The spec of a combination's runs: template, target, patches and values. Pure.

use super::cell::{PlannedCell, digest};
use crate::{problem::Problem, schema};
use dragstrip_crds::{
    BenchmarkRunSpec, BenchmarkSuiteSpec,
    suite::{Axis, Patch, Variant},
};
use jsonptr::{Assign, PointerBuf};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

fn put(run: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let pointer = PointerBuf::parse(path.to_owned()).map_err(|error| error.to_string())?;
    run.assign(&pointer, value.clone()).map(|_| ()).map_err(|error| error.to_string())
}

/// All that is put into the run of `cell`, in order, with the place where it is written.
fn changes<'a>(
    spec: &'a BenchmarkSuiteSpec,
    cell: &'a PlannedCell,
) -> impl Iterator<Item = (String, &'a str, &'a Value)> {
    let patches = |field: String, patches: &'a [Patch]| {
        patches.iter().map(move |patch| (field.clone(), patch.path.as_str(), &patch.value))
    };
    let variant: &'a Variant = &spec.variants[cell.variant];
    let of_variant = patches(format!("spec.variants[{}].patches", variant.name), &variant.patches);
    let of_axes = spec.axes.iter().zip(&cell.values).filter_map(move |(axis, place)| {
        let (axis, value): (&'a Axis, _) = (axis, axis.values.get(*place)?);
        let field = format!("spec.axes[{}]", axis.name);
        let own = value.value.iter().flat_map({
            let field = field.clone();
            move |value| {
                axis.paths.iter().map({
                    let field = field.clone();
                    move |path| (format!("{field}.paths"), path.as_str(), value)
                })
            }
        });
        Some(own.chain(patches(format!("{field}.patches"), &value.patches)))
    });
    of_variant.chain(of_axes.flatten())
}

/// What is wrong with the runs of a combination: the text before the combination, and after it.
pub struct Fault(pub String, pub String);

impl Fault {
    /// The fault of the run itself.
    pub fn of_run(why: String) -> Self {
        Self("the run of ".to_owned(), why)
    }

    /// The text for `cell` and so many other combinations.
    pub fn text(&self, cell: &str, others: usize) -> String {
        let more = if others == 0 { String::new() } else { format!(" (and of {others} more)") };
        format!("{}{cell}{more}{}", self.0, self.1)
    }
}

/// The spec of the runs of `cell`, as it is written.
fn written(spec: &BenchmarkSuiteSpec, cell: &PlannedCell) -> Result<Value, Fault> {
    let mut run = Map::clone(&spec.run.0);
    run.insert("target".to_owned(), Value::Object(spec.variants[cell.variant].target.0.clone()));
    let mut run = Value::Object(run);
    for (field, path, value) in changes(spec, cell) {
        put(&mut run, path, value)
            .map_err(|why| Fault(format!("{field} of "), format!(": nothing can be put at {path}: {why}")))?;
    }
    Ok(run)
}

/// Words of the library's messages, which name no remedy: the schema's do.
const LIBRARY: [&str; 4] = ["invalid type", "missing field", "unknown field", "unknown variant"];

fn decode(written: &Value) -> Result<BenchmarkRunSpec, Fault> {
    serde_path_to_error::deserialize(written).map_err(|error| {
        let why = error.inner().to_string();
        let of_library = LIBRARY.iter().any(|words| why.contains(words));
        let found = if of_library { schema::check_run(written) } else { Vec::new() };
        let found: Vec<String> = found.iter().map(Problem::text).collect();
        let why = if found.is_empty() { format!("{}: {why}", error.path()) } else { found.join("; ") };
        Fault::of_run(format!(" is not a BenchmarkRun: {why}"))
    })
}

pub fn decoded(spec: &BenchmarkSuiteSpec, cell: &PlannedCell) -> Result<BenchmarkRunSpec, String> {
    let decoded = written(spec, cell).and_then(|written| decode(&written));
    decoded.map_err(|fault| fault.text(&cell.words, 0))
}

/// Gives each of `cells` the digest of its runs' spec, and lets `judge` check that spec. Returns
/// what is wrong with them: each cause once, with the first combination that has it, and how many
/// more do.
pub fn render(
    spec: &BenchmarkSuiteSpec,
    cells: &mut [PlannedCell],
    mut judge: impl FnMut(&PlannedCell, BenchmarkRunSpec) -> Result<(), String>,
) -> Vec<String> {
    let mut causes: BTreeMap<String, (Fault, String, usize)> = BTreeMap::new();
    for cell in cells {
        let judged = written(spec, cell).and_then(|written| {
            // What is written stays the same with versions that know more fields and defaults. Sorted: a
            // feature of serde_json, which any crate of a build may turn on, decides about the order.
            let mut sorted = written.clone();
            sorted.sort_all_objects();
            let digest = digest(&[&sorted.to_string()]);
            cell.given_spec = format!("{:016x}", digest.first_chunk().copied().map_or(0, u64::from_be_bytes));
            let refuse = |why| Fault::of_run(format!(" cannot be measured: {why}"));
            judge(cell, decode(&written)?).map_err(refuse)
        });
        if let Err(fault) = judged {
            causes
                .entry(fault.1.clone())
                .and_modify(|(_, _, others)| *others += 1)
                .or_insert_with(|| (fault, cell.words.clone(), 0));
        }
    }
    causes.into_values().map(|(fault, cell, others)| fault.text(&cell, others)).collect()
}

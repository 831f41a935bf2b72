//! Conditions that differ from the baseline's, beyond those that a suite varies. Pure.

use super::{baseline::Baseline, limits::BY_CLIENTS};
use crate::{
    document::{Cell, Difference, Document, Facts, RunRecord},
    input::Entries,
    select::grouped,
};
use dragstrip_crds::run::Verdict;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of facts that decide whether runs are comparable; the others are only shown.
const DECIDING: [&str; 4] = ["server.", "client.", "machine.", "workload."];
/// The subject of the measurement: it may always differ.
const SUBJECT: [&str; 6] = [
    "server.engine",
    "server.version",
    "server.images",
    "server.threads",
    "server.declaration",
    "server.address",
];
/// The parts of a spec that are the workload.
const WORKLOAD: [&str; 2] = ["/phases", "/clients"];
/// Digest of the Datastore's declaration: if it differs, every other server fact may differ too.
const DECLARATION: &str = "server.declaration";

/// The differing conditions, and why some combinations are not comparable.
pub fn check(
    document: &Document,
    entries: &dyn Entries,
    baseline: &Baseline<'_>,
    anyway: bool,
) -> (Vec<Difference>, BTreeMap<Cell, String>) {
    let mut found = Vec::new();
    let mut refusals = BTreeMap::new();
    for (cell, counterpart) in &baseline.counterparts {
        if baseline.is_own(cell) {
            continue;
        }
        let there = match baseline.table {
            Some(table) => table.facts.clone(),
            None => facts_of(baseline.other.unwrap_or(document), counterpart),
        };
        let changes = if baseline.is_within() { changes(entries, cell, counterpart) } else { Vec::new() };
        let here = facts_of(document, cell);
        let differences = if baseline.is_one_of_several_runs() {
            undeclared(&differences(&here, &there, &[]), &changes)
        } else {
            differences(&here, &there, &changes)
        };
        // A published table always comes from other machines.
        if baseline.table.is_none() && !anyway {
            refusals.extend(refusal(&differences).map(|reason| (cell.clone(), reason)));
        }
        found.push((cell.clone(), differences));
    }
    (merged(found), refusals)
}

/// The conditions of `cell` that differ between two reports.
pub fn between(here: &Document, there: &Document, cell: &Cell) -> Vec<Difference> {
    differences(&facts_of(here, cell), &facts_of(there, cell), &[])
}

/// Why two combinations of `document` are not comparable: undeclared conditions differ, or clients limited
/// both (`by_clients`) and are not what is compared.
pub fn refusal_between(
    document: &Document,
    entries: &dyn Entries,
    (here, there): (&Cell, &Cell),
    by_clients: bool,
) -> Option<String> {
    let facts = (facts_of(document, here), facts_of(document, there));
    let differing = |changes: &[Change]| {
        refusal(&differences(&facts.0, &facts.1, changes)).filter(|_| !document.rules.anyway)
    };
    if !by_clients {
        // Specs are read only if the facts differ.
        differing(&[])?;
    }
    let changes = changes(entries, here, there);
    let of_clients = |change: &Change| WORKLOAD.iter().any(|prefix| change.path.starts_with(prefix));
    let clients = by_clients && !changes.iter().any(of_clients);
    clients.then(|| BY_CLIENTS.to_owned()).or_else(|| differing(&changes))
}

fn refusal(differences: &[Difference]) -> Option<String> {
    let first = differences.iter().find(|difference| !difference.varied)?;
    Some(format!(
        "measured under different conditions: {} is {} instead of {}; set compareAnyway (compare --force) to compare all the same",
        first.fact, first.here, first.baseline
    ))
}

/// The facts of the usable runs of `cell`, or else of all; commas join different values.
fn facts_of(document: &Document, cell: &Cell) -> Facts {
    let runs = || document.runs.iter().filter(|run| run.cell == *cell);
    let usable = |run: &&RunRecord| run.verdict.is_some_and(|verdict| verdict != Verdict::Invalid);
    let any_usable = runs().any(|run| usable(&run));
    let mut values: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    for run in runs().filter(|run| !any_usable || usable(run)) {
        for (name, value) in &run.provenance {
            values.entry(name).or_default().insert(value);
        }
    }
    values.into_iter().map(|(name, values)| (name.clone(), Vec::from_iter(values).join(", "))).collect()
}

/// A JSON pointer at which two specs differ, and the values there.
struct Change {
    path: String,
    here: Value,
    there: Value,
}

/// Where the specs of two combinations differ.
fn changes(entries: &dyn Entries, here: &Cell, there: &Cell) -> Vec<Change> {
    let places = entries.places();
    let spec = |cell: &Cell| {
        let place = places.iter().position(|(other, _)| *other == cell)?;
        serde_json::to_value(&entries.entry(place)?.run.spec).ok()
    };
    let mut changes = Vec::new();
    if let (Some(here), Some(there)) = (spec(here), spec(there)) {
        add_changes(&here, &there, String::new(), &mut changes);
    }
    changes
}

fn add_changes(here: &Value, there: &Value, path: String, found: &mut Vec<Change>) {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            for name in names {
                let of = |all: &Map<String, Value>| all.get(name).cloned().unwrap_or_default();
                add_changes(&of(here), &of(there), format!("{path}/{name}"), found);
            }
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            for (index, (here, there)) in here.iter().zip(there).enumerate() {
                add_changes(here, there, format!("{path}/{index}"), found);
            }
        }
        _ if here == there => {}
        _ => found.push(Change { path, here: here.clone(), there: there.clone() }),
    }
}

/// What differs between runs that nobody declared to differ: of a workload, the places in the
/// spec with both values instead of the digests.
fn undeclared(facts: &[Difference], changes: &[Change]) -> Vec<Difference> {
    let text = |value: &Value| if value.is_null() { "absent".to_owned() } else { value.to_string() };
    let of_workload = |change: &&Change| WORKLOAD.iter().any(|prefix| change.path.starts_with(prefix));
    let places = changes.iter().filter(of_workload).map(|change| Difference {
        cell: None,
        fact: format!("spec{}", change.path),
        baseline: text(&change.there),
        here: text(&change.here),
        varied: false,
    });
    let places: Vec<Difference> = places.collect();
    let shown = |fact: &&Difference| places.is_empty() || !fact.fact.starts_with("workload.");
    facts.iter().filter(shown).cloned().chain(places.clone()).collect()
}

/// Whether the suite declares a difference of `fact`, given the `changes` between the specs.
fn is_varied(fact: &str, changes: &[Change]) -> bool {
    let paths = || changes.iter().map(|change| change.path.as_str());
    let begins =
        |prefixes: &[&str]| paths().any(|path| prefixes.iter().any(|prefix| path.starts_with(prefix)));
    match fact.split('.').next() {
        _ if SUBJECT.contains(&fact) => true,
        Some("server") => begins(&["/target"]),
        // Nobody chooses the machine of a server that exists already.
        Some("machine") => {
            begins(&["/target/external", "/target/datastoreRef"])
                || paths().any(|path| path.contains("/placement"))
        }
        Some("client") => begins(&["/clients", "/phases"]),
        Some("workload") => begins(&["/clients", "/phases", "/repetitions"]),
        _ => false,
    }
}

/// The facts that both sides have and that differ.
fn differences(here: &Facts, baseline: &Facts, changes: &[Change]) -> Vec<Difference> {
    let declared = here.get(DECLARATION) != baseline.get(DECLARATION);
    let both = here.iter().filter_map(|(name, value)| Some((name, value, baseline.get(name)?)));
    let decides = |name: &str| DECIDING.iter().any(|group| name.starts_with(group));
    both.filter(|(name, here, there)| decides(name) && here != there)
        .map(|(name, here, there)| Difference {
            cell: None,
            fact: name.clone(),
            baseline: there.clone(),
            here: here.clone(),
            varied: is_varied(name, changes) || (declared && name.starts_with("server.")),
        })
        .collect()
}

/// Each difference once: for all combinations, for all of a variant, or by combination.
fn merged(found: Vec<(Cell, Vec<Difference>)>) -> Vec<Difference> {
    let cells: Vec<Cell> = found.iter().map(|(cell, _)| cell.clone()).collect();
    let all = found.into_iter().flat_map(|(cell, all)| all.into_iter().map(move |one| (cell.clone(), one)));
    let key = |(_, one): &(Cell, Difference)| {
        (one.fact.clone(), one.baseline.clone(), one.here.clone(), one.varied)
    };
    let mut merged: Vec<Difference> = Vec::new();
    for (_, same) in grouped(all, key) {
        let of_variant = |cells: &mut dyn Iterator<Item = &Cell>, variant: &str| {
            cells.filter(|cell| cell.variant == variant).count()
        };
        for (cell, difference) in &same {
            let variant = &cell.variant;
            let with = of_variant(&mut same.iter().map(|(cell, _)| cell), variant);
            let whole_variant = with > 1 && with == of_variant(&mut cells.iter(), variant);
            let values = if whole_variant { Vec::new() } else { cell.values.clone() };
            let about = Cell { variant: variant.clone(), values };
            let about = Some(about).filter(|_| same.len() < cells.len());
            let difference = Difference { cell: about, ..difference.clone() };
            if merged.last() != Some(&difference) {
                merged.push(difference);
            }
        }
    }
    merged
}

//! What two runs must have in common to be compared: the facts of a run, and what differs
//! between two combinations beyond what is varied. Pure.

use crate::{
    build::Entries,
    document::{Cell, Difference, Document, RunRecord},
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus,
    run::{TargetStatus, ToolStatus, Verdict},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Facts by name.
pub type Facts = BTreeMap<String, String>;

/// Groups of facts that decide whether runs are comparable; others are told alone.
const DECIDING: [&str; 4] = ["server.", "client.", "machine.", "workload."];
/// What is measured: it may always differ.
const SUBJECT: [&str; 6] = [
    "server.engine",
    "server.version",
    "server.images",
    "server.threads",
    "server.declaration",
    "server.address",
];
/// Digest of what a Datastore declares: where it differs, what follows from it may.
const DECLARATION: &str = "server.declaration";

/// Everything that is known of how `run` came about, by name such as server.version.
pub fn provenance(run: &BenchmarkRun) -> Facts {
    let Some(status) = &run.status else { return Facts::new() };
    let mut facts = facts(status);
    if let Some(known) = &status.provenance {
        let told = [
            ("spec.hash", known.spec_hash.clone()),
            ("operator.version", known.operator_version.clone()),
            ("command.server", known.server_command.join(" ")),
        ];
        facts.extend(
            told.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.to_owned(), text)),
        );
    }
    let commands = status.phases.iter().filter(|phase| !phase.tool.command.is_empty());
    facts.extend(commands.map(|phase| (format!("command.{}", phase.name), phase.tool.command.join(" "))));
    let of = |serves: bool| {
        let nodes = status.nodes.iter().filter(move |node| if serves { node.serves } else { node.loads });
        nodes.map(|node| node.name.clone()).collect::<BTreeSet<_>>()
    };
    for (name, nodes) in [("nodes.servers", of(true)), ("nodes.clients", of(false))] {
        if !nodes.is_empty() {
            facts.insert(name.to_owned(), Vec::from_iter(nodes).join(", "));
        }
    }
    facts
}

/// The facts on which comparisons rest: the run's own record, or what else its status tells.
fn facts(status: &BenchmarkRunStatus) -> Facts {
    if let Some(record) = &status.comparability {
        return record.facts.iter().map(|fact| (fact.name.clone(), fact.value.clone())).collect();
    }
    let mut facts: Facts = status.target.as_ref().map(of_target).unwrap_or_default();
    for (name, serves) in [("machine.server.instanceType", true), ("machine.client.instanceType", false)] {
        let nodes = status.nodes.iter().filter(|node| if serves { node.serves } else { node.loads });
        let types: BTreeSet<&str> = nodes.filter_map(|node| node.instance_type.as_deref()).collect();
        if !types.is_empty() {
            facts.insert(name.to_owned(), Vec::from_iter(types).join(", "));
        }
    }
    let tools: BTreeSet<String> = status.phases.iter().map(|phase| tool(&phase.tool)).collect();
    if !tools.is_empty() {
        facts.insert("client.tools".to_owned(), Vec::from_iter(tools).join(", "));
    }
    facts
}

fn tool(tool: &ToolStatus) -> String {
    let words = [Some(&tool.name), tool.version.as_ref(), tool.mode.as_ref()];
    words.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
}

fn of_target(target: &TargetStatus) -> Facts {
    let mut facts = vec![("server.servers", target.servers.map(|servers| servers.to_string()))];
    if let Some(server) = &target.observed {
        facts.extend([
            ("server.engine", server.engine.map(|engine| engine.to_string())),
            ("server.version", Some(server.version.clone())),
            ("server.threads", server.threads.map(|threads| threads.to_string())),
            ("server.ioInterface", server.io_interface.clone()),
            ("server.maxMemoryBytes", server.max_memory_bytes.map(|bytes| bytes.to_string())),
            ("server.maxMemoryPolicy", server.max_memory_policy.clone()),
        ]);
    }
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The facts of the runs of `cell` that count, of all where none does; where they differ all
/// values, with commas in between.
pub fn of_cell(document: &Document, cell: &Cell) -> Facts {
    let mut values: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    let of = || document.runs.iter().filter(|run| run.cell == *cell);
    let counts = |run: &&RunRecord| run.verdict.is_some_and(|verdict| verdict != Verdict::Invalid);
    let some = of().any(|run| counts(&run));
    for run in of().filter(|run| !some || counts(run)) {
        for (name, value) in &run.provenance {
            values.entry(name).or_default().insert(value);
        }
    }
    values.into_iter().map(|(name, values)| (name.clone(), Vec::from_iter(values).join(", "))).collect()
}

/// Where the specs of two combinations differ, as JSON pointers.
pub fn varied_paths(entries: &dyn Entries, here: &Cell, baseline: &Cell) -> Vec<String> {
    let spec = |cell: &Cell| serde_json::to_value(&entries.of_cell(cell)?.run.spec).ok();
    let mut paths = Vec::new();
    if let (Some(here), Some(baseline)) = (spec(here), spec(baseline)) {
        differing(&here, &baseline, String::new(), &mut paths);
    }
    paths
}

fn differing(here: &Value, there: &Value, path: String, found: &mut Vec<String>) {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            for name in names {
                let of = |all: &serde_json::Map<String, Value>| all.get(name).cloned().unwrap_or_default();
                differing(&of(here), &of(there), format!("{path}/{name}"), found);
            }
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            for (index, (here, there)) in here.iter().zip(there).enumerate() {
                differing(here, there, format!("{path}/{index}"), found);
            }
        }
        _ if here == there => {}
        _ => found.push(path),
    }
}

/// Whether a difference of `fact` is one that the declaration makes, by the `paths` at which
/// the two specs differ.
fn is_varied(fact: &str, paths: &[String]) -> bool {
    let any = |matches: &dyn Fn(&str) -> bool| paths.iter().any(|path| matches(path));
    let begins = |prefixes: &[&str]| any(&|path| prefixes.iter().any(|prefix| path.starts_with(prefix)));
    match fact.split('.').next() {
        _ if SUBJECT.contains(&fact) => true,
        Some("server") => begins(&["/target"]),
        // A server that is already there stands where it stands.
        Some("machine") => {
            begins(&["/target/external", "/target/datastoreRef"]) || any(&|path| path.contains("/placement"))
        }
        Some("client") => begins(&["/clients", "/phases"]),
        Some("workload") => begins(&["/clients", "/phases", "/repetitions"]),
        _ => false,
    }
}

/// What differs between the facts of a combination `here` and of its `baseline`. What only
/// one of them knows is no difference.
pub fn differences(here: &Facts, baseline: &Facts, paths: &[String]) -> Vec<Difference> {
    let decides = |name: &str| DECIDING.iter().any(|group| name.starts_with(group));
    let declared = here.get(DECLARATION) != baseline.get(DECLARATION);
    let both = here.iter().filter_map(|(name, value)| Some((name, value, baseline.get(name)?)));
    both.filter(|(name, here, there)| decides(name) && here != there)
        .map(|(name, here, there)| Difference {
            cell: None,
            fact: name.clone(),
            baseline: there.clone(),
            here: here.clone(),
            varied: is_varied(name, paths) || (declared && name.starts_with("server.")),
        })
        .collect()
}

/// `found` by combination, each difference said once for all combinations or for all of a
/// variant where all of them have it.
pub fn grouped(found: Vec<(Cell, Vec<Difference>)>) -> Vec<Difference> {
    let cells: Vec<Cell> = found.iter().map(|(cell, _)| cell.clone()).collect();
    let mut seen: Vec<(Difference, Vec<Cell>)> = Vec::new();
    for (cell, differences) in found {
        for difference in differences {
            match seen.iter_mut().find(|(known, _)| *known == difference) {
                Some((_, cells)) => cells.push(cell.clone()),
                None => seen.push((difference, vec![cell.clone()])),
            }
        }
    }
    seen.into_iter().flat_map(|(difference, with)| spread_over(&difference, &with, &cells)).collect()
}

fn spread_over(difference: &Difference, with: &[Cell], all: &[Cell]) -> Vec<Difference> {
    let about = |cell: Option<Cell>| Difference { cell, ..difference.clone() };
    if with.len() == all.len() {
        return vec![about(None)];
    }
    let mut told = Vec::new();
    for cell in with {
        let of = |cells: &[Cell]| cells.iter().filter(|other| other.variant == cell.variant).count();
        let whole = of(with) == of(all) && of(all) > 1;
        let values = if whole { Vec::new() } else { cell.values.clone() };
        let about = about(Some(Cell { variant: cell.variant.clone(), values }));
        if !told.contains(&about) {
            told.push(about);
        }
    }
    told
}

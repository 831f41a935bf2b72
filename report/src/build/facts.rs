//! The facts of a run: what it measured, on which machines, with which commands. Pure.

use crate::document::Facts;
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::{result::RepetitionResult, usage::ContainerUsage};
use std::collections::BTreeSet;

/// The range of the clock rates of the machines with these usages.
fn clock<'a>(usages: impl Iterator<Item = &'a ContainerUsage>) -> Option<String> {
    let rates = usages.filter_map(|usage| usage.host.as_ref()?.megahertz);
    let [low, high] = rates.reduce(|one, other| [one[0].min(other[0]), one[1].max(other[1])])?;
    Some(format!("{low:.0} to {high:.0} MHz"))
}

pub fn facts(run: &BenchmarkRun, results: &[RepetitionResult]) -> Facts {
    let Some(status) = &run.status else { return Facts::new() };
    let record = status.comparability.iter().flat_map(|record| &record.facts);
    let mut facts: Facts = record.map(|fact| (fact.name.clone(), fact.value.clone())).collect();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            facts.insert(name.to_owned(), value);
        }
    };
    if let Some(provenance) = &status.provenance {
        add("spec.hash", provenance.spec_hash.clone());
        add("operator.version", provenance.operator_version.clone());
        add("command.server", provenance.server_command.join(" "));
    }
    for phase in &status.phases {
        add(&format!("command.{}", phase.name), phase.tool.command.join(" "));
    }
    for (name, serves) in [("nodes.servers", true), ("nodes.clients", false)] {
        let nodes = status.nodes.iter().filter(|node| if serves { node.serves } else { node.loads });
        let names: BTreeSet<&str> = nodes.map(|node| node.name.as_str()).collect();
        add(name, Vec::from_iter(names).join(", "));
    }
    let servers = clock(results.iter().flat_map(|result| result.servers.iter().map(|one| &one.usage)));
    let clients = clock(results.iter().flat_map(|result| result.pods.iter().map(|pod| &pod.client)));
    add("clock.servers", servers.unwrap_or_default());
    add("clock.clients", clients.unwrap_or_default());
    facts
}

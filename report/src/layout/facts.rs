//! What runs have in common, what goes with a variant, and only the rest by run. Pure.

use super::grouped;
use crate::document::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// The names of facts by how far they are shared.
#[derive(Debug, Default)]
pub struct Facts<'a> {
    /// The same in all runs, with what they say.
    pub common: BTreeMap<&'a str, &'a str>,
    /// The same in all runs of each variant.
    pub by_variant: Vec<&'a str>,
    /// The others.
    pub by_run: Vec<&'a str>,
}

impl<'a> Facts<'a> {
    /// Those of `runs`.
    pub fn of(runs: &[&'a RunRecord]) -> Self {
        let names: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.provenance.keys()).map(String::as_str).collect();
        let variants = grouped(runs.iter().copied(), |run| &run.cell.variant);
        let mut facts = Self::default();
        for name in names {
            if let Some(value) = agreed(runs, name) {
                facts.common.insert(name, value);
            } else if variants.iter().all(|(_, runs)| agreed(runs, name).is_some() || absent(runs, name)) {
                facts.by_variant.push(name);
            } else {
                facts.by_run.push(name);
            }
        }
        facts
    }
}

/// What all runs say of a fact; nothing where one of them says something else or nothing.
fn agreed<'a>(runs: &[&'a RunRecord], fact: &str) -> Option<&'a str> {
    let first = runs.first()?.provenance.get(fact)?;
    runs.iter().all(|run| run.provenance.get(fact) == Some(first)).then_some(first)
}

fn absent(runs: &[&RunRecord], fact: &str) -> bool {
    runs.iter().all(|run| !run.provenance.contains_key(fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variant: &str, facts: &[(&str, &str)]) -> RunRecord {
        let mut run = RunRecord::default();
        variant.clone_into(&mut run.cell.variant);
        run.provenance =
            facts.iter().map(|(fact, value)| ((*fact).to_owned(), (*value).to_owned())).collect();
        run
    }

    #[test]
    fn a_fact_is_told_once_where_it_is_the_same_and_by_run_only_where_it_must_be() {
        let runs = [
            run("a", &[("kernel", "6.1"), ("image", "a@1"), ("node", "n1"), ("note", "x")]),
            run("a", &[("kernel", "6.1"), ("image", "a@1"), ("node", "n2"), ("note", "x")]),
            run("b", &[("kernel", "6.1"), ("image", "b@1"), ("node", "n1")]),
        ];
        let facts = Facts::of(&runs.iter().collect::<Vec<_>>());
        assert_eq!(facts.common, BTreeMap::from([("kernel", "6.1")]));
        assert_eq!((facts.by_variant, facts.by_run), (vec!["image", "note"], vec!["node"]));
    }
}

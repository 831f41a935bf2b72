//! Sorts the facts of runs: common to all, to a variant, or particular to a run. Pure.

use crate::{document::RunRecord, select::grouped};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Facts<'a> {
    /// The facts that all runs share, with their values.
    pub common: BTreeMap<&'a str, &'a str>,
    /// The facts that all runs of each variant share.
    pub by_variant: Vec<&'a str>,
    pub by_run: Vec<&'a str>,
}

impl<'a> Facts<'a> {
    pub fn of(runs: &[&'a RunRecord]) -> Self {
        let names: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.provenance.keys()).map(String::as_str).collect();
        let variants = grouped(runs.iter().copied(), |run| &run.cell.variant);
        let mut facts = Self::default();
        for name in names {
            match shared(runs, name) {
                Some(value) if !value.is_empty() => {
                    facts.common.insert(name, value);
                }
                _ if variants.iter().all(|(_, runs)| shared(runs, name).is_some()) => {
                    facts.by_variant.push(name);
                }
                _ => facts.by_run.push(name),
            }
        }
        facts
    }
}

/// The value of a fact if all runs agree on it; it is empty if all of them lack it.
fn shared<'a>(runs: &[&'a RunRecord], fact: &str) -> Option<&'a str> {
    let value = |run: &&'a RunRecord| run.provenance.get(fact).map_or("", String::as_str);
    let first = runs.first().map(value)?;
    runs.iter().all(|run| value(run) == first).then_some(first)
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
    fn facts_are_common_or_by_variant_or_by_run() {
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

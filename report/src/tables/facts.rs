//! The conditions of runs: a fact that all share once, others by variant or run. Pure.

use super::grid::{Column, Grid, Item, Kind};
use crate::{
    document::{Document, RunRecord},
    select::grouped,
};
use std::collections::BTreeSet;

pub fn conditions(document: &Document) -> Grid {
    let runs: Vec<&RunRecord> = document.runs.iter().filter(|run| !run.provenance.is_empty()).collect();
    let facts: BTreeSet<&String> = runs.iter().flat_map(|run| run.provenance.keys()).collect();
    let mut all: Vec<[String; 3]> = facts.into_iter().flat_map(|fact| lines(document, &runs, fact)).collect();
    all.sort_by_key(|[_, whose, _]| whose != ALL);
    Grid {
        title: String::new(),
        columns: vec![Column::name("Fact"), Column::name("Runs"), Column::new("Value", Kind::Words)],
        lines: all.into_iter().map(|line| line.map(Item::text).into()).collect(),
    }
}

const ALL: &str = "all";

fn lines(document: &Document, runs: &[&RunRecord], fact: &str) -> Vec<[String; 3]> {
    let line = |whose: &str, value: &str| [fact, whose, value].map(str::to_owned);
    if let Some(value) = shared(runs, fact) {
        return vec![line(ALL, value)];
    }
    let variants = grouped(runs.iter().copied(), |run| run.cell.variant.as_str());
    let by_variant = variants.iter().map(|(variant, runs)| Some(line(variant, shared(runs, fact)?)));
    let by_run = || runs.iter().map(|run| line(&document.describe(run), value(run, fact))).collect();
    let mut lines: Vec<_> = by_variant.collect::<Option<_>>().unwrap_or_else(by_run);
    lines.retain(|[_, _, value]| !value.is_empty());
    lines
}

/// The value of a fact; empty if the run lacks it.
fn value<'a>(run: &'a RunRecord, fact: &str) -> &'a str {
    run.provenance.get(fact).map_or("", String::as_str)
}

/// The value of a fact if all runs agree on it.
fn shared<'a>(runs: &[&'a RunRecord], fact: &str) -> Option<&'a str> {
    let first = value(runs.first()?, fact);
    runs.iter().all(|run| value(run, fact) == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variant: &str, name: &str, facts: &[(&str, &str)]) -> RunRecord {
        let mut run = RunRecord { name: name.to_owned(), ..RunRecord::default() };
        variant.clone_into(&mut run.cell.variant);
        run.provenance =
            facts.iter().map(|(fact, value)| ((*fact).to_owned(), (*value).to_owned())).collect();
        run
    }

    #[test]
    fn facts_are_listed_for_all_runs_or_by_variant_or_by_run() {
        let runs = vec![
            run("a", "a1", &[("kernel", "6.1"), ("image", "a@1"), ("node", "n1"), ("note", "x")]),
            run("a", "a2", &[("kernel", "6.1"), ("image", "a@1"), ("node", "n2"), ("note", "x")]),
            run("b", "b1", &[("kernel", "6.1"), ("image", "b@1"), ("node", "n1")]),
        ];
        let grid = conditions(&Document { runs, ..Document::default() });
        let text = |item: &Item| item.render(str::to_owned, str::to_owned);
        let lines: Vec<String> =
            grid.lines.iter().map(|line| line.iter().map(text).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "kernel all 6.1",
                "image a a@1",
                "image b b@1",
                "node a1 (a) n1",
                "node a2 (a) n2",
                "node b1 (b) n1",
                "note a x"
            ]
        );
    }
}

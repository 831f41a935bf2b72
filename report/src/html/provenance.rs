//! Under which conditions it was measured: what all runs have in common once, what goes with
//! a variant by variant, and only the rest by run.

use super::layout::{grouped, variants};
use crate::document::{Document, RunRecord};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// The whole record.
pub fn record(document: &Document) -> Option<Markup> {
    let told: Vec<&RunRecord> = document.runs.iter().filter(|run| !run.provenance.is_empty()).collect();
    let facts = Facts::of(&told);
    (!told.is_empty()).then(|| {
        html! {
            @if !facts.common.is_empty() {
                h3 { @if told.len() > 1 { "The same in all " (told.len()) " runs" } @else { "The run" } }
                dl { @for (fact, value) in &facts.common { dt { (fact) } dd { (value) } } }
            }
            @if !facts.by_variant.is_empty() {
                h3 { "By variant" }
                (by_variant(document, &told, &facts.by_variant))
            }
            @if !facts.by_run.is_empty() {
                details { summary { "By run: " (facts.by_run.join(", ")) } (by_run(&told, &facts.by_run)) }
            }
        }
    })
}

#[derive(Default)]
struct Facts<'a> {
    common: BTreeMap<&'a str, &'a str>,
    by_variant: Vec<&'a str>,
    by_run: Vec<&'a str>,
}

impl<'a> Facts<'a> {
    fn of(runs: &[&'a RunRecord]) -> Self {
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

fn by_variant(document: &Document, runs: &[&RunRecord], facts: &[&str]) -> Markup {
    let variants = variants(document);
    let told = |variant: &str, fact: &str| {
        runs.iter().find(|run| run.cell.variant == variant).and_then(|run| run.provenance.get(fact))
    };
    html! {
        div.box { table {
            thead { tr { th scope="col" { "Fact" } @for variant in &variants { th scope="col" { (variant) } } } }
            tbody {
                @for fact in facts {
                    tr {
                        th scope="row" { (fact) }
                        @for variant in &variants { td.text { (told(variant, fact).map_or("", String::as_str)) } }
                    }
                }
            }
        } }
    }
}

fn by_run(runs: &[&RunRecord], facts: &[&str]) -> Markup {
    html! {
        div.box { table.sort {
            thead { tr { th scope="col" { "Run" } @for fact in facts { th scope="col" { (fact) } } } }
            tbody {
                @for run in runs {
                    tr {
                        th scope="row" { (run.name) }
                        @for fact in facts { td.text { (run.provenance.get(*fact).map_or("", String::as_str)) } }
                    }
                }
            }
        } }
    }
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

//! Under which conditions it was measured: what all runs have in common once, what goes with
//! a variant by variant, and only the rest by run.

use crate::{
    document::{Document, RunRecord},
    layout::{Facts, variants},
};
use maud::{Markup, html};

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

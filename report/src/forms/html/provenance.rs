//! The conditions of the runs: those of all runs once, others by variant, the rest by run.

use super::table;
use crate::{
    document::{Document, RunRecord},
    select::variants,
    tables::Facts,
};
use maud::{Markup, html};

pub fn record(document: &Document) -> Option<Markup> {
    let runs: Vec<&RunRecord> = document.runs.iter().filter(|run| !run.provenance.is_empty()).collect();
    let facts = Facts::of(&runs);
    (!runs.is_empty()).then(|| {
        html! {
            @if !facts.common.is_empty() {
                h3 { @if runs.len() > 1 { "The same in all " (runs.len()) " runs" } @else { "The run" } }
                dl { @for (fact, value) in &facts.common { dt { (fact) } dd { (value) } } }
            }
            @if !facts.by_variant.is_empty() {
                h3 { "By variant" }
                (by_variant(document, &runs, &facts.by_variant))
            }
            @if !facts.by_run.is_empty() {
                details { summary { "By run: " (facts.by_run.join(", ")) } (by_run(&runs, &facts.by_run)) }
            }
        }
    })
}

fn value(run: Option<&&RunRecord>, fact: &str) -> Markup {
    html! { td.text { (run.and_then(|run| run.provenance.get(fact)).map_or("", String::as_str)) } }
}

fn by_variant(document: &Document, runs: &[&RunRecord], facts: &[&str]) -> Markup {
    let variants = variants(document);
    let of = |variant: &str| runs.iter().find(|run| run.cell.variant == variant);
    html! {
        div.box { table {
            thead { tr { (table::head("Fact")) @for variant in &variants { (table::head(variant)) } } }
            tbody {
                @for fact in facts {
                    tr { th scope="row" { (fact) } @for variant in &variants { (value(of(variant), fact)) } }
                }
            }
        } }
    }
}

fn by_run(runs: &[&RunRecord], facts: &[&str]) -> Markup {
    let heads = html! { (table::head("Run")) @for fact in facts { (table::head(fact)) } };
    let lines = html! {
        @for run in runs { tr { th scope="row" { (run.name) } @for fact in facts { (value(Some(run), fact)) } } }
    };
    table::sorted("", &heads, &lines)
}

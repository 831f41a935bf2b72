//! Thresholds, and the method of the comparison.

use super::table;
use crate::{
    document::{Difference, Document},
    figures::heading,
    select::distinct,
};
use dragstrip_crds::thresholds::ThresholdStatus;
use maud::{Markup, html};

pub fn thresholds(document: &Document) -> Option<Markup> {
    let (met, missed): (Vec<_>, Vec<_>) = document.thresholds.iter().partition(|status| status.met);
    let heads = html! {
        (table::filter("Combination")) (table::filter("Phase")) (table::head("Operation"))
        (table::filter("Metric")) (table::filter("Passed")) (table::head("Figure and limit"))
    };
    let lines = html! { @for status in missed.into_iter().chain(met) { (threshold(status)) } };
    (!document.thresholds.is_empty()).then(|| table::sorted("", &heads, &lines))
}

fn threshold(status: &ThresholdStatus) -> Markup {
    html! {
        tr {
            th scope="row" { (status.cell.as_deref().unwrap_or("this run")) }
            td { (status.phase) }
            td { (status.operation) }
            td { (heading(&status.metric.to_string(), status.metric.unit())) }
            td { @if status.met { span.tag.good { "✓ met" } } @else { span.tag.bad { "✗ missed" } } }
            td.text { (status.message) }
        }
    }
}

pub fn method(document: &Document) -> Option<Markup> {
    let baseline = document.baseline.as_ref()?;
    let (declared, undeclared): (Vec<_>, Vec<_>) =
        baseline.differences.iter().partition(|difference| difference.varied);
    let uncompared = distinct(document.rows.iter().filter_map(|row| row.uncompared.as_deref()));
    Some(html! {
        p { "Baseline: " b { (baseline.name) } " (" (baseline.kind) "). " (baseline.method) }
        p { "▲ Better and ▼ Worse: significant, and larger than the noise of these machines. = Same: proven to be within the noise. ? Unclear: anything else." }
        @if !uncompared.is_empty() {
            h3 { "Not compared" }
            @for reason in uncompared { p { (reason) } }
        }
        @if !undeclared.is_empty() {
            h3 { "Undeclared differences" }
            (differences(document, &undeclared))
        }
        @if !declared.is_empty() {
            details { summary { "Declared differences (" (declared.len()) ")" } (differences(document, &declared)) }
        }
    })
}

fn differences(document: &Document, differences: &[&Difference]) -> Markup {
    let heads = html! { @for name in ["Fact", "Baseline", "Here", "Combination"] { (table::head(name)) } };
    let lines = html! {
        @for difference in differences {
            tr {
                th scope="row" { (difference.fact) }
                td.text { (difference.baseline) }
                td.text { (difference.here) }
                td { @match &difference.cell { Some(cell) => (cell.label(&document.axes)), None => "all" } }
            }
        }
    };
    table::sorted("", &heads, &lines)
}

//! How figures stand to thresholds, and how they were compared.

use crate::{
    document::{Difference, Document},
    figures::heading,
    layout::distinct,
};
use dragstrip_crds::thresholds::ThresholdStatus;
use maud::{Markup, html};

/// Thresholds, missed ones first.
pub fn thresholds(document: &Document) -> Option<Markup> {
    let (met, missed): (Vec<_>, Vec<_>) = document.thresholds.iter().partition(|status| status.met);
    (!document.thresholds.is_empty()).then(|| {
        html! {
            div.box { table.sort {
                thead { tr {
                    th scope="col" data-filter { "Combination" }
                    th scope="col" data-filter { "Phase" }
                    th scope="col" { "Operation" }
                    th scope="col" data-filter { "Metric" }
                    th scope="col" data-filter { "Passed" }
                    th scope="col" { "Figure and limit" }
                } }
                tbody { @for status in missed.into_iter().chain(met) { (threshold(status)) } }
            } }
        }
    })
}

fn threshold(status: &ThresholdStatus) -> Markup {
    let metric = status.metric.to_string();
    html! {
        tr {
            th scope="row" { (status.cell.as_deref().unwrap_or("this run")) }
            td { (status.phase) }
            td { (status.operation) }
            td { (heading(&metric, status.metric.unit())) }
            td { @if status.met { span.tag.good { "✓ met" } } @else { span.tag.bad { "✗ missed" } } }
            td.text { (status.message) }
        }
    }
}

/// The baseline, how ratios' intervals were found, and what else was not the same.
pub fn method(document: &Document) -> Option<Markup> {
    let baseline = document.baseline.as_ref()?;
    let (varied, unwanted): (Vec<_>, Vec<_>) =
        baseline.differences.iter().partition(|difference| difference.varied);
    Some(html! {
        p { "Baseline: " b { (baseline.name) } " (" (baseline.kind) "). " (sentence(&baseline.method)) }
        p { "▲ Better and ▼ Worse are beyond chance and the noise of these machines; = Same is known to be within that noise; ? Unclear is anything else." }
        @let uncompared = distinct(document.rows.iter().filter_map(|row| row.uncompared.as_deref()));
        @if !uncompared.is_empty() {
            h3 { "Not compared" }
            @for reason in uncompared { p { (reason) } }
        }
        @if !unwanted.is_empty() {
            h3 { "Differs although nobody varied it" }
            (differences(document, &unwanted))
        }
        @if !varied.is_empty() {
            details { summary { "What was varied (" (varied.len()) ")" } (differences(document, &varied)) }
        }
    })
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut rest = text.trim_end_matches('.').chars();
    rest.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), rest.as_str()))
}

fn differences(document: &Document, differences: &[&Difference]) -> Markup {
    html! {
        div.box { table.sort {
            thead { tr {
                th scope="col" { "What" } th scope="col" { "Baseline" } th scope="col" { "Here" } th scope="col" { "Combination" }
            } }
            tbody {
                @for difference in differences {
                    tr {
                        th scope="row" { (difference.fact) }
                        td.text { (difference.baseline) }
                        td.text { (difference.here) }
                        td { @match &difference.cell { Some(cell) => (cell.label(&document.axes)), None => "all" } }
                    }
                }
            }
        } }
    }
}

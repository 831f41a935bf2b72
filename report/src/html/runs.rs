//! Every run: how it ended, why it may not be believed, what limited it.

use super::{figures::declared, verdicts};
use crate::{
    document::{Document, RunRecord},
    layout::{Ending, distinct},
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

/// A line for each run, in the order of the document.
pub fn table(document: &Document) -> Option<Markup> {
    (!document.runs.is_empty()).then(|| {
        html! {
            div.box { table.sort {
                thead { tr {
                    th scope="col" { "Run" }
                    th scope="col" data-filter { "Variant" }
                    @for axis in &document.axes { th scope="col" data-filter data-declared=(declared(axis)) { (axis.name) } }
                    th scope="col" class="n" { "Repetition" }
                    th scope="col" data-filter { "Verdict" }
                    th scope="col" { "Why" }
                    th scope="col" { "Limited by" }
                    th scope="col" { "Started" }
                    th scope="col" class="n" { "Seconds" }
                } }
                tbody { @for run in &document.runs { (line(document, run)) } }
            } }
        }
    })
}

fn line(document: &Document, run: &RunRecord) -> Markup {
    let unusable = matches!(Ending::of(run), Ending::Failed | Ending::Judged(Verdict::Invalid));
    html! {
        tr class=[unusable.then_some("struck")] {
            th scope="row" { (run.name) }
            td { (run.cell.variant) }
            @for index in 0..document.axes.len() { td { (run.cell.values.get(index).map_or("", String::as_str)) } }
            td class="n" { (run.repetition) }
            td.v { (verdicts::run_badge(run)) }
            td.text {
                @if let Some(failure) = &run.failure { p { (failure) } }
                @for reason in &run.reasons {
                    p { b { (reason.reason.reason) } " in " (reason.phase) ": " (reason.reason.message) }
                }
            }
            td { (limits(run)) }
            td { @if let Some(started) = run.started_at { (started.strftime("%F %T")) "Z" } }
            td class="n" { @if let Some(seconds) = seconds(run) { (seconds) } }
        }
    }
}

/// What limited the run, each limit once, with the evidence on hover.
fn limits(run: &RunRecord) -> Markup {
    let limiters = distinct(run.limited_by.iter().map(|limit| limit.limited_by.by.to_string()));
    let evidence: Vec<String> = run
        .limited_by
        .iter()
        .map(|limit| format!("{}: {}", limit.phase, limit.limited_by.evidence))
        .collect();
    html! {
        @if !limiters.is_empty() {
            span title=(evidence.join("\n")) { (limiters.join(", ")) }
        }
    }
}

fn seconds(run: &RunRecord) -> Option<i64> {
    Some(run.finished_at?.as_second() - run.started_at?.as_second())
}

//! Every run: its ending, the reasons for its verdict, and its bottleneck.

use super::{super::words::Ending, table, verdicts};
use crate::{
    document::{Document, RunRecord},
    select::distinct,
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

pub fn table(document: &Document) -> Option<Markup> {
    let heads = html! {
        (table::head("Run")) (table::combination(&document.axes)) (table::number("Repetition"))
        (table::filter("Verdict")) (table::head("Why")) (table::head("Limited by"))
        (table::head("Started")) (table::number("Seconds"))
    };
    let lines = html! { @for run in &document.runs { (line(document, run)) } };
    (!document.runs.is_empty()).then(|| table::sorted("", &heads, &lines))
}

fn line(document: &Document, run: &RunRecord) -> Markup {
    let unusable = matches!(Ending::of(run), Ending::Failed | Ending::Judged(Verdict::Invalid));
    let evidence =
        run.limited_by.iter().map(|limit| format!("{}: {}", limit.phase, limit.limited_by.evidence));
    let limiters = distinct(run.limited_by.iter().map(|limit| limit.limited_by.by.to_string()));
    let times = run.started_at.zip(run.finished_at);
    html! {
        tr class=[unusable.then_some("struck")] {
            th scope="row" { (run.name) }
            td { (run.cell.variant) }
            @for place in 0..document.axes.len() { td { (run.cell.values.get(place).map_or("", String::as_str)) } }
            td class="n" { (run.repetition) }
            td.v { (verdicts::run_badge(run)) }
            td.text {
                @if let Some(failure) = &run.failure { p { (failure) } }
                @for reason in &run.reasons {
                    p { b { (reason.reason.reason) } " in " (reason.phase) ": " (reason.reason.message) }
                }
            }
            td { span title=(evidence.collect::<Vec<_>>().join("\n")) { (limiters.join(", ")) } }
            td { @if let Some(started) = run.started_at { (started.strftime("%F %T")) "Z" } }
            td class="n" { @if let Some((start, end)) = times { (end.as_second() - start.as_second()) } }
        }
    }
}

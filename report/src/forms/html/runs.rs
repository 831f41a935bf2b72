//! Every run: its ending, the reasons for its verdict, and its bottleneck.

use super::{
    super::words::{Ending, reasons},
    table, verdicts,
};
use crate::{
    document::{Document, RunRecord},
    select::distinct,
    tables::{Column, Kind, identity_columns},
};
use dragstrip_crds::run::Verdict;
use maud::{Markup, html};

pub fn table(document: &Document) -> Option<Markup> {
    let axes: Vec<_> = document.axes.iter().enumerate().collect();
    let mut columns = vec![Column::new("Run", Kind::Words)];
    columns.extend(identity_columns(&axes));
    columns.extend([Column::new("Repetition", Kind::Figure), Column::new("Verdict", Kind::Choice)]);
    columns.extend(["Why", "Limited by", "Started"].map(|name| Column::new(name, Kind::Words)));
    columns.push(Column::new("Seconds", Kind::Figure));
    let lines = html! { @for run in &document.runs { (line(document, run)) } };
    (!document.runs.is_empty()).then(|| table::sorted("", &columns, &lines))
}

fn line(document: &Document, run: &RunRecord) -> Markup {
    let unusable = matches!(Ending::of(run), Ending::Failed | Ending::Judged(Verdict::Invalid));
    let evidence =
        run.limited_by.iter().map(|limit| format!("{}: {}", limit.phase, limit.limited_by.evidence));
    let limiters = distinct(run.limited_by.iter().map(|limit| limit.limited_by.by.to_string()));
    let confirmed = run.limited_by.iter().any(|limit| limit.confirmation.is_some());
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
                @for reason in reasons(run) { p { (reason) } }
            }
            td class=[confirmed.then_some("text")] {
                span title=(evidence.collect::<Vec<_>>().join("\n")) { (limiters.join(", ")) }
                @for limit in &run.limited_by {
                    @if let Some(sentence) = &limit.confirmation { p { b { (limit.phase) } ": " (sentence) } }
                }
            }
            td { @if let Some(started) = run.started_at { (started.strftime("%F %T")) "Z" } }
            td class="n" { @if let Some((start, end)) = times { (end.as_second() - start.as_second()) } }
        }
    }
}

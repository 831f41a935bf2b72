//! Verdicts as badges: a sign and a word, never colour alone.

use super::super::words::Ending;
use crate::{
    document::{Document, Row, RunRecord},
    figures,
    select::distinct,
    tables::{has_ratio, sign},
};
use dragstrip_crds::{
    run::{Verdict, VerdictReason},
    suite::ComparisonVerdict,
};
use maud::{Markup, html};

pub fn look(ending: Ending) -> (&'static str, &'static str) {
    match ending {
        Ending::Judged(Verdict::Valid) => ("good", "✓"),
        Ending::Judged(Verdict::Degraded) => ("fair", "!"),
        Ending::Judged(Verdict::Invalid) | Ending::Failed => ("bad", "✗"),
        Ending::Cancelled => ("fair", "–"),
        Ending::Unjudged => ("", "–"),
        Ending::Unfinished => ("", "…"),
    }
}

fn tag(ending: Ending, words: &str) -> Markup {
    let (class, sign) = look(ending);
    html! { span class={ "tag " (class) } { (sign) " " (words) } }
}

/// The worst verdict of a row's samples, and their number if only some are Invalid.
pub fn badge(row: &Row) -> Markup {
    let invalid = row.samples.iter().filter(|sample| sample.is_invalid()).count();
    match row.verdict {
        None => tag(Ending::Unjudged, "no verdict"),
        Some(verdict @ Verdict::Invalid) if row.spread.is_some() => {
            tag(Ending::Judged(verdict), &format!("{invalid} of {} Invalid", row.samples.len()))
        }
        Some(verdict) => tag(Ending::Judged(verdict), &verdict.to_string()),
    }
}

pub fn run_badge(run: &RunRecord) -> Markup {
    match Ending::of(run) {
        Ending::Unfinished => tag(Ending::Unfinished, &run.phase.to_string()),
        ending => tag(ending, &ending.word()),
    }
}

pub fn comparison(verdict: ComparisonVerdict) -> Markup {
    let class = match verdict {
        ComparisonVerdict::Better => "up",
        ComparisonVerdict::Worse => "down",
        _ => "even",
    };
    html! { span class=(class) { (sign(verdict)) " " (word(verdict)) } }
}

pub fn word(verdict: ComparisonVerdict) -> String {
    match verdict {
        ComparisonVerdict::NotComparable => "not comparable".to_owned(),
        other => other.to_string(),
    }
}

pub fn ratio(row: &Row) -> Markup {
    html! {
        @if let Some(found) = row.comparison.as_ref().filter(|_| has_ratio(row)) {
            span { (figures::ratio(found.ratio.mid)) "×" }
            @if found.interval_known { " " small { (figures::interval(&found.ratio)) } }
        }
    }
}

pub fn brief(row: &Row) -> String {
    let found = row.comparison.as_ref();
    let sign = found.map_or("", |found| sign(found.verdict));
    match found.filter(|_| has_ratio(row)) {
        Some(found) => format!("{sign} {}×", figures::ratio(found.ratio.mid)),
        None => sign.to_owned(),
    }
}

/// Why the samples of a row are not Valid, each reason once: the findings about its phase, and the
/// failures of its Invalid runs.
pub fn reasons(document: &Document, row: &Row) -> Vec<String> {
    let texts = runs_of(document, row).flat_map(|run| {
        let findings = findings(run, row).map(|reason| format!("{}: {}", reason.reason, reason.message));
        let failure = run.failure.clone().filter(|_| run.verdict == Some(Verdict::Invalid));
        findings.chain(failure).collect::<Vec<_>>()
    });
    distinct(texts)
}

pub fn reason_names<'a>(document: &'a Document, row: &'a Row) -> Vec<&'a str> {
    let findings = runs_of(document, row).flat_map(|run| findings(run, row));
    distinct(findings.map(|reason| reason.reason.as_str()))
}

fn runs_of<'a>(document: &'a Document, row: &'a Row) -> impl Iterator<Item = &'a RunRecord> {
    document.runs.iter().filter(|run| row.samples.iter().any(|sample| sample.run == run.name))
}

fn findings<'a>(run: &'a RunRecord, row: &'a Row) -> impl Iterator<Item = &'a VerdictReason> {
    run.reasons.iter().filter(|reason| reason.phase == row.phase).map(|reason| &reason.reason)
}

//! Verdicts as badges: a sign and a word, never colour alone.

use super::super::words::Ending;
use crate::{
    document::{Comparison, Document, Row, RunRecord},
    figures,
    select::distinct,
    tables::{has_ratio, sign, word},
};
use dragstrip_crds::{run::Verdict, suite::ComparisonVerdict};
use maud::{Markup, html};

fn tag(ending: Ending, words: &str) -> Markup {
    let (class, sign) = match ending {
        Ending::Judged(Verdict::Valid) => ("good", "✓"),
        Ending::Judged(Verdict::Degraded) => ("fair", "!"),
        Ending::Judged(Verdict::Invalid) | Ending::Failed => ("bad", "✗"),
        Ending::Cancelled => ("fair", "–"),
        Ending::Unjudged => ("", "–"),
        Ending::Unfinished => ("", "…"),
    };
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

pub fn ratio(found: &Comparison) -> Markup {
    html! {
        @if has_ratio(found) {
            span { (figures::ratio(found.ratio.mid)) "×" }
            @if found.interval_known { " " small { (figures::interval(&found.ratio)) } }
        }
    }
}

pub fn brief(row: &Row) -> String {
    let found = row.comparison.as_ref();
    let sign = found.map_or("", |found| sign(found.verdict));
    match found.filter(|found| has_ratio(found)) {
        Some(found) => format!("{sign} {}×", figures::ratio(found.ratio.mid)),
        None => sign.to_owned(),
    }
}

/// Why samples of a row are not Valid: its phase's findings, and failures of Invalid runs.
pub fn reasons(document: &Document, row: &Row) -> Vec<String> {
    let runs = document.runs.iter().filter(|run| row.samples.iter().any(|sample| sample.run == run.name));
    let texts = runs.flat_map(|run| {
        let findings = run.reasons.iter().filter(|found| found.phase == row.phase);
        let findings = findings.map(|found| format!("{}: {}", found.reason.reason, found.reason.message));
        let failure = run.failure.clone().filter(|_| run.verdict == Some(Verdict::Invalid));
        findings.chain(failure).collect::<Vec<_>>()
    });
    distinct(texts)
}

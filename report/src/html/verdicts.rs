//! Verdicts as badges: a sign and a word, never colour alone.

use super::layout::distinct;
use crate::{
    document::{Comparison, Document, Row, RunRecord, Sample},
    figures,
    layout::sign,
};
use dragstrip_crds::{
    run::{RunPhase, Verdict, VerdictReason},
    suite::ComparisonVerdict,
};
use maud::{Markup, html};

/// Whether a number may be believed, in words.
pub fn badge(verdict: Option<Verdict>, words: &str) -> Markup {
    let (class, sign) = match verdict {
        Some(Verdict::Valid) => ("good", "✓"),
        Some(Verdict::Degraded) => ("fair", "!"),
        Some(Verdict::Invalid) => ("bad", "✗"),
        None => ("", "–"),
    };
    html! { span class={ "tag " (class) } { (sign) " " (words) } }
}

/// The worst verdict of a figure's measurements; where some of them count all the same, how
/// many do not.
pub fn of_row(row: &Row) -> String {
    let invalid = row.samples.iter().filter(|sample| is_invalid(sample)).count();
    match row.verdict {
        None => "no verdict".to_owned(),
        Some(Verdict::Invalid) if row.spread.is_some() => {
            format!("{invalid} of {} Invalid", row.samples.len())
        }
        Some(verdict) => verdict.to_string(),
    }
}

/// How a run ended, as far as its numbers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With numbers that were judged.
    Judged(Option<Verdict>),
    /// Without.
    Failed,
    /// It was stopped.
    Cancelled,
    /// It has not ended.
    Unfinished(RunPhase),
}

/// A run whose numbers are Invalid has failed too; that they are Invalid says more.
pub fn ending(run: &RunRecord) -> Ending {
    match (run.phase, run.verdict) {
        (RunPhase::Failed, Some(Verdict::Invalid)) | (RunPhase::Succeeded, _) => Ending::Judged(run.verdict),
        (RunPhase::Failed, _) => Ending::Failed,
        (RunPhase::Cancelled, _) => Ending::Cancelled,
        (phase, _) => Ending::Unfinished(phase),
    }
}

/// How a run ended, as a badge.
pub fn run_badge(run: &RunRecord) -> Markup {
    match ending(run) {
        Ending::Judged(verdict) => {
            badge(verdict, &verdict.map_or("no verdict".to_owned(), |verdict| verdict.to_string()))
        }
        Ending::Failed => html! { span.tag.bad { "✗ Failed" } },
        Ending::Cancelled => html! { span.tag.fair { "– Cancelled" } },
        Ending::Unfinished(phase) => html! { span.tag { "… " (format!("{phase:?}")) } },
    }
}

/// A comparison's word with its sign.
pub fn standing(verdict: ComparisonVerdict) -> Markup {
    let class = match verdict {
        ComparisonVerdict::Better => "up",
        ComparisonVerdict::Worse => "down",
        _ => "even",
    };
    html! { span class=(class) { (sign(verdict)) " " (word(verdict)) } }
}

/// A comparison's word.
pub fn word(verdict: ComparisonVerdict) -> String {
    match verdict {
        ComparisonVerdict::NotComparable => "not comparable".to_owned(),
        other => other.to_string(),
    }
}

/// A ratio with its interval, where one is known.
pub fn ratio(comparison: &Comparison) -> Markup {
    html! {
        span { (figures::ratio(comparison.ratio.mid)) "×" }
        @if comparison.interval_known {
            " " small { "[" (figures::ratio(comparison.ratio.low)) ", " (figures::ratio(comparison.ratio.high)) "]" }
        }
    }
}

/// Whether a measurement may not be used.
pub fn is_invalid(sample: &Sample) -> bool {
    sample.verdict == Some(Verdict::Invalid)
}

/// Why measurements of a phase are not Valid, each reason once: what was found of the phase,
/// and why Invalid ones' runs failed.
pub fn reasons(document: &Document, samples: &[Sample], phase: &str) -> Vec<String> {
    let texts = runs_of(document, samples).flat_map(|run| {
        let found = found_in(run, phase).map(|reason| format!("{}: {}", reason.reason, reason.message));
        let failure = run.failure.clone().filter(|_| run.verdict == Some(Verdict::Invalid));
        found.chain(failure).collect::<Vec<_>>()
    });
    let texts: Vec<String> = texts.collect();
    distinct(texts.iter().map(String::as_str))
}

/// The names of what was found of a phase, each once.
pub fn reason_names(document: &Document, samples: &[Sample], phase: &str) -> Vec<String> {
    let found = runs_of(document, samples).flat_map(|run| found_in(run, phase));
    distinct(found.map(|reason| reason.reason.as_str()))
}

fn runs_of<'a>(document: &'a Document, samples: &'a [Sample]) -> impl Iterator<Item = &'a RunRecord> {
    document.runs.iter().filter(|run| samples.iter().any(|sample| sample.run == run.name))
}

fn found_in<'a>(run: &'a RunRecord, phase: &'a str) -> impl Iterator<Item = &'a VerdictReason> {
    run.reasons.iter().filter(move |reason| reason.phase == phase).map(|reason| &reason.reason)
}

//! Verdicts as badges: a sign and a word, never colour alone.

use crate::{
    document::{Comparison, Document, Row, RunRecord, Sample},
    figures,
    layout::{Ending, distinct, has_ratio, sign},
};
use dragstrip_crds::{
    run::{Verdict, VerdictReason},
    suite::ComparisonVerdict,
};
use maud::{Markup, html};

/// Whether a number may be believed, in words.
pub fn badge(verdict: Option<Verdict>, words: &str) -> Markup {
    let (class, sign) = look(verdict.map_or(Ending::Unjudged, Ending::Judged));
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

/// The class and the sign of an ending.
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

/// How a run ended, as a badge.
pub fn run_badge(run: &RunRecord) -> Markup {
    let ending = Ending::of(run);
    let (class, sign) = look(ending);
    html! {
        span class={ "tag " (class) } {
            (sign) " " @if ending == Ending::Unfinished { (run.phase) } @else { (ending.word()) }
        }
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

/// A ratio with its interval, as far as they are known.
pub fn ratio(comparison: &Comparison) -> Markup {
    let (low, high) = figures::ends(&comparison.ratio);
    html! {
        @if has_ratio(comparison) {
            span { (figures::ratio(comparison.ratio.mid)) "×" }
            @if comparison.interval_known { " " small { "[" (low) ", " (high) "]" } }
        }
    }
}

/// A comparison where there is little room: its sign, and the ratio where there is one.
pub fn brief(comparison: &Comparison) -> String {
    let sign = sign(comparison.verdict);
    if has_ratio(comparison) {
        format!("{sign} {}×", figures::ratio(comparison.ratio.mid))
    } else {
        sign.to_owned()
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
    distinct(texts)
}

/// The names of what was found of a phase, each once.
pub fn reason_names<'a>(document: &'a Document, samples: &'a [Sample], phase: &'a str) -> Vec<&'a str> {
    let found = runs_of(document, samples).flat_map(|run| found_in(run, phase));
    distinct(found.map(|reason| reason.reason.as_str()))
}

fn runs_of<'a>(document: &'a Document, samples: &'a [Sample]) -> impl Iterator<Item = &'a RunRecord> {
    document.runs.iter().filter(|run| samples.iter().any(|sample| sample.run == run.name))
}

fn found_in<'a>(run: &'a RunRecord, phase: &'a str) -> impl Iterator<Item = &'a VerdictReason> {
    run.reasons.iter().filter(move |reason| reason.phase == phase).map(|reason| &reason.reason)
}

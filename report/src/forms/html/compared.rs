//! Thresholds, and the method of the comparison.

use super::super::words;
use crate::{
    document::{BaselineHead, Difference, Document},
    select::distinct,
};
use dragstrip_crds::thresholds::ClaimState;
use maud::{Markup, html};

/// The outcome of each threshold, missed ones first.
pub fn thresholds(document: &Document) -> Option<Markup> {
    let (met, missed): (Vec<_>, Vec<_>) = document.thresholds.iter().partition(|status| status.met);
    let tag = |state| match state {
        Some(ClaimState::Unclear | ClaimState::NotMeasured) => html! { span.tag.fair { "? unclear" } },
        Some(ClaimState::NotComparable) => html! { span.tag.fair { "≠ not comparable" } },
        _ => html! { span.tag.bad { "✗ missed" } },
    };
    (!document.thresholds.is_empty()).then(|| {
        html! {
            @for status in missed { p { (tag(status.state)) " " (status.message) } }
            @for status in met { p { span.tag.good { "✓ met" } " " (status.message) } }
        }
    })
}

pub fn method(document: &Document) -> Option<Markup> {
    document.baseline.as_ref()?;
    Some(html! {
        p { "▲ Better and ▼ Worse: significant, and larger than the margin. = Same: proven to be within the margin. ? Unclear: anything else." }
        @for (place, baseline) in document.baselines().enumerate() { (of_baseline(document, place, baseline)) }
    })
}

/// The method of the comparison with the baseline at `place`, and what differs from it.
fn of_baseline(document: &Document, place: usize, baseline: &BaselineHead) -> Markup {
    let (declared, undeclared): (Vec<_>, Vec<_>) =
        baseline.differences.iter().partition(|difference| difference.varied);
    let why = |row| document.compared(row).nth(place).and_then(|(_, _, why)| why);
    let uncompared = distinct(document.rows.iter().filter_map(why));
    let differences =
        |all: &[&Difference]| html! { @for difference in all { p { (words::difference(difference)) } } };
    html! {
        p { "Baseline: " b { (words::baseline_name(baseline)) } ". " (baseline.method) }
        @for note in &baseline.notes { p.note { (note) } }
        @if !uncompared.is_empty() {
            h3 { "Not compared" }
            @for reason in uncompared { p { (reason) } }
        }
        @if !undeclared.is_empty() {
            h3 { "Undeclared differences" }
            (differences(&undeclared))
        }
        @if !declared.is_empty() {
            details { summary { "Declared differences (" (declared.len()) ")" } (differences(&declared)) }
        }
    }
}

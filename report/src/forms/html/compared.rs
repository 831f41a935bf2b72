//! Thresholds, and the method of the comparison.

use super::super::words;
use crate::{
    document::{Difference, Document},
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
    let baseline = document.baseline.as_ref()?;
    let (declared, undeclared): (Vec<_>, Vec<_>) =
        baseline.differences.iter().partition(|difference| difference.varied);
    let uncompared = distinct(document.rows.iter().filter_map(|row| row.uncompared.as_deref()));
    let differences =
        |all: &[&Difference]| html! { @for difference in all { p { (words::difference(difference)) } } };
    Some(html! {
        p { "Baseline: " b { (baseline.name) } " (" (baseline.kind) "). " (baseline.method) }
        @for note in &baseline.notes { p.note { (note) } }
        p { "▲ Better and ▼ Worse: significant, and larger than the margin. = Same: proven to be within the margin. ? Unclear: anything else." }
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
    })
}

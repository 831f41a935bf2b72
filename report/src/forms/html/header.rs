//! The head of the page: what there is, in counts, and the notes.

use super::super::words::{baseline_names, findings, summary};
use crate::document::Document;
use dragstrip_crds::units::counted;
use maud::{Markup, html};

/// Findings above the first figures, which a phone's first screen shows too.
const FIRST: usize = 3;

pub fn header(document: &Document) -> Markup {
    html! {
        header {
            p.brand { "Dragstrip report" }
            h1 { (document.title) }
            p {
                (summary(document))
                @if let Some(names) = baseline_names(document) { ", compared with " (names) }
            }
            @let all = findings(document);
            @let (first, more) = all.split_at(all.len().min(FIRST));
            @for found in first { p.found { (found) } }
            @if !more.is_empty() {
                details {
                    summary { (counted(more.len() as u64, "more finding")) }
                    @for found in more { p { (found) } }
                }
            }
            @for note in &document.notes { p.note { (note) } }
            @let notes = document.variants.iter().filter_map(|head| Some((&head.name, head.note.as_ref()?)));
            @for (variant, note) in notes { p.rests { b { (variant) } ": " (note) } }
        }
    }
}

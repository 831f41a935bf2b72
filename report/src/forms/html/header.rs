//! The head of the page: what there is, in counts, and the notes.

use super::super::words::{baseline_name, findings, summary};
use crate::document::Document;
use maud::{Markup, html};

pub fn header(document: &Document) -> Markup {
    html! {
        header {
            p.brand { "Dragstrip report" }
            h1 { (document.title) }
            p {
                (summary(document))
                @if let Some(baseline) = &document.baseline { ", compared with " (baseline_name(baseline)) }
            }
            @for found in findings(document) { p.found { (found) } }
            @for note in &document.notes { p.note { (note) } }
            @let notes = document.variants.iter().filter_map(|head| Some((&head.name, head.note.as_ref()?)));
            @for (variant, note) in notes { p.rests { b { (variant) } ": " (note) } }
        }
    }
}

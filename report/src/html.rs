//! The report as one page that people share: no file beside it, no network, readable
//! without its script, on a phone, in the dark and on paper.
//!
//! Whatever a document says is text here: maud escapes it, and a content security policy
//! lets nothing run but the page's own script.

mod charts;
mod compared;
mod figures;
mod finding;
mod format;
mod heat;
mod layout;
mod provenance;
mod runs;
mod verdicts;

use crate::document::Document;
use base64::{Engine, prelude::BASE64_STANDARD};
use layout::Layout;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The whole page.
pub fn render(document: &Document) -> String {
    let layout = Layout::of(document);
    let sections = [
        ("results", "Results", figures::results(document)),
        ("memory", "Memory", figures::memory(document)),
        ("thresholds", "Thresholds", compared::thresholds(document)),
        ("matrices", "Matrices", heat::maps(document)),
        ("bars", "Side by side", charts::bars::draw(document, &layout)),
        ("latency", "Latency by percentile", charts::curves::draw(document, &layout)),
        ("saturation", "Saturation", charts::saturation::draw(document, &layout)),
        ("seconds", "Second by second", charts::timelines::draw(document, &layout)),
        ("comparison", "How it was compared", compared::method(document)),
        ("runs", "Runs", runs::table(document)),
        ("conditions", "Conditions", provenance::record(document)),
        ("figures", "Every figure", figures::every(document)),
    ];
    let sections: Vec<(&str, &str, Markup)> =
        sections.into_iter().filter_map(|(id, name, body)| Some((id, name, body?))).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&document.title))
            body {
                (finding::header(document))
                nav aria-label="Sections" {
                    @for (id, name, _) in &sections { a href={ "#" (id) } { (name) } }
                }
                main {
                    @for (id, name, body) in &sections {
                        section id=(id) { h2 { (name) } (body) }
                    }
                }
                footer { "Made by Dragstrip " (env!("CARGO_PKG_VERSION")) ". Figures are means of repetitions ± 95 % confidence." }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// What a browser must know. Nothing may be fetched, and no script runs but the page's own.
fn head(title: &str) -> Markup {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            link rel="icon" href="data:,";
            title { (title) " · Dragstrip" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::build::tests::{bullmq, invalid_run, suite, two_axes};

    #[test]
    fn whatever_is_built_becomes_a_page_with_its_results() {
        for document in [suite(), two_axes(), invalid_run(), bullmq()] {
            let page = super::render(&document);
            assert!(page.contains("<h2>Results"), "{} has no results", document.title);
            assert!(
                !page.contains("could not be drawn"),
                "{} has a chart that cannot be drawn",
                document.title
            );
        }
    }

    #[test]
    fn a_measurement_is_struck_out_with_the_failure_of_its_run() {
        let page = super::render(&invalid_run());
        assert!(page.contains("<s title=\"Tool: memtier exited with 1\">90,000</s>"), "{page}");
    }
}

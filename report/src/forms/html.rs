//! The report as one page to share: it needs no other file and no network, and is readable without
//! its script, on a phone, in the dark and on paper. Pure.
//!
//! Everything in a document is text here: maud escapes it, and the content security policy runs
//! only the page's own script.

mod charts;
mod compared;
mod figures;
mod header;
mod history;
mod runs;
mod table;
mod verdicts;

use crate::document::Document;
use base64::{Engine, prelude::BASE64_STANDARD};
use charts::SeriesLayout;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

pub use history::render as history;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

pub fn render(document: &Document) -> String {
    let layout = SeriesLayout::of(document);
    let sections = [
        ("results", "Results", figures::results(document)),
        ("cache", "Cache", figures::cache(document)),
        ("memory", "Memory", figures::memory(document)),
        ("thresholds", "Thresholds", compared::thresholds(document)),
        ("matrices", "Matrices", figures::matrices(document)),
        ("bars", "Side by side", charts::bars::draw(document, &layout)),
        ("latency", "Latency by percentile", charts::curves::draw(document, &layout)),
        ("saturation", "Saturation", charts::saturation::draw(document, &layout)),
        ("steady", "Not steady", charts::steady::draw(document, &layout)),
        ("seconds", "Second by second", charts::timelines::draw(document, &layout)),
        ("comparison", "Method", compared::method(document)),
        ("runs", "Runs", runs::table(document)),
        ("conditions", "Conditions", figures::conditions_of_runs(document)),
        ("figures", "Every figure", figures::every(document)),
    ];
    let sections: Vec<(&str, &str, Markup)> =
        sections.into_iter().filter_map(|(id, name, body)| Some((id, name, body?))).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&document.title))
            body {
                (header::header(document))
                nav aria-label="Sections" {
                    @for (id, name, _) in &sections { a href={ "#" (id) } { (name) } }
                }
                main {
                    @for (id, name, body) in &sections {
                        section id=(id) { h2 { (name) } (body) }
                    }
                }
                footer { "Made by Dragstrip " (env!("CARGO_PKG_VERSION")) ". Figures are means of repetitions ± 95 % confidence interval." }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The policy: fetch nothing, and run only the page's own script.
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
    use crate::{
        build::tests::{bullmq, invalid_run, suite, two_axes, unsteady},
        document::{AxisHead, Document},
        forms::{markdown, text},
    };
    use dragstrip_crds::suite::ComparisonVerdict;

    /// A suite of two axes, all of whose figures have this verdict.
    fn compared(verdict: ComparisonVerdict) -> Document {
        let mut document = suite();
        let values = ["1", "10", "100"].map(str::to_owned).to_vec();
        document.axes = ["pipeline", "threads"]
            .map(|name| AxisHead { name: name.to_owned(), values: values.clone() })
            .to_vec();
        document.rows.extend(document.rows.clone());
        let half = document.rows.len() / 2;
        for (place, row) in document.rows.iter_mut().enumerate() {
            row.cell.values.push(if place < half { "1" } else { "10" }.to_owned());
            if let Some(comparison) = &mut row.comparison {
                (comparison.verdict, comparison.ratio.mid) = (verdict, 1.2345);
                comparison.reason = "as it is".to_owned();
            }
        }
        document
    }

    /// A part of `page`, from its heading on.
    fn section<'a>(page: &'a str, heading: &str) -> &'a str {
        let section = page
            .split_once(&format!("<h2>{heading}</h2>"))
            .and_then(|(_, rest)| rest.split_once("</section>"));
        section.map_or("", |(section, _)| section)
    }

    #[test]
    fn every_document_has_results_on_its_page() {
        for document in [suite(), two_axes(), invalid_run(), bullmq()] {
            let page = super::render(&document);
            assert!(page.contains("<h2>Results"), "{} has no results", document.title);
        }
    }

    #[test]
    fn no_form_shows_a_ratio_that_is_not_comparable() {
        let document = compared(ComparisonVerdict::NotComparable);
        for (form, text) in [
            ("HTML", super::render(&document)),
            ("text", text::render(&document)),
            ("Markdown", markdown::render(&document)),
        ] {
            for ratio in ["1.23", "+12.0 %"] {
                assert!(!text.contains(ratio), "{form} has {ratio}");
            }
        }
        let page = super::render(&document);
        for heading in ["Results", "Matrices", "Side by side", "Every figure"] {
            assert!(
                section(&page, heading).contains('≠'),
                "{heading} does not say that it is not comparable"
            );
        }
    }

    #[test]
    fn comparisons_in_matrices_and_on_bars_have_a_sign() {
        let page = super::render(&compared(ComparisonVerdict::Worse));
        for (heading, sign) in [("Matrices", "▼"), ("Side by side", "▼ 1.23×")] {
            assert!(
                section(&page, heading).contains(sign),
                "{heading} has no sign: {}",
                section(&page, heading)
            );
        }
    }

    #[test]
    fn the_memory_table_has_everything_in_bytes() {
        let mut document = suite();
        let mut row = document.rows[0].clone();
        (row.metric, row.unit) = ("container memory right after".to_owned(), "MiB".to_owned());
        document.rows.push(row);
        let page = super::render(&document);
        assert!(section(&page, "Memory").contains("container memory right after MiB"), "{page}");
    }

    #[test]
    fn an_axis_column_sorts_values_as_declared() {
        let mut document = suite();
        document.axes[0].values = ["10", "1"].map(str::to_owned).to_vec();
        let page = super::render(&document);
        for heading in ["Results", "Runs", "Every figure"] {
            assert!(
                section(&page, heading).contains("data-declared=\"10\n1\""),
                "{heading} has another order"
            );
        }
    }

    #[test]
    fn a_repetition_that_was_not_steady_has_a_chart_with_the_part_marked_and_named() {
        let mut document = suite();
        assert_eq!(section(&super::render(&document), "Not steady"), "", "steady runs have no such section");
        document.runs[0].timelines = vec![unsteady()];
        let page = super::render(&document);
        let section = section(&page, "Not steady");
        for part in ["stall from 3 s to 4 s and 1 more", "throughput stalled", "class=\"fshade\"", "polyline"]
        {
            assert!(section.contains(part), "{part} is not in {section}");
        }
        assert_eq!(section.matches("fshade").count(), 2, "a mark for each stall: {section}");
    }

    #[test]
    fn the_hit_ratio_by_the_second_is_drawn_below_the_throughput() {
        let mut document = suite();
        let mut timeline = unsteady();
        document.runs[0].timelines = vec![timeline.clone()];
        assert!(!super::render(&document).contains("Hit ratio by the second"), "nothing was missed");
        let seconds = [(1, 9), (5, 5), (0, 0), (9, 1)];
        timeline.hits = Some(dragstrip_results::hit_series::HitSeries::of(seconds.into_iter()));
        document.runs[0].timelines = vec![timeline];
        let page = super::render(&document);
        assert_eq!(page.matches("Hit ratio by the second").count(), 1, "{page}");
    }

    #[test]
    fn an_invalid_measurement_shows_the_failure_of_its_run() {
        let page = super::render(&invalid_run());
        assert!(page.contains("<s title=\"Tool: memtier exited with 1\">90,000</s>"), "{page}");
    }
}

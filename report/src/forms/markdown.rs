//! The report as GitHub's Markdown: the summary first, long parts folded, and all of it short
//! enough for a comment. Pure.

mod escape;
mod parts;

use super::words::{
    baseline_name, baseline_names, confirmations, difference, findings, methods, summary, troubles, unsteady,
};
use crate::{
    document::{BaselineHead, Document},
    tables::{Grid, Style, all_figures, conditions, listings, pivot_grids, saturation},
};
use dragstrip_crds::thresholds::MetricName;
use escape::escaped;
use parts::{Part, join};

const LONG_TABLE: usize = 40;
const MATRICES_SHOWN: usize = 4;
/// GitHub's limit for comments is 65,536 characters.
const LONGEST: usize = 60_000;

const STYLE: Style = Style {
    beside: &[
        MetricName::OperationsPerSecond,
        MetricName::MeanMilliseconds,
        MetricName::P50Milliseconds,
        MetricName::P99Milliseconds,
        MetricName::P999Milliseconds,
        MetricName::OperationsPerCoreSecond,
        MetricName::SecondsPerBatch,
        MetricName::ServerUsedBytes,
        MetricName::ServerPeakBytes,
        MetricName::BytesPerKey,
    ],
    notes: true,
};

pub fn render(document: &Document) -> String {
    let compared = baseline_names(document).map(|names| {
        let names = escaped(&names);
        format!(" Compared with {names}. ▲ better, ▼ worse, = the same, ? unclear, ≠ not comparable.")
    });
    let summary = format!("{}.{}\n", escaped(&summary(document)), compared.unwrap_or_default());
    let head = format!("# {}\n\n{summary}", escaped(&document.title));
    let mut parts = vec![Part::new("", head)];
    parts.extend(Part::list("What was found", findings(document)));
    parts.extend(thresholds(document, false).map(|part| part.below("**Thresholds not met**")));
    parts.extend(thresholds(document, true).map(|part| part.folded("Thresholds met")));
    parts.extend(listings(document, &STYLE).iter().map(listing));
    parts.extend(matrices(document));
    parts.extend(saturation(document).iter().map(listing));
    parts.extend(notes(document));
    for (name, grid) in [
        ("Every figure with its measurements", all_figures(document)),
        ("Conditions of the runs", conditions(document)),
    ] {
        parts.extend((!grid.lines.is_empty()).then(|| Part::table(name, &grid).folded(name)));
    }
    join(parts, LONGEST)
}

fn thresholds(document: &Document, met: bool) -> Option<Part> {
    let messages = document.thresholds.iter().filter(|row| row.met == met).map(|row| row.message.clone());
    Part::list(if met { "Thresholds met" } else { "Thresholds not met" }, messages)
}

fn listing(grid: &Grid) -> Part {
    let table = Part::table(&format!("Table of {}", grid.title), grid);
    let lines = grid.lines.len();
    let table = if lines > LONG_TABLE { table.folded(&format!("{lines} lines")) } else { table };
    table.below(&format!("## {}", escaped(&grid.title)))
}

fn matrices(document: &Document) -> Vec<Part> {
    let grids = pivot_grids(document);
    let part = |grid: &Grid| {
        let table = Part::table(&format!("Table of {}", grid.title), grid);
        if grid.title.is_empty() { table } else { table.below(&format!("**{}**", escaped(&grid.title))) }
    };
    let (shown, rest) = grids.split_at(grids.len().min(MATRICES_SHOWN));
    let name = format!("{} more tables", rest.len());
    let more = Part::new(&name, rest.iter().map(|grid| part(grid).text().to_owned() + "\n").collect());
    let more = (!rest.is_empty()).then(|| more.folded(&name));
    shown.iter().map(part).chain(more).collect()
}

fn notes(document: &Document) -> impl Iterator<Item = Part> {
    let list = |name: &str, texts: Vec<String>| {
        Some(Part::list(name, texts)?.below(&format!("**{}**", escaped(name))))
    };
    let differences = |baseline: &BaselineHead| {
        let texts = baseline.differences.iter().map(difference).collect();
        list(&format!("Differences from {}", baseline_name(baseline)), texts)
    };
    let mut all = vec![
        list("Runs that are not Valid", troubles(document)),
        list("Not steady", unsteady(document)),
        list("Confirmed limits", confirmations(document)),
    ];
    all.extend(document.baselines().map(differences));
    all.push(list("Notes", document.all_notes().cloned().chain(methods(document)).collect()));
    all.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        build::tests::{bullmq, invalid_run, suite},
        document::Row,
    };
    use dragstrip_crds::run::Verdict;

    #[test]
    fn a_suite_has_its_summary_first_and_long_parts_folded() {
        insta::assert_snapshot!(render(&suite()));
    }

    #[test]
    fn a_large_suite_fits_into_a_comment_with_a_note_about_the_rest() {
        let mut large = suite();
        let of_one = |row: &&Row| row.cell.variant == "valkey-8" && row.cell.values == ["1"];
        let rows: Vec<Row> = large.rows.iter().filter(of_one).cloned().collect();
        large.axes[0].values = (0..200).map(|value| value.to_string()).collect();
        large.rows = Vec::new();
        for value in &large.axes[0].values {
            for phase in ["write", "read", "mixed"] {
                large.rows.extend(rows.iter().cloned().map(|mut row| {
                    (row.cell.values, row.phase) = (vec![value.clone()], phase.to_owned());
                    row
                }));
            }
        }
        for run in &mut large.runs {
            run.failure = Some("x".repeat(1000));
            run.verdict = Some(Verdict::Invalid);
        }
        let text = render(&large);
        assert!(text.len() < 65_536, "{} bytes", text.len());
        for phase in ["write", "read", "mixed"] {
            let shown = text.contains(&format!("## {phase}\n"));
            let omitted = text.contains(&format!("Table of {phase}: too long for a comment"));
            assert!(shown != omitted, "{phase} is missing or there twice: {text}");
        }
        assert!(text.contains("Every figure with its measurements: too long for a comment"), "{text}");
        assert!(render(&suite()).contains("Every figure with its measurements"), "a small one has all");
    }

    #[test]
    fn no_name_or_note_is_markup() {
        let mut document = suite();
        let hostile = "![](https://x/t.png) @team";
        document.title = hostile.to_owned();
        document.variants[0].note = Some(hostile.to_owned());
        document.axes[0].name = hostile.to_owned();
        document.notes.push(hostile.to_owned());
        for row in &mut document.rows {
            (row.phase, row.metric) = (hostile.to_owned(), format!("{} {hostile}", row.metric));
        }
        for run in &mut document.runs {
            run.provenance.insert(hostile.to_owned(), hostile.to_owned());
        }
        let text = render(&document);
        assert!(text.contains("!\\[\\](https://x/t.png) @&#8203;team"), "{text}");
        assert!(!text.contains("![") && !text.contains("@team"), "{text}");
    }

    #[test]
    fn invalid_figures_are_struck_out() {
        let text = render(&invalid_run());
        assert!(text.contains("~~90,000~~"), "{text}");
    }

    #[test]
    fn a_list_of_backends_has_ratios_increments_and_notes() {
        insta::assert_snapshot!(render(&bullmq()));
    }
}

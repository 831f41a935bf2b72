//! The report as GitHub's Markdown: the summary first, what is long folded. Pure.

use crate::{
    document::{Document, RunRecord},
    layout::{self, Grid, Style},
    text::{difference, summary, troubles, whose},
};
use dragstrip_crds::thresholds::MetricName;

/// Tables with more lines are folded.
const FOLDED_FROM: usize = 40;
/// Matrices from this one on are folded.
const MATRICES_SHOWN: usize = 4;
/// GitHub takes comments of up to 65,536 characters: what would make one longer is left out.
const LONGEST: usize = 60_000;

const STYLE: Style = Style {
    struck: |value| format!("~~{value}~~"),
    beside: &[
        MetricName::MeanMilliseconds,
        MetricName::P50Milliseconds,
        MetricName::P99Milliseconds,
        MetricName::P999Milliseconds,
        MetricName::SecondsPerBatch,
        MetricName::ServerUsedBytes,
        MetricName::ServerPeakBytes,
    ],
    notes: true,
};

/// The document as Markdown.
pub fn render(document: &Document) -> String {
    let mut parts = vec![format!("# {}\n", escaped(&document.title)), head(document)];
    parts.extend(thresholds(document));
    for grid in layout::listings(document, &STYLE) {
        let heading = format!("## {}\n", escaped(&grid.title));
        let text = table(&grid);
        let lines = grid.lines.len();
        parts.push(heading);
        parts.push(if lines > FOLDED_FROM { folded(&format!("{lines} lines"), &text) } else { text });
    }
    parts.extend(matrices(document));
    parts.extend(notes(document));
    let provenance = provenance(document).unwrap_or_default();
    let long = parts.iter().map(String::len).sum::<usize>() + provenance.len();
    parts.extend(every_figure(document, LONGEST.saturating_sub(long)));
    parts.push(provenance);
    parts.join("\n")
}

/// All that was measured, folded, where it has at most `longest` bytes; else where it is found.
fn every_figure(document: &Document, longest: usize) -> Option<String> {
    let all = layout::all_figures(document, &STYLE);
    if all.lines.is_empty() {
        return None;
    }
    let text = folded("Every figure with its measurements", &table(&all));
    Some(if text.len() <= longest {
        text
    } else {
        format!(
            "The {} figures with their measurements are in the report as CSV and as HTML.\n",
            all.lines.len()
        )
    })
}

/// `text` so that Markdown takes it as it is, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '\\' | '|' | '*' | '`' | '[' | ']' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A cell of a table: strikings stay, a column cannot end.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

fn table(grid: &Grid) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "))
    };
    let words = ["Verdict", "Notes", "Measurements"];
    let rule = |(place, heading): (usize, &String)| {
        let left = place < grid.names || words.contains(&heading.as_str());
        (if left { ":---" } else { "---:" }).to_owned()
    };
    let rule: Vec<String> = grid.header.iter().enumerate().map(rule).collect();
    let lines: String = grid.lines.iter().map(|cells| line(cells)).collect();
    format!("{}{}{lines}", line(&grid.header), line(&rule))
}

fn folded(summary: &str, text: &str) -> String {
    format!("<details><summary>{}</summary>\n\n{text}\n</details>\n", summary.replace('<', "&lt;"))
}

fn head(document: &Document) -> String {
    let compared = document.baseline.as_ref().map(|baseline| {
        format!(
            " Compared with {}. ▲ better, ▼ worse, = the same, ? unclear, ≠ not comparable.",
            escaped(&whose(baseline))
        )
    });
    format!("{}.{}\n", escaped(&summary(document)), compared.unwrap_or_default())
}

fn list(all: impl Iterator<Item = String>) -> String {
    all.map(|text| format!("- {}\n", escaped(&text))).collect::<Vec<_>>().concat()
}

/// Those that are not met in full, the others folded.
fn thresholds(document: &Document) -> Vec<String> {
    let of = |met: bool| {
        document.thresholds.iter().filter(move |row| row.met == met).map(|row| row.message.clone())
    };
    let (missed, met) = (list(of(false)), list(of(true)));
    let missed = (!missed.is_empty()).then(|| format!("**Thresholds not met**\n\n{missed}"));
    let met = (!met.is_empty()).then(|| folded("Thresholds met", &met));
    missed.into_iter().chain(met).collect()
}

fn matrices(document: &Document) -> Vec<String> {
    let grids = layout::pivot_grids(document, &STYLE);
    let titled = |grid: &Grid| {
        let title =
            if grid.title.is_empty() { String::new() } else { format!("**{}**\n\n", escaped(&grid.title)) };
        format!("{title}{}", table(grid))
    };
    let (shown, rest) = grids.split_at(grids.len().min(MATRICES_SHOWN));
    let rest: Vec<String> = rest.iter().map(titled).collect();
    let rest = (!rest.is_empty()).then(|| folded(&format!("{} more tables", rest.len()), &rest.join("\n")));
    shown.iter().map(titled).chain(rest).collect()
}

/// What readers must know of the figures.
fn notes(document: &Document) -> Vec<String> {
    let trouble = list(troubles(document).into_iter());
    let differences =
        document.baseline.as_ref().map(|baseline| list(baseline.differences.iter().map(difference)));
    let method = document.baseline.as_ref().map(|baseline| baseline.method.clone());
    let notes = list(document.notes.iter().cloned().chain(method));
    let titled = |title: &str, text: String| (!text.is_empty()).then(|| format!("**{title}**\n\n{text}"));
    let all = [
        titled("Runs that are not Valid", trouble),
        titled("What differs from the baseline", differences.unwrap_or_default()),
        titled("Notes", notes),
    ];
    all.into_iter().flatten().collect()
}

/// Facts by run: once those that all runs share.
fn provenance(document: &Document) -> Option<String> {
    let first = document.runs.first()?;
    let shared = |name: &String, value: &String| {
        document.runs.iter().all(|run| run.provenance.get(name) == Some(value))
    };
    let common = first.provenance.iter().filter(|(name, value)| shared(name, value));
    let mut lines: Vec<String> = common.map(|(name, value)| format!("{name}: {value}")).collect();
    let mut own: Vec<(String, Vec<&RunRecord>)> = Vec::new();
    for run in &document.runs {
        let facts = run.provenance.iter().filter(|(name, value)| !shared(name, value));
        let facts = facts.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ");
        match own.iter_mut().find(|(known, _)| *known == facts) {
            Some((_, runs)) => runs.push(run),
            None => own.push((facts, vec![run])),
        }
    }
    own.retain(|(facts, _)| !facts.is_empty());
    lines.extend(own.iter().map(|(facts, runs)| format!("{}: {facts}", whose_runs(document, runs))));
    (!lines.is_empty()).then(|| folded("Where the figures come from", &list(lines.into_iter())))
}

/// `runs` by their variants where they are all of these variants', else by their names.
fn whose_runs(document: &Document, runs: &[&RunRecord]) -> String {
    let variants = layout::distinct(runs.iter().map(|run| run.cell.variant.as_str()));
    let all = document.runs.iter().filter(|run| variants.contains(&run.cell.variant.as_str())).count();
    if all == runs.len() {
        variants.join(", ")
    } else {
        runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{bullmq, invalid_run, suite};

    #[test]
    fn a_suite_has_its_summary_first_and_what_is_long_folded() {
        insta::assert_snapshot!(render(&suite()));
    }

    #[test]
    fn a_large_suite_fits_a_comment_and_says_where_the_rest_is() {
        let mut large = suite();
        let rows = large.rows.clone();
        for copy in 0..40 {
            large.rows.extend(rows.iter().cloned().map(|mut row| {
                row.phase = format!("{} {copy}", row.phase);
                row
            }));
        }
        let text = render(&large);
        assert!(text.contains("figures with their measurements are in the report as CSV"), "{text}");
        assert!(!text.contains("Every figure with its measurements"));
        assert!(render(&suite()).contains("Every figure with its measurements"), "a small one has all");
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

    #[test]
    fn texts_cannot_break_a_table() {
        assert_eq!((cell("a|b\nc").as_str(), escaped("<b> *x*").as_str()), ("a\\|b c", "&lt;b> \\*x\\*"));
    }
}

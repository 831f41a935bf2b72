//! The report for terminals. Pure.

use crate::{
    document::{BaselineHead, Difference, Document, RunRecord},
    layout::{self, Ending, Grid, Style},
};
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::{run::Verdict, thresholds::MetricName};

/// Columns of a terminal that tables stay within where they can.
const WIDTH: usize = 120;

fn struck(value: &str) -> String {
    format!("✗{value}")
}

/// From the most to the fewest columns.
const STYLES: [Style; 3] = [
    Style {
        struck,
        beside: &[
            MetricName::P50Milliseconds,
            MetricName::P99Milliseconds,
            MetricName::SecondsPerBatch,
            MetricName::ServerUsedBytes,
        ],
        notes: false,
    },
    Style { struck, beside: &[MetricName::P50Milliseconds, MetricName::P99Milliseconds], notes: false },
    Style { struck, beside: &[MetricName::P99Milliseconds], notes: false },
];

/// The document for a terminal.
pub fn render(document: &Document) -> String {
    let mut parts = vec![head(document)];
    parts.extend(listings(document));
    parts.extend(layout::pivot_grids(document, &STYLES[2]).iter().map(|grid| table(grid).1));
    parts.push(missed(document));
    parts.push(document.baseline.as_ref().map(differences).unwrap_or_default());
    parts.push(runs(document));
    parts.push(lines("note: ", document.all_notes().cloned()));
    parts.push(
        document.baseline.as_ref().map(|baseline| format!("{}\n", baseline.method)).unwrap_or_default(),
    );
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn lines(prefix: &str, all: impl Iterator<Item = String>) -> String {
    all.map(|line| format!("{prefix}{line}\n")).collect::<Vec<_>>().concat()
}

/// The title, and what it is about in a line.
fn head(document: &Document) -> String {
    let baseline = document.baseline.as_ref().map(|baseline| format!(", compared with {}", whose(baseline)));
    format!("{}: {}{}\n", document.title, summary(document), baseline.unwrap_or_default())
}

pub(crate) fn whose(baseline: &BaselineHead) -> String {
    match baseline.kind.as_str() {
        "published" => format!("the published table {}", baseline.name),
        kind => format!("the {kind} {}", baseline.name),
    }
}

/// How many runs there are, how they ended, and whether thresholds are met.
pub(crate) fn summary(document: &Document) -> String {
    let told: Vec<String> =
        layout::endings(document).iter().map(|(ending, n)| format!("{n} {}", ending.word())).collect();
    let runs = match document.runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let met = document.thresholds.iter().filter(|row| row.met).count();
    let thresholds = match document.thresholds.len() {
        0 => String::new(),
        all => format!("; {met} of {all} thresholds met"),
    };
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    format!("{runs}{told}{thresholds}")
}

fn listings(document: &Document) -> Vec<String> {
    let mut fitting: Vec<String> = Vec::new();
    for style in &STYLES {
        let tables: Vec<(usize, String)> = layout::listings(document, style).iter().map(table).collect();
        let fits = tables.iter().all(|(width, _)| *width <= WIDTH);
        fitting = tables.into_iter().map(|(_, text)| text).collect();
        if fits {
            break;
        }
    }
    fitting
}

/// The table of `grid` and its width in characters.
fn table(grid: &Grid) -> (usize, String) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(&grid.header).add_rows(&grid.lines);
    let words = ["Verdict", "Notes"];
    for (column, heading) in table.column_iter_mut().zip(&grid.header).skip(grid.names) {
        if !words.contains(&heading.as_str()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = if grid.title.is_empty() { String::new() } else { format!("{}\n", grid.title) };
    let width = table.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    (width, format!("{title}{table}\n"))
}

fn missed(document: &Document) -> String {
    let missed = document.thresholds.iter().filter(|row| !row.met);
    lines("threshold not met: ", missed.map(|row| row.message.clone()))
}

pub(crate) fn difference(difference: &Difference) -> String {
    let whose = difference.cell.as_ref().map(|cell| {
        let names = std::iter::once(&cell.variant).chain(&cell.values).cloned();
        format!("{}: ", names.collect::<Vec<_>>().join(" "))
    });
    let unvaried = if difference.varied { "" } else { ", which nothing declares" };
    format!(
        "{}{} is {} instead of {}{unvaried}",
        whose.unwrap_or_default(),
        difference.fact,
        difference.here,
        difference.baseline
    )
}

fn differences(baseline: &BaselineHead) -> String {
    lines("differs: ", baseline.differences.iter().map(difference))
}

/// What a run that is not Valid has to say, in one line.
pub(crate) fn trouble(run: &RunRecord) -> Option<String> {
    trouble_of(run, 0)
}

/// The same, of `more` runs besides.
fn trouble_of(run: &RunRecord, more: usize) -> Option<String> {
    let verdict = match Ending::of(run) {
        Ending::Judged(Verdict::Valid) | Ending::Unjudged | Ending::Unfinished => return None,
        Ending::Judged(verdict) => format!(", {verdict}"),
        Ending::Failed | Ending::Cancelled => String::new(),
    };
    let reasons = run.reasons.iter().map(|found| format!("{}: {}", found.phase, found.reason.message));
    let all: Vec<String> = run.failure.iter().cloned().chain(reasons).collect();
    let why = if all.is_empty() { String::new() } else { format!(": {}", all.join("; ")) };
    let others = if more == 0 { String::new() } else { format!(" and {more} more alike") };
    Some(format!("{} ({}){others}{verdict}{why}", run.name, run.phase))
}

/// What runs that are not Valid have to say. Those Degraded or cancelled for the same reasons, as
/// all are on a machine that clients and servers share, are told once, by the first of them.
pub(crate) fn troubles(document: &Document) -> Vec<String> {
    let alike = |one: &RunRecord, other: &RunRecord| {
        let named = |run: &RunRecord| -> Vec<(String, String)> {
            run.reasons.iter().map(|found| (found.phase.clone(), found.reason.reason.clone())).collect()
        };
        let ending = Ending::of(one);
        let common = matches!(ending, Ending::Judged(Verdict::Degraded) | Ending::Cancelled);
        let failed = one.failure.is_some() || other.failure.is_some();
        common && !failed && ending == Ending::of(other) && named(one) == named(other)
    };
    let mut groups: Vec<(&RunRecord, usize)> = Vec::new();
    for run in &document.runs {
        match groups.iter_mut().find(|(first, _)| alike(first, run)) {
            Some((_, more)) => *more += 1,
            None => groups.push((run, 0)),
        }
    }
    groups.into_iter().filter_map(|(run, more)| trouble_of(run, more)).collect()
}

fn runs(document: &Document) -> String {
    lines("", troubles(document).into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{invalid_run, suite, two_axes};
    use dragstrip_crds::run::RunPhase;

    #[test]
    fn a_suite_is_a_table_with_intervals_ratios_and_verdicts() {
        insta::assert_snapshot!(render(&suite()));
    }

    #[test]
    fn two_axes_are_a_matrix() {
        insta::assert_snapshot!(render(&two_axes()));
    }

    #[test]
    fn invalid_figures_are_struck_out_and_told() {
        insta::assert_snapshot!(render(&invalid_run()));
    }

    #[test]
    fn runs_degraded_alike_are_told_once_and_invalid_ones_each() {
        let mut document = suite();
        let of = |document: &Document, verdict| -> Vec<String> {
            let runs = document.runs.iter().filter(|run| run.verdict == Some(verdict));
            runs.map(|run| run.name.clone()).collect()
        };
        let (valid, invalid) = (of(&document, Verdict::Valid), of(&document, Verdict::Invalid));
        for run in document.runs.iter_mut().filter(|run| run.verdict == Some(Verdict::Valid)) {
            run.verdict = Some(Verdict::Degraded);
        }
        let told = troubles(&document);
        assert_eq!(told.len(), 1 + invalid.len(), "{told:#?}");
        let text = told.join("\n");
        let alike = format!("{} (Succeeded) and {} more alike, Degraded", valid[0], valid.len() - 1);
        assert!(text.contains(&alike) && invalid.iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn runs_that_were_cancelled_or_failed_without_a_verdict_are_told() {
        let mut document = suite();
        for run in &mut document.runs[..3] {
            (run.phase, run.verdict) = (RunPhase::Cancelled, None);
        }
        (document.runs[3].phase, document.runs[3].verdict) = (RunPhase::Failed, None);
        document.runs[3].failure = Some("Pods: none was scheduled".to_owned());
        let text = render(&document);
        assert!(text.contains("12 runs (8 Valid, 1 Failed, 3 Cancelled)"), "{text}");
        let [first, .., failed] = [0, 1, 2, 3].map(|place| document.runs[place].name.clone());
        for line in [
            format!("{first} (Cancelled) and 2 more alike\n"),
            format!("{failed} (Failed): Pods: none was scheduled\n"),
        ] {
            assert!(text.contains(&line), "{line:?} is not in: {text}");
        }
        let markdown = crate::markdown::render(&document);
        assert!(
            markdown.contains("**Runs that are not Valid**") && markdown.contains("(Cancelled)"),
            "{markdown}"
        );
    }

    #[test]
    fn tables_of_usual_suites_fit_a_terminal() {
        let text = render(&suite());
        let widest =
            text.lines().filter(|line| line.starts_with(['│', '┌'])).map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= WIDTH), "{text}");
    }
}

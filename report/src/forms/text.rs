//! The report for terminals. Pure.

use super::words::{
    baseline_name, baseline_names, confirmations, difference, findings, methods, summary, troubles, unsteady,
};
use crate::{
    document::Document,
    tables::{Grid, Item, Kind, Style, listings, pivot_grids, saturation},
};
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::thresholds::MetricName;

const STYLE: Style = Style {
    beside: &[
        MetricName::OperationsPerSecond,
        MetricName::P50Milliseconds,
        MetricName::P99Milliseconds,
        MetricName::OperationsPerCoreSecond,
        MetricName::SecondsPerBatch,
        MetricName::ServerUsedBytes,
        MetricName::BytesPerKey,
    ],
    notes: false,
};

pub fn render(document: &Document) -> String {
    let compared = baseline_names(document).map(|names| format!(", compared with {names}"));
    let mut parts =
        vec![format!("{}: {}{}\n", document.title, summary(document), compared.unwrap_or_default())];
    parts.push(lines("", findings(document).into_iter()));
    parts.extend(
        [listings(document, &STYLE), pivot_grids(document), saturation(document)].iter().flatten().map(table),
    );
    let (claims, others): (Vec<_>, Vec<_>) = document.thresholds.iter().partition(|row| row.state.is_some());
    let missed = others.into_iter().filter(|row| !row.met);
    parts.push(lines("threshold not met: ", missed.map(|row| row.message.clone())));
    parts.push(lines("", claims.into_iter().map(|row| row.message.clone())));
    for baseline in document.baselines() {
        let differs = format!("differs from {}: ", baseline_name(baseline));
        parts.push(lines(&differs, baseline.differences.iter().map(difference)));
    }
    parts.push(lines("", troubles(document).into_iter()));
    parts.push(lines("not steady: ", unsteady(document).into_iter()));
    parts.push(lines("confirmed: ", confirmations(document).into_iter()));
    parts.push(lines("note: ", document.all_notes().cloned()));
    parts.push(lines("", methods(document).into_iter()));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn lines(prefix: &str, all: impl Iterator<Item = String>) -> String {
    all.flat_map(|line| [prefix, &line, "\n"].map(str::to_owned)).collect()
}

fn table(grid: &Grid) -> String {
    let mut table = Table::new();
    let item = |item: &Item| item.render(str::to_owned, |struck| format!("✗{struck}"));
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_header(grid.columns.iter().map(|column| &column.heading));
    table.add_rows(grid.lines.iter().map(|line| line.iter().map(item)));
    for (column, cells) in grid.columns.iter().zip(table.column_iter_mut()) {
        if column.kind == Kind::Figure {
            cells.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = if grid.title.is_empty() { String::new() } else { format!("{}\n", grid.title) };
    format!("{title}{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{invalid_run, suite, two_axes, unsteady};
    use dragstrip_crds::run::{RunPhase, Verdict};

    #[test]
    fn a_suite_is_a_table_with_intervals_ratios_and_verdicts() {
        insta::assert_snapshot!(render(&suite()));
    }

    #[test]
    fn two_axes_are_a_matrix() {
        insta::assert_snapshot!(render(&two_axes()));
    }

    #[test]
    fn invalid_figures_are_struck_out() {
        insta::assert_snapshot!(render(&invalid_run()));
    }

    #[test]
    fn runs_degraded_alike_share_a_line_and_invalid_ones_do_not() {
        let mut document = suite();
        let of = |document: &Document, verdict| -> Vec<String> {
            let runs = document.runs.iter().filter(|run| run.verdict == Some(verdict));
            runs.map(|run| run.name.clone()).collect()
        };
        let (valid, invalid) = (of(&document, Verdict::Valid), of(&document, Verdict::Invalid));
        for run in document.runs.iter_mut().filter(|run| run.verdict == Some(Verdict::Valid)) {
            run.verdict = Some(Verdict::Degraded);
        }
        let lines = troubles(&document);
        assert_eq!(lines.len(), 1 + invalid.len(), "{lines:#?}");
        let text = lines.join("\n");
        let alike = format!(
            "{} (redis-7 pipeline=1, 1 of 3) and {} more like it: Succeeded, Degraded",
            valid[0],
            valid.len() - 1
        );
        assert!(text.contains(&alike) && invalid.iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn a_reason_that_several_phases_share_is_printed_once_behind_them() {
        let mut document = suite();
        let reason = |phase: &str| {
            serde_json::from_value(serde_json::json!({"phase": phase, "reason": "SharedNode",
                "verdict": "Degraded", "message": "clients and server shared node a"}))
            .unwrap()
        };
        document.runs[0].verdict = Some(Verdict::Degraded);
        document.runs[0].reasons = ["write", "read"].map(reason).to_vec();
        let text = render(&document);
        assert!(text.contains(": write, read: clients and server shared node a\n"), "{text}");
    }

    #[test]
    fn each_finding_about_steadiness_has_a_line_with_its_seconds() {
        let mut document = suite();
        document.runs[1].timelines = vec![unsteady()];
        let name = document.runs[1].name.clone();
        let line = format!(
            "{name} (redis-7 pipeline=1, 2 of 3), read, stall from 3 s to 4 s and 7 s to 10 s: throughput stalled"
        );
        let text = render(&document);
        assert!(text.contains(&format!("not steady: {line}\n")), "{text}");
        let markdown = crate::forms::markdown::render(&document);
        assert!(markdown.contains("**Not steady**") && markdown.contains("7 s to 10 s"), "{markdown}");
        document.runs[1].timelines = vec![unsteady(); 20];
        assert!(render(&document).contains("not steady: 8 more findings"), "{}", render(&document));
    }

    #[test]
    fn what_a_point_with_twice_the_connections_showed_is_one_sentence_in_every_form() {
        let mut document = suite();
        let sentence = "twice the connections (2 per thread) changed throughput by +80.0 %";
        let limit = serde_json::json!({"phase": "read", "by": "Connections", "evidence": "", "confirmation": sentence});
        document.runs[0].limited_by = vec![serde_json::from_value(limit).unwrap()];
        let line = format!("{} (redis-7 pipeline=1, 1 of 3), read: {sentence}", document.runs[0].name);
        let text = render(&document);
        assert!(text.contains(&format!("confirmed: {line}\n")), "{text}");
        let markdown = crate::forms::markdown::render(&document);
        assert!(
            markdown.contains("**Confirmed limits**") && markdown.contains("changed throughput"),
            "{markdown}"
        );
        let page = crate::forms::html::render(&document);
        assert!(page.contains(sentence), "the page has no sentence");
    }

    #[test]
    fn cancelled_runs_and_failed_ones_without_a_verdict_are_listed() {
        let mut document = suite();
        for run in &mut document.runs[..3] {
            (run.phase, run.verdict) = (RunPhase::Cancelled, None);
        }
        (document.runs[3].phase, document.runs[3].verdict) = (RunPhase::Failed, None);
        document.runs[3].failure = Some("Pods: none was scheduled".to_owned());
        let text = render(&document);
        assert!(text.contains("12 runs (8 Valid, 1 Failed, 3 Cancelled)"), "{text}");
        let [first, .., failed] = [0, 1, 2, 3].map(|place| document.describe(&document.runs[place]));
        for line in [
            format!("{first} and 2 more like it: Cancelled\n"),
            format!("{failed}: Failed: Pods: none was scheduled\n"),
        ] {
            assert!(text.contains(&line), "{line:?} is not in: {text}");
        }
        let markdown = crate::forms::markdown::render(&document);
        assert!(
            markdown.contains("**Runs that are not Valid**") && markdown.contains(": Cancelled"),
            "{markdown}"
        );
    }

    #[test]
    fn tables_of_usual_suites_fit_a_terminal() {
        let text = render(&suite());
        let widest =
            text.lines().filter(|line| line.starts_with(['│', '┌'])).map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 120), "{text}");
    }
}

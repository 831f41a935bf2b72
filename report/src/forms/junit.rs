//! The report as JUnit XML, which every CI shows: a case for each run and threshold. Pure.

use super::words::trouble;
use crate::document::{Document, RunRecord};
use dragstrip_crds::run::{RunPhase, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

fn failure(message: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message);
    status
}

fn outcome(document: &Document, run: &RunRecord) -> TestCaseStatus {
    match (run.phase, run.verdict) {
        (RunPhase::Succeeded, verdict) if verdict != Some(Verdict::Invalid) => TestCaseStatus::success(),
        (RunPhase::Failed | RunPhase::Succeeded, _) => {
            failure(trouble(document, run, 0).unwrap_or_else(|| format!("{} failed", run.name)))
        }
        (phase, _) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{} is {phase}", run.name));
            status
        }
    }
}

fn runs(document: &Document) -> TestSuite {
    let mut suite = TestSuite::new("runs");
    for run in &document.runs {
        let name = format!("{}, run {}", run.cell.label(&document.axes), run.repetition);
        let mut case = TestCase::new(name, outcome(document, run));
        case.set_classname(document.title.as_str());
        if let Some((start, end)) = run.started_at.zip(run.finished_at) {
            case.set_time(end.duration_since(start).unsigned_abs());
        }
        suite.add_test_case(case);
    }
    suite
}

fn thresholds(document: &Document) -> TestSuite {
    let mut suite = TestSuite::new("thresholds");
    for row in &document.thresholds {
        let status = if row.met { TestCaseStatus::success() } else { failure(row.message.clone()) };
        let whose = row.cell.as_ref().map(|cell| format!("{cell}, ")).unwrap_or_default();
        let (figure, number) = (format!("{} {} {}", row.phase, row.operation, row.metric), row.threshold + 1);
        let mut case = TestCase::new(format!("{whose}{figure} (threshold {number})"), status);
        case.set_classname(document.title.as_str());
        suite.add_test_case(case);
    }
    suite
}

/// The document as JUnit XML; if that fails, a comment with the error.
pub fn render(document: &Document) -> String {
    let mut report = Report::new(document.title.as_str());
    report.add_test_suite(runs(document));
    if !document.thresholds.is_empty() {
        report.add_test_suite(thresholds(document));
    }
    report.to_string().unwrap_or_else(|error| format!("<!-- {error} -->\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{invalid_run, suite};

    #[test]
    fn runs_and_thresholds_are_cases_with_a_reason_for_failures() {
        insta::assert_snapshot!(render(&suite()));
        insta::assert_snapshot!(render(&invalid_run()));
    }
}

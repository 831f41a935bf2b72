//! The status of a suite, derived from what exists. Pure but for [`publish`], which needs the client.

use super::{cache::SuiteCache, context::Pass, ended::Ended, report::Report};
use crate::cluster::apply::apply_status;
use dragstrip_core::{
    labels::SUITE_MANAGER,
    run::status::count,
    suite::{
        decide::{Child, Declared, Ending, Step},
        expand::Plan,
        validate::Invalid,
    },
};
use dragstrip_crds::{
    BenchmarkSuite, BenchmarkSuiteStatus,
    conditions::types::{COMPLETE, PASSED},
    conditions::{self, Finding},
    run::RunPhase,
    suite::{BaselineStatus, RowStatus, SuitePhase, SuiteProgress},
    thresholds::MetricName,
    units::counted,
};
use dragstrip_report::{
    best,
    document::{Document, Row},
    totals,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

/// Most rows of the table in the status.
const ROWS: usize = 32;
const THRESHOLDS: usize = 64;
/// Most differences to the baseline in the status.
const DIFFERENCES: usize = 16;
const NAMED: usize = 5;

/// The progress of the runs, of which `parallelism` run at a time. While the suite `continues`, the
/// estimate assumes that each remaining run takes as long as those that have ended `took`, in seconds.
pub fn progress(states: &[Child], took: &[i64], parallelism: usize, continues: bool) -> SuiteProgress {
    let of = |wanted: fn(&Child) -> bool| states.iter().filter(|child| wanted(child)).count();
    let done = of(|child| matches!(child, Child::Ended { .. } | Child::Cancelled));
    let turns = i64::try_from((states.len() - done).div_ceil(parallelism.max(1))).unwrap_or(i64::MAX);
    let mean = i64::try_from(took.len()).ok().and_then(|runs| took.iter().sum::<i64>().checked_div(runs));
    SuiteProgress {
        done: count(done),
        total: count(states.len()),
        running: count(of(|child| matches!(child, Child::UnderWay { .. }))),
        failed: count(of(|child| *child == Child::Ended { failed: true })),
        seconds_left: mean.filter(|_| continues && turns > 0).map(|mean| mean.saturating_mul(turns)),
    }
}

fn mean(row: &Row) -> Option<f64> {
    row.spread.as_ref().map(|spread| spread.mean)
}

fn rows(document: &Document, throughputs: &[&Row]) -> Vec<RowStatus> {
    let same = |one: &Row, other: &Row| {
        (&one.cell, &one.phase, &one.operation) == (&other.cell, &other.phase, &other.operation)
    };
    let p99 = MetricName::P99Milliseconds.to_string();
    let status = |row: &&Row| {
        let latency = document.rows.iter().find(|other| other.metric == p99 && same(row, other));
        RowStatus {
            cell: row.cell.label(&document.axes),
            phase: row.phase.clone(),
            operation: row.operation.clone(),
            metric: MetricName::OperationsPerSecond,
            spread: row.spread,
            p99_milliseconds: latency.and_then(mean),
            ratio: row.comparison.as_ref().map(|comparison| comparison.ratio.into()),
            comparison: row.comparison.as_ref().map(|comparison| comparison.verdict),
            verdict: row.verdict,
        }
    };
    throughputs.iter().map(status).collect()
}

pub fn show(status: &mut BenchmarkSuiteStatus, document: &Document) {
    let throughputs = totals(document, &MetricName::OperationsPerSecond.to_string());
    let mut rows = rows(document, &throughputs);
    status.best = best(document, &throughputs).and_then(|best| {
        let place = throughputs.iter().position(|row| std::ptr::eq(*row, best))?;
        Some(RowStatus { cell: best.cell.variant.clone(), ..rows.get(place)?.clone() })
    });
    rows.truncate(ROWS);
    status.rows = rows;
    status.baseline = document.baseline.as_ref().map(|baseline| {
        let beyond = baseline.differences.iter().filter(|difference| !difference.varied);
        let reported = |difference: &dragstrip_report::document::Difference| {
            format!("{}: {} instead of {}", difference.fact, difference.here, difference.baseline)
        };
        BaselineStatus {
            name: baseline.name.clone(),
            differences: beyond.take(DIFFERENCES).map(reported).collect(),
        }
    });
    status.thresholds.clone_from(&document.thresholds);
    status.thresholds.sort_by_key(|threshold| threshold.met);
    status.thresholds.truncate(THRESHOLDS);
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let reported = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if more == 0 { reported } else { format!("{reported}; and {more} more") }
}

/// Every obstacle to passing: reason and message.
fn obstacles(cache: &SuiteCache, report: &Report) -> Vec<(&'static str, String)> {
    let names = |wanted: &dyn Fn(&Ended) -> bool| -> Vec<String> {
        cache.ended.values().filter(|run| wanted(run)).map(|run| run.description.clone()).collect()
    };
    let broken = names(&|run| run.phase != RunPhase::Succeeded);
    let invalid = names(&|run| run.phase == RunPhase::Succeeded && run.failed);
    let missed = report.document.thresholds.iter().filter(|threshold| !threshold.met);
    let missed: Vec<String> = missed.map(|threshold| threshold.message.clone()).collect();
    let reported = |reason, noun: &str, what: &str, names: Vec<String>| {
        let count = counted(names.len() as u64, noun);
        (!names.is_empty()).then(|| (reason, format!("{count} {what}: {}", some(&names))))
    };
    let baseline = report.baseline_trouble();
    [
        reported("RunsFailed", "run", "did not succeed", broken),
        reported("InvalidRuns", "run", "Invalid", invalid),
        baseline.map(|why| ("BaselineMissing", format!("nothing to compare with: {why}"))),
        reported("ThresholdMissed", "threshold", "not met", missed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn passed(ending: Ending, plan: &Plan, cache: &SuiteCache, report: &Report) -> Finding {
    let obstacles = obstacles(cache, report);
    let message = obstacles.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join(". ");
    match (ending, obstacles.first()) {
        (Ending::Cancelled, _) => Finding::no(PASSED, "Cancelled", "the suite was cancelled before its end"),
        (Ending::Unmeasurable, _) => {
            let why = plan.unmeasurable.as_ref().map(ToString::to_string).unwrap_or_default();
            Finding::no(PASSED, "Invalid", format!("no further run can be created: {why}"))
        }
        (_, Some((reason, _))) => Finding::no(PASSED, reason, message),
        (Ending::Stopped, None) => Finding::no(PASSED, "Stopped", "no further run was created"),
        (Ending::Completed, None) if report.document.thresholds.is_empty() => {
            Finding::yes(PASSED, "RunsSucceeded", "every run succeeded, and none is Invalid")
        }
        (Ending::Completed, None) => Finding::yes(
            PASSED,
            "ThresholdsMet",
            "every run succeeded, none is Invalid, and all thresholds are met",
        ),
    }
}

pub fn end(
    status: &mut BenchmarkSuiteStatus,
    old: &BenchmarkSuiteStatus,
    phase: SuitePhase,
    message: String,
    now: Timestamp,
) {
    status.phase = phase;
    status.finished_at = old.finished_at.clone().or(Some(Time(now)));
    let generation = status.observed_generation.unwrap_or(0);
    let complete = Finding::yes(
        COMPLETE,
        if phase == SuitePhase::Succeeded { "Completed" } else { "Ended" },
        message.clone(),
    );
    status.conditions = conditions::upsert(&status.conditions, &[complete], generation, now);
    status.message = Some(message);
}

/// The status of an invalid suite. One with a schedule may still be changed.
pub fn of_invalid(
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    invalid: &Invalid,
    now: Timestamp,
) -> BenchmarkSuiteStatus {
    let generation = suite.metadata.generation.unwrap_or(0);
    let message = conditions::shortened(&invalid.to_string()).into_owned();
    let mut findings = vec![Finding::no(PASSED, "Invalid", message.clone())];
    let ends = suite.spec.schedule.is_none();
    if ends {
        findings.push(Finding::yes(COMPLETE, "Invalid", message.clone()));
    }
    BenchmarkSuiteStatus {
        observed_generation: Some(generation),
        phase: SuitePhase::Failed,
        message: Some(message),
        finished_at: ends.then_some(Time(now)),
        conditions: conditions::upsert(&old.conditions, &findings, generation, now),
        next_scheduled_at: None,
        ..old.clone()
    }
}

pub fn of_step(
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    declared: Declared,
    (states, cache): (&[Child], &SuiteCache),
    step: &Step,
    now: Timestamp,
) -> BenchmarkSuiteStatus {
    let took: Vec<i64> = cache.ended.values().filter_map(|run| run.seconds).collect();
    let continues = matches!(step, Step::Make(_) | Step::Wait);
    let progress = progress(states, &took, declared.parallelism, continues);
    let so_far =
        format!("{} of {} runs are done, {} under way", progress.done, states.len(), progress.running);
    let begun = states.iter().any(|child| *child != Child::Missing);
    let started_at = old.started_at.clone().or(begun.then_some(Time(now)));
    let (phase, message) = match step {
        Step::Suspended => (SuitePhase::Suspended, format!("suspended: {so_far}")),
        Step::Cancel(_) => (SuitePhase::Running, format!("cancelled: {so_far}")),
        Step::Stopping => (SuitePhase::Running, format!("no further run is created: {so_far}")),
        _ if started_at.is_some() => (SuitePhase::Running, so_far),
        _ => (SuitePhase::Pending, so_far),
    };
    let generation = suite.metadata.generation.unwrap_or(0);
    let findings = [
        Finding::no(COMPLETE, "UnderWay", "not every run has ended"),
        Finding::unknown(PASSED, "UnderWay", "not every run has ended"),
    ];
    BenchmarkSuiteStatus {
        observed_generation: Some(generation),
        phase,
        message: Some(message),
        progress: Some(progress),
        started_at,
        rows: old.rows.clone(),
        best: old.best.clone(),
        baseline: old.baseline.clone(),
        conditions: conditions::upsert(&old.conditions, &findings, generation, now),
        ..BenchmarkSuiteStatus::default()
    }
}

/// Writes into `status` that the first run is about to be created.
pub fn start(status: &mut BenchmarkSuiteStatus, now: Timestamp) {
    (status.phase, status.started_at) = (SuitePhase::Running, Some(Time(now)));
}

pub fn of_end(
    mut status: BenchmarkSuiteStatus,
    old: &BenchmarkSuiteStatus,
    ending: Ending,
    (plan, cache, report): (&Plan, &SuiteCache, &Report),
    now: Timestamp,
) -> BenchmarkSuiteStatus {
    show(&mut status, &report.document);
    status.report.clone_from(&report.stored);
    let passed = passed(ending, plan, cache, report);
    let progress = status.progress.unwrap_or_default();
    let how = if passed.status == Some(true) {
        "passed".to_owned()
    } else {
        format!("did not pass: {}", passed.message)
    };
    let (phase, message) = match ending {
        Ending::Completed => {
            let runs = counted(progress.done.unsigned_abs().into(), "run");
            (SuitePhase::Succeeded, format!("{runs} ended; the suite {how}"))
        }
        Ending::Stopped => (
            SuitePhase::Failed,
            format!(
                "stopped after {} of {} runs (onFailure: Stop): {}",
                progress.done, progress.total, passed.message
            ),
        ),
        Ending::Unmeasurable => (
            SuitePhase::Failed,
            format!("ended after {} of {} runs: {}", progress.done, progress.total, passed.message),
        ),
        Ending::Cancelled => {
            (SuitePhase::Cancelled, format!("cancelled after {} of {} runs", progress.done, progress.total))
        }
    };
    let generation = status.observed_generation.unwrap_or(0);
    status.conditions = conditions::upsert(&status.conditions, &[passed], generation, now);
    end(&mut status, old, phase, message, now);
    status
}

/// The event for a change of status: whether it warns, and its reason.
fn announcement(old: &BenchmarkSuiteStatus, new: &BenchmarkSuiteStatus) -> Option<(bool, &'static str)> {
    if old.phase == new.phase && old.observed_generation.is_some() {
        return None;
    }
    match new.phase {
        SuitePhase::Running if old.started_at.is_none() => Some((false, "Started")),
        SuitePhase::Succeeded => Some((!conditions::holds(&new.conditions, PASSED, None), "Succeeded")),
        SuitePhase::Failed => Some((true, "Failed")),
        SuitePhase::Cancelled => Some((false, "Cancelled")),
        SuitePhase::Suspended => Some((false, "Suspended")),
        _ => None,
    }
}

/// Writes `status` if it is new, and announces changes; `false` if the suite changed or was deleted.
pub async fn publish(pass: &Pass<'_>, status: &BenchmarkSuiteStatus) -> kube::Result<bool> {
    let Pass { suite, old, .. } = *pass;
    if old == status {
        return Ok(true);
    }
    let written = apply_status(&pass.client, &pass.overlay, SUITE_MANAGER, suite, status).await?;
    if !written {
        return Ok(false);
    }
    if old.phase != status.phase {
        let (name, namespace, message) = (suite.name_any(), suite.namespace(), status.message.as_deref());
        tracing::info!(suite = name, namespace, phase = %status.phase, message, "suite");
    }
    if let Some((warning, reason)) = announcement(old, status) {
        let note = status.message.clone().unwrap_or_default();
        pass.announcer.publish(suite, warning, reason, &note).await;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{spec, suite_of};
    use crate::suite::ended::tests::ended;
    use dragstrip_core::suite::expand::plan;

    const GOOD: Child = Child::Ended { failed: false };
    const RUNS: Child = Child::UnderWay { cancelled: false };

    #[test]
    fn the_best_row_is_named_only_if_no_other_one_may_be_as_fast() {
        let row = |variant: &str, phase: &str, mean: f64, deviation: f64| -> Row {
            serde_json::from_value(serde_json::json!({
                "variant": variant, "values": [], "phase": phase, "operation": "TOTAL",
                "metric": "OperationsPerSecond", "unit": "ops/s", "moreIsBetter": true, "samples": [],
                "spread": {"repetitions": 3, "mean": mean, "standardDeviation": deviation}
            }))
            .unwrap()
        };
        let shown = |rows: Vec<Row>| {
            let mut status = BenchmarkSuiteStatus::default();
            show(&mut status, &Document { rows, ..Document::default() });
            status.best.map(|best| best.cell)
        };
        let (slow, fast) = (row("slow", "read", 100.0, 1.0), row("fast", "read", 150.0, 1.0));
        assert_eq!(shown(vec![slow.clone(), fast.clone()]).as_deref(), Some("fast"));
        let noisy = row("noisy", "read", 145.0, 30.0);
        assert_eq!(shown(vec![slow.clone(), noisy, fast.clone()]), None, "noisy may be as fast");
        let other = ["slow", "fast"].map(|variant| row(variant, "write", 1_000.0, 1.0));
        let all = [slow, fast.clone()].into_iter().chain(other).collect();
        assert_eq!(shown(all), None, "write is as fast on both");
        assert_eq!(shown(vec![fast]), None, "there is nothing to compare it with");
    }

    #[test]
    fn the_time_left_counts_turns_and_only_while_the_suite_continues() {
        let states = [GOOD, RUNS, Child::Missing, Child::Missing];
        let left = |at_once, goes_on| progress(&states, &[60, 100], at_once, goes_on).seconds_left;
        assert_eq!(left(1, true), Some(240));
        assert_eq!(left(2, true), Some(160), "three runs two at a time take two turns");
        assert_eq!(left(1, false), None, "nobody waits for runs that are not created");
        assert_eq!(progress(&[GOOD], &[60], 1, true).seconds_left, None);
        assert_eq!(progress(&states, &[], 1, true).seconds_left, None, "no run has ended yet");
    }

    #[test]
    fn a_suite_that_ended_early_reports_its_progress_and_no_time_left() {
        let suite = suite_of(spec());
        let mut plan = plan(&suite, &|_| Ok(())).unwrap();
        plan.unmeasurable = Some(dragstrip_core::suite::expand::Invalid(Vec::new()));
        let mut cache = SuiteCache::default();
        cache.ended.insert("s-1".into(), ended("Succeeded"));
        let (declared, now) = (Declared::of(&suite.spec, &plan), Timestamp::UNIX_EPOCH);
        let states = [GOOD, Child::Cancelled, Child::Missing];
        let reported = |ending: Ending| {
            let (old, step) = (BenchmarkSuiteStatus::default(), Step::Finish(ending));
            let status = of_step(&suite, &old, declared, (&states, &cache), &step, now);
            of_end(status, &old, ending, (&plan, &cache, &Report::default()), now)
        };
        let cancelled = reported(Ending::Cancelled);
        let progress = cancelled.progress.unwrap();
        assert_eq!((progress.done, progress.failed, progress.seconds_left), (2, 0, None), "{progress:?}");
        assert_eq!(cancelled.message.as_deref(), Some("cancelled after 2 of 3 runs"));
        let unmeasurable = reported(Ending::Unmeasurable);
        assert_eq!(unmeasurable.phase, SuitePhase::Failed);
        let message = unmeasurable.message.unwrap_or_default();
        assert!(message.starts_with("ended after 2 of 3 runs: no further run can be created"), "{message}");
    }

    #[test]
    fn a_stored_report_says_that_its_baseline_was_missing() {
        let mut report = Report::default();
        report.document.notes =
            vec!["a note".into(), "nothing to compare with: there is no BenchmarkSuite a".into()];
        let reported = obstacles(&SuiteCache::default(), &report);
        assert_eq!(reported[0].0, "BaselineMissing", "a stored report must not count as passed");
    }
}

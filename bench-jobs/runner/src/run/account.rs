//! What the runner saw, settled into a result: the tool's account, the window,
//! and the first reason, in order of what causes what, not to use the numbers.
//! Pure but for the adapter, which reads its own files.

use super::{Armed, Done};
use crate::{
    check, clock,
    failure::failure,
    members::Look,
    state::{Received, Shared},
    tool::{self, Ended, Exit, Measured, Progress},
    watch::Watched,
};
use dragstrip_crds::datastore::ServerProtocol;
use dragstrip_results::{
    commands::Account,
    counters::{compared, counters_agree},
    protocol::JobSpec,
    result::{Failure, FailureStep, PodResult, Window},
};
use std::time::Duration;

/// Fills in `result`; the error is why its numbers must not be used.
pub(super) fn settle(
    job: &JobSpec,
    armed: &Armed,
    done: Done,
    shared: &Shared,
    result: &mut PodResult,
) -> Result<(), Failure> {
    let Watched { exit, wall, active } = done.watched;
    let (stdout, stderr) = (done.written.stdout, done.written.stderr);
    let ended = Ended {
        exit,
        wall,
        active,
        last_lines: done.written.last_lines,
        stdout: stdout.text,
        stdout_cut: stdout.cut,
        stderr: stderr.text,
        stderr_cut: stderr.cut,
    };
    let (measured, refused) = match done.written.listener.judge(job, &armed.context, &ended) {
        Ok(measured) => (Some(measured), None),
        Err(rejected) => (rejected.partial, Some(rejected.failure)),
    };
    let told = measured.as_ref().and_then(|measured| measured.window);
    let line = Line { received: armed.received, measured_after: tool::measured_after(job) };
    result.window = window(&line, done.launched_unix_nanos, active, told);
    result.client = done.client;
    shared.finish(totals(measured.as_ref(), shared), result.window.seconds);
    if let Some(measured) = measured {
        fill_in(result, measured);
    }
    if let Some(failure) = cut_short(job, &ended) {
        return Err(failure);
    }
    let after = done.after.as_ref().map_err(String::as_str);
    let after = check::same_servers(&armed.prepared.ready.members, after);
    let after = after.map_err(|failure| with_exit(failure, &ended))?;
    if let Some(failure) = refused {
        return Err(failure);
    }
    believed(job, armed, after, result).map_err(|failure| with_exit(failure, &ended))
}

/// Whether the numbers of a tool that ended well may be believed, by the servers that
/// it loaded.
fn believed(job: &JobSpec, armed: &Armed, after: &Look, result: &PodResult) -> Result<(), Failure> {
    check::replies_are_good(&result.operations, &result.errors, !result.metrics.is_empty())?;
    let ready = &armed.prepared.ready;
    let sum = |look: &Look| look.sum(&ready.members, ready.replica_reads);
    let (before, after) = (sum(&armed.before), sum(after));
    check::server_is_content(&before, &after, job.allow_eviction)?;
    if counters_compared(job) {
        counters_agree(&Account::of(result), result.in_flight(&job.tool), &before, &after)
            .map_err(|e| failure(FailureStep::CounterCheck, e.to_string()))?;
    }
    match job.minimum_hit_ratio {
        Some(minimum) => check::hit_ratio(&result.operations, minimum),
        None => Ok(()),
    }
}

/// Whether this client's counts are to be the server's: those of several clients
/// only the operator can add up.
fn counters_compared(job: &JobSpec) -> bool {
    compared(&job.tool) && job.clients == 1 && job.target.protocol == ServerProtocol::Resp
}

fn fill_in(result: &mut PodResult, measured: Measured) {
    result.tool = measured.tool;
    result.operations = measured.operations;
    result.errors = measured.errors;
    result.per_second = measured.per_second;
    result.commands = measured.commands;
    // A warm-up before the start line was noted already.
    if !measured.warmup.is_empty() {
        result.warmup = measured.warmup;
    }
    result.queues = measured.queues;
    result.schedule = measured.schedule;
    result.batches = measured.batches;
    result.metrics = measured.metrics;
    result.workers = measured.workers;
}

/// The tool's final counts; its last progress where it left none.
fn totals(measured: Option<&Measured>, shared: &Shared) -> Progress {
    match measured {
        Some(measured) => Progress {
            operations: measured.operations.iter().map(|operation| operation.count).sum(),
            errors: measured.operations.iter().map(|operation| operation.errors).sum(),
        },
        None => shared.snapshot().progress,
    }
}

/// The start line, and how long after it the measured part begins.
struct Line {
    received: Received,
    measured_after: Duration,
}

/// The window: the tool's own where it has one (`told`), else from the line (the
/// end of a warm-up), or the launch when that was later, to the last work of a
/// load thread.
fn window(line: &Line, launched_unix_nanos: i64, active: Duration, told: Option<(i64, f64)>) -> Window {
    let received = &line.received;
    let begin = received.line_unix_nanos.saturating_add(clock::nanos(line.measured_after));
    let late = clock::seconds(launched_unix_nanos.max(begin).saturating_sub(received.line_unix_nanos));
    let otherwise = (launched_unix_nanos.max(begin), (active.as_secs_f64() - late).max(0.0));
    let (start_unix_nanos, seconds) = told.unwrap_or(otherwise);
    Window {
        start_unix_nanos,
        seconds,
        start_skew_seconds: clock::seconds(start_unix_nanos.saturating_sub(begin)),
        clock_offset_seconds: received.clock_offset_seconds,
        clock_uncertainty_seconds: received.clock_uncertainty_seconds,
    }
}

/// Whether somebody ended the tool before it was done.
fn cut_short(job: &JobSpec, ended: &Ended) -> Option<Failure> {
    let Exit { interrupted, watchdog, .. } = ended.exit;
    let (step, message) = if interrupted {
        let after = ended.active.as_secs_f64();
        let message = format!("the pod was asked to stop; the numbers cover the {after:.1} s until then");
        (FailureStep::Interrupted, message)
    } else if watchdog {
        let message = format!(
            "the tool did not end within {} s after the start line and was killed",
            job.watchdog_seconds
        );
        (FailureStep::Watchdog, message)
    } else {
        return None;
    };
    Some(with_exit(failure(step, message), ended))
}

fn with_exit(failure: Failure, ended: &Ended) -> Failure {
    Failure {
        exit_code: ended.exit.code,
        signal: ended.exit.signal,
        last_lines: ended.last_lines.clone(),
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::job;
    use dragstrip_results::protocol::StartOrder;

    const LINE: i64 = 10_000_000_000;

    fn line(measured_after: Duration) -> Line {
        let order = StartOrder { start_at_unix_nanos: LINE, sent_at_unix_nanos: LINE - 1, clock: None };
        Line { received: Received::at(order, LINE - 1), measured_after }
    }

    fn at_once() -> Line {
        line(Duration::ZERO)
    }

    #[test]
    fn a_tools_own_window_stands() {
        let window = window(&at_once(), LINE - 900, Duration::from_secs(9), Some((LINE + 2_000_000, 5.0)));
        assert_eq!(window.start_unix_nanos, LINE + 2_000_000);
        assert!((window.start_skew_seconds - 0.002).abs() < 1e-9 && (window.seconds - 5.0).abs() < 1e-9);
    }

    #[test]
    fn otherwise_the_line_or_a_late_launch_begins_it() {
        let early = window(&at_once(), LINE - 5, Duration::from_secs(3), None);
        assert_eq!(early.start_unix_nanos, LINE);
        assert!((early.seconds - 3.0).abs() < 1e-9);
        let late = window(&at_once(), LINE + 500_000_000, Duration::from_secs(3), None);
        assert!((late.seconds - 2.5).abs() < 1e-9 && (late.start_skew_seconds - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_warm_up_after_the_line_is_no_part_of_it() {
        let line = line(Duration::from_secs(2));
        let told = window(&line, LINE, Duration::from_secs(7), Some((LINE + 2_001_000_000, 5.0)));
        assert!((told.start_skew_seconds - 0.001).abs() < 1e-9, "{told:?}");
        let untold = window(&line, LINE, Duration::from_secs(7), None);
        assert_eq!(untold.start_unix_nanos, LINE + 2_000_000_000);
        assert!((untold.seconds - 5.0).abs() < 1e-9 && untold.start_skew_seconds.abs() < 1e-9, "{untold:?}");
    }

    #[test]
    fn counts_are_compared_only_where_they_mean_the_same() {
        let compared = |clients, tool: &str| counters_compared(&job(clients, tool));
        assert!(compared(1, r#"{"memtier": {"testTime": "5s"}}"#));
        assert!(!compared(2, r#"{"memtier": {"testTime": "5s"}}"#), "only the operator knows all counts");
        let exec = |check| {
            format!(
                r#"{{"exec": {{"image": "i", "command": ["x"], "parser": {{}}, "counterCheck": {check}}}}}"#
            )
        };
        assert!(compared(1, &exec(true)) && !compared(1, &exec(false)));
        let mut tcp = job(1, &exec(true));
        tcp.target.protocol = ServerProtocol::Tcp;
        assert!(!counters_compared(&tcp));
    }
}

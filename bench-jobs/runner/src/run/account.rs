//! What the runner saw, settled into a result: the tool's account, the window,
//! and the first reason, in order of what causes what, not to use the numbers.
//! Pure but for the adapter, which reads its own files.

use super::{Armed, Done};
use crate::{
    check, clock,
    failure::failure,
    state::{Received, Shared},
    tool::{Ended, Exit, Measured, Progress},
    watch::Watched,
};
use dragstrip_crds::{
    counters::counters_agree,
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
    let last_lines = done.written.last_lines;
    let ended = Ended { exit, wall, active, last_lines, stdout: done.written.stdout };
    let (measured, refused) = match done.written.adapter.judge(job, &armed.context, &ended) {
        Ok(measured) => (Some(measured), None),
        Err(rejected) => (rejected.partial, Some(rejected.failure)),
    };
    let told = measured.as_ref().and_then(|measured| measured.window);
    result.window = window(&armed.received, done.launched_unix_nanos, active, told);
    result.client = done.client;
    shared.finish(totals(measured.as_ref(), shared), result.window.seconds);
    if let Some(measured) = measured {
        fill_in(result, measured);
    }
    if let Some(failure) = cut_short(job, &ended) {
        return Err(failure);
    }
    let after = done.after.as_ref().map_err(String::as_str);
    let same = check::same_server(&armed.ready.truth.run_id, after);
    let same = same.and_then(|after| check::same_server(&armed.before.run_id, Ok(after)));
    let after = same.map_err(|failure| with_exit(failure, &ended))?;
    if let Some(failure) = refused {
        return Err(failure);
    }
    check::replies_are_good(&result.operations, &result.errors)
        .map_err(|failure| with_exit(failure, &ended))?;
    if job.clients == 1 && !job.target.cluster {
        let in_flight = in_flight(job, result);
        counters_agree(&result.operations, in_flight, &armed.before, after)
            .map_err(|e| failure(FailureStep::CounterCheck, e.to_string()))?;
    }
    Ok(())
}

fn fill_in(result: &mut PodResult, measured: Measured) {
    result.tool = measured.tool;
    result.operations = measured.operations;
    result.errors = measured.errors;
    result.per_second = measured.per_second;
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

/// The window: the tool's own where it has one (`told`), else from the line, or
/// the launch when that was later, to the last work of a load thread.
fn window(
    received: &Received,
    launched_unix_nanos: i64,
    active: Duration,
    told: Option<(i64, f64)>,
) -> Window {
    let line = received.line_unix_nanos;
    let late = clock::seconds(launched_unix_nanos.saturating_sub(line)).max(0.0);
    let otherwise = (launched_unix_nanos.max(line), (active.as_secs_f64() - late).max(0.0));
    let (start_unix_nanos, seconds) = told.unwrap_or(otherwise);
    Window {
        start_unix_nanos,
        seconds,
        start_skew_seconds: clock::seconds(start_unix_nanos.saturating_sub(line)),
        clock_offset_seconds: received.clock_offset_seconds,
    }
}

/// Requests the server may have answered without the tool seeing the replies:
/// none when each connection sends a set number and awaits them all.
fn in_flight(job: &JobSpec, result: &PodResult) -> u64 {
    match job.tool.planned_seconds() {
        Some(_) => result.tool.connections * result.tool.pipeline.max(1),
        None => 0,
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
    use dragstrip_crds::protocol::StartOrder;

    const LINE: i64 = 10_000_000_000;

    fn received() -> Received {
        Received::at(StartOrder { start_at_unix_nanos: LINE, sent_at_unix_nanos: LINE - 1 }, LINE - 1)
    }

    #[test]
    fn a_tools_own_window_stands() {
        let window = window(&received(), LINE - 900, Duration::from_secs(9), Some((LINE + 2_000_000, 5.0)));
        assert_eq!(window.start_unix_nanos, LINE + 2_000_000);
        assert!((window.start_skew_seconds - 0.002).abs() < 1e-9 && (window.seconds - 5.0).abs() < 1e-9);
    }

    #[test]
    fn otherwise_the_line_or_a_late_launch_begins_it() {
        let early = window(&received(), LINE - 5, Duration::from_secs(3), None);
        assert_eq!(early.start_unix_nanos, LINE);
        assert!((early.seconds - 3.0).abs() < 1e-9);
        let late = window(&received(), LINE + 500_000_000, Duration::from_secs(3), None);
        assert!((late.seconds - 2.5).abs() < 1e-9 && (late.start_skew_seconds - 0.5).abs() < 1e-9);
    }
}

//! Makes a result of what the runner saw: the tool's account, the window, and, causes before
//! their effects, the first reason not to use the numbers.
//! Pure except for the adapter, which reads its own files.

use super::{
    measure::{Armed, Done},
    watch::Watched,
};
use crate::{
    delivery::state::Shared,
    frame::clock,
    server::{check, members::Counts},
    tools::adapter::{self, Ended, Progress},
};
use dragstrip_crds::datastore::ServerProtocol;
use dragstrip_results::{
    commands::Account,
    counters::{compared, counters_agree},
    histogram::merged,
    live::LatencyCounts,
    protocol::{JobSpec, StartCommand},
    result::{Failure, FailureStep, Operation, PodResult, Window, due},
    usage::ContainerUsage,
};
use std::{ops::Range, time::Duration};

/// Fills in `result`; the error is why its numbers must not be used.
pub fn settle(
    job: &JobSpec,
    armed: &Armed,
    done: Done,
    shared: &Shared,
    result: &mut PodResult,
) -> Result<(), Failure> {
    let Watched { began, active, threads, .. } = done.watched;
    let ended = done.ended;
    let (measured, refused) = match done.adapter.judge(job, &armed.context, &ended) {
        Ok(measured) => (Some(measured), None),
        Err(rejected) => (rejected.partial, Some(rejected.failure)),
    };
    let reported = measured.as_ref().map(|measured| &measured.window).filter(|own| own.seconds > 0.0);
    let after = adapter::measured_after(job);
    result.window = window(&armed.command, after, done.launched_unix_nanos, began..active, reported);
    result.client = ContainerUsage { threads, ..done.client };
    shared.finish(&totals(measured.as_ref(), shared), result.window.seconds);
    if let Some(measured) = measured {
        fill_in(result, measured);
    }
    if ended.exit.interrupted {
        return Err(interrupted(&ended));
    }
    let after = done.after.as_ref().map_err(String::as_str);
    let after = check::same_servers(&armed.prepared.ready.members, &armed.before, after);
    let after = after.map_err(|failure| overdue(job, ended.explain(failure), &ended))?;
    if let Some(failure) = refused {
        return Err(overdue(job, failure, &ended));
    }
    if ended.exit.watchdog {
        return Err(ended.failure(FailureStep::Watchdog, still_running(job)));
    }
    confirmed(job, armed, after, result).map_err(|failure| ended.explain(failure))
}

/// Whether the servers that the tool loaded confirm its numbers.
fn confirmed(job: &JobSpec, armed: &Armed, after: &Counts, result: &PodResult) -> Result<(), Failure> {
    check::replies_are_good(&result.operations, &result.errors, !result.metrics.is_empty())?;
    let ready = &armed.prepared.ready;
    let sum = |look: &Counts| look.sum(&ready.members, ready.replica_reads);
    let (before, after) = (sum(&armed.before), sum(after));
    check::server_is_content(&before, &after, job.allow_eviction)?;
    if counters_compared(job) {
        counters_agree(&Account::of(result), result.in_flight(&job.tool), &before, &after)
            .map_err(|e| Failure::new(FailureStep::CounterCheck, e.to_string()))?;
    }
    Ok(())
}

/// Whether this client's counts must be the server's: the operator adds up several.
fn counters_compared(job: &JobSpec) -> bool {
    compared(&job.tool) && job.clients == 1 && job.target.protocol == ServerProtocol::Resp
}

/// Takes over the tool's part of the result.
fn fill_in(result: &mut PodResult, mut measured: PodResult) {
    let own = std::mem::take(result);
    let threads = std::mem::take(&mut measured.client.threads);
    let client = if threads.is_empty() { own.client } else { ContainerUsage { threads, ..own.client } };
    // A warm-up before the start line was noted already.
    if measured.warmup.is_empty() {
        measured.warmup = own.warmup;
    }
    *result = PodResult {
        phase: own.phase,
        repetition: own.repetition,
        pod: own.pod,
        node: own.node,
        complete: own.complete,
        failure: own.failure,
        window: own.window,
        load: own.load,
        client,
        server: own.server,
        memory: own.memory,
        ..measured
    };
}

/// The tool's final counts; its last progress if it left none.
fn totals(measured: Option<&PodResult>, shared: &Shared) -> Progress {
    match measured {
        Some(measured) => Progress {
            operations: due(&measured.operations).map(|operation| operation.count).sum(),
            errors: measured.operations.iter().map(|operation| operation.errors).sum(),
            bytes: Some(measured.operations.iter().map(|operation| operation.bytes).sum()),
            latency: latencies(&measured.operations),
            ..Progress::default()
        },
        None => shared.snapshot().progress,
    }
}

/// All latencies; `None` if those of an operation are missing or cannot be read.
fn latencies(operations: &[Operation]) -> Option<LatencyCounts> {
    let all = merged(due(operations).map(|operation| operation.histogram.as_ref()));
    all.ok()?.map(|all| all.by_bucket())
}

/// The window: the tool's own if it `reported` one, else the time in which a load thread
/// was at work (`busy`, since the line), but not before the measured part, which begins some
/// time after the line, nor before the launch.
fn window(
    command: &StartCommand,
    measured_after: Duration,
    launched_unix_nanos: i64,
    busy: Range<Duration>,
    reported: Option<&Window>,
) -> Window {
    let after = |length| command.line_unix_nanos().saturating_add(clock::nanos(length));
    let begin = after(measured_after);
    let first = launched_unix_nanos.max(begin).max(after(busy.start));
    let otherwise = (first, clock::seconds(after(busy.end).saturating_sub(first)).max(0.0));
    let (start_unix_nanos, seconds) = reported.map_or(otherwise, |own| (own.start_unix_nanos, own.seconds));
    Window {
        start_unix_nanos,
        seconds,
        start_skew_seconds: clock::seconds(start_unix_nanos.saturating_sub(begin)),
        clock_offset_seconds: clock::seconds(command.clock.offset_nanos),
        clock_uncertainty_seconds: clock::seconds(command.clock.uncertainty_nanos),
    }
}

/// Why the numbers of a tool that the pod's end cut short must not be used.
fn interrupted(ended: &Ended) -> Failure {
    let after = ended.active.as_secs_f64();
    let message =
        format!("Kubernetes or a user stopped the pod; the numbers cover the {after:.1} s until then");
    ended.failure(FailureStep::Interrupted, message)
}

/// Why a tool that the watchdog ended has no usable numbers: the cause that was found, rather
/// than how it ended. An adapter that knows its tool reports both itself.
fn overdue(job: &JobSpec, found: Failure, ended: &Ended) -> Failure {
    if !ended.exit.watchdog || found.step == FailureStep::Watchdog {
        return found;
    }
    let step = match found.step {
        FailureStep::Tool | FailureStep::Output => FailureStep::Watchdog,
        step => step,
    };
    Failure { step, message: format!("{}: {}", still_running(job), found.message), ..found }
}

fn still_running(job: &JobSpec) -> String {
    format!("the tool was still running {} s after the start line and had to be ended", job.watchdog_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{self, job};
    use dragstrip_results::protocol::ClockOffset;

    const LINE: i64 = 10_000_000_000;

    fn window(
        measured_after: Duration,
        launched: i64,
        busy: Range<Duration>,
        reported: Option<&Window>,
    ) -> Window {
        let clock = ClockOffset { offset_nanos: 0, uncertainty_nanos: 0 };
        let command = StartCommand { start_at_unix_nanos: LINE, sent_at_unix_nanos: LINE - 1, clock };
        super::window(&command, measured_after, launched, busy, reported)
    }

    fn busy(from: u64, to: u64) -> Range<Duration> {
        Duration::from_millis(from)..Duration::from_millis(to)
    }

    /// A tool's own window of 5 s.
    fn tools_own(start_unix_nanos: i64) -> Window {
        Window { start_unix_nanos, seconds: 5.0, ..Window::default() }
    }

    #[test]
    fn a_tools_own_window_stands() {
        let window = window(Duration::ZERO, LINE - 900, busy(0, 9_000), Some(&tools_own(LINE + 2_000_000)));
        assert_eq!(window.start_unix_nanos, LINE + 2_000_000);
        assert!((window.start_skew_seconds - 0.002).abs() < 1e-9 && (window.seconds - 5.0).abs() < 1e-9);
    }

    #[test]
    fn otherwise_the_line_or_a_late_launch_begins_it() {
        let early = window(Duration::ZERO, LINE - 5, busy(0, 3_000), None);
        assert_eq!(early.start_unix_nanos, LINE);
        assert!((early.seconds - 3.0).abs() < 1e-9);
        let late = window(Duration::ZERO, LINE + 500_000_000, busy(0, 3_000), None);
        assert!((late.seconds - 2.5).abs() < 1e-9 && (late.start_skew_seconds - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_first_work_of_a_load_thread_begins_it() {
        let slow = window(Duration::ZERO, LINE + 5_000_000, busy(300, 3_000), None);
        assert_eq!(slow.start_unix_nanos, LINE + 300_000_000);
        assert!(
            (slow.seconds - 2.7).abs() < 1e-9 && (slow.start_skew_seconds - 0.3).abs() < 1e-9,
            "{slow:?}"
        );
    }

    #[test]
    fn a_warm_up_after_the_line_is_not_part_of_it() {
        let warmup = Duration::from_secs(2);
        let own = window(warmup, LINE, busy(0, 7_000), Some(&tools_own(LINE + 2_001_000_000)));
        assert!((own.start_skew_seconds - 0.001).abs() < 1e-9, "{own:?}");
        let sampled = window(warmup, LINE, busy(0, 7_000), None);
        assert_eq!(sampled.start_unix_nanos, LINE + 2_000_000_000);
        assert!(
            (sampled.seconds - 5.0).abs() < 1e-9 && sampled.start_skew_seconds.abs() < 1e-9,
            "{sampled:?}"
        );
    }

    #[test]
    fn the_cause_of_a_tool_that_did_not_end_is_reported() {
        let job = job(1, r#"{"loadgen": {"duration": "5s"}}"#);
        let mut ended = fixtures::ended(None, Some(9));
        let found = |step, ended: &Ended| overdue(&job, Failure::new(step, "the cause"), ended);
        assert_eq!(found(FailureStep::Tool, &ended), Failure::new(FailureStep::Tool, "the cause"));
        ended.exit.watchdog = true;
        for (cause, step) in [
            (FailureStep::Tool, FailureStep::Watchdog),
            (FailureStep::ServerIdentity, FailureStep::ServerIdentity),
            (FailureStep::ErrorReplies, FailureStep::ErrorReplies),
        ] {
            let failure = found(cause, &ended);
            assert_eq!(failure.step, step);
            let message =
                "the tool was still running 30 s after the start line and had to be ended: the cause";
            assert_eq!(failure.message, message);
        }
    }

    #[test]
    fn counts_are_compared_only_where_they_mean_the_same() {
        let compared = |clients, tool: &str| counters_compared(&job(clients, tool));
        assert!(compared(1, r#"{"memtier": {"testTime": "5s"}}"#));
        assert!(!compared(2, r#"{"memtier": {"testTime": "5s"}}"#), "only the operator knows all counts");
        let exec = |check| {
            format!(
                r#"{{"exec": {{"image": "i", "command": ["x"], "parser": {{"goBench": {{}}}}, "counterCheck": {check}}}}}"#
            )
        };
        assert!(compared(1, &exec(true)) && !compared(1, &exec(false)));
        let mut tcp = job(1, &exec(true));
        tcp.target.protocol = ServerProtocol::Tcp;
        assert!(!counters_compared(&tcp));
    }
}

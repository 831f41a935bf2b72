//! What the runner's HTTP server and its work share: the stage, the command to
//! start and the progress. Touches nothing but memory.

use crate::{frame::clock, tools::adapter::Progress};
use dragstrip_results::protocol::{RunnerStage, RunnerState, StartCommand};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::watch, time::timeout};

/// Without a measured offset, clocks that differ by no more than this are taken
/// for synchronised: the difference is then mostly the command's travel time.
pub const CLOCK_TOLERANCE_SECONDS: f64 = 0.25;

/// Most percentiles of the tool's own that are stored.
const MOST_PERCENTILES: usize = 16;

/// A command and what it means by this pod's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    pub command: StartCommand,
    /// This pod's clock minus the operator's, in seconds: as the operator
    /// measured it, else by the command's arrival, travel time included.
    pub clock_offset_seconds: f64,
    /// The offset cannot be further off than this, in seconds; 0 where unknown.
    pub clock_uncertainty_seconds: f64,
    /// The start line, in nanoseconds of Unix time by this pod's clock.
    pub line_unix_nanos: i64,
}

impl Received {
    /// Reads an command that arrived at `now`, in nanoseconds of Unix time. A
    /// measured offset always moves the line; a difference on arrival only where
    /// it is too large to be travel time.
    pub fn at(command: StartCommand, now: i64) -> Self {
        let (offset, uncertainty, moved) = if let Some(clock) = command.clock {
            (clock.offset_nanos, clock.uncertainty_nanos, clock.offset_nanos)
        } else {
            let offset = now.saturating_sub(command.sent_at_unix_nanos);
            let far = clock::seconds(offset).abs() > CLOCK_TOLERANCE_SECONDS;
            (offset, 0, if far { offset } else { 0 })
        };
        Self {
            command,
            clock_offset_seconds: clock::seconds(offset),
            clock_uncertainty_seconds: clock::seconds(uncertainty),
            line_unix_nanos: command.start_at_unix_nanos.saturating_add(moved),
        }
    }
}

/// Whether a runner in this stage stands at the start line, or is past it.
pub fn at_the_line(stage: RunnerStage) -> bool {
    !matches!(stage, RunnerStage::Preflight | RunnerStage::Loading | RunnerStage::WarmingUp)
}

/// Everything shared, at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshot {
    pub stage: RunnerStage,
    pub received: Option<Received>,
    pub progress: Progress,
    /// Length of the load in seconds, once it is over.
    pub final_seconds: Option<f64>,
}

impl Snapshot {
    pub fn elapsed_seconds(&self, now_unix_nanos: i64) -> f64 {
        match (self.stage, self.received) {
            (RunnerStage::Running, Some(received)) => {
                clock::seconds(now_unix_nanos.saturating_sub(received.line_unix_nanos)).max(0.0)
            }
            _ => self.final_seconds.unwrap_or_default(),
        }
    }

    /// The same as an answer to the operator.
    pub fn answer(&self, now_unix_nanos: i64) -> RunnerState {
        RunnerState {
            stage: self.stage,
            start_at_unix_nanos: self.received.map(|received| received.command.start_at_unix_nanos),
            elapsed_seconds: self.elapsed_seconds(now_unix_nanos),
            operations: self.progress.operations,
            errors: self.progress.errors,
            p99_milliseconds: self
                .progress
                .latency
                .and_then(|latency| latency.quantile_seconds(0.99))
                .map(|seconds| seconds * 1e3),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Scrapes {
    last: Option<Instant>,
    /// Whether one was after the end of the load.
    of_the_end: bool,
}

#[derive(Debug)]
pub struct Shared {
    snapshot: watch::Sender<Snapshot>,
    /// The tool's own latencies, in seconds, by percentile.
    latencies: Mutex<BTreeMap<String, f64>>,
    scrapes: watch::Sender<Scrapes>,
}

impl Default for Shared {
    fn default() -> Self {
        let snapshot = watch::Sender::new(Snapshot {
            stage: RunnerStage::Preflight,
            received: None,
            progress: Progress::default(),
            final_seconds: None,
        });
        Self { snapshot, latencies: Mutex::default(), scrapes: watch::Sender::default() }
    }
}

impl Shared {
    pub fn snapshot(&self) -> Snapshot {
        *self.snapshot.borrow()
    }

    /// Takes the next stage, whose progress begins at nothing.
    pub fn enter(&self, stage: RunnerStage) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.stage = stage;
            snapshot.progress = Progress::default();
        });
    }

    /// Takes the command if it is the first and the runner stands at the line;
    /// false before that.
    pub fn offer(&self, command: StartCommand, now: i64) -> bool {
        let mut accepted = true;
        self.snapshot.send_if_modified(|snapshot| {
            accepted = at_the_line(snapshot.stage);
            let first = accepted && snapshot.received.is_none();
            if first {
                snapshot.received = Some(Received::at(command, now));
            }
            first
        });
        accepted
    }

    pub async fn start_command(&self) -> Received {
        let mut receiver = self.snapshot.subscribe();
        loop {
            if let Some(received) = receiver.borrow_and_update().received {
                return received;
            }
            if receiver.changed().await.is_err() {
                // The sender is self: it cannot be gone while this runs.
                std::future::pending::<()>().await;
            }
        }
    }

    pub fn note_progress(&self, progress: &Progress) {
        self.snapshot.send_modify(|snapshot| snapshot.progress = *progress);
    }

    /// Notes the final counts of the load. No figure falls below what was shown before: some tools
    /// count a little less in the end, which Prometheus would take for a new beginning.
    pub fn finish(&self, totals: &Progress, seconds: f64) {
        self.snapshot.send_modify(|snapshot| {
            let shown = snapshot.progress;
            snapshot.stage = RunnerStage::Finished;
            snapshot.progress = Progress {
                operations: totals.operations.max(shown.operations),
                errors: totals.errors.max(shown.errors),
                bytes: shown.bytes.map(|bytes| totals.bytes.map_or(bytes, |all| all.max(bytes))),
                latency: shown.latency.map(|shown| match totals.latency {
                    Some(all) if all.count() >= shown.count() => all,
                    _ => shown,
                }),
                ..shown
            };
            snapshot.final_seconds = Some(seconds);
        });
    }

    /// Notes a latency of the tool's own, in seconds.
    pub fn note_latency(&self, percentile: String, seconds: f64) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody needs more percentiles than these.
        if latencies.len() < MOST_PERCENTILES || latencies.contains_key(&percentile) {
            latencies.insert(percentile, seconds);
        }
    }

    /// The tool's own latencies, in seconds, by percentile.
    pub fn latencies(&self) -> BTreeMap<String, f64> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the metrics of `stage` were scraped.
    pub fn note_scrape(&self, stage: RunnerStage) {
        let of_the_end = stage == RunnerStage::Finished;
        self.scrapes.send_modify(|scrapes| {
            scrapes.last = Some(Instant::now());
            scrapes.of_the_end |= of_the_end;
        });
    }

    /// Returns when what the load came to has been scraped; at once where nobody has
    /// scraped within the last `bound`, and after `bound` where nobody comes any more.
    pub async fn last_scrape(&self, bound: Duration) {
        let mut scrapes = self.scrapes.subscribe();
        let expected = scrapes.borrow().last.is_some_and(|last| last.elapsed() < bound);
        if expected {
            // Nobody having come is no error: there is nothing more to wait for.
            let _ = timeout(bound, scrapes.wait_for(|scrapes| scrapes.of_the_end)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::{live::LatencyCounts, protocol::ClockOffset};

    const SECOND: i64 = 1_000_000_000;

    fn command(start: i64, sent: i64) -> StartCommand {
        StartCommand { start_at_unix_nanos: start, sent_at_unix_nanos: sent, clock: None }
    }

    #[test]
    fn travel_time_does_not_move_the_line() {
        let received = Received::at(command(12 * SECOND, 10 * SECOND), 10 * SECOND + SECOND / 50);
        assert_eq!(received.line_unix_nanos, 12 * SECOND);
        assert!((received.clock_offset_seconds - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_is_off_is_corrected_in_both_directions() {
        assert_eq!(Received::at(command(12 * SECOND, 10 * SECOND), 40 * SECOND).line_unix_nanos, 42 * SECOND);
        assert_eq!(Received::at(command(12 * SECOND, 10 * SECOND), 5 * SECOND).line_unix_nanos, 7 * SECOND);
    }

    #[test]
    fn a_measured_offset_moves_the_line_however_small_it_is() {
        let clock = ClockOffset { offset_nanos: -3_000_000, uncertainty_nanos: 500_000 };
        let command = StartCommand { clock: Some(clock), ..command(12 * SECOND, 10 * SECOND) };
        let received = Received::at(command, 40 * SECOND);
        assert_eq!(received.line_unix_nanos, 12 * SECOND - 3_000_000);
        assert!((received.clock_offset_seconds + 0.003).abs() < 1e-9);
        assert!((received.clock_uncertainty_seconds - 0.0005).abs() < 1e-9);
    }

    #[test]
    fn no_command_is_accepted_before_the_keys_are_there() {
        let shared = Shared::default();
        for stage in [RunnerStage::Loading, RunnerStage::WarmingUp] {
            shared.enter(stage);
            assert!(!shared.offer(command(1, 0), 0), "{stage:?}");
        }
    }

    #[test]
    fn progress_of_one_stage_is_none_of_the_next() {
        let shared = Shared::default();
        shared.enter(RunnerStage::Loading);
        shared.note_progress(&Progress { operations: 5, ..Progress::default() });
        assert_eq!(shared.snapshot().answer(0).operations, 5);
        shared.enter(RunnerStage::AtStartLine);
        assert_eq!(shared.snapshot().answer(0).operations, 0);
    }

    #[test]
    fn the_first_command_stands() {
        let shared = Shared::default();
        assert!(!shared.offer(command(1, 0), 0));
        assert_eq!(shared.snapshot().received, None);
        shared.enter(RunnerStage::AtStartLine);
        assert!(shared.offer(command(2, 0), 0) && shared.offer(command(3, 0), 0));
        assert_eq!(shared.snapshot().answer(0).start_at_unix_nanos, Some(2));
    }

    #[test]
    fn what_was_told_does_not_fall_in_the_end() {
        let counts = |first| {
            let mut latency = LatencyCounts::default();
            latency.counts[0] = first;
            Some(latency)
        };
        let shared = Shared::default();
        let shown = Progress {
            operations: 9,
            bytes: Some(90),
            connections: Some(3),
            latency: counts(9),
            ..Progress::default()
        };
        shared.note_progress(&shown);
        shared.finish(&Progress { operations: 8, latency: counts(8), ..Progress::default() }, 1.0);
        assert_eq!(shared.snapshot().progress, shown);
        shared.finish(
            &Progress { operations: 10, bytes: Some(100), latency: counts(10), ..Progress::default() },
            1.0,
        );
        let all = Progress { operations: 10, bytes: Some(100), latency: counts(10), ..shown };
        assert_eq!(shared.snapshot().progress, all);
        let unreported = Shared::default();
        unreported.finish(&all, 1.0);
        let progress = unreported.snapshot().progress;
        assert_eq!(
            (progress.bytes, progress.latency),
            (None, None),
            "what was not shown while it ran is not shown"
        );
    }

    #[tokio::test]
    async fn the_end_waits_for_one_more_scrape_only_where_one_is_to_come() {
        let waited = async |shared: &Shared, bound| {
            let begun = Instant::now();
            shared.last_scrape(bound).await;
            begun.elapsed()
        };
        let (short, long) = (Duration::from_millis(200), Duration::from_secs(60));
        let shared = Shared::default();
        assert!(waited(&shared, long).await < long / 2, "nobody scrapes");
        shared.note_scrape(RunnerStage::Running);
        assert!(waited(&shared, short).await >= short, "who scraped may still come");
        assert!(waited(&shared, short).await < short, "who did not come again does not come any more");
        let (length, ()) = tokio::join!(waited(&shared, long), async {
            shared.note_scrape(RunnerStage::Running);
            tokio::time::sleep(short).await;
            shared.note_scrape(RunnerStage::Finished);
        });
        assert!(length >= short && length < long / 2, "the scrape of the end ends it: {length:?}");
        assert!(waited(&shared, long).await < long / 2, "the end was scraped already");
    }

    #[test]
    fn time_runs_only_while_the_tool_does() {
        let shared = Shared::default();
        shared.enter(RunnerStage::AtStartLine);
        shared.offer(command(2 * SECOND, 0), 0);
        assert!(shared.snapshot().elapsed_seconds(9 * SECOND).abs() < 1e-9);
        shared.enter(RunnerStage::Running);
        assert!((shared.snapshot().elapsed_seconds(9 * SECOND) - 7.0).abs() < 1e-9);
        shared.finish(&Progress { operations: 5, ..Progress::default() }, 3.5);
        let state = shared.snapshot().answer(99 * SECOND);
        assert_eq!((state.stage, state.operations), (RunnerStage::Finished, 5));
        assert!((state.elapsed_seconds - 3.5).abs() < 1e-9);
    }
}

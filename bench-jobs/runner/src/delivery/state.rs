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

const MOST_PERCENTILES: usize = 16;

/// Whether a runner in this stage stands at the start line, or is past it.
pub fn at_the_line(stage: RunnerStage) -> bool {
    !matches!(stage, RunnerStage::Preflight | RunnerStage::Loading | RunnerStage::WarmingUp)
}

/// Everything shared, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Snapshot {
    pub stage: RunnerStage,
    pub command: Option<StartCommand>,
    pub progress: Progress,
    /// How much of a stage before the start line is done, from 0 to 1.
    pub prepared_ratio: Option<f64>,
    /// Length of the load in seconds, once it is over.
    pub final_seconds: Option<f64>,
}

impl Snapshot {
    pub fn elapsed_seconds(&self, now_unix_nanos: i64) -> f64 {
        match (self.stage, self.command) {
            (RunnerStage::Running, Some(command)) => {
                clock::seconds(now_unix_nanos.saturating_sub(command.line_unix_nanos())).max(0.0)
            }
            _ => self.final_seconds.unwrap_or_default(),
        }
    }

    /// The same as an answer to the operator.
    pub fn answer(&self, now_unix_nanos: i64) -> RunnerState {
        RunnerState {
            stage: self.stage,
            start_at_unix_nanos: self.command.map(|command| command.start_at_unix_nanos),
            elapsed_seconds: self.elapsed_seconds(now_unix_nanos),
            operations: self.progress.operations,
            errors: self.progress.errors,
            p99_milliseconds: self
                .progress
                .latency
                .and_then(|latency| latency.quantile_seconds(0.99))
                .map(|seconds| seconds * 1e3),
            prepared_ratio: self.prepared_ratio,
        }
    }
}

#[derive(Debug, Default)]
pub struct Shared {
    snapshot: watch::Sender<Snapshot>,
    /// The tool's own latencies, in seconds, by percentile.
    latencies: Mutex<BTreeMap<String, f64>>,
    /// When the metrics were last scraped, and whether after the end of the load.
    scrapes: watch::Sender<Option<(Instant, bool)>>,
}

impl Shared {
    pub fn snapshot(&self) -> Snapshot {
        *self.snapshot.borrow()
    }

    /// Enters the next stage, whose progress begins at nothing.
    pub fn enter(&self, stage: RunnerStage) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.stage = stage;
            snapshot.progress = Progress::default();
            snapshot.prepared_ratio = None;
        });
    }

    /// Accepts the command if it is the first, and the runner is at the line.
    pub fn offer(&self, command: StartCommand) -> bool {
        let mut accepted = true;
        self.snapshot.send_if_modified(|snapshot| {
            accepted = at_the_line(snapshot.stage);
            let first = accepted && snapshot.command.is_none();
            if first {
                snapshot.command = Some(command);
            }
            first
        });
        accepted
    }

    pub async fn start_command(&self) -> StartCommand {
        self.first(|snapshot| snapshot.command).await
    }

    /// Waits for the start line; returns the stage, which may be a later one.
    pub async fn at_the_line(&self) -> RunnerStage {
        self.first(|snapshot| Some(snapshot.stage).filter(|stage| at_the_line(*stage))).await
    }

    /// The first that `of` finds in a snapshot.
    async fn first<T>(&self, of: impl Fn(&Snapshot) -> Option<T>) -> T {
        let mut receiver = self.snapshot.subscribe();
        let found = receiver.wait_for(|snapshot| of(snapshot).is_some()).await;
        match found.ok().and_then(|snapshot| of(&snapshot)) {
            Some(found) => found,
            // The sender is self: it cannot be gone while this runs.
            None => std::future::pending().await,
        }
    }

    pub fn note_progress(&self, progress: &Progress) {
        self.snapshot.send_modify(|snapshot| snapshot.progress = *progress);
    }

    /// Notes the progress of a load before the start line, and how much of the stage is done.
    pub fn note_preparation(&self, progress: &Progress, ratio: f64) {
        self.note_progress(progress);
        self.snapshot.send_modify(|snapshot| snapshot.prepared_ratio = Some(ratio.clamp(0.0, 1.0)));
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

    pub fn note_latency(&self, percentile: String, seconds: f64) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        if latencies.len() < MOST_PERCENTILES || latencies.contains_key(&percentile) {
            latencies.insert(percentile, seconds);
        }
    }

    /// The latencies that the tool reports, in seconds, by percentile.
    pub fn latencies(&self) -> BTreeMap<String, f64> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn note_scrape(&self, stage: RunnerStage) {
        self.scrapes.send_modify(|last| {
            let before = last.is_some_and(|(_, at_end)| at_end);
            *last = Some((Instant::now(), before || stage == RunnerStage::Finished));
        });
    }

    /// Returns when the final counts have been scraped; at once if nobody has
    /// scraped within the last `bound`, and after `bound` if nobody scrapes any more.
    pub async fn last_scrape(&self, bound: Duration) {
        let mut scrapes = self.scrapes.subscribe();
        let expected = scrapes.borrow().is_some_and(|(at, _)| at.elapsed() < bound);
        if expected {
            // No scrape is not an error: there is nothing more to wait for.
            let _ = timeout(bound, scrapes.wait_for(|last| last.is_some_and(|(_, at_end)| at_end))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::{live::LatencyCounts, protocol::ClockOffset};

    const SECOND: i64 = 1_000_000_000;

    fn command(start: i64) -> StartCommand {
        let clock = ClockOffset { offset_nanos: 0, uncertainty_nanos: 0 };
        StartCommand { start_at_unix_nanos: start, sent_at_unix_nanos: 0, clock }
    }

    #[test]
    fn the_measured_offset_moves_the_line() {
        let clock = ClockOffset { offset_nanos: -3_000_000, uncertainty_nanos: 500_000 };
        let command = StartCommand { clock, ..command(12 * SECOND) };
        assert_eq!(command.line_unix_nanos(), 12 * SECOND - 3_000_000);
    }

    #[test]
    fn no_command_is_accepted_before_the_keys_are_there() {
        let shared = Shared::default();
        for stage in [RunnerStage::Loading, RunnerStage::WarmingUp] {
            shared.enter(stage);
            assert!(!shared.offer(command(1)), "{stage:?}");
        }
    }

    #[test]
    fn progress_begins_at_nothing_in_each_stage() {
        let shared = Shared::default();
        shared.enter(RunnerStage::Loading);
        shared.note_preparation(&Progress { operations: 5, ..Progress::default() }, 0.5);
        let loading = shared.snapshot().answer(0);
        assert_eq!((loading.operations, loading.prepared_ratio), (5, Some(0.5)));
        shared.enter(RunnerStage::AtStartLine);
        let at_line = shared.snapshot().answer(0);
        assert_eq!((at_line.operations, at_line.prepared_ratio), (0, None));
    }

    #[test]
    fn the_first_command_stands() {
        let shared = Shared::default();
        assert!(!shared.offer(command(1)));
        assert_eq!(shared.snapshot().command, None);
        shared.enter(RunnerStage::AtStartLine);
        assert!(shared.offer(command(2)) && shared.offer(command(3)));
        assert_eq!(shared.snapshot().answer(0).start_at_unix_nanos, Some(2));
    }

    #[test]
    fn no_figure_falls_at_the_end() {
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
        assert!(waited(&shared, short).await >= short, "a scraper may still come");
        assert!(waited(&shared, short).await < short, "a scraper that did not come again will not come");
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
        shared.offer(command(2 * SECOND));
        assert!(shared.snapshot().elapsed_seconds(9 * SECOND).abs() < 1e-9);
        shared.enter(RunnerStage::Running);
        assert!((shared.snapshot().elapsed_seconds(9 * SECOND) - 7.0).abs() < 1e-9);
        shared.finish(&Progress { operations: 5, ..Progress::default() }, 3.5);
        let state = shared.snapshot().answer(99 * SECOND);
        assert_eq!((state.stage, state.operations), (RunnerStage::Finished, 5));
        assert!((state.elapsed_seconds - 3.5).abs() < 1e-9);
    }
}

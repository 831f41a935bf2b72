//! What the runner's HTTP server and its work share: the stage, the order to
//! start and the progress. Touches nothing but memory.

use crate::{clock, tool::Progress};
use dragstrip_results::protocol::{RunnerStage, RunnerState, StartOrder};
use tokio::sync::watch;

/// Without a measured offset, clocks that differ by no more than this are taken
/// for synchronised: the difference is then mostly the order's travel time.
pub const CLOCK_TOLERANCE_SECONDS: f64 = 0.25;

/// An order and what it means by this pod's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    /// The order.
    pub order: StartOrder,
    /// This pod's clock minus the operator's, in seconds: as the operator
    /// measured it, else as the order's arrival tells, travel time included.
    pub clock_offset_seconds: f64,
    /// The offset cannot be further off than this, in seconds; 0 where unknown.
    pub clock_uncertainty_seconds: f64,
    /// The start line, in nanoseconds of Unix time by this pod's clock.
    pub line_unix_nanos: i64,
}

impl Received {
    /// Reads an order that arrived at `now`, in nanoseconds of Unix time. A
    /// measured offset always moves the line; a difference on arrival only where
    /// it is too large to be travel time.
    pub fn at(order: StartOrder, now: i64) -> Self {
        let (offset, uncertainty, moved) = if let Some(clock) = order.clock {
            (clock.offset_nanos, clock.uncertainty_nanos, clock.offset_nanos)
        } else {
            let offset = now.saturating_sub(order.sent_at_unix_nanos);
            let far = clock::seconds(offset).abs() > CLOCK_TOLERANCE_SECONDS;
            (offset, 0, if far { offset } else { 0 })
        };
        Self {
            order,
            clock_offset_seconds: clock::seconds(offset),
            clock_uncertainty_seconds: clock::seconds(uncertainty),
            line_unix_nanos: order.start_at_unix_nanos.saturating_add(moved),
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
    /// Where the runner stands.
    pub stage: RunnerStage,
    /// The order it obeys.
    pub received: Option<Received>,
    /// The tool's progress.
    pub progress: Progress,
    /// Length of the load in seconds, once it is over.
    pub final_seconds: Option<f64>,
}

impl Snapshot {
    /// Seconds since the load began.
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
            start_at_unix_nanos: self.received.map(|received| received.order.start_at_unix_nanos),
            elapsed_seconds: self.elapsed_seconds(now_unix_nanos),
            operations: self.progress.operations,
            errors: self.progress.errors,
        }
    }
}

/// The shared state. Never blocks.
#[derive(Debug)]
pub struct Shared(watch::Sender<Snapshot>);

impl Default for Shared {
    fn default() -> Self {
        Self(watch::Sender::new(Snapshot {
            stage: RunnerStage::Preflight,
            received: None,
            progress: Progress::default(),
            final_seconds: None,
        }))
    }
}

impl Shared {
    /// How things are now.
    pub fn snapshot(&self) -> Snapshot {
        *self.0.borrow()
    }

    /// Takes the next stage, whose progress begins at nothing.
    pub fn enter(&self, stage: RunnerStage) {
        self.0.send_modify(|snapshot| {
            snapshot.stage = stage;
            snapshot.progress = Progress::default();
        });
    }

    /// Takes the order if it is the first and the runner stands at the line;
    /// false before that.
    pub fn offer(&self, order: StartOrder, now: i64) -> bool {
        let mut accepted = true;
        self.0.send_if_modified(|snapshot| {
            accepted = at_the_line(snapshot.stage);
            let first = accepted && snapshot.received.is_none();
            if first {
                snapshot.received = Some(Received::at(order, now));
            }
            first
        });
        accepted
    }

    /// Returns when there is an order.
    pub async fn order(&self) -> Received {
        let mut receiver = self.0.subscribe();
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

    /// Notes the tool's progress.
    pub fn note_progress(&self, progress: Progress) {
        self.0.send_modify(|snapshot| snapshot.progress = progress);
    }

    /// Notes what the whole load came to.
    pub fn finish(&self, progress: Progress, seconds: f64) {
        self.0.send_modify(|snapshot| {
            snapshot.stage = RunnerStage::Finished;
            snapshot.progress = progress;
            snapshot.final_seconds = Some(seconds);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::protocol::ClockOffset;

    const SECOND: i64 = 1_000_000_000;

    fn order(start: i64, sent: i64) -> StartOrder {
        StartOrder { start_at_unix_nanos: start, sent_at_unix_nanos: sent, clock: None }
    }

    #[test]
    fn travel_time_does_not_move_the_line() {
        let received = Received::at(order(12 * SECOND, 10 * SECOND), 10 * SECOND + SECOND / 50);
        assert_eq!(received.line_unix_nanos, 12 * SECOND);
        assert!((received.clock_offset_seconds - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_is_off_is_corrected_in_both_directions() {
        assert_eq!(Received::at(order(12 * SECOND, 10 * SECOND), 40 * SECOND).line_unix_nanos, 42 * SECOND);
        assert_eq!(Received::at(order(12 * SECOND, 10 * SECOND), 5 * SECOND).line_unix_nanos, 7 * SECOND);
    }

    #[test]
    fn a_measured_offset_moves_the_line_however_small_it_is() {
        let clock = ClockOffset { offset_nanos: -3_000_000, uncertainty_nanos: 500_000 };
        let order = StartOrder { clock: Some(clock), ..order(12 * SECOND, 10 * SECOND) };
        let received = Received::at(order, 40 * SECOND);
        assert_eq!(received.line_unix_nanos, 12 * SECOND - 3_000_000);
        assert!((received.clock_offset_seconds + 0.003).abs() < 1e-9);
        assert!((received.clock_uncertainty_seconds - 0.0005).abs() < 1e-9);
    }

    #[test]
    fn no_order_is_taken_before_the_keys_are_there() {
        let shared = Shared::default();
        for stage in [RunnerStage::Loading, RunnerStage::WarmingUp] {
            shared.enter(stage);
            assert!(!shared.offer(order(1, 0), 0), "{stage:?}");
        }
    }

    #[test]
    fn progress_of_one_stage_is_none_of_the_next() {
        let shared = Shared::default();
        shared.enter(RunnerStage::Loading);
        shared.note_progress(Progress { operations: 5, errors: 0 });
        assert_eq!(shared.snapshot().answer(0).operations, 5);
        shared.enter(RunnerStage::AtStartLine);
        assert_eq!(shared.snapshot().answer(0).operations, 0);
    }

    #[test]
    fn the_first_order_stands() {
        let shared = Shared::default();
        assert!(!shared.offer(order(1, 0), 0));
        assert_eq!(shared.snapshot().received, None);
        shared.enter(RunnerStage::AtStartLine);
        assert!(shared.offer(order(2, 0), 0) && shared.offer(order(3, 0), 0));
        assert_eq!(shared.snapshot().answer(0).start_at_unix_nanos, Some(2));
    }

    #[test]
    fn time_runs_only_while_the_tool_does() {
        let shared = Shared::default();
        shared.enter(RunnerStage::AtStartLine);
        shared.offer(order(2 * SECOND, 0), 0);
        assert!(shared.snapshot().elapsed_seconds(9 * SECOND).abs() < 1e-9);
        shared.enter(RunnerStage::Running);
        assert!((shared.snapshot().elapsed_seconds(9 * SECOND) - 7.0).abs() < 1e-9);
        shared.finish(Progress { operations: 5, errors: 0 }, 3.5);
        let state = shared.snapshot().answer(99 * SECOND);
        assert_eq!((state.stage, state.operations), (RunnerStage::Finished, 5));
        assert!((state.elapsed_seconds - 3.5).abs() < 1e-9);
    }
}

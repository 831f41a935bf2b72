//! What the runner's HTTP server and its work share: the stage, the order to
//! start and the progress. Touches nothing but memory.

use crate::{clock, tool::Progress};
use dragstrip_crds::protocol::{RunnerStage, RunnerState, StartOrder};
use tokio::sync::watch;

/// Clocks that differ by no more than this are taken for synchronised: what
/// was measured as their difference is then mostly the order's travel time.
pub const CLOCK_TOLERANCE_SECONDS: f64 = 0.25;

/// An order and what it means by this pod's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    /// The order.
    pub order: StartOrder,
    /// This pod's clock minus the operator's, in seconds; the travel time is in it.
    pub clock_offset_seconds: f64,
    /// The start line, in nanoseconds of Unix time by this pod's clock.
    pub line_unix_nanos: i64,
}

impl Received {
    /// Reads an order that arrived at `now`, in nanoseconds of Unix time. The
    /// line is moved by the clocks' difference only where that is too large to
    /// be travel time.
    pub fn at(order: StartOrder, now: i64) -> Self {
        let offset = now.saturating_sub(order.sent_at_unix_nanos);
        let clock_offset_seconds = clock::seconds(offset);
        let moved = if clock_offset_seconds.abs() > CLOCK_TOLERANCE_SECONDS { offset } else { 0 };
        Self { order, clock_offset_seconds, line_unix_nanos: order.start_at_unix_nanos.saturating_add(moved) }
    }
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

    /// Takes the next stage.
    pub fn enter(&self, stage: RunnerStage) {
        self.0.send_modify(|snapshot| snapshot.stage = stage);
    }

    /// Takes the order if it is the first and the runner stands at the line;
    /// false before that.
    pub fn offer(&self, order: StartOrder, now: i64) -> bool {
        let mut accepted = true;
        self.0.send_if_modified(|snapshot| {
            accepted = snapshot.stage != RunnerStage::Preflight;
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

    const SECOND: i64 = 1_000_000_000;

    fn order(start: i64, sent: i64) -> StartOrder {
        StartOrder { start_at_unix_nanos: start, sent_at_unix_nanos: sent }
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

//! How far a run is, as one line on standard error at every interval.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{Interval, interval_at};

/// Counters that other threads may read while the load runs.
#[derive(Debug, Default)]
pub struct ProgressCounters {
    /// Successful replies.
    pub operations: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
}

/// Prints one line of totals to standard error at every interval.
#[derive(Debug)]
pub struct ProgressLines {
    ticks: Option<Interval>,
    since: Instant,
    last_operations: u64,
    last_printed: Instant,
}

impl ProgressLines {
    /// A line `every` so often; none without.
    pub fn new(every: Option<Duration>, since: Instant) -> Self {
        let ticks = every.map(|every| interval_at((since + every).into(), every));
        Self { ticks, since, last_operations: 0, last_printed: since }
    }

    /// Waits until the next line is due.
    pub async fn next(&mut self) {
        match &mut self.ticks {
            Some(ticks) => {
                ticks.tick().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Prints the line.
    pub fn print(&mut self, counters: &[Arc<ProgressCounters>]) {
        let sum =
            |read: fn(&ProgressCounters) -> u64| counters.iter().map(|thread| read(thread)).sum::<u64>();
        let operations = sum(|thread| thread.operations.load(Ordering::Relaxed));
        let errors = sum(|thread| thread.errors.load(Ordering::Relaxed));
        let now = Instant::now();
        let seconds = now.saturating_duration_since(self.last_printed).as_secs_f64().max(1e-9);
        let rate = (operations - self.last_operations) as f64 / seconds;
        let elapsed = now.saturating_duration_since(self.since).as_secs_f64();
        eprintln!(
            "progress elapsed_seconds={elapsed:.3} operations={operations} \
             operations_per_second={rate:.0} errors={errors}"
        );
        (self.last_operations, self.last_printed) = (operations, now);
    }
}

//! How far a run is, as one line on standard error at every interval.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dragstrip_results::live::LatencyCounts;
use tokio::time::{Interval, interval_at};

/// A thread publishes its detail this long before a line is due: twice as long as an idle
/// event loop may not see that it is time.
const LEAD: Duration = Duration::from_millis(100);

/// What one thread counted in the measured window so far, and its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Detail {
    /// Bytes sent and received; 0 if they are not counted.
    pub bytes: u64,
    pub connections: u64,
    pub latency: LatencyCounts,
}

impl Detail {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.latency.add(&other.latency);
    }
}

/// Counters that other threads may read while the load runs.
#[derive(Debug, Default)]
pub struct ProgressCounters {
    pub operations: AtomicU64,
    pub errors: AtomicU64,
    /// The last detail, if details are published.
    detail: Mutex<Option<Detail>>,
}

impl ProgressCounters {
    /// Shows what was counted until now.
    pub fn publish(&self, detail: Detail) {
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner) = Some(detail);
    }

    fn detail(&self) -> Option<Detail> {
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a thread publishes its detail: just before a line is due, so that the load
/// is disturbed once in each interval and a line has what it needs.
#[derive(Clone, Copy, Debug)]
pub struct DetailTimes {
    every: Duration,
    next: Option<Instant>,
}

impl DetailTimes {
    /// For lines that begin with the load at `origin`; never without an interval.
    pub fn new(every: Option<Duration>, origin: Instant) -> Self {
        let every = every.unwrap_or_default();
        let first = origin + every.saturating_sub(LEAD.min(every / 2));
        Self { every, next: (!every.is_zero()).then_some(first) }
    }

    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Whether it is due; then the next time is later than `now`.
    pub fn pass(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|next| now >= next);
        while due && let Some(next) = self.next.filter(|next| now >= *next) {
            self.next = Some(next + self.every);
        }
        due
    }
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

    pub async fn next(&mut self) {
        match &mut self.ticks {
            Some(ticks) => {
                ticks.tick().await;
            }
            None => std::future::pending().await,
        }
    }

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
             operations_per_second={rate:.0} errors={errors}{}",
            detail(counters)
        );
        (self.last_operations, self.last_printed) = (operations, now);
    }
}

/// The line's further fields; empty if no thread publishes a detail.
fn detail(counters: &[Arc<ProgressCounters>]) -> String {
    let sum = counters.iter().filter_map(|thread| thread.detail()).reduce(|mut sum, other| {
        sum.add(&other);
        sum
    });
    sum.map_or_else(String::new, |Detail { bytes, connections, latency }| {
        let bytes = if bytes > 0 { format!(" bytes={bytes}") } else { String::new() };
        format!("{bytes} connections={connections} {}", latency.fields())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_all_threads_are_printed_together_and_nothing_without_them() {
        let counters: Vec<Arc<ProgressCounters>> = vec![Arc::default(), Arc::default()];
        assert_eq!(detail(&counters), "");
        let mut one = Detail { bytes: 10, connections: 2, latency: LatencyCounts::default() };
        one.latency.counts[0] = 3;
        counters[0].publish(one);
        counters[1].publish(Detail { bytes: 5, ..one });
        let line = detail(&counters);
        assert!(
            line.starts_with(" bytes=15 connections=4 latency_seconds=0.000000 latency_counts=6,0,"),
            "{line}"
        );
    }

    #[test]
    fn a_detail_is_due_once_before_every_line() {
        let origin = Instant::now();
        let at = |millis| origin + Duration::from_millis(millis);
        let mut times = DetailTimes::new(Some(Duration::from_secs(1)), origin);
        assert!(!times.pass(at(899)) && times.pass(at(900)) && !times.pass(at(901)));
        assert!(times.pass(at(5_000)) && !times.pass(at(5_500)) && times.pass(at(5_900)));
        assert!(!DetailTimes::new(None, origin).pass(at(1_000_000)), "without lines nothing is published");
    }
}

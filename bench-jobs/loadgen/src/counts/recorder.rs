//! What one load thread counts while it runs.
//!
//! Only counters, histograms and bounded error text; a recorder knows nothing
//! of sockets. Replies that arrive together are recorded together.

use std::time::{Duration, Instant};

use dragstrip_results::histogram::{self, HistogramError};
use dragstrip_results::latency_series::LatencySeries;
use dragstrip_results::live::LatencyCounts;
use hdrhistogram::Histogram;

use crate::counts::errors::ErrorTable;
use crate::workload::mix::OperationIndex;
use crate::workload::operations::Found;

#[derive(Clone, Debug)]
pub struct OperationRecord {
    /// Requests of the measured window that were written.
    pub requests: u64,
    pub(crate) count: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    /// Bytes sent and received.
    pub(crate) bytes: u64,
    /// Latencies of the successful replies; an unanswered request counts with the time it waited.
    pub(crate) latency: Histogram<u64>,
    pub(crate) warmup_count: u64,
    pub(crate) warmup_errors: u64,
    /// Redirections, in both parts of the run.
    pub(crate) redirected: u64,
}

impl OperationRecord {
    pub(crate) fn new() -> Result<Self, HistogramError> {
        Ok(Self {
            requests: 0,
            count: 0,
            hits: 0,
            misses: 0,
            errors: 0,
            bytes: 0,
            latency: histogram::empty()?,
            warmup_count: 0,
            warmup_errors: 0,
            redirected: 0,
        })
    }

    /// Adds another thread's totals. Equal bounds make the histograms fit exactly.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        self.requests += other.requests;
        self.count += other.count;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.warmup_count += other.warmup_count;
        self.warmup_errors += other.warmup_errors;
        self.redirected += other.redirected;
        histogram::add(&mut self.latency, &other.latency)
    }

    /// How often a server answered one of these requests, whatever it said.
    pub fn answered(&self) -> u64 {
        self.count + self.errors + self.warmup_count + self.warmup_errors + self.redirected
    }

    #[inline]
    fn add_tally(&mut self, tally: Tally, latency_micros: u64) {
        self.count += tally.count;
        self.hits += tally.found.hits;
        self.misses += tally.found.misses;
        self.errors += tally.errors;
        self.bytes += tally.bytes;
        if tally.count > 0 {
            self.latency.saturating_record_n(latency_micros, tally.count);
        }
    }
}

/// Successful replies to each operation in one second, and what they found.
pub(crate) type Second = Vec<(u64, Found)>;

/// Replies to one operation that arrived together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    pub count: u64,
    pub found: Found,
    pub errors: u64,
    pub bytes: u64,
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.count + self.errors + self.bytes == 0
    }

    #[inline]
    pub(crate) fn add_success(&mut self, found: Found) {
        self.add_successes(found, 1);
    }

    /// So many successes that each found the same.
    #[inline]
    pub(crate) fn add_successes(&mut self, found: Found, count: u64) {
        self.count += count;
        self.found.hits += found.hits * count;
        self.found.misses += found.misses * count;
    }
}

/// When the requests were sent, or should have been, that an answer is to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    pub instant: Instant,
    pub measured: bool,
}

#[derive(Debug)]
pub struct Recorder {
    pub operations: Vec<OperationRecord>,
    pub(crate) errors: ErrorTable,
    pub(crate) asking: u64,
    pub(crate) seconds: Vec<Second>,
    /// Latencies of the successful replies in each second, but for those of `fill`.
    pub(crate) by_second: LatencySeries,
    /// The operation that only follows misses.
    pub(crate) fill: Option<OperationIndex>,
    /// First send of the measured window.
    pub first_send: Option<Instant>,
    pub(crate) last_reply: Option<Instant>,
    /// Successful replies of the measured window so far, of all operations but `fill`.
    pub(crate) succeeded: u64,
    /// Error replies of the measured window so far, of all operations.
    pub(crate) failed: u64,
    /// Instant at which second 0 begins.
    origin: Instant,
    current: Second,
    current_end: Instant,
    /// Answers of one read, until they are recorded together.
    pub(crate) tallies: Vec<Tally>,
}

impl Recorder {
    pub fn new(operations: usize, origin: Instant) -> Result<Self, HistogramError> {
        Ok(Self {
            operations: (0..operations).map(|_| OperationRecord::new()).collect::<Result<_, _>>()?,
            errors: ErrorTable::default(),
            asking: 0,
            seconds: Vec::new(),
            by_second: LatencySeries::new()?,
            fill: None,
            first_send: None,
            last_reply: None,
            succeeded: 0,
            failed: 0,
            origin,
            current: vec![(0, Found::default()); operations],
            current_end: origin + Duration::from_secs(1),
            tallies: vec![Tally::default(); operations],
        })
    }

    /// Restarts the per-second series at the begin of the measured window.
    pub fn set_origin(&mut self, origin: Instant) {
        self.origin = origin;
        self.current_end = origin + Duration::from_secs(1);
    }

    /// The first measured request of a connection leaves at `instant`.
    pub fn note_first_send(&mut self, instant: Instant) {
        self.first_send = Some(self.first_send.map_or(instant, |first| first.min(instant)));
    }

    /// So many requests of the measured window, of so many bytes together, were written.
    #[inline]
    pub(crate) fn note_requests(&mut self, operation: OperationIndex, requests: u64, bytes: u64) {
        if let Some(record) = self.operations.get_mut(operation.0) {
            record.requests += requests;
            record.bytes += bytes;
        }
    }

    /// Bytes of both directions so far, of all operations, and latencies, of all but `fill`.
    pub fn so_far(&self) -> (u64, LatencyCounts) {
        let (mut bytes, mut latency) = (0, LatencyCounts::default());
        for (place, record) in self.operations.iter().enumerate() {
            bytes += record.bytes;
            if self.fill != Some(OperationIndex(place)) {
                latency.add(&LatencyCounts::of(&record.latency));
            }
        }
        (bytes, latency)
    }

    /// Records answers to requests of one operation and origin that arrived together.
    #[inline]
    pub fn record(&mut self, operation: OperationIndex, tally: Tally, origin: Origin, arrived: Instant) {
        if let Some(place) = self.tallies.get_mut(operation.0) {
            *place = tally;
        }
        self.settle(origin, arrived);
    }

    /// A request that was due at `origin` has no answer by `now`.
    pub(crate) fn note_unanswered(&mut self, operation: OperationIndex, origin: Origin, now: Instant) {
        if let Some(record) = self.operations.get_mut(operation.0).filter(|_| origin.measured) {
            let waited = now.saturating_duration_since(origin.instant);
            record.latency.saturating_record(rounded_micros(waited));
        }
    }

    /// Counts an error reply by its first word; a tally counts it too.
    pub fn note_error(&mut self, operation: OperationIndex, message: &[u8]) {
        self.errors.note(operation, message);
    }

    /// Records the tallied answers to requests of one origin.
    #[inline]
    pub(crate) fn settle(&mut self, origin: Origin, arrived: Instant) {
        if !origin.measured {
            self.settle_warmup();
            return;
        }
        let micros = rounded_micros(arrived.saturating_duration_since(origin.instant));
        if arrived >= self.current_end {
            self.advance_second(arrived);
        }
        let (mut succeeded, mut failed) = (0, 0);
        let fills = self.fill.and_then(|fill| self.tallies.get(fill.0)).map_or(0, |tally| tally.count);
        let records = self.operations.iter_mut().zip(&mut self.current);
        for (tally, (record, in_second)) in self.tallies.iter_mut().zip(records) {
            if tally.is_empty() {
                continue;
            }
            let tally = std::mem::take(tally);
            record.add_tally(tally, micros);
            in_second.0 += tally.count;
            in_second.1.add(tally.found);
            succeeded += tally.count;
            failed += tally.errors;
        }
        self.by_second.record(micros, succeeded - fills);
        self.succeeded += succeeded - fills;
        self.failed += failed;
        self.last_reply = Some(arrived);
    }

    fn settle_warmup(&mut self) {
        for (tally, record) in self.tallies.iter_mut().zip(&mut self.operations) {
            let tally = std::mem::take(tally);
            record.warmup_count += tally.count;
            record.warmup_errors += tally.errors;
        }
    }

    pub(crate) fn note_redirection(&mut self, operation: OperationIndex) {
        if let Some(record) = self.operations.get_mut(operation.0) {
            record.redirected += 1;
        }
    }

    /// Closes the second in progress; call once, when nothing more is recorded.
    pub fn finish(&mut self) {
        let last = std::mem::take(&mut self.current);
        if last.iter().any(|(count, _)| *count > 0) {
            self.seconds.push(last);
        }
    }

    fn advance_second(&mut self, arrived: Instant) {
        let empty = vec![(0, Found::default()); self.operations.len()];
        self.seconds.push(std::mem::replace(&mut self.current, empty.clone()));
        let seconds = arrived.saturating_duration_since(self.origin).as_secs();
        // Seconds without any reply are there, with zeros: a stall must show.
        while (self.seconds.len() as u64) < seconds {
            self.seconds.push(empty.clone());
        }
        self.by_second.advance(seconds);
        self.current_end = self.origin + Duration::from_secs(seconds + 1);
    }
}

/// Nearest whole microsecond, and never 0.
pub(crate) fn rounded_micros(latency: Duration) -> u64 {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    (nanos.saturating_add(500) / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::histogram::Latencies;

    fn settled(recorder: &mut Recorder, latency: Duration, arrived: Instant, measured: bool) {
        recorder.tallies[0].add_success(Found::default());
        recorder.tallies[0].add_success(Found { hits: 1, misses: 0 });
        let origin = Origin { instant: arrived.checked_sub(latency).unwrap(), measured };
        recorder.settle(origin, arrived);
    }

    #[test]
    fn silent_seconds_are_recorded_as_zeros() {
        // Far enough from the clock's zero for the longest latency.
        let origin = Instant::now() + Duration::from_secs(10);
        let mut recorder = Recorder::new(2, origin).unwrap();
        let at = |millis| origin + Duration::from_millis(millis);
        settled(&mut recorder, Duration::from_nanos(1_499), at(100), true);
        settled(&mut recorder, Duration::from_micros(7), at(900), true);
        settled(&mut recorder, Duration::from_secs(2), at(3_000), true);
        recorder.finish();
        let counts: Vec<_> = recorder.seconds.iter().map(|second| second[0].0).collect();
        assert_eq!(counts, vec![4, 0, 0, 2]);
        let hits: Vec<_> = recorder.seconds.iter().map(|second| second[0].1.hits).collect();
        assert_eq!(hits, vec![2, 0, 0, 1]);
        assert_eq!((recorder.operations[0].latency.min(), recorder.operations[0].hits), (1, 3));
        let parts = recorder.by_second.encode().unwrap().parts;
        let counts: Vec<_> = parts.iter().map(|part| Latencies::decode(part).unwrap().count()).collect();
        assert_eq!(counts, vec![4, 0, 0, 2], "latencies are in the seconds of their replies");
    }

    #[test]
    fn answers_of_the_warm_up_are_in_no_figure() {
        let origin = Instant::now() + Duration::from_secs(10);
        let mut recorder = Recorder::new(1, origin).unwrap();
        settled(&mut recorder, Duration::from_millis(1), origin, false);
        recorder.finish();
        let record = &recorder.operations[0];
        assert_eq!((record.count, record.hits, record.latency.len()), (0, 0, 0));
        assert_eq!((record.warmup_count, record.answered()), (2, 2));
        assert_eq!((recorder.seconds.len(), recorder.succeeded, recorder.last_reply), (0, 0, None));
    }
}

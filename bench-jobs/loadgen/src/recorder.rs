//! What one load thread counts while it runs.
//!
//! Only counters, histograms and bounded error text; a recorder knows nothing
//! of sockets. Replies that arrive together are recorded together.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::histogram::{self, HistogramError};
use crate::requests::{BatchCounts, Operation, OperationSequence};
use crate::scanner::{ReplyKind, ReplySink};

/// Distinct kinds of error kept apart; further ones are counted as [`OTHER_KINDS`].
const MAXIMUM_KINDS: usize = 64;
/// Longest kind, in bytes.
const MAXIMUM_KIND_BYTES: usize = 64;
/// Kind of the errors beyond the first [`MAXIMUM_KINDS`].
const OTHER_KINDS: &str = "(other)";
/// Kind of a reply whose type cannot answer the request.
const UNEXPECTED_REPLY: &str = "(unexpected-reply)";

/// Error replies of one kind to one operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ErrorCount {
    pub(crate) operation: Operation,
    pub(crate) kind: String,
    pub(crate) count: u64,
    pub(crate) first_message: String,
}

/// Error replies by operation and kind; few kinds, so a linear search is quickest.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorTable {
    pub(crate) entries: Vec<ErrorCount>,
}

impl ErrorTable {
    fn note(&mut self, operation: Operation, message: &[u8]) {
        let word = message.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let word = word.get(..word.len().min(MAXIMUM_KIND_BYTES)).unwrap_or_default();
        self.note_kind(operation, word, message);
    }

    fn note_kind(&mut self, operation: Operation, kind: &[u8], message: &[u8]) {
        let known = self
            .entries
            .iter_mut()
            .find(|entry| entry.operation == operation && entry.kind.as_bytes() == kind);
        if let Some(entry) = known {
            entry.count += 1;
            return;
        }
        let kind = String::from_utf8_lossy(kind).into_owned();
        let first_message = String::from_utf8_lossy(message).into_owned();
        self.merge(&ErrorCount { operation, kind, count: 1, first_message });
    }

    pub(crate) fn merge(&mut self, added: &ErrorCount) {
        let full = self.entries.len() >= MAXIMUM_KINDS;
        let same =
            |entry: &&mut ErrorCount, kind: &str| entry.operation == added.operation && entry.kind == kind;
        if let Some(entry) = self.entries.iter_mut().find(|entry| same(entry, &added.kind)) {
            entry.count += added.count;
        } else if !full {
            self.entries.push(added.clone());
        } else if let Some(entry) = self.entries.iter_mut().find(|entry| same(entry, OTHER_KINDS)) {
            entry.count += added.count;
        } else {
            self.entries.push(ErrorCount { kind: OTHER_KINDS.into(), ..added.clone() });
        }
    }
}

/// Totals of one operation.
#[derive(Clone, Debug)]
pub(crate) struct OperationRecord {
    pub(crate) requests: u64,
    pub(crate) count: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) latency: Histogram<u64>,
}

impl OperationRecord {
    pub(crate) fn new() -> Result<Self, HistogramError> {
        Ok(Self {
            requests: 0,
            count: 0,
            hits: 0,
            misses: 0,
            errors: 0,
            bytes_sent: 0,
            bytes_received: 0,
            latency: histogram::empty()?,
        })
    }

    /// Adds another thread's totals. Equal bounds make the histograms fit exactly.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        self.requests += other.requests;
        self.count += other.count;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.latency.add(&other.latency).map_err(HistogramError::Merge)
    }

    fn add_tally(&mut self, tally: Tally, latency_micros: u64) {
        self.count += tally.count;
        self.hits += tally.hits;
        self.misses += tally.misses;
        self.errors += tally.errors;
        self.bytes_received += tally.bytes;
        if tally.count > 0 {
            self.latency.saturating_record_n(latency_micros, tally.count);
        }
    }
}

/// One operation within one second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SecondCell {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) max_latency_micros: u64,
}

impl SecondCell {
    fn add_tally(&mut self, tally: Tally, latency_micros: u64) {
        self.count += tally.count;
        self.errors += tally.errors;
        if tally.count > 0 {
            self.max_latency_micros = self.max_latency_micros.max(latency_micros);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.max_latency_micros = self.max_latency_micros.max(other.max_latency_micros);
    }
}

/// One second of the run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Second {
    pub(crate) sets: SecondCell,
    pub(crate) gets: SecondCell,
}

impl Second {
    pub(crate) fn operation(self, operation: Operation) -> SecondCell {
        match operation {
            Operation::Set => self.sets,
            Operation::Get => self.gets,
        }
    }
}

/// Everything one load thread counts.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) sets: OperationRecord,
    pub(crate) gets: OperationRecord,
    pub(crate) errors: ErrorTable,
    pub(crate) pushes: u64,
    pub(crate) seconds: Vec<Second>,
    pub(crate) first_send: Option<Instant>,
    /// Last of the connections' first sends.
    pub(crate) last_first_send: Option<Instant>,
    pub(crate) last_reply: Option<Instant>,
    /// Instant at which second 0 begins.
    origin: Instant,
    current: Second,
    current_end: Instant,
}

impl Recorder {
    pub(crate) fn new(origin: Instant) -> Result<Self, HistogramError> {
        Ok(Self {
            sets: OperationRecord::new()?,
            gets: OperationRecord::new()?,
            errors: ErrorTable::default(),
            pushes: 0,
            seconds: Vec::new(),
            first_send: None,
            last_first_send: None,
            last_reply: None,
            origin,
            current: Second::default(),
            current_end: origin + Duration::from_secs(1),
        })
    }

    /// Restarts the clock of the per-second series; nothing is recorded before.
    pub(crate) fn set_origin(&mut self, origin: Instant) {
        self.origin = origin;
        self.current_end = origin + Duration::from_secs(1);
    }

    /// The first batch of a connection leaves at `instant`.
    pub(crate) fn note_first_send(&mut self, instant: Instant) {
        self.first_send = Some(self.first_send.map_or(instant, |first| first.min(instant)));
        self.last_first_send = Some(self.last_first_send.map_or(instant, |last| last.max(instant)));
    }

    pub(crate) fn note_batch(&mut self, counts: BatchCounts) {
        self.sets.requests += counts.sets;
        self.sets.bytes_sent += counts.set_bytes;
        self.gets.requests += counts.gets;
        self.gets.bytes_sent += counts.get_bytes;
    }

    /// Records replies that arrived together at `arrived`, `latency` after
    /// their batch was written.
    #[inline]
    pub(crate) fn note_arrival(&mut self, tallies: Tallies, latency: Duration, arrived: Instant) {
        let micros = rounded_micros(latency);
        if arrived >= self.current_end {
            self.advance_second(arrived);
        }
        if tallies.sets.replies() > 0 {
            self.sets.add_tally(tallies.sets, micros);
            self.current.sets.add_tally(tallies.sets, micros);
        }
        if tallies.gets.replies() > 0 {
            self.gets.add_tally(tallies.gets, micros);
            self.current.gets.add_tally(tallies.gets, micros);
        }
        self.pushes += tallies.pushes;
        self.last_reply = Some(arrived);
    }

    pub(crate) fn operation(&self, operation: Operation) -> &OperationRecord {
        match operation {
            Operation::Set => &self.sets,
            Operation::Get => &self.gets,
        }
    }

    /// Successful and error replies so far.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.sets.count + self.gets.count, self.sets.errors + self.gets.errors)
    }

    /// Closes the second in progress; call once, when nothing more is recorded.
    pub(crate) fn finish(&mut self) {
        let last = std::mem::take(&mut self.current);
        if last != Second::default() {
            self.seconds.push(last);
        }
    }

    fn advance_second(&mut self, arrived: Instant) {
        self.seconds.push(std::mem::take(&mut self.current));
        let whole = arrived.saturating_duration_since(self.origin).as_secs();
        // Seconds without any reply are there, with zeros: a stall must show.
        while (self.seconds.len() as u64) < whole {
            self.seconds.push(Second::default());
        }
        self.current_end = self.origin + Duration::from_secs(whole + 1);
    }
}

/// Nearest whole microsecond, and never 0.
fn rounded_micros(latency: Duration) -> u64 {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    (nanos.saturating_add(500) / 1000).max(1)
}

/// Replies of one operation that arrived together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
}

impl Tally {
    fn replies(self) -> u64 {
        self.count + self.errors
    }
}

/// Everything that arrived in one read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tallies {
    pub(crate) sets: Tally,
    pub(crate) gets: Tally,
    pub(crate) pushes: u64,
    /// Replies beyond those that were outstanding.
    pub(crate) surplus: u64,
}

/// Sorts the replies of one read by the operations they answer.
#[derive(Debug)]
pub(crate) struct ReplySorter<'a> {
    sequence: &'a mut OperationSequence,
    outstanding: &'a mut u64,
    errors: &'a mut ErrorTable,
    tallies: Tallies,
}

impl<'a> ReplySorter<'a> {
    pub(crate) fn new(
        sequence: &'a mut OperationSequence,
        outstanding: &'a mut u64,
        errors: &'a mut ErrorTable,
    ) -> Self {
        Self { sequence, outstanding, errors, tallies: Tallies::default() }
    }

    pub(crate) fn tallies(self) -> Tallies {
        self.tallies
    }

    /// The operation that the next reply answers, if any is outstanding.
    #[inline]
    fn answered(&mut self) -> Option<Operation> {
        if *self.outstanding == 0 {
            self.tallies.surplus += 1;
            return None;
        }
        *self.outstanding -= 1;
        Some(self.sequence.next())
    }
}

impl ReplySink for ReplySorter<'_> {
    #[inline]
    fn reply(&mut self, kind: ReplyKind, bytes: u64) {
        let Some(operation) = self.answered() else { return };
        let tally = match operation {
            Operation::Set => &mut self.tallies.sets,
            Operation::Get => &mut self.tallies.gets,
        };
        tally.bytes += bytes;
        match (operation, kind) {
            (Operation::Set, ReplyKind::Simple) => tally.count += 1,
            (Operation::Get, ReplyKind::Bulk) => {
                tally.count += 1;
                tally.hits += 1;
            }
            (Operation::Get, ReplyKind::Null) => {
                tally.count += 1;
                tally.misses += 1;
            }
            (_, kind) => {
                tally.errors += 1;
                let message = format!("{UNEXPECTED_REPLY} {kind:?} to {}", operation.name());
                self.errors.note_kind(operation, UNEXPECTED_REPLY.as_bytes(), message.as_bytes());
            }
        }
    }

    fn error(&mut self, message: &[u8], bytes: u64) {
        let Some(operation) = self.answered() else { return };
        let tally = match operation {
            Operation::Set => &mut self.tallies.sets,
            Operation::Get => &mut self.tallies.gets,
        };
        tally.errors += 1;
        tally.bytes += bytes;
        self.errors.note(operation, message);
    }

    fn push(&mut self, _bytes: u64) {
        self.tallies.pushes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Ratio;
    use crate::scanner::ReplyScanner;

    fn sorted(stream: &[u8], ratio: Ratio, mut outstanding: u64) -> (Tallies, ErrorTable) {
        let mut sequence = OperationSequence::new(ratio, 0);
        let mut errors = ErrorTable::default();
        let mut sorter = ReplySorter::new(&mut sequence, &mut outstanding, &mut errors);
        ReplyScanner::new().scan(stream, &mut sorter).unwrap();
        (sorter.tallies(), errors)
    }

    #[test]
    fn replies_are_matched_with_their_operations() {
        let stream =
            b"+OK\r\n$1\r\nx\r\n$-1\r\n-OOM no room\r\n$-1\r\n-OOM other text\r\n+OK\r\n>1\r\n:1\r\n";
        let (tallies, errors) = sorted(stream, Ratio { sets: 1, gets: 2 }, 7);
        assert_eq!(tallies.sets, Tally { count: 2, errors: 1, bytes: 24, ..Tally::default() });
        assert_eq!(tallies.gets, Tally { count: 3, hits: 1, misses: 2, errors: 1, bytes: 34 });
        assert_eq!((tallies.pushes, tallies.surplus), (1, 0));
        let counts: Vec<_> = errors.entries.iter().map(|entry| (entry.operation, entry.count)).collect();
        assert_eq!(counts, vec![(Operation::Set, 1), (Operation::Get, 1)]);
        assert_eq!(errors.entries[0].first_message, "OOM no room");
    }

    #[test]
    fn a_reply_of_the_wrong_type_is_an_error_and_a_surplus_is_seen() {
        let (tallies, errors) = sorted(b"$1\r\nx\r\n+OK\r\n+OK\r\n", Ratio { sets: 1, gets: 0 }, 2);
        assert_eq!((tallies.sets.count, tallies.sets.errors, tallies.surplus), (1, 1, 1));
        assert_eq!(errors.entries[0].kind, UNEXPECTED_REPLY);
    }

    #[test]
    fn kinds_of_error_are_bounded() {
        let mut table = ErrorTable::default();
        for number in 0..1000 {
            table.note(Operation::Get, format!("KIND{number} text").as_bytes());
        }
        assert_eq!(table.entries.len(), MAXIMUM_KINDS + 1);
        assert_eq!(table.entries.iter().map(|entry| entry.count).sum::<u64>(), 1000);
    }

    #[test]
    fn silent_seconds_are_kept_as_zeros() {
        let origin = Instant::now();
        let mut recorder = Recorder::new(origin).unwrap();
        let tallies = Tallies { sets: Tally { count: 2, ..Tally::default() }, ..Tallies::default() };
        let at = |millis| origin + Duration::from_millis(millis);
        recorder.note_arrival(tallies, Duration::from_nanos(1_499), at(100));
        recorder.note_arrival(tallies, Duration::from_micros(7), at(900));
        recorder.note_arrival(tallies, Duration::from_secs(2), at(3_000));
        recorder.finish();
        let counts: Vec<_> = recorder.seconds.iter().map(|second| second.sets.count).collect();
        assert_eq!(counts, vec![4, 0, 0, 2]);
        assert_eq!(recorder.seconds[0].sets.max_latency_micros, 7);
        assert_eq!(recorder.seconds[3].sets.max_latency_micros, 2_000_000);
        assert_eq!(recorder.sets.latency.min(), 1);
    }
}

//! Sorts the replies of a connection by the requests they answer.
//!
//! Requests are answered in order, so a second walk over the same order of
//! operations says what each reply answers. No sockets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::counts::errors::UNEXPECTED_REPLY;
use crate::counts::recorder::{Origin, Recorder};
use crate::wire::outgoing::Outgoing;
use crate::wire::redirect::Direction;
use crate::wire::scanner::{ReplyKind, ReplySink};
use crate::workload::mix::{OperationIndex, OperationWalk};
use crate::workload::operations::{Expected, Found, ReplyShape};

/// What the next replies of a connection answer.
#[derive(Debug)]
pub(crate) struct Expectation {
    walk: OperationWalk,
    shapes: Arc<[ReplyShape]>,
    /// The request that has been answered in part.
    partial: Partial,
    /// Requests without all their answers.
    pub(crate) outstanding: u64,
}

/// What the answers to a request of several commands have said so far.
#[derive(Debug, Default)]
struct Partial {
    replies: u64,
    failed: bool,
    direction: Option<Direction>,
}

impl Expectation {
    pub(crate) fn new(walk: OperationWalk, shapes: Arc<[ReplyShape]>) -> Self {
        Self { walk, shapes, partial: Partial::default(), outstanding: 0 }
    }

    /// What the replies to an operation must be.
    pub(crate) fn shape(&self, operation: OperationIndex) -> ReplyShape {
        const ONE: ReplyShape =
            ReplyShape { first: Expected::Anything, others: Expected::Anything, replies: 1 };
        self.shapes.get(operation.0).copied().unwrap_or(ONE)
    }
}

/// How requests in flight are told from each other.
#[derive(Debug)]
pub(crate) enum Flight {
    /// All of them left together.
    Batch(Origin),
    /// Each has its intended time.
    Scheduled(VecDeque<Origin>),
}

/// A request that has to be sent to another node.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) operation: OperationIndex,
    pub(crate) request: Outgoing,
    pub(crate) origin: Origin,
    pub(crate) direction: Direction,
}

/// Copies of the requests in flight, for the case that another node must have
/// them, and those of which that is known.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) in_flight: VecDeque<Outgoing>,
    pub(crate) redirected: Vec<Redirected>,
    spare: Vec<Outgoing>,
}

impl Copies {
    /// An empty buffer for the next copy.
    pub(crate) fn buffer(&mut self) -> Outgoing {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&mut self, mut copy: Outgoing) {
        copy.clear();
        self.spare.push(copy);
    }
}

/// Sorts the replies of one read.
#[derive(Debug)]
pub(crate) struct ReplySorter<'a> {
    pub(crate) expected: &'a mut Expectation,
    pub(crate) flight: &'a mut Flight,
    pub(crate) copies: Option<&'a mut Copies>,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) node: usize,
    pub(crate) arrived: Instant,
    /// Replies beyond those that were outstanding.
    pub(crate) surplus: u64,
}

impl ReplySorter<'_> {
    /// Records what arrived together. Call once, after the read was scanned.
    #[inline]
    pub(crate) fn settle(self) -> u64 {
        if let Flight::Batch(origin) = self.flight {
            self.recorder.settle(*origin, self.arrived, self.node);
        }
        self.surplus
    }

    /// The operation that the next reply answers and what it must be.
    #[inline]
    fn answered(&mut self) -> Option<(OperationIndex, ReplyShape)> {
        if self.expected.outstanding == 0 {
            self.surplus += 1;
            return None;
        }
        let operation = self.expected.walk.current();
        Some((operation, *self.expected.shapes.get(operation.0)?))
    }

    /// One reply is in; the last one of a request decides it.
    #[inline]
    fn take(&mut self, operation: OperationIndex, shape: ReplyShape, found: Option<Found>, bytes: u64) {
        if let Some(tally) = self.recorder.tallies.get_mut(operation.0) {
            tally.bytes += bytes;
        }
        if shape.replies > 1 {
            self.expected.partial.replies += 1;
            self.expected.partial.failed |= found.is_none();
            if self.expected.partial.replies < shape.replies {
                return;
            }
        }
        let direction = self.expected.partial.direction.take();
        let failed = found.is_none() || self.expected.partial.failed;
        self.expected.partial = Partial::default();
        self.expected.outstanding -= 1;
        self.expected.walk.advance();
        let redirected = direction.is_some();
        if self.copies.is_some() {
            self.release_copy(operation, direction);
        }
        if !redirected && let Some(tally) = self.recorder.tallies.get_mut(operation.0) {
            if failed {
                tally.errors += 1;
            } else {
                tally.add_success(found.unwrap_or_default());
            }
        }
        if let Flight::Scheduled(origins) = self.flight
            && let Some(origin) = origins.pop_front()
            && !redirected
        {
            self.recorder.settle(origin, self.arrived, self.node);
        }
    }

    /// The copy of an answered request is free, unless another node must have it.
    fn release_copy(&mut self, operation: OperationIndex, direction: Option<Direction>) {
        let origin = match &*self.flight {
            Flight::Batch(origin) => Some(*origin),
            Flight::Scheduled(origins) => origins.front().copied(),
        };
        let Some(copies) = &mut self.copies else { return };
        let Some(request) = copies.in_flight.pop_front() else { return };
        match (direction, origin) {
            (Some(direction), Some(origin)) => {
                self.recorder.note_redirection(operation, self.node, origin.measured, direction.ask);
                copies.redirected.push(Redirected { operation, request, origin, direction });
            }
            _ => copies.recycle(request),
        }
    }

    fn note_error(&mut self, operation: OperationIndex, message: &[u8]) {
        let measured = match &*self.flight {
            Flight::Batch(origin) => origin.measured,
            Flight::Scheduled(origins) => origins.front().is_none_or(|origin| origin.measured),
        };
        if measured {
            self.recorder.errors.note(operation, message);
        }
    }
}

impl ReplySorter<'_> {
    /// Takes as many of `limit` equal replies as answer requests of one
    /// operation in a row and need not be told apart, and returns how many.
    #[inline]
    fn take_alike(&mut self, kind: ReplyKind, bytes_of_each: u64, limit: u64) -> u64 {
        let expected = &mut *self.expected;
        let operation = expected.walk.current();
        if self.copies.is_some() || !matches!(self.flight, Flight::Batch(_)) || expected.outstanding == 0 {
            return 0;
        }
        let Some(shape) = expected.shapes.get(operation.0).filter(|shape| shape.replies == 1) else {
            return 0;
        };
        let Some(found) = shape.first.judge(kind) else { return 0 };
        let Some(tally) = self.recorder.tallies.get_mut(operation.0) else { return 0 };
        let taken = expected.walk.advance_within_row(limit.min(expected.outstanding));
        expected.outstanding -= taken;
        tally.add_successes(found, taken);
        tally.bytes += bytes_of_each * taken;
        taken
    }
}

impl ReplySink for ReplySorter<'_> {
    #[inline]
    fn replies(&mut self, kind: ReplyKind, bytes_of_each: u64, count: u64) {
        let mut left = count;
        while left > 0 {
            let taken = self.take_alike(kind, bytes_of_each, left);
            left -= taken;
            if taken == 0 {
                self.reply(kind, bytes_of_each);
                left -= 1;
            }
        }
    }

    fn reply(&mut self, kind: ReplyKind, bytes: u64) {
        let Some((operation, shape)) = self.answered() else { return };
        let expected = if self.expected.partial.replies == 0 { shape.first } else { shape.others };
        let found = expected.judge(kind);
        if found.is_none() {
            self.note_error(operation, format!("{UNEXPECTED_REPLY} {kind:?}").as_bytes());
        }
        self.take(operation, shape, found, bytes);
    }

    fn error(&mut self, message: &[u8], bytes: u64) {
        let Some((operation, shape)) = self.answered() else { return };
        match Direction::read(message).filter(|_| self.copies.is_some()) {
            Some(direction) => self.expected.partial.direction = Some(direction),
            None => self.note_error(operation, message),
        }
        self.take(operation, shape, None, bytes);
    }

    fn push(&mut self, _bytes: u64) {
        self.recorder.pushes += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counts::recorder::Tally;
    use crate::wire::scanner::ReplyScanner;
    use crate::workload::mix::Cycle;
    use crate::workload::operations::OperationSpec;

    struct Sorted {
        recorder: Recorder,
        surplus: u64,
        outstanding: u64,
        redirected: Vec<Redirected>,
    }

    fn sorted(stream: &[u8], operations: &[&str], outstanding: u64, flight: Option<Flight>) -> Sorted {
        let specs: Vec<OperationSpec> = operations.iter().map(|text| text.parse().unwrap()).collect();
        let weights: Vec<u64> = specs.iter().map(|spec| u64::from(spec.weight.get())).collect();
        let walk = OperationWalk::new(Cycle::in_a_row(&weights), 0);
        let shapes = specs.iter().map(OperationSpec::replies).collect();
        let mut expected = Expectation::new(walk, shapes);
        expected.outstanding = outstanding;
        let now = Instant::now();
        let mut recorder = Recorder::new(specs.len(), vec!["node".into()], now).unwrap();
        let scheduled = flight.is_some();
        let mut flight = flight.unwrap_or(Flight::Batch(Origin { instant: now, measured: true }));
        let mut copies = Copies::default();
        copies.in_flight.resize_with(usize::try_from(outstanding).unwrap(), Outgoing::default);
        let mut sorter = ReplySorter {
            expected: &mut expected,
            flight: &mut flight,
            copies: (!scheduled).then_some(&mut copies),
            recorder: &mut recorder,
            node: 0,
            arrived: now,
            surplus: 0,
        };
        ReplyScanner::new().scan(stream, &mut sorter).unwrap();
        let surplus = sorter.settle();
        Sorted { recorder, surplus, outstanding: expected.outstanding, redirected: copies.redirected }
    }

    #[test]
    fn replies_are_matched_with_their_operations() {
        let stream =
            b"+OK\r\n$1\r\nx\r\n$-1\r\n-OOM no room\r\n$-1\r\n-OOM other text\r\n+OK\r\n>1\r\n:1\r\n";
        let found = sorted(stream, &["set", "get weight=2"], 7, None);
        let (set, get) = (&found.recorder.operations[0], &found.recorder.operations[1]);
        assert_eq!((set.count, set.errors, set.bytes_received), (2, 1, 24));
        assert_eq!((get.count, get.hits, get.misses, get.errors, get.bytes_received), (3, 1, 2, 1, 34));
        assert_eq!((found.recorder.pushes, found.surplus, found.outstanding), (1, 0, 0));
        let errors = &found.recorder.errors.entries;
        assert_eq!(errors.iter().map(|entry| entry.operation.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(errors[0].first_message, "OOM no room");
    }

    #[test]
    fn a_reply_of_the_wrong_type_is_an_error_and_a_surplus_is_seen() {
        let found = sorted(b"$1\r\nx\r\n+OK\r\n+OK\r\n", &["set"], 2, None);
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, found.surplus), (1, 1, 1));
        assert_eq!(found.recorder.errors.entries[0].kind, UNEXPECTED_REPLY);
    }

    #[test]
    fn replies_in_a_row_are_shared_out_over_the_operations_they_answer() {
        let stream = b"$1\r\nx\r\n".repeat(8);
        let found = sorted(&stream, &["get weight=3", "command\tGET __key__", "incr"], 7, None);
        let records = &found.recorder.operations;
        // Walked: get get get command incr get get; the eighth answers nothing.
        assert_eq!((records[0].count, records[0].hits, records[0].bytes_received), (5, 5, 35));
        assert_eq!((records[1].count, records[1].hits, records[1].bytes_received), (1, 0, 7));
        assert_eq!((records[2].count, records[2].errors, records[2].bytes_received), (0, 1, 7));
        assert_eq!((found.surplus, found.outstanding), (1, 0));
    }

    #[test]
    fn a_request_of_several_commands_is_one_operation_with_its_last_reply() {
        let found = sorted(
            b"+OK\r\n:1\r\n:1\r\n+OK\r\n-ERR no\r\n:1\r\n+OK\r\n:1\r\n",
            &["mset-expireat keys=2 expiry=1"],
            3,
            None,
        );
        let batch = &found.recorder.operations[0];
        assert_eq!((batch.count, batch.errors, found.outstanding), (1, 1, 1));
        assert_eq!(found.recorder.errors.entries[0].count, 1);
    }

    #[test]
    fn a_redirection_is_no_error_and_its_request_is_kept() {
        let found = sorted(b"+OK\r\n-MOVED 12182 10.0.0.7:6379\r\n-ASK 1 h:1\r\n", &["set"], 3, None);
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, set.redirected, set.answered()), (1, 0, 2, 3));
        assert!(found.recorder.errors.entries.is_empty());
        assert_eq!((found.recorder.nodes[0].1.moved, found.recorder.nodes[0].1.ask), (1, 1));
        assert_eq!(found.redirected.len(), 2);
        assert_eq!(found.redirected[0].direction.address, "10.0.0.7:6379");
    }

    #[test]
    fn scheduled_requests_have_each_their_own_latency() {
        let now = Instant::now();
        let due = |millis| Origin {
            instant: now.checked_sub(Duration::from_millis(millis)).unwrap(),
            measured: millis < 50,
        };
        let flight = Flight::Scheduled([due(100), due(30), due(10)].into());
        let found = sorted(b"+OK\r\n+OK\r\n-ERR x\r\n", &["set"], 3, Some(flight));
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, set.warmup_count), (1, 1, 1));
        assert!((30_000..31_000).contains(&set.latency.max()), "{}", set.latency.max());
        assert_eq!(found.recorder.tallies[0], Tally::default());
    }
}

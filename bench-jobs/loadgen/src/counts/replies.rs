//! Sorts the replies of a connection by the requests they answer.
//!
//! Requests are answered in order, so a second walk over the same order of
//! operations says what each reply answers; of a client with several connections
//! each keeps what it has in flight. No sockets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::counts::errors::UNEXPECTED_REPLY;
use crate::counts::recorder::{Origin, Recorder};
use crate::wire::outgoing::Outgoing;
use crate::wire::redirect::Direction;
use crate::wire::scanner::{ReplyKind, ReplySink};
use crate::workload::mix::{OperationIndex, OperationWalk};
use crate::workload::operations::{Found, ReplyShape};

/// What the next replies of a connection answer.
#[derive(Debug)]
pub(crate) struct Expectation {
    flight: Flight,
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

/// How requests in flight are distinguished.
#[derive(Debug)]
pub(crate) enum Flight {
    /// They follow the mix, and all of them left together.
    Batch { walk: OperationWalk, origin: Origin },
    /// They follow the mix; each has its intended time.
    Scheduled { walk: OperationWalk, origins: VecDeque<Origin> },
    /// Those of a client's requests that this one of its connections has.
    Routed(VecDeque<Sent>),
}

/// A request in flight, stored in full in case it must go to another node.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) operation: OperationIndex,
    pub(crate) origin: Origin,
    pub(crate) request: Outgoing,
    pub(crate) hops: u32,
    /// Whether the answer to an ASKING comes first.
    pub(crate) asking: bool,
}

/// A request whose reply calls for another one.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) sent: Sent,
    /// Where it has to be sent again; none for a GET whose key has to be SET.
    pub(crate) direction: Option<Direction>,
}

impl Expectation {
    pub(crate) fn new(flight: Flight, shapes: Arc<[ReplyShape]>) -> Self {
        Self { flight, shapes, partial: Partial::default(), outstanding: 0 }
    }

    /// So many requests of a batch leave now.
    #[inline]
    pub(crate) fn expect_batch(&mut self, requests: u64, left: Origin) {
        self.outstanding += requests;
        if let Flight::Batch { origin, .. } = &mut self.flight {
            *origin = left;
        }
    }

    /// The next request of the mix leaves, that was due at `origin`.
    pub(crate) fn expect_scheduled(&mut self, origin: Origin) {
        self.outstanding += 1;
        if let Flight::Scheduled { origins, .. } = &mut self.flight {
            origins.push_back(origin);
        }
    }

    /// A request leaves on this connection.
    pub(crate) fn expect_routed(&mut self, request: Sent) {
        self.outstanding += 1;
        if let Flight::Routed(sent) = &mut self.flight {
            sent.push_back(request);
        }
    }

    /// What the next reply answers.
    #[inline]
    fn front(&self) -> Option<(OperationIndex, Origin)> {
        match &self.flight {
            Flight::Batch { walk, origin } => Some((walk.current(), *origin)),
            Flight::Scheduled { walk, origins } => Some((walk.current(), *origins.front()?)),
            Flight::Routed(sent) => sent.front().map(|sent| (sent.operation, sent.origin)),
        }
    }

    /// The first request is answered.
    #[inline]
    fn advance(&mut self) -> Option<Sent> {
        self.outstanding -= 1;
        self.partial = Partial::default();
        match &mut self.flight {
            Flight::Batch { walk, .. } => walk.advance(),
            Flight::Scheduled { walk, origins } => {
                walk.advance();
                origins.pop_front();
            }
            Flight::Routed(sent) => return sent.pop_front(),
        }
        None
    }

    /// The requests that were never answered, each with when it was due.
    pub(crate) fn unanswered(&mut self) -> Vec<(OperationIndex, Origin)> {
        let mut left = Vec::new();
        while self.outstanding > 0 {
            let Some(front) = self.front() else { break };
            left.push(front);
            self.advance();
        }
        left
    }
}

#[derive(Debug)]
pub(crate) struct ReplySorter<'a> {
    pub(crate) expected: &'a mut Expectation,
    pub(crate) to_follow: &'a mut Vec<Answered>,
    /// Room of requests that are answered, for later ones.
    pub(crate) spare: &'a mut Vec<Outgoing>,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) arrived: Instant,
    /// When the requests left, or were due, whose answers are tallied.
    pub(crate) origin: Option<Origin>,
    /// Replies beyond those that were outstanding.
    pub(crate) surplus: u64,
}

impl ReplySorter<'_> {
    /// Records what arrived together. Call once, after the read was scanned.
    #[inline]
    pub(crate) fn settle(mut self) -> u64 {
        self.record_tallied();
        self.surplus
    }

    #[inline]
    fn record_tallied(&mut self) {
        if let Some(origin) = self.origin.take() {
            self.recorder.settle(origin, self.arrived);
        }
    }

    /// Answers to requests of one origin are tallied together.
    #[inline]
    fn turn_to(&mut self, origin: Origin) {
        if self.origin != Some(origin) {
            self.record_tallied();
            self.origin = Some(origin);
        }
    }

    /// The operation that the next reply answers and what it must be.
    #[inline]
    fn answered(&mut self) -> Option<(OperationIndex, ReplyShape)> {
        if self.expected.outstanding == 0 {
            self.surplus += 1;
            return None;
        }
        if let Flight::Routed(sent) = &mut self.expected.flight
            && let Some(first) = sent.front_mut()
            && std::mem::take(&mut first.asking)
        {
            return None;
        }
        let (operation, origin) = self.expected.front()?;
        self.turn_to(origin);
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
        if let Some(mut sent) = self.expected.advance() {
            if let Some(direction) = direction {
                self.recorder.note_redirection(operation);
                self.to_follow.push(Answered { sent, direction: Some(direction) });
                return;
            }
            if shape.fills && found.is_some_and(|found| found.misses > 0) {
                self.to_follow.push(Answered { sent, direction: None });
            } else {
                sent.request.clear();
                self.spare.push(sent.request);
            }
        }
        if let Some(tally) = self.recorder.tallies.get_mut(operation.0) {
            if failed {
                tally.errors += 1;
            } else {
                tally.add_success(found.unwrap_or_default());
            }
        }
    }

    fn note_error(&mut self, operation: OperationIndex, message: &[u8]) {
        if self.origin.is_none_or(|origin| origin.measured) {
            self.recorder.errors.note(operation, message);
        }
    }
}

impl ReplySorter<'_> {
    /// Takes as many of `limit` equal replies as answer requests of one
    /// operation in a row and need not be distinguished, and returns how many.
    #[inline]
    fn take_alike(&mut self, kind: ReplyKind, bytes_of_each: u64, limit: u64) -> u64 {
        let expected = &mut *self.expected;
        let Flight::Batch { walk, origin } = &mut expected.flight else { return 0 };
        let (operation, origin) = (walk.current(), *origin);
        let Some(shape) = expected.shapes.get(operation.0).filter(|shape| shape.replies == 1) else {
            return 0;
        };
        let Some(found) = shape.first.judge(kind).filter(|_| expected.outstanding > 0) else { return 0 };
        let taken = walk.advance_within_row(limit.min(expected.outstanding));
        expected.outstanding -= taken;
        self.turn_to(origin);
        if let Some(tally) = self.recorder.tallies.get_mut(operation.0) {
            tally.add_successes(found, taken);
            tally.bytes += bytes_of_each * taken;
        }
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
        match Direction::read(message).filter(|_| shape.redirected) {
            Some(direction) => self.expected.partial.direction = Some(direction),
            None => self.note_error(operation, message),
        }
        self.take(operation, shape, None, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counts::recorder::Tally;
    use crate::wire::scanner::ReplyScanner;
    use crate::workload::mix::Cycle;
    use crate::workload::operations::{OperationKind, OperationSpec};
    use dragstrip_crds::workload::OperationName;

    struct Sorted {
        recorder: Recorder,
        surplus: u64,
        outstanding: u64,
        to_follow: Vec<Answered>,
    }

    /// What becomes of `stream` on a connection with so many requests outstanding.
    fn sorted(
        stream: &[u8],
        operations: &[&str],
        outstanding: u64,
        flight: impl FnOnce(OperationWalk) -> Flight,
    ) -> Sorted {
        let specs: Vec<OperationSpec> = operations
            .iter()
            .map(|text| serde_json::from_value(crate::notation::operation(text)).unwrap())
            .map(|declared| OperationSpec::declared(&declared).unwrap())
            .collect();
        let weights: Vec<u64> = specs.iter().map(|spec| spec.weight).collect();
        let walk = OperationWalk::new(Cycle::in_a_row(&weights), 0);
        let shapes = specs.iter().map(|spec| ReplyShape {
            redirected: true,
            fills: spec.kind == OperationKind::Named(OperationName::Get),
            ..spec.replies()
        });
        let shapes = shapes.collect();
        let mut expected = Expectation::new(flight(walk), shapes);
        expected.outstanding = outstanding;
        let now = Instant::now();
        let mut recorder = Recorder::new(specs.len(), now).unwrap();
        let (mut to_follow, mut spare) = (Vec::new(), Vec::new());
        let mut sorter = ReplySorter {
            expected: &mut expected,
            to_follow: &mut to_follow,
            spare: &mut spare,
            recorder: &mut recorder,
            arrived: now,
            origin: None,
            surplus: 0,
        };
        ReplyScanner::new().scan(stream, &mut sorter).unwrap();
        let surplus = sorter.settle();
        Sorted { recorder, surplus, outstanding: expected.outstanding, to_follow }
    }

    fn batch(walk: OperationWalk) -> Flight {
        Flight::Batch { walk, origin: Origin { instant: Instant::now(), measured: true } }
    }

    fn routed(asking: [bool; 3]) -> Flight {
        let origin = Origin { instant: Instant::now(), measured: true };
        let sent = |asking| Sent {
            operation: OperationIndex(0),
            origin,
            request: Outgoing::default(),
            hops: 0,
            asking,
        };
        Flight::Routed(asking.map(sent).into())
    }

    #[test]
    fn replies_are_matched_with_their_operations() {
        let stream =
            b"+OK\r\n$1\r\nx\r\n$-1\r\n-OOM no room\r\n$-1\r\n-OOM other text\r\n+OK\r\n>1\r\n:1\r\n";
        let found = sorted(stream, &["Set", "Get weight=2"], 7, batch);
        let (set, get) = (&found.recorder.operations[0], &found.recorder.operations[1]);
        assert_eq!((set.count, set.errors, set.bytes), (2, 1, 24));
        assert_eq!((get.count, get.hits, get.misses, get.errors, get.bytes), (3, 1, 2, 1, 34));
        assert_eq!((found.surplus, found.outstanding), (0, 0));
        let errors = &found.recorder.errors.entries;
        assert_eq!(errors.iter().map(|entry| entry.operation.0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(errors[0].first_message, "OOM no room");
    }

    #[test]
    fn a_reply_of_the_wrong_type_is_an_error_and_a_surplus_is_seen() {
        let found = sorted(b"$1\r\nx\r\n+OK\r\n+OK\r\n", &["Set"], 2, batch);
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, found.surplus), (1, 1, 1));
        assert_eq!(found.recorder.errors.entries[0].kind, UNEXPECTED_REPLY);
    }

    #[test]
    fn replies_in_a_row_are_shared_out_over_the_operations_they_answer() {
        let stream = b"$1\r\nx\r\n".repeat(8);
        let found = sorted(&stream, &["Get weight=3", "command GET __key__", "Incr"], 7, batch);
        let records = &found.recorder.operations;
        // Walked: get get get command incr get get; the eighth answers nothing.
        assert_eq!((records[0].count, records[0].hits, records[0].bytes), (5, 5, 35));
        assert_eq!((records[1].count, records[1].hits, records[1].bytes), (1, 0, 7));
        assert_eq!((records[2].count, records[2].errors, records[2].bytes), (0, 1, 7));
        assert_eq!((found.surplus, found.outstanding), (1, 0));
    }

    #[test]
    fn a_request_of_several_commands_is_one_operation_with_its_last_reply() {
        let found = sorted(
            b"+OK\r\n:1\r\n:1\r\n+OK\r\n-ERR no\r\n:1\r\n+OK\r\n:1\r\n",
            &["MsetExpireat keys=2 expiry=1s"],
            3,
            batch,
        );
        let batch = &found.recorder.operations[0];
        assert_eq!((batch.count, batch.errors, found.outstanding), (1, 1, 1));
        assert_eq!(found.recorder.errors.entries[0].count, 1);
    }

    #[test]
    fn a_redirection_is_not_an_error_and_its_request_is_stored() {
        let stream = b"+OK\r\n-MOVED 12182 10.0.0.7:6379\r\n-ASK 1 h:1\r\n";
        let found = sorted(stream, &["Set"], 3, |_| routed([false; 3]));
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, set.redirected, set.answered()), (1, 0, 2, 3));
        assert!(found.recorder.errors.entries.is_empty());
        assert_eq!(found.to_follow.len(), 2);
        assert_eq!(found.to_follow[0].direction.as_ref().unwrap().address, "10.0.0.7:6379");
    }

    #[test]
    fn a_get_that_missed_is_stored_once_it_is_counted() {
        let stream = b"$1\r\nx\r\n$-1\r\n-ASK 1 h:1\r\n";
        let found = sorted(stream, &["Get"], 3, |_| routed([false; 3]));
        let get = &found.recorder.operations[0];
        assert_eq!((get.count, get.hits, get.misses, get.redirected), (2, 1, 1, 1));
        let directions: Vec<_> =
            found.to_follow.iter().map(|answered| answered.direction.is_some()).collect();
        assert_eq!(directions, [false, true], "first the miss, then the redirection");
    }

    #[test]
    fn the_reply_to_asking_does_not_answer_the_request_behind_it() {
        let stream = b"+OK\r\n+OK\r\n-ERR refused\r\n+OK\r\n";
        let found = sorted(stream, &["Set"], 3, |_| routed([true, false, false]));
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, found.outstanding, found.surplus), (2, 1, 0, 0));
    }

    #[test]
    fn scheduled_requests_have_each_their_own_latency() {
        let now = Instant::now();
        let due = |millis| Origin {
            instant: now.checked_sub(Duration::from_millis(millis)).unwrap(),
            measured: millis < 50,
        };
        let origins = [due(100), due(30), due(10)].into();
        let found =
            sorted(b"+OK\r\n+OK\r\n-ERR x\r\n", &["Set"], 3, |walk| Flight::Scheduled { walk, origins });
        let set = &found.recorder.operations[0];
        assert_eq!((set.count, set.errors, set.warmup_count), (1, 1, 1));
        assert!((30_000..31_000).contains(&set.latency.max()), "{}", set.latency.max());
        assert_eq!(found.recorder.tallies[0], Tally::default());
    }
}

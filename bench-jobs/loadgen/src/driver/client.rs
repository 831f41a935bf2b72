//! One client: it draws requests and sends each over its connection to the node
//! that has the key. A server alone has one connection of it, a cluster one to
//! every shard, so that the declared keys are drawn over all shards together. A SET that follows a miss
//! leaves at once, on the connection that brought the miss.
//!
//! In a closed loop a client writes a batch, awaits all its replies and goes on;
//! in an open loop it writes what is due behind whatever is still unanswered.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::counts::recorder::{Origin, Recorder};
use crate::counts::replies::{Answered, Flight, Sent};
use crate::driver::link::{Link, LoadCause, LoadError, ThreadContext};
use crate::driver::pacer::Remaining;
use crate::wire::cluster::Routes;
use crate::wire::outgoing::Cursor;
use crate::wire::redirect::Direction;
use crate::wire::slots::SlotMap;
use crate::workload::mix::{OperationIndex, OperationWalk};
use crate::workload::requests::RequestSource;

/// Redirections of one request that are followed at most, once it is older than [`DISAGREEMENT`].
const MAXIMUM_HOPS: u32 = 16;
/// How long two nodes may name each other as the owner of a slot, until their news of it have spread.
const DISAGREEMENT: Duration = Duration::from_secs(5);
/// Bytes of due requests that are handed to the kernel at once at most.
const LARGEST_WRITE_BYTES: usize = 64 * 1024;
/// Makes a node answer for a slot that is still moving to it.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// When a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// The next batch of so many requests when the last one is answered.
    Closed { pipeline: usize, remaining: Remaining },
    /// What is due; `over` when nothing more will be.
    Scheduled { over: bool },
}

/// What a client needs when it cannot continue by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// It waits for its sockets, or for what is due.
    Waiting,
    /// It needs a connection to [`Client::wanted`].
    Unconnected,
    Done,
}

/// Where the slots of a cluster are.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) routes: Arc<Routes>,
    pub(crate) slots: Rc<SlotMap>,
}

#[derive(Debug)]
pub(crate) struct Client {
    /// In a cluster one for each shard in their order, and then those that redirections led to.
    pub(crate) links: Vec<Link>,
    /// The kernel accepts no more bytes at the moment.
    pub(crate) blocked: bool,
    source: RequestSource,
    context: Rc<ThreadContext>,
    map: Option<Map>,
    /// What follows a miss.
    fill: Option<OperationIndex>,
    /// Whether each request in flight is stored.
    routed: bool,
    pace: Pace,
    last_arrival: Instant,
    /// Whether it has begun to measure.
    measuring: bool,
    /// Requests without a key so far, which go to the shards in turn.
    keyless: usize,
    /// Requests for nodes that it has no connection to.
    unconnected: Vec<(String, Sent)>,
}

impl Client {
    pub(crate) fn new(
        links: Vec<Link>,
        source: RequestSource,
        context: Rc<ThreadContext>,
        map: Option<Map>,
        pace: Pace,
        origin: Instant,
    ) -> Self {
        let fill = context.templates.fill;
        Self {
            links,
            blocked: false,
            source,
            context,
            routed: map.is_some() || fill.is_some(),
            map,
            fill,
            pace,
            last_arrival: origin,
            measuring: false,
            keyless: 0,
            unconnected: Vec::new(),
        }
    }

    /// Handles an event on one of the connections, as far as is possible without waiting.
    #[inline]
    pub(crate) fn step(&mut self, place: usize) -> Result<Standing, LoadError> {
        let Some(link) = self.links.get_mut(place) else { return Ok(Standing::Waiting) };
        if let Some(arrived) = link.serve()? {
            self.last_arrival = arrived;
        }
        if !link.to_follow.is_empty() {
            self.follow(place)?;
        }
        if self.blocked {
            self.blocked = self.links.iter().any(Link::has_unsent);
        }
        self.go_on()
    }

    /// Sends the next batch of a closed loop if it is time to.
    #[inline]
    pub(crate) fn go_on(&mut self) -> Result<Standing, LoadError> {
        if !self.unconnected.is_empty() {
            return Ok(Standing::Unconnected);
        }
        if self.links.iter().any(|link| link.expected.outstanding > 0) {
            return Ok(Standing::Waiting);
        }
        let (stop, measured_from) = (self.context.stop.get(), self.context.measured_from);
        let measured = self.last_arrival >= measured_from;
        let (pipeline, remaining) = match &mut self.pace {
            Pace::Scheduled { over } if *over || stop => return Ok(Standing::Done),
            Pace::Scheduled { .. } => return Ok(Standing::Waiting),
            Pace::Closed { pipeline, remaining } => (*pipeline, remaining),
        };
        let size = match remaining {
            Remaining::Requests(0) => 0,
            _ if !measured => pipeline as u64,
            Remaining::Requests(left) => {
                let size = (*left).min(pipeline as u64);
                *left -= size;
                size
            }
            Remaining::For(duration) if self.last_arrival >= measured_from + *duration => 0,
            Remaining::For(_) => pipeline as u64,
        };
        if size == 0 || stop {
            return Ok(Standing::Done);
        }
        self.send_batch(size, measured)?;
        Ok(Standing::Waiting)
    }

    #[inline]
    fn send_batch(&mut self, size: u64, measured: bool) -> Result<(), LoadError> {
        let context = Rc::clone(&self.context);
        let mut recorder = context.recorder.borrow_mut();
        if self.routed {
            let origin = Origin { instant: Instant::now(), measured };
            (0..size).for_each(|_| self.route(&mut recorder, origin, origin.instant));
            self.note_first_send(&mut recorder, origin);
            drop(recorder);
            return self.flush();
        }
        let Some(link) = self.links.first_mut() else { return Ok(()) };
        let mut outgoing = context.write_buffer.borrow_mut();
        outgoing.clear();
        let mut left = size;
        while left > 0 {
            let mark = outgoing.end();
            let row = self.source.write_row(&mut outgoing, left);
            if measured {
                recorder.note_requests(row.operation, row.requests, outgoing.length_since(mark));
            }
            left -= row.requests;
        }
        let origin = Origin { instant: Instant::now(), measured };
        link.expected.expect_batch(size, origin);
        link.waiting_since = Some(origin.instant);
        self.note_first_send(&mut recorder, origin);
        drop(recorder);
        self.links.first_mut().map_or(Ok(()), |link| link.send(&outgoing))
    }

    #[inline]
    fn note_first_send(&mut self, recorder: &mut Recorder, origin: Origin) {
        if origin.measured && !std::mem::replace(&mut self.measuring, true) {
            recorder.note_first_send(origin.instant);
        }
    }

    /// Writes the next request, which was due at `origin`, for [`Self::flush`] to send.
    pub(crate) fn write_due(&mut self, origin: Origin) -> Result<(), LoadError> {
        let context = Rc::clone(&self.context);
        let mut recorder = context.recorder.borrow_mut();
        if self.routed {
            self.route(&mut recorder, origin, Instant::now());
        } else if let Some(link) = self.links.first_mut() {
            let mark = link.unsent.end();
            let row = self.source.write_row(&mut link.unsent, 1);
            if origin.measured {
                recorder.note_requests(row.operation, 1, link.unsent.length_since(mark));
            }
            link.expected.expect_scheduled(origin);
            link.waiting_since.get_or_insert_with(Instant::now);
        }
        self.note_first_send(&mut recorder, origin);
        drop(recorder);
        if self.links.iter().any(|link| link.unsent.bytes.len() > LARGEST_WRITE_BYTES) {
            self.flush()?;
        }
        Ok(())
    }

    /// Hands to the kernel what is written.
    pub(crate) fn flush(&mut self) -> Result<(), LoadError> {
        self.blocked = false;
        for link in &mut self.links {
            if link.has_unsent() {
                link.send_unsent()?;
                self.blocked |= link.has_unsent();
            }
        }
        Ok(())
    }

    /// Writes the next request, `now`, for the connection to the server or shard that has its key.
    #[inline]
    fn route(&mut self, recorder: &mut Recorder, origin: Origin, now: Instant) {
        let mut request = self.context.spare_buffer();
        let operation = self.source.write_row(&mut request, 1).operation;
        let place = self.map.as_ref().map_or(0, |map| {
            self.source.slot().and_then(|slot| map.slots.shard_of(slot)).unwrap_or_else(|| {
                self.keyless += 1;
                self.keyless % map.routes.shards.len().max(1)
            })
        });
        self.send_new(recorder, place, Sent { operation, origin, request, hops: 0, asking: false }, now);
    }

    #[inline]
    fn send_new(&mut self, recorder: &mut Recorder, place: usize, sent: Sent, now: Instant) {
        if sent.origin.measured {
            recorder.note_requests(sent.operation, 1, sent.request.length_since(Cursor::default()));
        }
        self.enqueue(place, sent, now);
    }

    /// Writes what follows a miss, which the connection at `place` has just brought.
    fn send_fill(&mut self, place: usize, missed: Sent) {
        let Some(operation) = self.fill else { return };
        let mut request = self.context.spare_buffer();
        self.source.write_fill(operation, &missed.request, &mut request);
        let origin = Origin { instant: self.last_arrival, ..missed.origin };
        let sent = Sent { operation, origin, request, hops: 0, asking: false };
        let context = Rc::clone(&self.context);
        self.send_new(&mut context.recorder.borrow_mut(), place, sent, self.last_arrival);
        context.reuse(missed.request);
    }

    #[inline]
    fn enqueue(&mut self, place: usize, sent: Sent, now: Instant) {
        let Some(link) = self.links.get_mut(place) else { return };
        if sent.asking {
            link.unsent.bytes.extend_from_slice(ASKING);
            self.context.recorder.borrow_mut().asking += 1;
        }
        link.unsent.append_rest(&sent.request, Cursor::default());
        link.waiting_since.get_or_insert(now);
        link.expected.expect_routed(sent);
    }

    /// Sends what the replies of this connection call for.
    fn follow(&mut self, place: usize) -> Result<(), LoadError> {
        let Some(link) = self.links.get_mut(place) else { return Ok(()) };
        let (mut answered, label) = (std::mem::take(&mut link.to_follow), Arc::clone(&link.name.label));
        let lost = |one: &&Answered| {
            let age = self.last_arrival.duration_since(one.sent.origin.instant);
            one.direction.is_some() && one.sent.hops >= MAXIMUM_HOPS && age >= DISAGREEMENT
        };
        if let Some(lost) = answered.iter().find(lost) {
            return Err(link.error(LoadCause::Redirect(lost.sent.hops)));
        }
        for Answered { mut sent, direction } in answered.drain(..) {
            let Some(direction) = direction else {
                self.send_fill(place, sent);
                continue;
            };
            sent.hops += 1;
            let address = address_of(&direction, &label);
            if !direction.ask {
                self.learn(direction.slot, &address);
            }
            sent.asking = direction.ask;
            self.send_to(address, sent);
        }
        // Its room serves the next replies.
        if let Some(link) = self.links.get_mut(place) {
            link.to_follow = answered;
        }
        self.flush()
    }

    fn send_to(&mut self, address: String, sent: Sent) {
        match self.links.iter().position(|link| *link.name.label == *address) {
            Some(place) => self.enqueue(place, sent, Instant::now()),
            None => self.unconnected.push((address, sent)),
        }
    }

    /// Notes that a slot has moved. Without a connection to its shard, redirection continues.
    fn learn(&self, slot: usize, address: &str) {
        let Some(map) = &self.map else { return };
        if let Some(shard) = map.routes.shards.iter().position(|shard| shard.primary == address) {
            map.slots.assign(slot, shard);
        }
    }

    /// A node that it needs a connection to.
    pub(crate) fn wanted(&self) -> Option<&str> {
        self.unconnected.first().map(|(address, _)| address.as_str())
    }

    /// Takes the connection that it wanted.
    pub(crate) fn adopt(&mut self, link: Link) -> Result<Standing, LoadError> {
        self.links.push(link);
        for (address, sent) in std::mem::take(&mut self.unconnected) {
            self.send_to(address, sent);
        }
        self.flush()?;
        self.go_on()
    }

    /// Nothing more will be due.
    pub(crate) fn end_schedule(&mut self) -> Result<Standing, LoadError> {
        if let Pace::Scheduled { over } = &mut self.pace {
            *over = true;
        }
        self.go_on()
    }

    /// The requests that were never answered, each with when it was due.
    pub(crate) fn unanswered(&mut self) -> Vec<(OperationIndex, Origin)> {
        let elsewhere = std::mem::take(&mut self.unconnected);
        let links = self.links.iter_mut().flat_map(|link| link.expected.unanswered());
        links.chain(elsewhere.into_iter().map(|(_, sent)| (sent.operation, sent.origin))).collect()
    }

    /// The operation of the next request, which then is never sent.
    pub(crate) fn skip(&mut self) -> OperationIndex {
        self.source.skip()
    }

    /// What the first connection of a client that paces itself so has in flight.
    pub(crate) fn flight(pace: Pace, routed: bool, walk: OperationWalk) -> Flight {
        let origin = Origin { instant: Instant::now(), measured: false };
        match pace {
            _ if routed => Flight::Routed(VecDeque::new()),
            Pace::Closed { .. } => Flight::Batch { walk, origin },
            Pace::Scheduled { .. } => Flight::Scheduled { walk, origins: VecDeque::new() },
        }
    }
}

/// An address without a host has that of the node that gave it.
fn address_of(direction: &Direction, giver: &str) -> String {
    match direction.address.strip_prefix(':') {
        None => direction.address.clone(),
        Some(port) => {
            let host = giver.rsplit_once(':').map_or("", |(host, _)| host);
            format!("{host}:{port}")
        }
    }
}

//! What every loaded connection does, however its requests are paced and
//! whichever event loop drives it: hand requests to the kernel, take replies
//! from it, count both.
//!
//! This is the hot path; nothing in it waits. Buffers belong to the thread and are used again and
//! again. A link never reconnects.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::counts::errors::UNEXPECTED_REPLY;
use crate::counts::recorder::Recorder;
use crate::counts::replies::{Copies, Expectation, Flight, Redirected, ReplySorter};
use crate::counts::report::{Failure, FailureKind};
use crate::driver::progress::ProgressCounters;
use crate::wire::exchange::{Answers, Said};
use crate::wire::outgoing::{Cursor, Outgoing};
use crate::wire::scanner::{ReplyScanner, ScanError};
use crate::wire::stream::Wire;
use crate::workload::operations::Found;
use crate::workload::requests::{RequestSource, RequestTemplates};

/// Bytes taken from the kernel by one read at most.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A running connection failed.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    #[error("connection {connection} to {address} failed while sending requests: {source}")]
    Send { connection: usize, address: Arc<str>, source: io::Error },
    #[error("connection {connection} to {address} failed with {outstanding} replies outstanding: {source}")]
    Receive { connection: usize, address: Arc<str>, outstanding: u64, source: io::Error },
    #[error("{address} closed connection {connection} with {outstanding} replies outstanding")]
    Closed { connection: usize, address: Arc<str>, outstanding: u64 },
    #[error("cannot read a reply from {address} on connection {connection}: {source}")]
    Scan { connection: usize, address: Arc<str>, source: ScanError },
    #[error("{address} sent {surplus} more replies than requests on connection {connection}")]
    Surplus { connection: usize, address: Arc<str>, surplus: u64 },
    #[error("{address} was silent for {seconds:.1} s on connection {connection} with replies outstanding")]
    Silent { connection: usize, address: Arc<str>, seconds: f64 },
    #[error("connection {connection} drew no key of the slots of {address} in a million draws")]
    NoKey { connection: usize, address: Arc<str> },
    #[error("connection {connection} cannot follow a redirection of {address}: {problem}")]
    Redirect { connection: usize, address: Arc<str>, problem: String },
    #[error("connection {connection} to {address} has no timer: {source}")]
    Timer { connection: usize, address: Arc<str>, source: io::Error },
}

impl LoadError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self) -> Failure {
        let (kind, step, address) = match self {
            Self::Send { address, .. } => (FailureKind::ConnectionLost, "send requests", address),
            Self::Receive { address, .. } | Self::Closed { address, .. } => {
                (FailureKind::ConnectionLost, "await replies", address)
            }
            Self::Scan { address, .. } | Self::Surplus { address, .. } => {
                (FailureKind::Protocol, "read replies", address)
            }
            Self::Silent { address, .. } => (FailureKind::ResponseTimeout, "await replies", address),
            Self::NoKey { address, .. } => (FailureKind::Client, "draw keys", address),
            Self::Redirect { address, .. } => (FailureKind::ConnectionLost, "follow redirections", address),
            Self::Timer { address, .. } => (FailureKind::Client, "keep the schedule", address),
        };
        Failure { kind, step: step.into(), address: address.to_string(), message: self.to_string() }
    }
}

/// What the connections of one thread share.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    pub(crate) recorder: RefCell<Recorder>,
    /// Set to end every connection after its current batch.
    pub(crate) stop: Cell<bool>,
    /// Begin of the measured window.
    pub(crate) measured_from: Instant,
    templates: Arc<RequestTemplates>,
    write_buffer: RefCell<Outgoing>,
    read_buffer: RefCell<Vec<u8>>,
    /// Since when each connection has been waiting for bytes; none when it is not.
    waiting_since: Vec<Cell<Option<Instant>>>,
    progress: Arc<ProgressCounters>,
}

impl ThreadContext {
    pub(crate) fn new(
        recorder: Recorder,
        templates: Arc<RequestTemplates>,
        connections: usize,
        progress: Arc<ProgressCounters>,
        measured_from: Instant,
    ) -> Self {
        Self {
            recorder: RefCell::new(recorder),
            stop: Cell::new(false),
            measured_from,
            templates,
            write_buffer: RefCell::new(Outgoing::default()),
            read_buffer: RefCell::new(vec![0; READ_BUFFER_BYTES]),
            waiting_since: vec![Cell::new(None); connections],
            progress,
        }
    }

    /// The block that large values refer to.
    pub(crate) fn block(&self) -> &[u8] {
        self.templates.block()
    }

    /// A connection, by its number within the thread, that has had no byte for
    /// `limit`, and for how long.
    pub(crate) fn silent_connection(&self, now: Instant, limit: Duration) -> Option<(usize, Duration)> {
        self.waiting_since.iter().enumerate().find_map(|(index, since)| {
            let silence = now.saturating_duration_since(since.get()?);
            (silence >= limit).then_some((index, silence))
        })
    }

    /// Shows other threads how far this one is.
    #[inline]
    pub(crate) fn publish(&self, recorder: &Recorder) {
        self.progress.operations.store(recorder.succeeded, Ordering::Relaxed);
        self.progress.errors.store(recorder.failed, Ordering::Relaxed);
    }
}

/// Names a connection: in messages by its number within the run, in the
/// thread's tables by its number within the thread.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionName {
    pub(crate) within_run: usize,
    pub(crate) within_thread: usize,
    pub(crate) address: Arc<str>,
}

/// What a link is made of.
#[derive(Debug)]
pub(crate) struct LinkParts {
    pub(crate) name: ConnectionName,
    pub(crate) source: RequestSource,
    pub(crate) expected: Expectation,
    /// Number of the node in the cluster's table; 0 without a cluster.
    pub(crate) node: usize,
    /// Whether other nodes may have to be asked instead.
    pub(crate) follows: bool,
}

/// One connection under load.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: ConnectionName,
    pub(crate) context: Rc<ThreadContext>,
    pub(crate) expected: Expectation,
    pub(crate) flight: Flight,
    pub(crate) copies: Option<Copies>,
    pub(crate) node: usize,
    pub(crate) last_arrival: Instant,
    source: RequestSource,
    scanner: ReplyScanner,
    /// What the kernel did not take at once.
    unsent: Outgoing,
    sent: Cursor,
    /// Whether the stream may still hold bytes back.
    unflushed: bool,
}

impl Link {
    pub(crate) fn new(parts: LinkParts, context: Rc<ThreadContext>, flight: Flight, origin: Instant) -> Self {
        Self {
            name: parts.name,
            context,
            expected: parts.expected,
            flight,
            copies: parts.follows.then(Copies::default),
            node: parts.node,
            last_arrival: origin,
            source: parts.source,
            scanner: ReplyScanner::new(),
            unsent: Outgoing::default(),
            sent: Cursor::default(),
            unflushed: false,
        }
    }

    /// Appends the next request to `outgoing`; `measured` ones are counted.
    #[inline]
    pub(crate) fn write_next(
        &mut self,
        outgoing: &mut Outgoing,
        recorder: &mut Recorder,
        measured: bool,
    ) -> Result<(), LoadError> {
        self.write_many(outgoing, recorder, measured, 1)
    }

    /// Appends the next `count` requests to `outgoing`; `measured` ones are counted.
    #[inline]
    pub(crate) fn write_many(
        &mut self,
        outgoing: &mut Outgoing,
        recorder: &mut Recorder,
        measured: bool,
        count: u64,
    ) -> Result<(), LoadError> {
        let mut left = count;
        while left > 0 {
            // Copies are kept of single requests.
            let limit = if self.copies.is_some() { 1 } else { left };
            let mark = outgoing.mark();
            let row = self.source.write_row(outgoing, limit).map_err(|_| self.no_key())?;
            if measured {
                recorder.note_requests(row.operation, row.requests, outgoing.length_since(mark));
            }
            if let Some(copies) = &mut self.copies {
                let mut copy = copies.buffer();
                copy.append_since(outgoing, mark);
                copies.in_flight.push_back(copy);
            }
            self.expected.outstanding += row.requests;
            left -= row.requests;
        }
        Ok(())
    }

    fn no_key(&self) -> LoadError {
        LoadError::NoKey { connection: self.name.within_run, address: Arc::clone(&self.name.address) }
    }

    /// Runs `write` with the thread's write buffer, empty.
    #[inline]
    pub(crate) fn with_write_buffer<R>(
        &mut self,
        write: impl FnOnce(&mut Self, &mut Outgoing) -> Result<R, LoadError>,
    ) -> Result<R, LoadError> {
        let context = Rc::clone(&self.context);
        let mut outgoing = context.write_buffer.borrow_mut();
        outgoing.clear();
        write(self, &mut outgoing)
    }

    /// Hands `outgoing` to the kernel and keeps what it does not take. Nothing
    /// may be unsent before.
    #[inline]
    pub(crate) fn send(&mut self, wire: &mut impl Wire, outgoing: &Outgoing) -> Result<(), LoadError> {
        let mut cursor = Cursor::default();
        if !self.send_rest(wire, outgoing, &mut cursor)? {
            self.unsent.append_rest(outgoing, cursor);
        }
        if wire.buffers() {
            self.unflushed = true;
            self.send_unsent(wire)?;
        }
        Ok(())
    }

    /// Whether everything is out.
    #[inline]
    fn send_rest(
        &mut self,
        wire: &mut impl Wire,
        outgoing: &Outgoing,
        cursor: &mut Cursor,
    ) -> Result<bool, LoadError> {
        loop {
            let rest = outgoing.rest(*cursor, self.context.templates.block());
            if rest.is_empty() {
                return Ok(true);
            }
            let Poll::Ready(written) = wire.write(rest) else { return Ok(false) };
            outgoing.advance(cursor, written.map_err(|source| self.send_error(source))?);
        }
    }

    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.bytes.is_empty() || self.unflushed
    }

    /// Goes on with what the kernel did not take before.
    pub(crate) fn send_unsent(&mut self, wire: &mut impl Wire) -> Result<(), LoadError> {
        if !self.unsent.bytes.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let mut cursor = self.sent;
            let done = self.send_rest(wire, &unsent, &mut cursor)?;
            (self.unsent, self.sent) = (unsent, cursor);
            if !done {
                return Ok(());
            }
            self.unsent.clear();
            self.sent = Cursor::default();
        }
        if self.unflushed
            && let Poll::Ready(flushed) = wire.flush()
        {
            flushed.map_err(|source| self.send_error(source))?;
            self.unflushed = false;
        }
        Ok(())
    }

    fn send_error(&self, source: io::Error) -> LoadError {
        LoadError::Send { connection: self.name.within_run, address: Arc::clone(&self.name.address), source }
    }

    /// Takes what has arrived; false when nothing has.
    #[inline]
    pub(crate) fn receive(&mut self, wire: &mut impl Wire) -> Result<bool, LoadError> {
        let context = Rc::clone(&self.context);
        let mut buffer = context.read_buffer.borrow_mut();
        let Poll::Ready(read) = wire.read(&mut buffer) else { return Ok(false) };
        let length = read.map_err(|source| self.receive_error(source))?;
        if length == 0 {
            return Err(self.closed());
        }
        let arrived = Instant::now();
        self.last_arrival = arrived;
        let mut recorder = context.recorder.borrow_mut();
        let mut sorter = ReplySorter {
            expected: &mut self.expected,
            flight: &mut self.flight,
            copies: self.copies.as_mut(),
            recorder: &mut recorder,
            node: self.node,
            arrived,
            surplus: 0,
        };
        let scanned = self.scanner.scan(buffer.get(..length).unwrap_or_default(), &mut sorter);
        let surplus = sorter.settle();
        context.publish(&recorder);
        self.set_waiting((self.expected.outstanding > 0).then_some(arrived));
        self.check(scanned, surplus)?;
        Ok(true)
    }

    fn closed(&self) -> LoadError {
        let (connection, address) = (self.name.within_run, Arc::clone(&self.name.address));
        LoadError::Closed { connection, address, outstanding: self.expected.outstanding }
    }

    fn receive_error(&self, source: io::Error) -> LoadError {
        let (connection, address) = (self.name.within_run, Arc::clone(&self.name.address));
        LoadError::Receive { connection, address, outstanding: self.expected.outstanding, source }
    }

    #[inline]
    fn check(&self, scanned: Result<(), ScanError>, surplus: u64) -> Result<(), LoadError> {
        let name = || (self.name.within_run, Arc::clone(&self.name.address));
        scanned.map_err(|source| {
            let (connection, address) = name();
            LoadError::Scan { connection, address, source }
        })?;
        if surplus > 0 {
            let (connection, address) = name();
            return Err(LoadError::Surplus { connection, address, surplus });
        }
        Ok(())
    }

    /// Whether requests have to be sent elsewhere.
    #[inline]
    pub(crate) fn has_redirected(&self) -> bool {
        self.copies.as_ref().is_some_and(|copies| !copies.redirected.is_empty())
    }

    /// Records what another node answered to a request of this connection.
    pub(crate) fn record_elsewhere(
        &mut self,
        request: &Redirected,
        answers: &Answers,
        node: usize,
        arrived: Instant,
    ) {
        let shape = self.expected.shape(request.operation);
        let mut recorder = self.context.recorder.borrow_mut();
        let mut outcome = Some(Found::default());
        for (place, said) in answers.said.iter().enumerate() {
            let expected = if place == 0 { shape.first } else { shape.others };
            let (found, problem) = match said {
                Said::Reply(kind) => {
                    (expected.judge(*kind), format!("{UNEXPECTED_REPLY} {kind:?}").into_bytes())
                }
                Said::Error(message) => (None, message.clone()),
            };
            if found.is_none() && request.origin.measured {
                recorder.errors.note(request.operation, &problem);
            }
            outcome = outcome.and(found);
        }
        if let Some(tally) = recorder.tallies.get_mut(request.operation.0) {
            tally.bytes += answers.bytes;
            match outcome {
                Some(found) => tally.add_success(found),
                None => tally.errors += 1,
            }
        }
        recorder.settle(request.origin, arrived, node);
        self.context.publish(&recorder);
        self.last_arrival = arrived;
    }

    /// Since when this connection has been waiting for bytes.
    #[inline]
    pub(crate) fn set_waiting(&self, since: Option<Instant>) {
        if let Some(cell) = self.context.waiting_since.get(self.name.within_thread) {
            cell.set(since);
        }
    }
}

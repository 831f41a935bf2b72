//! One connection under load, however its requests are paced: hands
//! requests to the kernel, takes replies from it, counts both.
//!
//! This is the hot path; nothing in it waits. Buffers belong to the thread and are used again and
//! again. A link never reconnects.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use thiserror::Error;

use crate::counts::recorder::Recorder;
use crate::counts::replies::{Answered, Expectation, ReplySorter};
use crate::counts::report::{Failure, FailureKind};
use crate::driver::progress::ProgressCounters;
use crate::wire::outgoing::{Cursor, Outgoing};
use crate::wire::scanner::{ReplyScanner, ScanError};
use crate::wire::socket::LoadSocket;
use crate::workload::requests::RequestTemplates;

/// Bytes taken from the kernel by one read at most.
const READ_BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug, Error)]
#[error("connection {} to {}: {cause}", name.number, name.address)]
pub(crate) struct LoadError {
    pub(crate) name: LinkName,
    #[source]
    pub(crate) cause: LoadCause,
}

#[derive(Debug, Error)]
pub(crate) enum LoadCause {
    #[error("cannot send requests: {0}")]
    Send(#[source] io::Error),
    #[error("cannot receive, with {outstanding} replies outstanding: {source}")]
    Receive { outstanding: u64, source: io::Error },
    #[error("the server closed it with {0} replies outstanding")]
    Closed(u64),
    #[error("cannot read a reply: {0}")]
    Scan(#[from] ScanError),
    #[error("the server sent {0} more replies than requests")]
    Surplus(u64),
    #[error("the server was silent for {0:.1} s with replies outstanding")]
    Silent(f64),
    #[error("the server redirected one request {0} times in a row")]
    Redirect(u32),
}

impl LoadError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self) -> Failure {
        let kind = match &self.cause {
            LoadCause::Scan(_) | LoadCause::Surplus(_) => FailureKind::Protocol,
            LoadCause::Silent(_) => FailureKind::ResponseTimeout,
            LoadCause::Send(_)
            | LoadCause::Receive { .. }
            | LoadCause::Closed(_)
            | LoadCause::Redirect(_) => FailureKind::ConnectionLost,
        };
        Failure { kind, message: self.to_string() }
    }
}

/// What the connections of one thread share.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    pub(crate) recorder: RefCell<Recorder>,
    /// Set to end every client after its current batch.
    pub(crate) stop: Cell<bool>,
    pub(crate) measured_from: Instant,
    pub(crate) write_buffer: RefCell<Outgoing>,
    /// Buffers of answered requests, for later ones.
    spare: RefCell<Vec<Outgoing>>,
    pub(crate) templates: Arc<RequestTemplates>,
    read_buffer: RefCell<Vec<u8>>,
    pub(crate) progress: Arc<ProgressCounters>,
}

impl ThreadContext {
    pub(crate) fn new(
        recorder: Recorder,
        templates: Arc<RequestTemplates>,
        progress: Arc<ProgressCounters>,
        measured_from: Instant,
    ) -> Self {
        Self {
            recorder: RefCell::new(recorder),
            stop: Cell::new(false),
            measured_from,
            write_buffer: RefCell::new(Outgoing::default()),
            spare: RefCell::new(Vec::new()),
            templates,
            read_buffer: RefCell::new(vec![0; READ_BUFFER_BYTES]),
            progress,
        }
    }

    #[inline]
    pub(crate) fn spare_buffer(&self) -> Outgoing {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the buffer of an answered request for a later one.
    pub(crate) fn reuse(&self, mut buffer: Outgoing) {
        buffer.clear();
        self.spare.borrow_mut().push(buffer);
    }

    /// Shows other threads how far this one is.
    #[inline]
    fn publish(&self, recorder: &Recorder) {
        self.progress.operations.store(recorder.succeeded, Ordering::Relaxed);
        self.progress.errors.store(recorder.failed, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LinkName {
    /// Its number within the process, for messages.
    pub(crate) number: usize,
    /// The address it was made to.
    pub(crate) address: Arc<str>,
    /// What redirections call the node.
    pub(crate) label: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: LinkName,
    pub(crate) socket: LoadSocket,
    pub(crate) expected: Expectation,
    /// Requests whose replies call for another one.
    pub(crate) to_follow: Vec<Answered>,
    /// Since when it has been waiting for bytes.
    pub(crate) waiting_since: Option<Instant>,
    /// What the kernel has not taken yet.
    pub(crate) unsent: Outgoing,
    context: Rc<ThreadContext>,
    scanner: ReplyScanner,
    /// How much of what is unsent the kernel has taken.
    sent: Cursor,
    /// Whether the socket may still hold bytes back.
    unflushed: bool,
}

impl Link {
    pub(crate) fn new(
        name: LinkName,
        socket: LoadSocket,
        expected: Expectation,
        context: Rc<ThreadContext>,
    ) -> Self {
        Self {
            name,
            socket,
            expected,
            to_follow: Vec::new(),
            waiting_since: None,
            unsent: Outgoing::default(),
            context,
            scanner: ReplyScanner::new(),
            sent: Cursor::default(),
            unflushed: false,
        }
    }

    /// Hands `outgoing` to the kernel and stores what it does not accept, after all else is sent.
    #[inline]
    pub(crate) fn send(&mut self, outgoing: &Outgoing) -> Result<(), LoadError> {
        let mut cursor = Cursor::default();
        if !self.send_rest(outgoing, &mut cursor)? {
            self.unsent.append_rest(outgoing, cursor);
        }
        if self.unflushed { self.send_unsent() } else { Ok(()) }
    }

    /// Whether everything is out.
    #[inline]
    fn send_rest(&mut self, outgoing: &Outgoing, cursor: &mut Cursor) -> Result<bool, LoadError> {
        loop {
            let rest = outgoing.rest(*cursor, &self.context.templates.block);
            if rest.is_empty() {
                return Ok(true);
            }
            let Poll::Ready(written) = self.socket.write(rest) else { return Ok(false) };
            outgoing.advance(cursor, written.map_err(|source| self.error(LoadCause::Send(source)))?);
            self.unflushed = self.socket.buffers();
        }
    }

    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.bytes.is_empty() || self.unflushed
    }

    /// Sends what the kernel did not accept before.
    pub(crate) fn send_unsent(&mut self) -> Result<(), LoadError> {
        if !self.unsent.bytes.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let mut cursor = self.sent;
            let done = self.send_rest(&unsent, &mut cursor)?;
            (self.unsent, self.sent) = (unsent, cursor);
            if !done {
                return Ok(());
            }
            self.unsent.clear();
            self.sent = Cursor::default();
        }
        if self.unflushed
            && let Poll::Ready(flushed) = self.socket.flush()
        {
            flushed.map_err(|source| self.error(LoadCause::Send(source)))?;
            self.unflushed = false;
        }
        Ok(())
    }

    pub(crate) fn error(&self, cause: LoadCause) -> LoadError {
        LoadError { name: self.name.clone(), cause }
    }

    /// Goes on as far as is possible without waiting, and returns when the last
    /// replies came, if any did. Reads go on while the rest of a large batch waits
    /// to be written: a server that stops reading until its replies are taken would
    /// otherwise never go on.
    #[inline]
    pub(crate) fn serve(&mut self) -> Result<Option<Instant>, LoadError> {
        if self.has_unsent() {
            self.send_unsent()?;
        }
        let mut latest = None;
        while let Some(arrived) = self.receive()? {
            latest = Some(arrived);
        }
        Ok(latest)
    }

    /// Takes what has arrived, and returns when; none when nothing has.
    #[inline]
    fn receive(&mut self) -> Result<Option<Instant>, LoadError> {
        let context = Rc::clone(&self.context);
        let mut buffer = context.read_buffer.borrow_mut();
        let Poll::Ready(read) = self.socket.read(&mut buffer) else { return Ok(None) };
        let outstanding = self.expected.outstanding;
        let length = match read {
            Ok(0) => return Err(self.error(LoadCause::Closed(outstanding))),
            Ok(length) => length,
            Err(source) => return Err(self.error(LoadCause::Receive { outstanding, source })),
        };
        let arrived = Instant::now();
        let mut recorder = context.recorder.borrow_mut();
        let mut spare = context.spare.borrow_mut();
        let mut sorter = ReplySorter {
            expected: &mut self.expected,
            to_follow: &mut self.to_follow,
            spare: &mut spare,
            recorder: &mut recorder,
            arrived,
            origin: None,
            surplus: 0,
        };
        let scanned = self.scanner.scan(buffer.get(..length).unwrap_or_default(), &mut sorter);
        let surplus = sorter.settle();
        context.publish(&recorder);
        self.waiting_since = (self.expected.outstanding > 0).then_some(arrived);
        scanned.map_err(|source| self.error(source.into()))?;
        if surplus > 0 {
            return Err(self.error(LoadCause::Surplus(surplus)));
        }
        Ok(Some(arrived))
    }
}

//! The load of one connection: write a batch, await all its replies, repeat.
//!
//! This is the hot path. Per batch it makes one write and as many reads as the
//! network needs; buffers belong to the thread and are used again and again.
//! It never reconnects.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use crate::recorder::{Recorder, ReplySorter};
use crate::report::{Failure, FailureKind};
use crate::requests::{OperationSequence, RequestSource};
use crate::scanner::{ReplyScanner, ScanError};

/// Bytes taken from the kernel by one read at most.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A running connection failed.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    #[error("connection {connection} to {address} failed while sending requests: {source}")]
    Send { connection: usize, address: SocketAddr, source: io::Error },
    #[error("connection {connection} to {address} failed with {outstanding} replies outstanding: {source}")]
    Receive { connection: usize, address: SocketAddr, outstanding: u64, source: io::Error },
    #[error("{address} closed connection {connection} with {outstanding} replies outstanding")]
    Closed { connection: usize, address: SocketAddr, outstanding: u64 },
    #[error("cannot read a reply from {address} on connection {connection}: {source}")]
    Scan { connection: usize, address: SocketAddr, source: ScanError },
    #[error("{address} sent {surplus} more replies than requests on connection {connection}")]
    Surplus { connection: usize, address: SocketAddr, surplus: u64 },
    #[error("{address} was silent for {seconds:.1} s on connection {connection} with replies outstanding")]
    Silent { connection: usize, address: SocketAddr, seconds: f64 },
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
        };
        Failure { kind, step: step.into(), address: address.to_string(), message: self.to_string() }
    }
}

/// Counters that other threads may read while the load runs.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    pub(crate) operations: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// What the connections of one thread share.
#[derive(Debug)]
pub(crate) struct ThreadContext {
    pub(crate) recorder: RefCell<Recorder>,
    /// Set to end every connection after its current batch.
    pub(crate) stop: Cell<bool>,
    write_buffer: RefCell<Vec<u8>>,
    read_buffer: RefCell<Vec<u8>>,
    /// Since when each connection has been waiting for bytes; none when it is not.
    waiting_since: Vec<Cell<Option<Instant>>>,
    progress: Arc<ProgressCounters>,
}

impl ThreadContext {
    pub(crate) fn new(recorder: Recorder, connections: usize, progress: Arc<ProgressCounters>) -> Self {
        Self {
            recorder: RefCell::new(recorder),
            stop: Cell::new(false),
            write_buffer: RefCell::new(Vec::new()),
            read_buffer: RefCell::new(vec![0; READ_BUFFER_BYTES]),
            waiting_since: vec![Cell::new(None); connections],
            progress,
        }
    }

    /// A connection, by its number within the thread, that has had no byte for
    /// `limit`, and for how long.
    pub(crate) fn silent_connection(&self, now: Instant, limit: Duration) -> Option<(usize, Duration)> {
        self.waiting_since.iter().enumerate().find_map(|(index, since)| {
            let silence = now.saturating_duration_since(since.get()?);
            (silence >= limit).then_some((index, silence))
        })
    }

    fn set_waiting(&self, index: usize, since: Option<Instant>) {
        if let Some(cell) = self.waiting_since.get(index) {
            cell.set(since);
        }
    }
}

/// What is left to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remaining {
    Requests(u64),
    Until(Instant),
}

/// Names a connection: in messages by its number within the run, in the
/// thread's tables by its number within the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionName {
    pub(crate) within_run: usize,
    pub(crate) within_thread: usize,
    pub(crate) address: SocketAddr,
}

/// One connection under load.
#[derive(Debug)]
pub(crate) struct LoadConnection {
    name: ConnectionName,
    stream: TcpStream,
    context: Rc<ThreadContext>,
    source: RequestSource,
    replies: OperationSequence,
    scanner: ReplyScanner,
    pipeline: usize,
    remaining: Remaining,
    outstanding: u64,
    batch_sent_at: Instant,
    last_arrival: Instant,
    /// Bytes the kernel did not take at once, from `unsent_from` on.
    unsent: Vec<u8>,
    unsent_from: usize,
}

/// What a connection is made of.
#[derive(Debug)]
pub(crate) struct ConnectionParts {
    pub(crate) name: ConnectionName,
    pub(crate) stream: TcpStream,
    pub(crate) source: RequestSource,
    pub(crate) replies: OperationSequence,
}

impl LoadConnection {
    pub(crate) fn new(
        parts: ConnectionParts,
        context: Rc<ThreadContext>,
        pipeline: usize,
        remaining: Remaining,
        origin: Instant,
    ) -> Self {
        Self {
            name: parts.name,
            stream: parts.stream,
            context,
            source: parts.source,
            replies: parts.replies,
            scanner: ReplyScanner::new(),
            pipeline,
            remaining,
            outstanding: 0,
            batch_sent_at: origin,
            last_arrival: origin,
            unsent: Vec::new(),
            unsent_from: 0,
        }
    }

    /// Runs the whole load of this connection.
    pub(crate) async fn run(mut self) -> Result<(), LoadError> {
        let mut first = true;
        while !self.context.stop.get() {
            let size = self.next_batch_size();
            if size == 0 {
                break;
            }
            self.send_batch(size, first)?;
            first = false;
            poll_fn(|task| self.poll_batch(task)).await?;
            self.context.set_waiting(self.name.within_thread, None);
        }
        Ok(())
    }

    fn next_batch_size(&mut self) -> usize {
        match &mut self.remaining {
            Remaining::Requests(left) => {
                let size = usize::try_from(*left).map_or(self.pipeline, |left| left.min(self.pipeline));
                *left -= size as u64;
                size
            }
            Remaining::Until(deadline) if self.last_arrival >= *deadline => 0,
            Remaining::Until(_) => self.pipeline,
        }
    }

    fn send_batch(&mut self, size: usize, first: bool) -> Result<(), LoadError> {
        let mut buffer = self.context.write_buffer.borrow_mut();
        buffer.clear();
        let counts = self.source.write_batch(&mut buffer, size);
        self.outstanding = size as u64;
        self.batch_sent_at = Instant::now();
        self.context.set_waiting(self.name.within_thread, Some(self.batch_sent_at));
        {
            let mut recorder = self.context.recorder.borrow_mut();
            recorder.note_batch(counts);
            if first {
                recorder.note_first_send(self.batch_sent_at);
            }
        }
        let taken = match self.stream.try_write(&buffer) {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(source) => {
                let ConnectionName { within_run: connection, address, .. } = self.name;
                return Err(LoadError::Send { connection, address, source });
            }
        };
        self.unsent.extend_from_slice(buffer.get(taken..).unwrap_or_default());
        Ok(())
    }

    /// Completes when every reply of the batch has arrived. Reads go on while
    /// the rest of a large batch waits to be written: a server that stops
    /// reading until its replies are taken would otherwise never go on.
    fn poll_batch(&mut self, task: &mut Context<'_>) -> Poll<Result<(), LoadError>> {
        loop {
            if !self.unsent.is_empty() {
                self.poll_unsent(task)?;
            }
            if self.outstanding == 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_replies(task))?;
        }
    }

    fn poll_unsent(&mut self, task: &mut Context<'_>) -> Result<(), LoadError> {
        let ConnectionName { within_run: connection, address, .. } = self.name;
        while let Some(rest) = self.unsent.get(self.unsent_from..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(task, rest) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(taken)) => self.unsent_from += taken,
                Poll::Ready(Err(source)) => {
                    return Err(LoadError::Send { connection, address, source });
                }
            }
        }
        self.unsent.clear();
        self.unsent_from = 0;
        Ok(())
    }

    fn poll_replies(&mut self, task: &mut Context<'_>) -> Poll<Result<(), LoadError>> {
        let ConnectionName { within_run: connection, address, within_thread } = self.name;
        let outstanding = self.outstanding;
        let mut buffer = self.context.read_buffer.borrow_mut();
        let mut read = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut self.stream).poll_read(task, &mut read))
            .map_err(|source| LoadError::Receive { connection, address, outstanding, source })?;
        if read.filled().is_empty() {
            return Poll::Ready(Err(LoadError::Closed { connection, address, outstanding }));
        }
        let arrived = Instant::now();
        self.last_arrival = arrived;
        self.context.set_waiting(within_thread, Some(arrived));
        let mut recorder = self.context.recorder.borrow_mut();
        let mut sorter = ReplySorter::new(&mut self.replies, &mut self.outstanding, &mut recorder.errors);
        let scanned = self.scanner.scan(read.filled(), &mut sorter);
        let tallies = sorter.tallies();
        recorder.note_arrival(tallies, arrived.saturating_duration_since(self.batch_sent_at), arrived);
        let (operations, errors) = recorder.progress();
        self.context.progress.operations.store(operations, Ordering::Relaxed);
        self.context.progress.errors.store(errors, Ordering::Relaxed);
        scanned.map_err(|source| LoadError::Scan { connection, address, source })?;
        if tallies.surplus > 0 {
            return Poll::Ready(Err(LoadError::Surplus { connection, address, surplus: tallies.surplus }));
        }
        Poll::Ready(Ok(()))
    }
}

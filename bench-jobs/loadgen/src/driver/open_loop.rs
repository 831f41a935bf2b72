//! The open loop: requests leave at their intended times, whatever the server
//! does, and their latency counts from those times.
//!
//! One pacer for each thread hands out what is due and wakes the connections.
//! A connection writes what is due at once, behind whatever is still
//! unanswered; while the kernel takes no more bytes, due requests wait as mere
//! times, so that a stalled server costs little memory and stops no schedule.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

use crate::counts::recorder::{Origin, rounded_micros};
use crate::counts::replies::Flight;
use crate::driver::follow::Follower;
use crate::driver::link::{Link, LinkParts, LoadError, ThreadContext};
use crate::wire::stream::{LoadStream, Polled};
use crate::workload::schedule::Agenda;

/// How long before its time a request is awaited awake: waking up takes about as
/// long, and would make every request late.
const AWAKE_WAIT: Duration = Duration::from_micros(60);
/// Share of the CPU that waiting awake may take at most, so that a thread which
/// only keeps time does not look busy.
const AWAKE_SHARE: f64 = 0.2;
/// Requests written to the kernel at once at most.
const LARGEST_WRITE: usize = 1024;

/// How far a thread's connections kept to their schedule, over the measured window.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleCounts {
    pub(crate) scheduled: u64,
    pub(crate) sent: u64,
    /// From the intended time to the write, in microseconds.
    pub(crate) lag: Histogram<u64>,
}

/// Requests that are due on one connection.
#[derive(Debug, Default)]
struct Inbox {
    due: RefCell<VecDeque<Origin>>,
    waker: RefCell<Option<Waker>>,
    /// No more will come.
    closed: Cell<bool>,
}

/// What the pacer and the connections of a thread share.
#[derive(Debug)]
pub(crate) struct Dispatch {
    inboxes: Vec<Inbox>,
    pub(crate) counts: RefCell<ScheduleCounts>,
}

impl Dispatch {
    pub(crate) fn new(connections: usize, lag: Histogram<u64>) -> Self {
        let counts = ScheduleCounts { scheduled: 0, sent: 0, lag };
        Self { inboxes: (0..connections).map(|_| Inbox::default()).collect(), counts: RefCell::new(counts) }
    }

    /// Nothing more will be due.
    pub(crate) fn close(&self) {
        for inbox in &self.inboxes {
            inbox.closed.set(true);
            wake(inbox);
        }
    }
}

fn wake(inbox: &Inbox) {
    if let Some(waker) = inbox.waker.borrow_mut().take() {
        waker.wake();
    }
}

/// When the schedule ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScheduleEnd {
    At(Instant),
    /// After so many measured requests of each connection.
    Requests(u64),
}

/// A kernel timer that the event loop can wait for.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Hands out what is due.
#[derive(Debug)]
pub(crate) struct Pacer {
    agenda: Agenda,
    timer: AsyncFd<Timer>,
    dispatch: Rc<Dispatch>,
    context: Rc<ThreadContext>,
    origin: Instant,
    /// When the schedule of each connection ends.
    ends: Vec<ScheduleEnd>,
    /// How long before a request's time it is awaited awake.
    awake_wait: Duration,
}

impl Pacer {
    pub(crate) fn new(
        agenda: Agenda,
        dispatch: Rc<Dispatch>,
        context: Rc<ThreadContext>,
        origin: Instant,
        ends: Vec<ScheduleEnd>,
    ) -> io::Result<Self> {
        // The event loop's own timers are good to a millisecond only.
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // Its replacement is unsafe; the timer keeps its descriptor as long as this lives.
        #[allow(deprecated)]
        let timer = AsyncFd::new(Timer(timer))?;
        let affordable =
            Duration::try_from_secs_f64(agenda.mean_interval() * AWAKE_SHARE).unwrap_or(AWAKE_WAIT);
        let awake_wait = AWAKE_WAIT.min(affordable);
        Ok(Self { agenda, timer, dispatch, context, origin, ends, awake_wait })
    }

    /// Runs until the schedule ends or the run is to stop.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        let outcome = self.pace().await;
        self.dispatch.close();
        outcome
    }

    async fn pace(&mut self) -> io::Result<()> {
        while !self.context.stop.get() {
            let now = Instant::now();
            self.hand_out(now);
            let Some(next) = self.next_due() else { break };
            let wait = next.saturating_duration_since(Instant::now()).saturating_sub(self.awake_wait);
            if wait.is_zero() {
                // Replies are taken in between.
                tokio::task::yield_now().await;
            } else {
                self.sleep(wait).await?;
            }
        }
        Ok(())
    }

    /// When the next request is due that still belongs to the load.
    fn next_due(&mut self) -> Option<Instant> {
        loop {
            let (due, connection) = self.agenda.peek()?;
            let instant = self.origin + due;
            if !self.has_ended(connection, instant) {
                return Some(instant);
            }
            self.agenda.retire(connection);
        }
    }

    fn has_ended(&self, connection: usize, instant: Instant) -> bool {
        match self.ends.get(connection) {
            Some(ScheduleEnd::At(end)) => instant >= *end,
            Some(ScheduleEnd::Requests(left)) => *left == 0,
            None => true,
        }
    }

    fn hand_out(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((due, connection)) = self.agenda.pop() else { return };
            let instant = self.origin + due;
            let measured = instant >= self.context.measured_from;
            if let Some(ScheduleEnd::Requests(left)) = self.ends.get_mut(connection) {
                *left -= u64::from(measured);
            }
            let Some(inbox) = self.dispatch.inboxes.get(connection) else { continue };
            inbox.due.borrow_mut().push_back(Origin { instant, measured });
            wake(inbox);
            self.dispatch.counts.borrow_mut().scheduled += u64::from(measured);
        }
    }

    async fn sleep(&self, wait: Duration) -> io::Result<()> {
        let expiration = Expiration::OneShot(TimeSpec::from_duration(wait.max(Duration::from_nanos(1))));
        self.timer.get_ref().0.set(expiration, TimerSetTimeFlags::empty())?;
        let mut fired = self.timer.readable().await?;
        // Setting the timer again also resets it, so it is never read.
        fired.clear_ready();
        Ok(())
    }
}

/// A connection in an open loop.
#[derive(Debug)]
pub(crate) struct ScheduledConnection {
    link: Link,
    stream: LoadStream,
    follower: Option<Follower>,
    dispatch: Rc<Dispatch>,
    measuring: bool,
}

impl ScheduledConnection {
    pub(crate) fn new(
        parts: LinkParts,
        stream: LoadStream,
        context: Rc<ThreadContext>,
        follower: Option<Follower>,
        dispatch: Rc<Dispatch>,
        origin: Instant,
    ) -> Self {
        let link = Link::new(parts, context, Flight::Scheduled(VecDeque::new()), origin);
        Self { link, stream, follower, dispatch, measuring: false }
    }

    /// Runs the whole load of this connection.
    pub(crate) async fn run(mut self) -> Result<(), LoadError> {
        loop {
            let done = poll_fn(|task| self.poll_work(task)).await?;
            if let Some(follower) = &mut self.follower {
                follower.follow(&mut self.link).await?;
            }
            if done {
                return Ok(());
            }
        }
    }

    /// Ready with true when all is done, with false when requests have to be
    /// sent elsewhere.
    fn poll_work(&mut self, task: &mut Context<'_>) -> Poll<Result<bool, LoadError>> {
        loop {
            if self.link.has_unsent() {
                self.link.send_unsent(&mut Polled { stream: &mut self.stream, task })?;
            }
            let wrote = self.write_due(task)?;
            if self.link.expected.outstanding == 0 && self.is_done() {
                return Poll::Ready(Ok(true));
            }
            // Also while nothing is outstanding: a server that closes the
            // connection must be noticed.
            let received = self.link.receive(&mut Polled { stream: &mut self.stream, task })?;
            if !received && !wrote {
                return Poll::Pending;
            }
            if self.link.has_redirected() {
                return Poll::Ready(Ok(false));
            }
        }
    }

    fn is_done(&self) -> bool {
        let Some(inbox) = self.inbox() else { return true };
        let stopped = self.link.context.stop.get();
        inbox.closed.get() && (stopped || inbox.due.borrow().is_empty())
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.dispatch.inboxes.get(self.link.name.within_thread)
    }

    /// Whether requests were due and could be written.
    fn write_due(&mut self, task: &mut Context<'_>) -> Result<bool, LoadError> {
        let dispatch = Rc::clone(&self.dispatch);
        let Some(inbox) = dispatch.inboxes.get(self.link.name.within_thread) else { return Ok(false) };
        *inbox.waker.borrow_mut() = Some(task.waker().clone());
        let mut due = inbox.due.borrow_mut();
        if due.is_empty() || self.link.has_unsent() || self.link.context.stop.get() {
            return Ok(false);
        }
        let measuring = &mut self.measuring;
        let mut wire = Polled { stream: &mut self.stream, task };
        self.link.with_write_buffer(|link, outgoing| {
            let context = Rc::clone(&link.context);
            let mut recorder = context.recorder.borrow_mut();
            let mut counts = dispatch.counts.borrow_mut();
            let count = due.len().min(LARGEST_WRITE);
            if link.expected.outstanding == 0 {
                link.set_waiting(Some(Instant::now()));
            }
            for origin in due.drain(..count) {
                link.write_next(outgoing, &mut recorder, origin.measured)?;
                let now = Instant::now();
                if origin.measured {
                    counts.sent += 1;
                    let lag = now.saturating_duration_since(origin.instant);
                    counts.lag.saturating_record(rounded_micros(lag));
                    if !std::mem::replace(measuring, true) {
                        recorder.note_first_send(now);
                    }
                }
                if let Flight::Scheduled(origins) = &mut link.flight {
                    origins.push_back(origin);
                }
            }
            drop((recorder, counts));
            link.send(&mut wire, outgoing)
        })?;
        Ok(true)
    }
}

//! Drives the closed loops of a thread's connections: plain sockets over an
//! epoll instance of their own, all others as tasks.
//!
//! A task per connection costs its polling, its waker and the runtime's table of
//! who is ready: about as much as everything else a client does for a batch
//! outside the kernel. Sockets that need nothing of the runtime go without it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use thiserror::Error;

use crate::driver::connection::{LoadConnection, Standing};
use crate::driver::follow::Follower;
use crate::driver::link::LoadError;
use crate::wire::stream::{LoadStream, Polled, Socket};

/// Runs the whole load of a connection as a task.
pub(crate) async fn run_as_task(
    mut connection: LoadConnection,
    mut stream: LoadStream,
    mut follower: Option<Follower>,
) -> Result<(), LoadError> {
    loop {
        let standing = poll_fn(|task| match connection.step(&mut Polled { stream: &mut stream, task }) {
            Ok(Standing::Waiting) => Poll::Pending,
            standing => Poll::Ready(standing),
        });
        match (standing.await?, &mut follower) {
            (Standing::Redirected, Some(follower)) => follower.follow(&mut connection.link).await?,
            _ => return Ok(()),
        }
    }
}

/// A connection and its socket.
#[derive(Debug)]
struct Driven {
    connection: LoadConnection,
    socket: Socket,
}

/// Number of the alarm's events; sockets count from 0.
const ALARM: u64 = u64::MAX;

/// When a [`SocketLoop`] turns even if nothing happens on its sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub(crate) every: Duration,
    /// From now; one of the alarms is then.
    pub(crate) once_at: Duration,
}

impl Alarm {
    /// A time limit of each wait instead would have the kernel set up a timer
    /// whenever the loop sleeps: 2 to 4 % of the CPU of a batch of ten.
    fn start(self) -> nix::Result<TimerFd> {
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let rest = self.once_at.as_nanos() % self.every.as_nanos().max(1);
        let first = u64::try_from(rest).map_or(self.every, Duration::from_nanos);
        let first = if first.is_zero() { self.every } else { first };
        timer
            .set(Expiration::IntervalDelayed(first.into(), self.every.into()), TimerSetTimeFlags::empty())?;
        Ok(timer)
    }
}

/// Plain sockets in a closed loop, all on one thread.
#[derive(Debug)]
pub(crate) struct SocketLoop {
    epoll: Epoll,
    alarm: TimerFd,
    events: Vec<EpollEvent>,
    /// None once a connection is done.
    driven: Vec<Option<Driven>>,
    /// Connections that are not done.
    active: usize,
}

impl SocketLoop {
    pub(crate) fn new(connections: Vec<(LoadConnection, Socket)>, alarm: Alarm) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let alarm = alarm.start()?;
        epoll.add(&alarm, EpollEvent::new(EpollFlags::EPOLLIN, ALARM))?;
        // Told once per change, so that the kernel need not look again at sockets that were served.
        let changes =
            EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        for (number, (_, socket)) in connections.iter().enumerate() {
            epoll.add(socket, EpollEvent::new(changes, number as u64))?;
        }
        let active = connections.len();
        let driven =
            connections.into_iter().map(|(connection, socket)| Some(Driven { connection, socket })).collect();
        Ok(Self { epoll, alarm, events: vec![EpollEvent::empty(); active + 1], driven, active })
    }

    /// Sends the first batch of every connection.
    pub(crate) fn start(&mut self) -> Result<(), TurnError> {
        self.driven.iter_mut().try_for_each(|place| go_on(place, &mut self.active))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.active == 0
    }

    /// Waits for the alarm at most and serves every connection that something
    /// has happened on. Returns the time, as it was at the last replies if any came.
    #[inline]
    pub(crate) fn turn(&mut self) -> Result<Instant, TurnError> {
        let ready = match self.epoll.wait(&mut self.events, EpollTimeout::NONE) {
            Err(Errno::EINTR) => 0,
            waited => waited.map_err(|error| TurnError::Wait(error.into()))?,
        };
        let mut latest = None;
        for event in self.events.get(..ready).unwrap_or_default() {
            if event.data() == ALARM {
                // Sets it anew.
                self.alarm.wait().map_err(|error| TurnError::Wait(error.into()))?;
                continue;
            }
            let number = usize::try_from(event.data()).unwrap_or(usize::MAX);
            let Some(place) = self.driven.get_mut(number) else { continue };
            if let Some(driven) = place {
                driven.socket.note_event();
            }
            go_on(place, &mut self.active)?;
            latest = place.as_ref().map(|driven| driven.connection.link.last_arrival);
        }
        // The clock was read for the replies already.
        Ok(latest.unwrap_or_else(Instant::now))
    }
}

#[inline]
fn go_on(place: &mut Option<Driven>, active: &mut usize) -> Result<(), TurnError> {
    let Some(driven) = place else { return Ok(()) };
    if driven.connection.step(&mut driven.socket)? != Standing::Waiting {
        *place = None;
        *active -= 1;
    }
    Ok(())
}

/// A turn of the loop broke.
#[derive(Debug, Error)]
pub(crate) enum TurnError {
    #[error("the kernel does not say which sockets are ready: {0}")]
    Wait(#[source] io::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
}

//! Drives the clients of a thread over an epoll instance of their own: waits
//! for what happens on their sockets and, in an open loop, for what is due.
//!
//! A task per connection of an asynchronous runtime would cost its polling, its
//! waker and the runtime's table of what is ready: about as much as everything else
//! a client does for a batch outside the kernel.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::driver::client::{Client, Standing};
use crate::driver::link::{Link, LoadCause, LoadError};
use crate::driver::pacer::{Call, Pacer};
use crate::wire::connect::ConnectError;

/// Number of the alarm's events.
const ALARM: u64 = u64::MAX;
/// Number of the events of the schedule's timer.
const DUE: u64 = u64::MAX - 1;
/// Bits of an event's number that identify the connection of a client.
const PLACE_BITS: u32 = 24;
/// Events taken from the kernel at once at most.
const MOST_EVENTS: usize = 1024;

/// When an [`EventLoop`] turns even if nothing happens.
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
        let timer = new_timer()?;
        let rest = self.once_at.as_nanos() % self.every.as_nanos().max(1);
        let first = u64::try_from(rest).map_or(self.every, Duration::from_nanos);
        let first = if first.is_zero() { self.every } else { first };
        timer
            .set(Expiration::IntervalDelayed(first.into(), self.every.into()), TimerSetTimeFlags::empty())?;
        Ok(timer)
    }
}

fn new_timer() -> nix::Result<TimerFd> {
    TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
}

/// Wakes the loop for what is due. A time limit of the wait would be rounded up to a whole
/// millisecond, and set up again whenever a reply ends the wait.
struct DueTimer {
    timer: TimerFd,
    /// What it is set to.
    at: Option<Instant>,
}

impl DueTimer {
    /// `rest` from now, at `wake`.
    #[inline]
    fn set(&mut self, wake: Instant, rest: Duration) -> nix::Result<()> {
        if self.at != Some(wake) {
            self.timer.set(Expiration::OneShot(rest.into()), TimerSetTimeFlags::empty())?;
            self.at = Some(wake);
        }
        Ok(())
    }
}

/// A turn of the loop broke.
#[derive(Debug, Error)]
pub(crate) enum TurnError {
    #[error("cannot wait for events: {0}")]
    Wait(#[source] io::Error),
    #[error("cannot watch a socket: {0}")]
    Register(#[source] io::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

pub(crate) struct EventLoop {
    epoll: OwnedFd,
    alarm: TimerFd,
    due_timer: DueTimer,
    events: Vec<Event>,
    /// None once a client is done.
    clients: Vec<Option<Client>>,
    active: usize,
    unconnected: Vec<usize>,
    /// Clients with written requests that are not handed to the kernel yet.
    written: Vec<usize>,
    /// When the last wait ended, if the loop was awake in it and has done nothing since.
    idle_since: Option<Instant>,
    pub(crate) pacer: Option<Pacer>,
}

impl EventLoop {
    pub(crate) fn new(clients: Vec<Client>, pacer: Option<Pacer>, alarm: Alarm) -> Result<Self, TurnError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|error| TurnError::Register(error.into()))?;
        let alarm = alarm.start().map_err(|error| TurnError::Wait(error.into()))?;
        let due_timer =
            DueTimer { timer: new_timer().map_err(|error| TurnError::Wait(error.into()))?, at: None };
        // Its event needs no read: each setting starts it anew.
        let timers =
            [(&alarm, ALARM, EventFlags::IN), (&due_timer.timer, DUE, EventFlags::IN | EventFlags::ET)];
        for (timer, number, flags) in timers {
            epoll::add(&epoll, timer, EventData::new_u64(number), flags)
                .map_err(|error| TurnError::Register(error.into()))?;
        }
        let event_loop = Self {
            epoll,
            alarm,
            due_timer,
            events: Vec::with_capacity((clients.len() + 2).min(MOST_EVENTS)),
            active: clients.len(),
            clients: clients.into_iter().map(Some).collect(),
            unconnected: Vec::new(),
            written: Vec::new(),
            idle_since: None,
            pacer,
        };
        for (number, client) in event_loop.clients.iter().enumerate() {
            for (place, link) in client.iter().flat_map(|client| &client.links).enumerate() {
                event_loop.watch(number, place, link)?;
            }
        }
        Ok(event_loop)
    }

    fn watch(&self, number: usize, place: usize, link: &Link) -> Result<(), TurnError> {
        // One event per change, so that the kernel need not look again at sockets that were served.
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64((number as u64) << PLACE_BITS | place as u64);
        epoll::add(&self.epoll, &link.socket, data, changes)
            .map_err(|error| TurnError::Register(error.into()))
    }

    /// Sends the first batch of every client of a closed loop.
    pub(crate) fn start(&mut self) -> Result<(), TurnError> {
        (0..self.clients.len()).try_for_each(|number| self.on_client(number, Client::go_on))
    }

    /// Has a client that is not done do `step`.
    fn on_client(
        &mut self,
        number: usize,
        step: impl FnOnce(&mut Client) -> Result<Standing, LoadError>,
    ) -> Result<(), TurnError> {
        if let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) {
            let standing = step(client)?;
            self.note(number, standing);
        }
        Ok(())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.active == 0
    }

    #[inline]
    fn note(&mut self, number: usize, standing: Standing) {
        match standing {
            Standing::Waiting => {}
            Standing::Unconnected => self.unconnected.push(number),
            Standing::Done => {
                if let Some(place) = self.clients.get_mut(number) {
                    *place = None;
                    self.active -= 1;
                }
            }
        }
    }

    /// Waits for the alarm at most, sends what is due, and serves every client that
    /// something has happened to. Returns the time, or that of the last look at the clock.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) -> Result<Instant, TurnError> {
        let before = if self.pacer.is_some() { Instant::now() } else { now };
        let timeout = self.timeout(before)?;
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(TurnError::Wait(error.into())),
        }
        let now = Instant::now();
        self.note_wait(timeout.is_some() && self.events.is_empty(), before, now);
        self.send_due(before, now)?;
        for place in 0..self.events.len() {
            let Some(event) = self.events.get(place).copied() else { break };
            self.serve(event)?;
        }
        Ok(now)
    }

    /// Zero while the loop waits awake for what is due; none when the timer wakes it.
    #[inline]
    fn timeout(&mut self, now: Instant) -> Result<Option<Timespec>, TurnError> {
        let Some(wake) = self.pacer.as_ref().and_then(Pacer::wake_at) else { return Ok(None) };
        let rest = wake.saturating_duration_since(now);
        if rest.is_zero() {
            return Ok(Some(Timespec::default()));
        }
        self.due_timer.set(wake, rest).map_err(|error| TurnError::Wait(error.into()))?;
        Ok(None)
    }

    /// Counts the wait from `before` to `now`, and since the last one if the loop did nothing between them.
    #[inline]
    fn note_wait(&mut self, in_vain: bool, before: Instant, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.note_wait(self.idle_since.filter(|_| in_vain).unwrap_or(before), now);
            self.idle_since = in_vain.then_some(now);
        }
    }

    #[inline]
    fn serve(&mut self, event: Event) -> Result<(), TurnError> {
        let (data, flags) = ({ event.data }.u64(), event.flags);
        if data == ALARM {
            // Sets it anew.
            return self.alarm.wait().map_err(|error| TurnError::Wait(error.into()));
        }
        if data == DUE {
            return Ok(());
        }
        let number = usize::try_from(data >> PLACE_BITS).unwrap_or(usize::MAX);
        let place = usize::try_from(data & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) else { return Ok(()) };
        if let Some(link) = client.links.get_mut(place) {
            link.socket.note_event(flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR));
        }
        let blocked = client.blocked;
        let standing = client.step(place)?;
        if blocked
            && !client.blocked
            && let Some(pacer) = &mut self.pacer
        {
            pacer.unpark(number);
        }
        if standing != Standing::Waiting {
            self.note(number, standing);
        }
        Ok(())
    }

    /// Sends what is due by `now`, after a wait since `before`, and retires clients with no more due.
    #[inline]
    fn send_due(&mut self, before: Instant, now: Instant) -> Result<(), TurnError> {
        while let Some(pacer) = &mut self.pacer
            && let Some((number, call)) = pacer.call(now)
        {
            let client = self.clients.get_mut(number).and_then(Option::as_mut);
            match (client, call) {
                (Some(client), Call::Due(_)) if client.blocked => pacer.park(),
                (Some(client), Call::Due(due)) => {
                    client.write_due(due)?;
                    pacer.send(due, Instant::now(), late_wake(due.instant, before, now));
                    if self.written.last() != Some(&number) {
                        self.written.push(number);
                    }
                }
                (Some(client), Call::Over) => {
                    pacer.retire(number);
                    let standing = client.end_schedule()?;
                    self.note(number, standing);
                }
                (None, _) => pacer.retire(number),
            }
        }
        while let Some(number) = self.written.pop() {
            self.idle_since = None;
            if let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) {
                client.flush()?;
            }
        }
        Ok(())
    }

    /// Ends all schedules; clients without anything in flight are done.
    pub(crate) fn stop(&mut self) -> Result<(), TurnError> {
        for number in 0..self.clients.len() {
            if let Some(pacer) = &mut self.pacer {
                pacer.retire(number);
                self.on_client(number, Client::end_schedule)?;
            }
        }
        Ok(())
    }

    /// A client that needs a connection, and to which address.
    pub(crate) fn wanted(&mut self) -> Option<(usize, String)> {
        let number = self.unconnected.pop()?;
        let client = self.clients.get(number)?.as_ref()?;
        Some((number, client.wanted()?.to_owned()))
    }

    pub(crate) fn adopt(&mut self, number: usize, link: Link) -> Result<(), TurnError> {
        let Some(client) = self.clients.get(number).and_then(Option::as_ref) else { return Ok(()) };
        self.watch(number, client.links.len(), &link)?;
        self.on_client(number, |client| client.adopt(link))
    }

    /// Fails if a connection has waited for bytes for `limit`.
    pub(crate) fn fail_when_silent(&self, now: Instant, limit: Duration) -> Result<(), LoadError> {
        for link in self.clients.iter().flatten().flat_map(|client| &client.links) {
            let silence = link.waiting_since.map(|since| now.saturating_duration_since(since));
            if let Some(silence) = silence.filter(|silence| *silence >= limit) {
                return Err(link.error(LoadCause::Silent(silence.as_secs_f64())));
            }
        }
        Ok(())
    }

    pub(crate) fn connections(&self) -> usize {
        self.clients.iter().flatten().map(|client| client.links.len()).sum()
    }

    /// The clients that are left, when the load is over, and what was scheduled.
    pub(crate) fn finish(self) -> (Vec<(usize, Client)>, Option<Pacer>) {
        let left = self.clients.into_iter().enumerate();
        (left.filter_map(|(number, client)| Some((number, client?))).collect(), self.pacer)
    }
}

/// How late a wait from `before` to `now` ended for what was due in it, not before it.
#[inline]
fn late_wake(due: Instant, before: Instant, now: Instant) -> Duration {
    if due < before { Duration::ZERO } else { now.saturating_duration_since(due) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::pacer::Remaining;
    use crate::workload::{schedule::Plan, streams::Crowd};
    use dragstrip_crds::workload::OpenLoopSpec;

    /// How late a loop wakes for a request that is due 1.3 ms from now.
    fn lateness() -> Duration {
        let rate = OpenLoopSpec { operations_per_second: 1, ..OpenLoopSpec::default() };
        let plan = Plan { rate, seed: 1, crowd: Crowd::ALONE, connections: 1 };
        let due = Instant::now() + Duration::from_micros(1_300);
        let remaining = vec![Remaining::For(Duration::from_secs(1))];
        let pacer = Pacer::new(&plan, &[0], remaining, due, due, Duration::ZERO).unwrap();
        let alarm = Alarm { every: Duration::from_secs(1), once_at: Duration::ZERO };
        let mut event_loop = EventLoop::new(Vec::new(), Some(pacer), alarm).unwrap();
        let mut now = Instant::now();
        while now < due {
            now = event_loop.turn(now).unwrap();
        }
        now - due
    }

    #[test]
    fn a_request_does_not_wait_for_the_next_whole_millisecond() {
        // On a busy machine the best of many counts.
        let best = (0..50).map(|_| lateness()).min().unwrap();
        assert!(best < Duration::from_micros(500), "woken {best:?} late at best");
    }

    #[test]
    fn only_what_was_due_during_a_wait_was_awaited_too_long() {
        let before = Instant::now();
        let at = |micros| before + Duration::from_micros(micros);
        assert_eq!(late_wake(at(10), before, at(30)), Duration::from_micros(20));
        assert_eq!(late_wake(before, at(10), at(30)), Duration::ZERO, "the loop was busy when it was due");
    }
}

//! The open loop's schedule: finds what is due and when the loop has to be awake
//! for it, and counts how punctual it was. Reads no clock itself.
//!
//! Times are made when they come, so that a server that cannot follow costs no
//! memory: a client whose connection takes no more is parked with its next one.

use std::time::{Duration, Instant};

use dragstrip_crds::workload::Pacing;
use dragstrip_results::histogram::{self, HistogramError};
use hdrhistogram::Histogram;

use crate::counts::recorder::{Origin, rounded_micros};
use crate::workload::schedule::{Agenda, Plan};

/// How long before its time a request is awaited awake: waking up takes about as
/// long, and would make every request late.
const AWAKE_WAIT: Duration = Duration::from_micros(60);
/// Share of the CPU that waiting awake may take at most.
const AWAKE_SHARE: f64 = 0.2;
/// The same with [`Pacing::Spin`], whatever its share: longer than all but the rarest late wakes.
const SPIN_WAIT: Duration = Duration::from_micros(500);

/// How punctual a thread's clients were, over the measured window.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleCounts {
    pub(crate) scheduled: u64,
    pub(crate) sent: u64,
    /// Requests that were due in each second of the window.
    pub(crate) due_per_second: Vec<u64>,
    /// From the intended time to the write, or else to the end, in microseconds.
    pub(crate) lag: Histogram<u64>,
    /// The part of it, in microseconds, by which the kernel woke the thread late for the request.
    pub(crate) wake_lag: Histogram<u64>,
    /// How long the thread waited, asleep or awake.
    pub(crate) waited: Duration,
    /// When the measured part of the schedule begins and ends.
    pub(crate) window: (Instant, Instant),
}

/// The remaining work of a client in the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remaining {
    Requests(u64),
    For(Duration),
}

/// What a client has to do now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Due(Origin),
    /// Nothing: its schedule is over.
    Over,
}

#[derive(Debug)]
pub(crate) struct Pacer {
    agenda: Agenda,
    origin: Instant,
    measured_from: Instant,
    remaining: Vec<Remaining>,
    awake_wait: Duration,
    pub(crate) counts: ScheduleCounts,
    /// Until when answers are awaited.
    pub(crate) answers_until: Instant,
}

impl Pacer {
    /// The schedule of the clients of these `numbers`, with their `remaining` work, from
    /// `origin` on. Answers are awaited for `drain` after its end.
    pub(crate) fn new(
        plan: &Plan,
        numbers: &[u64],
        remaining: Vec<Remaining>,
        origin: Instant,
        measured_from: Instant,
        drain: Duration,
    ) -> Result<Self, HistogramError> {
        let length = remaining.iter().map(|remaining| match remaining {
            Remaining::For(length) => *length,
            Remaining::Requests(count) => {
                Duration::try_from_secs_f64(*count as f64 * plan.interval()).unwrap_or_default()
            }
        });
        let end = measured_from + length.max().unwrap_or_default();
        let agenda = Agenda::new(plan, numbers);
        let awake_wait = match plan.rate.pacing {
            Pacing::Spin => SPIN_WAIT,
            Pacing::Timer => Duration::try_from_secs_f64(agenda.mean_interval() * AWAKE_SHARE)
                .map_or(AWAKE_WAIT, |affordable| AWAKE_WAIT.min(affordable)),
        };
        let window = (measured_from, end);
        Ok(Self {
            agenda,
            origin,
            measured_from,
            remaining,
            awake_wait,
            counts: ScheduleCounts {
                scheduled: 0,
                sent: 0,
                due_per_second: Vec::new(),
                lag: histogram::empty()?,
                wake_lag: histogram::empty()?,
                waited: Duration::ZERO,
                window,
            },
            answers_until: end + drain,
        })
    }

    /// Until when the loop may sleep; none when nothing more is due.
    #[inline]
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let (due, _) = self.agenda.peek()?;
        (self.origin + due).checked_sub(self.awake_wait)
    }

    /// What the next client must do by `now`. Call [`Self::send`], [`Self::park`] or [`Self::retire`] after.
    #[inline]
    pub(crate) fn call(&self, now: Instant) -> Option<(usize, Call)> {
        let (due, client) = self.agenda.peek()?;
        let due = self.due_at(due);
        if self.has_ended(client, due.instant) {
            return Some((client, Call::Over));
        }
        (due.instant <= now).then_some((client, Call::Due(due)))
    }

    fn due_at(&self, due: Duration) -> Origin {
        let instant = self.origin + due;
        Origin { instant, measured: instant >= self.measured_from }
    }

    fn has_ended(&self, client: usize, instant: Instant) -> bool {
        match self.remaining.get(client) {
            Some(Remaining::For(length)) => instant >= self.measured_from + *length,
            Some(Remaining::Requests(left)) => *left == 0,
            None => true,
        }
    }

    /// What was due is written at `now`, and the thread was woken `late` for it.
    #[inline]
    pub(crate) fn send(&mut self, due: Origin, now: Instant, late: Duration) {
        if let Some((_, client)) = self.agenda.pop() {
            self.count(client, due, now);
            if due.measured {
                self.counts.sent += 1;
                self.counts.wake_lag.saturating_record(rounded_micros(late));
            }
        }
    }

    #[inline]
    fn count(&mut self, client: usize, due: Origin, now: Instant) {
        if due.measured {
            self.counts.scheduled += 1;
            self.count_second(due.instant);
            let lag = now.saturating_duration_since(due.instant);
            self.counts.lag.saturating_record(rounded_micros(lag));
            if let Some(Remaining::Requests(left)) = self.remaining.get_mut(client) {
                *left -= 1;
            }
        }
    }

    #[inline]
    fn count_second(&mut self, due: Instant) {
        let second = due.saturating_duration_since(self.measured_from).as_secs();
        let place = usize::try_from(second).unwrap_or(usize::MAX);
        // Times come nearly in order: at most one second is new.
        if self.counts.due_per_second.len() <= place {
            self.counts.due_per_second.resize(place.saturating_add(1), 0);
        }
        if let Some(count) = self.counts.due_per_second.get_mut(place) {
            *count += 1;
        }
    }

    #[inline]
    pub(crate) fn note_wait(&mut self, since: Instant, now: Instant) {
        if since >= self.measured_from {
            self.counts.waited += now.saturating_duration_since(since);
        }
    }

    /// The client that is due cannot write.
    pub(crate) fn park(&mut self) {
        self.agenda.park();
    }

    /// A parked client can write again.
    pub(crate) fn unpark(&mut self, client: usize) {
        self.agenda.unpark(client);
    }

    /// A client gets nothing more.
    pub(crate) fn retire(&mut self, client: usize) {
        self.agenda.retire(client);
    }

    /// The next request of a parked client that was due by `now` and is never written.
    pub(crate) fn next_missed(&mut self, client: usize, now: Instant) -> Option<Origin> {
        let due = self.due_at(self.agenda.parked(client)?);
        if due.instant > now || self.has_ended(client, due.instant) {
            return None;
        }
        self.agenda.skip(client);
        self.count(client, due, now);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::streams::Crowd;
    use dragstrip_crds::workload::OpenLoopSpec;

    /// Two clients, 10 requests a second together, for a second from `origin` on.
    fn pacer(origin: Instant, pacing: Pacing) -> Pacer {
        let rate = OpenLoopSpec { operations_per_second: 10, pacing, ..OpenLoopSpec::default() };
        let plan = Plan { rate, seed: 1, crowd: Crowd::ALONE, connections: 2 };
        let remaining = vec![Remaining::For(Duration::from_secs(1)), Remaining::Requests(3)];
        Pacer::new(&plan, &[0, 1], remaining, origin, origin, Duration::from_secs(2)).unwrap()
    }

    #[test]
    fn what_a_blocked_client_misses_is_counted_with_its_wait_and_not_as_sent() {
        let origin = Instant::now();
        let mut pacer = pacer(origin, Pacing::Timer);
        let late = origin + Duration::from_millis(950);
        let mut sent = Vec::new();
        while let Some((client, call)) = pacer.call(late) {
            match call {
                Call::Over => pacer.retire(client),
                Call::Due(_) if client == 0 => pacer.park(),
                Call::Due(due) => {
                    pacer.send(due, late, Duration::ZERO);
                    sent.push(due.instant - origin);
                }
            }
        }
        assert_eq!(sent, [100, 300, 500].map(Duration::from_millis));
        let missed: Vec<Duration> =
            std::iter::from_fn(|| pacer.next_missed(0, late)).map(|due| due.instant - origin).collect();
        assert_eq!(missed, [0, 200, 400, 600, 800].map(Duration::from_millis));
        assert_eq!((pacer.counts.scheduled, pacer.counts.sent), (8, 3));
        assert!((949_000..952_000).contains(&pacer.counts.lag.max()), "{}", pacer.counts.lag.max());
        assert_eq!(pacer.answers_until, origin + Duration::from_secs(3));
    }

    #[test]
    fn a_thread_that_spins_is_awake_long_before_a_request_and_its_measured_wait_is_counted() {
        let awake = Instant::now();
        let origin = awake + Duration::from_micros(500);
        let mut pacer = pacer(origin, Pacing::Spin);
        assert_eq!(pacer.wake_at(), Some(awake));
        pacer.note_wait(awake, origin);
        pacer.note_wait(origin, origin + Duration::from_micros(7));
        assert_eq!(pacer.counts.waited, Duration::from_micros(7), "the rest was before the measured window");
    }

    #[test]
    fn a_client_that_can_write_again_goes_on_where_it_was() {
        let origin = Instant::now();
        let mut pacer = pacer(origin, Pacing::Timer);
        assert!(matches!(pacer.call(origin), Some((0, Call::Due(due))) if due.instant == origin));
        pacer.park();
        assert_eq!(pacer.wake_at(), Some(origin + Duration::from_micros(100_000 - 60)));
        pacer.unpark(0);
        assert!(matches!(pacer.call(origin), Some((0, Call::Due(due))) if due.instant == origin));
    }
}

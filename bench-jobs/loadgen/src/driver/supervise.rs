//! Watches over the load of one thread: ends it when the run is to stop, when a
//! connection fails and when one falls silent, and takes the thread's CPU time
//! at the begin of the measured window.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::configuration::Configuration;
use crate::counts::report::Failure;
use crate::driver::connector::Connector;
use crate::driver::cpu::ScheduleTimes;
use crate::driver::event_loop::{Alarm, EventLoop, TurnError};
use crate::driver::link::ThreadContext;
use crate::driver::phase::Phase;
use crate::driver::progress::{Detail, DetailTimes};

/// Longest wait for the current batches once the run is to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Longest time until an idle event loop notices that the run is to stop.
const LONGEST_TURN: Duration = Duration::from_millis(50);

pub(crate) struct Watch<'a> {
    context: &'a Rc<ThreadContext>,
    configuration: &'a Configuration,
    /// CPU time of the thread at the begin of the measured window.
    cpu_before: Option<ScheduleTimes>,
    detail_times: DetailTimes,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(context: &'a Rc<ThreadContext>, configuration: &'a Configuration) -> Self {
        let cpu_before = configuration.warmup.is_zero().then(ScheduleTimes::of_this_thread);
        let origin = context.measured_from.checked_sub(configuration.warmup);
        let origin = origin.unwrap_or(context.measured_from);
        let detail_times = DetailTimes::new(configuration.detail_interval, origin);
        Self { context, configuration, cpu_before, detail_times }
    }

    /// CPU time the thread has used since the begin of the measured window.
    pub(crate) fn cpu_used(&self) -> ScheduleTimes {
        self.cpu_before.map(|before| ScheduleTimes::of_this_thread().since(before)).unwrap_or_default()
    }

    /// When the loop must turn for [`Self::over`].
    pub(crate) fn alarm(&self) -> Alarm {
        let once_at = self.context.measured_from.saturating_duration_since(Instant::now());
        Alarm { every: LONGEST_TURN.min(self.silence_check()), once_at }
    }

    /// Turns the loop until every client is done, one fails, the run is to stop, or
    /// an open loop has waited long enough for its answers.
    pub(crate) async fn over(
        &mut self,
        clients: &mut EventLoop,
        connector: &Connector,
        phase: &watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        self.turn(clients, connector, phase).await.map_err(|error| match error {
            TurnError::Load(error) => error.failure(),
            TurnError::Connect(error) => error.failure(),
            TurnError::Wait(_) | TurnError::Register(_) => Failure::of_client("run the event loop", &error),
        })
    }

    async fn turn(
        &mut self,
        clients: &mut EventLoop,
        connector: &Connector,
        phase: &watch::Receiver<Phase>,
    ) -> Result<(), TurnError> {
        clients.start()?;
        let mut now = Instant::now();
        let mut next_check = self.next_check(now);
        let mut stopping = false;
        let mut cut_off = clients.pacer.as_ref().map(|pacer| pacer.answers_until);
        while !clients.is_done() {
            if self.cpu_before.is_none() && now >= self.context.measured_from {
                self.cpu_before = Some(ScheduleTimes::of_this_thread());
            }
            if now >= next_check {
                clients.fail_when_silent(now, self.configuration.response_timeout)?;
                if self.detail_times.pass(now) {
                    self.publish_detail(clients);
                }
                next_check = self.next_check(now);
            }
            // Without a coordinator the run is over as well.
            if !stopping && phase.has_changed().unwrap_or(true) {
                stopping = true;
                self.context.stop.set(true);
                clients.stop()?;
                cut_off = Some(now + STOP_GRACE.min(self.configuration.response_timeout));
            }
            if cut_off.is_some_and(|instant| now >= instant) {
                break;
            }
            while let Some((number, address)) = clients.wanted() {
                clients.adopt(number, connector.link(&address, self.context).await?)?;
            }
            now = clients.turn(now)?;
        }
        Ok(())
    }

    /// When the thread next checks for silence or publishes its detail. One look at the clock serves both.
    fn next_check(&self, now: Instant) -> Instant {
        let silence = now + self.silence_check();
        self.detail_times.next().map_or(silence, |detail| detail.min(silence))
    }

    /// Shows what was counted until now. It takes some 20 us, the load's own: the thread
    /// alone knows its counts, and the load need not keep others beside them.
    fn publish_detail(&self, clients: &EventLoop) {
        let (bytes, latency) = self.context.recorder.borrow().so_far();
        let connections = u64::try_from(clients.connections()).unwrap_or(u64::MAX);
        self.context.progress.publish(Detail { bytes, connections, latency });
    }

    /// How often the thread checks for silence.
    fn silence_check(&self) -> Duration {
        (self.configuration.response_timeout / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }
}

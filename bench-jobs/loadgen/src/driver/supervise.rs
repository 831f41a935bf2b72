//! Watches over the load of one thread: ends it when the run is to stop, when a
//! connection fails and when one falls silent, and takes the thread's CPU time
//! at the begin of the measured window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::configuration::Configuration;
use crate::counts::report::Failure;
use crate::driver::closed_loop::{Alarm, SocketLoop, TurnError};
use crate::driver::cpu::CpuTime;
use crate::driver::link::{ConnectionName, LoadError, ThreadContext};
use crate::driver::open_loop::Dispatch;
use crate::driver::phase::{Phase, stopped};

/// Longest wait for the current batches once the run is to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Longest time for which an idle event loop does not see that the run is to stop.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// Watches over the connections of a thread.
pub(crate) struct Watch<'a> {
    context: &'a ThreadContext,
    pub(crate) configuration: &'a Configuration,
    names: &'a [ConnectionName],
    /// CPU time of the thread at the begin of the measured window.
    cpu_before: Option<CpuTime>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        context: &'a ThreadContext,
        configuration: &'a Configuration,
        names: &'a [ConnectionName],
    ) -> Self {
        let cpu_before = configuration.warmup.is_zero().then(CpuTime::of_thread);
        Self { context, configuration, names, cpu_before }
    }

    /// CPU time the thread has used since the begin of the measured window.
    pub(crate) fn cpu_used(&self) -> CpuTime {
        self.cpu_before.map_or_else(CpuTime::default, |before| CpuTime::of_thread().since(before))
    }

    /// Waits until every task is done, one fails, or the run is to stop.
    pub(crate) async fn over_tasks(
        &mut self,
        mut tasks: Tasks,
        dispatch: Option<&Dispatch>,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        let outcome = self.over(&mut tasks, dispatch, phase).await;
        tasks.shutdown().await;
        outcome
    }

    async fn over(
        &mut self,
        tasks: &mut Tasks,
        dispatch: Option<&Dispatch>,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        let mut tick = interval(self.silence_check());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopped(phase) => {
                    self.context.stop.set(true);
                    dispatch.into_iter().for_each(Dispatch::close);
                    return self.drain(tasks).await;
                }
                () = sleep_until(self.context.measured_from.into()), if self.cpu_before.is_none() => {
                    self.cpu_before = Some(CpuTime::of_thread());
                }
                _ = tick.tick() => self.fail_when_silent(Instant::now())?,
                joined = tasks.join_next() => match joined {
                    None => return Ok(()),
                    Some(ended) => self.ended_well(ended)?,
                },
            }
        }
    }

    /// Lets the current batches end, for a while.
    async fn drain(&self, tasks: &mut Tasks) -> Result<(), Failure> {
        let all_ended = async {
            while let Some(ended) = tasks.join_next().await {
                self.ended_well(ended)?;
            }
            Ok(())
        };
        // What has not ended by then is cut off; its requests stay unanswered in the counts.
        timeout(self.grace(), all_ended).await.unwrap_or(Ok(()))
    }

    fn ended_well(&self, ended: Result<Result<(), LoadError>, JoinError>) -> Result<(), Failure> {
        match ended {
            Ok(outcome) => outcome.map_err(|error| error.failure()),
            Err(error) => Err(Failure::of_client("run a connection", self.configuration.target(), &error)),
        }
    }

    /// When the loop of sockets must turn for [`Self::over_sockets`].
    pub(crate) fn alarm(&self) -> Alarm {
        let once_at = self.context.measured_from.saturating_duration_since(Instant::now());
        Alarm { every: LONGEST_TURN.min(self.silence_check()), once_at }
    }

    /// The same as [`Self::over_tasks`] for sockets, whose loop this turns.
    pub(crate) fn over_sockets(
        &mut self,
        mut sockets: SocketLoop,
        phase: &watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        sockets.start().map_err(|error| self.turn_failure(&error))?;
        let mut now = Instant::now();
        let mut next_check = now + self.silence_check();
        let mut cut_off = None;
        while !sockets.is_done() {
            if self.cpu_before.is_none() && now >= self.context.measured_from {
                self.cpu_before = Some(CpuTime::of_thread());
            }
            if now >= next_check {
                self.fail_when_silent(now)?;
                next_check = now + self.silence_check();
            }
            // Without a coordinator the run is over as well.
            if cut_off.is_none() && phase.has_changed().unwrap_or(true) {
                self.context.stop.set(true);
                cut_off = Some(now + self.grace());
            }
            if cut_off.is_some_and(|instant| now >= instant) {
                break;
            }
            now = sockets.turn().map_err(|error| self.turn_failure(&error))?;
        }
        Ok(())
    }

    fn turn_failure(&self, error: &TurnError) -> Failure {
        match error {
            TurnError::Load(error) => error.failure(),
            TurnError::Wait(_) => {
                Failure::of_client("run the event loop", self.configuration.target(), error)
            }
        }
    }

    fn grace(&self) -> Duration {
        STOP_GRACE.min(self.configuration.response_timeout)
    }

    /// How often silence is looked for.
    fn silence_check(&self) -> Duration {
        (self.configuration.response_timeout / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }

    fn fail_when_silent(&self, now: Instant) -> Result<(), Failure> {
        let limit = self.configuration.response_timeout;
        let Some((index, silence)) = self.context.silent_connection(now, limit) else {
            return Ok(());
        };
        let Some(name) = self.names.get(index) else {
            return Ok(());
        };
        let (connection, address) = (name.within_run, Arc::clone(&name.address));
        Err(LoadError::Silent { connection, address, seconds: silence.as_secs_f64() }.failure())
    }
}

/// The connections of a thread, each a task.
pub(crate) type Tasks = JoinSet<Result<(), LoadError>>;

//! The phase of a run, which the coordinator announces to its load threads, and how a run ends.

use std::time::Instant;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::counts::report::Failure;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Prepare,
    /// Start the load at `origin`, which is never before the present.
    Load {
        origin: Instant,
    },
    Stop,
}

/// Returns when the run is to stop, or when the coordinator has ended.
pub(crate) async fn stopped(phase: &mut watch::Receiver<Phase>) {
    // Both outcomes mean the same here.
    let _ = phase.wait_for(|phase| *phase == Phase::Stop).await;
}

#[derive(Clone, Debug)]
pub enum Ending {
    Completed,
    Interrupted(Stopper),
    Failed(Failure),
}

/// Signals that end a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stopper {
    Interrupt,
    Terminate,
}

#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) -> Stopper {
        tokio::select! {
            _ = self.interrupt.recv() => Stopper::Interrupt,
            _ = self.terminate.recv() => Stopper::Terminate,
        }
    }
}

//! What a decision rests on. Pure.

use super::target::TargetState;
use crate::trouble::Trouble;
use dragstrip_crds::{
    run::{FailureStatus, QueueStatus, SetbackStatus},
    units::whole,
};
use dragstrip_results::{
    protocol::{RunnerStage, RunnerState},
    result::PodFailure,
};
use jiff::Timestamp;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Turn {
    Held,
    #[default]
    Free,
    /// Other runs hold a part of what this run needs.
    Busy {
        /// Whose, and this run's place.
        queue: QueueStatus,
        /// Whether this run holds a part of what it needs.
        holds: bool,
    },
    /// This run gave it back, and what ran under it is not gone yet.
    Returning,
}

/// What is still there of a lost attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remains {
    /// Whether its Job is there and is not being deleted.
    pub job: bool,
    /// When the last of its pods stops sending load; `None` if only an event will say so.
    pub silent_from: Option<Timestamp>,
}

/// How far the clients of an attempt are before its start line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preparation {
    /// The stage of the slowest runner; absent if none responds.
    pub stage: Option<RunnerStage>,
    /// How much of that stage the slowest has done.
    pub percent: Option<u32>,
}

impl Preparation {
    pub fn of<'a>(runners: impl Iterator<Item = &'a RunnerState> + Clone) -> Self {
        let stage = runners.clone().map(|runner| runner.stage).min();
        let slowest = runners.filter(|runner| Some(runner.stage) == stage);
        let percent = |runner: &RunnerState| u32::try_from(whole(runner.prepared_ratio? * 100.0)).ok();
        let percent = slowest.filter_map(percent).min();
        Self { stage, percent }
    }
}

/// Which runners of an attempt have their start command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    Complete,
    /// Some: they load, and others have none.
    Partial,
    Missing,
    /// Unknown: some runners do not respond, and may have it.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AttemptState {
    /// Nothing exists for it that could load.
    Absent,
    /// Its Job is gone, and pods of it may still load.
    Left {
        /// When the last of them stops; `None` if only an event will say so.
        silent_from: Option<Timestamp>,
    },
    /// Its Job exists; not all pods are at the start line.
    Starting { trouble: Option<Trouble>, since: Timestamp },
    /// All its clients run, and not all are at the start line: they check the server, write keys or
    /// warm up, which takes as long as it takes.
    Preparing(Preparation),
    AtStartLine {
        /// Since when this operator, while it was there, has tried in vain to reach their runners.
        unreachable_since: Option<Timestamp>,
    },
    /// Its Job is of another spec than the run has now.
    Outdated,
    /// Its Job is being deleted.
    Leaving,
    /// The start line is fixed.
    Started { start: Timestamp, receipt: Receipt },
    /// The Job or every pod of it has ended, or it is gone after load began; its result is not stored.
    Ended,
    /// The result is stored; with what went wrong, if anything did.
    Stored(Option<PodFailure>),
    /// It is stored that a client was lost.
    Lost {
        failure: PodFailure,
        /// What must be gone before the repetition is measured again.
        remains: Remains,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub target: TargetState,
    /// The turn; looked at only for a target that is ready.
    pub turn: Turn,
    /// Whether this run holds any Lease that it has not given back.
    pub holds: bool,
    /// When `timeout` is over; the clock stands while the run is queued.
    pub deadline: Timestamp,
    /// What made it give its turn back, until it is tried again.
    pub setback: Option<SetbackStatus>,
    /// The attempt after whose settle time the servers' memory is to be read, and when.
    pub settling: Option<(usize, Timestamp)>,
    /// How the server is another than it was when the first result was measured.
    pub server_changed: Option<String>,
    /// Which condition of where servers and clients are is to hold and does not.
    pub misplaced: Option<String>,
    /// Said of the target when a run that had begun fails: it was deleted.
    pub target_gone: Option<String>,
    /// Which measurement is of another spec than the run has now.
    pub spec_changed: Option<String>,
    /// The failure in the status, which has ended the run already.
    pub ended: Option<FailureStatus>,
    /// What is wrong with stored results that cannot be read.
    pub damaged: Vec<String>,
    /// In the order of [`ValidatedRun::attempts`].
    pub attempts: Vec<AttemptState>,
}

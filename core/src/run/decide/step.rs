//! The steps of a run. Pure.

use crate::{run::observe::state::Preparation, trouble::Trouble};
use dragstrip_crds::run::{FailureStatus, QueueStatus, SetbackStatus};
use jiff::Timestamp;

/// Step of a failure that a Required check found.
pub const REQUIREMENT: &str = "Requirement";

/// What a run waits for. Attempts are named by their index.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    TargetMissing(String),
    TargetNotReady {
        own: bool,
        reason: String,
        message: String,
    },
    Queue(QueueStatus),
    /// The next try after a setback.
    Setback(SetbackStatus),
    /// Its own Leases, which it released, to be gone.
    Return,
    /// The client pods of an attempt to start.
    Clients {
        attempt: usize,
        trouble: Option<Trouble>,
    },
    /// The clients of an attempt to come to the start line; with how far they are.
    Preparation(usize, Preparation),
    /// A Job that is being deleted, and its pods, to be gone.
    Leaving(usize),
    /// A result that exists and cannot be read or stored yet.
    Log {
        attempt: usize,
        why: String,
    },
    Load(usize),
    /// The memory of the servers that the attempt loaded to settle, before it is read again.
    Settling(usize),
    /// The pods of a lost attempt to be gone, before its repetition is measured again.
    Remains(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Every measurement has a usable result.
    Succeeded,
    /// There is no usable result.
    Failed(FailureStatus),
    /// `spec.cancel` stopped it.
    Cancelled,
}

/// The next step. Attempts are named by their index.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Do nothing until something changes, or until this instant.
    Wait(Waiting, Option<Timestamp>),
    MakeDatastore,
    /// Delete the run's own Datastore, which has another declaration; it is created again.
    RemoveDatastore,
    TakeTurn,
    /// Release the turn and retry later, since clients cannot start: they have
    /// not loaded anything, and what they lack must not keep others waiting.
    StandBack {
        /// The attempt whose Job goes, if it has one.
        attempt: Option<usize>,
        trouble: Trouble,
    },
    /// Release the held part of a turn; other runs hold the rest.
    ReturnTurn,
    /// Delete the Job of this attempt, which has another spec.
    RemoveOutdated(usize),
    CreateJob(usize),
    /// Fix the start line of this attempt and send it to its pods.
    SendStart(usize),
    Collect(usize),
    /// Read the servers' memory after the settle time of this attempt, and store it.
    ReadMemory(usize),
    RemoveLost(usize),
    Finish(Ending),
}

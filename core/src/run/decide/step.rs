//! What a decision leads to. Pure.

use crate::trouble::Trouble;
use dragstrip_crds::run::{FailureStatus, QueueStatus, SetbackStatus};
use jiff::Timestamp;

/// Step of a failure that a Required check found.
pub const REQUIREMENT: &str = "Requirement";

/// What a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    TargetMissing(String),
    /// Its target to become ready.
    TargetNotReady {
        /// Whether it is the run's own.
        own: bool,
        reason: String,
        message: String,
    },
    Queue(QueueStatus),
    /// The moment at which it asks for its turn again.
    Setback(SetbackStatus),
    /// Its own Leases, which it gave back, to be gone.
    Return,
    Clients {
        attempt: usize,
        trouble: Option<Trouble>,
    },
    /// A Job that is being deleted, and its pods, to be gone.
    Leaving {
        attempt: usize,
    },
    /// A result that is there and cannot be read, or stored, just now.
    Log {
        attempt: usize,
        /// What stands in the way.
        why: String,
    },
    Load {
        attempt: usize,
    },
    /// The servers' memory to settle, before it is read once more.
    Settling {
        /// Index of the attempt that loaded them.
        attempt: usize,
    },
    /// The pods of a lost attempt to be gone, before its repetition is measured again.
    Remains {
        /// Index of the lost attempt.
        attempt: usize,
    },
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Succeeded,
    /// There is no usable result.
    Failed(FailureStatus),
    /// It was told to stop.
    Cancelled,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing to do until something changes, or until this instant.
    Wait(Waiting, Option<Timestamp>),
    /// Make the run's own Datastore.
    MakeDatastore,
    /// Delete the run's own Datastore, which is of another declaration: it is made anew.
    RemoveDatastore,
    TakeTurn,
    /// Give the turn back and ask again later, since clients cannot start: they have
    /// not loaded anything, and what they lack must not keep others waiting.
    StandBack {
        /// Index of the attempt whose Job goes, if it has one.
        attempt: Option<usize>,
        trouble: Trouble,
    },
    /// Give back what is held of a turn that others have another part of.
    ReturnTurn,
    /// Delete the Job of this attempt, which is of another spec.
    RemoveOutdated(usize),
    /// Create the Job of the attempt with this index.
    CreateJob(usize),
    /// Fix the start line of this attempt and tell its pods.
    SendStart(usize),
    /// Store the result of this attempt.
    Collect(usize),
    /// Read the servers' memory after the settle time of this attempt, and store that.
    ReadMemory(usize),
    /// Delete the Job of the lost attempt with this index.
    RemoveLost(usize),
    Finish(Ending),
}

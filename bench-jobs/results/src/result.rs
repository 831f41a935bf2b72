//! The results of one repetition: of one client pod ([`PodResult`]) and of all of them together
//! ([`RepetitionResult`]).

mod environment;
mod pod;
mod repetition;
pub mod search;

pub use self::{
    environment::{CpuSetRecord, EnvironmentRecord, GroupEvidence, GroupRecord, NodeRecord},
    pod::{
        Failure, FailureStep, PodResult, Presence, ServerRecord, ShardRecord, ToolRecord, Window,
        WorkerRecord, in_flight,
    },
    repetition::{Check, CheckState, PodFailure, RepetitionResult},
};
pub use crate::measured::operation::{Operation, TOTAL};

/// Marks the line of a runner's log that holds its complete [`PodResult`] as JSON.
pub const LOG_MARKER: &str = "DRAGSTRIP-RESULT ";

//! The results of one repetition: of a client pod ([`PodResult`]) and of all ([`RepetitionResult`]).

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
pub use crate::measured::operation::{FILL, Operation, TOTAL, due};

/// Most operations in the result of a client pod, and most figures of the tool's own.
pub const MOST_ROWS: usize = 1000;
/// Most bytes of the line of a runner's log that holds its result: the operator reads no more.
pub const MOST_LOG_BYTES: usize = 4 << 20;
/// Marks the line of a runner's log that holds its complete [`PodResult`] as JSON.
pub const LOG_MARKER: &str = "DRAGSTRIP-RESULT ";

//! What was measured: by one client pod ([`PodResult`]), by all pods of one
//! repetition together ([`RepetitionResult`]), and how the first become the
//! second. Counts are summed, throughput is taken over the window in which
//! every client was active, histograms are added bucket by bucket; percentiles
//! are never averaged.

mod environment;
mod pod;
mod repetition;

pub use self::{
    environment::{CpuSetRecord, EnvironmentRecord, GroupEvidence, GroupRecord, NodeRecord},
    pod::{
        Failure, FailureStep, OperationResult, PodResult, Presence, ServerRecord, ShardRecord, ToolRecord,
        Window, WorkerRecord, in_flight,
    },
    repetition::{Check, CheckState, MergedOperation, PodFailure, RepetitionResult},
};

/// Marks the line of a runner's log that holds its whole [`PodResult`] as JSON.
pub const LOG_MARKER: &str = "DRAGSTRIP-RESULT ";

/// Name of the row of all operations together.
pub const TOTAL: &str = "TOTAL";

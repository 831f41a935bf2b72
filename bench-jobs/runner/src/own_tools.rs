//! What Dragstrip's own tools, the load generator and the BullMQ job, have in
//! common: the form of their progress lines, and what their end means. Pure.

use crate::{
    failure::failure,
    tool::{Ended, Progress},
};
use dragstrip_results::result::{Failure, FailureStep};
use std::fmt::Display;

/// Reads `progress elapsed_seconds=3.000 operations=457120 ... errors=0`.
pub(crate) fn progress(line: &str) -> Option<Progress> {
    let fields = line.strip_prefix("progress ")?;
    let number = |name: &str| {
        fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    Some(Progress { operations: number("operations")?, errors: number("errors")? })
}

/// Without a readable report the exit of `tool` says most about what went wrong.
pub(crate) fn unread(tool: &str, error: &impl Display, ended: &Ended) -> Failure {
    let (step, message) = match (ended.exit.code, ended.exit.signal) {
        (Some(0), _) => (FailureStep::Output, error.to_string()),
        (Some(code), _) => (FailureStep::Tool, format!("{tool} ended with exit code {code}; {error}")),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            (FailureStep::Tool, format!("{tool} was ended by signal {signal}; {error}"))
        }
    };
    explained(step, message, ended)
}

/// A failure with how the tool ended and its last words.
pub(crate) fn explained(step: FailureStep, message: String, ended: &Ended) -> Failure {
    Failure {
        exit_code: ended.exit.code,
        signal: ended.exit.signal,
        last_lines: ended.last_lines.clone(),
        ..failure(step, message)
    }
}

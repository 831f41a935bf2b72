//! Makes failures. Pure.

use dragstrip_results::result::{Failure, FailureStep};
use std::fmt::Display;

/// A failure with a message and without a process.
pub fn failure(step: FailureStep, message: impl Into<String>) -> Failure {
    Failure::new(step, message)
}

pub fn failed<E: Display>(step: FailureStep) -> impl Fn(E) -> Failure {
    move |error| failure(step, error.to_string())
}

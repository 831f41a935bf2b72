//! Makes failures. Pure.

use dragstrip_results::result::{Failure, FailureStep};
use std::fmt::Display;

pub fn failed<E: Display>(step: FailureStep) -> impl Fn(E) -> Failure {
    move |error| Failure::new(step, error.to_string())
}

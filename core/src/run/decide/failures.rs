//! How a run fails: the step and the message of each cause. Pure.

use super::step::{Ending, REQUIREMENT, Step};
use crate::run::{
    observe::state::{AttemptState, Observed},
    plan::unmeasured,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::run::FailureStatus;
use dragstrip_results::result::FailureStep;

/// A failure of the run itself, in this step.
pub fn failure(step: &str, message: String) -> FailureStatus {
    FailureStatus { step: step.to_owned(), message, ..FailureStatus::default() }
}

pub fn attempt_failure(attempt: &Attempt, step: &str, message: String) -> FailureStatus {
    FailureStatus {
        phase: Some(attempt.phase.clone()),
        repetition: Some(attempt.repetition),
        ..failure(step, message)
    }
}

fn end(failure: FailureStatus) -> Step {
    Step::Finish(Ending::Failed(failure))
}

pub(super) fn failed(attempt: &Attempt, step: &str, message: String) -> Step {
    end(attempt_failure(attempt, step, message))
}

/// The failure of the attempt with `index`, which ends the run. The message says how often a lost
/// repetition was measured, which phases were not measured, and whether the target was deleted.
pub(super) fn in_attempt(run: &ValidatedRun, observed: &Observed, index: usize) -> Step {
    let attempt = &run.attempts[index];
    let (AttemptState::Stored(Some(found)) | AttemptState::Lost { failure: found, .. }) =
        &observed.attempts[index]
    else {
        // No other state is a failure.
        return failed(attempt, "Internal", "a failure without a reason".to_owned());
    };
    let lost = found.failure.step == FailureStep::Lost;
    let mut message = found.failure.message.clone();
    if lost && attempt.measurement > 1 {
        message = format!("{message}; the repetition was measured {} times", attempt.measurement);
    }
    let names = unmeasured(run, index);
    if !lost && !names.is_empty() {
        message = format!(
            "{message}; not measured after that: {} (set onFailure: Continue on phase {} to measure them)",
            names.join(", "),
            attempt.phase
        );
    }
    if let Some(gone) = &observed.target_gone {
        message = format!("{gone}; {message}");
    }
    end(FailureStatus {
        pod: Some(found.pod.clone()).filter(|pod| !pod.is_empty()),
        exit_code: found.failure.exit_code,
        last_lines: found.failure.last_lines.clone(),
        ..attempt_failure(attempt, &format!("{:?}", found.failure.step), message)
    })
}

/// Stored results that cannot be read end the run; nothing is measured in their place.
pub fn damaged(what: &[String]) -> Step {
    end(failure("StoredResult", what.join("; ")))
}

/// The repetitions of a phase differ more than a Required check allows.
pub fn too_variable(phase: &str, message: &str) -> Step {
    let failure = failure(REQUIREMENT, format!("phase {phase}: {message}"));
    end(FailureStatus { phase: Some(phase.to_owned()), ..failure })
}

/// Measurements of two specs are never one result.
pub(super) fn spec_changed(measured: &str) -> Step {
    end(failure(
        "SpecChanged",
        format!(
            "{measured} was measured with another spec than the run has now: after the start only cancel and ttlAfterFinished may change; create a new BenchmarkRun"
        ),
    ))
}

/// Results of two servers are never one result.
pub(super) fn server_changed(run: &ValidatedRun, change: &str) -> Step {
    let message = format!(
        "the server is not the one that was measured first: {change}; do not change the server during a run, and create the run again"
    );
    let first = run.attempts.first();
    end(FailureStatus {
        phase: first.map(|first| first.phase.clone()),
        repetition: first.map(|first| first.repetition),
        ..failure("ServerChanged", message)
    })
}

//! The heart of a run: from what is declared and what exists to the one next
//! step. Pure: the same input always gives the same step. Of the status only records
//! are read back (that the run has ended, its clock, its last setback), never the phase.

mod observed;
mod step;

use super::{
    plan::{Outcome, Place, place, place_of, unmeasured},
    timing::{RESULT_GRACE, watchdog_seconds},
    validate::{Attempt, ValidatedRun},
};
use crate::{run::stored_result::StoredResult, trouble::Trouble};
use dragstrip_crds::run::FailureStatus;
use dragstrip_results::result::PodFailure;
use jiff::{SignedDuration, Timestamp};
pub use observed::{
    AttemptState, DatastoreKey, Observed, ReadyTarget, Remains, TargetState, TargetTls, Turn,
};
use std::collections::BTreeMap;
pub use step::{Ending, Step, Waiting};

/// How long clients that something holds up may keep their turn.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long at a later try, which is only to see whether the cause was mended.
pub const PATIENCE_AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// How long for want of a node that somebody may be making, or of a reason: an image may be large.
pub const LONG_PATIENCE: SignedDuration = SignedDuration::from_secs(300);
/// How late after its start line a pod may still be told of it.
const LATE: SignedDuration = SignedDuration::from_secs(1);

fn failed(attempt: Option<&Attempt>, step: &str, message: String) -> Step {
    Step::Finish(Ending::Failed(FailureStatus {
        phase: attempt.map(|a| a.phase.clone()),
        repetition: attempt.map(|a| a.repetition),
        pod: None,
        step: step.to_owned(),
        message,
        exit_code: None,
        last_lines: Vec::new(),
    }))
}

fn failed_in_pod(attempt: &Attempt, failure: &PodFailure) -> Step {
    Step::Finish(Ending::Failed(FailureStatus {
        phase: Some(attempt.phase.clone()),
        repetition: Some(attempt.repetition),
        pod: Some(failure.pod.clone()).filter(|pod| !pod.is_empty()),
        step: format!("{:?}", failure.failure.step),
        message: failure.failure.message.clone(),
        exit_code: failure.failure.exit_code,
        last_lines: failure.failure.last_lines.clone(),
    }))
}

/// What a run was waiting for, for the message of its timeout.
fn describe(step: &Step) -> String {
    match step {
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => {
            message.clone()
        }
        Step::Wait(Waiting::Clients { trouble: Some(trouble), .. }, _) | Step::StandBack { trouble, .. } => {
            trouble.message.clone()
        }
        Step::Wait(Waiting::Setback(setback), _) => setback.message.clone(),
        Step::Wait(Waiting::Clients { trouble: None, .. }, _) => "its client pods did not come up".to_owned(),
        Step::Wait(Waiting::Load { .. }, _) => "its load had not ended".to_owned(),
        Step::Wait(Waiting::Remains { .. }, _) | Step::RemoveLost(_) => {
            "client pods of a lost repetition were not gone".to_owned()
        }
        _ => "it was not done".to_owned(),
    }
}

/// When the result of an attempt that started at `start` counts as lost. Of an external
/// server its runner waits for the settle time too.
fn lost_at(run: &ValidatedRun, attempt: &Attempt, start: Timestamp) -> Timestamp {
    let external = run.spec.target.external.is_some();
    let settle = run.settle_seconds(attempt).filter(|_| external).unwrap_or(0.0);
    let watchdog = SignedDuration::try_from_secs_f64(watchdog_seconds(run, attempt) + settle)
        .unwrap_or(SignedDuration::MAX);
    start.saturating_add(watchdog).and_then(|at| at.saturating_add(RESULT_GRACE)).unwrap_or(Timestamp::MAX)
}

fn outcome(state: &AttemptState) -> Outcome {
    match state {
        AttemptState::Stored(failure) => Outcome::of_failure(failure.as_ref()),
        AttemptState::Lost { .. } => Outcome::Lost,
        _ => Outcome::Open,
    }
}

/// The failure that ends the run. A lost repetition is told with how often it was measured.
fn failed_for_good(attempt: &Attempt, state: &AttemptState) -> Step {
    match state {
        AttemptState::Stored(Some(failure)) => failed_in_pod(attempt, failure),
        AttemptState::Lost { failure, .. } => {
            let mut failure = failure.clone();
            if attempt.measurement > 1 {
                let times = format!("; the repetition was measured {} times", attempt.measurement);
                failure.failure.message.push_str(&times);
            }
            failed_in_pod(attempt, &failure)
        }
        // No other state is a failure.
        _ => failed(Some(attempt), "Internal", "a failure without a reason".to_owned()),
    }
}

/// The next step of `run` at `now`.
pub fn decide(run: &ValidatedRun, observed: &Observed, now: Timestamp) -> Step {
    // What ended it may be gone with what was cleared up.
    if let Some(failure) = &observed.ended {
        return Step::Finish(Ending::Failed(failure.clone()));
    }
    let place = place(run, |index| outcome(&observed.attempts[index]));
    // Told to stop: what was measured stays, and what has ended is stored first.
    if run.spec.cancel {
        return match place {
            Place::At(current) if observed.attempts[current] == AttemptState::Ended => Step::Collect(current),
            _ => Step::Finish(Ending::Cancelled),
        };
    }
    if !observed.damaged.is_empty() {
        return damaged(&observed.damaged);
    }
    if let Some(measured) = &observed.spec_changed {
        return spec_changed(measured);
    }
    if let Some(settling) = observed.settling {
        return settle(run, observed, settling, now);
    }
    let changed = observed.server_changed.as_ref().map(|change| server_changed(run, change));
    let current = match place {
        // A failed repetition ends the run: only lost clients are measured again.
        Place::Failed(index) => {
            let failed = failed_for_good(&run.attempts[index], &observed.attempts[index]);
            return with_the_targets_end(with_unmeasured(failed, run, index), observed);
        }
        // Never a mean over two servers.
        Place::Done => return changed.unwrap_or(Step::Finish(Ending::Succeeded)),
        Place::At(current) => current,
    };
    let step = match &observed.attempts[current] {
        // A result that exists is stored, however late it is.
        AttemptState::Ended => return Step::Collect(current),
        // None is coming: what there is, is stored as lost.
        AttemptState::Started { start, .. } if now >= lost_at(run, &run.attempts[current], *start) => {
            return Step::Collect(current);
        }
        // Some pods load already, and the others cannot join them any more.
        AttemptState::Started { start, unsent: true }
            if now > start.saturating_add(LATE).unwrap_or(*start) =>
        {
            return Step::Collect(current);
        }
        AttemptState::Started { start, unsent: false } => {
            let until = lost_at(run, &run.attempts[current], *start).min(observed.deadline);
            Step::Wait(Waiting::Load { attempt: current }, Some(until))
        }
        // No load was sent.
        AttemptState::Starting { .. } | AttemptState::AtStartLine { .. } if observed.misplaced.is_some() => {
            misplaced(&run.attempts[current], observed)
        }
        AttemptState::AtStartLine { since } if now >= since.saturating_add(PATIENCE).unwrap_or(*since) => {
            stand_back(run, current, unreachable())
        }
        AttemptState::Started { unsent: true, .. } | AttemptState::AtStartLine { .. } => {
            Step::SendStart(current)
        }
        AttemptState::Outdated => Step::RemoveOutdated(current),
        AttemptState::Leaving => Step::Wait(Waiting::Leaving { attempt: current }, Some(observed.deadline)),
        AttemptState::Starting { trouble, since } => {
            starting(run, current, trouble.as_ref(), *since, observed, now)
        }
        AttemptState::Absent
        | AttemptState::Left { .. }
        | AttemptState::Stored(_)
        | AttemptState::Lost { .. } => {
            let again = before_again(observed, now, observed.deadline);
            again.or(changed).unwrap_or_else(|| before_job(run, observed, current, now))
        }
    };
    within_timeout(run, &run.attempts[current], step, observed.deadline, now)
}

/// `step` for `attempt`, or the run's failure if its timeout has passed. Waiting for other runs does
/// not count against the timeout; every other wait does.
fn within_timeout(
    run: &ValidatedRun,
    attempt: &Attempt,
    step: Step,
    deadline: Timestamp,
    now: Timestamp,
) -> Step {
    let queued = matches!(
        step,
        Step::Wait(Waiting::Queue(_) | Waiting::Return, _) | Step::TakeTurn | Step::ReturnTurn
    );
    if now < deadline || queued {
        return step;
    }
    let message =
        format!("the run did not end within spec.timeout ({}): {}", run.spec.timeout, describe(&step));
    failed(Some(attempt), "Timeout", message)
}

/// Reads the memory of the servers once more when that is due, before anything else is done
/// to them.
fn settle(
    run: &ValidatedRun,
    observed: &Observed,
    (attempt, due): (usize, Timestamp),
    now: Timestamp,
) -> Step {
    if now >= due {
        return Step::ReadMemory(attempt);
    }
    if now >= observed.deadline {
        let message = format!(
            "the run did not end within spec.timeout ({}): its servers' memory had not settled",
            run.spec.timeout
        );
        return failed(Some(&run.attempts[attempt]), "Timeout", message);
    }
    Step::Wait(Waiting::Settling { attempt }, Some(due.min(observed.deadline)))
}

/// What was measured and cannot be read any more ends the run; nothing is measured in its place.
pub fn damaged(what: &[String]) -> Step {
    failed(None, "StoredResult", what.join("; "))
}

/// What follows when the result of the attempt with this index could not be stored because of
/// `why`: tried again `until` then, `None` when that was done for long enough, and not at all
/// in a run that is to end.
pub fn not_stored(
    run: &ValidatedRun,
    attempt: usize,
    why: &str,
    until: Option<Timestamp>,
    deadline: Timestamp,
    now: Timestamp,
) -> Step {
    if let Some(until) = until.filter(|_| !run.spec.cancel && now < deadline) {
        return Step::Wait(Waiting::Log { attempt, why: why.to_owned() }, Some(until.min(deadline)));
    }
    let message = format!(
        "its result could not be stored: {why}; allow the operator to create ConfigMaps in this namespace and create the run again; the logs of this run's client pods hold the result until the run is deleted"
    );
    failed(Some(&run.attempts[attempt]), "StoredResult", message)
}

/// That the repetitions of a phase differ more than a Required check allows ends the run.
pub fn too_variable(phase: &str, message: &str) -> Step {
    let message = format!("phase {phase}: {message}");
    match failed(None, "Requirement", message) {
        Step::Finish(Ending::Failed(failure)) => {
            Step::Finish(Ending::Failed(FailureStatus { phase: Some(phase.to_owned()), ..failure }))
        }
        step => step,
    }
}

/// Measurements of two specs are never one result.
fn spec_changed(measured: &str) -> Step {
    let message = format!(
        "{measured} was measured with another spec than the run has now: after the start only cancel and ttlAfterFinished may change; create a new BenchmarkRun"
    );
    failed(None, "SpecChanged", message)
}

fn server_changed(run: &ValidatedRun, change: &str) -> Step {
    let message = format!(
        "the server is not the one that was measured first: {change}; do not change the server during a run, and create the run again"
    );
    failed(run.attempts.first(), "ServerChanged", message)
}

/// A failure, with the phases that it kept from being measured and how they could be.
fn with_unmeasured(step: Step, run: &ValidatedRun, index: usize) -> Step {
    let names = unmeasured(run, index);
    match step {
        Step::Finish(Ending::Failed(mut failure)) if !names.is_empty() && failure.step != "Lost" => {
            failure.message = format!(
                "{}; not measured after that: {} (set onFailure: Continue on phase {} to measure them)",
                failure.message,
                names.join(", "),
                run.attempts[index].phase
            );
            Step::Finish(Ending::Failed(failure))
        }
        step => step,
    }
}

/// A failure that a deleted target explains is told as that.
fn with_the_targets_end(step: Step, observed: &Observed) -> Step {
    match (step, &observed.target_gone) {
        (Step::Finish(Ending::Failed(mut failure)), Some(gone)) => {
            failure.message = format!("{gone}; {}", failure.message);
            Step::Finish(Ending::Failed(failure))
        }
        (step, _) => step,
    }
}

/// That a condition does not hold that `spec.requirements` wants ends the run.
fn misplaced(attempt: &Attempt, observed: &Observed) -> Step {
    failed(Some(attempt), "Placement", observed.misplaced.clone().unwrap_or_default())
}

fn unreachable() -> Trouble {
    let message = "its client pods wait at the start line but the operator cannot reach their runners: add a NetworkPolicy that admits the operator's pod to the runners' port in this namespace";
    Trouble { reason: "RunnersUnreachable".to_owned(), message: message.to_owned() }
}

/// Waits for client pods to start, though not for ever: what they lack must not keep others waiting.
fn starting(
    run: &ValidatedRun,
    current: usize,
    trouble: Option<&Trouble>,
    since: Timestamp,
    observed: &Observed,
    now: Timestamp,
) -> Step {
    let deadline = observed.deadline;
    let a_node_is_missing = trouble.is_some_and(|trouble| trouble.reason == "Unschedulable");
    let patience = match (trouble, observed.setback.is_some()) {
        (None, _) => LONG_PATIENCE,
        (Some(_), false) if a_node_is_missing => LONG_PATIENCE,
        (Some(_), true) if !a_node_is_missing => PATIENCE_AGAIN,
        (Some(_), _) => PATIENCE,
    };
    let until = since.saturating_add(patience).unwrap_or(deadline);
    if now < until {
        let waiting = Waiting::Clients { attempt: current, trouble: trouble.cloned() };
        return Step::Wait(waiting, Some(until.min(deadline)));
    }
    let unknown = || Trouble {
        reason: "NotStarted".to_owned(),
        message: format!(
            "its client pods did not start within {} s; Kubernetes reported no reason",
            patience.as_secs()
        ),
    };
    stand_back(run, current, trouble.cloned().unwrap_or_else(unknown))
}

/// What follows where a step cannot be carried out, and nothing runs that it could wait for.
pub fn hindered(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>, trouble: Trouble) -> Step {
    match place_of(run, stored) {
        Place::At(current) => stand_back(run, current, trouble),
        Place::Failed(_) | Place::Done => Step::StandBack { attempt: None, trouble },
    }
}

/// Gives the turn back where that loses nothing: before the first phase of a
/// repetition. Later phases need the data that earlier ones left, which others
/// would change meanwhile.
fn stand_back(run: &ValidatedRun, current: usize, trouble: Trouble) -> Step {
    let attempt = &run.attempts[current];
    if run.begins_measurement(current) {
        return Step::StandBack { attempt: Some(current), trouble };
    }
    let message = format!(
        "its client pods could not start: {}; earlier phases or points of the repetition were measured, and releasing the turn would lose their data",
        trouble.message
    );
    failed(Some(attempt), "Clients", message)
}

/// What must be done before another Job is made: the load of a lost attempt and
/// that of the next must never overlap.
fn before_again(observed: &Observed, now: Timestamp, deadline: Timestamp) -> Option<Step> {
    let lost = |(index, state): (usize, &AttemptState)| match state {
        AttemptState::Lost { remains, .. } => Some((index, *remains)),
        _ => None,
    };
    observed.attempts.iter().enumerate().filter_map(lost).find_map(|(attempt, remains)| {
        if remains.job {
            return Some(Step::RemoveLost(attempt));
        }
        let waits = remains.silent_from.is_none_or(|silent_from| now < silent_from);
        let until = remains.silent_from.map_or(deadline, |silent_from| silent_from.min(deadline));
        waits.then_some(Step::Wait(Waiting::Remains { attempt }, Some(until)))
    })
}

/// The step before a Job may be created: target first, then the turn, then the
/// server's own account.
fn before_job(run: &ValidatedRun, observed: &Observed, current: usize, now: Timestamp) -> Step {
    let until = Some(observed.deadline);
    let attempt = &run.attempts[current];
    let begun = current > 0;
    // A queued run holds nothing: what it has a part of, others could use.
    if let Turn::Busy { holds: true, .. } = observed.turn
        && !begun
    {
        return Step::ReturnTurn;
    }
    if let Some(setback) = observed.setback.as_ref().filter(|setback| now < setback.retry_at.0) {
        return Step::Wait(
            Waiting::Setback(setback.clone()),
            Some(setback.retry_at.0.min(observed.deadline)),
        );
    }
    match (&observed.target, &observed.turn) {
        (TargetState::Missing(message), _) if begun => failed(
            Some(attempt),
            "TargetDeleted",
            observed.target_gone.clone().unwrap_or_else(|| message.clone()),
        ),
        (TargetState::ToBeMade, _) if begun => {
            let gone = "the run's own Datastore was deleted while the run was under way";
            failed(Some(attempt), "TargetDeleted", gone.to_owned())
        }
        // What it holds keeps others waiting, and perhaps the very change that it waits for.
        (TargetState::Missing(_) | TargetState::NotReady { .. }, Turn::Free) if observed.holds && !begun => {
            Step::ReturnTurn
        }
        (TargetState::Missing(message), _) => Step::Wait(Waiting::TargetMissing(message.clone()), until),
        (TargetState::NotReady { reason, message, .. }, Turn::Held) if !begun && reason != "Deleted" => {
            // Its status says that it is ready, and it does not answer.
            let trouble = Trouble { reason: reason.clone(), message: message.clone() };
            Step::StandBack { attempt: None, trouble }
        }
        (TargetState::NotReady { own, reason, message }, _) => Step::Wait(
            Waiting::TargetNotReady { own: *own, reason: reason.clone(), message: message.clone() },
            until,
        ),
        (TargetState::ToBeMade, _) => Step::MakeDatastore,
        (TargetState::Outdated, _) => Step::RemoveDatastore,
        (TargetState::NameTaken(message), _) => failed(Some(attempt), "Provisioning", message.clone()),
        // Declared is not what runs: no load is sent.
        (TargetState::Disagrees(message), _) => failed(Some(attempt), "Verification", message.clone()),
        (TargetState::Unsuitable(message), _) => failed(Some(attempt), "Unsuitable", message.clone()),
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Busy { queue, .. }) => {
            Step::Wait(Waiting::Queue(queue.clone()), None)
        }
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Returning) => {
            Step::Wait(Waiting::Return, None)
        }
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Free) => Step::TakeTurn,
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Held) if observed.misplaced.is_some() => {
            misplaced(attempt, observed)
        }
        (TargetState::NotConsulted | TargetState::Ready(_), Turn::Held) => create_job(observed, current, now),
    }
}

/// Another Job of the same name is made when no pod of the former one can load any more.
fn create_job(observed: &Observed, current: usize, now: Timestamp) -> Step {
    match observed.attempts[current] {
        AttemptState::Left { silent_from } if silent_from.is_none_or(|silent_from| now < silent_from) => {
            let until =
                silent_from.map_or(observed.deadline, |silent_from| silent_from.min(observed.deadline));
            Step::Wait(Waiting::Leaving { attempt: current }, Some(until))
        }
        _ => Step::CreateJob(current),
    }
}

#[cfg(test)]
mod tests;

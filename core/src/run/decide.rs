//! The heart of a run: from what is declared and what exists to the one next
//! step. Pure: the same input always gives the same step. It reads back only
//! records of the status (that the run has ended, its clock, its last setback), never the phase.

mod failures;
pub(super) mod step;

pub use super::observe::{
    state::{AttemptState, Observed, Preparation, Receipt, Remains, Turn},
    target::{Connection, DatastoreKey, ReadyTarget, TargetState, TargetTls},
};
use super::{
    observe::stored_result::StoredResult,
    plan::{
        Outcome, Place, place, place_of,
        timing::{RESULT_GRACE, after, ends_at},
    },
    validate::attempt::{Attempt, ValidatedRun},
};
use crate::trouble::Trouble;
use failures::failed;
pub use failures::{attempt_failure, damaged, failure, too_variable};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
pub use step::{Ending, Step, Waiting};

/// How long clients that something holds up may keep their turn.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long at a later try, which only checks whether the cause was removed.
const PATIENCE_AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// How long if a node is missing that an autoscaler may add, or if no reason is known: an image may be large.
const LONG_PATIENCE: SignedDuration = SignedDuration::from_secs(300);
/// How long the pods of the phase before may take to leave their nodes after their containers have ended:
/// until then the scheduler finds no room, and that is not a trouble.
const LEAVING: SignedDuration = SignedDuration::from_secs(4);
/// How late after its start line a pod may still get the start command.
const LATE: SignedDuration = SignedDuration::from_secs(1);
/// When a runner that did not respond is queried again.
const QUERY_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// How often the status shows how far a preparation is.
const SHOW_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The next step of `run` at `now`: the first row that applies.
pub fn decide(run: &ValidatedRun, observed: &Observed, now: Timestamp) -> Step {
    let place = place(run, |index| outcome(&observed.attempts[index]).for_run(&run.attempts[index]));
    match (place, observed) {
        // The cause of a recorded failure may be gone with what was cleaned up.
        (_, Observed { ended: Some(failure), .. }) => Step::Finish(Ending::Failed(failure.clone())),
        // Cancelled: the results so far stay, and a finished measurement is stored first.
        (Place::At(current), _) if run.spec.cancel && observed.attempts[current] == AttemptState::Ended => {
            Step::Collect(current)
        }
        _ if run.spec.cancel => Step::Finish(Ending::Cancelled),
        (_, Observed { damaged, .. }) if !damaged.is_empty() => failures::damaged(damaged),
        (_, Observed { spec_changed: Some(measured), .. }) => failures::spec_changed(measured),
        // The servers' memory is read again before anything else is done to them.
        (_, Observed { settling: Some((attempt, due)), .. }) if now >= *due => Step::ReadMemory(*attempt),
        (_, Observed { settling: Some((attempt, due)), .. }) => {
            let until = Some((*due).min(observed.deadline));
            let step = Step::Wait(Waiting::Settling(*attempt), until);
            within_timeout(run, *attempt, step, observed.deadline, now)
        }
        // A failed repetition ends the run: only a lost one is measured again.
        (Place::Failed(index), _) => failures::in_attempt(run, observed, index),
        (Place::Done, Observed { server_changed: Some(change), .. }) => failures::server_changed(run, change),
        (Place::Done, _) => Step::Finish(Ending::Succeeded),
        (Place::At(current), _) => {
            let step = measure(run, observed, current, now);
            within_timeout(run, current, step, observed.deadline, now)
        }
    }
}

fn outcome(state: &AttemptState) -> Outcome {
    match state {
        AttemptState::Stored(failure) => Outcome::of_failure(failure.as_ref()),
        AttemptState::Lost { .. } => Outcome::Lost,
        _ => Outcome::Open,
    }
}

/// The next step towards a result of the attempt with index `current`: the first row that applies.
fn measure(run: &ValidatedRun, observed: &Observed, current: usize, now: Timestamp) -> Step {
    let attempt = &run.attempts[current];
    let deadline = observed.deadline;
    match &observed.attempts[current] {
        AttemptState::Ended => Step::Collect(current),
        // What exists is stored as lost.
        AttemptState::Started { start, receipt } if is_lost(run, attempt, *start, *receipt, now) => {
            Step::Collect(current)
        }
        AttemptState::Started { start, receipt: Receipt::Partial | Receipt::Unknown }
            if now <= after(*start, LATE) =>
        {
            Step::SendStart(current)
        }
        AttemptState::Started { start, receipt } if *receipt != Receipt::Missing => {
            let query = if *receipt == Receipt::Unknown { after(now, QUERY_AGAIN) } else { Timestamp::MAX };
            let until = lost_at(run, attempt, *start).min(deadline).min(query);
            Step::Wait(Waiting::Load(current), Some(until))
        }
        // No load was sent.
        AttemptState::Starting { .. } | AttemptState::Preparing(_) | AttemptState::AtStartLine { .. }
            if observed.misplaced.is_some() =>
        {
            misplaced(attempt, observed)
        }
        AttemptState::Preparing(preparation) => {
            let until = after(now, SHOW_AGAIN).min(deadline);
            Step::Wait(Waiting::Preparation(current, *preparation), Some(until))
        }
        AttemptState::AtStartLine { unreachable_since: Some(since) } if now >= after(*since, PATIENCE) => {
            stand_back(run, current, unreachable())
        }
        AttemptState::Started { .. } | AttemptState::AtStartLine { .. } => Step::SendStart(current),
        AttemptState::Outdated => Step::RemoveOutdated(current),
        AttemptState::Leaving => Step::Wait(Waiting::Leaving(current), Some(deadline)),
        AttemptState::Starting { trouble, since } => {
            starting(run, current, trouble.as_ref(), *since, observed, now)
        }
        AttemptState::Absent
        | AttemptState::Left { .. }
        | AttemptState::Stored(_)
        | AttemptState::Lost { .. } => match (before_again(observed, now), &observed.server_changed) {
            (Some(step), _) => step,
            (None, Some(change)) => failures::server_changed(run, change),
            (None, None) => before_job(run, observed, current, now),
        },
    }
}

/// Whether an attempt that started at `start` counts as lost.
fn is_lost(
    run: &ValidatedRun,
    attempt: &Attempt,
    start: Timestamp,
    receipt: Receipt,
    now: Timestamp,
) -> bool {
    match receipt {
        // However old the line is, no pod loads: it is replaced.
        Receipt::Missing => false,
        // Some pods load already, and the others are too late to join them.
        Receipt::Partial if now > after(start, LATE) => true,
        // No result is coming.
        _ => now >= lost_at(run, attempt, start),
    }
}

/// When the result of an attempt that started at `start` counts as lost. The runner of an
/// external server waits for the settle time too.
fn lost_at(run: &ValidatedRun, attempt: &Attempt, start: Timestamp) -> Timestamp {
    let external = run.spec.target.external().is_some();
    let settle = run.settle_seconds(attempt).filter(|_| external).unwrap_or(0.0);
    let settle = SignedDuration::try_from_secs_f64(settle).unwrap_or(SignedDuration::MAX);
    after(after(ends_at(run, attempt, start), settle), RESULT_GRACE)
}

/// `step` for the attempt with this index, or the run's failure if its timeout has passed. A result
/// that exists is stored however late it is, and waiting for other runs does not count against the
/// timeout; every other wait does.
fn within_timeout(run: &ValidatedRun, index: usize, step: Step, deadline: Timestamp, now: Timestamp) -> Step {
    let exempt = matches!(
        step,
        Step::Collect(_)
            | Step::Wait(Waiting::Queue(_) | Waiting::Return, _)
            | Step::TakeTurn
            | Step::ReturnTurn
    );
    if now < deadline || exempt {
        return step;
    }
    let message =
        format!("the run did not end within spec.timeout ({}): {}", run.spec.timeout, describe(&step));
    failed(&run.attempts[index], "Timeout", message)
}

/// What a run was waiting for, for the message of its timeout.
fn describe(step: &Step) -> &str {
    match step {
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => message,
        Step::Wait(Waiting::Clients { trouble: Some(trouble), .. }, _) | Step::StandBack { trouble, .. } => {
            &trouble.message
        }
        Step::Wait(Waiting::Setback(setback), _) => &setback.message,
        Step::Wait(Waiting::Clients { trouble: None, .. }, _) => "its client pods did not come up",
        Step::Wait(Waiting::Preparation(..), _) => "its clients were not at the start line",
        Step::Wait(Waiting::Load(_), _) => "its load had not ended",
        Step::Wait(Waiting::Settling(_), _) => "its servers' memory had not settled",
        Step::Wait(Waiting::Remains(_), _) | Step::RemoveLost(_) => {
            "client pods of a lost repetition were not gone"
        }
        _ => "it was not done",
    }
}

/// What follows when the result of the attempt with this index could not be stored because of
/// `why`: a retry at `until`; a failure if that is `None`, or if the run is to end.
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
    failed(&run.attempts[attempt], "StoredResult", message)
}

/// A condition of `spec.requirements` does not hold.
fn misplaced(attempt: &Attempt, observed: &Observed) -> Step {
    failed(attempt, "Placement", observed.misplaced.clone().unwrap_or_default())
}

fn unreachable() -> Trouble {
    let message = "its client pods wait at the start line but the operator cannot reach their runners: add a NetworkPolicy that admits the operator's pod to the runners' port in this namespace";
    Trouble { reason: "RunnersUnreachable".to_owned(), message: message.to_owned() }
}

/// Waits for client pods to start, but not for ever: what they lack must not keep others waiting.
fn starting(
    run: &ValidatedRun,
    current: usize,
    trouble: Option<&Trouble>,
    since: Timestamp,
    observed: &Observed,
    now: Timestamp,
) -> Step {
    let patience = match (trouble, &observed.setback) {
        (None, _) => LONG_PATIENCE,
        (Some(trouble), None) if trouble.reason == "Unschedulable" => LONG_PATIENCE,
        (Some(trouble), Some(_)) if trouble.reason != "Unschedulable" => PATIENCE_AGAIN,
        (Some(_), _) => PATIENCE,
    };
    let until = after(since, patience);
    if now < until {
        let next = after(since, LEAVING);
        let (trouble, until) = match trouble {
            Some(trouble) if trouble.reason == "Unschedulable" && now < next => (None, next),
            trouble => (trouble.cloned(), until),
        };
        let waiting = Waiting::Clients { attempt: current, trouble };
        return Step::Wait(waiting, Some(until.min(observed.deadline)));
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

/// What follows if a step cannot be carried out, and nothing runs that it could wait for.
pub fn hindered(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>, trouble: Trouble) -> Step {
    match place_of(run, stored) {
        Place::At(current) => stand_back(run, current, trouble),
        Place::Failed(_) | Place::Done => Step::StandBack { attempt: None, trouble },
    }
}

/// Releases the turn if that loses nothing: before the first phase of a
/// repetition. Later phases need the data that earlier ones left, which other
/// runs would change meanwhile.
fn stand_back(run: &ValidatedRun, current: usize, trouble: Trouble) -> Step {
    if run.begins_measurement(current) {
        return Step::StandBack { attempt: Some(current), trouble };
    }
    let message = format!(
        "its client pods could not start: {}; earlier phases or points of the repetition were measured, and releasing the turn would lose their data",
        trouble.message
    );
    failed(&run.attempts[current], "Clients", message)
}

/// What must be done before another Job is created: the load of a lost attempt and
/// that of the next must never overlap.
fn before_again(observed: &Observed, now: Timestamp) -> Option<Step> {
    observed.attempts.iter().enumerate().find_map(|(attempt, state)| match state {
        AttemptState::Lost { remains: Remains { job: true, .. }, .. } => Some(Step::RemoveLost(attempt)),
        AttemptState::Lost { remains, .. } => {
            until_silent(Waiting::Remains(attempt), remains.silent_from, observed, now)
        }
        _ => None,
    })
}

/// Waits until no pod sends load; `None` if none does. Without an instant, an event says so.
fn until_silent(
    waiting: Waiting,
    silent_from: Option<Timestamp>,
    observed: &Observed,
    now: Timestamp,
) -> Option<Step> {
    let until = silent_from.map_or(observed.deadline, |silent_from| silent_from.min(observed.deadline));
    silent_from.is_none_or(|silent_from| now < silent_from).then_some(Step::Wait(waiting, Some(until)))
}

/// The step before a Job may be created: target, then turn, then the server's own report.
fn before_job(run: &ValidatedRun, observed: &Observed, current: usize, now: Timestamp) -> Step {
    let until = Some(observed.deadline);
    let attempt = &run.attempts[current];
    // Releasing the turn before the first measurement loses nothing.
    let first = current == 0;
    // A queued run holds nothing, except between the phases of a repetition: others could use the part that it
    // has, and if they come first, each would wait for the other.
    if run.begins_measurement(current) && matches!(observed.turn, Turn::Busy { holds: true, .. }) {
        return Step::ReturnTurn;
    }
    if let Some(setback) = observed.setback.as_ref().filter(|setback| now < setback.retry_at.0) {
        let until = setback.retry_at.0.min(observed.deadline);
        return Step::Wait(Waiting::Setback(setback.clone()), Some(until));
    }
    match &observed.target {
        TargetState::Missing(message) if !first => {
            failed(attempt, "TargetDeleted", observed.target_gone.clone().unwrap_or_else(|| message.clone()))
        }
        TargetState::ToBeMade if !first => {
            let gone = "the run's own Datastore was deleted while the run was under way";
            failed(attempt, "TargetDeleted", gone.to_owned())
        }
        // What the run holds keeps others waiting, and perhaps the very change that it waits for.
        TargetState::Missing(_) | TargetState::NotReady { .. }
            if first && observed.turn == Turn::Free && observed.holds =>
        {
            Step::ReturnTurn
        }
        TargetState::Missing(message) => Step::Wait(Waiting::TargetMissing(message.clone()), until),
        // Its status says that it is ready, and it does not answer.
        TargetState::NotReady { reason, message, .. }
            if first && observed.turn == Turn::Held && reason != "Deleted" =>
        {
            let trouble = Trouble { reason: reason.clone(), message: message.clone() };
            Step::StandBack { attempt: None, trouble }
        }
        TargetState::NotReady { own, reason, message } => Step::Wait(
            Waiting::TargetNotReady { own: *own, reason: reason.clone(), message: message.clone() },
            until,
        ),
        TargetState::ToBeMade => Step::MakeDatastore,
        TargetState::Outdated => Step::RemoveDatastore,
        TargetState::NameTaken(message) => failed(attempt, "Provisioning", message.clone()),
        // The running server is not the declared one: no load is sent.
        TargetState::Disagrees(message) => failed(attempt, "Verification", message.clone()),
        TargetState::Unsuitable(message) => failed(attempt, "Unsuitable", message.clone()),
        TargetState::NotConsulted | TargetState::Ready(_) => match &observed.turn {
            Turn::Busy { queue, .. } => Step::Wait(Waiting::Queue(queue.clone()), None),
            Turn::Returning => Step::Wait(Waiting::Return, None),
            Turn::Free => Step::TakeTurn,
            Turn::Held if observed.misplaced.is_some() => misplaced(attempt, observed),
            Turn::Held => create_job(observed, current, now),
        },
    }
}

/// Creates the Job, once no pod of an earlier Job of that name can load any more.
fn create_job(observed: &Observed, current: usize, now: Timestamp) -> Step {
    let waits = match observed.attempts[current] {
        AttemptState::Left { silent_from } => {
            until_silent(Waiting::Leaving(current), silent_from, observed, now)
        }
        _ => None,
    };
    waits.unwrap_or(Step::CreateJob(current))
}

#[cfg(test)]
mod tests;

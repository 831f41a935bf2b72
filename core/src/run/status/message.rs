//! A run's phase and message, from its next step. Pure.

use crate::{
    lease::NO_RUN,
    run::{
        decide::step::{Ending, REQUIREMENT, Step, Waiting},
        observe::stored_result::StoredResult,
        plan,
        validate::attempt::ValidatedRun,
    },
};
use dragstrip_crds::run::{RunPhase, SetbackStatus};
use std::collections::BTreeMap;

pub(super) fn phase(step: &Step) -> RunPhase {
    match step {
        Step::Wait(Waiting::TargetNotReady { own: true, .. }, _)
        | Step::MakeDatastore
        | Step::RemoveDatastore => RunPhase::Provisioning,
        Step::Wait(Waiting::TargetMissing(_) | Waiting::TargetNotReady { own: false, .. }, _) => {
            RunPhase::Pending
        }
        Step::Wait(Waiting::Setback(_), _) | Step::StandBack { .. } => RunPhase::Pending,
        Step::Wait(Waiting::Queue(_) | Waiting::Return, _) | Step::TakeTurn | Step::ReturnTurn => {
            RunPhase::Queued
        }
        Step::Wait(Waiting::Clients { .. } | Waiting::Remains { .. } | Waiting::Leaving { .. }, _)
        | Step::CreateJob(_)
        | Step::RemoveLost(_)
        | Step::RemoveOutdated(_) => RunPhase::Preparing,
        Step::Wait(Waiting::Load { .. }, _) | Step::SendStart(_) => RunPhase::Running,
        Step::Collect(_)
        | Step::ReadMemory(_)
        | Step::Wait(Waiting::Log { .. } | Waiting::Settling { .. }, _) => RunPhase::Collecting,
        Step::Finish(Ending::Succeeded) => RunPhase::Succeeded,
        Step::Finish(Ending::Failed(_)) => RunPhase::Failed,
        Step::Finish(Ending::Cancelled) => RunPhase::Cancelled,
    }
}

pub(super) fn message(run: &ValidatedRun, stored: &BTreeMap<String, StoredResult>, step: &Step) -> String {
    let name = |index: &usize| {
        let attempt = &run.attempts[*index];
        let again = match attempt.measurement {
            1 => String::new(),
            measurement => format!(", measurement {measurement}"),
        };
        let search = run.spec.phases[attempt.phase_index].search.as_ref();
        let point = attempt.point.as_ref().zip(search).map(|(point, search)| point.reported(search.raise));
        let point = point.map(|point| format!(", {point}")).unwrap_or_default();
        format!(
            "phase {}, repetition {} of {}{point}{again}",
            attempt.phase, attempt.repetition, run.spec.repetitions
        )
    };
    match step {
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => {
            message.clone()
        }
        Step::Wait(Waiting::Queue(queue), _) if queue.holder.name == NO_RUN => {
            format!("Lease {} exists and belongs to no run: delete it if nothing else needs it", queue.lease)
        }
        Step::Wait(Waiting::Queue(queue), _) => {
            format!(
                "waits for {}, which holds Lease {}; position {} in the queue",
                queue.holder, queue.lease, queue.position
            )
        }
        Step::Wait(Waiting::Clients { attempt, trouble: Some(trouble) }, _) => {
            format!("{}: {} ({})", name(attempt), trouble.message, trouble.reason)
        }
        Step::Wait(Waiting::Log { attempt, why }, _) => {
            format!("{}: its result is not stored yet: {why}", name(attempt))
        }
        Step::Wait(Waiting::Leaving { attempt }, _) => {
            format!("{}: an earlier Job of that name, or one of its pods, still exists", name(attempt))
        }
        Step::Wait(Waiting::Return, _) => "it released its turn, and its load is ending".to_owned(),
        Step::Wait(Waiting::Setback(setback), _) => set_back(&setback.reason, &setback.message),
        Step::StandBack { trouble, .. } => set_back(&trouble.reason, &trouble.message),
        Step::Wait(Waiting::Clients { attempt, trouble: None }, _) | Step::CreateJob(attempt) => {
            format!("{}: client pods are starting", name(attempt))
        }
        Step::Wait(Waiting::Load { attempt }, _) => format!("{}: load is running", name(attempt)),
        Step::Wait(Waiting::Settling { attempt }, _) => {
            format!("{}: the servers' memory settles before it is read again", name(attempt))
        }
        Step::Wait(Waiting::Remains { attempt }, _) => format!(
            "{}: a client pod or its node was lost; the repetition is measured again when its client pods are gone",
            name(attempt)
        ),
        Step::Finish(Ending::Succeeded) => {
            format!("all {} measurements are stored", plan::wanted(run, stored))
        }
        Step::Finish(Ending::Failed(failure)) => match (&failure.phase, failure.repetition, &failure.pod) {
            (Some(phase), Some(repetition), Some(pod)) => {
                format!("phase {phase}, repetition {repetition}, pod {pod}: {}", failure.message)
            }
            (Some(phase), Some(repetition), None) if failure.step == REQUIREMENT => {
                format!("phase {phase}, repetition {repetition}: {}", failure.message)
            }
            _ => failure.message.clone(),
        },
        Step::Finish(Ending::Cancelled) => "stopped by spec.cancel".to_owned(),
        Step::MakeDatastore
        | Step::RemoveDatastore
        | Step::TakeTurn
        | Step::SendStart(_)
        | Step::Collect(_)
        | Step::ReadMemory(_)
        | Step::RemoveLost(_)
        | Step::RemoveOutdated(_)
        | Step::ReturnTurn => String::new(),
    }
}

/// `text`, and what held the run up before as long as it has not got past it.
pub(super) fn with_setback(text: String, setback: Option<&SetbackStatus>) -> String {
    match setback {
        Some(setback) if text.contains(&setback.message) => {
            format!("{text}; retried after {} setbacks", setback.count)
        }
        Some(setback) => format!("{text}; retries after {} ({})", setback.message, setback.reason),
        None => text,
    }
}

/// The same text at every try, so that an event is made of it only once.
pub(super) fn set_back(reason: &str, message: &str) -> String {
    format!("{message} ({reason}); no load was sent; the run released its turn and retries by itself")
}

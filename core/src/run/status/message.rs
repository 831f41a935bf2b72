//! A run's phase and message, from its next step. Pure.

use crate::{
    lease::NO_RUN,
    run::{
        decide::step::{Ending, REQUIREMENT, Step, Waiting},
        observe::{state::Preparation, stored_result::StoredResult},
        plan,
        validate::attempt::ValidatedRun,
    },
};
use dragstrip_crds::{
    run::{FailureStatus, QueueStatus, RunPhase, SetbackStatus},
    units::counted,
};
use dragstrip_results::protocol::RunnerStage;
use std::collections::BTreeMap;

pub(super) fn phase_and_message(
    run: &ValidatedRun,
    stored: &BTreeMap<String, StoredResult>,
    step: &Step,
) -> (RunPhase, String) {
    let at = |index: &usize, what: &str| {
        let attempt = &run.attempts[*index];
        let (phase, repetition, details) = (&attempt.phase, attempt.repetition, attempt.details());
        format!("phase {phase}, repetition {repetition} of {}{details}: {what}", run.spec.repetitions)
    };
    match step {
        Step::MakeDatastore | Step::RemoveDatastore => (RunPhase::Provisioning, String::new()),
        Step::Wait(Waiting::TargetNotReady { own: true, message, .. }, _) => {
            (RunPhase::Provisioning, message.clone())
        }
        Step::Wait(Waiting::TargetMissing(message) | Waiting::TargetNotReady { message, .. }, _) => {
            (RunPhase::Pending, message.clone())
        }
        Step::Wait(Waiting::Setback(setback), _) => {
            (RunPhase::Pending, set_back(&setback.reason, &setback.message))
        }
        Step::StandBack { trouble, .. } => (RunPhase::Pending, set_back(&trouble.reason, &trouble.message)),
        Step::Wait(Waiting::Queue(queue), _) => (RunPhase::Queued, queued(queue)),
        Step::Wait(Waiting::Return, _) => {
            (RunPhase::Queued, "it released its turn, and its load is ending".to_owned())
        }
        Step::TakeTurn | Step::ReturnTurn => (RunPhase::Queued, String::new()),
        Step::Wait(Waiting::Clients { attempt, trouble: Some(trouble) }, _) => {
            (RunPhase::Preparing, at(attempt, &format!("{} ({})", trouble.message, trouble.reason)))
        }
        Step::Wait(Waiting::Clients { attempt, trouble: None }, _) | Step::CreateJob(attempt) => {
            (RunPhase::Preparing, at(attempt, "client pods are starting"))
        }
        Step::Wait(Waiting::Preparation(attempt, preparation), _) => {
            (RunPhase::Preparing, at(attempt, &prepares(preparation)))
        }
        Step::Wait(Waiting::Remains(attempt), _) => {
            let what = "a client pod or its node was lost; the repetition is measured again when its client pods are gone";
            (RunPhase::Preparing, at(attempt, what))
        }
        Step::Wait(Waiting::Leaving(attempt), _) => (
            RunPhase::Preparing,
            at(attempt, "an earlier Job of that name, or one of its pods, still exists"),
        ),
        Step::RemoveLost(_) | Step::RemoveOutdated(_) => (RunPhase::Preparing, String::new()),
        Step::Wait(Waiting::Load(attempt), _) => (RunPhase::Running, at(attempt, "load is running")),
        Step::SendStart(_) => (RunPhase::Running, String::new()),
        Step::Wait(Waiting::Log { attempt, why }, _) => {
            (RunPhase::Collecting, at(attempt, &format!("its result is not stored yet: {why}")))
        }
        Step::Wait(Waiting::Settling(attempt), _) => {
            (RunPhase::Collecting, at(attempt, "the servers' memory settles before it is read again"))
        }
        Step::Collect(_) | Step::ReadMemory(_) => (RunPhase::Collecting, String::new()),
        Step::Finish(Ending::Succeeded) => {
            (RunPhase::Succeeded, counted(plan::wanted(run, stored) as u64, "measurement") + " stored")
        }
        Step::Finish(Ending::Failed(failure)) => (RunPhase::Failed, failed(failure)),
        Step::Finish(Ending::Cancelled) => (RunPhase::Cancelled, "stopped by spec.cancel".to_owned()),
    }
}

fn prepares(preparation: &Preparation) -> String {
    let what = match preparation.stage {
        Some(RunnerStage::Loading) => "client pods write and count the keys of load",
        Some(RunnerStage::WarmingUp) => "client pods warm up",
        _ => return "client pods are starting".to_owned(),
    };
    preparation.percent.map_or_else(|| what.to_owned(), |percent| format!("{what}: {percent} % done"))
}

fn queued(queue: &QueueStatus) -> String {
    if queue.holder.name == NO_RUN {
        return format!(
            "Lease {} exists and belongs to no run: delete it if nothing else needs it",
            queue.lease
        );
    }
    format!(
        "waits for {}, which holds Lease {}; position {} in the queue",
        queue.holder, queue.lease, queue.position
    )
}

fn failed(failure: &FailureStatus) -> String {
    match (&failure.phase, failure.repetition, &failure.pod) {
        (Some(phase), Some(repetition), Some(pod)) => {
            format!("phase {phase}, repetition {repetition}, pod {pod}: {}", failure.message)
        }
        (Some(phase), Some(repetition), None) if failure.step == REQUIREMENT => {
            format!("phase {phase}, repetition {repetition}: {}", failure.message)
        }
        _ => failure.message.clone(),
    }
}

/// `text`, and the setback that the run has not overcome.
pub(super) fn with_setback(text: String, setback: Option<&SetbackStatus>) -> String {
    match setback {
        Some(setback) if text.contains(&setback.message) => {
            format!("{text}; retried after {}", counted(setback.count.unsigned_abs().into(), "setback"))
        }
        Some(setback) => format!("{text}; retries after {} ({})", setback.message, setback.reason),
        None => text,
    }
}

/// The same text at every try, so that it becomes an event only once.
fn set_back(reason: &str, message: &str) -> String {
    format!("{message} ({reason}); no load was sent; the run released its turn and retries by itself")
}

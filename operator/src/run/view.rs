//! What was fetched, as what a decision rests on. Pure.

use super::{
    decide::{AttemptState, Observed},
    fetch::{Fetched, job_ended, since},
    validate::{Attempt, ValidatedRun},
};
use crate::{cluster::pods, labels};
use dragstrip_crds::protocol::RunnerStage;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;

/// The start line written on a Job.
pub fn start_line(job: &Job) -> Option<Timestamp> {
    let nanos: i128 = job.annotations().get(labels::START_AT)?.parse().ok()?;
    Timestamp::from_nanosecond(nanos).ok()
}

fn attempt_state(run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> AttemptState {
    if let Some(result) = fetched.stored.get(&attempt.name) {
        return AttemptState::Stored(result.failure.clone());
    }
    let Some(job) = fetched.jobs.get(&attempt.name) else {
        return AttemptState::Absent;
    };
    if job_ended(job) {
        return AttemptState::Ended;
    }
    if let Some(start) = start_line(job) {
        let untold = fetched
            .runners
            .values()
            .any(|state| matches!(state.stage, RunnerStage::Preflight | RunnerStage::AtStartLine));
        return AttemptState::Ordered { start, untold };
    }
    let at_line = fetched.pods_of(&attempt.name).filter(|pod| pods::ready(pod)).count();
    if u32::try_from(at_line).is_ok_and(|count| count >= run.pods()) {
        return AttemptState::AtStartLine;
    }
    AttemptState::Starting(fetched.pods_of(&attempt.name).find_map(pods::trouble))
}

/// The view of `fetched` that [`decide`](super::decide::decide) takes.
pub fn view(run: &ValidatedRun, fetched: &Fetched) -> Observed {
    Observed {
        target: fetched.target.clone(),
        turn: fetched.turn(),
        since: since(run, fetched),
        attempts: run.attempts.iter().map(|attempt| attempt_state(run, attempt, fetched)).collect(),
    }
}

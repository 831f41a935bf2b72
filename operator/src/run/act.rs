//! Carries out one step. Needs the client and the runners.

pub mod applied;
pub mod names;
pub mod start;

use super::{
    build,
    collect::store,
    context::{Pass, RunContext, StepPass},
    fetch::{fetched::Fetched, target},
};
use crate::cluster::{
    apply::delete,
    lease::{self, Acquired},
    loads::{is_of_run, job_ended},
    pods,
};
use applied::Applied;
use dragstrip_core::{
    labels,
    lease::{LeaseKey, is_held_by},
    run::{
        attempts::client_silent_from,
        decide::{Step, TargetState, Waiting},
        plan::{Place, place_of},
        validate::Attempt,
    },
    trouble::{NO_PLACE, Trouble},
};
use dragstrip_crds::{BenchmarkRun, Datastore};
use dragstrip_results::error_chain::chain;
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, ResourceExt, api::ListParams};
use names::{create, current, refused, stranger};
use std::{sync::Arc, time::Duration};
use store::ResultName;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to check whether the run has ended")]
    ReadRun(#[source] kube::Error),
    #[error("failed to create the run's own Datastore")]
    CreateDatastore(#[source] kube::Error),
    #[error("failed to delete the run's own Datastore, which has an outdated declaration")]
    RemoveDatastore(#[source] kube::Error),
    #[error("failed to acquire the run's Leases")]
    Acquire(#[source] kube::Error),
    #[error("failed to release Lease {1}")]
    Release(#[source] kube::Error, String),
    #[error("failed to read Lease {1}")]
    ReadLease(#[source] kube::Error, String),
    #[error("failed to list the run's client pods before Job {1}")]
    ListPods(#[source] kube::Error, String),
    #[error("failed to write the runner's job")]
    WriteJob(#[source] serde_json::Error),
    #[error("failed to check whether the name {1} is free")]
    CheckName(#[source] kube::Error, String),
    #[error("failed to create Job {1}")]
    CreateJob(#[source] kube::Error, String),
    #[error("failed to delete Job {1}")]
    RemoveJob(#[source] kube::Error, String),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("failed to clean up after the run")]
    ClearUp(#[source] kube::Error),
}

/// Longest time before the retry of a start command: clients stand at the line, and others wait.
pub const LONGEST_START_WAIT: Duration = Duration::from_secs(5);

pub async fn apply(at: &StepPass<'_>, step: &Step) -> Result<Applied, Error> {
    let begins = matches!(step, Step::MakeDatastore | Step::TakeTurn | Step::CreateJob(_));
    let version = at.fetched.version.as_deref();
    // Nobody removes what is created for a run that has ended.
    if begins && !at.is_unchanged(&at.run.holder, version).await.map_err(Error::ReadRun)? {
        return Ok(Applied::Awaited);
    }
    match step {
        Step::Wait(..) | Step::Finish(_) => Ok(Applied::Nothing),
        Step::MakeDatastore => make_datastore(at).await,
        Step::RemoveDatastore => remove_datastore(at).await,
        Step::TakeTurn => take_turn(at).await,
        Step::CreateJob(index) => create_job(at, &at.run.attempts[*index]).await,
        Step::SendStart(index) => Ok(send_start(at, *index).await),
        Step::Collect(index) => Ok(store::result(at, *index).await?),
        Step::ReadMemory(index) => Ok(store::memory(at, *index).await?),
        Step::RemoveLost(index) | Step::RemoveOutdated(index) => {
            remove_job(at, &at.run.attempts[*index]).await?;
            Ok(Applied::Awaited)
        }
        Step::StandBack { .. } | Step::ReturnTurn if is_measured(at).await? => Ok(Applied::Superseded),
        Step::StandBack { attempt, .. } => {
            if let Some(index) = attempt {
                remove_job(at, &at.run.attempts[*index]).await?;
            }
            release(at).await
        }
        Step::ReturnTurn => release(at).await,
    }
}

async fn make_datastore(pass: &Pass<'_>) -> Result<Applied, Error> {
    let Some(own) = build::own_datastore(pass.run) else {
        return Ok(Applied::Nothing);
    };
    let trouble = create(pass, &own).await.map_err(Error::CreateDatastore)?;
    Ok(trouble.map_or(Applied::Progressed, Applied::Hindered))
}

/// Deletes the run's own Datastore if it has an outdated declaration, as the API server has it: a
/// watch may lag, and another operator may have deleted it.
async fn remove_datastore(pass: &Pass<'_>) -> Result<Applied, Error> {
    let datastores: Api<Datastore> = Api::namespaced(pass.client.clone(), &pass.run.holder.namespace);
    let found = datastores.get_opt(&pass.run.holder.name).await.map_err(Error::RemoveDatastore)?;
    if let Some(outdated) = found.filter(|found| target::is_outdated(found, pass.run)) {
        delete(&pass.client, &outdated).await.map_err(Error::RemoveDatastore)?;
    }
    Ok(Applied::Progressed)
}

/// Acquires all missing Leases or none. The next pass sees a Lease that another run got first.
async fn take_turn(at: &StepPass<'_>) -> Result<Applied, Error> {
    if let Some(trouble) = unplaceable(at.fetched) {
        return Ok(Applied::Hindered(trouble));
    }
    // A turn that ends before it begins would only make others wait.
    if let Place::At(current) = place_of(at.run, &at.fetched.snapshot.stored)
        && let Some(trouble) = job_name_taken(at, &at.run.attempts[current]).await?
    {
        return Ok(Applied::Hindered(trouble));
    }
    let missing =
        at.fetched.turn.iter().flat_map(|turn_check| turn_check.missing.clone()).collect::<Vec<_>>();
    let acquired =
        lease::acquire_all(&at.client, &at.overlay, &missing, &at.run.holder, Timestamp::now()).await;
    match acquired {
        Ok(Acquired::All | Acquired::Lost) => Ok(Applied::Awaited),
        Ok(Acquired::Reserved) => Ok(Applied::Progressed),
        // A quota on Leases: a run that cannot have them keeps no place before others.
        Err(error) => refused(&error).map(Applied::Hindered).ok_or(Error::Acquire(error)),
    }
}

/// Why the places of the clients cannot be determined, with the remedy.
fn unplaceable(fetched: &Fetched) -> Option<Trouble> {
    let message = fetched.turn.as_ref()?.unplaceable.clone()?;
    Some(Trouble { reason: NO_PLACE.to_owned(), message })
}

/// Whether another operator has stored the result of the measurement that this one takes for the next: then the turn
/// is in use, or it is over.
async fn is_measured(at: &StepPass<'_>) -> Result<bool, Error> {
    let Place::At(current) = place_of(at.run, &at.fetched.snapshot.stored) else { return Ok(false) };
    let name = store::result_name(at, &at.run.attempts[current]).await?;
    Ok(matches!(name, ResultName::Stored))
}

async fn release(pass: &Pass<'_>) -> Result<Applied, Error> {
    let leases = pass.leases();
    for held in leases.iter().filter(|lease| is_held_by(lease, &pass.run.holder)) {
        let released = lease::release(&pass.client, &pass.overlay, held).await;
        released.map_err(|error| Error::Release(error, LeaseKey::of(held).to_string()))?;
    }
    Ok(Applied::Awaited)
}

/// The trouble if somebody else's Job has the name of that of `attempt`.
async fn job_name_taken(pass: &Pass<'_>, attempt: &Attempt) -> Result<Option<Trouble>, Error> {
    let found = current::<Job>(pass, &attempt.name).await;
    let found = found.map_err(|error| Error::CheckName(error, attempt.name.clone()))?;
    Ok(found.and_then(|found| stranger(&found, pass.run)))
}

async fn create_job(at: &StepPass<'_>, attempt: &Attempt) -> Result<Applied, Error> {
    let (TargetState::Ready(target), Some(turn_check)) = (&at.fetched.snapshot.target, &at.fetched.turn)
    else {
        return Ok(Applied::Nothing);
    };
    if let Some(trouble) = unplaceable(at.fetched) {
        return Ok(Applied::Hindered(trouble));
    }
    match store::result_name(at, attempt).await? {
        ResultName::Free => {}
        ResultName::Stored => return Ok(Applied::Superseded),
        ResultName::Taken(trouble) => return Ok(Applied::Hindered(trouble)),
    }
    // Another operator may have released the turn, and a watch may lag.
    for key in &turn_check.held {
        let lease = lease::find(&at.client, key).await;
        let lease = lease.map_err(|error| Error::ReadLease(error, key.to_string()))?;
        if !lease.is_some_and(|lease| is_held_by(&lease, &at.run.holder)) {
            return Ok(Applied::Awaited);
        }
    }
    if is_client_left(at).await.map_err(|error| Error::ListPods(error, attempt.name.clone()))? {
        return Ok(Applied::Awaited);
    }
    let mut job = build::job(at.run, attempt, target, turn_check, &at.settings).map_err(Error::WriteJob)?;
    // The run itself declares an address.
    if at.run.spec.target.external().is_none() {
        let json = serde_json::to_string(&target.connection).map_err(Error::WriteJob)?;
        job.annotations_mut().insert(labels::CONNECTION.to_owned(), json);
    }
    let trouble = create(at, &job).await;
    let trouble = trouble.map_err(|error| Error::CreateJob(error, attempt.name.clone()))?;
    Ok(trouble.map_or(Applied::Awaited, Applied::Hindered))
}

/// Whether a client of an earlier Job of the run may still load, as the API server has it: a watch that does not
/// show its pod shows nothing that could be waited for.
async fn is_client_left(at: &StepPass<'_>) -> kube::Result<bool> {
    let clients: Api<Pod> = Api::namespaced(at.client.clone(), &at.run.holder.namespace);
    let own = ListParams::default()
        .labels(&format!("{}={}", labels::RUN_UID, at.run.holder.uid))
        .fields("status.phase!=Succeeded,status.phase!=Failed");
    let now = Timestamp::now();
    let may_load = |pod: &Pod| {
        // Anybody may write labels.
        let attempt = at.run.attempts.iter().find(|attempt| pods::is_of_job(pod, &attempt.name, None));
        attempt.is_some_and(|attempt| {
            client_silent_from(at.run, attempt, at.fetched, pod).is_none_or(|silent| silent > now)
        })
    };
    Ok(clients.list(&own).await?.items.iter().any(may_load))
}

async fn send_start(at: &StepPass<'_>, index: usize) -> Applied {
    let job = at.fetched.jobs.get(&at.run.attempts[index].name);
    let uid = job.and_then(|job| job.metadata.uid.clone()).unwrap_or_default();
    match start::send(at, index).await {
        Ok(()) => {
            at.retries.settled(&uid);
            Applied::Awaited
        }
        Err(error) => {
            // An API server that is away says nothing about the runners.
            let unreachable = matches!(error, start::Error::ReadClock(..) | start::Error::SendStart(..));
            let reason = if unreachable { "RunnersUnreachable" } else { "StartLine" };
            let trouble = Trouble { reason: reason.to_owned(), message: chain(&error) };
            if unreachable {
                at.retries.again(&uid, &trouble.message, LONGEST_START_WAIT);
            }
            let waiting = Waiting::Clients { attempt: index, trouble: Some(trouble.clone()) };
            Applied::Delayed(trouble, Step::Wait(waiting, None))
        }
    }
}

/// Deletes the Job of `attempt` with its pods: their results are stored, or they never loaded.
async fn remove_job(at: &StepPass<'_>, attempt: &Attempt) -> Result<(), Error> {
    match at.fetched.jobs.get(&attempt.name) {
        Some(job) => {
            delete(&at.client, &**job).await.map_err(|error| Error::RemoveJob(error, attempt.name.clone()))
        }
        None => Ok(()),
    }
}

/// Whether `job` must stay: the logs of ended Jobs are evidence, and so are those of Jobs whose
/// pods have ended before the Job controller noticed.
fn is_evidence(job: &Job, pods: &[Arc<Pod>]) -> bool {
    let expected = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
    let name = job.name_any();
    let own =
        pods.iter().map(Arc::as_ref).filter(|pod| pods::is_of_job(pod, &name, job.metadata.uid.as_deref()));
    job_ended(job) || pods::all_ended(own, usize::try_from(expected).unwrap_or(1).max(1))
}

/// Stops the load of an ended `run` and removes its own Datastore, not its Leases. Safe to repeat.
pub async fn clear_up(ctx: &RunContext, run: &BenchmarkRun) -> Result<(), Error> {
    let uid = run.uid().unwrap_or_default();
    // The watch may not show a Job yet that was created a moment ago and would load for its whole time.
    let namespace = run.namespace().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &namespace);
    let own = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
    let jobs = jobs.list(&own).await.map_err(Error::ClearUp)?.items;
    let pods = ctx.world.pods.state_filter(|pod| is_of_run(pod, &namespace, &uid));
    for job in jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none() && !is_evidence(job, &pods))
    {
        delete(&ctx.client, job).await.map_err(Error::ClearUp)?;
    }
    // The same is true of its own Datastore, which has its name.
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &namespace);
    let found = datastores.get_metadata_opt(&run.name_any()).await.map_err(Error::ClearUp)?;
    let own = found.filter(|found| found.owner_references().iter().any(|owner| owner.uid == uid));
    if let Some(own) = own.filter(|own| own.metadata.deletion_timestamp.is_none()) {
        delete(&ctx.client, &own).await.map_err(Error::ClearUp)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_stays_if_it_or_all_its_pods_have_ended() {
        let job = |status| -> Job {
            serde_json::from_value(json!({
                "metadata": {"name": "sprint-read-1", "uid": "job-uid"}, "status": status,
                "spec": {"completions": 2, "template": {}}
            }))
            .unwrap()
        };
        let pod = |phase: &str| -> Arc<Pod> {
            let pod = serde_json::from_value(json!({
                "metadata": {"ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "sprint-read-1", "uid": "job-uid",
                    "controller": true
                }]},
                "status": {"phase": phase}
            }));
            Arc::new(pod.unwrap())
        };
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert!(is_evidence(&job(ended), &[]));
        let active = || job(json!({"active": 2}));
        assert!(is_evidence(&active(), &[pod("Succeeded"), pod("Failed")]), "the logs would be lost");
        assert!(!is_evidence(&active(), &[pod("Succeeded"), pod("Running")]), "load would continue");
        assert!(!is_evidence(&active(), &[pod("Succeeded")]), "the Job may still create a pod");
        assert!(!is_evidence(&active(), &[]));
    }
}

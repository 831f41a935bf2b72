//! Carries out one step. Needs the client and the runners.

mod store;

use super::{
    build,
    collect::NotYet,
    fetch::{Fetched, is_of_run, job_ended},
    start, target,
};
use crate::{
    cluster::{
        apply::delete,
        finished::FinishedRun,
        lease::{self, Acquired},
        pods,
    },
    context::Context,
};
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    lease::{LeaseKey, is_held_by},
    run::{
        decide::{ReadyTarget, Step, TargetState},
        plan::{Place, place_of},
        validate::{Attempt, ValidatedRun},
    },
    trouble::Trouble,
};
use dragstrip_crds::{BenchmarkRun, Datastore};
use dragstrip_results::error_chain::chain;
use dragstrip_results::stored;
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PartialObjectMeta, PostParams},
};
use std::sync::Arc;
use store::ResultName;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to check whether the run has ended")]
    ReadRun(#[source] kube::Error),
    #[error("failed to create the run's own Datastore")]
    MakeDatastore(#[source] kube::Error),
    #[error("failed to delete the run's own Datastore, which has an outdated declaration")]
    RemoveDatastore(#[source] kube::Error),
    #[error("failed to acquire the run's Leases")]
    TakeTurn(#[source] kube::Error),
    #[error("failed to release Lease {1}")]
    GiveBack(#[source] kube::Error, String),
    #[error("failed to write the runner's job")]
    WriteJob(#[source] serde_json::Error),
    #[error("failed to check whether the name {1} is free")]
    LookAtName(#[source] kube::Error, String),
    #[error("failed to create Job {1}")]
    CreateJob(#[source] kube::Error, String),
    #[error("failed to delete Job {1}")]
    RemoveJob(#[source] kube::Error, String),
    #[error("failed to list the pods of Job {1}")]
    ListPods(#[source] kube::Error, String),
    #[error(transparent)]
    Pack(#[from] stored::Error),
    #[error("failed to write the servers' memory")]
    WriteMemory(#[source] serde_json::Error),
    #[error("failed to store the result in ConfigMap {1}")]
    Store(#[source] kube::Error, String),
    #[error("failed to clean up after the run")]
    ClearUp(#[source] kube::Error),
}

/// What carrying out a step led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Something was done: look again at once.
    Progressed,
    /// Something was done whose own event brings the next look.
    Awaited,
    Nothing,
    /// Not possible now, and nothing runs: the turn is to be given back, where that loses nothing.
    Hindered(Trouble),
    /// Not possible now, though it may be in a moment; what runs goes on.
    Delayed(Trouble),
    /// A log cannot be read yet.
    LogPending(NotYet),
    /// What was measured was not stored.
    NotStored {
        /// What stands in the way.
        why: String,
        /// When to try again; `None` when that was done for long enough.
        until: Option<Timestamp>,
    },
}

fn already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// What the apiserver, or an admission policy, refused for good, in its words.
fn refused(error: &kube::Error) -> Option<Trouble> {
    let kube::Error::Api(status) = error else { return None };
    let for_good = matches!(status.code, 400 | 403 | 422);
    for_good.then(|| Trouble { reason: "Refused".to_owned(), message: status.message.clone() })
}

/// The target, if clients may be sent to it.
fn ready_target(fetched: &Fetched) -> Option<&ReadyTarget> {
    match &fetched.snapshot.target {
        TargetState::Ready(target) => Some(target),
        _ => None,
    }
}

/// Carries out `step`.
pub async fn apply(
    ctx: &Context,
    run: &ValidatedRun,
    fetched: &Fetched,
    step: &Step,
) -> Result<Applied, Error> {
    let begins = matches!(step, Step::MakeDatastore | Step::TakeTurn | Step::CreateJob(_));
    if begins && !is_under_way(ctx, run).await? {
        return Ok(Applied::Awaited);
    }
    match step {
        Step::Wait(..) | Step::Finish(_) => Ok(Applied::Nothing),
        Step::MakeDatastore => make_datastore(ctx, run).await,
        Step::RemoveDatastore => remove_datastore(ctx, run).await,
        Step::TakeTurn => take_turn(ctx, run, fetched).await,
        Step::CreateJob(index) => create_job(ctx, run, &run.attempts[*index], fetched).await,
        Step::SendStart(index) => Ok(match start::send(ctx, run, &run.attempts[*index], fetched).await {
            Ok(()) => Applied::Awaited,
            Err(error) => {
                Applied::Delayed(Trouble { reason: "RunnersUnreachable".to_owned(), message: chain(&error) })
            }
        }),
        Step::Collect(index) => store::result(ctx, run, &run.attempts[*index], fetched).await,
        Step::ReadMemory(index) => store::memory(ctx, run, &run.attempts[*index], fetched).await,
        Step::RemoveLost(index) | Step::RemoveOutdated(index) => {
            remove_job(ctx, &run.attempts[*index], fetched).await?;
            Ok(Applied::Awaited)
        }
        Step::StandBack { attempt, .. } => {
            if let Some(index) = attempt {
                remove_job(ctx, &run.attempts[*index], fetched).await?;
            }
            give_back(ctx, run).await
        }
        Step::ReturnTurn => give_back(ctx, run).await,
    }
}

/// Whether `run` has not ended as the apiserver has it: a watch that has stalled may show one as
/// it was minutes ago, and what is made for a run that has ended nobody removes.
async fn is_under_way(ctx: &Context, run: &ValidatedRun) -> Result<bool, Error> {
    let runs: Api<FinishedRun> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let found = runs.get_opt(&run.holder.name).await.map_err(Error::ReadRun)?;
    Ok(found.is_some_and(|found| {
        found.uid().as_ref() == Some(&run.holder.uid)
            && found.finished_at().is_none()
            && found.metadata.deletion_timestamp.is_none()
    }))
}

async fn make_datastore(ctx: &Context, run: &ValidatedRun) -> Result<Applied, Error> {
    let Some(own) = target::own(run) else {
        return Ok(Applied::Nothing);
    };
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    // Created, not applied: a Datastore of the same name may be somebody else's.
    match datastores.create(&PostParams::default(), &own).await {
        Ok(_) => Ok(Applied::Progressed),
        Err(error) if already_there(&error) => Ok(Applied::Progressed),
        Err(error) => refused(&error).map(Applied::Hindered).ok_or(Error::MakeDatastore(error)),
    }
}

/// Deletes the run's own Datastore if it is of a former declaration. Looked at once more: a
/// watch, or another operator, may have been quicker.
async fn remove_datastore(ctx: &Context, run: &ValidatedRun) -> Result<Applied, Error> {
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let found = datastores.get_opt(&run.holder.name).await.map_err(Error::RemoveDatastore)?;
    if let Some(outdated) = found.filter(|found| target::is_outdated(found, run)) {
        delete(&ctx.client, &outdated).await.map_err(Error::RemoveDatastore)?;
    }
    Ok(Applied::Progressed)
}

/// Takes every Lease that is not held yet, or none. One that somebody else took first
/// shows at the next look.
async fn take_turn(ctx: &Context, run: &ValidatedRun, fetched: &Fetched) -> Result<Applied, Error> {
    if let Some(trouble) = unplaceable(fetched) {
        return Ok(Applied::Hindered(trouble));
    }
    // A turn that ends before it begins would only keep others waiting.
    if let Place::At(current) = place_of(run, &fetched.snapshot.stored)
        && let Some(trouble) = job_name_taken(ctx, run, &run.attempts[current]).await?
    {
        return Ok(Applied::Hindered(trouble));
    }
    let missing = fetched.turn.iter().flat_map(|turn_check| turn_check.missing.clone()).collect::<Vec<_>>();
    let taken = lease::acquire_all(&ctx.client, &ctx.overlay, &missing, &run.holder, Timestamp::now()).await;
    match taken {
        Ok(Acquired::All | Acquired::Lost) => Ok(Applied::Awaited),
        Ok(Acquired::Reserved) => Ok(Applied::Progressed),
        // A quota on Leases: a run that cannot have them keeps no place before others.
        Err(error) => refused(&error).map(Applied::Hindered).ok_or(Error::TakeTurn(error)),
    }
}

/// That nobody can tell where the clients are to be, in words with the remedy.
fn unplaceable(fetched: &Fetched) -> Option<Trouble> {
    let message = fetched.turn.as_ref()?.unplaceable.clone()?;
    Some(Trouble { reason: "NoPlace".to_owned(), message })
}

/// Gives every Lease back that the run holds.
async fn give_back(ctx: &Context, run: &ValidatedRun) -> Result<Applied, Error> {
    let leases = ctx.leases();
    for held in leases.iter().filter(|lease| is_held_by(lease, &run.holder)) {
        let given = lease::release(&ctx.client, &ctx.overlay, held).await;
        given.map_err(|error| Error::GiveBack(error, LeaseKey::of(held).to_string()))?;
    }
    Ok(Applied::Awaited)
}

/// Who has a name that the run needs, if it is not the run itself.
fn stranger(kind: &str, object: &impl ResourceExt, run: &ValidatedRun) -> Option<Trouble> {
    if object.owner_references().iter().any(|owner| owner.uid == run.holder.uid) {
        return None;
    }
    let owner = object.owner_references().first().map(|owner| format!(" (of {} {})", owner.kind, owner.name));
    let message = format!(
        "{kind} {} exists{} and does not belong to this run: delete it, or create the run under another name",
        object.name_any(),
        owner.unwrap_or_default()
    );
    Some(Trouble { reason: "NameTaken".to_owned(), message })
}

/// What has the name of the Job of `attempt` at this moment.
async fn job_now(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
) -> Result<Option<PartialObjectMeta<Job>>, Error> {
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let found = jobs.get_metadata_opt(&attempt.name).await;
    found.map_err(|error| Error::LookAtName(error, attempt.name.clone()))
}

/// Whether somebody else has the name of the Job of `attempt`.
async fn job_name_taken(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
) -> Result<Option<Trouble>, Error> {
    Ok(job_now(ctx, run, attempt).await?.and_then(|found| stranger("Job", &found, run)))
}

async fn create_job(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Applied, Error> {
    let (Some(target), Some(turn_check)) = (ready_target(fetched), &fetched.turn) else {
        return Ok(Applied::Nothing);
    };
    if let Some(trouble) = unplaceable(fetched) {
        return Ok(Applied::Hindered(trouble));
    }
    match store::result_name(ctx, run, attempt).await? {
        ResultName::Free => {}
        ResultName::Stored => return Ok(Applied::Progressed),
        ResultName::Taken(trouble) => return Ok(Applied::Hindered(trouble)),
    }
    let mut job = build::job(run, attempt, target, turn_check, &ctx.settings).map_err(Error::WriteJob)?;
    // An address is declared by the run itself.
    if run.spec.target.external.is_none() {
        let json = serde_json::to_string(&target.connection).map_err(Error::WriteJob)?;
        job.annotations_mut().insert(labels::CONNECTION.to_owned(), json);
    }
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let parameters = PostParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PostParams::default() };
    match jobs.create(&parameters, &job).await {
        Ok(_) => Ok(Applied::Awaited),
        Err(error) if already_there(&error) => {
            // The run's own, which the watch has not told yet.
            Ok(job_name_taken(ctx, run, attempt).await?.map_or(Applied::Awaited, Applied::Hindered))
        }
        Err(error) => {
            refused(&error).map(Applied::Hindered).ok_or(Error::CreateJob(error, attempt.name.clone()))
        }
    }
}

/// Deletes the Job of `attempt` and with it its pods: what they left is stored, or they
/// never loaded anything.
async fn remove_job(ctx: &Context, attempt: &Attempt, fetched: &Fetched) -> Result<(), Error> {
    match fetched.jobs.get(&attempt.name) {
        Some(job) => {
            delete(&ctx.client, &**job).await.map_err(|error| Error::RemoveJob(error, attempt.name.clone()))
        }
        None => Ok(()),
    }
}

/// Whether `job` must be kept: ended Jobs stay, since their pods' logs are the
/// evidence, and so do Jobs whose pods have ended before the Job controller knew.
fn is_evidence(job: &Job, pods: &[Arc<Pod>]) -> bool {
    let expected = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
    let name = job.name_any();
    let own =
        pods.iter().map(Arc::as_ref).filter(|pod| pods::is_of_job(pod, &name, job.metadata.uid.as_deref()));
    job_ended(job) || pods::all_ended(own, usize::try_from(expected).unwrap_or(1).max(1))
}

/// At the end of `run`: its load stopped and its own Datastore removed; the keeper of
/// turns does the rest. Safe to repeat.
pub async fn clear_up(ctx: &Context, run: &BenchmarkRun) -> Result<(), Error> {
    let uid = run.uid().unwrap_or_default();
    // A Job made a moment ago, which the watch has not told yet, would load for its whole time.
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
    fn a_job_is_kept_when_it_or_all_its_pods_have_ended() {
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
        assert!(!is_evidence(&active(), &[pod("Succeeded"), pod("Running")]), "load would go on");
        assert!(!is_evidence(&active(), &[pod("Succeeded")]), "a pod may still be made");
        assert!(!is_evidence(&active(), &[]));
    }

    #[test]
    fn what_is_not_the_runs_is_told_with_its_owner_and_the_remedy() {
        let run = dragstrip_core::run::validate::validate(&crate::fixtures::run(&["read"], 1)).unwrap();
        let job = |uid: &str| -> Job {
            serde_json::from_value(json!({"metadata": {"name": "sprint-read-1", "ownerReferences": [
                {"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "name": "other", "uid": uid}
            ]}}))
            .unwrap()
        };
        assert_eq!(stranger("Job", &job("run-uid"), &run), None);
        let reported = stranger("Job", &job("other-uid"), &run).unwrap().message;
        assert!(reported.contains("Job sprint-read-1 exists (of BenchmarkRun other)"), "{reported}");
        assert!(reported.contains("under another name"), "{reported}");
    }

    #[test]
    fn only_what_is_refused_for_good_gives_the_turn_back() {
        let error = |code: u16| {
            let status = kube::core::Status::failure("exceeded quota", "Forbidden").with_code(code);
            kube::Error::Api(status.boxed())
        };
        assert_eq!(refused(&error(403)).unwrap().message, "exceeded quota");
        assert_eq!(refused(&error(500)), None, "an apiserver in trouble is asked again");
    }
}

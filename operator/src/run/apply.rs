//! Carries out one step. Needs the client and the runners.

use super::{
    build, collect,
    decide::{ReadyTarget, Step, TargetState},
    fetch::{Fetched, job_ended},
    order,
    validate::{Attempt, ValidatedRun},
};
use crate::{
    cluster::{
        apply::{apply as apply_object, delete},
        lease, pods,
    },
    context::Context,
    labels::{self, RUN_MANAGER},
};
use dragstrip_crds::Datastore;
use dragstrip_results::stored;
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run's own Datastore could not be made.
    #[error("failed to make the run's own Datastore")]
    MakeDatastore(#[source] kube::Error),
    /// A Lease could not be taken.
    #[error("failed to take the Lease {1}")]
    TakeTurn(#[source] kube::Error, String),
    /// The runner's job could not be written as JSON.
    #[error("failed to write the runner's job")]
    WriteJob(#[source] serde_json::Error),
    /// The Job could not be created.
    #[error("failed to create Job {1}")]
    CreateJob(#[source] kube::Error, String),
    /// The order to start could not be given.
    #[error(transparent)]
    Order(#[from] order::Error),
    /// The Job of a lost attempt could not be removed.
    #[error("failed to delete Job {1}, which lost a client")]
    RemoveLost(#[source] kube::Error, String),
    /// A result could not be packed.
    #[error(transparent)]
    Pack(#[from] stored::Error),
    /// A result could not be stored.
    #[error("failed to store the result in ConfigMap {1}")]
    Store(#[source] kube::Error, String),
    /// What a finished run leaves could not be removed.
    #[error("failed to clear up after the run")]
    ClearUp(#[source] kube::Error),
}

/// What carrying out a step led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Something was done: look again at once.
    Progressed,
    /// Nothing to do.
    Nothing,
}

fn already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

fn ready_target(fetched: &Fetched) -> Option<&ReadyTarget> {
    match &fetched.target {
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
    match step {
        Step::Wait(..) | Step::Finish(_) => return Ok(Applied::Nothing),
        Step::MakeDatastore => make_datastore(ctx, run).await?,
        Step::TakeTurn => take_turn(ctx, run, fetched).await?,
        Step::CreateJob(index) => create_job(ctx, run, &run.attempts[*index], fetched).await?,
        Step::GiveOrder(index) => order::give(ctx, run, &run.attempts[*index], fetched).await?,
        Step::Collect(index) => store(ctx, run, &run.attempts[*index], fetched).await?,
        Step::RemoveLost(index) => remove_lost(ctx, &run.attempts[*index], fetched).await?,
    }
    Ok(Applied::Progressed)
}

async fn make_datastore(ctx: &Context, run: &ValidatedRun) -> Result<(), Error> {
    let Some(spec) = &run.spec.target.datastore else {
        return Ok(());
    };
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    // Created, not applied: a Datastore of the same name may be somebody else's.
    match datastores.create(&PostParams::default(), &build::datastore(run, spec)).await {
        Err(error) if !already_there(&error) => Err(Error::MakeDatastore(error)),
        _ => Ok(()),
    }
}

/// Takes every Lease that is not held yet. One that somebody else took first
/// shows at the next look.
async fn take_turn(ctx: &Context, run: &ValidatedRun, fetched: &Fetched) -> Result<(), Error> {
    let now = Timestamp::now();
    for found in fetched.turn.iter().flat_map(|looked| &looked.found) {
        if found.holder.as_ref() == Some(&run.holder) {
            continue;
        }
        let taken = lease::take(&ctx.client, &found.key, &run.holder, now).await;
        if !taken.map_err(|error| Error::TakeTurn(error, found.key.to_string()))? {
            break;
        }
    }
    Ok(())
}

async fn create_job(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<(), Error> {
    let (Some(target), Some(first)) =
        (ready_target(fetched), fetched.turn.as_ref().and_then(|looked| looked.found.first()))
    else {
        return Ok(());
    };
    let job = build::job(run, attempt, target, &first.key, &ctx.settings).map_err(Error::WriteJob)?;
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    match jobs
        .create(&PostParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PostParams::default() }, &job)
        .await
    {
        Err(error) if !already_there(&error) => Err(Error::CreateJob(error, attempt.name.clone())),
        _ => Ok(()),
    }
}

async fn store(ctx: &Context, run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> Result<(), Error> {
    let pods: Vec<&Pod> = fetched.pods_of(&attempt.name).collect();
    let result = collect::read(&ctx.client, run, attempt, &pods).await;
    let parts = stored::pack(&result)?;
    for config_map in build::config_maps(run, attempt, fetched.jobs.get(&attempt.name), parts) {
        apply_object(&ctx.client, RUN_MANAGER, &config_map)
            .await
            .map_err(|error| Error::Store(error, config_map.name_any()))?;
    }
    Ok(())
}

/// Deletes the Job of a lost attempt and with it its pods, so that their load
/// cannot meet the next attempt's. What they left is stored.
async fn remove_lost(ctx: &Context, attempt: &Attempt, fetched: &Fetched) -> Result<(), Error> {
    match fetched.jobs.get(&attempt.name) {
        Some(job) => {
            delete(&ctx.client, job).await.map_err(|error| Error::RemoveLost(error, attempt.name.clone()))
        }
        None => Ok(()),
    }
}

/// Whether `job` must be kept: ended Jobs stay, since their pods' logs are the
/// evidence, and so do Jobs whose pods have ended before the Job controller knew.
fn is_evidence(job: &Job, pods: &[Pod]) -> bool {
    let expected = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1);
    let name = job.name_any();
    let own = pods.iter().filter(|pod| pod.labels().get("batch.kubernetes.io/job-name") == Some(&name));
    job_ended(job) || pods::all_ended(own, usize::try_from(expected).unwrap_or(1).max(1))
}

/// After a run: its load stopped and its own Datastore removed; the keeper of
/// turns does the rest. Safe to repeat; does nothing when there is nothing left.
pub async fn clear_up(ctx: &Context, run: &ValidatedRun) -> Result<(), Error> {
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let own = ListParams::default().labels(&format!("{}={}", labels::RUN_UID, run.holder.uid));
    let jobs = jobs.list(&own).await.map_err(Error::ClearUp)?.items;
    let pods = pods.list(&own).await.map_err(Error::ClearUp)?.items;
    for job in jobs.iter().filter(|job| !is_evidence(job, &pods)) {
        delete(&ctx.client, job).await.map_err(Error::ClearUp)?;
    }
    if run.spec.target.datastore.is_some() {
        let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
        let own = datastores.get_opt(&run.holder.name).await.map_err(Error::ClearUp)?;
        if let Some(own) = own.filter(|own| own.owner_references().iter().any(|o| o.uid == run.holder.uid)) {
            delete(&ctx.client, &own).await.map_err(Error::ClearUp)?;
        }
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
                "metadata": {"name": "sprint-read-1"}, "status": status,
                "spec": {"completions": 2, "template": {}}
            }))
            .unwrap()
        };
        let pod = |phase: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"labels": {"batch.kubernetes.io/job-name": "sprint-read-1"}},
                "status": {"phase": phase}
            }))
            .unwrap()
        };
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert!(is_evidence(&job(ended), &[]));
        let active = || job(json!({"active": 2}));
        assert!(is_evidence(&active(), &[pod("Succeeded"), pod("Failed")]), "the logs would be lost");
        assert!(!is_evidence(&active(), &[pod("Succeeded"), pod("Running")]), "load would go on");
        assert!(!is_evidence(&active(), &[pod("Succeeded")]), "a pod may still be made");
        assert!(!is_evidence(&active(), &[]));
    }
}

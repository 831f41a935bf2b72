//! Carries out one step. Needs the client and the runners.

use super::{
    build, collect,
    decide::{ReadyTarget, Step, TargetState},
    fetch::Fetched,
    validate::{Attempt, ValidatedRun},
};
use crate::{
    cluster::{
        agents::AgentError,
        apply::{apply as apply_object, delete},
        lease,
    },
    context::Context,
    labels::{self, RUN_MANAGER},
};
use dragstrip_crds::{Datastore, protocol::StartOrder};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};

/// From the order to the start line: time for every pod to be told, and for
/// tools that connect first to do so.
const START_LEAD: SignedDuration = SignedDuration::from_millis(1500);

/// Longest time that telling all pods may take.
const TELLING: SignedDuration = SignedDuration::from_millis(300);

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
    /// The start line could not be written on the Job.
    #[error("failed to write the start line on Job {1}")]
    FixStartLine(#[source] kube::Error, String),
    /// A runner could not be told to start.
    #[error("failed to give pod {1} its order to start")]
    GiveOrder(#[source] AgentError, String),
    /// A result could not be packed.
    #[error(transparent)]
    Pack(#[from] collect::Error),
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
        Step::GiveOrder(index) => give_order(ctx, run, &run.attempts[*index], fetched).await?,
        Step::Collect(index) => store(ctx, run, &run.attempts[*index], fetched).await?,
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

/// Whether the start line `start` can still be told: it lies far enough ahead,
/// or some pod has it already and the others must not get another.
fn still_good(start: Timestamp, now: Timestamp, job: &str, fetched: &Fetched) -> bool {
    let told_to_some = || {
        fetched.pods_of(job).any(|pod| match fetched.runners.get(&pod.name_any()) {
            Some(runner) => runner.start_at_unix_nanos.is_some(),
            // A pod that does not answer may have it.
            None => true,
        })
    };
    start > now + TELLING || told_to_some()
}

/// The start line of `job`, written on it first: an operator that dies between
/// writing and telling finds it again, and replaces it only if it has passed
/// before anybody was told. `None` when the Job changed since it was looked at.
async fn fix_start_line(
    ctx: &Context,
    run: &ValidatedRun,
    job: &Job,
    fetched: &Fetched,
) -> Result<Option<Timestamp>, Error> {
    let now = Timestamp::now();
    if let Some(start) =
        super::view::start_line(job).filter(|start| still_good(*start, now, &job.name_any(), fetched))
    {
        return Ok(Some(start));
    }
    let start = now + START_LEAD;
    let patch = serde_json::json!({"metadata": {
        "resourceVersion": job.resource_version(),
        "annotations": {labels::START_AT: start.as_nanosecond().to_string()},
    }});
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let parameters = PatchParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PatchParams::default() };
    match jobs.patch(&job.name_any(), &parameters, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(Some(start)),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(None),
        Err(error) => Err(Error::FixStartLine(error, job.name_any())),
    }
}

fn nanoseconds(instant: Timestamp) -> i64 {
    // Fits until the year 2262.
    i64::try_from(instant.as_nanosecond()).unwrap_or(i64::MAX)
}

async fn give_order(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<(), Error> {
    let Some(job) = fetched.jobs.get(&attempt.name) else {
        return Ok(());
    };
    let Some(start) = fix_start_line(ctx, run, job, fetched).await? else {
        return Ok(());
    };
    let start_at_unix_nanos = nanoseconds(start);
    let token = run.token(attempt);
    let told = fetched.pods_of(&attempt.name).filter_map(|pod| {
        let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
        Some((pod.name_any(), address))
    });
    let orders = told.map(|(pod, address)| {
        let order = StartOrder {
            start_at_unix_nanos,
            sent_at_unix_nanos: nanoseconds(Timestamp::now()),
        };
        let (agents, token) = (ctx.agents.clone(), token.clone());
        async move {
            agents
                .start(address, &token, order)
                .await
                .map_err(|error| Error::GiveOrder(error, pod))
        }
    });
    futures::future::try_join_all(orders).await?;
    Ok(())
}

async fn store(ctx: &Context, run: &ValidatedRun, attempt: &Attempt, fetched: &Fetched) -> Result<(), Error> {
    let pods: Vec<&Pod> = fetched.pods_of(&attempt.name).collect();
    let result = collect::read(&ctx.client, run, attempt, &pods).await;
    let config_map = build::config_map(run, attempt, collect::pack(&result)?);
    apply_object(&ctx.client, RUN_MANAGER, &config_map)
        .await
        .map_err(|error| Error::Store(error, attempt.name.clone()))?;
    Ok(())
}

/// After a run: its load stopped and its own Datastore removed; the keeper of
/// turns does the rest. Safe to repeat; does nothing when there is nothing left.
pub async fn clear_up(ctx: &Context, run: &ValidatedRun) -> Result<(), Error> {
    let jobs: Api<Job> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let selector = format!("{}={}", labels::RUN_UID, run.holder.uid);
    let parameters = kube::api::ListParams::default().labels(&selector);
    for job in jobs.list(&parameters).await.map_err(Error::ClearUp)?.items {
        // Ended Jobs stay: their pods' logs are the evidence.
        if !super::fetch::job_ended(&job) {
            delete(&ctx.client, &job).await.map_err(Error::ClearUp)?;
        }
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

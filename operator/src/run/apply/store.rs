//! Stores what was measured. Needs the client and the observers.

use super::{Applied, Error, already_there, job_now, refused, stranger};
use crate::{
    cluster::pods,
    context::Context,
    run::{build, collect, evidence, fetch::Fetched, machines, target},
};
use dragstrip_core::{
    labels::{self, RUN_MANAGER},
    run::{
        judge,
        merge::{failure, merge},
        stored_result,
        validate::{Attempt, ValidatedRun},
    },
    trouble::Trouble,
};
use dragstrip_crds::run::{MemoryMoment, MemoryReading};
use dragstrip_results::{
    result::{Failure, FailureStep, PodFailure, PodResult, RepetitionResult},
    stored,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use std::sync::Arc;

/// For how long what the apiserver refuses to store is tried again, while others wait for the turn.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Who has the name under which the result of an attempt is to be stored.
pub(super) enum ResultName {
    Free,
    /// The run itself: another operator stored the result, and measuring or storing it
    /// again would replace what counts already.
    Stored,
    Taken(Trouble),
}

/// Looked at before load is sent, and before a result is stored.
pub(super) async fn result_name(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
) -> Result<ResultName, Error> {
    let config_maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let found = config_maps.get_metadata_opt(&attempt.name).await;
    let found = found.map_err(|error| Error::LookAtName(error, attempt.name.clone()))?;
    let Some(found) = found else { return Ok(ResultName::Free) };
    Ok(stranger("ConfigMap", &found, run).map_or_else(
        || {
            // What this operator remembers is not all there is.
            ctx.result_cache.forget(&run.holder.uid);
            ResultName::Stored
        },
        ResultName::Taken,
    ))
}

/// The pods of `attempt` as they are at this moment: the watch may not know yet what the last of them left.
async fn pods_now(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Vec<Pod>, Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let own = ListParams::default().labels(&format!("{}={}", labels::RUN_UID, run.holder.uid));
    let list = pods.list(&own).await.map_err(|error| Error::ListPods(error, attempt.name.clone()))?;
    let job = fetched.jobs.get(&attempt.name).and_then(|job| job.metadata.uid.as_deref());
    Ok(list.items.into_iter().filter(|pod| pods::is_of_job(pod, &attempt.name, job)).collect())
}

/// Creates `config_map`, which is never written again; what keeps it from being stored, such as
/// a quota, or that another than the run itself has its name.
async fn keep(ctx: &Context, run: &ValidatedRun, config_map: &ConfigMap) -> Result<Option<Trouble>, Error> {
    let api: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let name = config_map.name_any();
    let parameters = PostParams { field_manager: Some(RUN_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, config_map).await {
        Ok(_) => Ok(None),
        Err(error) if already_there(&error) => {
            let found = api.get_metadata_opt(&name).await.map_err(|error| Error::LookAtName(error, name))?;
            Ok(found.and_then(|found| stranger("ConfigMap", &found, run)))
        }
        Err(error) => refused(&error).map(Some).ok_or(Error::Store(error, name)),
    }
}

/// Under which [`Unread`](collect::Unread) knows a result that could not be stored.
fn unstored(run: &ValidatedRun, attempt: &Attempt) -> String {
    format!("{}/{}", run.holder.uid, attempt.name)
}

/// That `trouble` keeps the result of `attempt` from being stored.
fn not_stored(ctx: &Context, run: &ValidatedRun, attempt: &Attempt, trouble: Trouble) -> Applied {
    let again = ctx.log_retries.failed(&unstored(run, attempt), PATIENCE, &trouble.message, Timestamp::now());
    Applied::NotStored { why: trouble.message, until: again.map(|again| again.until) }
}

/// Whether it is too soon to try again to store the result of `attempt`.
fn too_soon(ctx: &Context, run: &ValidatedRun, attempt: &Attempt) -> Option<Applied> {
    let not_yet = ctx.log_retries.due(&unstored(run, attempt), Timestamp::now()).err()?;
    Some(Applied::NotStored { why: not_yet.why, until: Some(not_yet.until) })
}

/// What is stored of `attempt`, whose Job was deleted when its load had been started: whoever
/// did that ended its pods too, or lets nobody tell which of them are its own.
fn lost_with_its_job(attempt: &Attempt) -> RepetitionResult {
    let message = format!(
        "its Job {} was deleted before its result was stored: do not delete the Jobs of a run, and let nothing set ttlSecondsAfterFinished on them",
        attempt.name
    );
    let lost = PodFailure { pod: attempt.name.clone(), failure: failure(FailureStep::Lost, message) };
    RepetitionResult { failure: Some(lost), ..merge(attempt, attempt.pods, Vec::new()) }
}

/// The result of `attempt` as its pods tell it.
async fn reported(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    job: &Job,
    pods: &[&Pod],
) -> Result<RepetitionResult, collect::NotYet> {
    let mut result =
        collect::complete(&ctx.client, &ctx.log_retries, attempt, pods, Timestamp::now()).await?;
    // Of a server that tells its process the clients know better: it may have changed after them.
    if result.failure.is_none() && result.server_run_ids().is_empty() {
        let before = stored_result::identity(&job.metadata);
        let changed = before.and_then(|before| before.pods_changed_to(&target::identity(ctx, run)));
        result.failure =
            changed.map(|changed| PodFailure { pod: String::new(), failure: another_server(&changed) });
    }
    Ok(result)
}

fn another_server(changed: &str) -> Failure {
    let message = format!(
        "the server was restarted or replaced while it was measured: {changed}; do not change the server during a run"
    );
    failure(FailureStep::ServerIdentity, message)
}

/// Whether `found` is there and the run's.
fn is_own(found: Option<&impl ResourceExt>, run: &ValidatedRun) -> bool {
    found.is_some_and(|found| stranger("Job", found, run).is_none())
}

/// Stores the result of `attempt`.
pub(super) async fn result(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Applied, Error> {
    if let Some(too_soon) = too_soon(ctx, run, attempt) {
        return Ok(too_soon);
    }
    let pods = pods_now(ctx, run, attempt, fetched).await?;
    let pods: Vec<&Pod> = pods.iter().collect();
    let job = fetched.jobs.get(&attempt.name).map(Arc::as_ref);
    let mut result = match job {
        Some(job) => match reported(ctx, run, attempt, job, &pods).await {
            Ok(result) => result,
            Err(not_yet) => return Ok(Applied::LogPending(not_yet)),
        },
        // The watch may be behind.
        None if is_own(job_now(ctx, run, attempt).await?.as_ref(), run) => return Ok(Applied::Awaited),
        None => lost_with_its_job(attempt),
    };
    // What is there is never overwritten by force.
    match result_name(ctx, run, attempt).await? {
        ResultName::Free => {}
        ResultName::Stored => return Ok(Applied::Progressed),
        ResultName::Taken(trouble) => return Ok(not_stored(ctx, run, attempt, trouble)),
    }
    let ended = judge(ctx, run, attempt, &pods, &mut result).await;
    keep_result(ctx, run, attempt, job, &result, ended).await
}

/// Adds to `result` what went on around its load, and judges it; when that load had ended.
async fn judge(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    pods: &[&Pod],
    result: &mut RepetitionResult,
) -> Timestamp {
    let ended = load_ended(result, Timestamp::now());
    result.memory = right_after(ctx, run, result, ended).await;
    result.servers = evidence::gather(ctx, run, attempt, &result.pods).await;
    machines::fill(ctx, run, pods, result);
    judge::judge(run, attempt, target::datastore(ctx, run).as_deref().map(|one| &one.spec), result);
    ended
}

/// Keeps `result`, whose load had `ended`, in its ConfigMaps.
async fn keep_result(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    job: Option<&Job>,
    result: &RepetitionResult,
    ended: Timestamp,
) -> Result<Applied, Error> {
    let parts = stored::pack(result)?;
    let mut marks = stored::annotations(result, &parts)?;
    let connection = job.and_then(|job| stored_result::annotation(&job.metadata, labels::CONNECTION));
    marks.extend(connection.map(|json| (labels::CONNECTION.to_owned(), json.to_owned())));
    marks.insert(stored::LOAD_ENDED_AT.to_owned(), ended.as_nanosecond().to_string());
    for config_map in build::config_maps(run, attempt, job, &marks, parts) {
        if let Some(trouble) = keep(ctx, run, &config_map).await? {
            return Ok(not_stored(ctx, run, attempt, trouble));
        }
    }
    ctx.log_retries.settle(&unstored(run, attempt));
    if result.failure.as_ref().is_some_and(|failed| failed.failure.step == FailureStep::Lost) {
        ctx.metrics.result_lost();
    }
    ctx.result_cache.forget(&run.holder.uid);
    Ok(Applied::Progressed)
}

/// When the load of `result` had ended, by this clock; `now` where no pod tells.
fn load_ended(result: &RepetitionResult, now: Timestamp) -> Timestamp {
    let end = |pod: &PodResult| {
        let seconds = SignedDuration::try_from_secs_f64(pod.window.seconds).ok()?;
        let start = Timestamp::from_nanosecond(i128::from(pod.started_unix_nanos())).ok()?;
        start.checked_add(seconds).ok()
    };
    let loaded = result.pods.iter().filter(|pod| pod.window.seconds > 0.0);
    loaded.filter_map(end).max().unwrap_or(now)
}

/// The memory of the servers when the load had `ended`: of external ones as a client read it.
async fn right_after(
    ctx: &Context,
    run: &ValidatedRun,
    result: &RepetitionResult,
    ended: Timestamp,
) -> Vec<MemoryReading> {
    // Of a failed measurement nothing is shown, and its server may be gone.
    if result.failure.is_some() {
        return Vec::new();
    }
    if run.spec.target.external.is_some() {
        let read = result.pods.iter().find(|pod| !pod.memory.is_empty());
        return read.map(|pod| pod.memory.clone()).unwrap_or_default();
    }
    evidence::memory(ctx, run, MemoryMoment::RightAfter, ended).await
}

/// Reads the memory of the servers after the settle time of `attempt` and stores it; what
/// cannot be read is told, and not asked for again.
pub(super) async fn memory(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Applied, Error> {
    if let Some(too_soon) = too_soon(ctx, run, attempt) {
        return Ok(too_soon);
    }
    let ended = fetched.snapshot.stored.get(&attempt.name).and_then(|stored| stored.load_ended);
    let ended = ended.unwrap_or_else(Timestamp::now);
    let readings = evidence::memory(ctx, run, MemoryMoment::Settled, ended).await;
    let settled = build::settled(run, attempt, &readings).map_err(Error::WriteMemory)?;
    if let Some(trouble) = keep(ctx, run, &settled).await? {
        return Ok(not_stored(ctx, run, attempt, trouble));
    }
    ctx.log_retries.settle(&unstored(run, attempt));
    ctx.result_cache.forget(&run.holder.uid);
    Ok(Applied::Progressed)
}

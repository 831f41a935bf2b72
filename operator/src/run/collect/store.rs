//! Stores what was measured. Needs the client and the observers.

use super::{evidence, pod_results::complete};
use crate::{
    cluster::{pods, retry::NotYet},
    heavy::off_thread,
    run::{
        act::{
            applied::Applied,
            names::{create, current, stranger},
        },
        build,
        context::{Pass, StepPass},
        fetch::{machines, servers},
    },
};
use dragstrip_core::{
    labels,
    run::{
        away,
        decide::{Step, Waiting, not_stored},
        judge,
        merge::merge,
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
use kube::{Api, ResourceExt, api::ListParams};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to check whether the name {1} is free")]
    CheckName(#[source] kube::Error, String),
    #[error("failed to list the pods of Job {1}")]
    ListPods(#[source] kube::Error, String),
    #[error(transparent)]
    Pack(#[from] stored::Error),
    #[error("failed to write the servers' memory")]
    WriteMemory(#[source] serde_json::Error),
    #[error("failed to store the result in ConfigMap {1}")]
    Store(#[source] kube::Error, String),
}

/// How long to retry what the API server refuses to store, while others wait for the turn.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The owner of the name under which the result of an attempt is to be stored.
pub enum ResultName {
    Free,
    /// The run itself: another operator stored the result, and measuring or storing it
    /// again would replace a result that counts.
    Stored,
    Taken(Trouble),
}

/// Checked before load is sent, before a turn is released, and before a result is stored.
pub async fn result_name(pass: &Pass<'_>, attempt: &Attempt) -> Result<ResultName, Error> {
    let found = current::<ConfigMap>(pass, &attempt.name).await;
    let found = found.map_err(|error| Error::CheckName(error, attempt.name.clone()))?;
    let Some(found) = found else { return Ok(ResultName::Free) };
    Ok(stranger(&found, pass.run).map_or_else(
        || {
            // The cache is incomplete.
            pass.result_cache.remove(&pass.run.holder.uid);
            ResultName::Stored
        },
        ResultName::Taken,
    ))
}

/// The pods of `attempt` as the API server has them: the watch may not show yet what the last of them left.
async fn current_pods(at: &StepPass<'_>, attempt: &Attempt) -> Result<Vec<Pod>, Error> {
    let pods: Api<Pod> = Api::namespaced(at.client.clone(), &at.run.holder.namespace);
    let own = ListParams::default().labels(&format!("{}={}", labels::RUN_UID, at.run.holder.uid));
    let list = pods.list(&own).await.map_err(|error| Error::ListPods(error, attempt.name.clone()))?;
    let job = at.fetched.jobs.get(&attempt.name).and_then(|job| job.metadata.uid.as_deref());
    Ok(list.items.into_iter().filter(|pod| pods::is_of_job(pod, &attempt.name, job)).collect())
}

/// An attempt whose measurements are to be stored.
struct Storing<'a> {
    at: &'a StepPass<'a>,
    index: usize,
    attempt: &'a Attempt,
}

impl<'a> Storing<'a> {
    fn new(at: &'a StepPass<'a>, index: usize) -> Self {
        Self { at, index, attempt: &at.run.attempts[index] }
    }

    /// Its key among the retries.
    fn key(&self) -> String {
        format!("{}/{}", self.at.run.holder.uid, self.attempt.name)
    }

    fn refused(&self, why: &str, until: Option<Timestamp>) -> Applied {
        Applied::Instead(not_stored(self.at.run, self.index, why, until, self.at.deadline, Timestamp::now()))
    }

    /// The step that takes the place of storing, as long as it is too soon for a retry.
    fn too_soon(&self) -> Option<Applied> {
        let not_yet = self.at.retries.due(&self.key(), Timestamp::now()).err()?;
        Some(self.refused(&not_yet.why, Some(not_yet.until)))
    }

    fn prevented_by(&self, trouble: &Trouble) -> Applied {
        let retry = self.at.retries.with_patience(&self.key(), &trouble.message, PATIENCE, Timestamp::now());
        self.refused(&trouble.message, retry.map(|retry| retry.until))
    }

    /// Creates `config_maps`, which are never written again. The run lists its results anew after that.
    async fn store(&self, config_maps: &[ConfigMap]) -> Result<Applied, Error> {
        for config_map in config_maps {
            let trouble = create(self.at, config_map).await;
            if let Some(trouble) = trouble.map_err(|error| Error::Store(error, config_map.name_any()))? {
                return Ok(self.prevented_by(&trouble));
            }
        }
        self.at.retries.settled(&self.key());
        self.at.result_cache.remove(&self.at.run.holder.uid);
        Ok(Applied::Progressed)
    }
}

/// The result of `attempt`, whose Job was deleted after its load had been started: whoever
/// did that ended its pods too, or made it impossible to find out which are its own.
fn lost_with_its_job(attempt: &Attempt) -> RepetitionResult {
    let message = format!(
        "its Job {} was deleted before its result was stored: do not delete the Jobs of a run, and let nothing set ttlSecondsAfterFinished on them",
        attempt.name
    );
    let lost = PodFailure { pod: attempt.name.clone(), failure: Failure::new(FailureStep::Lost, message) };
    RepetitionResult { failure: Some(lost), ..merge(attempt, attempt.pods, Vec::new()) }
}

/// The result of `attempt` from its pods.
async fn collected(
    pass: &Pass<'_>,
    attempt: &Attempt,
    job: &Job,
    pods: &[&Pod],
) -> Result<RepetitionResult, NotYet> {
    let mut result =
        complete(&pass.client, (&pass.retries, &pass.large_results), attempt, pods, Timestamp::now()).await?;
    let before = stored_result::identity(&job.metadata);
    if let Some(found) = &mut result.failure {
        let since = job.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0);
        let lost = away::lost(&found.failure, before.as_ref(), &servers::of_run(pass), since);
        found.failure = lost.unwrap_or_else(|| found.failure.clone());
    } else if result.server_run_ids().is_empty() {
        // A server that reports its process may have changed after the clients saw it.
        let changed = before.and_then(|before| before.pods_changed_to(&servers::identity(pass)));
        result.failure =
            changed.map(|changed| PodFailure { pod: String::new(), failure: another_server(&changed) });
    }
    Ok(result)
}

fn another_server(changed: &str) -> Failure {
    let message = format!(
        "the server was restarted or replaced while it was measured: {changed}; do not change the server during a run"
    );
    Failure::new(FailureStep::ServerIdentity, message)
}

/// Whether the API server has the Job of `attempt`, which the watch does not show.
async fn has_job(pass: &Pass<'_>, attempt: &Attempt) -> Result<bool, Error> {
    let found = current::<Job>(pass, &attempt.name).await;
    let found = found.map_err(|error| Error::CheckName(error, attempt.name.clone()))?;
    Ok(found.is_some_and(|found| stranger(&found, pass.run).is_none()))
}

pub async fn result(at: &StepPass<'_>, index: usize) -> Result<Applied, Error> {
    let storing = Storing::new(at, index);
    let attempt = storing.attempt;
    if let Some(instead) = storing.too_soon() {
        return Ok(instead);
    }
    let pods = current_pods(at, attempt).await?;
    let pods: Vec<&Pod> = pods.iter().collect();
    let job = at.fetched.jobs.get(&attempt.name).map(Arc::as_ref);
    let mut result = match job {
        Some(job) => match collected(at, attempt, job, &pods).await {
            Ok(result) => result,
            Err(NotYet { until, why }) => {
                let waiting = Waiting::Log { attempt: index, why };
                return Ok(Applied::Instead(Step::Wait(waiting, Some(until))));
            }
        },
        None if has_job(at, attempt).await? => return Ok(Applied::Awaited),
        None => lost_with_its_job(attempt),
    };
    match result_name(at, attempt).await? {
        ResultName::Free => {}
        ResultName::Stored => return Ok(Applied::Progressed),
        ResultName::Taken(trouble) => return Ok(storing.prevented_by(&trouble)),
    }
    let ended = judge(at, attempt, &pods, &mut result).await;
    let (result, parts) = off_thread(move || {
        let parts = stored::pack(&result);
        (result, parts)
    })
    .await;
    let applied = storing.store(&config_maps(at.run, attempt, job, (&result, parts?), ended)?).await?;
    let lost = result.failure.as_ref().is_some_and(|failed| failed.failure.step == FailureStep::Lost);
    if lost && applied == Applied::Progressed {
        at.metrics.result_lost();
    }
    Ok(applied)
}

/// Adds to `result` the evidence around its load, and judges it; returns when that load ended.
async fn judge(
    pass: &Pass<'_>,
    attempt: &Attempt,
    pods: &[&Pod],
    result: &mut RepetitionResult,
) -> Timestamp {
    let ended = load_ended(result, Timestamp::now());
    result.memory = right_after(pass, result, ended).await;
    result.servers = evidence::gather(pass, attempt, &result.pods).await;
    machines::fill(pass, pods, result);
    judge::judge(pass.run, attempt, servers::datastore(pass).as_deref().map(|one| &one.spec), result);
    ended
}

/// The ConfigMaps of the `parts` of `result`, whose load had `ended`. Pure.
fn config_maps(
    run: &ValidatedRun,
    attempt: &Attempt,
    job: Option<&Job>,
    (result, parts): (&RepetitionResult, Vec<Vec<u8>>),
    ended: Timestamp,
) -> Result<Vec<ConfigMap>, Error> {
    let mut marks = stored::annotations(result, &parts)?;
    marks.insert(stored::LOAD_ENDED_AT.to_owned(), ended.as_nanosecond().to_string());
    Ok(build::config_maps(run, attempt, job, &marks, parts))
}

/// When the load of `result` ended, by this clock; `now` if no pod reports it.
fn load_ended(result: &RepetitionResult, now: Timestamp) -> Timestamp {
    let end = |pod: &PodResult| {
        let seconds = SignedDuration::try_from_secs_f64(pod.window.seconds).ok()?;
        let start = Timestamp::from_nanosecond(i128::from(pod.started_unix_nanos())).ok()?;
        start.checked_add(seconds).ok()
    };
    let loaded = result.pods.iter().filter(|pod| pod.window.seconds > 0.0);
    loaded.filter_map(end).max().unwrap_or(now)
}

/// The memory of the servers when the load had `ended`; for external servers, as a client read it.
async fn right_after(pass: &Pass<'_>, result: &RepetitionResult, ended: Timestamp) -> Vec<MemoryReading> {
    // Nothing shows the memory of a failed measurement, and its server may be gone.
    if result.failure.is_some() {
        return Vec::new();
    }
    if pass.run.spec.target.external().is_some() {
        let read = result.pods.iter().find(|pod| !pod.memory.is_empty());
        return read.map(|pod| pod.memory.clone()).unwrap_or_default();
    }
    evidence::memory(pass, MemoryMoment::RightAfter, ended).await
}

/// Reads the memory of the servers after the settle time of the attempt with this `index` and
/// stores it. What cannot be read is recorded as such, without a retry.
pub async fn memory(at: &StepPass<'_>, index: usize) -> Result<Applied, Error> {
    let storing = Storing::new(at, index);
    let attempt = storing.attempt;
    if let Some(instead) = storing.too_soon() {
        return Ok(instead);
    }
    let ended = at.fetched.snapshot.stored.get(&attempt.name).and_then(|stored| stored.load_ended);
    let ended = ended.unwrap_or_else(Timestamp::now);
    let readings = evidence::memory(at, MemoryMoment::Settled, ended).await;
    storing.store(&[build::settled(at.run, attempt, &readings).map_err(Error::WriteMemory)?]).await
}

//! What exists for a run: its target, its turn, Jobs, pods, runners and stored
//! results. Needs the client; [`view`](super::view) makes sense of it.

use super::{
    decide::{TargetState, Turn},
    plan::{Place, place_of},
    target, turn,
    validate::{Attempt, ValidatedRun},
};
use crate::{
    cluster::{pods, warnings},
    context::Context,
    labels,
};
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::{protocol::RunnerState, result::RepetitionResult, stored};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod},
};
use kube::{Api, ResourceExt, api::ListParams};
use std::{collections::BTreeMap, sync::Arc};

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Jobs, pods or results could not be listed.
    #[error("failed to list the run's {1}")]
    List(#[source] kube::Error, &'static str),
    /// The target could not be read.
    #[error("failed to read the run's target")]
    Target(#[source] kube::Error),
    /// Events about its pods could not be listed.
    #[error("failed to list the warnings about the run's client pods")]
    Warnings(#[source] kube::Error),
    /// The turn could not be read.
    #[error("failed to read the Leases of the run's target")]
    Turn(#[source] kube::Error),
    /// A stored result is damaged.
    #[error("failed to read the result stored in ConfigMap {name}")]
    Stored {
        /// The ConfigMap.
        name: String,
        /// What is wrong with it.
        #[source]
        source: stored::Error,
    },
}

/// All that a pass works with.
pub struct Fetched {
    /// The target.
    pub target: TargetState,
    /// The Leases, and whose turn it is; absent when the target was not ready or not consulted.
    pub turn: Option<turn::Looked>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Job>,
    /// Client pods.
    pub pods: Vec<Pod>,
    /// Runners of the current attempt, by pod, where they answered.
    pub runners: BTreeMap<String, RunnerState>,
    /// Warnings about client pods that have not started and do not say why themselves.
    pub warnings: Vec<Event>,
    /// Stored results by name.
    pub stored: BTreeMap<String, RepetitionResult>,
    /// What is remembered of the Jobs of stored results, some of which are gone.
    pub remembered: BTreeMap<String, Remembered>,
}

/// What a result's ConfigMap remembers of its Job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its start line, if it had one.
    pub start: Option<Timestamp>,
}

impl Fetched {
    /// Whose turn it is, as far as it was looked at.
    pub fn turn(&self) -> Turn {
        self.turn.as_ref().map_or(Turn::Free, |looked| looked.turn.clone())
    }

    /// The pods of the Job called `job`.
    pub fn pods_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| {
            pod.labels().get("batch.kubernetes.io/job-name").is_some_and(|name| name == job)
        })
    }

    /// Whether the attempt needs no more time: its Job has ended, or all its pods
    /// have and the Job controller does not know it yet.
    pub fn ended(&self, run: &ValidatedRun, attempt: &Attempt) -> bool {
        let expected = usize::try_from(run.pods()).unwrap_or(usize::MAX);
        self.jobs.get(&attempt.name).is_some_and(job_ended)
            || pods::all_ended(self.pods_of(&attempt.name), expected)
    }
}

/// Whether the Job has ended, well or badly.
pub fn job_ended(job: &Job) -> bool {
    job.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// The results that `config_maps` hold, by name.
fn unpacked(config_maps: &[ConfigMap]) -> Result<BTreeMap<String, RepetitionResult>, Error> {
    let by_name: BTreeMap<_, _> = config_maps.iter().map(|map| (map.name_any(), map)).collect();
    let firsts = config_maps.iter().filter(|map| !stored::is_later_part(map));
    firsts
        .map(|first| {
            let name = first.name_any();
            match stored::unpack(first, |part| by_name.get(part).copied()) {
                Ok(result) => Ok((name, result)),
                Err(source) => Err(Error::Stored { name, source }),
            }
        })
        .collect()
}

async fn own_objects<K>(ctx: &Context, run: &ValidatedRun, what: &'static str) -> Result<Vec<K>, Error>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let selector = format!("{}={}", labels::RUN_UID, run.holder.uid);
    let list = api.list(&ListParams::default().labels(&selector)).await;
    list.map(|list| list.items).map_err(|error| Error::List(error, what))
}

async fn runners(ctx: &Context, run: &ValidatedRun, attempt: &Attempt, fetched: &mut Fetched) {
    let mut answers = BTreeMap::new();
    for pod in fetched.pods_of(&attempt.name).filter(|pod| !pods::ended(pod)) {
        let address =
            pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).and_then(|ip| ip.parse().ok());
        if let Some(address) = address {
            match ctx.agents.progress(address, &run.token(attempt)).await {
                Ok(state) => {
                    answers.insert(pod.name_any(), state);
                }
                // It may just be ending; its own end is what counts then.
                Err(error) => tracing::debug!(pod = %pod.name_any(), %error, "runner did not answer"),
            }
        }
    }
    fetched.runners = answers;
}

/// Warnings about the pods of `attempt`, where one of them has not started and
/// its own status does not say why.
async fn unexplained(
    ctx: &Context,
    run: &ValidatedRun,
    attempt: &Attempt,
    fetched: &Fetched,
) -> Result<Vec<Event>, Error> {
    let explained = fetched.pods_of(&attempt.name).any(|pod| pods::trouble(pod).is_some());
    let waits = fetched.pods_of(&attempt.name).any(warnings::may_explain);
    if explained || !waits {
        return Ok(Vec::new());
    }
    warnings::list(&ctx.client, &run.holder.namespace).await.map_err(Error::Warnings)
}

fn remembered(config_map: &ConfigMap) -> Remembered {
    Remembered {
        created: config_map.annotations().get(labels::JOB_CREATED).and_then(|time| time.parse().ok()),
        start: super::view::start_line(config_map),
    }
}

async fn listed(ctx: &Context, run: &ValidatedRun) -> Result<Fetched, Error> {
    let jobs = own_objects::<Job>(ctx, run, "Jobs").await?;
    let kept = own_objects::<ConfigMap>(ctx, run, "ConfigMaps").await?;
    Ok(Fetched {
        target: TargetState::NotConsulted,
        turn: None,
        jobs: jobs.into_iter().map(|job| (job.name_any(), job)).collect(),
        pods: own_objects(ctx, run, "pods").await?,
        runners: BTreeMap::new(),
        warnings: Vec::new(),
        remembered: kept.iter().map(|map| (map.name_any(), remembered(map))).collect(),
        stored: unpacked(&kept)?,
    })
}

/// Fetches everything for one pass over `run`.
pub async fn fetch(ctx: &Context, run: &ValidatedRun, runs: &[Arc<BenchmarkRun>]) -> Result<Fetched, Error> {
    let mut fetched = listed(ctx, run).await?;
    let Place::At(current) = place_of(run, &fetched.stored) else {
        return Ok(fetched);
    };
    let current = &run.attempts[current];
    match fetched.jobs.get(&current.name) {
        // Its runners have gone: nobody is left to be asked.
        Some(_) if fetched.ended(run, current) => {}
        // While load runs nobody asks the server anything: it would cost it something.
        Some(job) if job.annotations().contains_key(labels::START_AT) => {
            runners(ctx, run, current, &mut fetched).await;
        }
        Some(_) => fetched.warnings = unexplained(ctx, run, current, &fetched).await?,
        None => {
            fetched.target = target::find(ctx, run).await.map_err(Error::Target)?;
            if let TargetState::Ready(target) = &fetched.target {
                fetched.turn = Some(turn::look(ctx, run, target, runs).await.map_err(Error::Turn)?);
            }
        }
    }
    Ok(fetched)
}

/// The moment the clock of `timeout` starts: the first Job's creation, else
/// the turn's, else the run's own. A lost Job that was removed still counts.
pub fn since(run: &ValidatedRun, fetched: &Fetched) -> Timestamp {
    let jobs = fetched.jobs.values().filter_map(|job| job.metadata.creation_timestamp.as_ref());
    let removed = fetched.remembered.values().filter_map(|remembered| remembered.created);
    let first_job = jobs.map(|time| time.0).chain(removed).min();
    first_job.or_else(|| fetched.turn.as_ref().and_then(|looked| looked.since)).unwrap_or(run.created)
}

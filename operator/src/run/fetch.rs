//! What exists for a run: its target, its turn, Jobs, pods, runners and stored
//! results. Needs the client; [`view`](super::view) makes sense of it.

use super::{
    build::RESULT_KEY,
    decide::{ReadyTarget, TargetState, Turn},
    turn,
    validate::{Attempt, ValidatedRun, host_and_port},
};
use crate::{
    cluster::pods,
    context::Context,
    datastore::{observe, verify},
    labels,
};
use dragstrip_crds::{
    BenchmarkRun, Datastore,
    conditions::{self, types::READY},
    protocol::RunnerState,
    result::RepetitionResult,
};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::{Api, ResourceExt, api::ListParams};
use std::{collections::BTreeMap, io::Read, sync::Arc};

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Jobs, pods or results could not be listed.
    #[error("failed to list the run's {1}")]
    List(#[source] kube::Error, &'static str),
    /// The target could not be read.
    #[error("failed to read the run's target")]
    Target(#[source] kube::Error),
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
        source: std::io::Error,
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
    /// Stored results by name.
    pub stored: BTreeMap<String, RepetitionResult>,
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
}

/// Whether the Job has ended, well or badly.
pub fn job_ended(job: &Job) -> bool {
    job.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

fn unpack(config_map: &ConfigMap) -> Result<RepetitionResult, Error> {
    let name = config_map.name_any();
    let bytes =
        config_map.binary_data.as_ref().and_then(|data| data.get(RESULT_KEY)).map(|bytes| bytes.0.as_slice());
    let mut json = String::new();
    GzDecoder::new(bytes.unwrap_or_default())
        .read_to_string(&mut json)
        .and_then(|_| serde_json::from_str(&json).map_err(std::io::Error::from))
        .map_err(|source| Error::Stored { name, source })
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

/// The target of a run: an address, or a Datastore and what its server says now.
async fn target(ctx: &Context, run: &ValidatedRun) -> Result<TargetState, Error> {
    let spec = &run.spec.target;
    if let Some(external) = &spec.external {
        // Checked by validate.
        let Ok((host, port)) = host_and_port(&external.address) else {
            return Ok(TargetState::Missing(format!("{:?} is not HOST:PORT", external.address)));
        };
        return Ok(TargetState::Ready(Box::new(ReadyTarget {
            name: external.address.clone(),
            host,
            port,
            cluster: external.cluster,
            auth: external.auth_secret_ref.clone(),
            truth: None,
            node: None,
            datastore: false,
        })));
    }
    let own = spec.datastore.is_some();
    let name = spec.datastore_ref.as_ref().map_or(&run.holder.name, |reference| &reference.name);
    let datastores: Api<Datastore> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    match datastores.get_opt(name).await.map_err(Error::Target)? {
        None if own => Ok(TargetState::ToBeMade),
        None => Ok(TargetState::Missing(format!(
            "there is no Datastore named {name} in namespace {}: create it or correct spec.target.datastoreRef.name",
            run.holder.namespace
        ))),
        Some(datastore) if own && !owned_by(&datastore, run) => Ok(TargetState::NameTaken(format!(
            "a Datastore named {name} exists already and is not this run's: use spec.target.datastoreRef or another name for the run"
        ))),
        Some(datastore) => consult(ctx, run, &datastore, own).await,
    }
}

fn owned_by(datastore: &Datastore, run: &ValidatedRun) -> bool {
    datastore.owner_references().iter().any(|owner| owner.uid == run.holder.uid)
}

async fn consult(
    ctx: &Context,
    run: &ValidatedRun,
    datastore: &Datastore,
    own: bool,
) -> Result<TargetState, Error> {
    let status = datastore.status.clone().unwrap_or_default();
    let ready = conditions::find(&status.conditions, READY);
    let not_ready =
        |reason: &str, message: String| TargetState::NotReady { own, reason: reason.to_owned(), message };
    let name = datastore.name_any();
    if !conditions::holds(&status.conditions, READY, datastore.metadata.generation) {
        let (reason, message) = ready.map_or(("Starting", "not looked at yet"), |c| (&c.reason, &c.message));
        if reason == "NotAsDeclared" {
            return Ok(TargetState::Disagrees(format!("Datastore {name}: {message}")));
        }
        return Ok(not_ready(reason, format!("Datastore {name} is not ready ({reason}): {message}")));
    }
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &run.holder.namespace);
    let pod = match &status.pod {
        Some(pod) => pods.get_opt(pod).await.map_err(Error::Target)?,
        None => None,
    };
    let Some(pod) = pod.filter(pods::ready) else {
        return Ok(not_ready("Starting", format!("the pod of Datastore {name} is not ready")));
    };
    // The condition may be hours old: the server is asked again before load is sent.
    let token = datastore.uid().unwrap_or_default();
    let observation = match observe(&ctx.agents, &pod, &token).await {
        Some(Ok(observation)) => observation,
        Some(Err(error)) => return Ok(not_ready("ObserverSilent", format!("Datastore {name}: {error}"))),
        None => {
            return Ok(not_ready("Starting", format!("Datastore {name} has no observer yet")));
        }
    };
    let found = verify::disagreements(&datastore.spec, &observation.server);
    if !found.is_empty() {
        return Ok(TargetState::Disagrees(format!("Datastore {name}: {}", found.join("; "))));
    }
    Ok(TargetState::Ready(Box::new(ReadyTarget {
        host: pod.status.as_ref().and_then(|s| s.pod_ip.clone()).unwrap_or_default(),
        port: u16::try_from(datastore.spec.port).unwrap_or(6379),
        cluster: false,
        auth: datastore.spec.auth_secret_ref.clone(),
        truth: Some(observation.server),
        node: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
        datastore: true,
        name,
    })))
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

/// Fetches everything for one pass over `run`.
pub async fn fetch(ctx: &Context, run: &ValidatedRun, runs: &[Arc<BenchmarkRun>]) -> Result<Fetched, Error> {
    let jobs = own_objects::<Job>(ctx, run, "Jobs").await?;
    let stored = own_objects::<ConfigMap>(ctx, run, "ConfigMaps").await?;
    let mut fetched = Fetched {
        target: TargetState::NotConsulted,
        turn: None,
        jobs: jobs.into_iter().map(|job| (job.name_any(), job)).collect(),
        pods: own_objects(ctx, run, "pods").await?,
        runners: BTreeMap::new(),
        stored: stored.iter().map(|map| Ok((map.name_any(), unpack(map)?))).collect::<Result<_, Error>>()?,
    };
    let Some(current) = run.attempts.iter().find(|attempt| !fetched.stored.contains_key(&attempt.name))
    else {
        return Ok(fetched);
    };
    match fetched.jobs.get(&current.name) {
        // While load runs nobody asks the server anything: it would cost it something.
        Some(job) if !job_ended(job) && job.annotations().contains_key(labels::START_AT) => {
            runners(ctx, run, current, &mut fetched).await;
        }
        Some(_) => {}
        None => {
            fetched.target = target(ctx, run).await?;
            if let TargetState::Ready(target) = &fetched.target {
                fetched.turn = Some(turn::look(ctx, run, target, runs).await.map_err(Error::Turn)?);
            }
        }
    }
    Ok(fetched)
}

/// The moment the clock of `timeout` starts: the first Job's creation, else
/// the turn's, else the run's own.
pub fn since(run: &ValidatedRun, fetched: &Fetched) -> Timestamp {
    let first_job = fetched
        .jobs
        .values()
        .filter_map(|job| job.metadata.creation_timestamp.as_ref())
        .map(|time| time.0)
        .min();
    first_job.or_else(|| fetched.turn.as_ref().and_then(|looked| looked.since)).unwrap_or(run.created)
}

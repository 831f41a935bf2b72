//! Prometheus remote write 1.0 of the timeline of each stored repetition. A label on the
//! Job that measured it says that its timeline is due, or what became of it: the queue is
//! in the cluster, and costs no memory here however long the server is down. The result has
//! the Job's name; it is never written to. One request is under way at a time. Needs the
//! client and the network.

use super::{
    endpoint::{Answer, Endpoint, Error as EndpointError},
    timeline::timeline,
    write_request::{WriteRequest, requests},
};
use crate::{
    context::Context,
    process::chain,
    run::{StoredError, stored_result},
};
use dragstrip_core::labels;
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::{result::RepetitionResult, stored};
use http::{
    HeaderName, Method, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt, Patch, PatchParams},
    core::NamespaceResourceScope,
    runtime::reflector::ObjectRef,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::{fmt::Debug, future::pending, time::Duration};
use tokio::sync::Notify;

/// The one metric that is sent.
const METRIC: &str = "dragstrip_timeline_operations_per_second";
/// Values of [`labels::TIMELINE`].
const DUE: &str = "Due";
const SENT: &str = "Sent";
const DROPPED: &str = "Dropped";

/// Results looked at in one round.
const ROUND: u32 = 500;
/// Longest time before a server that does not answer is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A look without cause: somebody may have labelled a result anew.
const SAFETY_NET: Duration = Duration::from_secs(600);
/// Under this name failed rounds are remembered.
const RETRY_KEY: &str = "remote write";

const HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "application/x-protobuf"),
    (CONTENT_ENCODING, "snappy"),
    (HeaderName::from_static("x-prometheus-remote-write-version"), "0.1.0"),
];

/// A round that was not finished; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is due could not be listed.
    #[error("failed to list Jobs whose timeline is due")]
    List(#[source] kube::Error),
    /// A result could not be read.
    #[error("failed to read a result whose timeline is due")]
    Read(#[source] StoredError),
    /// A request could not be compressed.
    #[error("failed to compress a remote write request")]
    Compress(#[source] snap::Error),
    /// The server could not be asked.
    #[error("failed to remote-write a timeline")]
    Ask(#[source] EndpointError),
    /// It wants to be asked later.
    #[error("the remote write server is in trouble: {told}")]
    Later {
        /// Its status and words.
        told: String,
        /// For how long it wants to be left alone.
        after: Duration,
    },
    /// What became of a timeline could not be noted.
    #[error("failed to note on Job {1} what became of its timeline")]
    Note(#[source] kube::Error, String),
}

impl Error {
    fn retry_after(&self) -> Duration {
        if let Self::Later { after, .. } = self { *after } else { Duration::ZERO }
    }
}

/// What became of samples that were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// The server took them.
    Sent,
    /// It has later ones of the same series: it took them before, and its answer was lost.
    Repeated,
    /// It will never take them, and why.
    Dropped(String),
}

impl Fate {
    fn label(&self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Repeated => "repeated",
            Self::Dropped(_) => "dropped",
        }
    }
}

/// Whether samples were refused because of their age, in the words of Prometheus and Mimir.
fn too_old(words: &str) -> bool {
    ["out of bounds", "too old", "too far in the past"].iter().any(|known| words.contains(known))
}

/// Whether samples were refused because later ones of their series are there already:
/// nobody else writes these series, and they are sent oldest first.
fn repeated(words: &str) -> bool {
    let known =
        ["out of order sample", "sample-out-of-order", "duplicate sample", "sample-duplicate-timestamp"];
    known.iter().any(|known| words.contains(known))
}

/// What an answer means, by the specification: 5xx and 429 are tried again, no other is.
fn fate(answer: &Answer) -> Result<Fate, Error> {
    let told = answer.told();
    let words = String::from_utf8_lossy(&answer.body);
    match answer.status {
        status if status.is_success() => Ok(Fate::Sent),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(Error::Later { told, after: answer.retry_after.unwrap_or_default() })
        }
        _ if too_old(&words) => Ok(Fate::Dropped(format!(
            "{told}; the samples are older than the server takes: set its out_of_order_time_window"
        ))),
        _ if repeated(&words) => Ok(Fate::Repeated),
        status if status.is_redirection() => Ok(Fate::Dropped(format!(
            "{told}; redirects are not followed: set the URL that takes the samples"
        ))),
        _ => Ok(Fate::Dropped(told)),
    }
}

/// The requests for the timeline of `result`.
fn requests_of(result: &RepetitionResult, namespace: &str, run: &str) -> Vec<WriteRequest> {
    let repetition = result.repetition.to_string();
    let common = [
        ("__name__", METRIC),
        ("namespace", namespace),
        ("run", run),
        ("phase", &result.phase),
        ("repetition", &repetition),
    ];
    requests(&timeline(result), &common)
}

/// Takes timelines by remote write.
pub struct RemoteWrite {
    endpoint: Endpoint,
    stored: Notify,
}

impl RemoteWrite {
    /// To this server.
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, stored: Notify::new() }
    }

    /// A result was stored: there may be something due.
    pub fn stored(&self) {
        self.stored.notify_one();
    }

    /// Sends `requests` one after the other, until one is dropped; `tell` hears the fate of each.
    async fn write(
        &self,
        requests: &[WriteRequest],
        mut tell: impl FnMut(&Fate, usize),
    ) -> Result<Fate, Error> {
        for request in requests {
            let body = request.compressed().map_err(Error::Compress)?;
            let answer = self.endpoint.ask(Method::POST, "", &HEADERS, body).await.map_err(Error::Ask)?;
            let fate = fate(&answer)?;
            tell(&fate, request.samples());
            if matches!(fate, Fate::Dropped(_)) {
                return Ok(fate);
            }
        }
        Ok(Fate::Sent)
    }
}

/// Labels `job`, if it is still there.
async fn label(
    client: &Client,
    job: &impl ResourceExt,
    state: &str,
    dropped_because: Option<&str>,
) -> kube::Result<()> {
    let api: Api<Job> = Api::namespaced(client.clone(), &job.namespace().unwrap_or_default());
    let patch = json!({"metadata": {
        "uid": job.uid(),
        "labels": {labels::TIMELINE: state}, "annotations": {labels::TIMELINE_DROPPED: dropped_because},
    }});
    match api.patch_metadata(&job.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        labelled => labelled.map(|_| ()),
    }
}

/// Notes on the Job that measured `result`, which is about to be stored, that its timeline is due, where it has one.
pub async fn mark_due(client: &Client, job: &Job, result: &RepetitionResult) -> kube::Result<()> {
    if timeline(result).is_empty() { Ok(()) } else { label(client, job, DUE, None).await }
}

/// What of kind `K` says that a timeline is due.
async fn labelled<K>(ctx: &Context) -> Result<Vec<PartialObjectMeta<K>>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let selector = ListParams::default().labels(&format!("{}={DUE}", labels::TIMELINE)).limit(ROUND);
    let mut found = Vec::new();
    for (_, api) in ctx.settings.scope.apis::<K>(&ctx.client) {
        found.extend(api.list_metadata(&selector).await.map_err(Error::List)?);
    }
    Ok(found)
}

/// The Jobs whose timeline is due, of each run the oldest first: the points of a
/// search are of the same series, which a server takes in order only.
async fn due(ctx: &Context) -> Result<Vec<PartialObjectMeta<Job>>, Error> {
    let mut due = labelled::<Job>(ctx).await?;
    due.sort_by_cached_key(|job| (job.creation_timestamp(), job.name_any()));
    Ok(due)
}

/// Takes over what version 0.1 left due, which labelled results and not their Jobs.
async fn adopt(ctx: &Context) -> Result<(), Error> {
    for result in labelled::<ConfigMap>(ctx).await? {
        let (name, namespace) = (result.name_any(), result.namespace().unwrap_or_default());
        let job = ctx.world.jobs.get(&ObjectRef::new(&name).within(&namespace));
        if let Some(job) = job.filter(|job| !job.labels().contains_key(labels::TIMELINE)) {
            label(&ctx.client, &*job, DUE, None).await.map_err(|error| Error::Note(error, name))?;
        }
    }
    Ok(())
}

/// Notes on `job` what became of its timeline.
async fn note(ctx: &Context, job: &PartialObjectMeta<Job>, fate: &Fate) -> Result<(), Error> {
    let why = if let Fate::Dropped(why) = fate { Some(why.as_str()) } else { None };
    let state = if why.is_some() { DROPPED } else { SENT };
    label(&ctx.client, job, state, why).await.map_err(|error| Error::Note(error, job.name_any()))
}

/// Tells that a timeline was dropped: in the log, and with an event on its run.
async fn tell_dropped(ctx: &Context, job: &PartialObjectMeta<Job>, run: &str, why: &str) {
    let (name, namespace) = (job.name_any(), job.namespace());
    tracing::warn!(run, namespace, result = name, why, "a timeline was dropped");
    let run = ObjectMeta {
        name: Some(run.to_owned()),
        namespace,
        uid: job.labels().get(labels::RUN_UID).cloned(),
        ..ObjectMeta::default()
    };
    let told = format!("the timeline of {name} was dropped by remote write: {why}");
    let run = run.into_response_partial::<BenchmarkRun>();
    ctx.announcer.publish(&run, true, "TimelineDropped", "RemoteWrite", &told).await;
}

/// Sends the timeline of what `job` measured, and notes what became of it.
async fn send(ctx: &Context, sink: &RemoteWrite, job: &PartialObjectMeta<Job>) -> Result<(), Error> {
    let namespace = job.namespace().unwrap_or_default();
    let api: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &namespace);
    let run = job.labels().get(labels::RUN).cloned().unwrap_or_default();
    let fate = match stored_result(&api, &job.name_any()).await.map_err(Error::Read)? {
        Ok(result) => {
            let count = |fate: &Fate, samples| ctx.metrics.timeline_samples(fate.label(), samples);
            sink.write(&requests_of(&result, &namespace, &run), count).await?
        }
        // It is about to be stored, or its run was deleted and it with it.
        Err(stored::Error::Absent(_)) => return Ok(()),
        Err(damage) => Fate::Dropped(chain(&damage)),
    };
    note(ctx, job, &fate).await?;
    if let Fate::Dropped(why) = &fate {
        tell_dropped(ctx, job, &run, why).await;
    }
    Ok(())
}

/// Sends all that is due.
async fn round(ctx: &Context, sink: &RemoteWrite) -> Result<(), Error> {
    for job in due(ctx).await? {
        send(ctx, sink, &job).await?;
    }
    Ok(())
}

/// Sends what is due as it is stored, and what an earlier operator left. Never ends.
pub async fn sender(ctx: &Context) {
    let Some(sink) = &ctx.sinks.remote_write else { return pending().await };
    let mut adopted = false;
    loop {
        let done = async {
            if !adopted {
                adopt(ctx).await?;
                adopted = true;
            }
            round(ctx, sink).await
        };
        match done.await {
            Ok(()) => {
                ctx.retries.settled(RETRY_KEY);
                // Whichever comes first.
                let _ = tokio::time::timeout(SAFETY_NET, sink.stored.notified()).await;
            }
            Err(error) => {
                let why = chain(&error);
                let retry = ctx.retries.again(RETRY_KEY, &why, LONGEST_WAIT);
                if retry.news {
                    tracing::warn!(error = %why, "remote write failed; it is tried again");
                }
                tokio::time::sleep(retry.after.max(error.retry_after())).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;

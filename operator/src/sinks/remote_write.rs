//! Prometheus remote write 1.0 of the timeline of each stored repetition. A label on
//! the result's ConfigMap says that its timeline is due, or what became of it: the queue
//! is in the cluster, and costs no memory here however long the server is down. One
//! request is under way at a time. Needs the client and the network.

use super::{
    endpoint::{Answer, Endpoint, Error as EndpointError},
    timeline::timeline,
    write_request::{WriteRequest, requests},
};
use crate::{
    context::Context,
    labels,
    process::chain,
    run::{StoredError, stored_result},
};
use dragstrip_crds::BenchmarkRun;
use dragstrip_results::{result::RepetitionResult, stored};
use http::{
    HeaderName, Method, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt, Patch, PatchParams},
};
use serde_json::json;
use std::{future::pending, time::Duration};
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
    #[error("failed to list results whose timeline is due")]
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
    #[error("failed to note on ConfigMap {1} what became of its timeline")]
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

    /// Labels the ConfigMap that is to hold `result`, where it has a timeline.
    pub fn mark(&self, result: &RepetitionResult, config_map: &mut ConfigMap) {
        if !timeline(result).is_empty() {
            config_map.labels_mut().insert(labels::TIMELINE.to_owned(), DUE.to_owned());
        }
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

/// The ConfigMaps whose timeline is due, of each run the oldest first: the points of a
/// search are of the same series, which a server takes in order only.
async fn due(ctx: &Context) -> Result<Vec<PartialObjectMeta<ConfigMap>>, Error> {
    let api: Api<ConfigMap> = Api::all(ctx.client.clone());
    let selector = ListParams::default().labels(&format!("{}={DUE}", labels::TIMELINE)).limit(ROUND);
    let mut due = api.list_metadata(&selector).await.map_err(Error::List)?.items;
    due.sort_by_cached_key(|map| (map.creation_timestamp(), map.name_any()));
    Ok(due)
}

/// Notes on `config_map` what became of its timeline, where it still is there.
async fn note(
    api: &Api<ConfigMap>,
    config_map: &PartialObjectMeta<ConfigMap>,
    fate: &Fate,
) -> Result<(), Error> {
    let why = if let Fate::Dropped(why) = fate { Some(why) } else { None };
    let state = if why.is_some() { DROPPED } else { SENT };
    let patch = json!({"metadata": {
        "labels": {labels::TIMELINE: state}, "annotations": {labels::TIMELINE_DROPPED: why}
    }});
    let name = config_map.name_any();
    match api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        noted => noted.map(|_| ()).map_err(|error| Error::Note(error, name)),
    }
}

/// Tells that a timeline was dropped: in the log, and with an event on its run.
async fn tell_dropped(ctx: &Context, config_map: &PartialObjectMeta<ConfigMap>, run: &str, why: &str) {
    let (name, namespace) = (config_map.name_any(), config_map.namespace());
    tracing::warn!(run, namespace, result = name, why, "a timeline was dropped");
    let run = ObjectMeta {
        name: Some(run.to_owned()),
        namespace,
        uid: config_map.labels().get(labels::RUN_UID).cloned(),
        ..ObjectMeta::default()
    };
    let told = format!("the timeline of {name} was dropped by remote write: {why}");
    let run = run.into_response_partial::<BenchmarkRun>();
    ctx.announcer.publish(&run, true, "TimelineDropped", "RemoteWrite", &told).await;
}

/// Sends the timeline of the result that begins in `config_map`, and notes what became of it.
async fn send(
    ctx: &Context,
    sink: &RemoteWrite,
    config_map: &PartialObjectMeta<ConfigMap>,
) -> Result<(), Error> {
    let namespace = config_map.namespace().unwrap_or_default();
    let api: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &namespace);
    let run = config_map.labels().get(labels::RUN).cloned().unwrap_or_default();
    let fate = match stored_result(&api, &config_map.name_any()).await.map_err(Error::Read)? {
        Ok(result) => {
            let count = |fate: &Fate, samples| ctx.metrics.timeline_samples(fate.label(), samples);
            sink.write(&requests_of(&result, &namespace, &run), count).await?
        }
        // Its run was deleted, and it with it.
        Err(stored::Error::Absent(_)) => return Ok(()),
        Err(damage) => Fate::Dropped(chain(&damage)),
    };
    note(&api, config_map, &fate).await?;
    if let Fate::Dropped(why) = &fate {
        tell_dropped(ctx, config_map, &run, why).await;
    }
    Ok(())
}

/// Sends all that is due.
async fn round(ctx: &Context, sink: &RemoteWrite) -> Result<(), Error> {
    for config_map in due(ctx).await? {
        send(ctx, sink, &config_map).await?;
    }
    Ok(())
}

/// Sends what is due as it is stored, and what an earlier operator left. Never ends.
pub async fn sender(ctx: &Context) {
    let Some(sink) = &ctx.sinks.remote_write else { return pending().await };
    loop {
        match round(ctx, sink).await {
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

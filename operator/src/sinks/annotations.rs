//! A run as an annotation in Grafana: made when its load begins, its end and verdict
//! added when it has ended. What Grafana is still to be told stands in the run's status,
//! and only such runs are watched. Needs the client and the network.

use super::grafana::{Annotation, End, Error as GrafanaError, Grafana};
use crate::{
    cluster::apply::apply_status,
    context::Context,
    process::{Parts, chain},
};
use dragstrip_core::labels::GRAFANA_MANAGER;
use dragstrip_crds::{
    BenchmarkRun,
    run::{GrafanaStatus, Headline},
    units::thousands,
};
use futures::{StreamExt, future::join_all};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config, Error as ControllerError},
        watcher,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{future::pending, sync::Arc, time::Duration};

/// Longest time before Grafana is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Before looking again where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(5);
/// Runs of which Grafana is told at the same time.
const CONCURRENCY: u16 = 4;
/// For how long after a run's end Grafana is tried.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);
/// Characters of a text.
const TEXT_CHARACTERS: usize = 2000;

/// A run could not be annotated; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Grafana.
    #[error("the run cannot be annotated")]
    Grafana(#[from] GrafanaError),
    /// The status.
    #[error("failed to write into the status what Grafana was told")]
    Status(#[source] kube::Error),
}

/// A BenchmarkRun as far as it is told to Grafana. Any version's run can be read so.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = BenchmarkRun)]
pub struct AnnotatedRun {
    /// Its name, namespace and uid.
    pub metadata: ObjectMeta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    started_at: Option<Time>,
    finished_at: Option<Time>,
    message: String,
    verdict: String,
    target: Target,
    headline: Option<Headline>,
    grafana: GrafanaStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Target {
    name: String,
}

/// What Grafana is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Due {
    /// Nothing now.
    Nothing,
    /// Nothing any more, and the status is to say so.
    Close,
    /// That the load began.
    Start(Annotation),
    /// That the run in the annotation of this id ended.
    End(i64, Annotation, End),
}

fn milliseconds(time: &Time) -> i64 {
    time.0.as_millisecond()
}

/// Throughput and latency of the headline.
fn figures(status: &Status) -> String {
    let told = status.headline.as_ref().and_then(|headline| {
        let rate = thousands(u64::try_from(headline.throughput?).ok()?);
        let p99 = headline.p99_latency_microseconds;
        // Below a minute: exact as a float.
        let p99 = p99.map(|p99| format!(", p99 {} ms", p99 as f64 / 1000.0)).unwrap_or_default();
        Some(format!("\n{}: {rate} ops/s{p99}", headline.phase))
    });
    told.unwrap_or_default()
}

fn annotation(run: &AnnotatedRun, started: &Time) -> Annotation {
    let (name, namespace) = (run.name_any(), run.namespace().unwrap_or_default());
    Annotation {
        time: milliseconds(started),
        tags: vec!["dragstrip".to_owned(), format!("run:{name}"), format!("namespace:{namespace}")],
        text: format!("BenchmarkRun {namespace}/{name} against {}", run.status.target.name),
    }
}

/// What Grafana is to be told of `run` now.
fn due(run: &AnnotatedRun, now: Timestamp) -> Due {
    let status = &run.status;
    let (true, Some(started)) = (status.grafana.pending, &status.started_at) else { return Due::Nothing };
    let start = annotation(run, started);
    match (status.grafana.annotation_id, &status.finished_at) {
        (_, Some(finished)) if now.duration_since(finished.0) > PATIENCE => Due::Close,
        (None, _) => Due::Start(start),
        (Some(_), None) => Due::Nothing,
        (Some(id), Some(finished)) => {
            let text = format!("{}: {}, {}{}", start.text, status.verdict, status.message, figures(status));
            let text = text.chars().take(TEXT_CHARACTERS).collect();
            Due::End(id, start, End { time_end: milliseconds(finished), text })
        }
    }
}

/// Somebody deleted the annotation: it is made once more, with its end.
async fn made_anew(grafana: &Grafana, annotation: &Annotation, end: &End) -> Result<i64, GrafanaError> {
    let id = grafana.make(annotation).await?;
    if grafana.end(id, end).await? { Ok(id) } else { Err(GrafanaError::Gone(id)) }
}

/// Tells Grafana, and gives what the status is to say then; none where it says so already.
async fn tell(
    grafana: &Grafana,
    due: Due,
    old: &GrafanaStatus,
) -> Result<Option<GrafanaStatus>, GrafanaError> {
    match due {
        Due::Nothing => Ok(None),
        Due::Close => Ok(Some(GrafanaStatus { pending: false, ..old.clone() })),
        Due::Start(annotation) => {
            let id = grafana.make(&annotation).await?;
            Ok(Some(GrafanaStatus { annotation_id: Some(id), pending: true }))
        }
        Due::End(id, annotation, end) => {
            let id =
                if grafana.end(id, &end).await? { id } else { made_anew(grafana, &annotation, &end).await? };
            Ok(Some(GrafanaStatus { annotation_id: Some(id), pending: false }))
        }
    }
}

async fn reconcile(run: Arc<AnnotatedRun>, ctx: Arc<Context>) -> Result<Action, Error> {
    let Some(grafana) = &ctx.sinks.grafana else { return Ok(Action::await_change()) };
    // What the run controller or this one just wrote is on its way here.
    if run.metadata.deletion_timestamp.is_some() || ctx.own_writes.outrun(&*run) {
        return Ok(Action::requeue(IF_NO_EVENT_COMES));
    }
    let due = due(&run, Timestamp::now()); // pure
    if due == Due::Close {
        tracing::warn!(run = run.name_any(), namespace = run.namespace(), "its annotation is left as it is");
    }
    if let Some(told) = tell(grafana, due, &run.status.grafana).await? {
        let status = json!({"grafana": told});
        let written = apply_status(&ctx.client, &ctx.own_writes, GRAFANA_MANAGER, &*run, &status).await;
        written.map_err(Error::Status)?;
    }
    ctx.retries.settled(&retry_key(&run));
    // Where the run was changed meanwhile, its event brings the next pass, which finds
    // in Grafana what this one made.
    Ok(Action::await_change())
}

/// Under this name failed passes are remembered, apart from the run controller's.
fn retry_key(run: &AnnotatedRun) -> String {
    format!("grafana/{}", run.uid().unwrap_or_default())
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(run: Arc<AnnotatedRun>, error: &Error, ctx: Arc<Context>) -> Action {
    let why = chain(error);
    let retry = ctx.retries.again(&retry_key(&run), &why, LONGEST_WAIT);
    if retry.news {
        let (name, namespace) = (run.name_any(), run.namespace());
        tracing::warn!(run = name, namespace, error = %why, "Grafana was not told of a run; it is tried again");
    }
    Action::requeue(retry.after)
}

/// Tells Grafana of runs until shutdown. Never ends where there is no Grafana.
pub async fn controller(ctx: Arc<Context>, parts: &Parts) {
    if ctx.sinks.grafana.is_none() {
        return pending().await;
    }
    let all = ctx.settings.scope.apis(&ctx.client).into_iter();
    join_all(all.map(|(_, runs)| controller_in(runs, ctx.clone(), parts))).await;
}

async fn controller_in(runs: Api<AnnotatedRun>, ctx: Arc<Context>, parts: &Parts) {
    let retries = ctx.retries.clone();
    Controller::new(runs, watcher::Config::default().fields("status.grafana.pending=true"))
        .with_config(Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|result| {
            // Failed passes have told themselves.
            if let Err(ControllerError::QueueError(error)) = &result
                && retries.again("grafana", &chain(error), LONGEST_WAIT).news
            {
                tracing::warn!(error = %chain(error), "runs of which Grafana is to be told cannot be watched");
            }
            std::future::ready(())
        })
        .await;
}

#[cfg(test)]
mod tests;

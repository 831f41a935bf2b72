//! The Datastore controller.

mod apply;
mod build;
pub mod engines;
mod fetch;
mod shape;
mod status;
pub(crate) mod validate;
pub mod verify;

pub(crate) use build::{
    empty_directory, locked_down, mount, own_field, prefer_role, secret_variable, tolerations, variable,
};
pub(crate) use fetch::observe;

use crate::{
    cluster::world::Feeds,
    context::Context,
    labels,
    metrics::Outcome,
    process::{Parts, log_failure},
};
use dragstrip_crds::{BenchmarkRun, Datastore, DatastoreStatus, run::RunPhase};
use futures::{Future, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::{
    Api, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::ObjectRef,
        watcher,
    },
};
use shape::Shape;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use validate::ValidatedDatastore;

/// A reconcile's step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the cluster failed.
    #[error("failed to fetch what exists for the datastore")]
    Fetch(#[from] fetch::Error),
    /// Writing the cluster failed.
    #[error("failed to apply the datastore's objects")]
    Apply(#[from] apply::Error),
    /// Writing the status failed.
    #[error(transparent)]
    Status(#[from] status::Error),
}

/// Datastores reconciled at the same time.
const CONCURRENCY: u16 = 4;
/// A pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);
/// Before asking again a server that is up but did not answer, or a cluster without a fitting node.
const ASK_AGAIN: Duration = Duration::from_secs(2);

async fn reconcile(datastore: Arc<Datastore>, ctx: Arc<Context>) -> Result<Action, Error> {
    if datastore.metadata.deletion_timestamp.is_some() {
        // Everything it made has it as owner: the garbage collector removes it.
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    let result = pass(&datastore, &ctx).await;
    let outcome = match &result {
        Ok((outcome, _)) => *outcome,
        Err(_) => Outcome::Failed,
    };
    ctx.metrics.reconciled("datastore", outcome, started.elapsed());
    result.map(|(_, action)| action)
}

async fn pass(datastore: &Datastore, ctx: &Context) -> Result<(Outcome, Action), Error> {
    let old = datastore.status.clone().unwrap_or_default();
    let fetched = fetch::fetch(ctx, datastore).await?; // client
    let now = Timestamp::now();
    let validated = match validate::validate(datastore, &fetched.nodes) {
        Ok(validated) => validated, // pure
        Err(invalid) => {
            status::publish(ctx, datastore, status::of_invalid(datastore, &old, &invalid, now)).await?;
            return Ok((Outcome::Invalid, Action::requeue(Duration::from_secs(30))));
        }
    };
    let resources = build::build(&validated, &ctx.settings.runner_image); // pure
    apply::apply(ctx, resources).await?; // client
    let status = status::of_valid(&validated, &old, &fetched, now); // pure
    let action = next_look(&validated, &status, &fetched);
    status::publish(ctx, datastore, status).await?; // client
    Ok((Outcome::Done, action))
}

/// Pod events bring the next pass; only ready pods whose servers could not be
/// asked or are being joined make none.
fn next_look(validated: &ValidatedDatastore, status: &DatastoreStatus, fetched: &fetch::Fetched) -> Action {
    let soon = status::unsettled(status, Shape::of(&validated.spec), fetched);
    Action::requeue(if soon { ASK_AGAIN } else { SAFETY_NET })
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(datastore: Arc<Datastore>, error: &Error, _: Arc<Context>) -> Action {
    log_failure("Datastore", &datastore.name_any(), datastore.namespace().as_deref(), error);
    Action::requeue(Duration::from_secs(2))
}

/// Which Datastore a pod belongs to.
fn of_pod(pod: &Pod) -> Option<ObjectRef<Datastore>> {
    let name = pod.labels().get(labels::DATASTORE)?.clone();
    Some(ObjectRef::new(&name).within(&pod.namespace()?))
}

/// Which Datastore a warning may be about, by the name of the pod: NAME-INDEX.
/// Other pods' warnings name no Datastore that there is, and bring no pass.
fn of_warning(event: &Event) -> Option<ObjectRef<Datastore>> {
    let (name, index) = event.involved_object.name.as_ref()?.rsplit_once('-')?;
    index.parse::<u16>().ok()?;
    Some(ObjectRef::new(name).within(event.involved_object.namespace.as_ref()?))
}

/// Which Datastore a run is about to use or has used: it is looked at again, so
/// that its status tells what the run found. Not while load runs: asking a
/// server costs it something.
fn of_run(run: &BenchmarkRun) -> Option<ObjectRef<Datastore>> {
    let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let name = run.spec.target.datastore_ref.as_ref()?.name.clone();
    let idle = phase == RunPhase::Pending || phase.finished();
    idle.then_some(ObjectRef::new(&name).within(&run.namespace()?))
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, parts: &Parts) -> impl Future<Output = ()> + use<> {
    let services = Api::<Service>::all(ctx.client.clone());
    let ours = watcher::Config::default().labels("app.kubernetes.io/managed-by=dragstrip-operator");
    Controller::for_shared_stream(feeds.datastores.subscribe(), ctx.world.datastores.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns_shared_stream(feeds.stateful_sets.subscribe())
        .owns(services, ours)
        .watches_shared_stream(feeds.pods.subscribe(), |pod| of_pod(&pod))
        .watches_shared_stream(feeds.warnings.subscribe(), |event| of_warning(&event))
        .watches_shared_stream(feeds.runs.subscribe(), |run| of_run(&run))
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %crate::process::chain(&error), "datastore controller");
            }
            std::future::ready(())
        })
}

//! The Datastore controller.

mod apply;
pub(crate) mod build;
mod fetch;
mod placement;
mod places;
mod plan;
mod status;
mod trouble;

pub(crate) use build::{empty_directory, locked_down, mount, prefer_role, required};
pub(crate) use fetch::observe;
pub(crate) use plan::built_for;
pub(crate) use status::CHANGE_WAITS;

use crate::{
    cluster::world::Feeds,
    context::Context,
    failure::{passes, retry_later},
    metrics::Outcome,
    run,
    shutdown::Shutdown,
};
use apply::Applied;
use dragstrip_core::{datastore::validate, labels, lease::Holder};
use dragstrip_crds::{
    BenchmarkRun, Datastore, DatastoreStatus,
    conditions::{self, Finding, types::READY},
    run::RunPhase,
};
use dragstrip_results::error_chain::chain;
use futures::{Future, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A reconcile's step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to apply the datastore's objects")]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Status(#[from] status::Error),
}

/// Datastores reconciled at the same time.
const CONCURRENCY: u16 = 32;
/// Events come in bursts, one from each object that a change touches: one pass sees all of them.
const BURST: Duration = Duration::from_millis(100);
/// Before looking again where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(5);
/// A pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);
/// The longest wait before what failed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// The longest wait before asking again a server that is up but did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(10);

async fn reconcile(datastore: Arc<Datastore>, ctx: Arc<Context>) -> Result<Action, Error> {
    if datastore.metadata.deletion_timestamp.is_some() {
        // Everything it made has it as owner: the garbage collector removes it.
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    let result = reported(&datastore, &ctx).await;
    let outcome = match &result {
        Ok((outcome, _)) => *outcome,
        Err(_) => Outcome::Failed,
    };
    ctx.metrics.reconciled("datastore", outcome, started.elapsed());
    result.map(|(_, action)| action)
}

/// A pass, of which the status tells also what was refused.
async fn reported(datastore: &Datastore, ctx: &Context) -> Result<(Outcome, Action), Error> {
    let result = pass(datastore, ctx).await;
    if let Err(Error::Apply(error)) = &result
        && let Some(finding) = error.finding()
    {
        tell(datastore, ctx, finding).await?;
    }
    result
}

/// Writes `finding` into the status and leaves the rest of it as it is.
async fn tell(datastore: &Datastore, ctx: &Context, finding: Finding) -> Result<(), status::Error> {
    let old = datastore.status.clone().unwrap_or_default();
    let status = status::of_finding(datastore, &old, finding, Timestamp::now());
    status::publish(ctx, datastore, status).await
}

/// Whether the pods are those that a run loads just now, with the same processes; `None` when
/// nobody loads them.
fn same_under_load(ctx: &Context, fetched: &fetch::Fetched, built: Option<i64>) -> Option<bool> {
    let holder = fetched.holder.as_ref()?;
    let pods: Vec<Arc<Pod>> = fetched.pods.iter().cloned().map(Arc::new).collect();
    run::same_under_load(&ctx.world.jobs.state(), holder, &pods, built)
}

/// Tells that the change waits for the run that holds the server, whose end brings the next pass.
async fn waits(datastore: &Datastore, ctx: &Context, holder: &Holder) -> Result<(Outcome, Action), Error> {
    tell(datastore, ctx, status::waits(holder)).await?;
    ctx.retries.settled(&datastore.uid().unwrap_or_default());
    Ok((Outcome::Done, Action::requeue(SAFETY_NET)))
}

async fn pass(datastore: &Datastore, ctx: &Context) -> Result<(Outcome, Action), Error> {
    let old = datastore.status.clone().unwrap_or_default();
    let uid = datastore.uid().unwrap_or_default();
    let mut fetched = fetch::fetch(ctx, datastore);
    apply::guard(ctx, datastore, &fetched).await?; // client
    let built = fetched.stateful_set.as_ref().and_then(|set| plan::built_for(set, &old));
    let own = fetched.stateful_set.as_ref().is_some_and(|set| plan::ours(&**set, &uid).is_ok());
    let edited = own && built.is_some() && built != datastore.metadata.generation;
    // Whatever it declares now, the server is that of the declaration before as long as a run holds it.
    if let Some(holder) = fetched.holder.as_ref().filter(|_| edited) {
        return waits(datastore, ctx, holder).await;
    }
    // What was built was checked by the rules of its time.
    let validated = if built.is_some() && built == datastore.metadata.generation {
        validate::complete(datastore, &fetched.nodes) // pure
    } else {
        validate::validate(datastore, &fetched.nodes) // pure
    };
    let validated = match validated {
        Ok(validated) => validated,
        Err(invalid) => {
            tell(datastore, ctx, status::invalid(&invalid)).await?;
            return Ok((Outcome::Invalid, Action::await_change()));
        }
    };
    let mut resources =
        build::build(&validated, &ctx.settings.runner_image).obeying(ctx.settings.verifying_key.as_ref()); // pure
    if let Some(pod) = resources.stateful_set.spec.as_mut().and_then(|set| set.template.spec.as_mut()) {
        ctx.settings.pull(pod); // pure
    }
    // client
    match Box::pin(apply::apply(ctx, &validated, &fetched, resources, &old)).await? {
        Applied::Stands(stateful_set) => fetched.stateful_set = Some(stateful_set),
        Applied::Made => return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES))),
        Applied::Waits(holder) => return waits(datastore, ctx, &holder).await,
    }
    let unready = trouble::unready(&validated, &fetched);
    // A server under load is not asked what is known.
    if unready.is_none()
        && fetched.holder.is_some()
        && conditions::holds(&old.conditions, READY, Some(validated.generation))
    {
        return Ok((Outcome::Done, Action::requeue(SAFETY_NET)));
    }
    if let Some(same) = same_under_load(ctx, &fetched, built)
        && let Some(finding) = status::under_load(unready.clone(), same, &old, validated.generation)
    {
        tell(datastore, ctx, finding).await?;
        return Ok((Outcome::Done, Action::requeue(SAFETY_NET)));
    }
    if unready.is_none() {
        fetch::ask(ctx, datastore, &mut fetched).await; // observers
    }
    let status = status::of_valid(&validated, &old, &fetched, Timestamp::now()); // pure
    let action = next_look(ctx, &uid, &status);
    status::publish(ctx, datastore, status).await?; // client
    Ok((Outcome::Done, action))
}

/// Pod events bring the next pass; only ready pods whose servers could not be
/// asked or are being joined make none.
fn next_look(ctx: &Context, uid: &str, status: &DatastoreStatus) -> Action {
    let Some(cause) = status::unsettled(status) else {
        ctx.retries.settled(uid);
        return Action::requeue(SAFETY_NET);
    };
    Action::requeue(ctx.retries.again(uid, cause, ASK_AGAIN).after)
}

/// Whether something was no longer what it was when it was looked at: the next look is at what it is.
fn outrun(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            return status.is_conflict();
        }
        next = cause.source();
    }
    false
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(datastore: Arc<Datastore>, error: &Error, ctx: Arc<Context>) -> Action {
    if outrun(error) {
        // Not worth a line in the log: the next pass sees what it is now.
        return Action::requeue(
            ctx.retries.again(&datastore.uid().unwrap_or_default(), &chain(error), TRY_AGAIN).after,
        );
    }
    retry_later(&ctx.retries, &*datastore, error, TRY_AGAIN)
}

/// Which Datastore a pod belongs to.
fn of_pod(pod: &Pod) -> Option<ObjectRef<Datastore>> {
    let name = pod.labels().get(labels::DATASTORE)?.clone();
    Some(ObjectRef::new(&name).within(&pod.namespace()?))
}

/// Which Datastore a warning may be about: that of the StatefulSet's name, or of the
/// pod's, NAME-INDEX. Others name no Datastore that there is, and bring no pass.
fn of_warning(event: &Event) -> Option<ObjectRef<Datastore>> {
    let about = &event.involved_object;
    let name = match about.kind.as_deref()? {
        "StatefulSet" => about.name.as_deref()?,
        _ => about.name.as_ref()?.rsplit_once('-').filter(|(_, index)| index.parse::<u16>().is_ok())?.0,
    };
    Some(ObjectRef::new(name).within(about.namespace.as_ref()?))
}

/// Which Datastore a Lease or a PodDisruptionBudget is for: both are called dragstrip-NAME.
fn of_turn<K: Resource>(object: &K) -> Option<ObjectRef<Datastore>> {
    let name = object.meta().name.as_ref()?.strip_prefix("dragstrip-")?;
    Some(ObjectRef::new(name).within(object.meta().namespace.as_ref()?))
}

/// Which Datastore a run is about to use: it is looked at again, so that its status
/// tells what the run will find. Not while load runs: asking a server costs it something.
fn of_run(run: &BenchmarkRun) -> Option<ObjectRef<Datastore>> {
    let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let name = run.spec.target.datastore_ref.as_ref()?.name.clone();
    (phase == RunPhase::Pending).then_some(ObjectRef::new(&name).within(&run.namespace()?))
}

/// Which Datastore a Service is for, or in the way of: both have the same name.
fn of_service(service: &Service) -> Option<ObjectRef<Datastore>> {
    Some(ObjectRef::new(&service.name_any()).within(&service.namespace()?))
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, stop: &Shutdown) -> impl Future<Output = ()> + use<> {
    Controller::for_shared_stream(feeds.datastores.subscribe(), ctx.world.datastores.clone())
        .with_config(Config::default().concurrency(CONCURRENCY).debounce(BURST))
        .owns_shared_stream(feeds.stateful_sets.subscribe())
        .watches_shared_stream(feeds.services.subscribe(), |service| of_service(&service))
        .watches_shared_stream(feeds.budgets.subscribe(), |budget| of_turn(&*budget))
        .watches_shared_stream(feeds.leases.subscribe(), |lease| of_turn(&*lease))
        .watches_shared_stream(feeds.pods.subscribe(), |pod| of_pod(&pod))
        .watches_shared_stream(feeds.warnings.subscribe(), |event| of_warning(&event))
        .watches_shared_stream(feeds.runs.subscribe(), |run| of_run(&run))
        .graceful_shutdown_on(stop.clone())
        .run(reconcile, on_error, ctx)
        .for_each(passes("datastore"))
}

#[cfg(test)]
pub(crate) mod tests;

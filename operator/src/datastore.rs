//! The Datastore controller.

mod apply;
pub(crate) mod build;
mod fetch;
mod placement;
mod places;
mod plan;
mod status;
mod trouble;

pub(crate) use fetch::observe;
pub(crate) use plan::built_for;
pub(crate) use status::CHANGE_WAITS;

use crate::{
    cluster::{context::Context, loads, world::Feeds},
    failure::{guard, passes, retry_later},
    metrics::Outcome,
    shutdown::Shutdown,
};
use apply::Applied;
use dragstrip_core::{datastore::validate, labels, lease::Holder};
use dragstrip_crds::{
    BenchmarkRun, Datastore, DatastoreStatus,
    conditions::{self, Finding, types::READY},
    run::{RunPhase, Target},
};
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

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to apply the datastore's objects")]
    Apply(#[from] apply::Error),
    #[error("failed to write the status of the datastore")]
    Status(#[source] kube::Error),
}

const CONCURRENCY: u16 = 32;
/// Events come in bursts, one from each object that a change touches: one pass covers all of them.
const BURST: Duration = Duration::from_millis(100);
/// Time until the next pass when an event must come, in case it is missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(5);
/// Time until a pass without a cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);
/// Longest wait before a failed pass is retried.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Longest wait before a running server that did not answer is queried again.
const LONGEST_QUERY_WAIT: Duration = Duration::from_secs(10);

async fn reconcile(datastore: Arc<Datastore>, ctx: Arc<Context>) -> Result<Action, Error> {
    if datastore.metadata.deletion_timestamp.is_some() {
        // The garbage collector removes its objects.
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    let mut result = pass(&datastore, &ctx).await;
    // The status also reports what was refused.
    if let Err(Error::Apply(error)) = &result
        && let Some(finding) = error.finding()
        && let Err(error) = report(&datastore, &ctx, finding).await
    {
        result = Err(error);
    }
    let outcome = match &result {
        Ok((outcome, _)) => *outcome,
        Err(_) => Outcome::Failed,
    };
    ctx.metrics.reconciled("datastore", outcome, started.elapsed());
    result.map(|(_, action)| action)
}

/// Writes `finding` into the status and leaves the rest of it as it is; `false` if the Datastore changed.
async fn report(datastore: &Datastore, ctx: &Context, finding: Finding) -> Result<bool, Error> {
    let old = datastore.status.clone().unwrap_or_default();
    let status = status::with_finding(datastore, &old, finding, Timestamp::now());
    status::publish(ctx, datastore, &old, &status).await.map_err(Error::Status)
}

/// The end of a pass that has `written` its status, or that follows as soon as the Datastore's change is known.
fn ended(written: bool, outcome: Outcome, next: Action) -> (Outcome, Action) {
    if written { (outcome, next) } else { (Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)) }
}

/// Whether the pods have the processes that a run loads now; `None` if no run loads them.
fn same_under_load(ctx: &Context, fetched: &fetch::Fetched, built: Option<i64>) -> Option<bool> {
    let holder = fetched.holder.as_ref()?;
    loads::same_under_load(&ctx.world.jobs.state(), holder, &fetched.pods, built)
}

/// Reports that the change waits for the run that holds the server. Its end brings the next pass.
async fn wait(datastore: &Datastore, ctx: &Context, holder: &Holder) -> Result<(Outcome, Action), Error> {
    let written = report(datastore, ctx, status::waits(holder)).await?;
    ctx.retries.settled(&datastore.uid().unwrap_or_default());
    Ok(ended(written, Outcome::Done, Action::requeue(SAFETY_NET)))
}

async fn pass(datastore: &Datastore, ctx: &Context) -> Result<(Outcome, Action), Error> {
    let old = datastore.status.clone().unwrap_or_default();
    let uid = datastore.uid().unwrap_or_default();
    let mut fetched = fetch::fetch(ctx, datastore);
    apply::protect(ctx, datastore, &fetched).await?; // client
    let built = fetched.stateful_set.as_ref().and_then(|set| plan::built_for(set));
    let own = fetched.stateful_set.as_ref().is_some_and(|set| plan::ours(&**set, &uid).is_ok());
    let edited = own && built.is_some() && built != datastore.metadata.generation;
    // While a run holds the server, it stays that of the earlier declaration.
    if let Some(holder) = fetched.holder.as_ref().filter(|_| edited) {
        return wait(datastore, ctx, holder).await;
    }
    // An existing server was checked by the rules of its time.
    let validated = if built.is_some() && built == datastore.metadata.generation {
        validate::complete(datastore, &fetched.nodes) // pure
    } else {
        validate::validate(datastore, &fetched.nodes) // pure
    };
    let mut validated = match validated {
        Ok(validated) => validated,
        Err(invalid) => {
            let finding = Finding::no(READY, invalid.reason, invalid.to_string());
            let written = report(datastore, ctx, finding).await?;
            return Ok(ended(written, Outcome::Invalid, Action::await_change()));
        }
    };
    if datastore.spec.image.is_none() {
        validated.image = ctx.settings.in_registry(&validated.image);
    }
    let key = ctx.settings.verifying_key.as_ref();
    let mut resources = build::build(&validated, &ctx.settings.runner_image, key); // pure
    if let Some(pod) = resources.stateful_set.spec.as_mut().and_then(|set| set.template.spec.as_mut()) {
        ctx.settings.adapt(pod); // pure
    }
    // client
    match Box::pin(apply::apply(ctx, &validated, &fetched, resources)).await? {
        Applied::Present(stateful_set) => fetched.stateful_set = Some(stateful_set),
        Applied::Created => return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES))),
        Applied::Waits(holder) => return wait(datastore, ctx, &holder).await,
    }
    let unready = trouble::unready(&validated, &fetched);
    // A server under load is not queried about what the status has.
    if unready.is_none()
        && fetched.holder.is_some()
        && conditions::holds(&old.conditions, READY, Some(validated.generation))
    {
        return Ok((Outcome::Done, Action::requeue(SAFETY_NET)));
    }
    if let Some(same) = same_under_load(ctx, &fetched, built)
        && let Some(finding) = status::under_load(unready.clone(), same, &old, validated.generation)
    {
        let written = report(datastore, ctx, finding).await?;
        return Ok(ended(written, Outcome::Done, Action::requeue(SAFETY_NET)));
    }
    if unready.is_none() {
        fetch::query(ctx, datastore, &mut fetched).await; // observers
    }
    let status = status::of_valid(&validated, &old, &fetched, Timestamp::now()); // pure
    let action = next_pass(ctx, &uid, &status);
    let written = status::publish(ctx, datastore, &old, &status).await.map_err(Error::Status)?; // client
    Ok(ended(written, Outcome::Done, action))
}

/// Pod events bring the next pass, but not while ready servers do not answer or are being joined.
fn next_pass(ctx: &Context, uid: &str, status: &DatastoreStatus) -> Action {
    let Some(cause) = status::unsettled(status) else {
        ctx.retries.settled(uid);
        return Action::requeue(SAFETY_NET);
    };
    Action::requeue(ctx.retries.again(uid, cause, LONGEST_QUERY_WAIT).after)
}

async fn guarded(datastore: Arc<Datastore>, ctx: Arc<Context>) -> Result<Action, Error> {
    let pass = Box::pin(reconcile(Arc::clone(&datastore), Arc::clone(&ctx)));
    guard(&ctx, "datastore", &*datastore, pass).await
}

fn of_pod(pod: &Pod) -> Option<ObjectRef<Datastore>> {
    let name = pod.labels().get(labels::DATASTORE)?.clone();
    Some(ObjectRef::new(&name).within(&pod.namespace()?))
}

/// The Datastore that a warning may be about, from the name of a StatefulSet, NAME, or of a pod,
/// NAME-INDEX. A name of no Datastore brings no pass.
fn of_warning(event: &Event) -> Option<ObjectRef<Datastore>> {
    let about = &event.involved_object;
    let name = match about.kind.as_deref()? {
        "StatefulSet" => about.name.as_deref()?,
        _ => about.name.as_ref()?.rsplit_once('-').filter(|(_, index)| index.parse::<u16>().is_ok())?.0,
    };
    Some(ObjectRef::new(name).within(about.namespace.as_ref()?))
}

/// The Datastore that a Lease or a PodDisruptionBudget is for: both have the name dragstrip-NAME.
fn of_lease_or_budget<K: Resource>(object: &K) -> Option<ObjectRef<Datastore>> {
    let name = object.meta().name.as_ref()?.strip_prefix("dragstrip-")?;
    Some(ObjectRef::new(name).within(object.meta().namespace.as_ref()?))
}

/// The Datastore that a run is about to use: a pass updates its status for the run. There is none while
/// load runs, because a query disturbs the server.
fn of_run(run: &BenchmarkRun) -> Option<ObjectRef<Datastore>> {
    let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let Target::DatastoreRef(reference) = &run.spec.target else { return None };
    (phase == RunPhase::Pending).then_some(ObjectRef::new(&reference.name).within(&run.namespace()?))
}

/// The Datastore that a Service is for, or whose name it has.
fn of_service(service: &Service) -> Option<ObjectRef<Datastore>> {
    Some(ObjectRef::new(&service.name_any()).within(&service.namespace()?))
}

/// The Datastore controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, stop: &Shutdown) -> impl Future<Output = ()> + use<> {
    Controller::for_shared_stream(feeds.datastores.subscribe(), ctx.world.datastores.clone())
        .with_config(Config::default().concurrency(CONCURRENCY).debounce(BURST))
        .owns_shared_stream(feeds.stateful_sets.subscribe())
        .watches_shared_stream(feeds.services.subscribe(), |service| of_service(&service))
        .watches_shared_stream(feeds.budgets.subscribe(), |budget| of_lease_or_budget(&*budget))
        .watches_shared_stream(feeds.leases.subscribe(), |lease| of_lease_or_budget(&*lease))
        .watches_shared_stream(feeds.pods.subscribe(), |pod| of_pod(&pod))
        .watches_shared_stream(feeds.warnings.subscribe(), |event| of_warning(&event))
        .watches_shared_stream(feeds.runs.subscribe(), |run| of_run(&run))
        .graceful_shutdown_on(stop.clone())
        .run(guarded, |object, error, ctx| retry_later(&ctx.retries, &*object, error, LONGEST_WAIT), ctx)
        .for_each(passes("datastore"))
}

#[cfg(test)]
pub(crate) mod tests;

//! The BenchmarkRun controller.

mod apply;
mod build;
mod collect;
pub mod decide;
mod fetch;
#[cfg(test)]
mod fixtures;
mod keeper;
mod merge;
mod order;
mod plan;
mod status;
mod summary;
mod target;
mod turn;
pub mod validate;
mod view;

use crate::{
    cluster::world::Feeds,
    context::Context,
    labels,
    metrics::Outcome,
    process::{Parts, chain, log_failure},
};
pub use keeper::controller as keeper;

use apply::Applied;
use decide::{Step, decide};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use futures::{Future, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A reconcile's step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the cluster failed.
    #[error("failed to fetch what exists for the run")]
    Fetch(#[from] fetch::Error),
    /// Carrying out the step failed.
    #[error("failed to carry out a step of the run")]
    Apply(#[from] apply::Error),
    /// Writing the status failed.
    #[error(transparent)]
    Status(#[from] status::Error),
    /// A finished run could not be removed.
    #[error("failed to remove a run whose ttlAfterFinished is over")]
    Expire(#[source] kube::Error),
}

/// Runs reconciled at the same time.
const CONCURRENCY: u16 = 16;
/// A pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);

async fn reconcile(run: Arc<BenchmarkRun>, ctx: Arc<Context>) -> Result<Action, Error> {
    if run.metadata.deletion_timestamp.is_some() {
        // Everything it made has it as owner; the keeper of turns removes its Leases.
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    let result = pass(&run, &ctx).await;
    let outcome = match &result {
        Ok((outcome, _)) => *outcome,
        Err(_) => Outcome::Failed,
    };
    ctx.metrics.reconciled("run", outcome, started.elapsed());
    result.map(|(_, action)| action)
}

async fn pass(run: &BenchmarkRun, ctx: &Context) -> Result<(Outcome, Action), Error> {
    let validated = match validate::validate(run) {
        Ok(validated) => validated, // pure
        Err(invalid) => {
            let old = run.status.clone().unwrap_or_default();
            status::publish(ctx, run, &old, &status::of_invalid(run, &invalid, Timestamp::now())).await?;
            return Ok((Outcome::Invalid, Action::await_change()));
        }
    };
    // That a run has ended is a record, like a Job's completion time, not a phase to act on.
    if turn::ended(run) {
        apply::clear_up(ctx, &validated).await?;
        return Ok((Outcome::Done, expire(ctx, run).await?));
    }
    let fetched = fetch::fetch(ctx, &validated, &ctx.world.runs.state()).await?; // client
    let now = Timestamp::now();
    let step = decide(&validated, &view::view(&validated, &fetched), now); // pure
    let applied = apply::apply(ctx, &validated, &fetched, &step).await?; // client
    if status::worth_telling(&step)
        && let Some(old) = status::stored(ctx, run).await?
    // client
    {
        let status = status::of_step(&validated, &old, &fetched, &step, now); // pure
        status::publish(ctx, run, &old, &status).await?; // client
    }
    let action =
        if applied == Applied::Progressed { Action::requeue(Duration::ZERO) } else { next_look(&step, now) };
    Ok((Outcome::Done, action))
}

/// Events bring the next pass; a deadline is the only thing a clock must bring.
fn next_look(step: &Step, now: Timestamp) -> Action {
    match step {
        Step::Wait(_, Some(until)) => {
            let left = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
            Action::requeue(left.saturating_add(Duration::from_millis(100)).min(SAFETY_NET))
        }
        // The status just written brings it.
        _ => Action::requeue(SAFETY_NET),
    }
}

/// Removes a finished run when its time is over, else says when that will be.
async fn expire(ctx: &Context, run: &BenchmarkRun) -> Result<Action, Error> {
    let finished = run.status.as_ref().and_then(|status| status.finished_at.as_ref());
    let (Some(period), Some(finished)) = (&run.spec.ttl_after_finished, finished) else {
        return Ok(Action::await_change());
    };
    let over = finished.0.saturating_add(period.signed()).unwrap_or(Timestamp::MAX);
    match Duration::try_from(over.duration_since(Timestamp::now())) {
        Ok(left) if !left.is_zero() => Ok(Action::requeue(left)),
        _ => {
            crate::cluster::apply::delete(&ctx.client, run).await.map_err(Error::Expire)?;
            Ok(Action::await_change())
        }
    }
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(run: Arc<BenchmarkRun>, error: &Error, _: Arc<Context>) -> Action {
    log_failure("BenchmarkRun", &run.name_any(), run.namespace().as_deref(), error);
    Action::requeue(Duration::from_secs(1))
}

fn waiting(runs: &Store<BenchmarkRun>) -> impl Iterator<Item = ObjectRef<BenchmarkRun>> + use<> {
    let queued = |run: &BenchmarkRun| run.status.as_ref().is_some_and(|status| status.queue.is_some());
    runs.state().into_iter().filter(move |run| queued(run)).map(|run| ObjectRef::from_obj(&*run))
}

/// The run a client pod belongs to.
fn of_pod(pod: &Pod) -> Option<ObjectRef<BenchmarkRun>> {
    let name = pod.labels().get(labels::RUN)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// The runs that a warning about a pod may concern: those under way whose name the
/// pod's begins with. Pods have no owner in their events; a pass too many harms nobody.
fn of_warning(event: &Event, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let about = &event.involved_object;
    let Some(pod) = &about.name else {
        return Vec::new();
    };
    let concerned = |run: &BenchmarkRun| {
        let begins = pod.strip_prefix(&run.name_any()).is_some_and(|rest| rest.starts_with('-'));
        begins && run.namespace() == about.namespace && !turn::ended(run)
    };
    runs.state().iter().filter(|run| concerned(run)).map(|run| ObjectRef::from_obj(&**run)).collect()
}

/// The runs against a Datastore that have not ended.
fn of_datastore(datastore: &Datastore, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let (name, namespace) = (datastore.name_any(), datastore.namespace());
    let concerned = |run: &BenchmarkRun| {
        let target = &run.spec.target;
        let referred = target.datastore_ref.as_ref().is_some_and(|reference| reference.name == name);
        let own = target.datastore.is_some() && run.name_any() == name;
        let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
        let before_load = matches!(phase, RunPhase::Pending | RunPhase::Provisioning | RunPhase::Queued);
        run.namespace() == namespace && (referred || own) && before_load
    };
    runs.state().iter().filter(|run| concerned(run)).map(|run| ObjectRef::from_obj(&**run)).collect()
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, parts: &Parts) -> impl Future<Output = ()> + use<> {
    let runs = ctx.world.runs.clone();
    let (for_datastores, for_leases, for_warnings) = (runs.clone(), runs.clone(), runs.clone());
    Controller::for_shared_stream(feeds.runs.subscribe(), runs)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns_shared_stream(feeds.jobs.subscribe())
        .watches_shared_stream(feeds.pods.subscribe(), |pod| of_pod(&pod))
        .watches_shared_stream(feeds.leases.subscribe(), move |_| waiting(&for_leases).collect::<Vec<_>>())
        .watches_shared_stream(feeds.warnings.subscribe(), move |event| of_warning(&event, &for_warnings))
        .watches_shared_stream(feeds.datastores.subscribe(), move |datastore| {
            of_datastore(&datastore, &for_datastores)
        })
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %chain(&error), "run controller");
            }
            std::future::ready(())
        })
}

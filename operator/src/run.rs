//! The BenchmarkRun controller.

mod act;
mod build;
mod collect;
mod context;
mod fetch;
mod lease_cleanup;
mod publish;

use crate::{
    cluster::world::Feeds,
    failure::{guard, measure, passes, retry_later},
    metrics::Outcome,
    shutdown::Shutdown,
};
use act::applied::Applied;
pub use context::RunContext;
use context::{Pass, StepPass};
use dragstrip_core::{
    labels,
    lease::{LeaseKey, holder_of},
    run::{
        decide::{self, Ending, Step, Waiting, decide},
        snapshot::observe,
        status::{self, Results},
        summary, validate,
    },
};
use dragstrip_crds::{
    BenchmarkRun, Datastore,
    run::{RunPhase, Target},
};
pub use fetch::stored::{Error as StoredError, cache_all, result as stored_result};
use fetch::{attempts, fetched::Fetched, stored};
use futures::{Future, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Pod},
};
use kube::{
    ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::{ObjectRef, Store},
    },
};
pub use lease_cleanup::controller as lease_cleanup;
use publish::{noise, price, publish};
use std::{sync::Arc, time::Duration};
use tokio::task::block_in_place;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to fetch what exists for the run")]
    Fetch(#[from] fetch::Error),
    #[error("failed to read the results of the run")]
    ReadResults(#[source] stored::Error),
    #[error("failed to carry out a step of the run")]
    Act(#[from] act::Error),
    #[error("failed to write the status of the run")]
    Write(#[source] kube::Error),
}

/// Longest time before the retry of a failed pass, and before the next pass over a queued run.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Time before the next pass where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(5);
/// Finalizers of Kubernetes itself, which decide what happens to the objects that an object owns.
const OF_KUBERNETES: [&str; 2] = ["foregroundDeletion", "orphan"];
const CONCURRENCY: u16 = 32;
/// Time before a pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);

async fn reconcile(run: Arc<BenchmarkRun>, ctx: Arc<RunContext>) -> Result<Action, Error> {
    if run.metadata.deletion_timestamp.is_some() {
        // The run owns everything it created: it is deleted too, unless somebody's finalizer keeps
        // the run. The lease cleaner removes its Leases.
        if run.finalizers().iter().any(|finalizer| !OF_KUBERNETES.contains(&finalizer.as_str())) {
            act::clear_up(&ctx, &run).await?;
        }
        return Ok(Action::await_change());
    }
    measure(&ctx, "run", &*run, Box::pin(pass(&run, &ctx))).await
}

/// The next pass where an event must come.
fn awaited() -> (Outcome, Action) {
    (Outcome::Done, Action::requeue(IF_NO_EVENT_COMES))
}

async fn pass(run: &BenchmarkRun, ctx: &RunContext) -> Result<(Outcome, Action), Error> {
    // The new status would lose what it adopts from the last one, such as the target's address.
    if ctx.overlay.is_ahead_of(run) {
        return Ok((Outcome::Early, awaited().1));
    }
    let old = run.status.clone().unwrap_or_default();
    let mut validated = match validate::validate(run) {
        Ok(validated) => validated, // pure
        Err(invalid) => {
            // The version before this one may have found it valid and started it.
            act::clear_up(ctx, run).await?;
            let status = status::of_invalid(run, &old, &invalid, Timestamp::now());
            let written = publish(ctx, run, &old, &status).await.map_err(Error::Write)?;
            return Ok(if written { (Outcome::Invalid, Action::await_change()) } else { awaited() });
        }
    };
    let fetched = fetch::fetch(ctx, &mut validated, &old).await?; // client
    let fetched = Fetched { version: run.resource_version(), ..fetched };
    // A Job that has just got its start line would look as if it waited for one.
    if fetched.jobs.values().any(|job| ctx.overlay.is_ahead_of(&**job)) {
        return Ok((Outcome::Early, awaited().1));
    }
    let now = Timestamp::now();
    let attempts = attempts::states(&validated, &old, &fetched); // pure
    let observed = observe(&validated, &old, &fetched.snapshot, attempts, now); // pure
    let step = decide(&validated, &observed, now); // pure
    let at = StepPass {
        pass: Pass { ctx, run: &validated, old: &old },
        fetched: &fetched,
        deadline: observed.deadline,
    };
    let (step, next) = carry_out(&at, step, now).await?; // client
    let Some(step) = step else { return Ok(next) };
    // The objects that end a run may be deleted by the clean-up: record the end before.
    if let Some(recorded) = status::recorded(&old, &step) {
        publish(ctx, run, &old, &recorded).await.map_err(Error::Write)?; // client
        return Ok(awaited());
    }
    let (step, figures) = figures(&at, step).await?; // client
    if status::worth_reporting(&step) {
        let of_step = || status::of_step(&validated, &old, &fetched.snapshot, figures.as_ref(), &step, now);
        let mut status = if figures.is_some() { block_in_place(of_step) } else { of_step() }; // pure
        price::price(&mut status, &ctx.prices); // pure
        if matches!(step, Step::Finish(Ending::Succeeded)) {
            status.noise = noise::settle(&at, &status).await; // client
        }
        // Write the end when nothing is left to do: no pass follows it.
        if matches!(step, Step::Finish(_)) {
            act::clear_up(ctx, run).await?; // client
        }
        let written = publish(ctx, run, &old, &status).await.map_err(Error::Write)?; // client
        if !written {
            return Ok(awaited());
        }
    }
    Ok(next)
}

/// Carries out `step`, or the step that replaces it if that is not possible. Returns the step for
/// the status, if it says something about the run, and when the next pass comes.
async fn carry_out(
    at: &StepPass<'_>,
    step: Step,
    now: Timestamp,
) -> Result<(Option<Step>, (Outcome, Action)), Error> {
    match act::apply(at, &step).await? {
        Applied::Superseded => Ok((None, (Outcome::Done, Action::requeue(Duration::ZERO)))),
        Applied::Progressed => Ok((Some(step), (Outcome::Done, Action::requeue(Duration::ZERO)))),
        Applied::Awaited => Ok((Some(step), awaited())),
        Applied::Nothing => {
            let next = next_pass(&step, now);
            Ok((Some(step), (Outcome::Done, next)))
        }
        Applied::Hindered(trouble) => {
            let instead = decide::hindered(at.run, &at.fetched.snapshot.stored, trouble); // pure
            let applied = act::apply(at, &instead).await?;
            Ok(((applied != Applied::Superseded).then_some(instead), awaited()))
        }
        Applied::Delayed(trouble, instead) => {
            let retry = at.retries.again(&at.run.holder.uid, &trouble.message, act::LONGEST_START_WAIT);
            if retry.news {
                tracing::warn!(run = %at.run.holder.reference(), reason = trouble.reason, message = trouble.message, "a step is delayed");
            }
            Ok((Some(instead), (Outcome::Failed, Action::requeue(retry.after))))
        }
        Applied::Instead(instead) => {
            let next = next_pass(&instead, now);
            Ok((Some(instead), (Outcome::Done, next)))
        }
    }
}

/// The results, if the status is to show them. Results that cannot be read end the run.
async fn figures(at: &StepPass<'_>, step: Step) -> Result<(Step, Option<Results>), Error> {
    if !status::shows_figures(at.run, at.old, &at.fetched.snapshot, &step) {
        return Ok((step, None));
    }
    let results = stored::results(at, &at.fetched.snapshot.stored).await;
    let (results, damaged) = results.map_err(Error::ReadResults)?;
    let step = match step {
        // The status of a failed run shows its failure, whatever else cannot be read.
        Step::Finish(Ending::Failed(_)) => step,
        _ if !damaged.is_empty() && !at.run.spec.cancel => decide::damaged(&damaged),
        Step::Finish(Ending::Succeeded) => {
            block_in_place(|| summary::required(at.run, &results)).unwrap_or(step)
        }
        step => step,
    };
    Ok((step, Some(results)))
}

/// Events bring the next pass; only a deadline needs a clock.
fn next_pass(step: &Step, now: Timestamp) -> Action {
    match step {
        Step::Wait(_, Some(until)) => {
            let left = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
            Action::requeue(left.saturating_add(Duration::from_millis(100)).min(SAFETY_NET))
        }
        // The end of a Lease brings it, unless the first in the queue is gone.
        Step::Wait(Waiting::Queue(_), None) => Action::requeue(LONGEST_WAIT),
        // The status that was just written brings it.
        _ => Action::requeue(SAFETY_NET),
    }
}

async fn guarded(run: Arc<BenchmarkRun>, ctx: Arc<RunContext>) -> Result<Action, Error> {
    guard(&ctx, "run", &*run, reconcile(Arc::clone(&run), Arc::clone(&ctx))).await
}

/// The runs that a Lease concerns: its holder, and those that are queued for it. A node's Lease
/// concerns all runs that wait for a node, since any free one suffices.
fn of_lease(lease: &Lease, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let key = LeaseKey::of(lease);
    let queued = runs.state_filter(|run| {
        let waits_for =
            run.status.as_ref().and_then(|status| status.queue.as_ref()).map(|queue| queue.lease.as_str());
        waits_for.is_some_and(|waits_for| {
            waits_for == key.to_string() || key.node().is_some() && waits_for.contains("/dragstrip-node.")
        })
    });
    let holder = holder_of(lease).map(|holder| ObjectRef::new(&holder.name).within(&holder.namespace));
    queued.iter().map(|run| ObjectRef::from_obj(&**run)).chain(holder).collect()
}

fn of_pod(pod: &Pod) -> Option<ObjectRef<BenchmarkRun>> {
    let name = pod.labels().get(labels::RUN)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// The runs that a warning about a pod or Job may concern: those under way whose name its name
/// begins with. Events have no owner; an extra pass does no harm.
fn of_warning(event: &Event, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let about = &event.involved_object;
    let Some(pod) = &about.name else {
        return Vec::new();
    };
    let concerned = |run: &BenchmarkRun| {
        let begins = pod.strip_prefix(&run.name_any()).is_some_and(|rest| rest.starts_with('-'));
        begins && run.namespace() == about.namespace
    };
    runs.state_filter(concerned).iter().map(|run| ObjectRef::from_obj(&**run)).collect()
}

/// The runs against a Datastore that have not ended.
fn of_datastore(datastore: &Datastore, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let (name, namespace) = (datastore.name_any(), datastore.namespace());
    let concerned = |run: &BenchmarkRun| {
        let loads = match &run.spec.target {
            Target::DatastoreRef(reference) => reference.name == name,
            Target::Datastore(_) => run.name_any() == name,
            Target::External(_) => false,
        };
        let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
        let before_load = matches!(phase, RunPhase::Pending | RunPhase::Provisioning | RunPhase::Queued);
        run.namespace() == namespace && loads && before_load
    };
    runs.state_filter(concerned).iter().map(|run| ObjectRef::from_obj(&**run)).collect()
}

/// The controller. Runs until shutdown.
pub fn controller(
    ctx: Arc<RunContext>,
    feeds: &mut Feeds,
    stop: &Shutdown,
) -> impl Future<Output = ()> + use<> {
    let runs = ctx.world.runs.clone();
    let (for_datastores, for_leases, for_warnings) = (runs.clone(), runs.clone(), runs.clone());
    Controller::for_shared_stream(feeds.runs.subscribe(), runs)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns_shared_stream(feeds.jobs.subscribe())
        .watches_shared_stream(feeds.pods.subscribe(), |pod| of_pod(&pod))
        .watches_shared_stream(feeds.leases.subscribe(), move |lease| of_lease(&lease, &for_leases))
        .watches_shared_stream(feeds.warnings.subscribe(), move |event| of_warning(&event, &for_warnings))
        .watches_shared_stream(feeds.datastores.subscribe(), move |datastore| {
            of_datastore(&datastore, &for_datastores)
        })
        .graceful_shutdown_on(stop.clone())
        .run(guarded, |object, error, ctx| retry_later(&ctx.retries, &*object, error, LONGEST_WAIT), ctx)
        .for_each(passes("run"))
}

#[cfg(test)]
mod tests;

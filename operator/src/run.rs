//! The BenchmarkRun controller.

mod apply;
mod attempts;
mod build;
mod client_nodes;
mod collect;
mod evidence;
mod expiry;
mod fetch;
mod lease_cleanup;
mod machines;
mod noise;
mod price;
mod publish;
mod result_cache;
mod start;
mod target;
mod turn;

use crate::{
    cluster::world::Feeds,
    context::Context,
    failure::{passes, retry_later},
    metrics::Outcome,
    shutdown::Shutdown,
};
pub use collect::LogRetries;
use dragstrip_core::{
    labels,
    lease::{LeaseKey, holder_of},
    run::{
        decide::{self, Ending, Step, Waiting, decide},
        snapshot::observe,
        status::{self, Results},
        summary,
        validate::{self, ValidatedRun},
    },
};
pub use expiry::controller as expiry;
pub use fetch::{Error as StoredError, remember_all, result as stored_result};
pub use lease_cleanup::{Loads, controller as lease_cleanup};
pub use result_cache::ResultCache;
pub(crate) use start::same_under_load;

use apply::Applied;
use dragstrip_crds::{BenchmarkRun, BenchmarkRunStatus, Datastore, run::RunPhase};
use fetch::Fetched;
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
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A reconcile's step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to fetch what exists for the run")]
    Fetch(#[from] fetch::Error),
    #[error("failed to carry out a step of the run")]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Status(#[from] publish::Error),
}

/// Longest time before a failed pass is tried again, and before a queued run looks again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Before looking again where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(5);
/// Finalizers of Kubernetes' own, which say what becomes of what an object owns.
const OF_KUBERNETES: [&str; 2] = ["foregroundDeletion", "orphan"];
/// Runs reconciled at the same time.
const CONCURRENCY: u16 = 32;
/// A pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);

async fn reconcile(run: Arc<BenchmarkRun>, ctx: Arc<Context>) -> Result<Action, Error> {
    if run.metadata.deletion_timestamp.is_some() {
        // Everything it made has it as owner, and goes with it unless a stranger's finalizer
        // keeps it; the keeper of turns removes its Leases.
        if run.finalizers().iter().any(|finalizer| !OF_KUBERNETES.contains(&finalizer.as_str())) {
            apply::clear_up(&ctx, &run).await?;
        }
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    let result = Box::pin(pass(&run, &ctx)).await;
    let outcome = match &result {
        Ok((outcome, _)) => *outcome,
        Err(_) => Outcome::Failed,
    };
    ctx.metrics.reconciled("run", outcome, started.elapsed());
    if !matches!(result, Ok((Outcome::Failed, _)) | Err(_)) {
        ctx.retries.settled(&run.uid().unwrap_or_default());
    }
    result.map(|(_, action)| action)
}

async fn pass(run: &BenchmarkRun, ctx: &Context) -> Result<(Outcome, Action), Error> {
    // What a status takes over from the one before, such as the target's address or that
    // the run has ended, would be lost.
    if ctx.overlay.is_ahead_of(run) {
        return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)));
    }
    let old = run.status.clone().unwrap_or_default();
    let mut validated = match validate::validate(run) {
        Ok(validated) => validated, // pure
        Err(invalid) => {
            // A run that an earlier version found valid may be under way.
            apply::clear_up(ctx, run).await?;
            let status = status::of_invalid(run, &old, &invalid, Timestamp::now());
            publish::publish(ctx, run, &old, &status).await?;
            return Ok((Outcome::Invalid, Action::await_change()));
        }
    };
    let fetched = fetch::fetch(ctx, &mut validated, &old).await?; // client
    // A Job that was just given its start line would be taken for one that waits at it.
    if fetched.jobs.values().any(|job| ctx.overlay.is_ahead_of(&**job)) {
        return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)));
    }
    let now = Timestamp::now();
    let attempts = attempts::states(&validated, &old, &fetched); // pure
    let observed = observe(&validated, &old, &fetched.snapshot, attempts, now); // pure
    let step = decide(&validated, &observed, now); // pure
    let (step, next) = carry_out(ctx, &validated, &fetched, step, observed.deadline, now).await?; // client
    // What ends a run may go with what is cleared up: it is written down before.
    if let Some(recorded) = status::recorded(&old, &step) {
        publish::publish(ctx, run, &old, &recorded).await?; // client
        return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)));
    }
    let (step, figures) = figures(ctx, &validated, &old, &fetched, step).await?; // client
    if status::worth_reporting(&step) {
        let mut status = status::of_step(&validated, &old, &fetched.snapshot, figures.as_ref(), &step, now); // pure
        price::price(&mut status, &ctx.prices); // pure
        if let (Step::Finish(Ending::Succeeded), Some(results)) = (&step, &figures) {
            status.noise = noise::settle(ctx, &validated, results, &status.phases, now).await; // client
        }
        // The end is told when nothing is left to do: nobody looks at the run after it.
        if matches!(step, Step::Finish(_)) {
            apply::clear_up(ctx, run).await?; // client
        }
        if !publish::publish(ctx, run, &old, &status).await? {
            return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)));
        }
    }
    Ok(next)
}

/// Carries out `step`, or what follows where it cannot be carried out: the step as it is to
/// be told, and when to look again.
async fn carry_out(
    ctx: &Context,
    run: &ValidatedRun,
    fetched: &Fetched,
    step: Step,
    deadline: Timestamp,
    now: Timestamp,
) -> Result<(Step, (Outcome, Action)), Error> {
    let done = |action| (Outcome::Done, action);
    match apply::apply(ctx, run, fetched, &step).await? {
        Applied::Progressed => Ok((step, done(Action::requeue(Duration::ZERO)))),
        Applied::Awaited => Ok((step, done(Action::requeue(IF_NO_EVENT_COMES)))),
        Applied::Nothing => {
            let next = next_look(&step, now);
            Ok((step, done(next)))
        }
        Applied::Hindered(trouble) => {
            let instead = decide::hindered(run, &fetched.snapshot.stored, trouble); // pure
            apply::apply(ctx, run, fetched, &instead).await?;
            Ok((instead, done(Action::requeue(IF_NO_EVENT_COMES))))
        }
        Applied::Delayed(trouble) => {
            let retry = ctx.retries.again(&run.holder.uid, &trouble.message, LONGEST_WAIT);
            if retry.news {
                tracing::warn!(run = %run.holder.reference(), reason = trouble.reason, message = trouble.message, "a step is delayed");
            }
            let reported = match step {
                Step::SendStart(attempt) => {
                    Step::Wait(Waiting::Clients { attempt, trouble: Some(trouble) }, None)
                }
                other => other,
            };
            Ok((reported, (Outcome::Failed, Action::requeue(retry.after))))
        }
        Applied::LogPending(not_yet) => {
            let left = Duration::try_from(not_yet.until.duration_since(now)).unwrap_or(IF_NO_EVENT_COMES);
            let reported = match step {
                Step::Collect(attempt) => Step::Wait(Waiting::Log { attempt, why: not_yet.why }, None),
                other => other,
            };
            Ok((reported, done(Action::requeue(left))))
        }
        Applied::NotStored { why, until } => {
            let reported = match step {
                Step::Collect(attempt) | Step::ReadMemory(attempt) => {
                    decide::not_stored(run, attempt, &why, until, deadline, now) // pure
                }
                other => other,
            };
            let next = next_look(&reported, now);
            Ok((reported, done(next)))
        }
    }
}

/// The results, where the status is to show them. Those that cannot be read end the run.
async fn figures(
    ctx: &Context,
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    fetched: &Fetched,
    step: Step,
) -> Result<(Step, Option<Results>), Error> {
    if !status::shows_figures(run, old, &fetched.snapshot, &step) {
        return Ok((step, None));
    }
    let (results, damaged) = fetch::results(ctx, run, fetched).await?;
    let step = match step {
        // What failed it is told, whatever else cannot be read.
        Step::Finish(Ending::Failed(_)) => step,
        _ if !damaged.is_empty() && !run.spec.cancel => decide::damaged(&damaged),
        Step::Finish(Ending::Succeeded) => summary::required(run, &results).unwrap_or(step),
        step => step,
    };
    Ok((step, Some(results)))
}

/// Events bring the next pass; a deadline is the only thing a clock must bring.
fn next_look(step: &Step, now: Timestamp) -> Action {
    match step {
        Step::Wait(_, Some(until)) => {
            let left = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
            Action::requeue(left.saturating_add(Duration::from_millis(100)).min(SAFETY_NET))
        }
        // A Lease's end brings it, unless who was first in the queue is gone.
        Step::Wait(Waiting::Queue(_), None) => Action::requeue(LONGEST_WAIT),
        // The status just written brings it.
        _ => Action::requeue(SAFETY_NET),
    }
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(run: Arc<BenchmarkRun>, error: &Error, ctx: Arc<Context>) -> Action {
    retry_later(&ctx.retries, &*run, error, LONGEST_WAIT)
}

/// The runs that a Lease concerns: its holder, and those that are queued for it. A
/// node's Lease concerns all that wait for a node, since any free one will do.
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

/// The run a client pod belongs to.
fn of_pod(pod: &Pod) -> Option<ObjectRef<BenchmarkRun>> {
    let name = pod.labels().get(labels::RUN)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// The runs that a warning about a pod or Job may concern: those under way whose name its
/// name begins with. Events tell no owner; a pass too many harms nobody.
fn of_warning(event: &Event, runs: &Store<BenchmarkRun>) -> Vec<ObjectRef<BenchmarkRun>> {
    let about = &event.involved_object;
    let Some(pod) = &about.name else {
        return Vec::new();
    };
    let concerned = |run: &BenchmarkRun| {
        let begins = pod.strip_prefix(&run.name_any()).is_some_and(|rest| rest.starts_with('-'));
        begins && run.namespace() == about.namespace
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
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, stop: &Shutdown) -> impl Future<Output = ()> + use<> {
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
        .run(reconcile, on_error, ctx)
        .for_each(passes("run"))
}

#[cfg(test)]
mod tests;

//! The BenchmarkSuite controller: makes the runs of a suite in their order, compares them,
//! and makes the rounds of one with a schedule.

mod apply;
mod axes;
mod build;
mod decide;
mod ended;
pub mod expand;
mod fetch;
mod known;
mod paths;
mod report;
mod rights;
mod rounds;
mod schedule;
mod status;
mod validate;

pub use known::Remembered;

use crate::{
    cluster::{apply::StatusWrite, world::Feeds},
    context::Context,
    metrics::Outcome,
    process::{Parts, chain, log_failure},
};
use apply::InTheWay;
use decide::{Declared, Ending, Step, decide};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, BenchmarkSuiteStatus,
    suite::{OnRunFailure, SuitePhase},
};
use expand::Plan;
use fetch::Children;
use futures::{Future, StreamExt};
use jiff::Timestamp;
use known::Known;
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use schedule::Schedule;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use validate::Invalid;

/// A step of a pass that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the cluster failed.
    #[error("failed to fetch the runs of the suite")]
    Fetch(#[from] fetch::Error),
    /// Carrying out the step failed.
    #[error("failed to carry out a step of the suite")]
    Apply(#[from] apply::Error),
    /// Rounds could not be listed.
    #[error("failed to list the rounds of the suite")]
    ListRounds(#[source] kube::Error),
    /// An old round could not be removed.
    #[error("failed to remove an old round of the suite")]
    RemoveRound(#[source] kube::Error),
    /// The baseline could not be read.
    #[error("failed to read what the suite is compared with")]
    ReadBaseline(#[source] kube::Error),
    /// A stored result could not be read.
    #[error("failed to read a result for the report")]
    ReadResult(#[source] crate::run::StoredError),
    /// The report could not be written as JSON.
    #[error("failed to write the report as JSON")]
    Encode(#[source] serde_json::Error),
    /// The report could not be packed.
    #[error("failed to pack the report")]
    Pack(#[from] dragstrip_results::stored::Error),
    /// The status could not be written.
    #[error("failed to write the status of the suite")]
    Write(#[source] kube::Error),
}

/// Longest time before a failed pass is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Before looking again where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(10);
/// A pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);
/// Shortest time between two writes of a status that tells of progress alone.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// Suites reconciled at the same time.
const CONCURRENCY: u16 = 4;
/// Runs of a suite whose table is kept up to date while it is under way: that of a larger
/// one is made at its end.
const MOST_LIVE: usize = 300;

async fn reconcile(suite: Arc<BenchmarkSuite>, ctx: Arc<Context>) -> Result<Action, Error> {
    if suite.metadata.deletion_timestamp.is_some() {
        // Its runs, rounds and report have it as owner.
        return Ok(Action::await_change());
    }
    let (started, uid) = (Instant::now(), suite.uid().unwrap_or_default());
    let mut known = ctx.suites.take(&uid);
    let result = pass(&suite, &ctx, &mut known).await;
    let under_way = ctx.world.suites.state().iter().filter_map(|suite| suite.uid()).collect();
    ctx.suites.put(&uid, known, &under_way);
    let outcome = result.as_ref().map_or(Outcome::Failed, |(outcome, _)| *outcome);
    ctx.metrics.reconciled("suite", outcome, started.elapsed());
    if outcome != Outcome::Failed {
        ctx.retries.settled(&uid);
    }
    result.map(|(_, action)| action)
}

async fn pass(suite: &BenchmarkSuite, ctx: &Context, known: &mut Known) -> Result<(Outcome, Action), Error> {
    let old = suite.status.clone().unwrap_or_default();
    // What has ended is a record.
    if old.finished_at.is_some() {
        return Ok((Outcome::Done, Action::await_change()));
    }
    if ctx.own_writes.outrun(suite) {
        return Ok((Outcome::Done, Action::requeue(IF_NO_EVENT_COMES)));
    }
    let plan = match planned(suite, &old, ctx, known) {
        Ok(plan) => plan, // pure
        Err(invalid) => return refuse(suite, ctx, &old, &invalid).await,
    };
    if let Some(text) = &suite.spec.schedule {
        return match Schedule::parse(text) {
            Ok(schedule) => scheduled(suite, ctx, &old, &schedule, known).await,
            Err(why) => refuse(suite, ctx, &old, &Invalid::Schedule(why)).await,
        };
    }
    let children = fetch::children(ctx, suite, &plan, known).await?; // client
    let step = decide(declared(suite), &children.states); // pure
    if matches!(step, Step::Make(_)) && !known.judged && known.made.is_empty() && known.ended.is_empty() {
        if let Some(why) = apply::judge(ctx, suite, &plan).await? {
            return refuse(suite, ctx, &old, &Invalid::Rejected(why)).await;
        }
        known.judged = true;
    }
    let in_the_way = carry_out(suite, ctx, &plan, &step, known).await?; // client
    announce_failures(suite, ctx, &children).await; // client
    tell(suite, ctx, &old, &plan, (&children, known), &step, in_the_way).await
}

fn planned(
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    ctx: &Context,
    known: &mut Known,
) -> Result<Arc<Plan>, Invalid> {
    let generation = suite.metadata.generation.unwrap_or(0);
    if let Some((of, plan)) = &known.plan
        && *of == generation
    {
        return Ok(Arc::clone(plan));
    }
    let plan = Arc::new(validate::validate(suite, &ctx.settings.policy)?);
    // What has begun goes on, whatever an operator has that came later.
    if let Some(limit) = ctx.settings.memory_limit_bytes.filter(|_| old.started_at.is_none()) {
        validate::fits(&plan, limit)?;
    }
    known.plan = Some((generation, Arc::clone(&plan)));
    Ok(plan)
}

fn declared(suite: &BenchmarkSuite) -> Declared {
    let spec = &suite.spec;
    Declared {
        parallelism: usize::try_from(spec.parallelism).unwrap_or(1).max(1),
        stop_on_failure: spec.on_failure == OnRunFailure::Stop,
        suspend: spec.suspend,
        cancel: spec.cancel,
    }
}

async fn refuse(
    suite: &BenchmarkSuite,
    ctx: &Context,
    old: &BenchmarkSuiteStatus,
    invalid: &Invalid,
) -> Result<(Outcome, Action), Error> {
    if old.observed_generation == suite.metadata.generation && old.message == Some(invalid.to_string()) {
        return Ok((Outcome::Invalid, Action::await_change()));
    }
    let status = status::of_invalid(suite, old, invalid, Timestamp::now());
    status::publish(ctx, suite, old, &status).await?;
    Ok((Outcome::Invalid, Action::await_change()))
}

async fn scheduled(
    suite: &BenchmarkSuite,
    ctx: &Context,
    old: &BenchmarkSuiteStatus,
    schedule: &Schedule,
    known: &mut Known,
) -> Result<(Outcome, Action), Error> {
    let now = Timestamp::now();
    let looked = rounds::pass(ctx, suite, old, schedule, known, now).await?;
    status::publish(ctx, suite, old, &looked.status).await?;
    let left = looked.next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    let wait = left.map_or(SAFETY_NET, |left| (left + Duration::from_millis(100)).min(SAFETY_NET));
    let wait = if looked.in_the_way { IF_NO_EVENT_COMES } else { wait };
    Ok((Outcome::Done, Action::requeue(wait)))
}

async fn carry_out(
    suite: &BenchmarkSuite,
    ctx: &Context,
    plan: &Plan,
    step: &Step,
    known: &mut Known,
) -> Result<Option<InTheWay>, Error> {
    match step {
        Step::Make(places) => Ok(apply::make(ctx, suite, plan, places, known).await?),
        Step::Cancel(places) => {
            let namespace = suite.namespace().unwrap_or_default();
            for (cell, repetition) in places.iter().map(|place| plan.order[*place]) {
                let name = plan.name(&plan.cells[cell], repetition);
                apply::cancel::<BenchmarkRun>(ctx, &namespace, &name).await?;
            }
            Ok(None)
        }
        Step::Wait | Step::Stopping | Step::Suspended | Step::Finish(_) => Ok(None),
    }
}

/// Tells of each run that failed, once.
async fn announce_failures(suite: &BenchmarkSuite, ctx: &Context, children: &Children) {
    for run in children.just_ended.iter().filter(|run| ended::failed(run)) {
        let message = run.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
        let note = format!("{}: {message}", run.name_any());
        tracing::warn!(
            suite = suite.name_any(),
            namespace = suite.namespace(),
            run = run.name_any(),
            message,
            "run of a suite failed"
        );
        ctx.announcer.publish(suite, true, "RunFailed", "Reconcile", &note).await;
    }
}

/// Tells how the suite stands, and at its end what came of it.
async fn tell(
    suite: &BenchmarkSuite,
    ctx: &Context,
    old: &BenchmarkSuiteStatus,
    plan: &Plan,
    (children, known): (&Children, &mut Known),
    step: &Step,
    in_the_way: Option<InTheWay>,
) -> Result<(Outcome, Action), Error> {
    let now = Timestamp::now();
    let states = states_after(&children.states, step, in_the_way.is_some());
    let mut status = status::of_step(suite, old, plan, (&states, known), step, now); // pure
    let mut hindered = in_the_way;
    match step {
        Step::Finish(ending) => {
            if *ending == Ending::Completed && fetch::verify(ctx, suite, known).await? {
                return Ok((Outcome::Done, Action::requeue(Duration::ZERO)));
            }
            match report::make(ctx, suite, plan, known).await? {
                Ok(report) => status = status::of_end(status, old, *ending, (known, &report), now),
                Err(in_the_way) => hindered = Some(in_the_way),
            }
        }
        _ if has_news(old, &status) && plan.order.len() <= MOST_LIVE => {
            status::show(&mut status, &report::so_far(suite, plan, known)); // pure
        }
        _ => {}
    }
    if let Some(InTheWay { message }) = &hindered {
        status.message = Some(message.clone());
    } else if let (SuitePhase::Running, Some(waits)) = (status.phase, fetch::waiting(ctx, suite)) {
        status.message = status.message.map(|message| format!("{message}; {waits}"));
    }
    publish(suite, ctx, old, &status, known, hindered.is_some()).await
}

/// Whether more runs have ended than the table shows.
fn has_news(old: &BenchmarkSuiteStatus, new: &BenchmarkSuiteStatus) -> bool {
    let done = |status: &BenchmarkSuiteStatus| status.progress.map_or(0, |progress| progress.done);
    done(new) > 0 && (done(old) != done(new) || old.rows.is_empty())
}

/// How the runs stand after `step`, of which all was done that was not `hindered`.
fn states_after(states: &[decide::Child], step: &Step, hindered: bool) -> Vec<decide::Child> {
    let mut after = states.to_vec();
    if let (Step::Make(places), false) = (step, hindered) {
        for place in places {
            after[*place] = decide::Child::UnderWay { cancelled: false };
        }
    }
    after
}

async fn publish(
    suite: &BenchmarkSuite,
    ctx: &Context,
    old: &BenchmarkSuiteStatus,
    status: &BenchmarkSuiteStatus,
    known: &mut Known,
    hindered: bool,
) -> Result<(Outcome, Action), Error> {
    let since = known.written.map_or(BETWEEN_WRITES, |written| written.elapsed());
    if old != status && old.phase == status.phase && since < BETWEEN_WRITES {
        return Ok((Outcome::Done, Action::requeue(BETWEEN_WRITES.saturating_sub(since))));
    }
    if old != status {
        known.written = Some(Instant::now());
    }
    let written = status::publish(ctx, suite, old, status).await?;
    let again = written == StatusWrite::ObjectChanged || hindered;
    Ok((Outcome::Done, Action::requeue(if again { IF_NO_EVENT_COMES } else { SAFETY_NET })))
}

// The controller hands over an Arc that this signature must take.
#[allow(clippy::needless_pass_by_value)]
fn on_error(suite: Arc<BenchmarkSuite>, error: &Error, ctx: Arc<Context>) -> Action {
    let retry = ctx.retries.again(&suite.uid().unwrap_or_default(), &chain(error), LONGEST_WAIT);
    if retry.news {
        log_failure("BenchmarkSuite", &suite.name_any(), suite.namespace().as_deref(), error);
    }
    Action::requeue(retry.after)
}

/// The suite that made `object`.
fn maker(object: &impl ResourceExt) -> Option<ObjectRef<BenchmarkSuite>> {
    let kind = BenchmarkSuite::kind(&());
    let owner = object.owner_references().iter().find(|owner| owner.kind == kind)?;
    Some(ObjectRef::new(&owner.name).within(&object.namespace()?))
}

/// The controller. Runs until shutdown.
pub fn controller(ctx: Arc<Context>, feeds: &mut Feeds, parts: &Parts) -> impl Future<Output = ()> + use<> {
    Controller::for_shared_stream(feeds.suites.subscribe(), ctx.world.suites.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches_shared_stream(feeds.runs.subscribe(), |run| maker(&*run))
        .watches_shared_stream(feeds.suites.subscribe(), |round| maker(&*round))
        .graceful_shutdown_on(parts.shutdown())
        .run(reconcile, on_error, ctx)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %chain(&error), "suite controller");
            }
            std::future::ready(())
        })
}

//! The BenchmarkSuite controller: creates a suite's runs in sequence, compares them, and creates rounds.

mod apply;
mod build;
mod cache;
mod context;
mod ended;
mod fetch;
mod report;
mod rounds;
mod status;

use crate::{
    cluster::world::Feeds,
    failure::{guard, log_failure, measure, passes, retry_later},
    metrics::Outcome,
    shutdown::Shutdown,
};
use cache::SuiteCache;
pub use context::SuiteContext;
use context::{Pass, PlannedPass};
use dragstrip_core::suite::{
    decide::{Child, Declared, Ending, Step, decide},
    expand::Plan,
    schedule::Schedule,
    validate::{self, Invalid},
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite, BenchmarkSuiteStatus,
    conditions::shortened,
    suite::{SuitePhase, SuiteProgress},
};
use dragstrip_results::error_chain::chain_with;
use futures::{Future, StreamExt};
use jiff::Timestamp;
use kube::core::Status;
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use rounds::RoundsCheck;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::block_in_place;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to fetch the runs of the suite")]
    Fetch(#[from] fetch::Error),
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Rounds(#[from] rounds::Error),
    #[error(transparent)]
    Report(#[from] report::Error),
    #[error("waiting until other suites have ended: {0}")]
    Waits(Invalid),
    #[error("failed to write the status of the suite")]
    Write(#[source] kube::Error),
}

/// Longest time before the retry of a failed pass.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Time before the next pass where an event must come, in case it was missed.
const IF_NO_EVENT_COMES: Duration = Duration::from_secs(10);
/// Time before a pass without cause, in case an event was missed.
const SAFETY_NET: Duration = Duration::from_secs(3600);
/// Shortest time between two writes of a status that differ in progress alone.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
const CONCURRENCY: u16 = 4;
/// Most runs of a suite with a table while it is under way: a larger one gets it at its end.
const MOST_LIVE: usize = 300;

async fn reconcile(suite: Arc<BenchmarkSuite>, ctx: Arc<SuiteContext>) -> Result<Action, Error> {
    if suite.metadata.deletion_timestamp.is_some() {
        // The suite owns its runs, rounds and report.
        return Ok(Action::await_change());
    }
    let uid = suite.uid().unwrap_or_default();
    let mut cache = ctx.take(&uid);
    let result = measure(&ctx, "suite", &*suite, Box::pin(pass(&suite, &ctx, &mut cache))).await;
    let under_way = ctx.world.suites.state().iter().filter_map(|suite| suite.uid()).collect();
    ctx.put(&uid, cache, &under_way);
    result
}

/// The next pass where an event must come.
fn awaited() -> (Outcome, Action) {
    (Outcome::Done, Action::requeue(IF_NO_EVENT_COMES))
}

async fn pass(
    suite: &BenchmarkSuite,
    ctx: &SuiteContext,
    cache: &mut SuiteCache,
) -> Result<(Outcome, Action), Error> {
    let old = suite.status.clone().unwrap_or_default();
    let pass = Pass { ctx, suite, old: &old };
    // The status of an ended suite never changes.
    if old.finished_at.is_some() {
        return Ok((Outcome::Done, Action::await_change()));
    }
    if ctx.overlay.is_ahead_of(suite) {
        return Ok((Outcome::Early, awaited().1));
    }
    if suite.spec.schedule.is_some() && suite.spec.cancel {
        // Even an invalid one.
        let rounds_check = rounds::stop(&pass, Timestamp::now()).await?;
        return scheduled(&pass, rounds_check).await;
    }
    let plan = match planned(&pass, cache) {
        Ok(plan) => plan, // pure
        Err(invalid) => return refuse(&pass, &invalid).await,
    };
    if let Some(text) = &suite.spec.schedule {
        let schedule = match Schedule::parse(text) {
            Ok(schedule) => schedule,
            Err(why) => return refuse(&pass, &Invalid::Schedule(why)).await,
        };
        let rounds_check = rounds::pass(&pass, &schedule, Timestamp::now()).await?;
        return scheduled(&pass, rounds_check).await;
    }
    let at = PlannedPass { pass, plan: &plan };
    let children = fetch::children(&at, cache).await?; // client
    announce_failures(&pass, cache).await; // client
    let declared = Declared::of(&suite.spec, &plan);
    let step = decide(declared, &children); // pure
    let begins = matches!(step, Step::Make(_)) && old.started_at.is_none();
    let hindered = if begins {
        match begin(&at).await {
            Ok(None) => None,
            Ok(Some(invalid)) => return refuse(&pass, &invalid).await,
            Err(error) => Some(error),
        }
    } else {
        carry_out(&at, &step, cache).await.err().map(Error::from) // client
    };
    write_status(&at, (declared, begins), (children, cache), &step, hindered).await
}

fn planned(pass: &Pass<'_>, cache: &mut SuiteCache) -> Result<Arc<Plan>, Invalid> {
    let Pass { suite, old, .. } = pass;
    let generation = suite.metadata.generation.unwrap_or(0);
    if let Some((of, plan)) = &cache.plan
        && *of == generation
    {
        return Ok(Arc::clone(plan));
    }
    // A suite that has begun continues, whatever rules a newer operator has.
    let plan = Arc::new(match old.started_at {
        Some(_) => validate::validate_started(suite),
        None => validate::validate(suite)?,
    });
    if let (Some(limit), None) = (pass.settings.memory_limit_bytes, &old.started_at) {
        validate::fits(plan.order.len() as u64, &[], limit)?;
    }
    cache.follow(generation, Arc::clone(&plan));
    Ok(plan)
}

async fn refuse(pass: &Pass<'_>, invalid: &Invalid) -> Result<(Outcome, Action), Error> {
    let Pass { suite, old, .. } = pass;
    let message = invalid.to_string();
    let known = old.message.as_deref() == Some(&*shortened(&message));
    if old.observed_generation == suite.metadata.generation && known {
        return Ok((Outcome::Invalid, Action::await_change()));
    }
    let status = status::of_invalid(suite, old, invalid, Timestamp::now());
    let written = status::publish(pass, &status).await.map_err(Error::Write)?;
    Ok(if written { (Outcome::Invalid, Action::await_change()) } else { awaited() })
}

async fn scheduled(pass: &Pass<'_>, rounds_check: RoundsCheck) -> Result<(Outcome, Action), Error> {
    let mut status = rounds_check.status;
    let hindered = rounds_check.hindered.map(Error::from);
    let retry = hindered.map(|error| retry(pass, &mut status, &error));
    let written = status::publish(pass, &status).await.map_err(Error::Write)?;
    if !written {
        return Ok(awaited());
    }
    rounds::remove_old(pass, &rounds_check.rounds).await?;
    if let Some(after) = retry {
        return Ok((Outcome::Failed, Action::requeue(after)));
    }
    let left =
        rounds_check.next.and_then(|next| Duration::try_from(next.duration_since(Timestamp::now())).ok());
    let wait = left.map_or(SAFETY_NET, |left| (left + Duration::from_millis(100)).min(SAFETY_NET));
    Ok((Outcome::Done, Action::requeue(if rounds_check.unseen { wait.min(IF_NO_EVENT_COMES) } else { wait })))
}

/// Whether the first run may be created: why not for good, or as an error, why not now.
async fn begin(at: &PlannedPass<'_>) -> Result<Option<Invalid>, Error> {
    if let Some(limit) = at.settings.memory_limit_bytes {
        let of_progress = |progress: Option<SuiteProgress>| {
            progress.map_or(0, |progress| u64::try_from(progress.total).unwrap_or(0))
        };
        let mut runs = at.plan.order.len() as u64;
        if let Some(name) = at.suite.spec.baseline.as_ref().and_then(|baseline| baseline.suite.as_ref()) {
            let baseline = report::other(at, name).await?;
            runs += of_progress(baseline.and_then(|baseline| baseline.status.progress));
        }
        if let Err(invalid) = validate::fits(runs, &[], limit) {
            return Ok(Some(invalid));
        }
        let under_way = at.world.suites.state_filter(|other| {
            other.uid() != at.suite.uid() && other.status.as_ref().is_some_and(|it| it.started_at.is_some())
        });
        let others: Vec<u64> = under_way
            .iter()
            .map(|other| of_progress(other.status.as_ref().and_then(|status| status.progress)))
            .collect();
        validate::fits(runs, &others, limit).map_err(Error::Waits)?;
    }
    Ok(apply::judge(at).await?.map(Invalid::Rejected))
}

async fn carry_out(at: &PlannedPass<'_>, step: &Step, cache: &mut SuiteCache) -> Result<(), apply::Error> {
    match step {
        Step::Make(places) => apply::create_runs(at, places, cache).await,
        Step::Cancel(places) => {
            let namespace = at.suite.namespace().unwrap_or_default();
            for (cell, repetition) in places.iter().map(|place| at.plan.order[*place]) {
                let name = at.plan.name(&at.plan.cells[cell], repetition);
                apply::cancel::<BenchmarkRun>(at, &namespace, &name).await?;
            }
            Ok(())
        }
        Step::Wait | Step::Stopping | Step::Suspended | Step::Finish(_) => Ok(()),
    }
}

/// Announces each failed run once.
async fn announce_failures(pass: &Pass<'_>, cache: &mut SuiteCache) {
    for (run, message) in std::mem::take(&mut cache.unannounced) {
        let (name, namespace) = (pass.suite.name_any(), pass.suite.namespace());
        tracing::warn!(suite = name, namespace, run, message, "run of a suite failed");
        let note = format!("{run}: {message}");
        pass.announcer.publish(pass.suite, true, "RunFailed", &note).await;
    }
}

/// Writes the status, and at the end of the suite its report.
async fn write_status(
    at: &PlannedPass<'_>,
    (declared, begins): (Declared, bool),
    (mut children, cache): (Vec<Child>, &mut SuiteCache),
    step: &Step,
    mut hindered: Option<Error>,
) -> Result<(Outcome, Action), Error> {
    let PlannedPass { pass: Pass { suite, old, .. }, plan } = *at;
    let now = Timestamp::now();
    // Includes the runs that were just created.
    for (child, (cell, repetition)) in children.iter_mut().zip(&plan.order) {
        if *child == Child::Missing {
            *child = cache.child(&plan.name(&plan.cells[*cell], *repetition), None, suite.spec.cancel);
        }
    }
    let mut status = status::of_step(suite, old, declared, (&children, cache), step, now); // pure
    if begins && hindered.is_none() {
        // Before the first run is created: from then on the API server lets nobody change what is
        // measured, and it is what the dry run checked.
        status::start(&mut status, now);
    }
    match step {
        Step::Finish(ending) => {
            if *ending == Ending::Completed && fetch::drop_deleted(at, cache).await? {
                return Ok((Outcome::Done, Action::requeue(Duration::ZERO)));
            }
            match report::finish(at, cache).await {
                Ok(report) => status = status::of_end(status, old, *ending, (plan, cache, &report), now),
                Err(error) => hindered = Some(error.into()),
            }
        }
        _ if has_news(old, &status) && plan.order.len() <= MOST_LIVE => {
            status::show(&mut status, &block_in_place(|| report::so_far(suite, plan, cache))); // pure
        }
        _ => {}
    }
    if hindered.is_none()
        && status.phase == SuitePhase::Running
        && let Some(waits) = fetch::waiting(at)
    {
        status.message = status.message.map(|message| format!("{message}; {waits}"));
    }
    publish(at, begins, status, cache, hindered).await
}

/// Whether more runs have ended than the table shows.
fn has_news(old: &BenchmarkSuiteStatus, new: &BenchmarkSuiteStatus) -> bool {
    let done = |status: &BenchmarkSuiteStatus| status.progress.map_or(0, |progress| progress.done);
    done(new) > 0 && done(old) != done(new)
}

/// `error` and its causes; an answer of the API server is reduced to its message.
fn message(error: &(dyn std::error::Error + 'static)) -> String {
    chain_with(error, |error| {
        if matches!(error.downcast_ref(), Some(kube::Error::Api(_))) {
            return String::new();
        }
        let boxed = error.downcast_ref::<Box<Status>>().map(Box::as_ref);
        let status = error.downcast_ref::<Status>().or(boxed);
        status.map_or_else(|| error.to_string(), |status| status.message.clone())
    })
}

/// Writes `error` into `status`; returns the wait before the retry.
fn retry(pass: &Pass<'_>, status: &mut BenchmarkSuiteStatus, error: &Error) -> Duration {
    let message = message(error);
    let retry = pass.retries.again(&pass.uid(), &message, LONGEST_WAIT);
    if retry.news {
        log_failure(pass.suite, error);
    }
    status.message = Some(shortened(&message).into_owned());
    retry.after
}

async fn publish(
    pass: &Pass<'_>,
    begins: bool,
    mut status: BenchmarkSuiteStatus,
    cache: &mut SuiteCache,
    hindered: Option<Error>,
) -> Result<(Outcome, Action), Error> {
    let old = pass.old;
    let retry_after = hindered.map(|error| retry(pass, &mut status, &error));
    let outcome = if retry_after.is_some() { Outcome::Failed } else { Outcome::Done };
    let since = cache.written.map_or(BETWEEN_WRITES, |written| written.elapsed());
    if *old != status && old.phase == status.phase && since < BETWEEN_WRITES {
        return Ok((outcome, Action::requeue(BETWEEN_WRITES.saturating_sub(since))));
    }
    if *old != status {
        cache.written = Some(Instant::now());
    }
    let written = status::publish(pass, &status).await.map_err(Error::Write)?;
    let soon = !written || begins || cache.awaits();
    let wait = if soon { fetch::WATCH_LAGS } else { SAFETY_NET };
    Ok((outcome, Action::requeue(retry_after.unwrap_or(wait))))
}

async fn guarded(suite: Arc<BenchmarkSuite>, ctx: Arc<SuiteContext>) -> Result<Action, Error> {
    guard(&ctx, "suite", &*suite, reconcile(Arc::clone(&suite), Arc::clone(&ctx))).await
}

fn creator(object: &impl ResourceExt) -> Option<ObjectRef<BenchmarkSuite>> {
    let kind = BenchmarkSuite::kind(&());
    let owner = object.owner_references().iter().find(|owner| owner.kind == kind)?;
    Some(ObjectRef::new(&owner.name).within(&object.namespace()?))
}

/// The controller. Runs until shutdown.
pub fn controller(
    ctx: Arc<SuiteContext>,
    feeds: &mut Feeds,
    stop: &Shutdown,
) -> impl Future<Output = ()> + use<> {
    Controller::for_shared_stream(feeds.suites.subscribe(), ctx.world.suites.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches_shared_stream(feeds.runs.subscribe(), |run| creator(&*run))
        .watches_shared_stream(feeds.suites.subscribe(), |round| creator(&*round))
        .graceful_shutdown_on(stop.clone())
        .run(guarded, |object, error, ctx| retry_later(&ctx.retries, &*object, error, LONGEST_WAIT), ctx)
        .for_each(passes("suite"))
}

#[cfg(test)]
mod tests;

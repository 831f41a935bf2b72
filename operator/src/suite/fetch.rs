//! How the runs of a suite stand: those under way from the watch, those that have ended
//! asked for once each, and after a restart listed. Needs the client.

use super::{build::is_own, decide::Child, ended::Ended, expand::Plan, known::Known};
use crate::{context::Context, labels};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, run::RunPhase};
use kube::{Api, ResourceExt, api::ListParams};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

/// A step of fetching that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runs could not be listed.
    #[error("failed to list the runs of the suite")]
    List(#[source] kube::Error),
    /// A run could not be read.
    #[error("failed to read BenchmarkRun {1}")]
    Read(#[source] kube::Error, String),
    /// A run could not be packed.
    #[error("failed to pack BenchmarkRun {1}")]
    Pack(#[source] serde_json::Error, String),
}

/// Runs read at once.
const PAGE: u32 = 100;
/// How long a run that was just made may be unknown to the watch before it is asked for.
const WATCH_LAGS: Duration = Duration::from_secs(10);

/// How the runs stand, in the plan's order.
pub struct Children {
    /// How each stands.
    pub states: Vec<Child>,
    /// Runs of which it was just learnt that they have ended.
    pub just_ended: Vec<BenchmarkRun>,
}

fn has_ended(run: &BenchmarkRun) -> bool {
    run.status.as_ref().is_some_and(|status| status.finished_at.is_some())
        && run.metadata.deletion_timestamp.is_none()
}

fn runs(ctx: &Context, suite: &BenchmarkSuite) -> Api<BenchmarkRun> {
    Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default())
}

fn of_suite(uid: &str) -> ListParams {
    ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID))
}

/// Takes note of `run`, which has ended, without what nobody reads.
fn remember(known: &mut Known, run: &mut BenchmarkRun) -> Result<(), Error> {
    run.managed_fields_mut().clear();
    let ended = Ended::of(run).map_err(|error| Error::Pack(error, run.name_any()))?;
    known.ended.insert(run.name_any(), ended);
    Ok(())
}

/// Takes note of all runs that are there.
async fn list(ctx: &Context, suite: &BenchmarkSuite, uid: &str, known: &mut Known) -> Result<(), Error> {
    let mut page = of_suite(uid).limit(PAGE);
    loop {
        let listed = runs(ctx, suite).list(&page).await.map_err(Error::List)?;
        for mut run in listed.items.into_iter().filter(|run| is_own(run, uid)) {
            if has_ended(&run) {
                remember(known, &mut run)?;
            } else {
                known.made.insert(run.name_any(), Some(Instant::now()));
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    known.listed = true;
    Ok(())
}

/// Looks which of the runs that have ended are still there: those that somebody deleted are
/// to be measured again. Whether any is missing.
pub async fn verify(ctx: &Context, suite: &BenchmarkSuite, known: &mut Known) -> Result<bool, Error> {
    let uid = suite.uid().unwrap_or_default();
    let listed = runs(ctx, suite).list_metadata(&of_suite(&uid)).await.map_err(Error::List)?;
    let there: HashSet<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    let before = known.ended.len();
    known.ended.retain(|name, _| there.contains(name));
    known.made.retain(|name, _| there.contains(name));
    Ok(known.ended.len() < before)
}

/// What became of a run that the watch does not know, or not yet.
async fn ask(
    ctx: &Context,
    suite: &BenchmarkSuite,
    name: &str,
    uid: &str,
    known: &mut Known,
) -> Result<Option<BenchmarkRun>, Error> {
    let found = runs(ctx, suite).get_opt(name).await.map_err(|error| Error::Read(error, name.to_owned()))?;
    match found.filter(|run| is_own(run, uid)) {
        Some(mut run) if has_ended(&run) => {
            remember(known, &mut run)?;
            return Ok(Some(run));
        }
        Some(_) => known.made.insert(name.to_owned(), Some(Instant::now())),
        None => known.made.remove(name),
    };
    Ok(None)
}

/// What a run waits for before its load, so that a suite that does not come on says why.
pub fn waiting(ctx: &Context, suite: &BenchmarkSuite) -> Option<String> {
    let (namespace, uid) = (suite.namespace(), suite.uid().unwrap_or_default());
    let waits = |run: &BenchmarkRun| {
        let before_load = [RunPhase::Pending, RunPhase::Provisioning, RunPhase::Queued];
        let phase = run.status.as_ref().map(|status| status.phase);
        phase.is_some_and(|phase| before_load.contains(&phase))
            && run.namespace() == namespace
            && is_own(run, &uid)
    };
    let mut runs = ctx.world.runs.state_filter(waits);
    runs.sort_by_key(|run| run.metadata.creation_timestamp.clone());
    let run = runs.first()?;
    let status = run.status.as_ref()?;
    Some(format!("{} is {}: {}", run.name_any(), status.phase, status.message.as_deref()?))
}

/// How the runs of `plan` stand.
pub async fn children(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    known: &mut Known,
) -> Result<Children, Error> {
    let uid = suite.uid().unwrap_or_default();
    if !known.listed {
        list(ctx, suite, &uid, known).await?;
    }
    let namespace = suite.namespace();
    let seen = ctx.world.runs.state_filter(|run| run.namespace() == namespace && is_own(run, &uid));
    let seen: HashMap<String, bool> =
        seen.iter().filter(|run| !has_ended(run)).map(|run| (run.name_any(), run.spec.cancel)).collect();
    known.made.extend(seen.keys().map(|name| (name.clone(), None)));
    let unseen = |(name, since): (&String, &Option<Instant>)| {
        let lags = since.is_some_and(|since| since.elapsed() < WATCH_LAGS);
        (!seen.contains_key(name) && !known.ended.contains_key(name) && !lags).then(|| name.clone())
    };
    let unseen: Vec<String> = known.made.iter().filter_map(unseen).collect();
    let mut just_ended = Vec::new();
    for name in unseen {
        just_ended.extend(ask(ctx, suite, &name, &uid, known).await?);
    }
    let state = |(place, repetition): &(usize, u32)| {
        let name = plan.name(&plan.cells[*place], *repetition);
        match (known.ended.get(&name), seen.get(&name), known.made.contains_key(&name)) {
            (Some(run), ..) => Child::Ended { failed: run.failed },
            (None, Some(cancelled), _) => Child::UnderWay { cancelled: *cancelled },
            (None, None, true) => Child::UnderWay { cancelled: false },
            (None, None, false) => Child::Missing,
        }
    };
    Ok(Children { states: plan.order.iter().map(state).collect(), just_ended })
}

//! A suite with a schedule: makes rounds, removes old ones, and tells of them. Needs the client.

use super::{
    Error,
    apply::{self, cancel},
    build,
    cache::SuiteCache,
    status,
};
use crate::{cluster::apply::delete, context::Context};
use dragstrip_core::{
    labels,
    suite::{
        other::OtherSuite,
        round::{Round, due, outdated, previous, reported},
        schedule::Schedule,
    },
};
use dragstrip_crds::{BenchmarkSuite, BenchmarkSuiteStatus, suite::SuitePhase};
use jiff::Timestamp;
use kube::{Api, ResourceExt, api::ListParams, core::PartialObjectMetaExt};
use std::collections::BTreeSet;

/// The rounds that are under way, as the watch knows them.
fn under_way(ctx: &Context, suite: &BenchmarkSuite, uid: &str) -> BTreeSet<String> {
    let namespace = suite.namespace();
    let rounds = ctx.world.suites.state_filter(|one| one.namespace() == namespace && build::is_own(one, uid));
    rounds.iter().map(|round| round.name_any()).collect()
}

/// Rounds under way that the watch does not tell of, and so not of their end either.
fn unseen(rounds: &[Round], under_way: &BTreeSet<String>) -> bool {
    rounds.iter().any(|round| round.end.is_none() && !round.unreadable && !under_way.contains(round.name()))
}

async fn list(ctx: &Context, suite: &BenchmarkSuite, cache: &mut SuiteCache) -> Result<Vec<Round>, Error> {
    let uid = suite.uid().unwrap_or_default();
    // Before: what ends meanwhile is noticed by the difference.
    let now_under_way = under_way(ctx, suite, &uid);
    let api: Api<OtherSuite> = Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default());
    let of_suite = ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID));
    let listed = api.list(&of_suite).await.map_err(Error::ListRounds)?;
    let own = listed
        .items
        .iter()
        .filter(|round| build::is_own(*round, &uid))
        .map(|round| (round.metadata.deletion_timestamp.is_some(), Round::of(round)));
    // What has ended and goes can be no baseline, and is not to be removed again.
    let rounds: Vec<Round> =
        own.filter(|(goes, round)| !goes || round.end.is_none()).map(|(_, round)| round).collect();
    cache.rounds = Some((now_under_way, rounds.clone()));
    Ok(rounds)
}

/// The rounds as they were listed, while that is still how they stand: those that ended are not
/// watched.
fn listed(ctx: &Context, suite: &BenchmarkSuite, cache: &SuiteCache) -> Option<Vec<Round>> {
    let now_under_way = under_way(ctx, suite, &suite.uid().unwrap_or_default());
    let (then, rounds) = cache.rounds.as_ref()?;
    (*then == now_under_way && !unseen(rounds, then)).then(|| rounds.clone())
}

/// What a schedule's pass found: its status, and when it is to be looked at again.
pub struct RoundsCheck {
    /// What is to be told.
    pub status: BenchmarkSuiteStatus,
    /// The rounds, of which old ones are to be removed when that is told.
    pub rounds: Vec<Round>,
    /// The next time of the schedule.
    pub next: Option<Timestamp>,
    /// Whether the end of a round may come without an event.
    pub unseen: bool,
    /// What is in the way of what was to be done.
    pub hindered: Option<apply::Error>,
}

/// Stops a schedule for good, and the round under way with it.
pub async fn stop(
    ctx: &Context,
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    cache: &mut SuiteCache,
    now: Timestamp,
) -> Result<RoundsCheck, Error> {
    let rounds = list(ctx, suite, cache).await?;
    let mut status = reported(suite, old, &rounds, None, now);
    let mut hindered = None;
    for round in rounds.iter().filter(|round| round.end.is_none() && !round.cancelled) {
        let namespace = suite.namespace().unwrap_or_default();
        hindered = hindered.or(cancel::<BenchmarkSuite>(ctx, &namespace, round.name()).await.err());
    }
    // One that cannot be read goes on for nobody.
    if rounds.iter().all(|round| round.end.is_some() || round.unreadable) {
        let message = "cancelled: no further round starts".to_owned();
        status::end(&mut status, old, SuitePhase::Cancelled, message, now);
    }
    Ok(RoundsCheck { status, rounds: Vec::new(), next: None, unseen: true, hindered })
}

/// One pass over a suite with this `schedule`.
pub async fn pass(
    ctx: &Context,
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    schedule: &Schedule,
    cache: &mut SuiteCache,
    now: Timestamp,
) -> Result<RoundsCheck, Error> {
    let created = suite.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let is_due = |rounds: &[Round]| due(schedule, rounds, old, created, now).filter(|_| !suite.spec.suspend);
    let mut rounds = match listed(ctx, suite, cache).filter(|rounds| is_due(rounds).is_none()) {
        Some(rounds) => rounds,
        // What the next one is compared with may have been removed.
        None => list(ctx, suite, cache).await?,
    };
    let mut hindered = None;
    if let Some(time) = is_due(&rounds) {
        let round = build::round(suite, time, previous(&rounds));
        match apply::create(ctx, &suite.uid().unwrap_or_default(), &round).await {
            Ok(()) => {
                let (suite, namespace, round) = (suite.name_any(), suite.namespace(), round.name_any());
                tracing::info!(suite, namespace, round, "round of a suite made");
                rounds.push(Round::made(round, time));
                cache.rounds = None;
            }
            Err(error) => hindered = Some(error),
        }
    }
    let next = schedule.next(now);
    let status = reported(suite, old, &rounds, next, now);
    let unseen = unseen(&rounds, &under_way(ctx, suite, &suite.uid().unwrap_or_default()));
    Ok(RoundsCheck { status, rounds, next, unseen, hindered })
}

/// Removes old `rounds`: when what they were was told, since nobody sees it any more then.
pub async fn tidy(
    ctx: &Context,
    suite: &BenchmarkSuite,
    rounds: &[Round],
    cache: &mut SuiteCache,
) -> Result<(), Error> {
    let spec = &suite.spec;
    let compares = spec.baseline.as_ref().is_some_and(|baseline| baseline.previous);
    for round in outdated(rounds, spec.passed_history_limit, spec.failed_history_limit, compares) {
        cache.rounds = None;
        let removed = round.metadata.clone().into_response_partial::<BenchmarkSuite>();
        delete(&ctx.client, &removed).await.map_err(Error::RemoveRound)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_whose_end_no_event_would_tell_is_looked_for() {
        let watched = BTreeSet::from(["nightly-1".to_owned()]);
        let round = |name: &str| Round::made(name.to_owned(), Timestamp::UNIX_EPOCH);
        assert!(!unseen(&[round("nightly-1")], &watched));
        assert!(unseen(&[round("nightly-2")], &watched), "the schedule would stand still");
        let unreadable = Round { unreadable: true, ..round("nightly-2") };
        assert!(!unseen(&[unreadable], &watched), "it is never watched, and its own condition says so");
    }
}

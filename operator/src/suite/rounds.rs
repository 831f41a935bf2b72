//! A suite with a schedule: creates rounds, removes old ones, and reports them. Needs the client.

use super::{
    apply::{self, cancel},
    build,
    context::Pass,
    status,
};
use crate::cluster::apply::delete;
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
use kube::{ResourceExt, api::ListParams, core::PartialObjectMetaExt};
use std::collections::BTreeSet;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the rounds of the suite")]
    List(#[source] kube::Error),
    #[error("failed to remove an old round of the suite")]
    Remove(#[source] kube::Error),
}

/// The rounds that are under way, as the watch shows them.
fn under_way(pass: &Pass<'_>) -> BTreeSet<String> {
    let (namespace, uid) = (pass.suite.namespace(), pass.uid());
    let rounds =
        pass.world.suites.state_filter(|one| one.namespace() == namespace && build::is_own(one, &uid));
    rounds.iter().map(|round| round.name_any()).collect()
}

/// Whether a round is under way that the watch does not show, so that no event may bring its end.
fn unseen(rounds: &[Round], seen: &BTreeSet<String>) -> bool {
    rounds.iter().any(|round| round.end.is_none() && !round.unreadable && !seen.contains(round.name()))
}

async fn list(pass: &Pass<'_>) -> Result<Vec<Round>, Error> {
    let uid = pass.uid();
    let of_suite = ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID));
    let listed = pass.api::<OtherSuite>().list(&of_suite).await.map_err(Error::List)?;
    let own = listed
        .items
        .iter()
        .filter(|round| build::is_own(*round, &uid))
        .map(|round| (round.metadata.deletion_timestamp.is_some(), Round::of(round)));
    // An ended round that is being deleted cannot be a baseline, and is not to be removed again.
    Ok(own.filter(|(leaves, round)| !leaves || round.end.is_none()).map(|(_, round)| round).collect())
}

pub struct RoundsCheck {
    pub status: BenchmarkSuiteStatus,
    /// The rounds. Old ones are to be removed after the status was written.
    pub rounds: Vec<Round>,
    pub next: Option<Timestamp>,
    /// Whether a round may end without an event.
    pub unseen: bool,
    /// Why a round could not be created or cancelled.
    pub hindered: Option<apply::Error>,
}

/// Cancels a schedule, and the round under way with it.
pub async fn stop(pass: &Pass<'_>, now: Timestamp) -> Result<RoundsCheck, Error> {
    let rounds = list(pass).await?;
    let mut status = reported(pass.suite, pass.old, &rounds, None, now);
    let mut hindered = None;
    for round in rounds.iter().filter(|round| round.end.is_none() && !round.cancelled) {
        let namespace = pass.suite.namespace().unwrap_or_default();
        hindered = hindered.or(cancel::<BenchmarkSuite>(pass, &namespace, round.name()).await.err());
    }
    // Rounds that cannot be read do not count.
    if rounds.iter().all(|round| round.end.is_some() || round.unreadable) {
        let message = "cancelled: no further round starts".to_owned();
        status::end(&mut status, pass.old, SuitePhase::Cancelled, message, now);
    }
    Ok(RoundsCheck { status, rounds: Vec::new(), next: None, unseen: true, hindered })
}

pub async fn pass(pass: &Pass<'_>, schedule: &Schedule, now: Timestamp) -> Result<RoundsCheck, Error> {
    let Pass { suite, old, .. } = pass;
    let created = suite.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let mut rounds = list(pass).await?;
    let due = due(schedule, &rounds, old, created, now).filter(|_| !suite.spec.suspend);
    let mut hindered = None;
    if let Some(time) = due {
        let round = build::round(suite, time, previous(&rounds));
        match apply::create(pass, &pass.uid(), &round).await {
            Ok(()) => {
                let (suite, namespace, round) = (suite.name_any(), suite.namespace(), round.name_any());
                tracing::info!(suite, namespace, round, "round of a suite created");
                rounds.push(Round::made(round, time));
            }
            Err(error) => hindered = Some(error),
        }
    }
    let next = schedule.next(now);
    let status = reported(suite, old, &rounds, next, now);
    let unseen = unseen(&rounds, &under_way(pass));
    Ok(RoundsCheck { status, rounds, next, unseen, hindered })
}

/// Removes old `rounds`, which the written status has.
pub async fn remove_old(pass: &Pass<'_>, rounds: &[Round]) -> Result<(), Error> {
    let spec = &pass.suite.spec;
    let compares = spec.baseline.as_ref().is_some_and(|baseline| baseline.previous);
    for round in outdated(rounds, spec.passed_history_limit, spec.failed_history_limit, compares) {
        let removed = round.metadata.clone().into_response_partial::<BenchmarkSuite>();
        delete(&pass.client, &removed).await.map_err(Error::Remove)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_whose_end_brings_no_event_is_found() {
        let watched = BTreeSet::from(["nightly-1".to_owned()]);
        let round = |name: &str| Round::made(name.to_owned(), Timestamp::UNIX_EPOCH);
        assert!(!unseen(&[round("nightly-1")], &watched));
        assert!(unseen(&[round("nightly-2")], &watched), "the schedule would stand still");
        let unreadable = Round { unreadable: true, ..round("nightly-2") };
        assert!(!unseen(&[unreadable], &watched), "no watch ever shows it, and its own condition says so");
    }
}

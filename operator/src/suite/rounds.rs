//! A suite with a schedule: makes rounds, removes old ones, and tells of them. Needs the client.

use super::{
    Error,
    apply::{self, cancel},
    build,
    known::Known,
    schedule::{Round, Schedule, outdated, previous},
    status,
};
use crate::{cluster::apply::delete, context::Context, labels};
use dragstrip_crds::{
    BenchmarkSuite, BenchmarkSuiteStatus,
    conditions::Finding,
    conditions::types::{COMPLETE, PASSED},
    suite::SuitePhase,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt, api::ListParams};
use std::collections::BTreeSet;

/// The rounds that are under way, as the watch knows them.
fn under_way(ctx: &Context, suite: &BenchmarkSuite, uid: &str) -> BTreeSet<String> {
    let namespace = suite.namespace();
    let rounds = ctx.world.suites.state_filter(|one| one.namespace() == namespace && build::is_own(one, uid));
    rounds.iter().map(|round| round.name_any()).collect()
}

/// All rounds: listed when one was made or has ended since.
async fn fetch(ctx: &Context, suite: &BenchmarkSuite, known: &mut Known) -> Result<Vec<Round>, Error> {
    let uid = suite.uid().unwrap_or_default();
    let now_under_way = under_way(ctx, suite, &uid);
    if let Some((then, rounds)) = &known.rounds
        && *then == now_under_way
    {
        return Ok(rounds.clone());
    }
    let api: Api<BenchmarkSuite> =
        Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default());
    let of_suite = ListParams::default().labels(&format!("{}={uid}", labels::SUITE_UID));
    let listed = api.list(&of_suite).await.map_err(Error::ListRounds)?;
    let own = listed.items.into_iter().filter(|round| build::is_own(round, &uid));
    let rounds: Vec<Round> = own.map(Round::of).collect();
    known.rounds = Some((now_under_way, rounds.clone()));
    Ok(rounds)
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

/// What a schedule's pass found: its status, and when it is to be looked at again.
pub struct Looked {
    /// What is to be told.
    pub status: BenchmarkSuiteStatus,
    /// The next time of the schedule.
    pub next: Option<Timestamp>,
    /// What is in the way of the round that is due.
    pub in_the_way: bool,
}

fn told(
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    rounds: &[Round],
    next: Option<Timestamp>,
    now: Timestamp,
) -> BenchmarkSuiteStatus {
    let generation = suite.metadata.generation.unwrap_or(0);
    let last = rounds.iter().max_by_key(|round| round.time);
    let ended = rounds.iter().filter(|round| round.finished_at().is_some()).max_by_key(|round| round.time);
    let phase = if suite.spec.suspend { SuitePhase::Suspended } else { SuitePhase::Scheduled };
    let runs = last.filter(|round| round.finished_at().is_none());
    let message = match (runs, next) {
        (Some(round), _) => format!("round {} is under way", round.suite.name_any()),
        (None, _) if suite.spec.suspend => "suspended: no round is made".to_owned(),
        (None, Some(next)) => format!("the next round is at {next}"),
        (None, None) => "spec.schedule names no time of the next years".to_owned(),
    };
    let passed = ended.and_then(Round::passed).map(|condition| {
        let message = format!(
            "round {}: {}",
            ended.map(|round| round.suite.name_any()).unwrap_or_default(),
            condition.message
        );
        Finding {
            kind: PASSED,
            status: Some(condition.status == "True"),
            reason: if condition.status == "True" { "LastRoundPassed" } else { "LastRoundDidNotPass" },
            message,
        }
    });
    let mut status = BenchmarkSuiteStatus {
        observed_generation: Some(generation),
        phase,
        message: Some(message),
        next_scheduled_at: next.filter(|_| !suite.spec.suspend).map(Time),
        last_scheduled_at: last.map(|round| Time(round.time)).or(old.last_scheduled_at.clone()),
        last_round: last.map(|round| round.suite.name_any()).or(old.last_round.clone()),
        ..BenchmarkSuiteStatus::default()
    };
    let conditions = dragstrip_crds::conditions::upsert(&old.conditions, passed.as_slice(), generation, now);
    status.conditions = conditions.into_iter().filter(|condition| condition.type_ != COMPLETE).collect();
    status
}

/// Stops a schedule for good, and the round under way with it.
async fn stop(
    ctx: &Context,
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    rounds: &[Round],
    now: Timestamp,
) -> Result<BenchmarkSuiteStatus, Error> {
    let namespace = suite.namespace().unwrap_or_default();
    let under_way: Vec<&Round> = rounds.iter().filter(|round| round.finished_at().is_none()).collect();
    for round in under_way.iter().filter(|round| !round.suite.spec.cancel) {
        cancel::<BenchmarkSuite>(ctx, &namespace, &round.suite.name_any()).await?;
    }
    let mut status = told(suite, old, rounds, None, now);
    if under_way.is_empty() {
        status::end(
            &mut status,
            old,
            SuitePhase::Cancelled,
            "cancelled: no further round is made".to_owned(),
            now,
        );
    }
    Ok(status)
}

/// One pass over a suite with this `schedule`.
pub async fn pass(
    ctx: &Context,
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    schedule: &Schedule,
    known: &mut Known,
    now: Timestamp,
) -> Result<Looked, Error> {
    let mut rounds = fetch(ctx, suite, known).await?;
    let spec = &suite.spec;
    if spec.cancel {
        let status = stop(ctx, suite, old, &rounds, now).await?;
        return Ok(Looked { status, next: None, in_the_way: false });
    }
    let compares = spec.baseline.as_ref().is_some_and(|baseline| baseline.previous);
    let mut removed = BTreeSet::new();
    for round in outdated(&rounds, spec.passed_history_limit, spec.failed_history_limit, compares) {
        delete(&ctx.client, &round.suite).await.map_err(Error::RemoveRound)?;
        removed.insert(round.suite.name_any());
    }
    // The list is kept: it must not name what has gone.
    rounds.retain(|round| !removed.contains(&round.suite.name_any()));
    if let Some((_, kept)) = &mut known.rounds {
        kept.retain(|round| !removed.contains(&round.suite.name_any()));
    }
    let made = time(suite.metadata.creation_timestamp.as_ref()).unwrap_or(now);
    // A time at which a round was under way is left out.
    let ends = rounds.iter().filter_map(Round::finished_at);
    let lasts = rounds.iter().map(|round| round.time).chain(time(old.last_scheduled_at.as_ref())).chain(ends);
    let last = lasts.fold(made, Timestamp::max);
    let idle = rounds.iter().all(|round| round.finished_at().is_some());
    let mut problem = None;
    if let Some(due) = schedule.due(last, now).filter(|_| idle && !spec.suspend) {
        let round = build::round(suite, due, previous(&rounds).as_deref());
        problem = apply::create(ctx, &suite.uid().unwrap_or_default(), &round).await?;
        if problem.is_none() {
            let (suite, namespace) = (suite.name_any(), suite.namespace());
            tracing::info!(suite, namespace, round = round.name_any(), "round of a suite made");
            known.rounds = None;
            rounds.push(Round { suite: round, time: due });
        }
    }
    let next = schedule.next(now);
    let mut status = told(suite, old, &rounds, next, now);
    if let Some(problem) = &problem {
        status.message = Some(problem.message.clone());
    }
    Ok(Looked { status, next, in_the_way: problem.is_some() })
}

//! What was observed of a run: the operator fills it from the API server, the command line from its
//! own processes. Pure.

use super::{
    state::{AttemptState, Observed, Remains, Turn},
    stored_result::StoredResult,
    target::TargetState,
};
use crate::run::{
    plan::{Outcome, Place, clock, place_of},
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::BenchmarkRunStatus;
use dragstrip_results::{
    observed::are_others,
    result::PodFailure,
    verdict::placed::{Placed, broken},
};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The Job of an attempt, as far as decisions need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFacts {
    /// The start line, once it is fixed.
    pub start: Option<Timestamp>,
    pub spec_hash: Option<String>,
    /// The value of a search that it measures, even if another version of the operator chose it.
    pub search_value: Option<u64>,
}

/// Everything that was observed, without the state of each attempt.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub target: TargetState,
    pub turn: Turn,
    /// Whether the run holds a Lease that it has not released.
    pub holds: bool,
    pub jobs: BTreeMap<String, JobFacts>,
    pub stored: BTreeMap<String, StoredResult>,
    /// What is wrong with stored results that cannot be read.
    pub damaged: Vec<String>,
    /// The message if the target was deleted.
    pub target_gone: Option<String>,
    /// Where servers and clients are, before the load.
    pub placed: Vec<Placed>,
}

/// The state of an attempt whose result is stored with this `failure`, if any.
pub fn state_of_stored(failure: Option<&PodFailure>, remains: impl FnOnce() -> Remains) -> AttemptState {
    match failure {
        Some(failure) if Outcome::of_failure(Some(failure)) == Outcome::Lost => {
            AttemptState::Lost { failure: failure.clone(), remains: remains() }
        }
        other => AttemptState::Stored(other.cloned()),
    }
}

/// How the server differs from the one that the first result was measured on.
fn server_changed(run: &ValidatedRun, snapshot: &Snapshot) -> Option<String> {
    // What was lost is in no result: it can be measured again on another server.
    let lost = |stored: &StoredResult| Outcome::of_failure(stored.failure.as_ref()) == Outcome::Lost;
    let stored: Vec<(&Attempt, &StoredResult)> = run
        .attempts
        .iter()
        .filter_map(|attempt| Some((attempt, snapshot.stored.get(&attempt.name)?)))
        .filter(|(_, stored)| !lost(stored))
        .collect();
    let first = stored.iter().find_map(|(_, stored)| stored.identity.as_ref());
    // What becomes of the server after the last measurement harms no result.
    let done = place_of(run, &snapshot.stored) == Place::Done;
    let now = match &snapshot.target {
        TargetState::Ready(target) if target.questioned && !done => target.identity.as_ref(),
        _ => None,
    };
    let later = stored.iter().filter_map(|(_, stored)| stored.identity.as_ref()).chain(now);
    let changed = first.and_then(|first| later.into_iter().find_map(|later| first.change_to(later)));
    changed.or_else(|| {
        // Only the clients learn what an external server is.
        let mut seen =
            stored.iter().filter(|(_, stored)| stored.failure.is_none() && !stored.server_run_ids.is_empty());
        let (first, before) = seen.next()?;
        let (other, after) =
            seen.find(|(_, other)| are_others(&before.server_run_ids, &other.server_run_ids))?;
        Some(format!(
            "it had the run_id {} in phase {}, repetition {}, and {} in phase {}, repetition {}",
            before.server_run_ids.join(", "),
            first.phase,
            first.repetition,
            after.server_run_ids.join(", "),
            other.phase,
            other.repetition,
        ))
    })
}

/// The name of a measurement, stored or under way, that has another spec than `run` has now.
fn spec_changed(run: &ValidatedRun, snapshot: &Snapshot) -> Option<String> {
    let stored = snapshot.stored.iter().map(|(name, stored)| (name, stored.spec_hash.as_deref()));
    let loading = snapshot.jobs.iter().filter(|(_, job)| job.start.is_some());
    let loading = loading.map(|(name, job)| (name, job.spec_hash.as_deref()));
    let other = |hash: Option<&str>| hash.is_some_and(|hash| hash != run.spec_hash);
    stored.chain(loading).find(|(_, hash)| other(*hash)).map(|(name, _)| name.clone())
}

/// The measured attempt whose servers' memory is due to be read again, and when: that
/// follows from stored results alone. Clients read it from external servers.
fn settling(run: &ValidatedRun, snapshot: &Snapshot) -> Option<(usize, Timestamp)> {
    let pending = |(index, attempt): (usize, &Attempt)| {
        let settle = SignedDuration::try_from_secs_f64(run.settle_seconds(attempt)?).ok()?;
        let stored = snapshot
            .stored
            .get(&attempt.name)
            .filter(|stored| stored.failure.is_none() && !stored.settled)?;
        Some((index, stored.load_ended?.saturating_add(settle).unwrap_or(Timestamp::MAX)))
    };
    let observed = run.spec.target.external().is_none();
    run.attempts.iter().enumerate().filter(|_| observed).find_map(pending)
}

/// What [`decide`](super::decide::decide) rests on: `snapshot`, with the state of each attempt.
pub fn observe(
    run: &ValidatedRun,
    old: &BenchmarkRunStatus,
    snapshot: &Snapshot,
    attempts: Vec<AttemptState>,
    now: Timestamp,
) -> Observed {
    Observed {
        target: snapshot.target.clone(),
        turn: snapshot.turn.clone(),
        holds: snapshot.holds,
        deadline: clock::deadline(old.clock.as_ref(), run.created, run.spec.timeout.signed(), now),
        setback: old.setback.clone(),
        settling: settling(run, snapshot),
        server_changed: server_changed(run, snapshot),
        misplaced: broken(&snapshot.placed, &run.spec.requirements),
        target_gone: snapshot.target_gone.clone(),
        spec_changed: spec_changed(run, snapshot),
        ended: old.failure.clone(),
        damaged: snapshot.damaged.clone(),
        attempts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{lost, run},
        run::{identity::Identity, observe::target::ReadyTarget, validate::validate},
    };
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn two_clients() -> ValidatedRun {
        let mut two = run(&["read"], 1);
        two.spec.clients.pods = 2;
        validate(&two).unwrap()
    }

    #[test]
    fn what_is_measured_by_another_spec_is_found() {
        let run = two_clients();
        let of = |stored: Option<&str>, ordered: Option<&str>| {
            let stored = StoredResult { spec_hash: stored.map(str::to_owned), ..StoredResult::default() };
            let job =
                JobFacts { start: Some(at(0)), spec_hash: ordered.map(str::to_owned), ..JobFacts::default() };
            let snapshot = Snapshot {
                stored: [("sprint-write-1".to_owned(), stored)].into(),
                jobs: [("sprint-read-1".to_owned(), job)].into(),
                ..Snapshot::default()
            };
            spec_changed(&run, &snapshot)
        };
        let own = Some(run.spec_hash.as_str());
        assert_eq!(of(own, own), None);
        assert_eq!(of(Some("other"), own).as_deref(), Some("sprint-write-1"));
        assert_eq!(of(own, Some("other")).as_deref(), Some("sprint-read-1"));
    }

    #[test]
    fn the_digest_of_a_spec_outlives_an_upgrade_in_mid_run() {
        // Another digest ends every run under way: leave new fields out of JSON where they are not set.
        assert_eq!(two_clients().spec_hash, "a87aa913a307");
    }

    fn changed_before(target: TargetState, stored: Vec<StoredResult>) -> Option<String> {
        let run = validate(&run(&["write", "read"], 1)).unwrap();
        let names = run.attempts.iter().map(|attempt| attempt.name.clone());
        server_changed(&run, &Snapshot { target, stored: names.zip(stored).collect(), ..Snapshot::default() })
    }

    fn changed(stored: Vec<StoredResult>) -> Option<String> {
        changed_before(TargetState::NotConsulted, stored)
    }

    #[test]
    fn when_memory_is_to_be_read_again_follows_from_what_is_stored() {
        let mut declared = run(&["write", "read"], 1);
        declared.spec.phases[0].memory = serde_json::from_value(json!({"settle": "60s"})).unwrap();
        let due = |declared: &dragstrip_crds::BenchmarkRun, stored: StoredResult| {
            let run = validate(declared).unwrap();
            let all =
                [("sprint-write-1".to_owned(), stored.clone()), ("sprint-read-1".to_owned(), stored)].into();
            settling(&run, &Snapshot { stored: all, ..Snapshot::default() })
        };
        let stored = || StoredResult { load_ended: Some(at(0)), ..StoredResult::default() };
        assert_eq!(due(&declared, stored()), Some((0, at(60))));
        assert_eq!(
            due(&declared, StoredResult { settled: true, ..stored() }),
            None,
            "it was read before a restart"
        );
        let failed = StoredResult {
            failure: lost("p").failure.map(|failure| PodFailure { pod: "p".into(), failure }),
            ..stored()
        };
        assert_eq!(due(&declared, failed), None, "its figures are not shown");
        declared.spec.target =
            serde_json::from_value(json!({"external": {"address": "redis:6379"}})).unwrap();
        assert_eq!(due(&declared, stored()), None, "its client has read it");
    }

    #[test]
    fn results_of_two_servers_are_never_one_result() {
        let on = |generation| StoredResult {
            identity: Some(Identity { generation: Some(generation), ..Identity::default() }),
            ..StoredResult::default()
        };
        assert_eq!(changed(vec![on(1), on(1)]), None);
        assert!(changed(vec![on(1), on(2)]).unwrap().contains("edited"));
        let target = |generation| {
            let identity = on(generation).identity;
            TargetState::Ready(Box::new(ReadyTarget { identity, questioned: true, ..ReadyTarget::default() }))
        };
        assert!(changed_before(target(2), vec![on(1)]).unwrap().contains("edited"));
        assert_eq!(changed_before(target(2), vec![on(1), on(1)]), None, "everything was measured before");
        let failure = lost("p").failure.map(|failure| PodFailure { pod: "p".into(), failure });
        let lost = || StoredResult { failure: failure.clone(), ..on(1) };
        assert_eq!(changed_before(target(2), vec![lost()]), None, "nothing was measured on the first server");
        let outsider = |id: &str| StoredResult { server_run_ids: vec![id.into()], ..StoredResult::default() };
        assert_eq!(changed(vec![outsider("a"), outsider("a")]), None);
        let reported = changed(vec![outsider("a"), outsider("b")]).unwrap();
        assert!(
            reported.contains("run_id a in phase write, repetition 1, and b in phase read"),
            "{reported}"
        );
        assert_eq!(
            changed(vec![outsider("a"), StoredResult::default()]),
            None,
            "an unknown id is not a change"
        );
    }
}

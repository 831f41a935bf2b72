//! The rounds of a suite with a schedule: which is due, which are removed, which one is the
//! baseline of the next, and the suite's status. Pure.

use super::{other::OtherSuite, schedule::Schedule};
use crate::labels;
use dragstrip_crds::{
    BenchmarkSuite, BenchmarkSuiteStatus,
    conditions::{
        self, Finding, find,
        types::{COMPLETE, DECODABLE, PASSED},
    },
    suite::SuitePhase,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{ResourceExt, core::ObjectMeta};

/// A round of a suite, without what nothing here needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Its name, namespace and uid.
    pub metadata: ObjectMeta,
    /// Its scheduled time, else its creation.
    pub time: Timestamp,
    pub cancelled: bool,
    /// Whether this operator cannot decode it, and so leaves it alone.
    pub unreadable: bool,
    /// How it ended; `None` while it is under way.
    pub end: Option<End>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub at: Timestamp,
    pub passed: bool,
    /// Message of its condition Passed.
    pub message: String,
    /// Whether one of its runs measured something, so that it can be a baseline.
    pub measured: bool,
}

fn end(round: &OtherSuite) -> Option<End> {
    let status = &round.status;
    let passed = find(&status.conditions, PASSED);
    let some = status.progress.is_none_or(|progress| progress.failed < progress.total);
    Some(End {
        at: status.finished_at.as_ref()?.0,
        passed: passed.is_some_and(|passed| passed.status == "True"),
        message: passed.map(|passed| passed.message.clone()).unwrap_or_default(),
        measured: status.complete().is_some() && some,
    })
}

impl Round {
    pub fn of(round: &OtherSuite) -> Self {
        let written = round.annotations().get(labels::SCHEDULED_AT).and_then(|time| time.parse().ok());
        let made = round.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let ObjectMeta { name, namespace, uid, .. } = round.metadata.clone();
        Self {
            metadata: ObjectMeta { name, namespace, uid, ..ObjectMeta::default() },
            time: written.or(made).unwrap_or(Timestamp::UNIX_EPOCH),
            cancelled: round.spec.cancel,
            unreadable: find(&round.status.conditions, DECODABLE).is_some_and(|it| it.status == "False"),
            end: end(round),
        }
    }

    /// The round that was just created for `time`.
    pub fn made(name: String, time: Timestamp) -> Self {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        Self { metadata, time, cancelled: false, unreadable: false, end: None }
    }

    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// The name of the round that is the baseline of the next: the last that passed, so that every
/// round reports a regression until it is fixed; if none passed, the last that measured something.
pub fn previous(rounds: &[Round]) -> Option<&str> {
    let ended = rounds.iter().filter_map(|round| Some((round, round.end.as_ref()?)));
    let measured = ended.filter(|(_, end)| end.measured);
    measured.max_by_key(|(round, end)| (end.passed, round.time)).map(|(round, _)| round.name())
}

/// Finished rounds beyond the limits of `passed` and `failed` ones. The baseline of the next
/// round stays.
pub fn outdated(rounds: &[Round], passed: i32, failed: i32, compares: bool) -> Vec<&Round> {
    let baseline = previous(rounds).filter(|_| compares);
    let mut ended: Vec<(&Round, &End)> =
        rounds.iter().filter_map(|round| Some((round, round.end.as_ref()?))).collect();
    ended.sort_by_key(|(round, _)| std::cmp::Reverse(round.time));
    let beyond = |good: bool, most: i32| {
        let of_kind = ended.iter().filter(move |(_, end)| end.passed == good).map(|(round, _)| *round);
        of_kind.skip(usize::try_from(most).unwrap_or_default())
    };
    let all = beyond(true, passed).chain(beyond(false, failed));
    all.filter(|round| Some(round.name()) != baseline).collect()
}

/// The time for which a round is due, in a suite that was created at `created` and has status
/// `old`. A time at which a round is or was under way is skipped, even if that round is gone.
pub fn due(
    schedule: &Schedule,
    rounds: &[Round],
    old: &BenchmarkSuiteStatus,
    created: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    if rounds.iter().any(|round| round.end.is_none()) {
        return None;
    }
    let reported = [&old.last_scheduled_at, &old.last_ended_at].into_iter().flatten().map(|time| time.0);
    let ends = rounds.iter().filter_map(|round| Some(round.end.as_ref()?.at));
    let past = rounds.iter().map(|round| round.time).chain(ends).chain(reported);
    schedule.due(past.fold(created, Timestamp::max), now)
}

const LAST_PASSED: &str = "LastRoundPassed";
const LAST_DID_NOT_PASS: &str = "LastRoundDidNotPass";

/// Condition Passed from the last round that ended, if that changes it.
fn passed(old: &[Condition], last: Option<(&Round, &End)>) -> Option<Finding> {
    if let Some((round, end)) = last {
        let reason = if end.passed { LAST_PASSED } else { LAST_DID_NOT_PASS };
        let message = format!("round {}: {}", round.name(), end.message);
        return Some(Finding { kind: PASSED, status: Some(end.passed), reason, message });
    }
    // failedHistoryLimit may have removed that round: its outcome stays.
    let of_round =
        find(old, PASSED).is_some_and(|it| [LAST_PASSED, LAST_DID_NOT_PASS].contains(&it.reason.as_str()));
    (!of_round).then(|| Finding::unknown(PASSED, "NoRoundYet", "no round has ended yet"))
}

fn message(suite: &BenchmarkSuite, rounds: &[Round], next: Option<Timestamp>) -> String {
    let under_way = rounds.iter().find(|round| round.end.is_none());
    match (under_way, next) {
        (Some(round), _) if round.unreadable => format!(
            "this version of the operator cannot read round {}, and leaves it alone: delete it to start another round",
            round.name()
        ),
        (Some(round), _) => format!("round {} is under way", round.name()),
        (None, _) if suite.spec.suspend => "suspended: no round starts".to_owned(),
        (None, Some(next)) => format!("the next round is at {next}"),
        (None, None) => "spec.schedule matches no time in the coming years".to_owned(),
    }
}

/// Whether `new` is not before `old`: a removed round must not turn the status back.
fn is_later(new: Timestamp, old: Option<&Time>) -> bool {
    old.is_none_or(|old| new >= old.0)
}

/// The status, after `old`, of a suite with these `rounds`; the next one is due at `next`.
pub fn reported(
    suite: &BenchmarkSuite,
    old: &BenchmarkSuiteStatus,
    rounds: &[Round],
    next: Option<Timestamp>,
    now: Timestamp,
) -> BenchmarkSuiteStatus {
    let generation = suite.metadata.generation.unwrap_or(0);
    let made = rounds.iter().max_by_key(|round| round.time);
    let made = made.filter(|round| is_later(round.time, old.last_scheduled_at.as_ref()));
    let ended = rounds.iter().filter_map(|round| Some((round, round.end.as_ref()?)));
    let ended = ended.max_by_key(|(_, end)| end.at);
    let ended = ended.filter(|(_, end)| is_later(end.at, old.last_ended_at.as_ref()));
    let finding = passed(&old.conditions, ended);
    let conditions = conditions::upsert(&old.conditions, finding.as_slice(), generation, now);
    BenchmarkSuiteStatus {
        observed_generation: Some(generation),
        phase: if suite.spec.suspend { SuitePhase::Suspended } else { SuitePhase::Scheduled },
        message: Some(message(suite, rounds, next)),
        next_scheduled_at: next.filter(|_| !suite.spec.suspend).map(Time),
        last_scheduled_at: made.map(|round| Time(round.time)).or(old.last_scheduled_at.clone()),
        last_ended_at: ended.map(|(_, end)| Time(end.at)).or(old.last_ended_at.clone()),
        last_round: made.map(|round| round.name().to_owned()).or(old.last_round.clone()),
        conditions: conditions.into_iter().filter(|condition| condition.type_ != COMPLETE).collect(),
        ..BenchmarkSuiteStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{spec, suite_of};
    use serde_json::{Value, json};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn round(day: u32, status: Value) -> Round {
        let scheduled = json!({(labels::SCHEDULED_AT): format!("2026-01-{day:02}T03:00:00Z")});
        let metadata = json!({"name": format!("nightly-{day}"), "annotations": scheduled});
        Round::of(&serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap())
    }

    /// A round that ended an hour after its time, of which so many runs of two `failed`.
    fn ended(day: u32, passed: bool, failed: u32) -> Round {
        round(
            day,
            json!({
                "phase": "Succeeded", "finishedAt": format!("2026-01-{day:02}T04:00:00Z"),
                "report": {"configMap": "r", "parts": 1},
                "progress": {"done": 2, "total": 2, "running": 0, "failed": failed},
                "conditions": [{
                    "type": "Passed", "status": if passed { "True" } else { "False" }, "reason": "R",
                    "message": "it ended", "lastTransitionTime": "2026-01-01T00:00:00Z"
                }]
            }),
        )
    }

    fn under_way(day: u32) -> Round {
        round(day, json!({"phase": "Running"}))
    }

    fn nightly(more: Value) -> BenchmarkSuite {
        let mut declared = spec();
        declared["schedule"] = json!("0 3 * * *");
        declared.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        suite_of(declared)
    }

    fn said(old: &BenchmarkSuiteStatus, rounds: &[Round]) -> BenchmarkSuiteStatus {
        reported(&nightly(json!({})), old, rounds, None, at("2026-01-09T00:00:00Z"))
    }

    fn is_passed(status: &BenchmarkSuiteStatus) -> (&str, &str) {
        find(&status.conditions, PASSED).map_or(("", ""), |it| (it.status.as_str(), it.reason.as_str()))
    }

    fn is_due(rounds: &[Round], old: &BenchmarkSuiteStatus, now: &str) -> Option<Timestamp> {
        let schedule = Schedule::parse("0 * * * *").unwrap();
        due(&schedule, rounds, old, at("2026-01-01T00:00:00Z"), at(now))
    }

    #[test]
    fn the_newest_rounds_and_the_baseline_of_the_next_stay() {
        let rounds = [
            ended(1, true, 0),
            ended(2, false, 0),
            ended(3, true, 0),
            ended(4, false, 1),
            ended(5, false, 2),
            under_way(6),
        ];
        let names = |passed, failed, compares| -> Vec<&str> {
            let mut names: Vec<_> =
                outdated(&rounds, passed, failed, compares).into_iter().map(Round::name).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(1, 2, true), ["nightly-1", "nightly-2"]);
        let all = ["nightly-1", "nightly-2", "nightly-4", "nightly-5"];
        assert_eq!(names(0, 0, true), all, "3 is the baseline");
        assert_eq!(names(0, 3, false), ["nightly-1", "nightly-3"]);
    }

    #[test]
    fn the_baseline_is_the_last_round_that_passed_so_that_a_regression_is_reported_until_it_is_fixed() {
        let rounds = [ended(1, true, 0), ended(2, false, 0), ended(3, false, 1)];
        assert_eq!(previous(&rounds), Some("nightly-1"), "3 would become what 4 is as good as");
        assert_eq!(previous(&rounds[1..]), Some("nightly-3"), "where none passed");
        let nothing = [ended(1, false, 1), ended(2, false, 2)];
        assert_eq!(previous(&nothing), Some("nightly-1"), "no run of 2 measured anything");
        assert_eq!(previous(&nothing[1..]), None);
    }

    #[test]
    fn what_was_scheduled_never_goes_back_when_a_round_is_removed() {
        let now = said(&BenchmarkSuiteStatus::default(), &[ended(1, true, 0), ended(2, false, 0)]);
        assert_eq!(now.last_round.as_deref(), Some("nightly-2"));
        // failedHistoryLimit: 0.
        let later = said(&now, &[ended(1, true, 0)]);
        assert_eq!(later.last_scheduled_at, now.last_scheduled_at, "the same round would be due for ever");
        assert_eq!(later.last_round.as_deref(), Some("nightly-2"));
        assert_eq!(is_due(&[ended(1, true, 0)], &later, "2026-01-02T04:30:00Z"), None);
    }

    #[test]
    fn condition_passed_is_of_the_last_round_that_ended_also_when_that_is_gone() {
        let now = said(&BenchmarkSuiteStatus::default(), &[ended(1, true, 0), ended(2, false, 0)]);
        assert_eq!(is_passed(&now), ("False", "LastRoundDidNotPass"));
        for left in [vec![ended(1, true, 0), under_way(3)], vec![]] {
            assert_eq!(is_passed(&said(&now, &left)), ("False", "LastRoundDidNotPass"), "{left:?}");
        }
        let mended = said(&now, &[ended(1, true, 0), ended(3, true, 0)]);
        assert_eq!(is_passed(&mended), ("True", "LastRoundPassed"));
    }

    #[test]
    fn a_schedule_that_was_corrected_is_not_said_to_be_invalid_any_more() {
        let invalid = Finding::no(PASSED, "Invalid", "spec.schedule: no");
        let old = BenchmarkSuiteStatus {
            conditions: conditions::upsert(&[], &[invalid], 1, at("2026-01-01T00:00:00Z")),
            ..BenchmarkSuiteStatus::default()
        };
        assert_eq!(is_passed(&said(&old, &[under_way(1)])), ("Unknown", "NoRoundYet"));
    }

    #[test]
    fn a_time_at_which_a_round_was_under_way_is_left_out_though_the_round_is_gone() {
        let before = BenchmarkSuiteStatus::default();
        assert_eq!(is_due(&[under_way(2)], &before, "2026-01-02T09:30:00Z"), None);
        let rounds = [ended(2, false, 0)];
        assert_eq!(is_due(&rounds, &before, "2026-01-02T04:30:00Z"), None, "4:00 was left out");
        let after = said(&before, &rounds);
        assert_eq!(
            is_due(&[], &after, "2026-01-02T04:30:00Z"),
            None,
            "it was removed, and 4:00 is due again"
        );
        assert_eq!(is_due(&[], &after, "2026-01-02T05:30:00Z"), Some(at("2026-01-02T05:00:00Z")));
    }

    #[test]
    fn a_round_that_cannot_be_decoded_is_reported_and_blocks_the_next() {
        let unreadable = round(
            1,
            json!({"conditions": [{
                "type": "Decodable", "status": "False", "reason": "Undecodable", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}),
        );
        let status = said(&BenchmarkSuiteStatus::default(), &[unreadable]);
        let message = status.message.unwrap_or_default();
        assert!(message.contains("cannot read round nightly-1"), "{message}");
    }
}

//! When rounds of a suite are made, and which are removed. Pure.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use dragstrip_crds::{
    BenchmarkSuite,
    conditions::{find, types::PASSED},
    suite::SuitePhase,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// Times in UTC, as cron writes them.
#[derive(Debug)]
pub struct Schedule(Crontab);

/// Windows before now in which the last due time is looked for, the nearest first: each has
/// few times where the one before had none.
const WINDOWS: [SignedDuration; 4] = [
    SignedDuration::from_mins(5),
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(24 * 366 * 4),
];

impl Schedule {
    /// What `text` says, which is five fields: minute, hour, day of month, month, day of week.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split_whitespace().count() != 5 {
            return Err(format!(
                "{text:?} does not have five fields: minute, hour, day of month, month and day of week, such as \"0 3 * * *\""
            ));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        parse_crontab_with(text, options).map(Self).map_err(|error| error.to_string())
    }

    /// The first time after `then`; none where there is none in the next years.
    pub fn next(&self, then: Timestamp) -> Option<Timestamp> {
        let then = MakeTimestamp::from_second(then.as_second()).ok()?;
        Some(self.0.find_next(then).ok()?.timestamp())
    }

    /// The last time after `then` that is not after `now`: however many were missed, one.
    pub fn due(&self, then: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let begins = WINDOWS.iter().map(|window| now.saturating_sub(*window).unwrap_or(then).max(then));
        let mut last = begins.filter_map(|begin| self.next(begin)).find(|time| *time <= now)?;
        while let Some(later) = self.next(last).filter(|time| *time <= now) {
            last = later;
        }
        Some(last)
    }
}

/// A round of a suite.
#[derive(Debug, Clone)]
pub struct Round {
    /// The round.
    pub suite: BenchmarkSuite,
    /// The time that it was made for, or when it was made.
    pub time: Timestamp,
}

impl Round {
    /// Of a suite that was made for another one.
    pub fn of(suite: BenchmarkSuite) -> Self {
        let written = suite.annotations().get(crate::labels::SCHEDULED_AT).and_then(|time| time.parse().ok());
        let made = suite.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self { time: written.or(made).unwrap_or(Timestamp::UNIX_EPOCH), suite }
    }

    /// When it ended.
    pub fn finished_at(&self) -> Option<Timestamp> {
        Some(self.suite.status.as_ref()?.finished_at.as_ref()?.0)
    }

    /// Whether a later round may be compared with it.
    pub fn is_complete(&self) -> bool {
        let status = self.suite.status.as_ref();
        status.is_some_and(|status| status.phase == SuitePhase::Succeeded && status.report.is_some())
    }

    /// What it says of having passed.
    pub fn passed(&self) -> Option<&Condition> {
        find(&self.suite.status.as_ref()?.conditions, PASSED)
    }
}

/// The name of the last round that a later one may be compared with.
pub fn previous(rounds: &[Round]) -> Option<String> {
    let complete = rounds.iter().filter(|round| round.is_complete());
    complete.max_by_key(|round| round.time).map(|round| round.suite.name_any())
}

/// Rounds that have ended and are more than are kept: `passed` and `failed` ones at most. What
/// the next round is compared with stays.
pub fn outdated(rounds: &[Round], passed: i32, failed: i32, compares: bool) -> Vec<&Round> {
    let kept = previous(rounds).filter(|_| compares);
    let mut ended: Vec<&Round> = rounds.iter().filter(|round| round.finished_at().is_some()).collect();
    ended.sort_by_key(|round| std::cmp::Reverse(round.time));
    let good = |round: &&Round| round.passed().is_some_and(|passed| passed.status == "True");
    let beyond = |good_ones: bool, most: i32| {
        let of_kind = ended.iter().copied().filter(move |round| good(round) == good_ones);
        of_kind.skip(usize::try_from(most).unwrap_or_default())
    };
    let all = beyond(true, passed).chain(beyond(false, failed));
    all.filter(|round| Some(round.suite.name_any()) != kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn round(day: u32, passed: bool, complete: bool) -> Round {
        let status = json!({
            "phase": if complete { "Succeeded" } else { "Failed" }, "finishedAt": format!("2026-01-{day:02}T04:00:00Z"),
            "report": complete.then(|| json!({"configMap": "r", "parts": 1})),
            "conditions": [{"type": "Passed", "status": if passed { "True" } else { "False" }, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        });
        let target = json!({"datastoreRef": {"name": "redis"}});
        Round::of(
            serde_json::from_value(json!({
                "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite",
                "metadata": {"name": format!("nightly-{day}"), "annotations": {"dragstrip.dev/scheduled-at": format!("2026-01-{day:02}T03:00:00Z")}},
                "spec": {"variants": [{"name": "v", "target": target}], "run": {}}, "status": status
            }))
            .unwrap(),
        )
    }

    #[test]
    fn times_are_those_of_cron_in_utc() {
        let nightly = Schedule::parse("0 3 * * *").unwrap();
        assert_eq!(nightly.next(at("2026-01-01T03:00:00Z")), Some(at("2026-01-02T03:00:00Z")));
        let hours = Schedule::parse("*/15 8-9 * * 1-5").unwrap();
        assert_eq!(
            hours.next(at("2026-01-02T09:45:00Z")),
            Some(at("2026-01-05T08:00:00Z")),
            "over the weekend"
        );
        for (bad, told) in [("0 3 * *", "five fields"), ("0 3 * * * *", "five fields"), ("61 3 * * *", "")] {
            let error = Schedule::parse(bad).unwrap_err();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }

    #[test]
    fn however_many_times_were_missed_the_last_one_is_due() {
        let often = Schedule::parse("* * * * *").unwrap();
        let due = |then: &str, now: &str| often.due(at(then), at(now));
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-06-01T00:00:30Z"), Some(at("2026-06-01T00:00:00Z")));
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z"), None);
        let yearly = Schedule::parse("0 0 1 1 *").unwrap();
        assert_eq!(
            yearly.due(at("2025-06-01T00:00:00Z"), at("2026-11-01T00:00:00Z")),
            Some(at("2026-01-01T00:00:00Z"))
        );
    }

    #[test]
    fn the_newest_rounds_are_kept_and_what_the_next_is_compared_with() {
        let rounds = [
            round(1, true, true),
            round(2, false, true),
            round(3, true, true),
            round(4, false, false),
            round(5, false, false),
        ];
        let names = |passed, failed, compares| -> Vec<String> {
            let mut names: Vec<_> = outdated(&rounds, passed, failed, compares)
                .iter()
                .map(|round| round.suite.name_any())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(1, 2, true), ["nightly-1", "nightly-2"]);
        assert_eq!(
            names(0, 0, true),
            ["nightly-1", "nightly-2", "nightly-4", "nightly-5"],
            "3 is the baseline"
        );
        assert_eq!(names(0, 3, false), ["nightly-1", "nightly-3"]);
        assert_eq!(previous(&rounds).as_deref(), Some("nightly-3"), "one that failed is no baseline");
    }
}

//! How long parts of a measurement may take. Pure.

use crate::run::validate::attempt::{Attempt, ValidatedRun};
use dragstrip_crds::units::Warmup;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Time a runner has after its watchdog to write its result before it counts as lost.
pub const RESULT_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// From the start command to the earliest start of a tool, so that it reaches every pod.
const START_LEAD: SignedDuration = SignedDuration::from_millis(500);
const LEAD_PER_POD: SignedDuration = SignedDuration::from_millis(10);
/// Seconds that observers sample beyond the longest load: to the start line, and to the collection.
const SPARE_SECONDS: f64 = 60.0;

/// Seconds after the start line at which the runner kills the tool.
pub fn watchdog_seconds(run: &ValidatedRun, attempt: &Attempt) -> f64 {
    attempt.tool.planned_seconds().map_or_else(
        || run.spec.timeout.seconds(),
        |planned| {
            let warmup = attempt.declared.warmup.as_ref().and_then(Warmup::seconds).unwrap_or(0.0)
                * f64::from(attempt.tool.stages());
            warmup + planned + attempt.tool.wind_down_seconds()
        },
    )
}

/// Time from the start command to the start line for so many pods with tools that start `head_start` early.
pub fn lead(pods: u32, head_start: Duration) -> SignedDuration {
    let head_start = SignedDuration::try_from(head_start).unwrap_or(SignedDuration::MAX);
    START_LEAD + head_start + LEAD_PER_POD * i32::try_from(pods.saturating_sub(1)).unwrap_or(i32::MAX)
}

/// When the watchdogs of `attempt` have ended its load that begins at `start`.
pub fn ends_at(run: &ValidatedRun, attempt: &Attempt, start: Timestamp) -> Timestamp {
    let watchdog = SignedDuration::try_from_secs_f64(watchdog_seconds(run, attempt));
    after(start, watchdog.unwrap_or(SignedDuration::MAX))
}

/// The instant `wait` after `at`, or the last one there is.
pub(crate) fn after(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// For how long observers are to sample at most, in seconds.
pub fn sampled_seconds(run: &ValidatedRun, attempt: &Attempt) -> u64 {
    let head_start = attempt.tool.head_start().as_secs_f64();
    let seconds = watchdog_seconds(run, attempt) + head_start + SPARE_SECONDS;
    Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures, run::validate::validate};

    #[test]
    fn more_pods_get_more_time_for_the_start_command() {
        assert_eq!(lead(1, Duration::from_secs(1)), SignedDuration::from_millis(1500));
        assert_eq!(lead(101, Duration::from_secs(4)), SignedDuration::from_millis(5500));
    }

    #[test]
    fn observers_sample_until_the_last_result_may_have_come() {
        let run = validate(&fixtures::run(&["read"], 1)).unwrap();
        // 1 s of warm-up, 4 s of load, 15 s to end, a head start of 0.5 s and the spare minute.
        assert_eq!(sampled_seconds(&run, &run.attempts[0]), 81);
    }
}

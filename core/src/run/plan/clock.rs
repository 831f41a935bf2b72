//! The clock of `spec.timeout`: it stops while the run waits for other runs. Pure.

use dragstrip_crds::run::ClockStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// When `timeout` ends if the clock keeps running; a stopped clock has its rest from `now` on.
/// Without a clock it has been running since the run was `created`.
pub fn deadline(
    clock: Option<&ClockStatus>,
    created: Timestamp,
    timeout: SignedDuration,
    now: Timestamp,
) -> Timestamp {
    let (used, since) = match clock {
        None => (0, created),
        Some(clock) => (clock.used_seconds, clock.running_since.as_ref().map_or(now, |since| since.0)),
    };
    let left = timeout.saturating_sub(SignedDuration::from_secs(used));
    since.saturating_add(left).unwrap_or(Timestamp::MAX)
}

/// The clock at `now`, when the run is `queued` or is not.
pub fn advance(clock: Option<&ClockStatus>, created: Timestamp, queued: bool, now: Timestamp) -> ClockStatus {
    let running = ClockStatus { used_seconds: 0, running_since: Some(Time(created)) };
    let clock = clock.unwrap_or(&running);
    match (&clock.running_since, queued) {
        (Some(since), true) => {
            let run = now.duration_since(since.0).as_secs().max(0);
            ClockStatus { used_seconds: clock.used_seconds.saturating_add(run), running_since: None }
        }
        (None, false) => ClockStatus { running_since: Some(Time(now)), ..clock.clone() },
        _ => clock.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    const TIMEOUT: SignedDuration = SignedDuration::from_secs(100);

    #[test]
    fn time_in_the_queue_does_not_count_wherever_it_lies() {
        // 30 s of waiting for the target, an hour in the queue, 20 s for the target again, another hour.
        let queued = advance(None, at(0), true, at(30));
        assert_eq!(deadline(Some(&queued), at(0), TIMEOUT, at(3600)), at(3670), "the rest counts from now");
        let waiting = advance(Some(&queued), at(0), false, at(3630));
        assert_eq!(deadline(Some(&waiting), at(0), TIMEOUT, at(9999)), at(3700));
        let again = advance(Some(&waiting), at(0), true, at(3650));
        assert_eq!((again.used_seconds, &again.running_since), (50, &None));
    }

    #[test]
    fn a_clock_that_goes_on_as_it_did_is_not_written_anew() {
        let running = advance(None, at(0), false, at(5));
        assert_eq!(advance(Some(&running), at(0), false, at(50)), running);
        let standing = advance(Some(&running), at(0), true, at(60));
        assert_eq!(advance(Some(&standing), at(0), true, at(90)), standing);
        assert_eq!(deadline(None, at(0), TIMEOUT, at(50)), deadline(Some(&running), at(0), TIMEOUT, at(50)));
    }
}

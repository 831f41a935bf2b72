//! Backoff of failures: when to retry, for how long, and whether to log the cause. Pure except for the
//! clock of [`Retries::again`]. In memory alone: patience starts anew with the process.

use jiff::{SignedDuration, Timestamp};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The first wait; each later one is twice as long.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST_WITH_PATIENCE: Duration = Duration::from_secs(30);
/// How late a retry may come. After a longer pause this process was away, and earlier failures are void.
const AWAY: SignedDuration = SignedDuration::from_secs(15);
/// Every retry comes earlier: a failure without a retry for so long is about an object that is gone.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug)]
struct Failure {
    cause: String,
    count: u32,
    since: Timestamp,
    /// When the next retry comes.
    until: Timestamp,
}

#[derive(Debug, Default)]
pub struct Retries(Mutex<HashMap<String, Failure>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub after: Duration,
    /// Whether the cause differs from the last one: log it.
    pub news: bool,
}

/// Why there is no result yet, and when the next attempt comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotYet {
    pub until: Timestamp,
    pub why: String,
}

impl Retries {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, uid: &str, cause: &str, longest: Duration, now: Timestamp) -> Retry {
        let mut failures = self.lock();
        failures.retain(|_, failure| now.duration_since(failure.until) < LIFETIME);
        let first = || Failure { cause: String::new(), count: 0, since: now, until: now };
        let failure = failures.entry(uid.to_owned()).or_insert_with(first);
        let news = failure.cause != cause;
        cause.clone_into(&mut failure.cause);
        let after = FIRST.saturating_mul(2_u32.saturating_pow(failure.count)).min(longest);
        failure.count = failure.count.saturating_add(1);
        failure.until = now.saturating_add(after).unwrap_or(Timestamp::MAX);
        Retry { after, news }
    }

    /// Records that the object with this `uid` failed because of `cause`. The wait is at most `longest`.
    pub fn again(&self, uid: &str, cause: &str, longest: Duration) -> Retry {
        self.record(uid, cause, longest, Timestamp::now())
    }

    /// Records that an attempt for `uid` failed at `now` because of `cause`. Returns when to retry, or
    /// `None` if all attempts have failed for as long as `patience`.
    pub fn with_patience(
        &self,
        uid: &str,
        cause: &str,
        patience: SignedDuration,
        now: Timestamp,
    ) -> Option<NotYet> {
        let since = self.lock().get(uid).map_or(now, |failure| failure.since);
        let left = Duration::try_from(patience - now.duration_since(since)).ok();
        let left = left.filter(|left| !left.is_zero())?;
        let after = self.record(uid, cause, left.min(LONGEST_WITH_PATIENCE), now).after;
        let until = now.saturating_add(after).unwrap_or(Timestamp::MAX);
        Some(NotYet { until, why: cause.to_owned() })
    }

    /// Returns an error if the next attempt for `uid` is later than `now`.
    pub fn due(&self, uid: &str, now: Timestamp) -> Result<(), NotYet> {
        match self.lock().get(uid) {
            Some(failure) if now < failure.until => {
                Err(NotYet { until: failure.until, why: failure.cause.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Since when all attempts for `uid` have failed; `None` if none has, or if this process was away
    /// after the last one: then that is forgotten.
    pub fn failing_since(&self, uid: &str, now: Timestamp) -> Option<Timestamp> {
        let mut failures = self.lock();
        let since = failures.get(uid).filter(|last| now.duration_since(last.until) < AWAY).map(|it| it.since);
        if since.is_none() {
            failures.remove(uid);
        }
        since
    }

    /// Forgets the object: it succeeded, or its patience is over.
    pub fn settled(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(300);

    #[test]
    fn each_wait_is_twice_as_long_as_the_last_up_to_the_longest() {
        let retries = Retries::default();
        let waits: Vec<u128> = (0..4).map(|_| retries.again("u", "x", LONGEST).after.as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000]);
        for _ in 0..100 {
            retries.again("u", "another cause", LONGEST);
        }
        assert_eq!(
            retries.again("u", "x", LONGEST).after,
            LONGEST,
            "alternating causes must not cause a hot loop"
        );
        retries.settled("u");
        assert_eq!(retries.again("u", "x", LONGEST).after, FIRST);
    }

    #[test]
    fn a_cause_is_news_once() {
        let retries = Retries::default();
        let news: Vec<bool> =
            ["a", "a", "b", "b"].iter().map(|cause| retries.again("u", cause, LONGEST).news).collect();
        assert_eq!(news, [true, false, true, false]);
        assert!(retries.again("another", "b", LONGEST).news, "each object has its own");
    }

    const PATIENCE: SignedDuration = SignedDuration::from_secs(100);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn retries_become_rarer_until_patience_ends() {
        let retries = Retries::default();
        let (mut now, mut tries) = (at(0), Vec::new());
        while let Some(reported) = retries.with_patience("pod", "refused", PATIENCE, now) {
            assert_eq!(retries.due("pod", now).unwrap_err(), reported, "retried before its time");
            now = reported.until;
            assert_eq!(retries.due("pod", now), Ok(()));
            tries.push(now.duration_since(at(0)).as_secs());
        }
        assert_eq!(tries, [0, 0, 1, 3, 7, 15, 31, 61, 91, 100]);
    }

    #[test]
    fn failures_before_this_process_was_away_do_not_count() {
        let retries = Retries::default();
        assert_eq!(retries.failing_since("job", at(0)), None, "nothing has failed");
        for second in [0, 5, 12] {
            retries.record("job", "refused", Duration::from_secs(5), at(second));
            assert_eq!(retries.failing_since("job", at(second + 5)), Some(at(0)));
        }
        assert_eq!(retries.failing_since("job", at(84)), None, "it was stopped for 72 s");
        retries.record("job", "refused", Duration::from_secs(5), at(84));
        assert_eq!(retries.failing_since("job", at(85)), Some(at(84)), "patience starts anew");
    }

    #[test]
    fn each_object_has_its_own_patience_and_none_stays_forever() {
        let retries = Retries::default();
        retries.with_patience("a", "refused", PATIENCE, at(0)).unwrap();
        assert_eq!(retries.due("b", at(0)), Ok(()));
        assert!(retries.with_patience("a", "refused", PATIENCE, at(200)).is_none());
        retries.settled("a");
        assert!(retries.with_patience("a", "refused", PATIENCE, at(200)).is_some(), "patience starts anew");
        retries.with_patience("b", "refused", PATIENCE, at(10_000)).unwrap();
        assert_eq!(retries.lock().len(), 1, "an old entry stayed");
    }
}

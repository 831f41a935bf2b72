//! Backoff of failing objects: how long to wait before a retry, and whether to log the failure. Pure
//! except for the clock that drops old entries.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The first wait; each later one is twice as long.
const FIRST: Duration = Duration::from_millis(250);

/// Every retry comes earlier: an object without a retry for so long is gone.
const LIFETIME: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Failure {
    cause: String,
    count: u32,
    last: Instant,
}

/// Failing objects, by uid.
#[derive(Debug, Default)]
pub struct Retries(Mutex<HashMap<String, Failure>>);

/// How to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait.
    pub after: Duration,
    /// Whether the cause differs from the last one: log it.
    pub news: bool,
}

impl Retries {
    /// Records that the object with this `uid` failed because of `cause`. The wait is at most `longest`.
    pub fn again(&self, uid: &str, cause: &str, longest: Duration) -> Retry {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        failures.retain(|_, failure| now.duration_since(failure.last) < LIFETIME);
        let first = || Failure { cause: String::new(), count: 0, last: now };
        let failure = failures.entry(uid.to_owned()).or_insert_with(first);
        let news = failure.cause != cause;
        cause.clone_into(&mut failure.cause);
        let after = FIRST.saturating_mul(2_u32.saturating_pow(failure.count)).min(longest);
        (failure.count, failure.last) = (failure.count.saturating_add(1), now);
        Retry { after, news }
    }

    /// Forgets the object: it succeeded.
    pub fn settled(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
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
}

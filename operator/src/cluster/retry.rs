//! How long to wait before trying again, and whether that is worth a line in the log. Pure but
//! for the clock that drops old notes.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);

/// Whoever tries again does so earlier: what was not tried for so long is gone.
const KEPT: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Tried {
    cause: String,
    times: u32,
    last: Instant,
}

/// Objects that something is wrong with, by uid.
#[derive(Debug, Default)]
pub struct Retries(Mutex<HashMap<String, Tried>>);

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Wait so long.
    pub after: Duration,
    /// The cause is another one than the last time.
    pub news: bool,
}

impl Retries {
    /// Takes note that the object with this `uid` failed because of `cause`; it is
    /// tried again after `longest` at the latest.
    pub fn again(&self, uid: &str, cause: &str, longest: Duration) -> Retry {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        known.retain(|_, tried| now.duration_since(tried.last) < KEPT);
        let never = || Tried { cause: String::new(), times: 0, last: now };
        let tried = known.entry(uid.to_owned()).or_insert_with(never);
        let news = tried.cause != cause;
        cause.clone_into(&mut tried.cause);
        let after = FIRST.saturating_mul(2_u32.saturating_pow(tried.times)).min(longest);
        (tried.times, tried.last) = (tried.times.saturating_add(1), now);
        Retry { after, news }
    }

    /// Nothing is wrong with the object any more.
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
        assert_eq!(retries.again("u", "x", LONGEST).after, LONGEST, "causes that take turns are no hot loop");
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

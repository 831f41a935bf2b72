//! How long to wait before a failed pass is tried again, and whether its cause was
//! told before. In memory: after a restart everything is tried at once. Pure but for its lock.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Before the first try again; doubled each time.
const FIRST: Duration = Duration::from_millis(500);
/// At most so long.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct Failing {
    times: u32,
    cause: String,
}

/// What is failing just now, by a name that the caller chooses.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, Failing>>);

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// When to try again.
    pub wait: Duration,
    /// Whether this cause is another than last time, and so worth telling.
    pub news: bool,
}

impl Backoff {
    /// Takes note that `key` failed because of `cause`.
    pub fn failed(&self, key: &str, cause: &str) -> Advice {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(key);
        let news = before.is_none_or(|failing| failing.cause != cause);
        let times = before.map_or(0, |failing| failing.times);
        all.insert(key.to_owned(), Failing { times: times.saturating_add(1), cause: cause.to_owned() });
        Advice { wait: FIRST.saturating_mul(2_u32.saturating_pow(times.min(16))).min(LONGEST), news }
    }

    /// Takes note that `key` does not fail any more.
    pub fn succeeded(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_and_each_cause_is_told_once() {
        let backoff = Backoff::default();
        let first = backoff.failed("run", "refused");
        assert_eq!(first, Advice { wait: Duration::from_millis(500), news: true });
        assert_eq!(backoff.failed("run", "refused"), Advice { wait: Duration::from_secs(1), news: false });
        assert!(backoff.failed("run", "not found").news, "another cause is news");
        for _ in 0..20 {
            backoff.failed("run", "not found");
        }
        assert_eq!(backoff.failed("run", "not found").wait, LONGEST);
        backoff.succeeded("run");
        assert_eq!(backoff.failed("run", "refused"), first, "it begins anew");
    }
}

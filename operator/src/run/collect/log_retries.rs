//! Logs that could not be read: when to ask for each again, and for how long.
//! Keeps what it knows in this process alone: one that was restarted has patience anew.

use jiff::{SignedDuration, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Bounds of the pause before a log is asked for again; in between it doubles the time waited.
const PAUSES: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_secs(30));
/// What nobody asked for again in that time belongs to a run that is gone.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// A result that cannot be had yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotYet {
    pub until: Timestamp,
    /// What stands in the way, for people.
    pub why: String,
}

struct Log {
    since: Timestamp,
    reported: NotYet,
}

/// The logs that could not be read, by their pod's uid.
#[derive(Default)]
pub struct LogRetries(Mutex<BTreeMap<String, Log>>);

impl LogRetries {
    fn logs(&self) -> MutexGuard<'_, BTreeMap<String, Log>> {
        // Each change is one assignment: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error tells that the log of `pod` is not to be asked for before a later time than `now`.
    pub fn due(&self, pod: &str, now: Timestamp) -> Result<(), NotYet> {
        match self.logs().get(pod) {
            Some(log) if now < log.reported.until => Err(log.reported.clone()),
            _ => Ok(()),
        }
    }

    /// Notes that the log of `pod` could not be read at `now`: when to ask again, or
    /// nothing when that has been so for as long as `patience`.
    pub fn failed(&self, pod: &str, patience: SignedDuration, why: &str, now: Timestamp) -> Option<NotYet> {
        let mut logs = self.logs();
        logs.retain(|_, log| now.duration_since(log.reported.until) < FORGOTTEN_AFTER);
        let since = logs.get(pod).map_or(now, |log| log.since);
        let waited = now.duration_since(since);
        if waited >= patience {
            return None;
        }
        let pause = waited.clamp(PAUSES.0, PAUSES.1).min(patience - waited);
        let reported =
            NotYet { until: now.saturating_add(pause).unwrap_or(Timestamp::MAX), why: why.to_owned() };
        logs.insert(pod.to_owned(), Log { since, reported: reported.clone() });
        Some(reported)
    }

    /// The log of `pod` was read, or is given up.
    pub fn settle(&self, pod: &str) {
        self.logs().remove(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: SignedDuration = SignedDuration::from_secs(100);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_log_is_asked_for_ever_less_often_until_patience_ends() {
        let log_retries = LogRetries::default();
        let (mut now, mut tries) = (at(0), Vec::new());
        while let Some(reported) = log_retries.failed("pod", PATIENCE, "refused", now) {
            assert_eq!(log_retries.due("pod", now).unwrap_err(), reported, "asked again before its time");
            now = reported.until;
            assert_eq!(log_retries.due("pod", now), Ok(()));
            tries.push(now.duration_since(at(0)).as_secs());
        }
        assert_eq!(tries, [1, 2, 4, 8, 16, 32, 62, 92, 100]);
    }

    #[test]
    fn each_pod_has_its_own_patience_and_none_is_kept_for_ever() {
        let log_retries = LogRetries::default();
        log_retries.failed("a", PATIENCE, "refused", at(0)).unwrap();
        assert_eq!(log_retries.due("b", at(0)), Ok(()));
        assert!(log_retries.failed("a", PATIENCE, "refused", at(200)).is_none());
        log_retries.settle("a");
        assert!(log_retries.failed("a", PATIENCE, "refused", at(200)).is_some(), "a settled log starts anew");
        log_retries.failed("b", PATIENCE, "refused", at(10_000)).unwrap();
        assert_eq!(log_retries.logs().len(), 1, "what nobody asks for any more was kept");
    }
}

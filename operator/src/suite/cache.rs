//! What this process knows of suites under way, so that a pass over one costs no calls. All of
//! it but what is to be told can be found again from what exists. Pure but for the clock that
//! notes carry.

use super::ended::Ended;
use dragstrip_core::suite::{decide::Child, expand::Plan, round::Round};
use dragstrip_crds::run::RunPhase;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// What is known of one suite.
#[derive(Debug, Default)]
pub struct SuiteCache {
    /// Its plan, of this generation of its spec. All else is of runs of this plan.
    pub plan: Option<(i64, Arc<Plan>)>,
    /// Its runs that have ended, by name.
    pub ended: BTreeMap<String, Ended>,
    /// Its runs that have not, by name: when one was made, until the watch has told of it.
    pub made: HashMap<String, Option<Instant>>,
    /// Its runs that this version cannot read, by name, with the reason.
    pub unreadable: BTreeMap<String, String>,
    /// Runs that failed and were not told of, with what they say.
    pub unannounced: Vec<(String, String)>,
    /// Whether its runs were listed since the start of the process.
    pub listed: bool,
    /// When its status was written last.
    pub written: Option<Instant>,
    /// With schedule: the rounds that were under way, and all rounds, when they were listed.
    pub rounds: Option<(BTreeSet<String>, Vec<Round>)>,
}

impl SuiteCache {
    /// Takes note of the plan of this generation. What is known of runs of another plan is
    /// forgotten: their numbers are not this one's.
    pub fn follow(&mut self, generation: i64, plan: Arc<Plan>) {
        if self.plan.as_ref().is_some_and(|(_, before)| *before != plan) {
            *self = Self::default();
        }
        self.plan = Some((generation, plan));
    }

    /// How the run called `name` stands, in a suite that is `cancelled` or not; `seen` is
    /// whether it was told to stop, where the watch has it.
    pub fn child(&self, name: &str, seen: Option<bool>, cancelled: bool) -> Child {
        match (self.ended.get(name), seen, self.made.contains_key(name)) {
            (Some(run), ..) if cancelled && run.phase == RunPhase::Cancelled => Child::Cancelled,
            (Some(run), ..) => Child::Ended { failed: run.failed },
            (None, Some(cancelled), _) => Child::UnderWay { cancelled },
            (None, None, true) => Child::UnderWay { cancelled: false },
            (None, None, false) => Child::Missing,
        }
    }

    /// Whether a run was made that the watch has not told of: it may have ended before, and
    /// then no event brings the next pass.
    pub fn awaits(&self) -> bool {
        self.made.values().any(Option::is_some)
    }
}

/// By the uid of the suite.
#[derive(Debug, Default)]
pub struct SuiteCaches {
    cache: Mutex<HashMap<String, SuiteCache>>,
    /// Held by who makes a report: one at a time fits in memory.
    pub report: tokio::sync::Mutex<()>,
}

impl SuiteCaches {
    /// What is known of the suite with this `uid`, to be put back.
    pub fn take(&self, uid: &str) -> SuiteCache {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).remove(uid).unwrap_or_default()
    }

    /// Takes note of what is known of a suite, and drops what is of none that is `under_way`.
    pub fn put(&self, uid: &str, cache: SuiteCache, under_way: &HashSet<String>) {
        let mut all = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid.to_owned(), cache);
        all.retain(|uid, _| under_way.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{spec, suite_of};
    use crate::suite::ended::tests::ended;
    use dragstrip_core::suite::expand::plan;
    use serde_json::json;

    #[test]
    fn what_is_known_of_runs_is_forgotten_with_the_plan_that_they_were_made_of() {
        let of = |pipeline: u32| {
            let mut spec = spec();
            spec["axes"][1]["values"][1]["value"] = json!(pipeline);
            Arc::new(plan(&suite_of(spec), &|_| Ok(())).unwrap())
        };
        let mut cache = SuiteCache::default();
        cache.follow(1, of(10));
        cache.ended.insert("s-1".into(), ended("Succeeded"));
        cache.follow(2, of(10));
        assert_eq!(cache.ended.len(), 1, "suspend changes no run");
        cache.follow(3, of(20));
        assert!(cache.ended.is_empty() && !cache.listed, "numbers of two specs would be mixed");
    }

    #[test]
    fn a_run_that_was_stopped_with_its_suite_did_not_fail() {
        let mut cache = SuiteCache::default();
        cache.ended.insert("stopped".into(), ended("Cancelled"));
        cache.ended.insert("broken".into(), ended("Failed"));
        assert_eq!(cache.child("stopped", None, true), Child::Cancelled);
        assert_eq!(cache.child("stopped", None, false), Child::Ended { failed: true }, "somebody else did");
        assert_eq!(cache.child("broken", None, true), Child::Ended { failed: true });
    }

    #[test]
    fn a_run_that_the_watch_never_told_of_is_asked_for() {
        let mut cache = SuiteCache::default();
        cache.made.insert("seen".into(), None);
        assert!(!cache.awaits(), "events tell of it");
        cache.made.insert("quick".into(), Some(Instant::now()));
        assert!(cache.awaits(), "it may have ended between two passes");
        assert_eq!(cache.child("quick", None, false), Child::UnderWay { cancelled: false });
    }
}

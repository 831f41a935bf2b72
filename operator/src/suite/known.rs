//! What this process knows of suites under way, so that a pass over one costs no calls. All
//! of it can be found again from what exists. Pure but for the clock that notes carry.

use super::{ended::Ended, expand::Plan, schedule::Round};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// What is known of one suite.
#[derive(Debug, Default)]
pub struct Known {
    /// Its plan, of this generation of its spec.
    pub plan: Option<(i64, Arc<Plan>)>,
    /// Its runs that have ended, by name.
    pub ended: BTreeMap<String, Ended>,
    /// Runs that are there or were: when one was made, until the watch has told of it.
    pub made: HashMap<String, Option<Instant>>,
    /// Whether its runs were listed since the start of the process.
    pub listed: bool,
    /// Whether the apiserver was asked about a run of each combination.
    pub judged: bool,
    /// When its status was written last.
    pub written: Option<Instant>,
    /// With schedule: the rounds, and those of them that were under way when they were listed.
    pub rounds: Option<(BTreeSet<String>, Vec<Round>)>,
}

/// By the uid of the suite.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<HashMap<String, Known>>);

impl Remembered {
    /// What is known of the suite with this `uid`, to be put back.
    pub fn take(&self, uid: &str) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid).unwrap_or_default()
    }

    /// Takes note of what is known of a suite, and drops what is of none that is `under_way`.
    pub fn put(&self, uid: &str, known: Known, under_way: &HashSet<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid.to_owned(), known);
        all.retain(|uid, _| under_way.contains(uid));
    }
}

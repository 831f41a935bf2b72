//! Outcomes of the stored results of runs under way, so that a pass need not list what has not
//! changed. Another operator may store one meanwhile: a pass checks its name before load is sent,
//! before a turn is released and before a result is stored, and drops the cached outcomes if the name exists. Pure.

use dragstrip_core::run::stored_result::StoredResult;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Outcomes of one run's stored results, by name.
pub type Results = BTreeMap<String, StoredResult>;

/// Outcomes of all runs, by the uid of the run.
#[derive(Debug, Default)]
pub struct ResultCache(Mutex<HashMap<String, Results>>);

impl ResultCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Results>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcomes of the run with this `uid`, if they are cached.
    pub fn get(&self, uid: &str) -> Option<Results> {
        self.lock().get(uid).cloned()
    }

    /// Caches all outcomes of the run with this `uid`, and drops those of runs that are not
    /// `under_way`.
    pub fn insert(&self, uid: &str, results: Results, under_way: &HashSet<String>) {
        let mut cache = self.lock();
        cache.retain(|uid, _| under_way.contains(uid));
        cache.insert(uid.to_owned(), results);
    }

    /// Drops the outcomes of the run with this `uid`: something was stored, and the next pass lists.
    pub fn remove(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

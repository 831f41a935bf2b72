//! What is known of the stored results of runs under way, so that a pass need not
//! list what has not changed. Another operator may store one meanwhile: its name is looked at
//! before load is sent and before a result is stored, and what is known is forgotten then. Pure.

use dragstrip_core::run::stored_result::StoredResult;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

/// What is known of one run's stored results, by name.
pub type Results = BTreeMap<String, StoredResult>;

/// By the uid of the run.
#[derive(Debug, Default)]
pub struct ResultCache(Mutex<HashMap<String, Results>>);

impl ResultCache {
    /// What is known, if it is.
    pub fn of(&self, uid: &str) -> Option<Results> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// Takes note of all that is stored of the run with this `uid`, and drops what is
    /// known of runs that are not `under_way` any more.
    pub fn note(&self, uid: &str, results: Results, under_way: &HashSet<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|uid, _| under_way.contains(uid));
        known.insert(uid.to_owned(), results);
    }

    /// Something was stored: it is to be read back.
    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

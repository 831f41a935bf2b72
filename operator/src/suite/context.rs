//! What the controller of suites works with.

use super::cache::SuiteCache;
use crate::cluster::context::Context;
use std::{
    collections::{HashMap, HashSet},
    ops::Deref,
    sync::{Mutex, PoisonError},
};

/// Shared by all passes over suites.
pub struct SuiteContext {
    shared: Context,
    /// By the uid of the suite.
    caches: Mutex<HashMap<String, SuiteCache>>,
    /// Locked while a report is built: memory suffices for one at a time.
    pub report: tokio::sync::Mutex<()>,
}

impl SuiteContext {
    /// With empty caches.
    pub fn new(shared: Context) -> Self {
        Self { shared, caches: Mutex::default(), report: tokio::sync::Mutex::default() }
    }

    /// Takes the cache of the suite with this `uid` out, for one pass.
    pub fn take(&self, uid: &str) -> SuiteCache {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner).remove(uid).unwrap_or_default()
    }

    /// Puts the cache of a suite back, and drops those of suites that are not `under_way`.
    pub fn put(&self, uid: &str, cache: SuiteCache, under_way: &HashSet<String>) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.insert(uid.to_owned(), cache);
        caches.retain(|uid, _| under_way.contains(uid));
    }
}

impl Deref for SuiteContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.shared
    }
}

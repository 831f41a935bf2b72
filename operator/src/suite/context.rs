//! What the controller of suites works with.

use super::cache::SuiteCache;
use crate::cluster::{apply::Namespaced, context::Context};
use derive_more::Deref;
use dragstrip_core::suite::expand::Plan;
use dragstrip_crds::{BenchmarkSuite, BenchmarkSuiteStatus};
use kube::{Api, ResourceExt};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

#[derive(Deref)]
pub struct SuiteContext {
    #[deref]
    shared: Context,
    /// By the uid of the suite.
    caches: Mutex<HashMap<String, SuiteCache>>,
    /// Locked while a report is built: memory suffices for one at a time.
    pub report: tokio::sync::Mutex<()>,
}

impl SuiteContext {
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

#[derive(Clone, Copy, Deref)]
pub struct Pass<'a> {
    #[deref(forward)]
    pub ctx: &'a SuiteContext,
    pub suite: &'a BenchmarkSuite,
    pub old: &'a BenchmarkSuiteStatus,
}

impl Pass<'_> {
    /// The API for objects beside the suite.
    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.suite.namespace().unwrap_or_default())
    }

    pub fn uid(&self) -> String {
        self.suite.uid().unwrap_or_default()
    }
}

/// A pass over a suite whose runs are planned.
#[derive(Clone, Copy, Deref)]
pub struct PlannedPass<'a> {
    #[deref]
    pub pass: Pass<'a>,
    pub plan: &'a Plan,
}

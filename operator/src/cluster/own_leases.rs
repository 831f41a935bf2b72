//! What this process wrote last of each Lease, found in its way, or is about to write: a watch
//! that does not tell it yet would have a run load under a turn that it has let go, or take
//! another node beside the one that it has just taken, for which then others wait as long as
//! it lasts. Pure but for the clock that drops old notes.

use dragstrip_core::lease::{Holder, LeaseKey, holder_of};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{ResourceExt, api::ObjectMeta};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long what was written is believed against the watch: one that has stalled is begun anew
/// after 295 s.
const KEPT: Duration = Duration::from_secs(300);
/// How long a Lease is believed to be in the way that no watch may ever tell, nor its end.
const FOUND_KEPT: Duration = Duration::from_secs(60);
/// What was removed never comes back: longer than any watch is behind, and than the keeper of
/// turns waits between two looks.
const REMOVED_KEPT: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
struct Notes {
    /// Until when each is believed.
    written: HashMap<LeaseKey, (Arc<Lease>, Instant)>,
    /// By uid, which no later Lease has.
    removed: HashMap<String, Instant>,
    /// Those that a pass is taking just now, and for whom.
    reserved: HashMap<LeaseKey, Holder>,
}

impl Notes {
    fn forget_old(&mut self) {
        self.written.retain(|_, (_, until)| Instant::now() < *until);
        self.removed.retain(|_, at| at.elapsed() < REMOVED_KEPT);
    }

    fn is_removed(&self, lease: &Lease) -> bool {
        lease.metadata.uid.as_ref().is_some_and(|uid| self.removed.contains_key(uid))
    }

    fn is_anothers(&self, key: &LeaseKey, holder: &Holder) -> bool {
        let written = self.written.get(key).filter(|(lease, _)| !self.is_removed(lease));
        self.reserved.contains_key(key)
            || written.is_some_and(|(lease, _)| holder_of(lease).as_ref() != Some(holder))
    }
}

/// Leases that were made, changed or removed a moment ago.
#[derive(Debug, Default)]
pub struct OwnLeases(Mutex<Notes>);

/// Leases that one pass is taking; nobody else's until this is dropped.
#[derive(Debug)]
pub struct Reserved<'a> {
    own: &'a OwnLeases,
    keys: &'a [LeaseKey],
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut notes = self.own.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.reserved.retain(|key, _| !self.keys.contains(key));
    }
}

/// The Lease as `holder` is about to take it.
fn as_taken(key: &LeaseKey, holder: &Holder) -> Arc<Lease> {
    let (namespace, name) = (Some(key.namespace.clone()), Some(key.name.clone()));
    let spec = LeaseSpec { holder_identity: Some(holder.to_string()), ..LeaseSpec::default() };
    Arc::new(Lease { metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() }, spec: Some(spec) })
}

/// Resource versions of one kind grow as integers do: Kubernetes' KEP-5504.
fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

impl OwnLeases {
    /// All `keys` for `holder` to take, or `None` where another has just taken one of them or
    /// is about to: many runs that begin at once would each take a part and let it go again.
    pub fn reserve<'a>(&'a self, keys: &'a [LeaseKey], holder: &Holder) -> Option<Reserved<'a>> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.iter().any(|key| notes.is_anothers(key, holder)) {
            return None;
        }
        notes.reserved.extend(keys.iter().map(|key| (key.clone(), holder.clone())));
        Some(Reserved { own: self, keys })
    }

    fn note(&self, lease: Lease, kept: Duration) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.forget_old();
        notes.written.insert(LeaseKey::of(&lease), (Arc::new(lease), Instant::now() + kept));
    }

    /// Takes note of `lease` as the apiserver stored it.
    pub fn wrote(&self, lease: Lease) {
        self.note(lease, KEPT);
    }

    /// Takes note of a `lease` that was in the way: it may be a stranger's, without our labels.
    pub fn found(&self, lease: Lease) {
        self.note(lease, FOUND_KEPT);
    }

    /// Takes note that this very `lease` is no more.
    pub fn removed(&self, lease: &Lease) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.forget_old();
        notes.removed.extend(lease.uid().map(|uid| (uid, Instant::now())));
    }

    /// All Leases: those that the watch has `told`, but for what was written since.
    pub fn after(&self, mut told: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.forget_old();
        if !notes.written.is_empty() {
            for lease in &told {
                let key = LeaseKey::of(lease);
                // From now on the watch knows better, also of its end.
                if notes.written.get(&key).is_some_and(|(own, _)| version(own) <= version(lease)) {
                    notes.written.remove(&key);
                }
            }
            told.retain(|lease| !notes.written.contains_key(&LeaseKey::of(lease)));
            told.extend(notes.written.values().map(|(lease, _)| Arc::clone(lease)));
        }
        told.retain(|lease| !notes.is_removed(lease));
        if !notes.reserved.is_empty() {
            let known: HashSet<LeaseKey> = told.iter().map(|lease| LeaseKey::of(lease)).collect();
            let reserved = notes.reserved.iter().filter(|(key, _)| !known.contains(key));
            told.extend(reserved.map(|(key, holder)| as_taken(key, holder)));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(name: &str, uid: &str, version: &str) -> Arc<Lease> {
        let metadata = json!({"namespace": "pits", "name": name, "uid": uid, "resourceVersion": version});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    }

    fn uids(leases: &[Arc<Lease>]) -> Vec<String> {
        let mut uids: Vec<_> = leases.iter().filter_map(|lease| lease.uid()).collect();
        uids.sort();
        uids
    }

    #[test]
    fn a_lease_that_was_let_go_is_held_no_more_though_the_watch_still_tells_it() {
        let own = OwnLeases::default();
        own.wrote((*lease("node", "a", "5")).clone());
        own.removed(&lease("node", "a", "5"));
        assert_eq!(
            uids(&own.after(vec![])),
            [""; 0],
            "it was removed before the watch told that it was made"
        );
        assert_eq!(uids(&own.after(vec![lease("node", "a", "5")])), [""; 0]);
        assert_eq!(uids(&own.after(vec![lease("node", "b", "7")])), ["b"], "the next holder's is another");
    }

    #[test]
    fn a_lease_that_was_taken_is_held_before_the_watch_tells_it() {
        let own = OwnLeases::default();
        own.wrote((*lease("node", "b", "7")).clone());
        assert_eq!(uids(&own.after(vec![])), ["b"]);
        let before = vec![lease("node", "a", "5"), lease("other", "c", "6")];
        assert_eq!(uids(&own.after(before)), ["b", "c"], "the one before it must have gone");
    }

    #[test]
    fn two_runs_that_begin_at_once_never_try_the_same_node() {
        let own = OwnLeases::default();
        let holder = |name: &str| Holder { namespace: "races".into(), name: name.into(), uid: "u".into() };
        let key = |name: &str| LeaseKey { namespace: "pits".into(), name: name.into() };
        let (first, second) = ([key("x"), key("node-1")], [key("y"), key("node-1")]);
        let reserved = own.reserve(&first, &holder("first"));
        assert!(reserved.is_some());
        assert!(own.reserve(&second, &holder("second")).is_none(), "it would take y in vain");
        let mut names: Vec<_> = own.after(vec![]).iter().map(|lease| lease.name_any()).collect();
        names.sort();
        assert_eq!(names, ["node-1", "x"], "another node must be looked for");
        own.wrote((*as_taken(&key("node-1"), &holder("first"))).clone());
        drop(reserved);
        assert!(
            own.reserve(&second, &holder("second")).is_none(),
            "the watch has not told yet that it is taken"
        );
        assert!(own.reserve(&first, &holder("first")).is_some(), "its own is not in its way");
    }

    #[test]
    fn what_the_watch_tells_after_a_write_counts() {
        let own = OwnLeases::default();
        own.wrote((*lease("node", "a", "9")).clone());
        let older = own.after(vec![lease("node", "a", "10")]);
        assert_eq!(
            version(&older[0]),
            Some(10),
            "somebody else wrote to it later, though 9 is the greater text"
        );
        assert_eq!(uids(&own.after(vec![])), [""; 0], "the watch told it once, and then its end");
    }
}

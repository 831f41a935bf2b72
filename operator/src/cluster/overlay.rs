//! This process's own writes, laid over its watches: a watch that lags behind them would let a
//! reconcile act on an old object, let a run load after it released its Leases, or reserve a second
//! node beside the one it just reserved. Pure except for the clock that drops old entries.

use dragstrip_core::lease::{Holder, LeaseKey, holder_of};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{ResourceExt, api::ObjectMeta};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a write overrides the watch: kube restarts a stalled watch after 295 s.
const WRITE_LIFETIME: Duration = Duration::from_secs(300);
/// How long a foreign Lease counts as present: no watch may ever report it or its deletion.
const FOREIGN_LIFETIME: Duration = Duration::from_secs(60);
/// A deleted object never returns: longer than any watch lags, or the cleanup of Leases waits.
const DELETION_LIFETIME: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
struct Entries {
    /// Resource versions by uid, and when they expire.
    versions: HashMap<String, (u64, Instant)>,
    /// Leases, and when they expire.
    leases: HashMap<LeaseKey, (Arc<Lease>, Instant)>,
    /// Uids of deleted Leases, and when they expire. No later Lease has the same uid.
    deleted: HashMap<String, Instant>,
    /// Leases that a reconcile is acquiring at this moment, and for which run.
    reserved: HashMap<LeaseKey, Holder>,
}

impl Entries {
    fn drop_expired(&mut self) {
        let now = Instant::now();
        self.versions.retain(|_, (_, expiry)| now < *expiry);
        self.leases.retain(|_, (_, expiry)| now < *expiry);
        self.deleted.retain(|_, expiry| now < *expiry);
    }

    fn is_deleted(&self, lease: &Lease) -> bool {
        lease.metadata.uid.as_ref().is_some_and(|uid| self.deleted.contains_key(uid))
    }

    fn belongs_to_another(&self, key: &LeaseKey, holder: &Holder) -> bool {
        let written = self.leases.get(key).filter(|(lease, _)| !self.is_deleted(lease));
        self.reserved.contains_key(key)
            || written.is_some_and(|(lease, _)| holder_of(lease).as_ref() != Some(holder))
    }
}

/// Objects that this process wrote or deleted a moment ago.
#[derive(Debug, Default)]
pub struct Overlay(Mutex<Entries>);

/// Leases that one reconcile is acquiring; no other reconcile gets them until this is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    overlay: &'a Overlay,
    keys: &'a [LeaseKey],
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.overlay.lock().reserved.retain(|key, _| !self.keys.contains(key));
    }
}

/// The Lease as `holder` is about to write it.
fn as_reserved(key: &LeaseKey, holder: &Holder) -> Arc<Lease> {
    let (namespace, name) = (Some(key.namespace.clone()), Some(key.name.clone()));
    let spec = LeaseSpec { holder_identity: Some(holder.to_string()), ..LeaseSpec::default() };
    Arc::new(Lease { metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() }, spec: Some(spec) })
}

/// Resource versions of one kind are increasing integers (Kubernetes' KEP-5504).
fn version(object: &impl ResourceExt) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

impl Overlay {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.drop_expired();
        entries
    }

    pub fn record(&self, object: &impl ResourceExt) {
        let Some((uid, version)) = object.uid().zip(version(object)) else { return };
        self.lock().versions.insert(uid, (version, Instant::now() + WRITE_LIFETIME));
    }

    /// Whether this process wrote a newer version than `seen`; the watch will report it.
    pub fn is_ahead_of(&self, seen: &impl ResourceExt) -> bool {
        let Some((uid, seen)) = seen.uid().zip(version(seen)) else { return false };
        self.lock().versions.get(&uid).is_some_and(|(version, _)| seen < *version)
    }

    /// Reserves all `keys` for `holder`; `None` if another run has just acquired one of them or is
    /// about to. Otherwise runs that start together would each acquire a part and release it again.
    pub fn reserve<'a>(&'a self, keys: &'a [LeaseKey], holder: &Holder) -> Option<Reservation<'a>> {
        let mut entries = self.lock();
        if keys.iter().any(|key| entries.belongs_to_another(key, holder)) {
            return None;
        }
        entries.reserved.extend(keys.iter().map(|key| (key.clone(), holder.clone())));
        Some(Reservation { overlay: self, keys })
    }

    fn insert_lease(&self, lease: Lease, lifetime: Duration) {
        self.lock().leases.insert(LeaseKey::of(&lease), (Arc::new(lease), Instant::now() + lifetime));
    }

    pub fn record_lease(&self, lease: Lease) {
        self.insert_lease(lease, WRITE_LIFETIME);
    }

    /// Records a `lease` that already had the name; it may lack our labels.
    pub fn record_foreign_lease(&self, lease: Lease) {
        self.insert_lease(lease, FOREIGN_LIFETIME);
    }

    pub fn record_deleted_lease(&self, lease: &Lease) {
        let uid = lease.uid().map(|uid| (uid, Instant::now() + DELETION_LIFETIME));
        self.lock().deleted.extend(uid);
    }

    /// All Leases: the `watched` ones, with everything that this process wrote since.
    pub fn leases(&self, mut watched: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        let mut entries = self.lock();
        if !entries.leases.is_empty() {
            for lease in &watched {
                let key = LeaseKey::of(lease);
                // From now on the watch is newer, and will also report the deletion.
                if entries.leases.get(&key).is_some_and(|(own, _)| version(&**own) <= version(&**lease)) {
                    entries.leases.remove(&key);
                }
            }
            watched.retain(|lease| !entries.leases.contains_key(&LeaseKey::of(lease)));
            watched.extend(entries.leases.values().map(|(lease, _)| Arc::clone(lease)));
        }
        watched.retain(|lease| !entries.is_deleted(lease));
        let present: HashSet<LeaseKey> = watched.iter().map(|lease| LeaseKey::of(lease)).collect();
        let reserved = entries.reserved.iter().filter(|(key, _)| !present.contains(key));
        watched.extend(reserved.map(|(key, holder)| as_reserved(key, holder)));
        watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn object(uid: &str, version: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"uid": uid, "resourceVersion": version}})).unwrap()
    }

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
    fn the_overlay_is_ahead_of_what_was_seen_before_the_last_write() {
        let overlay = Overlay::default();
        overlay.record(&object("a", "100"));
        assert!(overlay.is_ahead_of(&object("a", "99")), "99 is older than 100, although not as text");
        assert!(!overlay.is_ahead_of(&object("a", "100")));
        assert!(!overlay.is_ahead_of(&object("a", "101")), "somebody else wrote later");
        assert!(!overlay.is_ahead_of(&object("b", "1")), "another object");
    }

    #[test]
    fn a_deleted_lease_is_not_held_although_the_watch_still_reports_it() {
        let overlay = Overlay::default();
        overlay.record_lease((*lease("node", "a", "5")).clone());
        overlay.record_deleted_lease(&lease("node", "a", "5"));
        assert_eq!(uids(&overlay.leases(vec![])), [""; 0], "deleted before the watch reported its creation");
        assert_eq!(uids(&overlay.leases(vec![lease("node", "a", "5")])), [""; 0]);
        assert_eq!(uids(&overlay.leases(vec![lease("node", "b", "7")])), ["b"], "the next holder's Lease");
    }

    #[test]
    fn a_written_lease_is_held_before_the_watch_reports_it() {
        let overlay = Overlay::default();
        overlay.record_lease((*lease("node", "b", "7")).clone());
        assert_eq!(uids(&overlay.leases(vec![])), ["b"]);
        let before = vec![lease("node", "a", "5"), lease("other", "c", "6")];
        assert_eq!(uids(&overlay.leases(before)), ["b", "c"], "it replaces the previous one");
    }

    #[test]
    fn two_runs_that_start_together_never_try_the_same_node() {
        let overlay = Overlay::default();
        let holder = |name: &str| Holder { namespace: "races".into(), name: name.into(), uid: "u".into() };
        let key = |name: &str| LeaseKey { namespace: "pits".into(), name: name.into() };
        let (first, second) = ([key("x"), key("node-1")], [key("y"), key("node-1")]);
        let reservation = overlay.reserve(&first, &holder("first"));
        assert!(reservation.is_some());
        assert!(overlay.reserve(&second, &holder("second")).is_none(), "it would acquire y in vain");
        let mut names: Vec<_> = overlay.leases(vec![]).iter().map(|lease| lease.name_any()).collect();
        names.sort();
        assert_eq!(names, ["node-1", "x"], "the second run must look for another node");
        overlay.record_lease((*as_reserved(&key("node-1"), &holder("first"))).clone());
        drop(reservation);
        assert!(
            overlay.reserve(&second, &holder("second")).is_none(),
            "the watch has not yet reported the Lease"
        );
        assert!(overlay.reserve(&first, &holder("first")).is_some(), "a run's own Lease does not block it");
    }

    #[test]
    fn what_the_watch_reports_after_a_write_counts() {
        let overlay = Overlay::default();
        overlay.record_lease((*lease("node", "a", "9")).clone());
        let older = overlay.leases(vec![lease("node", "a", "10")]);
        assert_eq!(version(&*older[0]), Some(10), "somebody else wrote later, although 9 is greater as text");
        assert_eq!(uids(&overlay.leases(vec![])), [""; 0], "the watch reported it, and then its deletion");
    }
}

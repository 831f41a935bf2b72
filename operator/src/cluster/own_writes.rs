//! What this process wrote last of each object: a watch that does not tell it yet would
//! have a pass rest on what is no longer so. Pure but for the clock that drops old notes.

use kube::ResourceExt;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A watch that has stalled is begun anew after 295 s.
const KEPT: Duration = Duration::from_secs(300);

/// Resource versions by uid, and when they were written.
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<HashMap<String, (u64, Instant)>>);

/// Resource versions of one kind grow as integers do: Kubernetes' KEP-5504.
fn version(object: &impl ResourceExt) -> Option<(String, u64)> {
    Some((object.uid()?, object.resource_version()?.parse().ok()?))
}

impl OwnWrites {
    /// Takes note of `object` as the apiserver stored it.
    pub fn wrote(&self, object: &impl ResourceExt) {
        let Some((uid, version)) = version(object) else { return };
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|_, (_, at)| at.elapsed() < KEPT);
        written.insert(uid, (version, Instant::now()));
    }

    /// Whether `seen` is older than what was written: its watch will tell.
    pub fn outrun(&self, seen: &impl ResourceExt) -> bool {
        let Some((uid, seen)) = version(seen) else { return false };
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&uid).is_some_and(|(version, at)| seen < *version && at.elapsed() < KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(uid: &str, version: &str) -> ConfigMap {
        serde_json::from_value(serde_json::json!({"metadata": {"uid": uid, "resourceVersion": version}}))
            .unwrap()
    }

    #[test]
    fn what_was_seen_before_the_last_write_is_outrun() {
        let own = OwnWrites::default();
        own.wrote(&object("a", "100"));
        assert!(own.outrun(&object("a", "99")), "99 is older than 100, though not as a text");
        assert!(!own.outrun(&object("a", "100")));
        assert!(!own.outrun(&object("a", "101")), "somebody else wrote after it");
        assert!(!own.outrun(&object("b", "1")), "another object");
    }
}

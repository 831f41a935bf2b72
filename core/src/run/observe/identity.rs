//! What a server is: the pods, images and processes that all phases of a run measure. Pure.

use crate::digest::digest;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// Stored with each Job and its result, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Generation of the Datastore's spec; absent if the run refers to an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Name and uid of each pod, with how often its containers were restarted.
    pub pods: BTreeSet<String>,
    /// Image of each container, by digest.
    pub images: BTreeSet<String>,
    /// What identifies each server process that can be queried.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub processes: BTreeSet<String>,
}

fn differ<T: Ord + ToString>(what: &str, before: &BTreeSet<T>, now: &BTreeSet<T>) -> Option<String> {
    let reported = |from: &BTreeSet<T>, not_in: &BTreeSet<T>| {
        let texts: Vec<String> = from.difference(not_in).map(ToString::to_string).collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
    };
    (before != now)
        .then(|| format!("{what}: at first {}, now {}", reported(before, now), reported(now, before)))
}

impl Identity {
    /// What `pods` and the Datastore's `generation` say.
    pub fn of<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>, generation: Option<i64>) -> Self {
        let mut identity = Self { generation, ..Self::default() };
        for pod in pods {
            let containers =
                || pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let restarts: i32 = containers().map(|container| container.restart_count).sum();
            let uid = pod.uid().unwrap_or_default();
            identity.pods.insert(format!("{} {uid} restarted {restarts} times", pod.name_any()));
            identity.images.extend(containers().map(|container| container.image_id.clone()));
        }
        identity
    }

    #[must_use]
    pub fn with_processes(mut self, processes: Vec<String>) -> Self {
        self.processes = processes.into_iter().filter(|process| !process.is_empty()).collect();
        self
    }

    /// How the server changed; `None` if it is the same.
    pub fn change_to(&self, now: &Self) -> Option<String> {
        let declared = (self.generation != now.generation).then(|| {
            format!(
                "its declaration was edited (generation {:?}, now {:?})",
                self.generation.unwrap_or(0),
                now.generation.unwrap_or(0)
            )
        });
        let found = [
            declared,
            differ("image", &self.images, &now.images),
            differ("pods", &self.pods, &now.pods),
            differ("processes", &self.processes, &now.processes).filter(|_| self.pods == now.pods),
        ];
        let found: Vec<String> = found.into_iter().flatten().collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    /// How its pods changed, by their statuses alone: no server was queried again.
    pub fn pods_changed_to(&self, now: &Self) -> Option<String> {
        self.change_to(&Self {
            generation: self.generation,
            processes: self.processes.clone(),
            ..now.clone()
        })
    }

    /// A short form that is the same for the same server; `None` if nothing identifies it.
    pub fn digest(&self) -> Option<String> {
        let identified = !self.pods.is_empty() || !self.processes.is_empty();
        // A struct of strings and numbers always has a JSON form.
        identified.then(|| digest(&serde_json::to_string(self).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identity(uid: &str, restarts: i32, image: &str, process: &str) -> Identity {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "redis-0", "uid": uid},
            "status": {"containerStatuses": [{
                "name": "server", "image": "redis:8", "imageID": image, "ready": true, "restartCount": restarts
            }]}
        }))
        .unwrap();
        Identity::of([Arc::new(pod)].iter(), Some(1)).with_processes(vec![process.to_owned()])
    }

    #[test]
    fn the_same_server_has_not_changed() {
        let first = identity("u", 0, "sha256:a", "p");
        assert_eq!(Identity::default().digest(), None, "two unknown servers are not the same");
        assert_eq!(first.change_to(&first.clone()), None);
        assert_eq!(first.digest(), identity("u", 0, "sha256:a", "p").digest());
    }

    #[test]
    fn a_restart_shows_without_a_question_to_the_server() {
        let before = identity("u", 0, "sha256:a", "p");
        let seen = |restarts| Identity { generation: None, ..identity("u", restarts, "sha256:a", "") };
        assert_eq!(before.pods_changed_to(&seen(0)), None, "its process was not queried");
        assert!(before.pods_changed_to(&seen(1)).unwrap().contains("restarted 1 times"));
        assert!(before.pods_changed_to(&Identity::default()).unwrap().contains("now none"));
    }

    #[test]
    fn every_change_of_a_server_is_reported_with_both_values() {
        let first = identity("u", 0, "sha256:a", "p");
        let table = [
            ("a restarted container", identity("u", 1, "sha256:a", "q"), "restarted 1 times"),
            ("another pod", identity("v", 0, "sha256:a", "q"), "redis-0 v"),
            (
                "another image under the same tag",
                identity("u", 0, "sha256:b", "p"),
                "at first sha256:a, now sha256:b",
            ),
            ("another process", identity("u", 0, "sha256:a", "q"), "processes: at first p, now q"),
            ("another declaration", Identity { generation: Some(2), ..first.clone() }, "generation 1, now 2"),
        ];
        for (sentence, now, expected) in table {
            let reported = first.change_to(&now).unwrap_or_default();
            assert!(reported.contains(expected), "{sentence}: {reported}");
        }
    }
}

//! What the controllers are given: a client, a recorder of events, the images
//! to use, a way to talk to runners and observers, and metrics.

use crate::{
    cluster::{events::Announcer, overlay::Overlay, retry::Retries, scope::Scope, world::World},
    metrics::{Metrics, Prices},
    run::{Loads, LogRetries, ResultCache},
    suite,
};
use dragstrip_agents::Agents;
use dragstrip_results::{protocol::LONGEST_LINGER_SECONDS, signing::VerifyingKey};
use ipnet::IpNet;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{LocalObjectReference, PodSpec},
};
use kube::Client;
use std::sync::Arc;

/// Images and names the operator was started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Image with `dragstrip-runner`, `dragstrip-loadgen` and `dragstrip-clients`.
    pub runner_image: String,
    /// Image with `memtier_benchmark`, where a phase names none.
    pub memtier_image: String,
    /// Image with `dragstrip-bullmq`, where a phase names none.
    pub bullmq_image: String,
    /// The key that agents take commands from; none where they are to take the token alone.
    pub verifying_key: Option<VerifyingKey>,
    /// Networks that no external target may resolve to.
    pub blocked_networks: Vec<IpNet>,
    /// Memory that the operator may take, where that is told.
    pub memory_limit_bytes: Option<u64>,
    /// Namespace of the operator: the Leases of nodes are kept there.
    pub namespace: String,
    /// Where Datastores and runs are looked after.
    pub scope: Scope,
    /// When the images above are pulled; Kubernetes' own rule where absent.
    pub pull_policy: Option<String>,
    /// Secrets that every pod of a run or Datastore may pull images with, in its own namespace.
    pub pull_secrets: Vec<String>,
    /// How often Prometheus scrapes client pods, in seconds; 0 where it does not.
    pub scrape_interval_seconds: f64,
}

impl Settings {
    /// Has `pod` pull the release's images as the release does, with the release's Secrets
    /// besides its own. Changes nothing where nothing is set.
    pub fn pull(&self, pod: &mut PodSpec) {
        let images = [&self.runner_image, &self.memtier_image, &self.bullmq_image];
        let containers = pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten());
        for container in
            containers.filter(|one| one.image.as_ref().is_some_and(|name| images.contains(&name)))
        {
            container.image_pull_policy = container.image_pull_policy.take().or(self.pull_policy.clone());
        }
        let mut secrets = pod.image_pull_secrets.take().unwrap_or_default();
        for name in &self.pull_secrets {
            if !secrets.iter().any(|secret| secret.name == *name) {
                secrets.push(LocalObjectReference { name: name.clone() });
            }
        }
        pod.image_pull_secrets = Some(secrets).filter(|secrets| !secrets.is_empty());
    }

    /// How long a client stays for the scrape after its end: two intervals, for the one
    /// that is due may fail, and never so long that it would count as lost.
    pub fn linger_seconds(&self) -> f64 {
        (self.scrape_interval_seconds * 2.0).clamp(0.0, LONGEST_LINGER_SECONDS)
    }
}

/// Shared by all reconciles.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// Publishes events.
    pub announcer: Arc<Announcer>,
    /// Start-up settings.
    pub settings: Arc<Settings>,
    /// Runners and observers, by pod address.
    pub agents: Agents,
    /// What was seen of the cluster.
    pub world: World,
    /// Logs of client pods that cannot be read just now.
    pub log_retries: Arc<LogRetries>,
    /// Objects that something is wrong with, by uid.
    pub retries: Arc<Retries>,
    /// This process's own writes.
    pub overlay: Arc<Overlay>,
    /// Loads that may run unseen.
    pub loads: Arc<Loads>,
    /// What is known of stored results.
    pub result_cache: Arc<ResultCache>,
    /// What is known of suites under way.
    pub suites: Arc<suite::SuiteCaches>,
    /// What is known of instance types.
    pub prices: Arc<Prices>,
    /// Counters of the process.
    pub metrics: Metrics,
}

impl Context {
    /// All Leases of ours, as current as this process can know.
    pub fn leases(&self) -> Vec<Arc<Lease>> {
        self.overlay.leases(self.world.leases.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pulled(policy: Option<&str>, secrets: &[&str]) -> (PodSpec, PodSpec) {
        let settings = Settings {
            runner_image: "example.com/runner:1".into(),
            memtier_image: "example.com/memtier:2".into(),
            bullmq_image: "example.com/bullmq:3".into(),
            verifying_key: None,
            memory_limit_bytes: None,
            blocked_networks: Vec::new(),
            namespace: "dragstrip-system".into(),
            scope: Scope::default(),
            pull_policy: policy.map(str::to_owned),
            pull_secrets: secrets.iter().map(|&name| name.to_owned()).collect(),
            scrape_interval_seconds: 0.0,
        };
        let before: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "observer", "image": "example.com/runner:1"}],
            "containers": [{"name": "server", "image": "docker.io/redis:8"}],
            "imagePullSecrets": [{"name": "own"}]
        }))
        .unwrap();
        let mut after = before.clone();
        settings.pull(&mut after);
        (before, after)
    }

    #[test]
    fn without_settings_a_pod_stays_as_it_is() {
        let (before, after) = pulled(None, &[]);
        assert_eq!(before, after, "an upgrade must not change a template");
    }

    #[test]
    fn the_release_s_images_are_pulled_as_the_release_says_and_others_as_ever() {
        let (_, pod) = pulled(Some("Always"), &["own", "registry"]);
        let policy = |container: &k8s_openapi::api::core::v1::Container| container.image_pull_policy.clone();
        assert_eq!(policy(&pod.init_containers.unwrap()[0]).as_deref(), Some("Always"));
        assert_eq!(policy(&pod.containers[0]), None, "a Datastore's own image is not the release's");
        let names: Vec<_> = pod.image_pull_secrets.unwrap().into_iter().map(|secret| secret.name).collect();
        assert_eq!(names, ["own", "registry"]);
    }
}

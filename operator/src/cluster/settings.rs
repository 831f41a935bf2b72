//! The operator's options. Pure.

use super::scope::Scope;
use dragstrip_results::{protocol::LONGEST_LINGER_SECONDS, signing::VerifyingKey};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec};

/// The options that the controllers read.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// Image with dragstrip-runner, dragstrip-loadgen and dragstrip-clients.
    #[arg(long, env = "DRAGSTRIP_RUNNER_IMAGE", default_value = concat!("dragstrip.dev/runner:", env!("CARGO_PKG_VERSION")))]
    pub runner_image: String,
    /// Image with memtier_benchmark, for phases without an image.
    #[arg(
        long,
        env = "DRAGSTRIP_MEMTIER_IMAGE",
        default_value = "docker.io/redislabs/memtier_benchmark:2.3.0"
    )]
    pub memtier_image: String,
    /// Image with dragstrip-bullmq, for phases without an image.
    #[arg(long, env = "DRAGSTRIP_BULLMQ_IMAGE", default_value = concat!("dragstrip.dev/bullmq:", env!("CARGO_PKG_VERSION")))]
    pub bullmq_image: String,
    /// Pull policy of these images; Kubernetes' default if omitted.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub image_pull_policy: Option<String>,
    /// Pull secrets for the pods of runs and Datastores, separated by commas.
    #[arg(long, env = "DRAGSTRIP_IMAGE_PULL_SECRETS", value_delimiter = ',')]
    pub image_pull_secrets: Vec<String>,
    /// Registry of the engines' default images, instead of their own, such as registry.example.com/mirror.
    #[arg(long, env = "DRAGSTRIP_IMAGE_REGISTRY")]
    pub image_registry: Option<String>,
    /// Leave the user, group and fsGroup of pods to the platform, as OpenShift requires.
    #[arg(long, env = "DRAGSTRIP_PLATFORM_USER")]
    pub platform_user: bool,
    /// The operator's namespace, in which it stores the Leases of nodes.
    #[arg(long, env = "DRAGSTRIP_NAMESPACE", default_value = "dragstrip-system")]
    pub namespace: String,
    /// Networks that no external target may resolve to, such as 169.254.0.0/16, separated by commas.
    #[arg(long, env = "DRAGSTRIP_BLOCKED_NETWORKS", value_delimiter = ',')]
    pub blocked_networks: Vec<IpNet>,
    /// Watch the operator's own namespace instead of the whole cluster.
    #[arg(long, env = "DRAGSTRIP_OWN_NAMESPACE_ONLY")]
    pub own_namespace_only: bool,
    /// Interval in seconds at which Prometheus scrapes client pods, 0 for never. A scraped pod waits up to
    /// two intervals after its result, so that Prometheus reads its last counts.
    #[arg(long, env = "DRAGSTRIP_SCRAPE_INTERVAL_SECONDS", default_value_t = 1.0)]
    pub scrape_interval_seconds: f64,
    /// Memory limit of this process: it rejects suites whose report would exceed it.
    #[arg(long, env = "DRAGSTRIP_MEMORY_LIMIT_BYTES")]
    pub memory_limit_bytes: Option<u64>,
    /// The key that agents verify commands with, from the operator's Secret.
    #[arg(skip)]
    pub verifying_key: Option<VerifyingKey>,
}

impl Settings {
    pub fn scope(&self) -> Scope {
        if self.own_namespace_only { Scope::Namespace(self.namespace.clone()) } else { Scope::Cluster }
    }

    /// `image`, an engine's default, in the release's registry.
    pub fn in_registry(&self, image: &str) -> String {
        let mirrored = self.image_registry.as_ref().zip(image.split_once('/'));
        mirrored.map_or_else(|| image.to_owned(), |(registry, (_, path))| format!("{registry}/{path}"))
    }

    /// Sets the release's pull policy for the release's images in `pod`, adds the release's pull secrets, and
    /// removes the user if the platform chooses it. Changes nothing if the release sets none of these.
    pub fn adapt(&self, pod: &mut PodSpec) {
        if let Some(security) = pod.security_context.as_mut().filter(|_| self.platform_user) {
            (security.run_as_user, security.run_as_group, security.fs_group) = (None, None, None);
        }
        let images = [&self.runner_image, &self.memtier_image, &self.bullmq_image];
        let containers = pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten());
        for container in
            containers.filter(|one| one.image.as_ref().is_some_and(|name| images.contains(&name)))
        {
            container.image_pull_policy =
                container.image_pull_policy.take().or(self.image_pull_policy.clone());
        }
        let mut secrets = pod.image_pull_secrets.take().unwrap_or_default();
        for name in &self.image_pull_secrets {
            if !secrets.iter().any(|secret| secret.name == *name) {
                secrets.push(LocalObjectReference { name: name.clone() });
            }
        }
        pod.image_pull_secrets = Some(secrets).filter(|secrets| !secrets.is_empty());
    }

    /// How long a client pod stays for the scrape after its end: two intervals, because the next
    /// scrape may fail, and never so long that the pod would count as lost.
    pub fn linger_seconds(&self) -> f64 {
        (self.scrape_interval_seconds * 2.0).clamp(0.0, LONGEST_LINGER_SECONDS)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    #[command(args_override_self = true)]
    struct Options {
        #[command(flatten)]
        settings: Settings,
    }

    /// Settings with images of example.com, and `more` options.
    pub(crate) fn settings(more: &[&str]) -> Settings {
        let images = [
            "operator",
            "--runner-image=example.com/runner:1",
            "--memtier-image=example.com/memtier:2",
            "--bullmq-image=example.com/bullmq:5",
            "--scrape-interval-seconds=0",
        ];
        Options::parse_from(images.iter().chain(more)).settings
    }

    fn pulled(more: &[&str]) -> (PodSpec, PodSpec) {
        let before: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "observer", "image": "example.com/runner:1"}],
            "containers": [{"name": "server", "image": "docker.io/redis:8"}],
            "imagePullSecrets": [{"name": "own"}],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999}
        }))
        .unwrap();
        let mut after = before.clone();
        settings(more).adapt(&mut after);
        (before, after)
    }

    #[test]
    fn without_settings_a_pod_stays_as_it_is() {
        let (before, after) = pulled(&[]);
        assert_eq!(before, after, "an upgrade must not change a template");
    }

    #[test]
    fn where_the_platform_chooses_users_a_pod_names_none_and_is_still_not_root() {
        let (before, pod) = pulled(&["--platform-user"]);
        let security = serde_json::to_value(pod.security_context).unwrap();
        assert_eq!(security, json!({"runAsNonRoot": true}));
        assert_eq!((pod.containers, pod.init_containers), (before.containers, before.init_containers));
    }

    #[test]
    fn the_release_s_registry_replaces_that_of_an_engines_image_and_keeps_its_path() {
        let mirror = settings(&["--image-registry=registry.example.com:5000/mirror"]);
        let image = "docker.io/valkey/valkey:9.1";
        assert_eq!(mirror.in_registry(image), "registry.example.com:5000/mirror/valkey/valkey:9.1");
        assert_eq!(settings(&[]).in_registry(image), image);
    }

    #[test]
    fn only_the_release_s_images_get_its_pull_policy() {
        let (_, pod) = pulled(&["--image-pull-policy=Always", "--image-pull-secrets=own,registry"]);
        let policy = |container: &k8s_openapi::api::core::v1::Container| container.image_pull_policy.clone();
        assert_eq!(policy(&pod.init_containers.unwrap()[0]).as_deref(), Some("Always"));
        assert_eq!(policy(&pod.containers[0]), None, "the release did not choose a Datastore's own image");
        let names: Vec<_> = pod.image_pull_secrets.unwrap().into_iter().map(|secret| secret.name).collect();
        assert_eq!(names, ["own", "registry"]);
    }
}

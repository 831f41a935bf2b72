//! Settings of pods, the same for servers and clients, besides nodes, CPUs and memory.

use crate::{defaults::is_default, units::Memory};
use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Exclusive CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CpuSettings {
    /// Request whole CPUs, with requests equal to limits in every container. A kubelet with the static
    /// CPU manager policy then assigns them to that container alone. Defaults to false.
    #[serde(default)]
    pub exclusive: bool,
}

/// A Secret with a registry's credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImagePullSecret {
    /// Name of a Secret of type kubernetes.io/dockerconfigjson in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Medium and size of an empty directory.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyDirectory {
    /// Memory, HugePages, or HugePages-SIZE such as HugePages-2Mi. Defaults to the node's disk.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^(Memory|HugePages(-[1-9][0-9]{0,3}[KMG]i)?)$')")
        .message("medium is Memory, HugePages or HugePages-SIZE, such as HugePages-2Mi"))]
    pub medium: Option<String>,
    /// Largest size, such as 1Gi. Files in Memory count as memory of the container that wrote them.
    /// Unlimited if omitted.
    pub size_limit: Option<Memory>,
}

/// An empty directory with the lifetime of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodVolume {
    /// Path in the container of the server or the client's tool, such as /dev/shm.
    #[schemars(length(min = 2, max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/') && !self.contains(':') && !self.contains('..') && self != '/tmp' && !self.startsWith('/dragstrip')")
        .message("mountPath is an absolute path, such as /dev/shm, without .. or a colon; /tmp and /dragstrip are taken"))]
    pub mount_path: String,
    /// Medium and size, such as `{medium: Memory, sizeLimit: 1Gi}`. Defaults to the node's disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub empty_dir: EmptyDirectory,
}

/// CEL: no key of `self` begins with one of `prefixes` or equals one of `keys`.
fn without(prefixes: &[&str], keys: &[&str]) -> String {
    let prefixes = prefixes.iter().map(|prefix| format!("k.startsWith('{prefix}')"));
    let keys = keys.iter().map(|key| format!("k == '{key}'"));
    format!("self.all(k, !({}))", prefixes.chain(keys).collect::<Vec<_>>().join(" || "))
}

/// CEL: no label is one that Dragstrip or Kubernetes sets.
fn free_labels() -> String {
    without(
        &["dragstrip.dev/", "batch.kubernetes.io/", "apps.kubernetes.io/", "statefulset.kubernetes.io/"],
        &[
            "app.kubernetes.io/name",
            "app.kubernetes.io/managed-by",
            "controller-revision-hash",
            "controller-uid",
            "job-name",
        ],
    )
}

/// CEL: no annotation is one that Dragstrip or Kubernetes sets.
fn free_annotations() -> String {
    without(
        &["dragstrip.dev/", "batch.kubernetes.io/"],
        &["karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict"],
    )
}

/// The schema of Kubernetes' type `T` without the descriptions, which `kubectl explain pod.spec` shows.
fn without_texts<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("description");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut schema = generator.subschema_for::<T>();
    if let Some(fields) = schema.as_object_mut() {
        fields.values_mut().for_each(strip);
        fields.remove("description");
    }
    schema
}

/// Further settings of pods. In a service mesh, for example, set
/// `annotations: {sidecar.istio.io/inject: "false"}`: a proxy beside the server or the client would be
/// measured too.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.automountServiceAccountToken) || !self.automountServiceAccountToken || has(self.serviceAccountName)")
        .message("automountServiceAccountToken needs serviceAccountName"),
)]
pub struct PodSettings {
    /// Additional labels, such as `{team: caches}`. Labels that Dragstrip or Kubernetes sets, such as
    /// dragstrip.dev/run, are refused. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    // A message with the key costs more than the API server allows.
    #[x_kube(validation = Rule::new(free_labels())
        .message("these labels are set by Dragstrip or Kubernetes, leave them out: dragstrip.dev/..., batch.kubernetes.io/..., apps.kubernetes.io/..., statefulset.kubernetes.io/..., app.kubernetes.io/name, app.kubernetes.io/managed-by, controller-revision-hash, controller-uid, job-name"))]
    pub labels: BTreeMap<String, String>,
    /// Additional annotations, such as `{sidecar.istio.io/inject: "false"}`. Annotations that Dragstrip
    /// or Kubernetes sets, such as karpenter.sh/do-not-disrupt, are refused. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = Rule::new(free_annotations())
        .message("these annotations are set by Dragstrip or Kubernetes, leave them out: dragstrip.dev/..., batch.kubernetes.io/..., karpenter.sh/do-not-disrupt, cluster-autoscaler.kubernetes.io/safe-to-evict"))]
    pub annotations: BTreeMap<String, String>,
    /// Secrets with credentials of registries, such as `[{name: registry}]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,
    /// PriorityClass, such as system-cluster-critical. Defaults to the cluster's.
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// RuntimeClass, such as gvisor. Defaults to the node's.
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// Affinity as in a pod (`kubectl explain pod.spec.affinity`), in addition to Dragstrip's own, such
    /// as that clients avoid servers' nodes. None if omitted.
    #[serde(default)]
    #[schemars(schema_with = "without_texts::<Option<Affinity>>")]
    pub affinity: Option<Affinity>,
    /// Constraints as in a pod (`kubectl explain pod.spec.topologySpreadConstraints`), in addition to
    /// Dragstrip's own. Without labelSelector, one applies to the servers of this Datastore, or the
    /// client pods of this run. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), schema_with = "without_texts::<Vec<TopologySpreadConstraint>>")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// ServiceAccount of the pods, such as bench. The platform's policy may refuse it. Its token is
    /// mounted only with automountServiceAccountToken. Defaults to the namespace's default account.
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Mount the ServiceAccount's token into the pods, which gives their programs the rights of the
    /// account. Needs serviceAccountName. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automount_service_account_token: bool,
    /// Use the node's network, which saves the hop to the pod's. Ports are then the node's, so pods
    /// with the same port never share a node. Needs Pod Security level privileged. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
    /// Empty directories, such as `[{mountPath: /dev/shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]`.
    /// Medium HugePages needs hugepages in resources.limits. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["mountPath".into()]))]
    pub volumes: Vec<PodVolume>,
    /// Seccomp profile of the server or the client's tool: a path below the kubelet's seccomp
    /// directory, such as profiles/dragstrip-io-uring.json. The file must exist on the node and, with
    /// Dragonfly's `ioUring: Require`, allow io_uring. Defaults to the container runtime's profile.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("!self.startsWith('/') && !self.contains('..')")
        .message("seccompProfile is a path below the kubelet's seccomp directory, such as profiles/dragstrip-io-uring.json, without / in front and without .."))]
    pub seccomp_profile: Option<String>,
}

/// CEL, for a type with `pod` and `resources`: volumes in huge pages have a limit of huge pages.
pub(crate) const HUGEPAGES_RULE: &str = "!has(self.pod) || !has(self.pod.volumes) || self.pod.volumes.all(v, !has(v.emptyDir) || !has(v.emptyDir.medium) || v.emptyDir.medium == 'Memory') || has(self.resources) && has(self.resources.limits) && ['64Ki', '1Mi', '2Mi', '32Mi', '256Mi', '512Mi', '1Gi', '2Gi', '16Gi'].exists(s, ('hugepages-' + s) in self.resources.limits)";
pub(crate) const HUGEPAGES_MESSAGE: &str = "a volume with medium HugePages needs huge pages in resources.limits, such as {cpu: \"4\", memory: 4Gi, hugepages-2Mi: 1Gi}";

//! What a manifest may say of its pods beside nodes, CPUs and memory: the same for
//! servers and clients.

use crate::units::Memory;
use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether CPUs belong to one container alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CpuSettings {
    /// Ask for whole CPUs with requests equal to limits in every container, which a
    /// kubelet with the static CPU manager policy then gives to that container alone.
    /// Defaults to false.
    #[serde(default)]
    pub exclusive: bool,
}

impl CpuSettings {
    /// Whether nothing is declared.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// A Secret with a registry's credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImagePullSecret {
    /// Name of a Secret of type kubernetes.io/dockerconfigjson in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What an empty directory is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyDirectory {
    /// Memory, HugePages, or HugePages-SIZE such as HugePages-2Mi; the node's disk if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^(Memory|HugePages(-[1-9][0-9]{0,3}[KMG]i)?)$')")
        .message("medium is Memory, HugePages or HugePages-SIZE, such as HugePages-2Mi"))]
    pub medium: Option<String>,
    /// The most it may hold, such as 1Gi. What is in Memory counts as memory of the
    /// container that wrote it. Unlimited if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Memory>,
}

impl EmptyDirectory {
    /// Neither medium nor limit.
    fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// An empty directory that comes and goes with the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodVolume {
    /// Where every server (or the client's tool) sees it, such as /dev/shm.
    #[schemars(length(min = 2, max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/') && !self.contains(':') && !self.contains('..') && self != '/tmp' && !self.startsWith('/dragstrip')")
        .message("mountPath is an absolute path, such as /dev/shm, without .. or a colon; /tmp and /dragstrip are there already"))]
    pub mount_path: String,
    /// What it is made of, such as `{medium: Memory, sizeLimit: 1Gi}`. The node's disk if omitted.
    #[serde(default, skip_serializing_if = "EmptyDirectory::is_unset")]
    pub empty_dir: EmptyDirectory,
}

/// CEL: no key of `self` begins with one of `prefixes` or is one of `keys`.
fn without(prefixes: &[&str], keys: &[&str]) -> String {
    let prefixes = prefixes.iter().map(|prefix| format!("k.startsWith('{prefix}')"));
    let keys = keys.iter().map(|key| format!("k == '{key}'"));
    format!("self.all(k, !({}))", prefixes.chain(keys).collect::<Vec<_>>().join(" || "))
}

/// Keys of labels that Dragstrip, or the controllers of its workloads, set themselves.
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

/// Keys of annotations that Dragstrip, or the controllers of its workloads, set themselves.
fn free_annotations() -> String {
    without(
        &["dragstrip.dev/", "batch.kubernetes.io/"],
        &["karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict"],
    )
}

/// The schema of Kubernetes' own type `T` without its texts, which
/// `kubectl explain pod.spec` has.
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

/// Further settings of pods. The pods of a mesh, for example, opt out of it by
/// `annotations: {sidecar.istio.io/inject: "false"}`: a proxy beside the server or the
/// client would be measured too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.automountServiceAccountToken) || !self.automountServiceAccountToken || has(self.serviceAccountName)")
        .message("automountServiceAccountToken needs serviceAccountName"),
)]
pub struct PodSettings {
    /// Further labels, such as `{team: caches}`. Those that Dragstrip or Kubernetes set
    /// themselves, such as dragstrip.dev/run, are refused. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    // A message that tells which key it is costs more than the apiserver allows.
    #[x_kube(validation = Rule::new(free_labels())
        .message("these labels are set by Dragstrip or Kubernetes, leave them out: dragstrip.dev/..., batch.kubernetes.io/..., apps.kubernetes.io/..., statefulset.kubernetes.io/..., app.kubernetes.io/name, app.kubernetes.io/managed-by, controller-revision-hash, controller-uid, job-name"))]
    pub labels: BTreeMap<String, String>,
    /// Further annotations, such as `{sidecar.istio.io/inject: "false"}`. Those that
    /// Dragstrip or Kubernetes set themselves, such as karpenter.sh/do-not-disrupt, are
    /// refused. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = Rule::new(free_annotations())
        .message("these annotations are set by Dragstrip or Kubernetes, leave them out: dragstrip.dev/..., batch.kubernetes.io/..., karpenter.sh/do-not-disrupt, cluster-autoscaler.kubernetes.io/safe-to-evict"))]
    pub annotations: BTreeMap<String, String>,
    /// Secrets with the credentials of private registries, such as `[{name: registry}]`.
    /// None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<ImagePullSecret>,
    /// PriorityClass, such as system-cluster-critical. The cluster's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// RuntimeClass, such as gvisor. The node's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// As in a pod (`kubectl explain pod.spec.affinity`). What it requires holds besides
    /// what Dragstrip requires, such as that clients keep off servers' nodes; nothing of that is
    /// weakened. Dragstrip's own alone if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "without_texts::<Option<Affinity>>")]
    pub affinity: Option<Affinity>,
    /// As in a pod (`kubectl explain pod.spec.topologySpreadConstraints`), besides
    /// Dragstrip's own. A constraint without labelSelector is about the servers of this
    /// Datastore, or the client pods of this run. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), schema_with = "without_texts::<Vec<TopologySpreadConstraint>>")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// ServiceAccount of the pods, such as bench; the platform's policy may refuse it. Its
    /// token is not mounted unless automountServiceAccountToken says so. The namespace's
    /// default account if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Mount the ServiceAccount's token into the pods: whatever runs in them may then do what
    /// the account may. Needs serviceAccountName. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automount_service_account_token: bool,
    /// Use the node's network instead of one of the pod's own: saves the hop between the
    /// two. Every port is then the node's, so that two such pods with the same port never
    /// share a node; Pod Security must be privileged. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
    /// Empty directories, such as `[{mountPath: /dev/shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]`.
    /// Medium HugePages needs hugepages in resources.limits. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["mountPath".into()]))]
    pub volumes: Vec<PodVolume>,
    /// Seccomp profile of the server (or the client's tool): a path below the kubelet's
    /// seccomp directory, such as profiles/dragstrip-io-uring.json, which must be on the node.
    /// With Dragonfly and `ioUring: Require` it must allow io_uring, and is used instead of none
    /// at all. The container runtime's own profile if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("!self.startsWith('/') && !self.contains('..')")
        .message("seccompProfile is a path below the kubelet's seccomp directory, such as profiles/dragstrip-io-uring.json, without / in front and without .."))]
    pub seccomp_profile: Option<String>,
}

impl PodSettings {
    /// Whether nothing is declared.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// CEL: directories in huge pages have a container that may use some. Of a type with
/// `pod` and `resources`.
pub(crate) const HUGEPAGES_RULE: &str = "!has(self.pod) || !has(self.pod.volumes) || self.pod.volumes.all(v, !has(v.emptyDir) || !has(v.emptyDir.medium) || v.emptyDir.medium == 'Memory') || has(self.resources) && has(self.resources.limits) && ['64Ki', '1Mi', '2Mi', '32Mi', '256Mi', '512Mi', '1Gi', '2Gi', '16Gi'].exists(s, ('hugepages-' + s) in self.resources.limits)";
/// What [`HUGEPAGES_RULE`] says.
pub(crate) const HUGEPAGES_MESSAGE: &str = "a volume with medium HugePages needs huge pages in resources.limits, such as {cpu: \"4\", memory: 4Gi, hugepages-2Mi: 1Gi}";

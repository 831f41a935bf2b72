//! `Datastore`: an in-memory datastore with its thread count and placement.

use crate::{
    observed::{HostTruth, ServerTruth},
    units::Memory,
};
use k8s_openapi::{
    api::core::v1::{EnvVar, ResourceRequirements, Toleration},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// A datastore engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Engine {
    /// Dragonfly.
    Dragonfly,
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// `KeyDB`.
    KeyDB,
    /// Garnet.
    Garnet,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where a password is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyReference {
    /// Name of a Secret in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within the Secret.
    #[serde(default = "default_secret_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_secret_key() -> String {
    "password".to_owned()
}

/// Where pods may run. Without it, pods prefer nodes labelled
/// `dragstrip.dev/role=server` (or `client`) and tolerate the taint of that key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Labels a node must have, such as `node.kubernetes.io/instance-type: c7gn.16xlarge`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints to tolerate besides `dragstrip.dev/role`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
}

/// What to do about Linux's `io_uring` (Dragonfly only).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IoUring {
    /// Use it where the kernel and the seccomp profile allow it; record what was used.
    #[default]
    Prefer,
    /// Run without a seccomp profile, which would forbid it, and refuse to be Ready on epoll.
    Require,
    /// Use epoll.
    Disable,
}

fn default_port() -> i32 {
    6379
}

/// An in-memory datastore: an engine, how many threads it gets, and where it
/// runs. Ready means that its pod is ready and that the running server says it
/// is what was declared.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "Datastore",
    plural = "datastores",
    doc = "An in-memory datastore with its thread count and placement.",
    namespaced,
    status = "DatastoreStatus",
    derive = "PartialEq",
    shortname = "dst",
    category = "dragstrip",
    printcolumn(name = "Engine", type_ = "string", json_path = ".spec.engine"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.observed.version"),
    printcolumn(name = "Threads", type_ = "integer", json_path = ".spec.threads"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node.name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$')")
        .message("metadata.name must be at most 45 characters of a-z, 0-9 and -, beginning with a letter: the pod's and Service's names are made from it"),
)]
#[cfg_attr(test, kube(cel))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.engine == 'Dragonfly' || self.ioUring == 'Prefer'")
        .message("ioUring is for engine Dragonfly only: leave it out for other engines"),
)]
pub struct DatastoreSpec {
    /// The engine. Each has its own image, flags and way to tell its thread count.
    pub engine: Engine,
    /// Version the server must report, whole or its beginning (8, 8.0 or 8.0.2).
    /// Chooses the default image's tag too. Any version is accepted when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub version: Option<String>,
    /// Container image; the engine's official one when absent. It must hold the
    /// engine's server on its PATH (Garnet: /app/GarnetServer).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Threads that serve commands: proactor threads (Dragonfly), I/O threads
    /// including the main one (Redis, Valkey), server threads (KeyDB), worker
    /// threads (Garnet). Read back from the running server and compared.
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// Memory the server may use for data, such as 1Gi. 512Mi per thread for
    /// Dragonfly and 1Gi for others when absent. Dragonfly needs at least 256Mi per thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Memory>,
    /// TCP port it listens on.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 55535))]
    pub port: i32,
    /// The password clients must give. No password when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKeyReference>,
    /// Further server arguments, after the operator's own. What the operator
    /// declares (threads, memory, port, persistence) is still verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub extra_args: Vec<String>,
    /// Further environment variables of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub env: Vec<EnvVar>,
    /// CPU and memory of the server container. When absent: as many whole CPUs
    /// as threads and enough memory for maxMemory, requests equal to limits, so
    /// that a static CPU manager gives it CPUs of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Which nodes it may run on.
    #[serde(default)]
    pub placement: Placement,
    /// Use of Linux's `io_uring`; Dragonfly only.
    #[serde(default)]
    pub io_uring: IoUring,
}

/// The node a server runs on, from its labels and its own account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// Label `node.kubernetes.io/instance-type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Label `topology.kubernetes.io/zone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Placement group, from label `dragstrip.dev/placement-group` or
    /// `karpenter.k8s.aws/placement-group-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// CPU capacity of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i32>,
    /// Kernel release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// CPU model, as the server's observer reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
}

impl NodeFacts {
    /// Fills in what the observer saw on the machine itself.
    #[must_use]
    pub fn with_host(mut self, host: &HostTruth) -> Self {
        self.kernel = Some(host.kernel.clone());
        self.cpu_model = Some(host.cpu_model.clone());
        self
    }
}

/// What became of a Datastore.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreStatus {
    /// Generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name and port clients in the cluster connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What the running server says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ServerTruth>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeFacts>,
    /// The server's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Things worth knowing that are no fault, such as an engine's licence or what the image's entrypoint would have added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Ready and Verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests;

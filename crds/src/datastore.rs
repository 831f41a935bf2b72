//! `Datastore`: an in-memory datastore with its thread count and placement.

use crate::{
    observed::{HostTruth, ServerTruth},
    pod::{CpuSettings, HUGEPAGES_MESSAGE, HUGEPAGES_RULE, PodSettings},
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
    /// Any other server, described by `custom`.
    Custom,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The Secret that holds a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyReference {
    /// Name of a Secret in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within the Secret. Defaults to password.
    #[serde(default = "default_secret_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_secret_key() -> String {
    "password".to_owned()
}

/// CEL: whether a text can be the value of a label.
const LABEL_VALUE: &str = "self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')";

/// Where pods may run: only on nodes that match every field that is set. Of those, and
/// of all where none is set, nodes labelled `dragstrip.dev/role=server` (or `client`) are
/// preferred, and the taint of that key is tolerated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Zone, such as us-east-1a: a node's label `topology.kubernetes.io/zone`. Any if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("zone is a label's value, such as us-east-1a: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub zone: Option<String>,
    /// Cluster placement group: a node's label `dragstrip.dev/placement-group`, which
    /// people give their nodes, or `karpenter.k8s.aws/placement-group-id`, such as
    /// pg-0123456789abcdef0. Either of them will do. Any group or none if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("placementGroup is a label's value, such as pg-0123456789abcdef0: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub placement_group: Option<String>,
    /// Instance type, such as c7gn.16xlarge: a node's label
    /// `node.kubernetes.io/instance-type`. Any if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("instanceType is a label's value, such as c7gn.16xlarge: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub instance_type: Option<String>,
    /// On the node of this Datastore, which is in the same namespace. For clients it must
    /// be the target: they then share its node as with `shareServerNode`, and run nowhere
    /// else. Any node if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 45))]
    pub same_node_as: Option<String>,
    /// Labels a node must have, such as `node.kubernetes.io/instance-type: c7gn.16xlarge`. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints to tolerate besides `dragstrip.dev/role`, such as `{key: dedicated, operator: Exists}`. None if omitted.
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

/// How Dragonfly takes scripts and cluster clients, such as BullMQ's. What is left out
/// is off, as in Dragonfly itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DragonflySpec {
    /// Answer as a cluster of one node (`--cluster_mode=emulated`), for clients that
    /// insist on one. Read back and compared. Defaults to false.
    #[serde(default)]
    pub emulated_cluster: bool,
    /// Keep all keys of a hashtag, such as {q1}, on one thread (`--lock_on_hashtags`): a
    /// script may then touch keys of that hashtag that it does not declare, and holds no
    /// other thread up. For BullMQ with queue names or a prefix in braces. Defaults to false.
    #[serde(default)]
    pub lock_on_hashtags: bool,
    /// Let scripts touch keys that they do not declare
    /// (`--default_lua_flags=allow-undeclared-keys`): each script then stops all threads.
    /// For BullMQ with names without hashtags. Defaults to false.
    #[serde(default)]
    pub allow_undeclared_keys: bool,
}

/// What clients and server speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerProtocol {
    /// RESP, as Redis does: versions, threads and counters are read back over it.
    #[default]
    Resp,
    /// Anything else over TCP: nothing can be read back, and only exec tools can load it.
    Tcp,
}

/// Encrypted connections. The server's certificate comes from a Secret of type
/// kubernetes.io/tls with the keys tls.crt, tls.key and ca.crt (cert-manager's
/// form); it must be valid for the host of the Datastore's endpoint,
/// NAME.NAMESPACE.svc. Where servers connect to each other (a cluster, replicas)
/// it must be good for clients too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerTls {
    /// Secret with tls.crt, tls.key and ca.crt.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Secret with the clients' tls.crt and tls.key, signed by the same ca.crt.
    /// When set, the server refuses clients without a certificate; clients need none if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub client_secret_name: Option<String>,
}

/// Where the shards of a cluster run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShardPlacement {
    /// One pod with a container per shard: a cluster on one machine, on the
    /// ports `port`, `port` + 1, ...
    #[default]
    OneNode,
    /// A pod per shard, spread over the nodes as evenly as they allow.
    Spread,
}

/// A Redis or Valkey Cluster of primaries. `threads`, `maxMemory` and
/// `resources` are those of each shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Shards, from 3 to 64; the 16384 slots are divided evenly among them.
    #[schemars(range(min = 3, max = 64))]
    pub shards: i32,
    /// Where they run: OneNode (one pod with a container per shard) or Spread (a pod
    /// per shard). Defaults to OneNode.
    #[serde(default)]
    pub placement: ShardPlacement,
}

/// A further port of a custom server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomPort {
    /// Its name, such as peer.
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("a port's name is made of a-z, 0-9 and -, and begins and ends with a letter or digit, such as peer"))]
    pub name: String,
    /// Its number, from 1 to 65535, such as 2380.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A server of any kind. In `command` and `args`, `$(POD_NAME)`, `$(DATASTORE)` (its
/// NAME), `$(ORDINAL)` (from 0), `$(MEMBERS)` (their number), `$(POD_IP)` and `$(SERVICE)`
/// (the domain in which every member is POD_NAME.SERVICE: NAME.NAMESPACE.svc) are put
/// in. The members' pods are named after the Datastore: NAME-0, NAME-1, ...: see
/// status.members. Only /data and /tmp can be written to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomSpec {
    /// The server's program, such as `[etcd]`; the image's own when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Its arguments, such as `["--name=$(POD_NAME)"]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// What it speaks on `port`: Tcp or Resp. Defaults to Tcp.
    #[serde(default = "tcp")]
    pub protocol: ServerProtocol,
    /// How many members it has, each a pod of its own, spread over the nodes where
    /// they allow it. From 1 to 64, default 1.
    #[serde(default = "one_member")]
    #[schemars(range(min = 1, max = 64))]
    pub members: i32,
    /// Further ports, such as `[{name: peer, port: 2380}]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub ports: Vec<CustomPort>,
    /// HTTP path that answers 200 on `port` when a member is ready, such as /readyz;
    /// a TCP connection is enough if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub readiness_path: Option<String>,
    /// User id the server runs as, not root. Defaults to 65532.
    #[serde(default = "unprivileged")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub user: i64,
}

fn tcp() -> ServerProtocol {
    ServerProtocol::Tcp
}

fn one_member() -> i32 {
    1
}

fn unprivileged() -> i64 {
    65532
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
#[cfg_attr(any(test, feature = "cel"), kube(cel))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.engine == 'Dragonfly' || self.ioUring == 'Prefer'")
        .message("ioUring is for engine Dragonfly only: leave it out for other engines"),
    validation = Rule::new("self.engine == 'Dragonfly' || !has(self.dragonfly)")
        .message("dragonfly is for engine Dragonfly only: leave it out for other engines"),
    validation = Rule::new("(self.engine == 'Custom') == has(self.custom)")
        .message("custom describes engine Custom, which needs it; other engines must not have it"),
    validation = Rule::new("self.engine != 'Custom' || has(self.image)")
        .message("engine Custom needs an image: there is no default"),
    validation = Rule::new("!has(self.cluster) || self.engine in ['Redis', 'Valkey']")
        .message("cluster is for engines Redis and Valkey"),
    validation = Rule::new("self.replicas == 0 || self.engine in ['Redis', 'Valkey', 'KeyDB', 'Dragonfly']")
        .message("replicas are for engines Redis, Valkey, KeyDB and Dragonfly"),
    validation = Rule::new("self.replicas == 0 || !has(self.cluster)")
        .message("set only one of replicas and cluster"),
    validation = Rule::new("!has(self.tls) || self.engine in ['Redis', 'Valkey', 'KeyDB', 'Dragonfly', 'Custom']")
        .message("tls is for engines Redis, Valkey, KeyDB, Dragonfly and Custom"),
    validation = Rule::new("!has(self.cluster) || self.port + self.cluster.shards <= 55536")
        .message("port is too high for that many shards: their bus ports are 10000 above"),
    validation = Rule::new("!has(self.maxMemory) || !isQuantity(self.maxMemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !isQuantity(string(self.resources.limits['memory'])) || quantity(string(self.resources.limits['memory'])).compareTo(quantity(self.maxMemory)) >= 0")
        .message("resources.limits.memory is below maxMemory: the server would be killed before it is full; raise the limit above maxMemory, or lower maxMemory"),
    validation = Rule::new(HUGEPAGES_RULE).message(HUGEPAGES_MESSAGE),
    validation = Rule::new("!has(self.pod) || !has(self.pod.volumes) || self.pod.volumes.all(v, v.mountPath != '/data')")
        .message("a volume's mountPath cannot be /data, which the server has already"),
    validation = Rule::new("has(self.cluster) == has(oldSelf.cluster) && (!has(self.cluster) || self.cluster == oldSelf.cluster)")
        .message("cluster cannot be changed, because slots that hold data are never moved: create another Datastore"),
)]
pub struct DatastoreSpec {
    /// The engine: Dragonfly, Redis, Valkey, KeyDB, Garnet, or Custom for any other
    /// server. Each has its own image, flags and way to report its thread count.
    pub engine: Engine,
    /// Version the server must report, whole or its beginning (8, 8.0 or 8.0.2).
    /// Chooses the default image's tag too; Dragonfly's and KeyDB's images need all three
    /// numbers, or the beginning of the default's. Any version is accepted if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub version: Option<String>,
    /// Container image, such as redis:8.0; the engine's official one if omitted. It
    /// must hold the engine's server on its PATH (Garnet: /app/GarnetServer).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Threads that serve commands: proactor threads (Dragonfly), I/O threads
    /// including the main one (Redis, Valkey), server threads (KeyDB), worker
    /// threads (Garnet). From 1 to 1024. Read back from the running server and compared.
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// Memory the server may use for data, such as 512Mi or 1Gi: a whole number with
    /// Ki, Mi, Gi or Ti (or k, M, G, T), from 1Mi to 999Ti. 512Mi per thread for
    /// Dragonfly and 1Gi for others if omitted. Dragonfly needs at least 256Mi per
    /// thread. A memory limit in resources must not be below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Memory>,
    /// TCP port it listens on, from 1 to 55535. Defaults to 6379.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 55535))]
    pub port: i32,
    /// The password clients must give. No password if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<SecretKeyReference>,
    /// Encrypted connections. Plain ones if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// A cluster of shards instead of one server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSpec>,
    /// Read-only replicas of the server, each a pod of its own. Ready means that
    /// every one of them is in step with the primary. From 0 to 16, default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub replicas: i32,
    /// The server of engine Custom, which needs it; no other engine has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomSpec>,
    /// How Dragonfly takes scripts and cluster clients, such as
    /// `{emulatedCluster: true, lockOnHashtags: true}` for BullMQ. Engine Dragonfly only;
    /// all of it off if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dragonfly: Option<DragonflySpec>,
    /// Further server arguments, after the operator's own, such as
    /// `["--maxclients", "50000"]`. What the operator declares (threads, memory, port,
    /// persistence) is still verified. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub extra_args: Vec<String>,
    /// Further environment variables of the server, such as `[{name: TZ, value: UTC}]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// CPU and memory of each server container; what is left out is filled in. By
    /// default as many whole CPUs as threads, requests equal to limits, so that a
    /// static CPU manager gives the server CPUs of its own, where a node that
    /// placement selects has room for them beside daemons. Where none has, or none is
    /// there yet, the pod requests one CPU less and the limit stays, so that threads may
    /// equal the CPUs of a node. Memory by default: maxMemory and what the engine itself
    /// needs; a lower limit is refused. A limit that is left out is the default or the
    /// request, whichever is larger; a request that is left out is the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Which nodes it may run on. Nodes labelled `dragstrip.dev/role=server` are preferred if omitted.
    #[serde(default)]
    pub placement: Placement,
    /// Use of Linux's `io_uring`, Dragonfly only: Prefer (where kernel and seccomp
    /// profile allow it), Require (without a seccomp profile, which would forbid it) or
    /// Disable (epoll). Defaults to Prefer.
    #[serde(default)]
    pub io_uring: IoUring,
    /// Whether the server's CPUs are its own, such as `{exclusive: true}`: as many whole CPUs
    /// as threads, or those of resources, which must not be fewer. The observer beside it shares
    /// the node's other CPUs. Not exclusive if omitted.
    // Left out where it is not set, so that the digest of a spec that does not know it stays the same.
    #[serde(default, skip_serializing_if = "CpuSettings::is_unset")]
    pub cpu: CpuSettings,
    /// Labels, annotations, volumes and other settings of its pods, such as
    /// `{annotations: {sidecar.istio.io/inject: "false"}}`. None if omitted.
    #[serde(default, skip_serializing_if = "PodSettings::is_unset")]
    pub pod: PodSettings,
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

impl DatastoreSpec {
    /// Whether one server, which alone serves all slots, says that it is a cluster.
    pub fn emulates_cluster(&self) -> bool {
        self.dragonfly.is_some_and(|dragonfly| dragonfly.emulated_cluster)
    }
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

/// One server of a Datastore that has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its pod.
    pub pod: String,
    /// Where it listens, as host:port.
    pub address: String,
    /// primary, replica, shard or member.
    pub role: String,
    /// Ranges of slots it serves (clusters), such as 0-2047.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// The node it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Identifies its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
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
    /// Every server, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
    /// Remarks that are not faults, such as an engine's licence or what the image's entrypoint
    /// would have added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Ready and Verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests;

//! `Datastore`: an in-memory datastore with its threads and placement.

use crate::{
    defaults::{int, is_default, long},
    observed::{HostTruth, ServerTruth},
    pod::{CpuSettings, HUGEPAGES_MESSAGE, HUGEPAGES_RULE, PodSettings},
    units::{Memory, Period},
};
use k8s_openapi::{
    api::core::v1::{EnvVar, ResourceRequirements, Toleration},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

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

/// The Secret that holds a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyReference {
    /// Name of a Secret in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret. Defaults to password.
    #[serde(default = "default_secret_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_secret_key() -> String {
    "password".to_owned()
}

/// CEL: whether a text can be the value of a label.
const LABEL_VALUE: &str = "self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')";

/// Where pods may run: on nodes that match every field that is set. Nodes with the label
/// `dragstrip.dev/role=server` (or `client`) are preferred, and the taint of that key is tolerated.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Zone, such as us-east-1a: the node label `topology.kubernetes.io/zone`. Any if omitted.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("zone is a label's value, such as us-east-1a: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub zone: Option<String>,
    /// Cluster placement group, such as pg-0123456789abcdef0: the node label
    /// `dragstrip.dev/placement-group`, which you set, or `karpenter.k8s.aws/placement-group-id`. Any
    /// group or none if omitted.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("placementGroup is a label's value, such as pg-0123456789abcdef0: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub placement_group: Option<String>,
    /// Instance type, such as c7gn.16xlarge: the node label `node.kubernetes.io/instance-type`. Any if
    /// omitted.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(LABEL_VALUE).message("instanceType is a label's value, such as c7gn.16xlarge: letters, digits, -, _ and ., of which the first and last are letters or digits"))]
    pub instance_type: Option<String>,
    /// Run on the node of this Datastore in the same namespace. Clients must name their target, and
    /// share its node as with `shareServerNode`. Any node if omitted.
    #[schemars(length(min = 1, max = 45))]
    pub same_node_as: Option<String>,
    /// Labels that a node must have, such as `node.kubernetes.io/instance-type: c7gn.16xlarge`. None if omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints to tolerate besides `dragstrip.dev/role`, such as `{key: dedicated, operator: Exists}`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
}

/// Use of Linux's `io_uring` (Dragonfly only).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IoUring {
    /// Use it if the kernel and the seccomp profile allow it.
    #[default]
    Prefer,
    /// Use it, without a seccomp profile, which would forbid it; never Ready on epoll.
    Require,
    /// Use epoll.
    Disable,
}

/// How Dragonfly treats scripts and cluster clients, such as BullMQ's. All options are off by
/// default, as in Dragonfly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DragonflySpec {
    /// Answer as a cluster of one node (`--cluster_mode=emulated`), for cluster clients. Read back and
    /// compared. Defaults to false.
    #[serde(default)]
    pub emulated_cluster: bool,
    /// Keep all keys of a hashtag, such as {q1}, on one thread (`--lock_on_hashtags`). A script may
    /// then use undeclared keys of that hashtag and blocks no other thread. For BullMQ with queue names
    /// in braces. Defaults to false.
    #[serde(default)]
    pub lock_on_hashtags: bool,
    /// Let scripts use keys that they do not declare (`--default_lua_flags=allow-undeclared-keys`).
    /// Each script then stops all threads. For BullMQ with names without hashtags. Defaults to false.
    #[serde(default)]
    pub allow_undeclared_keys: bool,
}

/// The eviction policy of a server that refuses writes once its memory is full.
pub const NO_EVICTION: &str = "noeviction";

/// When a server forces its append-only file to disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Fsync {
    /// Before it answers a write.
    Always,
    /// Once a second.
    #[default]
    EverySecond,
    /// Never: the kernel writes it when it likes.
    Never,
}

/// What a server writes to disk.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("(self.appendOnly || !has(self.fsync)) && (has(self.snapshotInterval) || !has(self.snapshotChanges))")
        .message("fsync needs appendOnly: true, and snapshotChanges needs snapshotInterval: set those too, or leave these out"),
    validation = Rule::new("!has(self.snapshotInterval) || !self.snapshotInterval.endsWith('ms')")
        .message("snapshotInterval has whole seconds: write it without ms, such as 2s instead of 1500ms"),
)]
pub struct PersistenceSpec {
    /// Append every write to a file (Redis, Valkey, KeyDB, Garnet). Defaults to false.
    #[serde(default)]
    pub append_only: bool,
    /// When the server forces the file of appendOnly to disk: Always (before it answers a write),
    /// EverySecond, or Never (the kernel writes it when it likes; not for Garnet). Defaults to
    /// EverySecond.
    pub fsync: Option<Fsync>,
    /// Time between snapshots of all data, in whole seconds, such as 5m (Redis, Valkey, KeyDB). Dragonfly
    /// takes them at full minutes of the clock, by 1m, 2m, 3m, 4m, 5m, 6m, 10m, 12m, 15m, 20m or 30m. No
    /// snapshots if omitted.
    pub snapshot_interval: Option<Period>,
    /// Take a snapshot only if at least this many keys changed since the last one, at least 1 (Redis,
    /// Valkey, KeyDB). Defaults to 1.
    #[schemars(range(min = 1))]
    pub snapshot_changes: Option<i32>,
}

/// The protocol of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerProtocol {
    /// RESP, as Redis speaks it: the version and the counters are read back.
    #[default]
    Resp,
    /// Anything else over TCP: nothing is read back, and only exec tools can load it.
    Tcp,
}

/// Encryption of connections. The server's certificate comes from a Secret of type
/// kubernetes.io/tls with the keys tls.crt, tls.key and ca.crt, as cert-manager writes it. It must be
/// valid for the host of the Datastore's endpoint, NAME.NAMESPACE.svc, and for clients too if servers
/// connect to each other (a cluster, replicas).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerTls {
    /// Secret with tls.crt, tls.key and ca.crt.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Secret with the clients' tls.crt and tls.key, signed by the same ca.crt. The server then refuses
    /// clients without a certificate. None if omitted.
    #[schemars(length(min = 1, max = 253))]
    pub client_secret_name: Option<String>,
}

/// Where the shards of a cluster run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShardPlacement {
    /// One pod with a container for each server, on the ports `port`, `port` + 1, ...: the shards,
    /// then their replicas.
    #[default]
    OneNode,
    /// A pod for each server, spread over the nodes as evenly as they allow.
    Spread,
}

/// A Redis or Valkey Cluster. `threads`, `maxMemory` and `resources` apply to each server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Number of shards, from 3 to 64, with equal parts of the 16384 slots.
    #[schemars(range(min = 3, max = 64))]
    pub shards: i32,
    /// OneNode (one pod with a container for each server) or Spread (a pod for each server). Defaults
    /// to OneNode.
    #[serde(default)]
    pub placement: ShardPlacement,
    /// Number of replicas of each shard, from 0 to 4, for clients that read from replicas. A replica
    /// never becomes a primary. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4))]
    pub replicas: i32,
}

/// An additional port of a custom server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomPort {
    /// Name of the port, such as peer.
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("a port's name is made of a-z, 0-9 and -, and begins and ends with a letter or digit, such as peer"))]
    pub name: String,
    /// Number of the port, from 1 to 65535, such as 2380.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Any other server. In `command` and `args`, these are replaced: `$(POD_NAME)`, `$(DATASTORE)` (its
/// NAME), `$(ORDINAL)` (from 0), `$(MEMBERS)` (their number), `$(POD_IP)` and `$(SERVICE)` (NAME.NAMESPACE.svc:
/// each member's host is POD_NAME.SERVICE). The members' pods are NAME-0, NAME-1, ... (see
/// status.members). Only /data and /tmp are writable.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomSpec {
    /// The server's program, such as `[etcd]`. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Arguments of the program, such as `["--name=$(POD_NAME)"]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Protocol on `port`: Tcp or Resp. Defaults to Tcp.
    #[serde(default = "tcp")]
    pub protocol: ServerProtocol,
    /// Number of members, each its own pod, spread over the nodes if possible. From 1 to 64, default 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 64))]
    pub members: i32,
    /// Additional ports, such as `[{name: peer, port: 2380}]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub ports: Vec<CustomPort>,
    /// HTTP path that answers 200 on `port` if a member is ready, such as /readyz. Defaults to a check
    /// of the TCP connection.
    #[schemars(length(min = 1, max = 256))]
    pub readiness_path: Option<String>,
    /// User id of the server, not root. Defaults to 65532.
    #[serde(default = "long::<65_532>")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub user: i64,
}

fn tcp() -> ServerProtocol {
    ServerProtocol::Tcp
}

/// An in-memory datastore: an engine, its threads and its placement. It is Ready if its pod is ready
/// and the running server reports what was declared.
#[skip_serializing_none]
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "Datastore",
    plural = "datastores",
    doc = "An in-memory datastore with its threads and placement.",
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
    validation = Rule::new("!has(self.evictionPolicy) || self.evictionPolicy == 'noeviction' || (self.engine == 'Dragonfly' && self.evictionPolicy == 'cache') || (self.engine in ['Redis', 'Valkey', 'KeyDB'] && self.evictionPolicy in ['allkeys-lru', 'allkeys-lfu', 'allkeys-lrm', 'allkeys-random', 'volatile-lru', 'volatile-lfu', 'volatile-lrm', 'volatile-random', 'volatile-ttl'])")
        .message("evictionPolicy is noeviction, for Dragonfly also cache, and for Redis, Valkey and KeyDB also allkeys-lru, allkeys-lfu, allkeys-lrm, allkeys-random, volatile-lru, volatile-lfu, volatile-lrm, volatile-random or volatile-ttl; other engines have no policy"),
    validation = Rule::new("!has(self.persistence) || self.engine != 'Custom'")
        .message("persistence is for engines Redis, Valkey, KeyDB, Dragonfly and Garnet: set that of engine Custom in custom.args"),
    validation = Rule::new("!has(self.persistence) || self.engine != 'Dragonfly' || (!self.persistence.appendOnly && !has(self.persistence.snapshotChanges) && (!has(self.persistence.snapshotInterval) || self.persistence.snapshotInterval in ['1m', '2m', '3m', '4m', '5m', '6m', '10m', '12m', '15m', '20m', '30m']))")
        .message("Dragonfly has snapshots by the clock only: leave out persistence.appendOnly and persistence.snapshotChanges, and set persistence.snapshotInterval to 1m, 2m, 3m, 4m, 5m, 6m, 10m, 12m, 15m, 20m or 30m"),
    validation = Rule::new("!has(self.persistence) || self.engine != 'Garnet' || (!has(self.persistence.snapshotInterval) && (!has(self.persistence.fsync) || self.persistence.fsync != 'Never'))")
        .message("Garnet takes no snapshots by itself, and must commit its append-only file: leave out persistence.snapshotInterval, and set persistence.fsync to Always or EverySecond"),
    validation = Rule::new("!has(self.cluster) || self.engine in ['Redis', 'Valkey']")
        .message("cluster is for engines Redis and Valkey"),
    validation = Rule::new("self.replicas == 0 || self.engine in ['Redis', 'Valkey', 'KeyDB', 'Dragonfly']")
        .message("replicas are for engines Redis, Valkey, KeyDB and Dragonfly"),
    validation = Rule::new("self.replicas == 0 || !has(self.cluster)")
        .message("replicas is for a single server: set cluster.replicas for those of each shard"),
    validation = Rule::new("!has(self.tls) || self.engine in ['Redis', 'Valkey', 'KeyDB', 'Dragonfly', 'Custom']")
        .message("tls is for engines Redis, Valkey, KeyDB, Dragonfly and Custom"),
    validation = Rule::new("!has(self.cluster) || self.port + self.cluster.shards * (1 + self.cluster.replicas) <= 55536")
        .message("port is too high for that many servers: their bus ports are 10000 above"),
    validation = Rule::new("!has(self.cluster) || self.cluster.shards * (1 + self.cluster.replicas) <= 64")
        .message("a cluster has at most 64 servers: fewer shards, or fewer replicas of each"),
    validation = Rule::new("!has(self.maxMemory) || !isQuantity(self.maxMemory) || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !isQuantity(string(self.resources.limits['memory'])) || quantity(string(self.resources.limits['memory'])).compareTo(quantity(self.maxMemory)) >= 0")
        .message("resources.limits.memory is below maxMemory: the server would be killed before it is full; raise the limit above maxMemory, or lower maxMemory"),
    validation = Rule::new(HUGEPAGES_RULE).message(HUGEPAGES_MESSAGE),
    validation = Rule::new("!has(self.pod) || !has(self.pod.volumes) || self.pod.volumes.all(v, v.mountPath != '/data')")
        .message("a volume's mountPath cannot be /data, which the server has already"),
    validation = Rule::new("has(self.cluster) == has(oldSelf.cluster) && (!has(self.cluster) || self.cluster == oldSelf.cluster)")
        .message("cluster cannot be changed, because slots that hold data are never moved: create another Datastore"),
)]
pub struct DatastoreSpec {
    /// The engine: Dragonfly, Redis, Valkey, KeyDB, Garnet, or Custom for any other server.
    pub engine: Engine,
    /// Version that the server must report, or its beginning (8, 8.0 or 8.0.2). It also selects the
    /// tag of the default image; those of Dragonfly and KeyDB need all three numbers, or the beginning
    /// of the default version. Any version if omitted.
    #[schemars(length(min = 1, max = 64))]
    pub version: Option<String>,
    /// Container image with the engine's server on its PATH (Garnet: /app/GarnetServer), such as
    /// redis:8.0. Defaults to the engine's official image.
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Threads that serve commands, from 1 to 1024: proactor threads (Dragonfly), I/O threads and the
    /// main thread (Redis, Valkey), server threads (KeyDB), worker threads (Garnet). Read back from the
    /// running server and compared.
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// Memory for data, such as 512Mi or 1Gi: a whole number with Ki, Mi, Gi or Ti (or k, M, G, T), from
    /// 1Mi to 999Ti. Dragonfly needs at least 256Mi for each thread. A memory limit in resources must
    /// not be below it. Defaults to 512Mi for each thread of Dragonfly, and 1Gi for other engines.
    pub max_memory: Option<Memory>,
    /// What the server does once maxMemory is full. With noeviction it refuses writes. Redis, Valkey and
    /// KeyDB can evict keys instead, by allkeys-lru, allkeys-lfu, allkeys-lrm, allkeys-random,
    /// volatile-lru, volatile-lfu, volatile-lrm, volatile-random or volatile-ttl (as far as the version
    /// knows them); Dragonfly by cache, its cache mode. Evictions are then expected: no run on this
    /// Datastore needs allowEviction. Read back and compared. Defaults to noeviction.
    #[schemars(length(max = 32))]
    pub eviction_policy: Option<String>,
    /// What the server writes to disk, such as `{appendOnly: true, fsync: Always}`. The files are in
    /// /data, an empty directory on the node's disk: a container that restarts reads them again, and they
    /// are deleted with the pod. That disk, and what else uses it, is a part of every figure: compare
    /// only servers on equal disks. Redis, Valkey and KeyDB then need maxMemory twice. Read back and
    /// compared. The server writes nothing if omitted.
    pub persistence: Option<PersistenceSpec>,
    /// TCP port of the server, from 1 to 55535. Defaults to 6379.
    #[serde(default = "int::<6379>")]
    #[schemars(range(min = 1, max = 55535))]
    pub port: i32,
    /// Secret with the password of the server. No password if omitted.
    pub auth_secret_ref: Option<SecretKeyReference>,
    /// Encryption of connections. None if omitted.
    pub tls: Option<ServerTls>,
    /// A cluster of shards. One server if omitted.
    pub cluster: Option<ClusterSpec>,
    /// Number of read-only replicas, each its own pod, from 0 to 16. The Datastore is Ready if all of
    /// them are in sync with the primary. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub replicas: i32,
    /// The server of engine Custom, which needs it. Refused for other engines.
    pub custom: Option<CustomSpec>,
    /// How Dragonfly treats scripts and cluster clients, such as
    /// `{emulatedCluster: true, lockOnHashtags: true}` for BullMQ. Engine Dragonfly only.
    pub dragonfly: Option<DragonflySpec>,
    /// Additional server arguments, after the operator's, such as `["--maxclients", "50000"]`. The
    /// operator still verifies what it sets (threads, memory, port, persistence). None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub extra_args: Vec<String>,
    /// Additional environment variables of the server, such as `[{name: TZ, value: UTC}]`. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// CPU and memory of each server container. Defaults to a CPU for each thread, with requests equal
    /// to limits, so that a static CPU manager assigns exclusive CPUs. If no node that placement
    /// selects has room for them beside daemons, or none exists yet, the pod requests one CPU less and
    /// the limit stays, so that threads can equal the CPUs of a node. Memory defaults to maxMemory and
    /// what the engine needs; a lower limit is refused. An omitted limit is the larger of default and
    /// request; an omitted request is the limit.
    pub resources: Option<ResourceRequirements>,
    /// Nodes for the server. Defaults to any node, with a preference for the label
    /// `dragstrip.dev/role=server`.
    #[serde(default)]
    pub placement: Placement,
    /// Use of Linux's `io_uring`, Dragonfly only: Prefer (if kernel and seccomp profile allow it),
    /// Require (without a seccomp profile, which would forbid it) or Disable (epoll). Defaults to
    /// Prefer.
    #[serde(default)]
    pub io_uring: IoUring,
    /// Exclusive CPUs, such as `{exclusive: true}`: as many as threads, or those of resources, which
    /// must not be fewer. The observer shares the node's other CPUs. Not exclusive if omitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: CpuSettings,
    /// Labels, annotations, volumes and other settings of the server's pods, such as
    /// `{annotations: {sidecar.istio.io/inject: "false"}}`. None if omitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pod: PodSettings,
}

/// The node of a server.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// Name of the node.
    pub name: String,
    /// Label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Placement group, from label `dragstrip.dev/placement-group` or
    /// `karpenter.k8s.aws/placement-group-id`.
    pub placement_group: Option<String>,
    /// CPU capacity.
    pub cpus: Option<i32>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// CPU model, as the observer reads it.
    pub cpu_model: Option<String>,
}

impl DatastoreSpec {
    /// Whether one server reports that it is a cluster.
    pub fn emulates_cluster(&self) -> bool {
        self.dragonfly.is_some_and(|dragonfly| dragonfly.emulated_cluster)
    }

    /// What the server does once its memory is full, as the manifest says it.
    pub fn eviction_policy(&self) -> &str {
        self.eviction_policy.as_deref().unwrap_or(NO_EVICTION)
    }

    /// What the server writes to disk: nothing if the manifest does not declare it.
    pub fn persistence(&self) -> PersistenceSpec {
        self.persistence.clone().unwrap_or_default()
    }
}

impl NodeFacts {
    /// Adds what the observer reads on the machine.
    #[must_use]
    pub fn with_host(mut self, host: &HostTruth) -> Self {
        self.kernel = Some(host.kernel.clone());
        self.cpu_model = Some(host.cpu_model.clone());
        self
    }
}

/// One server of a Datastore that has several.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the pod.
    pub pod: String,
    /// Address, as host:port.
    pub address: String,
    /// primary, replica, shard or member.
    pub role: String,
    /// Ranges of slots in a cluster, such as 0-2047.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// Name of the node.
    pub node: Option<String>,
    /// Identifies the process.
    pub run_id: Option<String>,
}

/// State of a Datastore.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatastoreStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Host and port for clients in the cluster.
    pub endpoint: Option<String>,
    /// What the running server reports.
    pub observed: Option<ServerTruth>,
    /// The node of the server.
    pub node: Option<NodeFacts>,
    /// Name of the server's pod.
    pub pod: Option<String>,
    /// Each of several servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
    /// Notes, such as an engine's licence or what the image's entrypoint would add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Ready and Verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests;

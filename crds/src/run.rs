//! `BenchmarkRun`: phases of load against one target.

mod comparability;
mod measured;
mod memory;
mod search;
mod status;
mod verdict;

pub use comparability::{ComparabilityStatus, Fact};
pub use measured::{
    ConfirmationStatus, CostStatus, Headline, OperationStatus, PhaseStatus, RepetitionStatus, RetryStatus,
    ServerMemoryStatus, TOOL_RATE, ToolStatus,
};
pub use memory::{MemoryMoment, MemoryReading, MemorySpec, SUM};
pub use search::{
    KneeReason, KneeStatus, MOST_POINTS, Raise, SearchPointStatus, SearchSpec, SearchStatus, Until,
};
pub use status::{
    BenchmarkRunStatus, ClockStatus, FailureStatus, NodeStatus, NoiseFigure, NoiseStatus, Progress,
    ProvenanceStatus, QueueStatus, RunPhase, RunReference, SetbackStatus, StartedStatus, TargetStatus,
};
pub use verdict::{
    CheckName, Disturbance, Interval, Level, LimitedBy, Limiter, Requirement, Verdict, VerdictReason,
};

use crate::{
    datastore::{DatastoreSpec, Placement, SecretKeyReference, ServerProtocol},
    defaults::{int, is_default},
    pod::{CpuSettings, HUGEPAGES_MESSAGE, HUGEPAGES_RULE, PodSettings},
    thresholds::Threshold,
    units::{Decimal, Period, Warmup, decimal_between, whole},
    workload::{LoadSpec, ToolSpec},
};
use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A Datastore in the run's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatastoreReference {
    /// Name of the Datastore, such as redis.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Encryption of connections to an external server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTls {
    /// Secret with ca.crt, the authority of the server's certificate. Defaults to the public
    /// authorities; for memtier and exec, those of their image.
    #[schemars(length(min = 1, max = 253))]
    pub ca_secret_name: Option<String>,
    /// Secret with the clients' tls.crt and tls.key. No client certificate if omitted.
    #[schemars(length(min = 1, max = 253))]
    pub client_secret_name: Option<String>,
    /// Name in the server's certificate. Defaults to the host of the address.
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
    /// Accept any certificate. Use it for tests only. Defaults to false.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// A server outside Dragstrip.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!self.cluster || !self.emulatedCluster")
        .message("set only one of cluster and emulatedCluster: an emulated cluster is one server"),
)]
pub struct ExternalTarget {
    /// HOST:PORT, such as `10.0.0.7:6379`, `redis.example.com:6379` or `[fd00::7]:6379`.
    #[schemars(length(min = 3, max = 260))]
    #[x_kube(validation = Rule::new("self.matches('^([A-Za-z0-9.-]+|\\\\[[0-9A-Fa-f:]+\\\\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')")
        .message("address is HOST:PORT with a port from 1 to 65535, such as 10.0.0.7:6379 or [fd00::7]:6379"))]
    pub address: String,
    /// Secret with the password. No password if omitted.
    pub auth_secret_ref: Option<SecretKeyReference>,
    /// ACL user. Defaults to the default user.
    #[schemars(length(min = 1, max = 256))]
    pub username: Option<String>,
    /// Encryption of connections. None if omitted.
    pub tls: Option<ClientTls>,
    /// Protocol of the server: Resp or Tcp. Nothing is read back over Tcp, and only exec tools can
    /// load it. Defaults to Resp.
    #[serde(default)]
    pub protocol: ServerProtocol,
    /// Allow phases with `flush: true` to empty this server. Defaults to false.
    #[serde(default)]
    pub allow_flush: bool,
    /// Whether the server runs in cluster mode. A mismatch fails the run before the load. Defaults
    /// to false.
    #[serde(default)]
    pub cluster: bool,
    /// Whether it is one Dragonfly with `--cluster_mode=emulated`. Defaults to false.
    #[serde(default)]
    pub emulated_cluster: bool,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "TargetFields")]
// A run has one of them.
#[allow(clippy::large_enum_variant)]
pub enum Target {
    /// A Datastore in the same namespace.
    DatastoreRef(DatastoreReference),
    /// A Datastore that is created for this run and removed after it.
    Datastore(DatastoreSpec),
    /// A server outside Dragstrip.
    External(ExternalTarget),
}

const ONE_TARGET: &str = "target needs exactly one of datastoreRef (a Datastore that exists), datastore (made for this run) and external (an address)";

/// What is measured: exactly one of the three.
#[derive(Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.datastoreRef), has(self.datastore), has(self.external)].filter(x, x).size() == 1")
        .message(ONE_TARGET),
)]
struct TargetFields {
    /// A Datastore in the same namespace, such as `{name: redis}`.
    datastore_ref: Option<DatastoreReference>,
    /// A Datastore that is created for this run and removed after it, such as `{engine: Redis, threads: 4}`.
    datastore: Option<DatastoreSpec>,
    /// A server outside Dragstrip, such as `{address: "10.0.0.7:6379"}`.
    external: Option<ExternalTarget>,
}

impl TryFrom<TargetFields> for Target {
    type Error = &'static str;

    fn try_from(fields: TargetFields) -> Result<Self, &'static str> {
        match (fields.datastore_ref, fields.datastore, fields.external) {
            (Some(reference), None, None) => Ok(Self::DatastoreRef(reference)),
            (None, Some(datastore), None) => Ok(Self::Datastore(datastore)),
            (None, None, Some(external)) => Ok(Self::External(external)),
            _ => Err(ONE_TARGET),
        }
    }
}

impl PhaseSpec {
    /// The warm-up in whole seconds if none is declared; `None` for no warm-up.
    pub fn default_warmup_seconds(&self) -> Option<u32> {
        let planned = self.tool.planned_seconds().filter(|_| !matches!(self.tool, ToolSpec::Exec(_)))?;
        // A cold start takes as long for a long load as for a short one, hence the upper limit.
        let tenth = (planned / f64::from(self.tool.stages()) / 10.0).ceil().clamp(1.0, 10.0);
        u32::try_from(whole(tenth)).ok()
    }

    /// The phase without what changes no figure: the headline and the confirming point.
    #[must_use]
    pub fn measured(&self) -> Self {
        Self { headline: None, confirm: false, ..self.clone() }
    }
}

impl Target {
    /// Name of the Datastore, which is that of the `run` if created for it, or the external address.
    pub fn name<'a>(&'a self, run: &'a str) -> &'a str {
        match self {
            Self::DatastoreRef(reference) => &reference.name,
            Self::Datastore(_) => run,
            Self::External(external) => &external.address,
        }
    }

    /// The Datastore that is created for the run.
    pub fn datastore(&self) -> Option<&DatastoreSpec> {
        if let Self::Datastore(datastore) = self { Some(datastore) } else { None }
    }

    /// The server outside Dragstrip.
    pub fn external(&self) -> Option<&ExternalTarget> {
        if let Self::External(external) = self { Some(external) } else { None }
    }
}

/// One step of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.memtier), has(self.bullmq), has(self.loadgen), has(self.exec)].filter(x, x).size() == 1")
        .message("a phase needs exactly one workload: memtier, bullmq, loadgen or exec"),
    validation = Rule::new("!has(self.warmup) || !has(self.exec)")
        .message("warmup is for memtier, bullmq and loadgen: let the tool of exec warm up by itself, or put a phase in front"),
    validation = Rule::new("!has(self.memtier) || !has(self.warmup) || !self.warmup.endsWith('ms')")
        .message("memtier measures whole seconds: write its warmup without ms, such as 2s instead of 1500ms")
        .field_path(".warmup"),
    validation = Rule::new("!has(self.search) || has(self.memtier) || has(self.loadgen) && self.loadgen.client == 'Raw'")
        .message("search raises what memtier, and loadgen with client Raw, send: for bullmq, exec and client libraries declare a phase for each value"),
    validation = Rule::new("!has(self.search) || !has(self.loadgen) || !has(self.loadgen.rate)")
        .message("search sets the rate of an open loop itself, by raise: Rate and by rates: leave loadgen.rate out"),
    validation = Rule::new("!has(self.search) || (has(self.loadgen) ? has(self.loadgen.duration) : !has(self.memtier) || has(self.memtier.testTime))")
        .message("search measures each value for the same time: set loadgen.duration or memtier.testTime"),
    validation = Rule::new("!has(self.search) || !has(self.memtier) || self.search.raise != 'Rate' && !has(self.search.rates)")
        .message("search with raise Rate, or with rates, needs the open loop of loadgen: memtier has none"),
    validation = Rule::new("!has(self.search) || !has(self.memory)")
        .message("memory.settle is for a phase that measures one value: after a search it would be read once for each of its points; declare it on a phase without search"),
    validation = Rule::new("!has(self.search) || self.name.size() <= 16")
        .message("the name of a phase with search has at most 16 characters: its Jobs' names have the number of the point too"),
    validation = Rule::new("!has(self.confirm) || !self.confirm || !has(self.search)")
        .message("confirm is for a phase that measures one value: search measures more connections itself, with raise: Connections; leave one of the two out")
        .field_path(".confirm"),
    validation = Rule::new("!has(self.confirm) || !self.confirm || has(self.memtier) || has(self.loadgen) && self.loadgen.client == 'Raw'")
        .message("confirm doubles the connections of memtier, and of loadgen with client Raw: for bullmq, exec and client libraries leave it out, and declare a phase with more of them")
        .field_path(".confirm"),
    validation = Rule::new("!has(self.confirm) || !self.confirm || (has(self.loadgen) ? !has(self.loadgen.rate) : !has(self.memtier) || !has(self.memtier.rateLimit))")
        .message("confirm is for a closed loop: with loadgen.rate or memtier.rateLimit the load sends no more over twice the connections; leave confirm or the rate out")
        .field_path(".confirm"),
    validation = Rule::new("!has(self.confirm) || !self.confirm || (has(self.loadgen) ? has(self.loadgen.duration) : !has(self.memtier) || has(self.memtier.testTime))")
        .message("confirm measures for up to 10 s, not for a number of requests: set loadgen.duration or memtier.testTime")
        .field_path(".confirm"),
    validation = Rule::new("!has(self.confirm) || !self.confirm || (has(self.loadgen) ? self.loadgen.connectionsPerThread : has(self.memtier) ? self.memtier.connectionsPerThread : 0) <= 5000")
        .message("confirm doubles connectionsPerThread, which is at most 10000: set it to at most 5000, or leave confirm out")
        .field_path(".confirm"),
)]
pub struct PhaseSpec {
    /// Name of the phase, unique in the run, such as read: at most 20 characters of a-z, 0-9 and -,
    /// 16 with search.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("a phase's name is made of a-z, 0-9 and -, and begins and ends with a letter or digit"))]
    pub name: String,
    /// The metric that stands for this phase in kubectl's column, `status.headline` and reports: a
    /// metric of the tool's own by its name in `status.phases[].metrics`, such as add_jobs, a name that
    /// thresholds use, such as P99Milliseconds, or toolOperationsPerSecond for the tool's own rate.
    /// Defaults to the throughput.
    #[schemars(length(min = 1, max = 128))]
    pub headline: Option<String>,
    /// Empty the datastore (FLUSHALL) before this phase. Defaults to false.
    #[serde(default)]
    pub flush: bool,
    /// Write these keys before the load and check that all of them exist. None if omitted.
    pub load: Option<LoadSpec>,
    /// Run the same load for this long before measuring, such as 10s; whole seconds for memtier; 0s for
    /// no warm-up. Defaults to a tenth of the duration, in whole seconds from 1s to 10s, for loadgen,
    /// memtier and bullmq with a duration, and to 0s for loads of a number of requests and for exec.
    /// `status.defaultWarmupSeconds` has the defaults that a run uses.
    pub warmup: Option<Warmup>,
    /// Share of reads that must find their key, from "0" to "1", such as "0.999". A repetition below
    /// it is invalid, since reads that find nothing are cheaper. Not checked if omitted.
    #[x_kube(validation = Rule::new(decimal_between("0.0", "1.0"))
        .message("minimumHitRatio is from 0 to 1, such as \"0.999\""))]
    pub minimum_hit_ratio: Option<Decimal>,
    /// Accept that the server evicts keys during the load, as a cache does that is smaller than its
    /// data. Not needed with a Datastore whose evictionPolicy evicts. Defaults to false: an evicted key
    /// makes the repetition invalid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_eviction: bool,
    /// What the run does if this phase fails: Stop, or Continue with later phases and repetitions.
    /// The run fails in both cases. Defaults to Stop.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// The tool: one of memtier, loadgen, bullmq and exec.
    #[serde(flatten)]
    pub tool: ToolSpec,
    /// Search for the limit of the server with memtier or loadgen, such as
    /// `{raise: Connections, to: 512, until: {p99: 1ms}}`. The phase's figures are those at the value
    /// that was found.
    pub search: Option<SearchSpec>,
    /// After the last repetition, measure once more with twice the connections per thread, for at most
    /// 10 s, to see whose limit the throughput was: the server's, or that of so few connections. For
    /// closed loops of memtier and loadgen with a duration. No figure contains that point. Defaults to
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Read the servers' memory again some time after the phase, such as `{settle: 60s}`. If omitted,
    /// only right after the phase.
    pub memory: Option<MemorySpec>,
}

/// What a run does if a phase fails. The run fails in both cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The run ends.
    #[default]
    Stop,
    /// Later phases and repetitions are measured.
    Continue,
}

/// How client pods are spread over nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientSpread {
    /// As evenly as the nodes allow.
    #[default]
    Preferred,
    /// Evenly, with a difference of at most one; otherwise they wait.
    Required,
    /// One on each node; otherwise they wait.
    OnePerNode,
    /// As the scheduler decides.
    None,
}

/// Run clients near the server: Zone (on nodes of its zone) or PlacementGroup (on nodes of its
/// placement group), by the labels of its node. They wait if it has none. Anywhere if omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Colocate {
    /// The server's zone.
    Zone,
    /// The server's placement group.
    PlacementGroup,
}

/// The client pods.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new(HUGEPAGES_RULE).message(HUGEPAGES_MESSAGE),
)]
pub struct ClientsSpec {
    /// Number of client pods that load the target together, from 1 to 256. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 256))]
    pub pods: i32,
    /// CPU and memory of each client pod, such as `{limits: {cpu: "4", memory: 2Gi}}`. A CPU limit must
    /// be at least the tool's load threads. Defaults to no limits and requests of 100m and 64Mi, or of
    /// a CPU for each load thread but one if an autoscaler must first create a node. Set limits if the
    /// namespace's ResourceQuota requires them.
    pub resources: Option<ResourceRequirements>,
    /// Nodes for the clients: never one with a Dragstrip server, unless shareServerNode is true.
    /// Defaults to any node, with a preference for the label `dragstrip.dev/role=client`.
    #[serde(default)]
    pub placement: Placement,
    /// Run clients near the server: Zone (on nodes of its zone) or PlacementGroup (on nodes of its
    /// placement group), by the labels of its node. They wait if it has none. Anywhere if omitted.
    pub colocate: Option<Colocate>,
    /// Spread of the clients over those nodes: Preferred (as evenly as the nodes allow), Required
    /// (evenly, or they wait), OnePerNode (one on each node, or they wait) or None (as the scheduler
    /// decides). Defaults to Preferred.
    #[serde(default)]
    pub spread: ClientSpread,
    /// Let clients run on the server's node, for clusters of one machine. Clients and server then
    /// compete for its CPUs. Defaults to false: clients avoid every node with a Dragstrip server.
    #[serde(default)]
    pub share_server_node: bool,
    /// Exclusive CPUs, such as `{exclusive: true}`: as many as the tool has load threads, or those of
    /// resources, which must not be fewer and which exec phases need. Not exclusive if omitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: CpuSettings,
    /// Labels, annotations, volumes and other settings of the client pods, such as
    /// `{annotations: {sidecar.istio.io/inject: "false"}}`. None if omitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pod: PodSettings,
}

impl Default for ClientsSpec {
    fn default() -> Self {
        Self {
            pods: 1,
            resources: None,
            placement: Placement::default(),
            colocate: None,
            spread: ClientSpread::default(),
            share_server_node: false,
            cpu: CpuSettings::default(),
            pod: PodSettings::default(),
        }
    }
}

impl ClientsSpec {
    /// Whether clients may run on the server's node.
    pub fn share_node(&self) -> bool {
        self.share_server_node || self.placement.same_node_as.is_some()
    }
}

/// CEL: whether `path` is a duration. The type's own rule refuses other texts.
fn is_duration(path: &str) -> String {
    format!("{path}.matches('^([0-9]+(h|ms|m|s))+$')")
}

/// CEL: the phases declare no more load than `timeout` allows; numbers of requests count nothing.
fn timeout_rule() -> String {
    let seconds = |present: &str, path: &str| {
        format!("({present} && {} ? duration({path}).getSeconds() : 0)", is_duration(path))
    };
    let declared = [
        seconds("has(p.warmup)", "p.warmup"),
        seconds("has(p.memtier) && has(p.memtier.testTime)", "p.memtier.testTime"),
        seconds("has(p.loadgen) && has(p.loadgen.duration)", "p.loadgen.duration"),
        seconds("has(p.bullmq)", "p.bullmq.duration"),
        seconds("has(p.exec) && has(p.exec.duration)", "p.exec.duration"),
    ];
    let settle = seconds("has(p.memory)", "p.memory.settle");
    // As BullmqSpec::stages: the readers load after the writers, for as long.
    let stages = "(has(p.bullmq) && p.bullmq.mode == 'Published' && p.bullmq.writers > 0 && p.bullmq.readers > 0 ? 2 : 1)";
    format!(
        "!{} || self.phases.map(p, ({}) * {stages} + {settle}).sum() * self.repetitions <= duration(self.timeout).getSeconds()",
        is_duration("self.timeout"),
        declared.join(" + ")
    )
}

fn default_timeout() -> Period {
    Period::from_minutes(30)
}

/// A benchmark: a sequence of phases of load against one target, repeated `repetitions` times. After
/// the run has started, only `cancel` and `ttlAfterFinished` can change.
#[skip_serializing_none]
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "dragstrip.dev",
    version = "v1alpha1",
    kind = "BenchmarkRun",
    plural = "benchmarkruns",
    doc = "Phases of load against one target, with measurements and a verdict.",
    namespaced,
    status = "BenchmarkRunStatus",
    derive = "PartialEq",
    shortname = "run",
    category = "dragstrip",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Target", type_ = "string", json_path = ".status.target.name"),
    // What a run of a suite measures.
    printcolumn(name = "Combination", type_ = "string", json_path = ".metadata.annotations.dragstrip\\.dev/cell-in-words"),
    printcolumn(name = "Done", type_ = "integer", json_path = ".status.progress.measured"),
    printcolumn(name = "Of", type_ = "integer", json_path = ".status.progress.total"),
    printcolumn(name = "Ops/s", type_ = "integer", json_path = ".status.headline.throughput"),
    printcolumn(name = "p99 us", type_ = "integer", json_path = ".status.headline.p99LatencyMicroseconds"),
    printcolumn(name = "Metric", type_ = "string", json_path = ".status.headline.metric"),
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict"),
    printcolumn(name = "Limited by", type_ = "string", json_path = ".status.headline.limiter", priority = 1),
    printcolumn(name = "Passed", type_ = "string", json_path = ".status.conditions[?(@.type==\"Passed\")].status"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    // The operator watches only the runs that have not finished and those that it is to remove.
    selectable = ".status.finishedAt",
    selectable = ".spec.ttlAfterFinished",
    // The end of a run reads the namespace's calibrations.
    selectable = ".spec.calibrate",
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,31}[a-z0-9])?$')")
        .message("metadata.name must be at most 33 characters of a-z, 0-9 and -: the Jobs' names are made from it"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.startedAt) || (self.spec.target == oldSelf.spec.target && self.spec.phases == oldSelf.spec.phases && self.spec.repetitions == oldSelf.spec.repetitions && self.spec.maxRetries == oldSelf.spec.maxRetries && self.spec.clients == oldSelf.spec.clients && self.spec.timeout == oldSelf.spec.timeout && (has(self.spec.requirements) ? self.spec.requirements : []) == (has(oldSelf.spec.requirements) ? oldSelf.spec.requirements : []) && (has(self.spec.thresholds) ? self.spec.thresholds : []) == (has(oldSelf.spec.thresholds) ? oldSelf.spec.thresholds : []) && (has(self.spec.headline) ? self.spec.headline : '') == (has(oldSelf.spec.headline) ? oldSelf.spec.headline : '') && (has(self.spec.calibrate) && self.spec.calibrate) == (has(oldSelf.spec.calibrate) && oldSelf.spec.calibrate))")
        .message("the run has started: only cancel and ttlAfterFinished may change; make a new BenchmarkRun for other settings"),
)]
#[cfg_attr(any(test, feature = "cel"), kube(cel))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.target.external) || self.target.external.allowFlush || self.phases.all(p, !p.flush)")
        .message("flush: true would empty an external server: set target.external.allowFlush: true if that is meant"),
    validation = Rule::new("!has(self.target.external) || self.target.external.protocol == 'Resp' || self.phases.all(p, has(p.exec) && !p.flush && !has(p.load) && !has(p.memory))")
        .message("a target with protocol Tcp can only be loaded by exec phases, without flush, load and memory"),
    validation = Rule::new("!has(self.clients) || !has(self.clients.placement) || !has(self.clients.placement.sameNodeAs) || !has(self.target.external) && (!has(self.target.datastoreRef) || self.target.datastoreRef.name == self.clients.placement.sameNodeAs)")
        .message("clients share a node with the Datastore that they load and with no other: name the target in clients.placement.sameNodeAs, or leave it out")
        .field_path(".clients"),
    validation = Rule::new("!has(self.clients) || !has(self.clients.colocate) || !has(self.target.external)")
        .message("clients.colocate needs a Datastore as target: nobody knows the node of an external server; declare clients.placement")
        .field_path(".clients"),
    validation = Rule::new("!has(self.calibrate) || !self.calibrate || self.repetitions >= 3")
        .message("calibrate: true needs repetitions: 3 or more: fewer say nothing of how equal runs differ")
        .field_path(".repetitions"),
    validation = Rule::new("!has(self.headline) || self.phases.exists(p, p.name == self.headline)")
        .message("headline names no phase of this run: write the name of one of phases, or leave it out for the last with a throughput")
        .field_path(".headline"),
    validation = Rule::new("!has(self.thresholds) || self.thresholds.all(t, !has(t.phase) || self.phases.exists(p, p.name == t.phase))")
        .message("a threshold names no phase of this run: write the name of one of phases, or leave phase out for all of them")
        .field_path(".thresholds"),
    validation = Rule::new("!has(self.thresholds) || self.thresholds.all(t, !has(t.relativeTo) || t.relativeTo == 'Nothing')")
        .message("a run has no baseline: leave relativeTo out, or make a BenchmarkSuite with a baseline")
        .field_path(".thresholds"),
    validation = Rule::new("!has(self.thresholds) || self.thresholds.all(t, !has(t.variant) && !has(t.values) && !has(t.times))")
        .message("a run has no variants to compare: leave variant, values and times out, or make a BenchmarkSuite")
        .field_path(".thresholds"),
    validation = Rule::new(timeout_rule())
        .message(Message::Expression("'timeout is ' + self.timeout + ', shorter than the declared load (warmup, duration and settle time of all phases, times repetitions; of bullmq in mode Published with readers twice, since they load after the writers): raise timeout, or measure less'".into()))
        .field_path(".timeout"),
)]
pub struct BenchmarkRunSpec {
    /// The server to measure, such as `{datastoreRef: {name: redis}}`.
    pub target: Target,
    /// From 1 to 32 phases, which run in this order, such as `[{name: read, loadgen: {duration: 60s}}]`.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.all(p, self.exists_one(q, q.name == p.name))")
        .message("phase names must be unique within a run"))]
    pub phases: Vec<PhaseSpec>,
    /// How often to measure the sequence of phases, from 1 to 99. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 99))]
    pub repetitions: i32,
    /// How often to measure a repetition again, from its first phase, after it lost a client pod or
    /// its node. The lost measurement is stored as invalid and is in no sum. Other failures end the
    /// run. From 0 to 9, default 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 0, max = 9))]
    pub max_retries: i32,
    /// The client pods. Defaults to one, on any node without a server.
    #[serde(default)]
    pub clients: ClientsSpec,
    /// Longest time that the run may take, such as 30s, 5m or 1h30m, without the wait for other runs.
    /// At least the warmup, duration and settle time of all phases times repetitions; bullmq in mode
    /// Published with readers counts warmup and duration twice, and a search, which takes up to 24
    /// times as long, counts one point, and the point of `confirm` counts nothing. A warm-up by default
    /// takes its time too, but nothing checks that before the run. Defaults to 30m.
    #[serde(default = "default_timeout")]
    pub timeout: Period,
    /// Levels and limits of checks, such as
    /// `[{check: ForeignLoad, level: Ignore}, {check: HighVariance, level: Required, limit: "0.02"}]`.
    /// Other checks make the verdict Degraded at their default limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["check".into()]))]
    pub requirements: Vec<Requirement>,
    /// Measure how much equal measurements differ: later runs of the same load in this namespace, on the
    /// same engine and kind of machines, show it in `status.noise` until this run is deleted. Several
    /// such runs with a server each also show how much its starts differ. Needs at least 3
    /// repetitions. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibrate: bool,
    /// Limits of the figures, such as `[{metric: P99Milliseconds, phase: read, maximum: "1.2"}]`. If a
    /// figure exceeds one, the condition Passed is False and names it. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub thresholds: Vec<Threshold>,
    /// The phase whose figures kubectl's columns and `status.headline` show. Defaults to the last
    /// measured phase with a throughput or with the metric that it declares as its headline.
    #[schemars(length(min = 1, max = 20))]
    pub headline: Option<String>,
    /// Remove the run this long after it finished, such as 24h. Never if omitted.
    pub ttl_after_finished: Option<Period>,
    /// Stop the run and keep its results. Defaults to false.
    #[serde(default)]
    pub cancel: bool,
}

#[cfg(test)]
mod tests;

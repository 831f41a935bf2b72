//! Verdicts: whether a number can be trusted, and what limited it, in spec and status.
//! docs/verdicts.md explains each check.

use crate::units::Decimal;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Whether a number can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// No check found a problem.
    Valid,
    /// Use it with the reasons in mind.
    Degraded,
    /// Do not use it.
    Invalid,
}

/// A check, named after the problem that it finds. Those from [`SameZone`](Self::SameZone) on are
/// conditions of the run, named after what must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum CheckName {
    /// The server answered with errors.
    ErrorReplies,
    /// The server counted other commands than the tool.
    CountMismatch,
    /// The server was restarted or replaced, or clients loaded different servers.
    ServerRestarted,
    /// The server evicted keys for memory.
    Evictions,
    /// Keys of `load` are missing.
    MissingKeys,
    /// Jobs are missing in the queues after the load.
    MissingJobs,
    /// Fewer reads found their key than `minimumHitRatio`.
    LowHitRatio,
    /// The clients did not start together.
    StartSkew,
    /// The clients did not load together for most of their time.
    ShortOverlap,
    /// The measured window is too short, or shorter than declared.
    ShortWindow,
    /// A load thread used nearly all of its CPU.
    ClientSaturated,
    /// An open loop sent its requests late.
    ScheduleLag,
    /// The server did not follow an open loop's rate.
    RateNotKept,
    /// A client's CPU limit throttled it.
    ClientThrottled,
    /// The server's CPU limit throttled it.
    ServerThrottled,
    /// Threads of the server waited for a CPU.
    ServerPressure,
    /// The hypervisor gave a machine's CPU time to others.
    Steal,
    /// Other processes used CPUs of a client's or the server's machine.
    ForeignLoad,
    /// Nearly all reads found no key.
    ReadsMiss,
    /// Throughput times latency differs from the number of requests in flight.
    LittleLawViolated,
    /// Repetitions differ too much.
    HighVariance,
    /// A client or the server read memory back from disk.
    MemoryPressure,
    /// Throughput rose or fell while it was measured.
    NotSteady,
    /// Clients and server shared a machine.
    SharedNode,
    /// Clients and server are in different zones or placement groups, or the clients
    /// have fewer CPUs than the server has threads.
    PlacementNotAsDeclared,
    /// Clients and servers are in one zone.
    SameZone,
    /// Clients and servers are in one placement group.
    SamePlacementGroup,
    /// The clients' nodes are stronger than the servers'.
    ClientStronger,
    /// No client shares a machine with a server.
    DistinctNodes,
    /// The servers, and clients that request exclusive CPUs, have exclusive CPUs.
    ExclusiveCPUs,
    /// The server uses Linux's `io_uring`.
    IoUring,
    /// The server runs with the declared threads.
    ThreadsAsRequested,
}

impl CheckName {
    /// The checks that are conditions of the run, with the condition's type.
    pub const CONDITIONS: [(Self, &'static str); 7] = [
        (Self::SameZone, "SameZone"),
        (Self::SamePlacementGroup, "SamePlacementGroup"),
        (Self::ClientStronger, "ClientStronger"),
        (Self::DistinctNodes, "DistinctNodes"),
        (Self::ExclusiveCPUs, "ExclusiveCPUs"),
        (Self::IoUring, "IoUring"),
        (Self::ThreadsAsRequested, "ThreadsAsRequested"),
    ];
}

/// What a finding of a check does to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// A finding, or a check that cannot be made, makes the repetition Invalid: the run fails.
    Required,
    /// The repetition is Degraded.
    Warn,
    /// The check is off.
    Ignore,
}

/// Level and limit of a check.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!(self.check in ['ErrorReplies', 'CountMismatch', 'ServerRestarted', 'Evictions', 'MissingKeys', 'MissingJobs', 'LowHitRatio'])")
        .message("this check always fails the run and has no level: use the phase's allowEviction for evictions, its minimumHitRatio for the hit ratio, and counterCheck of exec for the comparison of counts"),
)]
pub struct Requirement {
    /// The check, here with its default limit: StartSkew (1 second), ShortOverlap (0.95 of the longest
    /// client's window), ShortWindow (3 seconds), ClientSaturated (0.85 of the time of a load thread),
    /// ScheduleLag (0.2 of the p99 of latency), RateNotKept (0.995 of the requests in time), ClientThrottled and
    /// ServerThrottled (0.01 of the window), ServerPressure (0.1 of the window), Steal (0.02 of the time of a container's CPUs), ForeignLoad
    /// (0.1 of a container's CPUs), ReadsMiss (0.01 of the reads find their key), LittleLawViolated (0.1 off),
    /// HighVariance (0.05, coefficient of variation), MemoryPressure (10 major page faults per second),
    /// NotSteady (0.1 of the mean over the window), SharedNode and PlacementNotAsDeclared (no limit).
    /// The conditions SameZone, SamePlacementGroup, ClientStronger, DistinctNodes, ExclusiveCPUs,
    /// IoUring and ThreadsAsRequested are named after what must hold, have no limit, and are checked
    /// only if named here: Required fails the run before the load if one does not hold or is unknown.
    pub check: CheckName,
    /// Required (the run fails if the check finds a problem or cannot be made), Warn (it makes the verdict Degraded) or Ignore (the check is
    /// off). Defaults to Warn.
    #[serde(default = "default_level")]
    pub level: Level,
    /// The limit in the check's unit, such as "0.05". Defaults to the check's.
    pub limit: Option<Decimal>,
}

fn default_level() -> Level {
    Level::Warn
}

/// What happened to throughput in a part of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Disturbance {
    /// Less than half of the usual operations.
    Stall,
    /// A start that was slower than the rest.
    ColdStart,
    /// Another level than in the rest.
    OtherLevel,
    /// A steady rise or fall.
    Trend,
}

/// A part of the measured time, in seconds since the load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interval {
    /// What happened: Stall, ColdStart, OtherLevel or Trend.
    pub disturbance: Disturbance,
    /// Its begin.
    pub from_second: u32,
    /// Its end.
    pub to_second: u32,
}

/// Why a verdict is not Valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerdictReason {
    /// The check's name, or another constant in UpperCamelCase.
    pub reason: String,
    /// The verdict: Degraded or Invalid.
    pub verdict: Verdict,
    /// The evidence in one sentence, with the figure and its limit.
    pub message: String,
    /// The parts of the measured time in which NotSteady found something; of many stalls the first 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// What limited the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Limiter {
    /// The server's CPUs.
    Server,
    /// The clients' CPUs.
    Client,
    /// Both sides' CPUs, about equally: with stronger clients the server might do more.
    Both,
    /// The network between them.
    Network,
    /// The declared rate of the load.
    Rate,
    /// The number of the clients' connections: with twice as many the server did more.
    Connections,
    /// No bottleneck was found.
    NothingFound,
    /// The server looked busy, but its CPU time contains waiting for work, and nothing else was at its
    /// limit: the evidence does not show whether the server had room.
    Unknown,
}

/// What limited the throughput, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitedBy {
    /// Server, Client, Both, Network, Rate, Connections, NothingFound or Unknown.
    pub by: Limiter,
    /// The evidence in one sentence.
    pub evidence: String,
}

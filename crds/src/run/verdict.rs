//! Whether a number may be believed, and what limited it: the words for it in spec
//! and status. docs/verdicts.md says what each check rests on.

use crate::units::Decimal;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a number may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// Every check that could be made found nothing wrong.
    Valid,
    /// It may be used, with what its reasons say in mind.
    Degraded,
    /// It must not be used.
    Invalid,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A check, named as the bad state that it finds; those from [`SameZone`](Self::SameZone)
/// on are conditions of the run, named as what is to hold.
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
    /// Keys of `load` are not there.
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
    /// A load thread had hardly a moment to spare.
    ClientSaturated,
    /// An open loop sent its requests late.
    ScheduleLag,
    /// The server did not follow an open loop's rate.
    RateNotKept,
    /// A client's CPU limit held it back.
    ClientThrottled,
    /// The server's CPU limit held it back.
    ServerThrottled,
    /// The hypervisor gave CPU time of a machine to others.
    Steal,
    /// Others used the CPUs of a client's or the server's machine.
    ForeignLoad,
    /// The cloud's network held packets of a machine back.
    NetworkAllowanceExceeded,
    /// Throughput times latency is not the number of requests in flight.
    LittleLawViolated,
    /// Repetitions differ too much.
    HighVariance,
    /// A client or the server had to read memory back from disk.
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
    /// The servers, and clients that ask for whole CPUs, have CPUs of their own.
    ExclusiveCPUs,
    /// The server uses Linux's `io_uring`.
    IoUring,
    /// The server runs with the declared threads.
    ThreadsAsRequested,
}

impl CheckName {
    /// Those that are conditions of the run, with the condition's type.
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

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a check's finding does to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// The repetition is Invalid and the run fails.
    Required,
    /// The repetition is Degraded.
    Warn,
    /// The check is not made.
    Ignore,
}

/// How strict one check is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!(self.check in ['ErrorReplies', 'CountMismatch', 'ServerRestarted', 'Evictions', 'MissingKeys', 'MissingJobs', 'LowHitRatio'])")
        .message("this check always fails the run and has no level: eviction is allowed by the phase's allowEviction, the hit ratio set by its minimumHitRatio, the comparison of counts left out by counterCheck of exec"),
)]
pub struct Requirement {
    /// The check, with its limit's unit and default: StartSkew (1 second), ShortOverlap
    /// (0.95 of the longest client's window), ShortWindow (3 seconds), ClientSaturated (0.85 of
    /// a CPU per load thread), ScheduleLag (0.001 seconds, 99th percentile), RateNotKept (0.99
    /// of the rate), ClientThrottled and ServerThrottled (0.01 of the window), Steal (0.02 of
    /// the machine's CPU time), ForeignLoad (0.1 of the machine's CPUs),
    /// NetworkAllowanceExceeded (0 packets), LittleLawViolated (0.1 off), HighVariance (0.05,
    /// coefficient of variation), MemoryPressure (10 major page faults per second), NotSteady
    /// (0.1 of the mean over the window), SharedNode and PlacementNotAsDeclared (no limit). The conditions SameZone,
    /// SamePlacementGroup, ClientStronger, DistinctNodes, ExclusiveCPUs, IoUring and
    /// ThreadsAsRequested are named as what is to hold, have no limit, and are checked only
    /// where they are named here: Required fails the run before load where one does not
    /// hold or is unknown.
    pub check: CheckName,
    /// Required (a finding fails the run), Warn (it makes the verdict Degraded) or Ignore (it is not made; the word is not Off, which YAML reads as false).
    /// Defaults to Warn.
    #[serde(default = "default_level")]
    pub level: Level,
    /// The limit, such as "0.05", in the check's unit. The check's default if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Decimal>,
}

fn default_level() -> Level {
    Level::Warn
}

/// Why a verdict is not Valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerdictReason {
    /// A constant in UpperCamelCase: the check's name, or what failed otherwise.
    pub reason: String,
    /// What it makes of the number: Degraded or Invalid.
    pub verdict: Verdict,
    /// The evidence in one sentence, with the figure and its limit.
    pub message: String,
}

/// What kept throughput from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Limiter {
    /// The server's CPUs.
    Server,
    /// The clients' CPUs.
    Client,
    /// The network between them.
    Network,
    /// The rate that the load declares.
    Rate,
    /// None of them was seen at its limit.
    NothingFound,
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What limited the throughput.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitedBy {
    /// Server, Client, Network, Rate or NothingFound.
    pub by: Limiter,
    /// The evidence in one sentence.
    pub evidence: String,
}

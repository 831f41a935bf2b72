//! Search for the limit of a server: what a phase declares and what it found.

use super::verdict::Verdict;
use crate::{
    defaults::{long, yes},
    measured::LatencySummary,
    units::{Decimal, LatencyBound, decimal_between, decimal_in},
    workload::ArrivalSchedule,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Most doublings from `from` to `to`.
pub const MOST_DOUBLINGS: u32 = 19;
/// Most points of a search: `from`, its doublings, the halvings, and the repeated measurements.
pub const MOST_POINTS: u32 = 1 + MOST_DOUBLINGS + HALVINGS + REPEATS;
/// Halvings until an interval between a value and its double is at most a tenth of the value.
const HALVINGS: u32 = 4;
/// Measurements that confirm values, and those near the knee.
const REPEATS: u32 = 14;
/// Most measurements of one value that is the only one.
const CONFIRMATIONS: u32 = 2;
/// Largest value of a search: a rate far beyond any server.
const LARGEST_VALUE: i64 = 1_000_000_000;

/// What a search raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Raise {
    /// `connectionsPerThread`.
    Connections,
    /// Operations per second of all client pods together, in an open loop.
    Rate,
    /// `pipeline`.
    Pipeline,
    /// `clients.pods`.
    Pods,
}

impl Raise {
    /// What a value counts, for people.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Connections => "connections per thread",
            Self::Rate => "operations/s",
            Self::Pipeline => "requests in flight per connection",
            Self::Pods => "client pods",
        }
    }
}

/// How far a search goes: exactly one of the three.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.p99), has(self.gain), has(self.serverCpus)].filter(x, x).size() == 1")
        .message("until needs exactly one of p99 (the longest latency allowed), gain (the least that doubling must add) and serverCpus (the most CPUs that the servers may use)"),
)]
pub struct Until {
    /// Find the largest value with a 99th percentile of latency of at most this, such as 1ms or 500us.
    pub p99: Option<LatencyBound>,
    /// Find the smallest value from which two doublings add less than this share of throughput each,
    /// from "0.001" to "1", such as "0.02". With `raise: Rate`, find the largest rate that the server
    /// follows, whatever the share.
    #[x_kube(validation = Rule::new(decimal_between("0.001", "1.0"))
        .message("gain is from 0.001 to 1, such as \"0.02\""))]
    pub gain: Option<Decimal>,
    /// Find the largest value at which all servers together use at most this many CPUs, from "0.01" to
    /// "100000", such as "0.7" (70% of a server with one thread) or "5.6" (70% of one with 8). It needs
    /// servers whose usage is measured, such as those of a Datastore; `points[].serverCpus` has it.
    #[x_kube(validation = Rule::new(decimal_between("0.01", "100000.0"))
        .message("serverCpus is a number of CPUs from 0.01 to 100000, such as \"0.7\""))]
    pub server_cpus: Option<Decimal>,
}

/// Search for the limit of a server: double one value until it breaks a bound, halve the interval
/// until it is at most a tenth of the value, then measure near the bound and fit the limit through
/// all measurements. A value that decides is measured twice, a third time if the two disagree. Each
/// measurement is made as the phase declares, by its own Job: usually about 20, and at most 38 in
/// each repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.to >= self.from")
        .message("search.to must not be below search.from"),
    validation = Rule::new(format!("self.to <= self.from * {}", 1_u64 << MOST_DOUBLINGS))
        .message("search.to is more than 524288 times search.from, which takes more than 19 doublings: raise from or lower to"),
    validation = Rule::new("self.raise == 'Rate' || self.to <= (self.raise == 'Pods' ? 256 : 10000)")
        .message("search.to is at most 256 for Pods, and 10000 for Connections and Pipeline"),
)]
pub struct SearchSpec {
    /// The value to raise: Connections (`connectionsPerThread`), Rate (operations per second of all
    /// client pods together in an open loop, loadgen only), Pipeline or Pods.
    pub raise: Raise,
    /// First value. Defaults to 1.
    #[serde(default = "long::<1>")]
    #[schemars(range(min = 1, max = LARGEST_VALUE))]
    pub from: i64,
    /// Last value allowed, such as 512; at most 524288 times `from`.
    #[schemars(range(min = 1, max = LARGEST_VALUE))]
    pub to: i64,
    /// The bound, such as `{p99: 1ms}`, `{gain: "0.02"}` or `{serverCpus: "0.7"}`.
    pub until: Until,
    /// Afterwards, measure latency in an open loop at these shares of the throughput that was found,
    /// such as `["0.5", "0.7", "0.9"]`: at most 8, loadgen only. None if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new(format!("self.all(r, {})", decimal_in("r", "0.01", "1.0")))
        .message("rates are shares from 0.01 to 1, such as [\"0.5\", \"0.7\", \"0.9\"]"))]
    pub rates: Vec<Decimal>,
    /// Schedule of the open loops of `raise: Rate` and `rates`: Fixed (equal intervals) or Poisson (as
    /// independent users would send). Defaults to Fixed.
    #[serde(default)]
    pub arrival: ArrivalSchedule,
}

impl SearchSpec {
    /// Most measurements of this search, without those at shares.
    pub fn most_points(&self) -> u32 {
        let mut doublings = 0;
        while doublings < MOST_DOUBLINGS && self.from.saturating_mul(1 << doublings) < self.to {
            doublings += 1;
        }
        1 + doublings + if doublings == 0 { CONFIRMATIONS } else { HALVINGS + REPEATS }
    }

    /// Most client pods that this search uses in a phase with `pods`.
    pub fn most_pods(&self, pods: i32) -> i32 {
        if self.raise == Raise::Pods { i32::try_from(self.to).unwrap_or(i32::MAX) } else { pods }
    }
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KneeReason {
    /// The next value's p99 was above the bound.
    P99,
    /// At the next value, the servers used more CPUs than the bound.
    ServerCPUs,
    /// Doubling the value added less throughput than the bound asks for.
    Gain,
    /// The server did not follow the next rate: it answered less than 99.5% of the requests in time, or left
    /// some unanswered.
    NotFollowed,
    /// The search reached `to` within the bound.
    Limit,
}

/// The value that was found, one of those measured.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KneeStatus {
    /// The repetition that found it; omitted for all of them together.
    pub repetition: Option<u32>,
    /// The value, in the unit of what was raised: the median of several repetitions, or the lower of
    /// two.
    pub value: u64,
    /// Lower end of the knee's 95 % confidence interval, or for `gain` the smallest value from which
    /// measurements contradict each other; the smallest of all repetitions.
    pub low: u64,
    /// Upper end of that interval, the largest of all repetitions.
    pub high: u64,
    /// Throughput at the value, in operations per second, mean over repetitions.
    pub operations_per_second: f64,
    /// 99th percentile of latency at the value, in milliseconds, from the merged histogram.
    pub p99_milliseconds: Option<f64>,
    /// Why the search ended.
    pub why: KneeReason,
}

/// One measurement of a value.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchPointStatus {
    /// The repetition.
    pub repetition: u32,
    /// The value, in the unit of what is raised; in `rates` the target rate in operations per second.
    pub value: u64,
    /// In `rates` only: the target rate as a share of the throughput that the repetition found, from 0 to 1.
    pub share: Option<f64>,
    /// Throughput, in operations per second.
    pub operations_per_second: f64,
    /// Latency; with a target rate from the instant at which each request was due.
    pub latency_milliseconds: LatencySummary,
    /// CPUs that all servers together used; omitted if nothing could measure it.
    pub server_cpus: Option<f64>,
    /// Whether the server followed an open loop: it answered at least 99.5% of the requests in time, and
    /// none was unanswered at the end.
    #[serde(default = "yes")]
    pub followed: bool,
    /// Whether the figures can be trusted.
    pub verdict: Option<Verdict>,
    /// ConfigMap with the full result.
    pub config_map: String,
}

/// What a search found. The figures of its phase are those of the knee.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchStatus {
    /// What was raised.
    pub raise: Raise,
    /// Every measurement, by repetition and value; if there are very many, those of the first
    /// repetitions.
    pub points: Vec<SearchPointStatus>,
    /// The value that was found; omitted until the search ends, and if the first value was beyond
    /// the bound.
    pub knee: Option<KneeStatus>,
    /// The value that each of several repetitions found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_repetition: Vec<KneeStatus>,
    /// Latency at shares of the throughput that was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<SearchPointStatus>,
}

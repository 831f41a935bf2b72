//! What all pods of one repetition measured together, and how it was checked.

use super::{
    CpuSetRecord, EnvironmentRecord, Failure, NodeRecord, Operation, PodResult, ServerRecord, TOTAL,
    search::SearchPoint,
};
use crate::measured::{
    histogram::EncodedHistogram, hit_series::HitSeries, latency_series::PercentileSeries, usage::ServerUsage,
};
use dragstrip_crds::{
    measured::{BatchStatistics, Metric, ScheduleRecord},
    run::{LimitedBy, MemoryReading, Verdict, VerdictReason},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whether a check was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckState {
    /// It was made, and found nothing wrong.
    Passed,
    NotMade,
}

/// One way in which a repetition's numbers were checked, or could not be; a finding is a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The check, by the name of the bad state that it finds, such as CountMismatch.
    pub name: String,
    pub state: CheckState,
    /// Why it could not be, or what part of it was.
    pub why: Option<String>,
}

/// One repetition of one phase over all its pods: what the run's ConfigMaps hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepetitionResult {
    pub phase: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Length of the window in which every client was active, in seconds.
    pub window_seconds: f64,
    /// Per operation, `TOTAL` last; without a total if operations have no sum.
    pub operations: Vec<Operation>,
    /// Which measurement of this repetition it is, from 1: more than 1 after one was lost.
    pub measurement: u32,
    /// From the first pod's start of load to the last one's, in seconds, clock offsets taken out.
    pub start_skew_seconds: f64,
    /// Share of reads that found their key, from 0 to 1; absent without reads.
    pub hit_ratio: Option<f64>,
    /// Figures of the tool's own, joined over pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Timed batches; of one client pod only.
    pub batches: Option<BatchStatistics>,
    /// An open loop's schedule, added up over pods.
    pub schedule: Option<ScheduleRecord>,
    /// How long after they were due its requests were sent, in microseconds: all of them merge exactly.
    pub schedule_lag: Option<EncodedHistogram>,
    /// The 99th percentile of latency by the second; absent if a client's tool does not report it.
    pub p99_series: Option<PercentileSeries>,
    /// What the reads found by the second; absent if all found their key, or a client's tool does not report it.
    pub hit_series: Option<HitSeries>,
    /// Keys that the servers evicted per second of load, the warm-up included; absent for servers that never do.
    pub evictions_per_second: Option<f64>,
    /// What else to know of the numbers: what was left out, and why, and what a latency contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The checks that were made and those that could not be; empty when the numbers must not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Why the numbers must not be used; with the pod it happened in.
    pub failure: Option<PodFailure>,
    /// Whether the numbers may be believed; absent until they are judged.
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<VerdictReason>,
    /// What limited the throughput; absent if the numbers must not be used.
    pub limited_by: Option<LimitedBy>,
    pub pods: Vec<PodResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRecord>,
    /// The CPUs that servers and clients may run on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpusets: Vec<CpuSetRecord>,
    /// What each server of a Datastore used in the window; empty if nothing could measure it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerUsage>,
    /// The servers' memory right after the load, and after a declared settle time that has passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryReading>,
    /// What ran; absent until the operator or the command line fills it in.
    pub environment: Option<EnvironmentRecord>,
    /// Which point of its phase's search it is; absent if there is no search.
    pub point: Option<SearchPoint>,
}

impl RepetitionResult {
    /// The row of all operations together; `None` if they have no sum.
    pub fn total(&self) -> Option<&Operation> {
        self.operations.iter().find(|row| row.name == TOTAL)
    }

    /// CPUs that all servers together used in the window; `None` unless every known one was measured.
    pub fn server_cpus(&self) -> Option<f64> {
        let complete = !self.servers.is_empty() && self.servers.len() >= self.server_run_ids().len();
        let cpus = self.servers.iter().map(|server| {
            // A window without a length has no throughput: the quotient is not a number.
            Some(server.usage.cpu_seconds / server.usage.seconds)
                .filter(|cpus| cpus.is_finite() && *cpus > 0.0)
        });
        cpus.sum::<Option<f64>>().filter(|_| complete)
    }

    /// Throughput of all operations divided by [`Self::server_cpus`].
    pub fn operations_per_core_second(&self) -> Option<f64> {
        Some(self.total()?.operations_per_second? / self.server_cpus()?)
    }

    /// The `run_id` of every server that a client saw, sorted; empty if none is known.
    pub fn server_run_ids(&self) -> BTreeSet<&str> {
        self.pods.iter().filter_map(|pod| pod.server.as_ref()).flat_map(ServerRecord::run_ids).collect()
    }
}

/// A [`Failure`] and where it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFailure {
    pub pod: String,
    pub failure: Failure,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::observed::ServerCounters;
    use serde_json::json;

    /// A result at 1,000 operations per second, whose servers used so many CPU seconds of 10.
    fn result(cpu_seconds: &[f64], run_ids: usize) -> RepetitionResult {
        let mut result: RepetitionResult =
            serde_json::from_str(include_str!("../../tests/two-pods.json")).unwrap();
        TOTAL.clone_into(&mut result.operations[0].name);
        result.operations[0].operations_per_second = Some(1000.0);
        let server = |seconds: &f64| {
            json!({"server": "s", "usage": {
                "seconds": 10.0, "cpuSeconds": seconds, "throttledSeconds": 0.0, "throttledPeriods": 0
            }})
        };
        let servers: Vec<_> = cpu_seconds.iter().map(server).collect();
        result.servers = serde_json::from_value(json!(servers)).unwrap();
        let truth = json!({"version": "7", "clusterEnabled": true, "loading": false, "runId": "", "usedMemoryBytes": 0});
        let counters = |id: usize| {
            let counters = ServerCounters { run_id: id.to_string(), ..ServerCounters::default() };
            json!({"address": "a", "before": counters})
        };
        let shards: Vec<_> = (0..run_ids).map(counters).collect();
        let record = json!({"truth": truth, "before": ServerCounters::default(), "shards": shards});
        result.pods[0].server = serde_json::from_value(record).unwrap();
        result
    }

    #[test]
    fn work_per_core_is_throughput_by_the_cpus_of_all_servers() {
        let work = |cpu_seconds: &[f64], run_ids| result(cpu_seconds, run_ids).operations_per_core_second();
        assert_eq!(work(&[5.0], 1), Some(2000.0));
        assert_eq!(work(&[5.0, 15.0], 0), Some(500.0), "two servers whose run_id is not known");
        assert_eq!(work(&[5.0], 2), None, "a server without a report would make the others look better");
        assert_eq!(work(&[], 0), None, "an external server");
        assert_eq!(work(&[0.0], 1), None, "a server without CPU time was measured");
    }
}

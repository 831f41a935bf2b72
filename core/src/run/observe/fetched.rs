//! What a pass over a run found. Pure.

use crate::{
    loads::job_ended,
    pods,
    run::{decide::Receipt, observe::snapshot::Snapshot, turn::TurnCheck, validate::Attempt},
};
use dragstrip_results::protocol::{RUNNER_PORT, RunnerStage, RunnerState};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::ResourceExt;
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

#[derive(Default)]
pub struct Fetched {
    /// The version of the run that the pass rests on.
    pub version: Option<String>,
    pub snapshot: Snapshot,
    /// The turn; absent if the target was not ready or not consulted.
    pub turn: Option<TurnCheck>,
    pub jobs: BTreeMap<String, Arc<Job>>,
    pub pods: Vec<Arc<Pod>>,
    /// Runners of the current attempt that responded, by pod.
    pub runners: BTreeMap<String, RunnerState>,
    /// Since when the runners at the start line could not be reached.
    pub unreachable_since: Option<Timestamp>,
    /// Warnings about client pods and those who make them.
    pub warnings: Vec<Arc<Event>>,
    /// By Job until when load may run of pods that are gone and were not seen to end.
    pub unseen: BTreeMap<String, Timestamp>,
}

impl Fetched {
    pub fn pods_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Pod> {
        let uid = self.jobs.get(job).and_then(|job| job.metadata.uid.as_deref());
        self.pods.iter().map(Arc::as_ref).filter(move |pod| pods::is_of_job(pod, job, uid))
    }

    /// Pods of the Job called `job` whose runners can be reached: their names and addresses.
    pub fn reachable(&self, job: &str) -> Vec<(String, SocketAddr)> {
        let alive = self.pods_of(job).filter(|pod| !pods::ended(pod));
        let address = |pod: &Pod| Some(SocketAddr::new(pods::address(pod)?, RUNNER_PORT));
        alive.filter_map(|pod| Some((pod.name_any(), address(pod)?))).collect()
    }

    /// Which runners of `attempt` have their start command.
    pub fn receipt(&self, attempt: &Attempt) -> Receipt {
        use RunnerStage::{AtStartLine, Loading, Preflight, WarmingUp};
        let lacks =
            |state: &&RunnerState| matches!(state.stage, Preflight | Loading | WarmingUp | AtStartLine);
        let lacking = self.runners.values().filter(lacks).count();
        let silent = u32::try_from(self.runners.len()).is_ok_and(|responding| responding < attempt.pods);
        match lacking {
            1.. if lacking < self.runners.len() => Receipt::Partial,
            _ if silent => Receipt::Unknown,
            0 => Receipt::Complete,
            _ => Receipt::Missing,
        }
    }

    /// Whether the attempt needs no more time: its Job has ended, or all its pods
    /// have and the Job controller has not noticed yet.
    pub fn ended(&self, attempt: &Attempt) -> bool {
        let expected = usize::try_from(attempt.pods).unwrap_or(usize::MAX);
        self.jobs.get(&attempt.name).is_some_and(|job| job_ended(job))
            || pods::all_ended(self.pods_of(&attempt.name), expected)
    }
}

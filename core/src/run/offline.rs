//! A run without a cluster, planned, decided on, merged and judged by the same code. Pure.

use super::{
    decide::{Ending, Step, decide, failure},
    job::bare_job,
    judge,
    merge::merge,
    observe::{
        identity::Identity,
        snapshot::{Snapshot, observe, state_of_stored},
        state::{AttemptState, Remains, Turn},
        stored_result::StoredResult,
        target::{Connection, DatastoreKey, ReadyTarget, TargetState},
    },
    plan, search, status, summary,
    validate::{Attempt, Invalid, ValidatedRun, host_and_port, protocol, unsuitable, validate},
};
use crate::datastore::verify::disagreements;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, DatastoreSpec,
    conditions::types::{COMPLETE, PASSED},
    run::{CheckName, Verdict},
};
use dragstrip_results::{
    observed::Observation,
    protocol::JobSpec,
    result::{CheckState, CpuSetRecord, FailureStep, NodeRecord, PodFailure, PodResult, RepetitionResult},
    signing::VerifyingKey,
    usage::ServerUsage,
    verdict::placed::{exclusive_cpus, of_nodes, of_server},
};
use jiff::Timestamp;
use std::{collections::BTreeMap, net::SocketAddr};

/// Where a run's server was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Host name or IP address.
    pub host: String,
    pub port: u16,
    /// The observers beside it; none for an external target.
    pub observers: Vec<SocketAddr>,
    /// What its observer reports, if there is one.
    pub observation: Option<Observation>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Measure(usize),
    End(Ending),
}

/// A run without a cluster, and what was measured of it.
#[derive(Debug, Clone)]
pub struct OfflineRun {
    pub run: ValidatedRun,
    datastore: Option<DatastoreSpec>,
    machine: NodeRecord,
    snapshot: Snapshot,
    pub results: BTreeMap<String, RepetitionResult>,
}

impl OfflineRun {
    /// The run on `machine`, with the server that it loads if that is declared.
    pub fn new(
        run: &BenchmarkRun,
        datastore: Option<&DatastoreSpec>,
        machine: NodeRecord,
    ) -> Result<Self, Invalid> {
        let run = validate(run)?;
        if let Some(problem) = datastore.and_then(|declared| unsuitable(&run.spec, declared)) {
            return Err(Invalid::Spec(problem));
        }
        let machine = NodeRecord { serves: run.spec.target.external().is_none(), loads: true, ..machine };
        Ok(Self {
            run,
            datastore: datastore.cloned(),
            machine,
            // No other run uses this machine.
            snapshot: Snapshot { turn: Turn::Held, holds: true, ..Snapshot::default() },
            results: BTreeMap::new(),
        })
    }

    /// How many measurements there are, as far as the searches have come.
    pub fn planned(&self) -> usize {
        plan::wanted(&self.run, &self.snapshot.stored)
    }

    /// How many good results there are.
    pub fn measured(&self) -> usize {
        plan::done(&self.run, &self.snapshot.stored)
    }

    /// Records where the target is, and compares what its server reports with what was declared.
    pub fn found(&mut self, found: Found) {
        let truth = found.observation.as_ref().map(|observation| &observation.server);
        let declared = self.datastore.as_ref();
        let differences = declared.zip(truth).map_or_else(Vec::new, |(it, truth)| disagreements(it, truth));
        let cpus = found.observation.as_ref().and_then(|observation| self.server_cpus(observation));
        let mut placed = of_nodes(std::slice::from_ref(&self.machine), None);
        placed.extend(of_server(truth, declared.map(|declared| declared.threads)));
        placed.push(exclusive_cpus(cpus.as_slice(), false));
        self.snapshot.placed = placed;
        let target = self.ready(found, cpus);
        self.snapshot.target = if differences.is_empty() {
            TargetState::Ready(Box::new(target))
        } else {
            TargetState::Disagrees(format!("{}: {}", target.name, differences.join("; ")))
        };
    }

    fn server_cpus(&self, observation: &Observation) -> Option<CpuSetRecord> {
        Some(CpuSetRecord {
            pod: self.server_name(),
            node: Some(self.machine.name.clone()),
            serves: true,
            cpus: observation.cgroup.as_ref()?.cpuset.clone(),
            online: u32::try_from(observation.host.cpus).unwrap_or(0),
            whole_cpus: None,
        })
    }

    /// The name of the server, as its pod would have it.
    pub fn server_name(&self) -> String {
        format!("{}-0", self.run.datastore_name().unwrap_or_default())
    }

    fn ready(&self, found: Found, cpus: Option<CpuSetRecord>) -> ReadyTarget {
        let (declared, external) = (self.datastore.as_ref(), self.run.spec.target.external());
        let name = self.run.datastore_name().map(str::to_owned);
        let truth = found.observation.map(|observation| observation.server);
        let datastore =
            name.clone().map(|name| DatastoreKey { namespace: self.run.holder.namespace.clone(), name });
        ReadyTarget {
            name: name.or(external.map(|one| one.address.clone())).unwrap_or_default(),
            host: found.host,
            connection: Connection {
                port: found.port,
                cluster: declared.is_some_and(|spec| spec.cluster.is_some())
                    || external.is_some_and(|one| one.cluster),
                emulated_cluster: declared.is_some_and(DatastoreSpec::emulates_cluster)
                    || external.is_some_and(|one| one.emulated_cluster),
                protocol: declared.map(protocol).or(external.map(|one| one.protocol)).unwrap_or_default(),
                ..Connection::default()
            },
            username: external.and_then(|one| one.username.clone()),
            identity: truth
                .as_ref()
                .map(|truth| Identity::default().with_processes(vec![truth.run_id.clone()])),
            truth,
            // One machine has one server.
            members: Vec::new(),
            observers: found.observers,
            nodes: self.machine.serves.then(|| self.machine.name.clone()).into_iter().collect(),
            datastore,
            cpus,
            questioned: true,
        }
    }

    /// Where an external target is, as declared; `None` of a declared server.
    pub fn external_address(&self) -> Option<(String, u16)> {
        host_and_port(&self.run.spec.target.external()?.address)
    }

    fn state(&self, attempt: &Attempt) -> AttemptState {
        // Its processes have ended: none of them sends load.
        let remains = || Remains { job: false, silent_from: Some(Timestamp::MIN) };
        let stored = self.snapshot.stored.get(&attempt.name);
        stored.map_or(AttemptState::Absent, |stored| state_of_stored(stored.failure.as_ref(), remains))
    }

    pub fn next(&mut self, now: Timestamp) -> Next {
        search::settle(&mut self.run, &self.snapshot.stored, &BTreeMap::new());
        let attempts = self.run.attempts.iter().map(|attempt| self.state(attempt)).collect();
        let observed = observe(&self.run, &BenchmarkRunStatus::default(), &self.snapshot, attempts, now);
        match decide(&self.run, &observed, now) {
            Step::CreateJob(index) => Next::Measure(index),
            Step::Finish(Ending::Succeeded) => match summary::required(&self.run, &self.results) {
                Some(Step::Finish(ending)) => Next::End(ending),
                _ => Next::End(Ending::Succeeded),
            },
            Step::Finish(ending) => Next::End(ending),
            // Without a cluster there is nothing else to wait for.
            other => Next::End(Ending::Failed(failure("Internal", format!("unexpected step: {other:?}")))),
        }
    }

    /// The job of the runners of `attempt`, which accept commands signed with `key`.
    pub fn job(&self, attempt: &Attempt, key: VerifyingKey) -> Option<JobSpec> {
        let TargetState::Ready(target) = &self.snapshot.target else { return None };
        Some(JobSpec { verifying_key: Some(key), ..bare_job(&self.run, attempt, target) })
    }

    /// Stores what the clients of an attempt that started at `start`, and its servers, reported.
    pub fn store(
        &mut self,
        index: usize,
        start: Option<Timestamp>,
        pods: Vec<PodResult>,
        servers: Vec<ServerUsage>,
    ) -> Option<&RepetitionResult> {
        let attempt = self.run.attempts.get(index)?;
        let node = Some(self.machine.name.clone());
        let pods = pods.into_iter().map(|pod| PodResult { node: node.clone(), ..pod }).collect();
        let mut result = merge(attempt, attempt.pods, pods);
        as_interrupted(&mut result);
        let named = servers.into_iter().map(|server| ServerUsage { node: node.clone(), ..server });
        result.servers = named.collect();
        result.nodes = vec![self.machine.clone()];
        result.cpusets = judge::cpu_sets(&result, |_| None);
        judge::judge(&self.run, attempt, self.datastore.as_ref(), &mut result);
        without_throttling(&mut result);
        let stored = StoredResult {
            failure: result.failure.clone(),
            server_run_ids: result.server_run_ids().into_iter().map(Into::into).collect(),
            start,
            point: result.point.clone(),
            ..StoredResult::default()
        };
        self.snapshot.stored.insert(attempt.name.clone(), stored);
        Some(self.results.entry(attempt.name.clone()).or_insert(result))
    }

    pub fn status(&self, ending: Ending, now: Timestamp) -> BenchmarkRunStatus {
        let old = BenchmarkRunStatus::default();
        status::of_step(&self.run, &old, &self.snapshot, Some(&self.results), &Step::Finish(ending), now)
    }

    pub fn interrupted(&self, now: Timestamp) -> BenchmarkRunStatus {
        let mut status = self.status(Ending::Cancelled, now);
        let message =
            format!("interrupted: {} of {} measurements are stored", self.measured(), self.planned());
        let ends = |kind: &str| [COMPLETE, PASSED].contains(&kind);
        for condition in status.conditions.iter_mut().filter(|condition| ends(&condition.type_)) {
            "Interrupted".clone_into(&mut condition.reason);
            condition.message.clone_from(&message);
        }
        BenchmarkRunStatus {
            message: Some(message),
            verdict: Some(Verdict::Invalid),
            reasons: vec!["Interrupted".to_owned()],
            ..status
        }
    }
}

/// A client that was interrupted is not lost: its run was interrupted with it.
fn as_interrupted(result: &mut RepetitionResult) {
    let interrupted = result.pods.iter().find_map(|pod| {
        let failure = pod.failure.clone().filter(|failure| failure.step == FailureStep::Interrupted)?;
        Some(PodFailure { pod: pod.pod.clone(), failure })
    });
    result.failure = interrupted.or(result.failure.take());
}

/// Marks the checks that need a cgroup as not made.
fn without_throttling(result: &mut RepetitionResult) {
    let needing = [CheckName::ClientThrottled, CheckName::ServerThrottled].map(|check| check.to_string());
    for check in result.checks.iter_mut().filter(|check| needing.contains(&check.name)) {
        check.state = CheckState::NotMade;
        check.why = Some("without a container, CPU throttling is not recorded".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{lost, pod_result, run, truth};
    use dragstrip_crds::run::RunPhase;

    fn machine() -> NodeRecord {
        NodeRecord { name: "laptop".into(), ..NodeRecord::default() }
    }

    fn datastore(threads: i32) -> DatastoreSpec {
        serde_json::from_value(serde_json::json!({"engine": "Redis", "threads": threads})).unwrap()
    }

    fn found() -> Found {
        let host =
            dragstrip_crds::observed::HostTruth { kernel: String::new(), cpu_model: String::new(), cpus: 2 };
        let server =
            dragstrip_crds::observed::ServerTruth { engine: Some(dragstrip_crds::Engine::Redis), ..truth() };
        let observation = Observation { server, host, cgroup: None, shards: vec![] };
        Found { host: "127.0.0.1".into(), port: 7000, observers: vec![], observation: Some(observation) }
    }

    fn offline(phases: &[&str], threads: i32) -> OfflineRun {
        let mut run = OfflineRun::new(&run(phases, 1), Some(&datastore(threads)), machine()).unwrap();
        run.found(found());
        run
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:10Z".parse().unwrap()
    }

    #[test]
    fn phases_are_measured_one_after_the_other_and_judged_as_in_a_cluster() {
        let mut run = offline(&["write", "read"], 1);
        for index in 0..2 {
            let Next::Measure(next) = run.next(now()) else { panic!("phase {index} is not measured") };
            let phase = run.run.attempts[next].phase.clone();
            let mut pod = pod_result("sprint-0", 1000, 4.0, 100);
            pod.phase = phase;
            run.store(next, Some(now()), vec![pod], vec![ServerUsage::default()]).unwrap();
        }
        assert_eq!(run.next(now()), Next::End(Ending::Succeeded));
        let status = run.status(Ending::Succeeded, now());
        assert_eq!((status.phase, status.phases.len()), (RunPhase::Succeeded, 2));
        assert_eq!(status.verdict, Some(Verdict::Degraded), "one machine for both is never Valid");
        assert!(status.reasons.contains(&"SharedNode".to_owned()), "{:?}", status.reasons);
    }

    #[test]
    fn a_lost_client_has_its_repetition_measured_again_and_a_failure_ends_the_run() {
        let mut run = offline(&["read"], 1);
        assert_eq!(run.next(now()), Next::Measure(0));
        run.store(0, Some(now()), vec![lost("sprint-0")], vec![]).unwrap();
        assert_eq!(run.next(now()), Next::Measure(1), "the repetition was not measured again");
        let mut failed = lost("sprint-0");
        failed.failure.as_mut().unwrap().step = FailureStep::Tool;
        run.store(1, Some(now()), vec![failed], vec![]).unwrap();
        let Next::End(Ending::Failed(failure)) = run.next(now()) else {
            panic!("a failure must end the run")
        };
        assert_eq!(run.status(Ending::Failed(failure), now()).verdict, Some(Verdict::Invalid));
    }

    #[test]
    fn a_server_that_is_not_what_was_declared_is_not_loaded() {
        let mut run = offline(&["read"], 4);
        let Next::End(Ending::Failed(failure)) = run.next(now()) else { panic!("it was loaded") };
        assert_eq!(failure.step, "Verification");
        assert!(failure.message.contains("threads: declared 4, the server runs 1"), "{}", failure.message);
    }

    #[test]
    fn measurements_before_an_interruption_are_stored_and_marked() {
        let mut run = offline(&["read"], 1);
        assert_eq!(run.next(now()), Next::Measure(0));
        let mut stopped = lost("sprint-0");
        stopped.failure.as_mut().unwrap().step = FailureStep::Interrupted;
        let stored = run.store(0, Some(now()), vec![stopped], vec![]).unwrap();
        assert_eq!(
            stored.failure.as_ref().unwrap().failure.step,
            FailureStep::Interrupted,
            "it was not lost"
        );
        let status = run.interrupted(now());
        assert_eq!((status.phase, status.verdict), (RunPhase::Cancelled, Some(Verdict::Invalid)));
        assert_eq!(status.message.as_deref(), Some("interrupted: 0 of 1 measurements are stored"));
        assert!(
            status.conditions.iter().all(|one| !one.message.contains("spec.cancel")),
            "{:?}",
            status.conditions
        );
    }
}

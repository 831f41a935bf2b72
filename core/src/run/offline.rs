//! A run without a cluster: validated, laid out, decided on, merged and judged by the same
//! code, for whoever starts the processes. Pure.

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
        target::{DatastoreKey, ReadyTarget, TargetState},
    },
    plan, search, status, summary,
    validate::{
        Attempt, Invalid, ValidatedRun, client_needs, host_and_port, protocol, tool, unsuitable, validate,
    },
};
use crate::datastore::verify;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, DatastoreSpec,
    conditions::types::{COMPLETE, PASSED},
    observed::ServerTruth,
    run::{CheckName, Verdict},
    units::Period,
};
use dragstrip_results::{
    observed::Observation,
    protocol::{JobMember, JobSpec},
    result::{CheckState, CpuSetRecord, FailureStep, NodeRecord, PodFailure, PodResult, RepetitionResult},
    signing::VerifyingKey,
    usage::ServerUsage,
    verdict::placed::{exclusive_cpus, of_nodes, of_server},
};
use jiff::Timestamp;
use std::{collections::BTreeMap, net::SocketAddr};

/// Why nobody can tell whether a CPU limit held a process back.
const NO_CGROUP: &str = "without a container, CPU throttling is not recorded";

/// Where a run's server was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Host name or IP address.
    pub host: String,
    pub port: u16,
    /// Every server, where there are several.
    pub members: Vec<JobMember>,
    /// The observers beside it; none of an external target.
    pub observers: Vec<SocketAddr>,
    /// What its observer says; absent where none is there.
    pub observation: Option<Observation>,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The attempt with this index is measured.
    Measure(usize),
    End(Ending),
}

/// A run without a cluster, and what was measured of it.
#[derive(Debug, Clone)]
pub struct OfflineRun {
    run: ValidatedRun,
    datastore: Option<DatastoreSpec>,
    machine: NodeRecord,
    snapshot: Snapshot,
    results: BTreeMap<String, RepetitionResult>,
}

impl OfflineRun {
    /// The run on `machine`, with the server that it is to load where that is declared.
    pub fn new(
        run: &BenchmarkRun,
        datastore: Option<&DatastoreSpec>,
        machine: NodeRecord,
    ) -> Result<Self, Invalid> {
        let run = validate(run)?;
        if let Some(problem) = datastore.and_then(|declared| unsuitable(&run.spec, declared)) {
            return Err(Invalid::Spec(problem));
        }
        let machine = NodeRecord { serves: run.spec.target.external.is_none(), loads: true, ..machine };
        Ok(Self {
            run,
            datastore: datastore.cloned(),
            machine,
            // Nobody else wants this machine.
            snapshot: Snapshot { turn: Turn::Held, holds: true, ..Snapshot::default() },
            results: BTreeMap::new(),
        })
    }

    /// The attempt with this index.
    pub fn attempt(&self, index: usize) -> Option<&Attempt> {
        self.run.attempts.get(index)
    }

    /// How many measurements there are, as far as that is known.
    pub fn planned(&self) -> usize {
        plan::wanted(&self.run, &self.snapshot.stored)
    }

    /// How many good results there are.
    pub fn measured(&self) -> usize {
        plan::done(&self.run, &self.snapshot.stored)
    }

    /// Load threads that each client has at most.
    pub fn client_threads(&self) -> u64 {
        client_needs(&self.run.spec, true).threads
    }

    /// Most clients that any phase has.
    pub fn most_clients(&self) -> u32 {
        self.run.most_pods()
    }

    /// How long all measurements are declared to take, in seconds, where their load is
    /// bounded by time; what is written before them is not counted.
    pub fn planned_seconds(&self) -> Option<f64> {
        let phase = |phase: &dragstrip_crds::run::PhaseSpec| {
            let tool = tool(phase)?;
            let warmup = phase.warmup.as_ref().map_or(0.0, Period::seconds) * f64::from(tool.stages());
            phase.search.is_none().then_some(())?;
            Some(warmup + tool.planned_seconds()?)
        };
        let once: f64 = self.run.spec.phases.iter().map(phase).sum::<Option<f64>>()?;
        Some(once * f64::from(self.run.spec.repetitions))
    }

    /// Takes in that the target is there, and compares what its server says with what was declared.
    pub fn found(&mut self, found: Found) {
        let truth = found.observation.as_ref().map(|observation| observation.server.clone());
        let differences = self.datastore.as_ref().zip(truth.as_ref());
        let differences =
            differences.map(|(declared, truth)| verify::disagreements(declared, truth)).unwrap_or_default();
        let cpus = found.observation.as_ref().and_then(|observation| self.server_cpus(observation));
        let nodes = std::slice::from_ref(&self.machine);
        let mut placed = of_nodes(nodes, None);
        placed.extend(of_server(truth.as_ref(), self.datastore.as_ref().map(|declared| declared.threads)));
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
        let external = self.run.spec.target.external.as_ref();
        let declared = self.datastore.as_ref();
        let name = self.run.datastore_name().map(str::to_owned);
        let truth = found.observation.map(|observation| observation.server);
        let processes =
            |server: &ServerTruth| Identity::default().with_processes(vec![server.run_id.clone()]);
        let identity = truth.as_ref().map(processes);
        let key =
            name.clone().map(|name| DatastoreKey { namespace: self.run.holder.namespace.clone(), name });
        let of_external = |pick: fn(&dragstrip_crds::run::ExternalTarget) -> bool| external.is_some_and(pick);
        ReadyTarget {
            name: name.or(external.map(|one| one.address.clone())).unwrap_or_default(),
            host: found.host,
            port: found.port,
            cluster: declared.is_some_and(|spec| spec.cluster.is_some()) || of_external(|one| one.cluster),
            emulated_cluster: declared.is_some_and(DatastoreSpec::emulates_cluster)
                || of_external(|one| one.emulated_cluster),
            protocol: declared.map(protocol).or(external.map(|one| one.protocol)).unwrap_or_default(),
            username: external.and_then(|one| one.username.clone()),
            auth: None,
            tls: None,
            truth,
            members: found.members,
            observers: found.observers,
            identity,
            nodes: self.machine.serves.then(|| self.machine.name.clone()).into_iter().collect(),
            datastore: key,
            cpus,
            questioned: true,
        }
    }

    /// Where an external target is, as declared; `None` of a declared server.
    pub fn external_address(&self) -> Option<(String, u16)> {
        host_and_port(&self.run.spec.target.external.as_ref()?.address)
    }

    fn state(&self, attempt: &Attempt) -> AttemptState {
        // Its processes have ended: nothing of it sends load any more.
        let remains = || Remains { job: false, silent_from: Some(Timestamp::MIN) };
        let stored = self.snapshot.stored.get(&attempt.name);
        stored.map_or(AttemptState::Absent, |stored| state_of_stored(stored.failure.as_ref(), remains))
    }

    /// What is next at `now`, of a run that was made at its creation's time.
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
            // Nothing here waits for anybody.
            other => Next::End(Ending::Failed(failure("Internal", format!("unexpected step: {other:?}")))),
        }
    }

    /// What the runners of `attempt` are told, and by which token they know their orders.
    pub fn job(&self, attempt: &Attempt, key: VerifyingKey) -> Option<JobSpec> {
        let TargetState::Ready(target) = &self.snapshot.target else { return None };
        Some(JobSpec { verifying_key: Some(key), ..bare_job(&self.run, attempt, target) })
    }

    /// The run, laid out.
    pub fn run(&self) -> &ValidatedRun {
        &self.run
    }

    /// Keeps what the clients of `attempt`, which started at `start`, and its servers said.
    pub fn keep(
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
        unmake_throttling(&mut result);
        let stored = StoredResult {
            failure: result.failure.clone(),
            server_run_ids: result.server_run_ids().into_iter().map(Into::into).collect(),
            start,
            point: result.point.clone(),
            ..StoredResult::default()
        };
        let name = attempt.name.clone();
        self.snapshot.stored.insert(name.clone(), stored);
        Some(self.results.entry(name).or_insert(result))
    }

    /// Every result by its name.
    pub fn results(&self) -> &BTreeMap<String, RepetitionResult> {
        &self.results
    }

    /// The status of the run that ends so at `now`.
    pub fn status(&self, ending: Ending, now: Timestamp) -> BenchmarkRunStatus {
        let old = BenchmarkRunStatus::default();
        status::of_step(&self.run, &old, &self.snapshot, Some(&self.results), &Step::Finish(ending), now)
    }

    /// The status of a run that somebody interrupted at `now`.
    pub fn interrupted(&self, now: Timestamp) -> BenchmarkRunStatus {
        let mut status = self.status(Ending::Cancelled, now);
        let message =
            format!("interrupted: {} of {} measurements are stored", self.measured(), self.planned());
        for condition in
            status.conditions.iter_mut().filter(|one| [COMPLETE, PASSED].contains(&one.type_.as_str()))
        {
            "Interrupted".clone_into(&mut condition.reason);
            condition.message.clone_from(&message);
        }
        status.message = Some(message);
        status.verdict = Some(Verdict::Invalid);
        status.reasons = vec!["Interrupted".to_owned()];
        status
    }
}

/// Nobody takes clients away here: one that was told to stop was interrupted with its run.
fn as_interrupted(result: &mut RepetitionResult) {
    let stopped = result.pods.iter().find_map(|pod| {
        let failure = pod.failure.clone().filter(|failure| failure.step == FailureStep::Interrupted)?;
        Some(PodFailure { pod: pod.pod.clone(), failure })
    });
    result.failure = stopped.or(result.failure.take());
}

/// Says of checks that need a cgroup's account that nobody could make them.
fn unmake_throttling(result: &mut RepetitionResult) {
    let needing = [CheckName::ClientThrottled, CheckName::ServerThrottled].map(|check| check.to_string());
    for check in result.checks.iter_mut().filter(|check| needing.contains(&check.name)) {
        check.state = CheckState::NotMade;
        check.why = Some(NO_CGROUP.to_owned());
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
        Found {
            host: "127.0.0.1".into(),
            port: 7000,
            members: vec![],
            observers: vec![],
            observation: Some(observation),
        }
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
            let phase = run.attempt(next).unwrap().phase.clone();
            let mut pod = pod_result("sprint-0", 1000, 4.0, 100);
            pod.phase = phase;
            run.keep(next, Some(now()), vec![pod], vec![ServerUsage::default()]).unwrap();
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
        run.keep(0, Some(now()), vec![lost("sprint-0")], vec![]).unwrap();
        assert_eq!(run.next(now()), Next::Measure(1), "the repetition was not measured again");
        let mut failed = lost("sprint-0");
        failed.failure.as_mut().unwrap().step = FailureStep::Tool;
        run.keep(1, Some(now()), vec![failed], vec![]).unwrap();
        let Next::End(Ending::Failed(failure)) = run.next(now()) else { panic!("a failure is no end") };
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
    fn what_was_measured_before_an_interruption_is_kept_and_marked() {
        let mut run = offline(&["read"], 1);
        assert_eq!(run.next(now()), Next::Measure(0));
        let mut stopped = lost("sprint-0");
        stopped.failure.as_mut().unwrap().step = FailureStep::Interrupted;
        let stored = run.keep(0, Some(now()), vec![stopped], vec![]).unwrap();
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

//! The world's objects as Kubernetes has them, and back: what the product's rules read and return.

use crate::{
    scenario::Scenario,
    world::{
        ATTEMPTS, Age, Bits, Job, KEYS, Lease, Outcome, Phase, Pod, RUNS, Run, Setback, Status, members,
    },
};
use dragstrip_core::{
    labels,
    lease::{Holder, LeaseKey},
    pods::CLIENT_CONTAINER,
    run::{
        decide::{Connection, DatastoreKey, ReadyTarget},
        stored_result::StoredResult,
        timing::{RESULT_GRACE, ends_at},
        validate::{ValidatedRun, validate},
    },
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus,
    run::{ClockStatus, FailureStatus, QueueStatus, RunPhase, RunReference, SetbackStatus, StartedStatus},
};
use dragstrip_results::{
    protocol::{RunnerStage, RunnerState},
    result::{Failure, FailureStep, PodFailure},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job as KubernetesJob, JobCondition, JobSpec, JobStatus},
        coordination::v1::{Lease as KubernetesLease, LeaseSpec},
        core::v1::{
            ContainerState, ContainerStateRunning, ContainerStatus, Node, Pod as KubernetesPod, PodSpec,
            PodStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// The namespace of the runs. Its name comes before the operator's, so that a run acquires the Lease of
/// its target first.
const NAMESPACE: &str = "benchmarks";
/// The namespace of the operator.
pub const OPERATOR_NAMESPACE: &str = "dragstrip-system";
/// The moment at which every pass decides: all other times are before or after it.
pub const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// The fixed objects of a scenario.
pub struct Objects {
    /// The runs as they were declared.
    declared: Vec<BenchmarkRun>,
    /// The same, validated.
    pub runs: Vec<ValidatedRun>,
    /// Their targets.
    pub targets: Vec<ReadyTarget>,
    /// The nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The servers' pods.
    servers: Vec<Arc<KubernetesPod>>,
    keys: [LeaseKey; KEYS],
    names: BTreeMap<String, u8>,
}

fn after(seconds: i64) -> Time {
    Time(NOW.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(NOW))
}

fn server_name(server: u8) -> String {
    format!("server-{server}")
}

/// The node of a server.
fn server_node(scenario: &Scenario, server: u8) -> String {
    format!("a-server-{}", if scenario.shared_server_node { 0 } else { server })
}

/// The name of a node for clients.
fn client_node(node: u8) -> String {
    format!("b-client-{node}")
}

fn node(name: &str) -> Arc<Node> {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let node = json!({"metadata": {"name": name}, "status": ready});
    Arc::new(serde_json::from_value(node).unwrap_or_default())
}

fn declared(index: u8, server: u8, phases: u8) -> Result<BenchmarkRun, serde_json::Error> {
    let phase = |name: &str| json!({"name": name, "loadgen": {"duration": "4s"}});
    let (phases, retries) = match phases {
        1 => (vec![phase("read")], 1),
        _ => (vec![phase("write"), phase("read")], 0),
    };
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": format!("run-{index}"), "namespace": NAMESPACE, "uid": format!("uid-{index}"),
            "generation": 1, "creationTimestamp": after(i64::from(index) - 60).0.to_string()
        },
        "spec": {
            "target": {"datastoreRef": {"name": server_name(server)}},
            "phases": phases, "repetitions": 1, "maxRetries": retries
        }
    }))
}

fn target(scenario: &Scenario, server: u8) -> ReadyTarget {
    ReadyTarget {
        name: server_name(server),
        host: "10.0.0.1".to_owned(),
        connection: Connection { port: 6379, ..Connection::default() },
        nodes: vec![server_node(scenario, server)],
        datastore: Some(DatastoreKey { namespace: NAMESPACE.to_owned(), name: server_name(server) }),
        questioned: true,
        ..ReadyTarget::default()
    }
}

fn server_pod(scenario: &Scenario, server: u8) -> Arc<KubernetesPod> {
    Arc::new(KubernetesPod {
        metadata: ObjectMeta {
            name: Some(format!("{}-0", server_name(server))),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(labels::common([(labels::COMPONENT, labels::SERVER)])),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec { node_name: Some(server_node(scenario, server)), ..PodSpec::default() }),
        ..KubernetesPod::default()
    })
}

impl Objects {
    /// Those of `scenario`.
    ///
    /// # Panics
    ///
    /// If a declaration is not a valid run.
    #[allow(clippy::expect_used)]
    pub fn new(scenario: &Scenario) -> Self {
        let keys = [0, 1].map(|server| LeaseKey::of_datastore(NAMESPACE, &server_name(server)));
        let servers =
            [0, 1].map(|server| LeaseKey::of_node(OPERATOR_NAMESPACE, &server_node(scenario, server)));
        let clients = [0, 1].map(|node| LeaseKey::of_node(OPERATOR_NAMESPACE, &client_node(node)));
        let ([a, b], [c, d], [client, other]) = (keys, servers, clients);
        let keys = [a, b, c, d, client, other];
        // Of two servers on one node, the first one's key stands for the node.
        let names = (0..6).rev().map(|index: u8| (keys[usize::from(index)].to_string(), index)).collect();
        let runs: Vec<_> = scenario
            .declared()
            .map(|(index, one)| declared(index, one.server, scenario.phases).expect("a run"))
            .collect();
        let mut nodes: Vec<_> = (0..scenario.client_nodes).map(|index| node(&client_node(index))).collect();
        nodes.extend([0, 1].map(|server| node(&server_node(scenario, server))));
        Self {
            runs: runs.iter().map(|run| validate(run).expect("a valid run")).collect(),
            declared: runs,
            targets: scenario.declared().map(|(_, one)| target(scenario, one.server)).collect(),
            nodes,
            servers: [0, 1].map(|server| server_pod(scenario, server)).to_vec(),
            keys,
            names,
        }
    }

    /// The name of a Lease.
    pub fn name(&self, key: u8) -> String {
        self.keys[usize::from(key)].to_string()
    }

    /// The Leases with these names.
    pub fn bits<'a>(&self, names: impl Iterator<Item = &'a str>) -> Bits {
        names.filter_map(|name| self.names.get(name)).fold(0, |bits, key| bits | 1 << key)
    }

    /// The Lease with this key.
    pub fn key(&self, key: &LeaseKey) -> Option<u8> {
        self.names.get(&key.to_string()).copied()
    }

    /// A node for clients by its name.
    pub fn node(name: &str) -> Option<u8> {
        name.strip_prefix("b-client-")?.parse().ok()
    }

    /// A Lease.
    pub fn lease(&self, key: u8, lease: Lease) -> Arc<KubernetesLease> {
        let LeaseKey { namespace, name } = self.keys[usize::from(key)].clone();
        let given_back = lease.given_back.then(|| (labels::GIVEN_BACK.to_owned(), "true".to_owned()));
        let holder = &self.runs[usize::from(lease.holder)].holder;
        Arc::new(KubernetesLease {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                annotations: Some(given_back.into_iter().collect()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec { holder_identity: Some(holder.to_string()), ..LeaseSpec::default() }),
        })
    }

    /// The holder that a run is.
    pub fn holder(&self, run: u8) -> &Holder {
        &self.runs[usize::from(run)].holder
    }

    fn attempt_name(&self, run: u8, attempt: u8) -> &str {
        &self.runs[usize::from(run)].attempts[usize::from(attempt)].name
    }

    /// The status of a run.
    pub fn status(&self, run: u8, stored: &Run) -> BenchmarkRunStatus {
        let status = &stored.status;
        let nobody = || RunReference { namespace: NAMESPACE.to_owned(), name: "another".to_owned() };
        let lacks: Vec<String> = members(status.queue).map(|key| self.name(key)).collect();
        // A queued run's clock stands.
        let running_since = lacks.is_empty().then(|| after(if stored.late { -86_400 } else { 0 }));
        BenchmarkRunStatus {
            phase: if lacks.is_empty() { RunPhase::Pending } else { RunPhase::Queued },
            clock: Some(ClockStatus { used_seconds: 0, running_since }),
            queue: lacks.first().cloned().map(|lease| QueueStatus {
                position: 1,
                lease,
                holder: nobody(),
                lacks,
            }),
            setback: status.setback.map(|setback| SetbackStatus {
                reason: "ImageUnavailable".to_owned(),
                message: "its image does not exist".to_owned(),
                count: if setback.even { 2 } else { 1 },
                retry_at: after(if setback.due { -1 } else { 60 }),
            }),
            started: status.started.map(|attempt| StartedStatus {
                job: self.attempt_name(run, attempt).to_owned(),
                start_at: after(0),
            }),
            failure: status.failed.then(|| FailureStatus {
                step: "Timeout".to_owned(),
                message: "it failed".to_owned(),
                ..FailureStatus::default()
            }),
            ..BenchmarkRunStatus::default()
        }
    }

    /// What of a status the model records.
    pub fn recorded(&self, run: u8, old: &Run, status: &BenchmarkRunStatus) -> Status {
        let leases = status.queue.iter().flat_map(|queue| queue.lacks.iter().chain([&queue.lease]));
        let attempt = |name: &str| {
            (0..)
                .zip(&self.runs[usize::from(run)].attempts)
                .find(|(_, one)| one.name == name)
                .map(|(at, _)| at)
        };
        let end = status.finished_at.is_some().then_some(match status.phase {
            RunPhase::Succeeded => crate::world::End::Succeeded,
            RunPhase::Cancelled => crate::world::End::Cancelled,
            _ => crate::world::End::Failed,
        });
        let setback = status.setback.as_ref().map(|setback| Setback {
            even: setback.count % 2 == 0,
            due: old.status.setback.is_some_and(|old| old.due) && setback.retry_at.0 <= NOW,
        });
        Status {
            queue: self.bits(leases.map(String::as_str)),
            setback,
            started: status.started.as_ref().and_then(|started| attempt(&started.job)),
            failed: status.failure.is_some(),
            end,
        }
    }

    /// A run.
    pub fn run(&self, run: u8, stored: &Run) -> Arc<BenchmarkRun> {
        let mut object = self.declared[usize::from(run)].clone();
        object.status = Some(self.status(run, stored));
        Arc::new(object)
    }

    /// A start line of this age.
    pub fn start(&self, run: u8, attempt: u8, age: Age) -> Timestamp {
        let (run, now) = (&self.runs[usize::from(run)], NOW);
        let milliseconds = match age {
            Age::Ahead => 1_000,
            Age::Passing => -500,
            Age::Past => -5_000,
            Age::Over => {
                let attempt = &run.attempts[usize::from(attempt)];
                let length = ends_at(run, attempt, now).duration_since(now).saturating_add(RESULT_GRACE);
                return now.saturating_sub(length).unwrap_or(now) - SignedDuration::from_secs(1);
            }
        };
        now + SignedDuration::from_millis(milliseconds)
    }

    fn labels(&self, run: u8) -> BTreeMap<String, String> {
        let holder = self.holder(run);
        labels::common([
            (labels::RUN, &holder.name),
            (labels::RUN_UID, &holder.uid),
            (labels::COMPONENT, labels::CLIENT),
        ])
    }

    /// A Job.
    pub fn job(&self, run: u8, attempt: u8, job: &Job) -> Arc<KubernetesJob> {
        let validated = &self.runs[usize::from(run)];
        let start = job.line.map(|(_, age)| self.start(run, attempt, age));
        let ends = start.map(|start| ends_at(validated, &validated.attempts[usize::from(attempt)], start));
        let nanoseconds = |key: &str, at: Timestamp| (key.to_owned(), at.as_nanosecond().to_string());
        let lines = start.map(|at| nanoseconds(labels::START_AT, at)).into_iter();
        let lines = lines.chain(ends.map(|at| nanoseconds(labels::LOAD_ENDS_AT, at)));
        // Clients that were not held up for long have had time since now.
        let created = after(if job.overdue { -3_600 } else { 0 });
        let condition = JobCondition {
            type_: "Complete".to_owned(),
            status: "True".to_owned(),
            ..JobCondition::default()
        };
        Arc::new(KubernetesJob {
            metadata: ObjectMeta {
                name: Some(self.attempt_name(run, attempt).to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                uid: Some(job_uid(run, attempt, job.uid)),
                labels: Some(self.labels(run)),
                annotations: Some(
                    lines.chain([(labels::SPEC_HASH.to_owned(), validated.spec_hash.clone())]).collect(),
                ),
                creation_timestamp: Some(created),
                ..ObjectMeta::default()
            },
            spec: Some(JobSpec { completions: Some(1), ..JobSpec::default() }),
            status: Some(JobStatus {
                conditions: job.ended.then(|| vec![condition]),
                ..JobStatus::default()
            }),
        })
    }

    /// A client pod.
    pub fn pod(&self, pod: &Pod) -> Arc<KubernetesPod> {
        let name = self.attempt_name(pod.run, pod.attempt).to_owned();
        let running = ContainerStatus {
            name: CLIENT_CONTAINER.to_owned(),
            started: Some(matches!(pod.phase, Phase::Ready | Phase::Loading)),
            state: Some(ContainerState {
                running: Some(ContainerStateRunning::default()),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        };
        let phase = match pod.phase {
            Phase::Pending => "Pending",
            Phase::Done => "Succeeded",
            Phase::Evicted => "Failed",
            _ => "Running",
        };
        Arc::new(KubernetesPod {
            metadata: ObjectMeta {
                name: Some(format!("{name}-0-{}", pod.job)),
                namespace: Some(NAMESPACE.to_owned()),
                uid: Some(format!("pod-{name}-{}", pod.job)),
                labels: Some(self.labels(pod.run)),
                deletion_timestamp: pod.deleted.then(|| after(-1)),
                owner_references: Some(vec![OwnerReference {
                    kind: "Job".to_owned(),
                    name,
                    uid: job_uid(pod.run, pod.attempt, pod.job),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec { node_name: Some(client_node(pod.node)), ..PodSpec::default() }),
            status: Some(PodStatus {
                phase: Some(phase.to_owned()),
                pod_ip: pod.runs().then(|| "10.0.0.2".to_owned()),
                container_statuses: pod.runs().then(|| vec![running]),
                ..PodStatus::default()
            }),
        })
    }

    /// All pods that operators watch: those of servers, and `pods`.
    pub fn pods(&self, pods: &[Pod]) -> Vec<Arc<KubernetesPod>> {
        self.servers.iter().cloned().chain(pods.iter().map(|pod| self.pod(pod))).collect()
    }

    /// The stored results of a run.
    pub fn stored(&self, run: u8, results: &[Option<Outcome>; ATTEMPTS]) -> BTreeMap<String, StoredResult> {
        let lost = || PodFailure {
            pod: "client".to_owned(),
            failure: Failure::new(FailureStep::Lost, "the pod was taken away".to_owned()),
        };
        let stored = |outcome: Outcome| StoredResult {
            failure: (outcome == Outcome::Lost).then(lost),
            spec_hash: Some(self.runs[usize::from(run)].spec_hash.clone()),
            ..StoredResult::default()
        };
        let of = |(attempt, outcome): (u8, &Option<Outcome>)| {
            Some((self.attempt_name(run, attempt).to_owned(), stored((*outcome)?)))
        };
        (0..).zip(results).filter_map(of).collect()
    }
}

fn job_uid(run: u8, attempt: u8, uid: u8) -> String {
    format!("job-{run}-{attempt}-{uid}")
}

/// What a client's runner reports.
pub fn runner(phase: Phase) -> Option<RunnerState> {
    let stage = match phase {
        Phase::Preparing => RunnerStage::Loading,
        Phase::Ready => RunnerStage::AtStartLine,
        Phase::Loading => RunnerStage::Running,
        Phase::Pending | Phase::Done | Phase::Evicted => return None,
    };
    Some(RunnerState { stage, ..RunnerState::default() })
}

/// Runs that exist in `runs`, as operators watch them.
pub fn under_way(runs: &[Run; RUNS]) -> impl Iterator<Item = (u8, &Run)> {
    (0..).zip(runs).filter(|(_, run)| run.under_way())
}

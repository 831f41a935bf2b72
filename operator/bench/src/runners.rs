//! Simulates the runners of client pods: answers at each pod's address, and ends the pod with a result
//! when its declared load is over. A pod that is deleted loads no more. Pods of the namespace [`SILENT`]
//! have no runner: they refuse connections.

use crate::{
    cluster::Cluster,
    kubelet::{LargeResults, ROWS},
};
use anyhow::{Context, Result};
use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use dragstrip_crds::observed::ServerTruth;
use dragstrip_results::{
    histogram::Latencies,
    observed::{CommandCounter, ServerCounters},
    protocol::{
        CLOCK_PATH, ClockReading, JOB_VARIABLE, JobSpec, PROGRESS_PATH, RUNNER_PORT, RunnerStage,
        RunnerState, START_PATH, StartCommand,
    },
    result::{Failure, FailureStep, LOG_MARKER, Operation, PodResult, ServerRecord, Window},
};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Notify, task::AbortHandle};

/// Namespace whose runners refuse connections.
pub const SILENT: &str = "refusing";
/// Namespace whose runners leave results as large as they may be.
pub const LARGE: &str = "large";
/// Reads that each client reports.
const READS: u64 = 100_000;
/// Latency of each read in microseconds.
const LATENCY: u64 = 200;

/// How long the log has the results of a pod that ended.
const LOG_LIFETIME: Duration = Duration::from_secs(120);

/// The load of one pod.
#[derive(Debug, Clone)]
pub struct Load {
    /// Namespace of the pod.
    pub namespace: String,
    /// The measurement: run, phase and repetition.
    pub of: (String, String, u32),
    /// The pod.
    pub pod: String,
    /// Start line in nanoseconds of Unix time.
    pub start: i64,
    /// Its end, unless the pod was deleted before.
    pub end: i64,
    /// Another start line that the pod received later, which it ignores.
    pub second_start: Option<i64>,
}

/// What all simulated runners have in common.
pub struct Simulation {
    cluster: Cluster,
    log: PathBuf,
    /// The lines of the log, and when they were written.
    lines: Mutex<VecDeque<(Instant, String)>>,
    loads: Mutex<Vec<Load>>,
    /// Results of pods of the namespace [`LARGE`].
    pub large: LargeResults,
}

impl Simulation {
    /// Runners of the pods of `cluster`, who all write into the file `log`.
    pub fn new(cluster: Cluster, log: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            log,
            lines: Mutex::default(),
            loads: Mutex::default(),
            large: LargeResults::default(),
        })
    }

    /// All loads in `namespace` that have begun, or will with their start line.
    pub fn loads(&self, namespace: &str) -> Vec<Load> {
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.iter().filter(|load| load.namespace == namespace).cloned().collect()
    }

    fn record(&self, change: impl FnOnce(&mut Vec<Load>)) {
        change(&mut self.loads.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a line to the log, which is every pod's. A reader finds its own by the pod's name.
    fn write(&self, line: String) -> Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back((Instant::now(), line));
        while lines.front().is_some_and(|(written, _)| written.elapsed() > LOG_LIFETIME) {
            lines.pop_front();
        }
        let text: String = lines.iter().map(|(_, line)| line.as_str()).collect();
        // Whoever reads the log at this moment reads the old file to its end.
        let new = self.log.with_extension("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(new, &self.log)?)
    }
}

/// A simulated runner.
#[derive(Clone)]
struct Runner {
    simulation: Arc<Simulation>,
    pod: Arc<Pod>,
    job: Arc<JobSpec>,
    command: Arc<OnceLock<StartCommand>>,
    commanded: Arc<Notify>,
}

fn now() -> i64 {
    // Fits until the year 2262.
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

impl Runner {
    fn state(&self) -> RunnerState {
        let start = self.command.get().map(|command| command.start_at_unix_nanos);
        let elapsed = start.map_or(0.0, |start| (now() - start).max(0) as f64 / 1e9);
        let stage = match start {
            None => RunnerStage::AtStartLine,
            Some(_) if elapsed == 0.0 => RunnerStage::Armed,
            Some(_) => RunnerStage::Running,
        };
        RunnerState { stage, start_at_unix_nanos: start, elapsed_seconds: elapsed, ..RunnerState::default() }
    }

    fn is_large(&self) -> bool {
        self.pod.namespace().as_deref() == Some(LARGE)
    }

    /// The result that it reports.
    fn result(&self, start_unix_nanos: i64, seconds: f64) -> Result<PodResult> {
        let none = Failure {
            step: FailureStep::Job,
            message: String::new(),
            exit_code: None,
            signal: None,
            last_lines: Vec::new(),
        };
        let mut result = PodResult::failed(&self.job.phase, self.job.repetition, &self.pod.name_any(), none);
        result.failure = None;
        result.tool.name = "loadgen".into();
        result.window = Window { start_unix_nanos, seconds, ..Window::default() };
        result.client.cpu_seconds = seconds / 2.0;
        result.operations = vec![reads()?];
        // The log of a large result has this operation many times.
        let rows = if self.is_large() { ROWS } else { 1 };
        result.server = Some(server(READS * rows * u64::from(self.job.clients)));
        Ok(result)
    }

    /// Waits for the command and for the load's end, then ends the pod as the kubelet would.
    async fn run(self) -> Result<()> {
        self.commanded.notified().await;
        let command = self.command.get().context("no command")?;
        let seconds = self.seconds();
        let left = (command.start_at_unix_nanos - now()).max(0) as f64 / 1e9 + seconds;
        tokio::time::sleep(Duration::from_secs_f64(left)).await;
        let result = self.result(command.start_at_unix_nanos, seconds)?;
        if self.is_large() {
            self.simulation.large.insert(result);
            return self.end_pod("").await;
        }
        let line = format!("{} stdout F {LOG_MARKER}{}\n", Timestamp::now(), serde_json::to_string(&result)?);
        self.simulation.write(line)?;
        self.end_pod(&serde_json::to_string(&result.compact())?).await
    }

    /// How long it loads: a second if its tool ends by itself.
    fn seconds(&self) -> f64 {
        self.job.tool.planned_seconds().unwrap_or(1.0)
    }

    /// Accepts the first start command, and records every one.
    fn start(&self, command: StartCommand) {
        let (start, pod) = (command.start_at_unix_nanos, self.pod.name_any());
        if self.command.set(command).is_ok() {
            let seconds = Duration::from_secs_f64(self.seconds());
            self.simulation.record(|loads| {
                loads.push(Load {
                    namespace: self.pod.namespace().unwrap_or_default(),
                    of: (self.job.run.clone(), self.job.phase.clone(), self.job.repetition),
                    pod,
                    start,
                    end: start.saturating_add(i64::try_from(seconds.as_nanos()).unwrap_or(i64::MAX)),
                    second_start: None,
                });
            });
            self.commanded.notify_one();
        } else {
            self.simulation.record(|loads| {
                let own = loads.iter_mut().find(|load| load.pod == pod && load.start != start);
                if let Some(load) = own {
                    load.second_start = Some(start);
                }
            });
        }
    }

    async fn end_pod(&self, message: &str) -> Result<()> {
        let (name, at) = (self.pod.name_any(), Timestamp::now().to_string());
        let statuses: Vec<_> = (self.pod.spec.iter().flat_map(|spec| &spec.containers))
            .map(|container| {
                let terminated = json!({"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at, "message": message});
                json!({
                    "name": container.name, "image": container.image, "imageID": "", "ready": false,
                    "restartCount": 0, "state": {"terminated": terminated},
                })
            })
            .collect();
        let status = json!({"status": {"phase": "Succeeded", "containerStatuses": statuses}});
        let pods = self.simulation.cluster.api::<Pod>(&self.pod.namespace().unwrap_or_default());
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    fn router(&self) -> Router {
        let start = async |State(runner): State<Self>, Json(command): Json<StartCommand>| {
            runner.start(command);
            Json(runner.state())
        };
        Router::new()
            .route(CLOCK_PATH, get(async || Json(ClockReading { unix_nanos: now() })))
            .route(PROGRESS_PATH, get(async |State(runner): State<Self>| Json(runner.state())))
            .route(START_PATH, post(start))
            .with_state(self.clone())
    }
}

/// What a client's reads come to.
fn reads() -> Result<Operation> {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3)?;
    histogram.record_n(LATENCY, READS)?;
    let latencies = Latencies::from_microseconds(histogram);
    Ok(Operation {
        name: "GET".to_owned(),
        commands: vec!["get".to_owned()],
        count: READS,
        hits: Some(READS),
        misses: Some(0),
        bytes: READS * 100,
        latency_milliseconds: latencies.summary(),
        histogram: Some(latencies.encode()?),
        ..Operation::default()
    })
}

/// A server that answered so many reads.
fn server(reads: u64) -> ServerRecord {
    let truth = ServerTruth {
        engine: None,
        version: "7.0.15".to_owned(),
        threads: Some(1),
        io_interface: None,
        max_memory_bytes: None,
        max_memory_policy: None,
        persistence: BTreeMap::new(),
        cluster_enabled: false,
        loading: false,
        run_id: "one-and-the-same".to_owned(),
        used_memory_bytes: 0,
        role: None,
    };
    let counters = |calls| ServerCounters {
        run_id: truth.run_id.clone(),
        commands: [("get".to_owned(), CommandCounter { calls, failed: 0, rejected: 0 })].into(),
        ..ServerCounters::default()
    };
    ServerRecord {
        before: counters(0),
        after: Some(counters(reads)),
        truth: truth.clone(),
        shards: Vec::new(),
    }
}

/// The job of the pod's runner.
fn job(pod: &Pod) -> Option<JobSpec> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    serde_json::from_str(variables.find(|variable| variable.name == JOB_VARIABLE)?.value.as_deref()?).ok()
}

async fn simulate(runner: Runner, address: String) -> Result<()> {
    let listener = TcpListener::bind((address.as_str(), RUNNER_PORT)).await?;
    let router = runner.router();
    // Answers while the pod runs.
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        ended = runner.run() => ended,
    }
}

/// The address and job of a client pod that runs, unless nobody is to answer there.
fn to_simulate(pod: &Pod) -> Option<(String, JobSpec)> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone())?;
    (pod.namespace().as_deref() != Some(SILENT)).then_some((address, job(pod)?))
}

/// Simulates the runner of every running client pod. Ends only if it fails.
pub async fn serve(simulation: Arc<Simulation>) -> Result<()> {
    let clients = watcher::Config::default().labels("dragstrip.dev/component=client");
    let stream = watcher(simulation.cluster.everywhere::<Pod>(), clients).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut simulated: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(event) = stream.try_next().await? {
        let pod = match event {
            Event::Apply(pod) | Event::InitApply(pod) => pod,
            Event::Delete(pod) => {
                let ended = pod.uid().and_then(|uid| simulated.remove(&uid));
                ended.iter().for_each(AbortHandle::abort);
                simulation.record(|loads| {
                    let own = loads.iter_mut().filter(|load| load.pod == pod.name_any());
                    own.for_each(|load| load.end = load.end.min(now()));
                });
                continue;
            }
            Event::Init | Event::InitDone => continue,
        };
        let Some(((address, job), uid)) = to_simulate(&pod).zip(pod.uid()) else { continue };
        let Entry::Vacant(vacant) = simulated.entry(uid) else { continue };
        let name = job.run.clone();
        let runner = Runner {
            simulation: simulation.clone(),
            pod: Arc::new(pod),
            job: Arc::new(job),
            command: Arc::default(),
            commanded: Arc::default(),
        };
        let running = tokio::spawn(async move {
            if let Err(error) = simulate(runner, address).await {
                eprintln!("the simulated runner of run {name}: {error:#}");
            }
        });
        vacant.insert(running.abort_handle());
    }
    Ok(())
}

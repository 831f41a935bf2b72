//! Simulates the runners of client pods: answers at each pod's address, and ends the pod with a result
//! when its declared load is over. Pods of the namespace [`SILENT`] have no runner: they refuse
//! connections.

use crate::{cluster::Cluster, kubelet::LargeResults};
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
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{net::TcpListener, sync::Notify};

/// Namespace whose runners refuse connections.
pub const SILENT: &str = "refusing";
/// Namespace whose runners leave results as large as they may be.
pub const LARGE: &str = "large";
/// Reads that each client reports.
const READS: u64 = 100_000;
/// Latency of each read in microseconds.
const LATENCY: u64 = 200;

/// A simulated runner.
#[derive(Clone)]
struct Runner {
    cluster: Cluster,
    pod: Arc<Pod>,
    job: Arc<JobSpec>,
    log: PathBuf,
    large: LargeResults,
    command: Arc<OnceLock<StartCommand>>,
    ordered: Arc<Notify>,
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
        result.server = Some(server());
        Ok(result)
    }

    /// Waits for the command and for the load's end, then ends the pod as the kubelet would.
    async fn run(self) -> Result<()> {
        self.ordered.notified().await;
        let command = self.command.get().context("no command")?;
        let seconds = self.job.tool.planned_seconds().context("a load without an end")?;
        let left = (command.start_at_unix_nanos - now()).max(0) as f64 / 1e9 + seconds;
        tokio::time::sleep(Duration::from_secs_f64(left)).await;
        let result = self.result(command.start_at_unix_nanos, seconds)?;
        if self.pod.namespace().as_deref() == Some(LARGE) {
            self.large.insert(result);
            return self.end_pod("").await;
        }
        let line = format!("{} stdout F {LOG_MARKER}{}\n", Timestamp::now(), serde_json::to_string(&result)?);
        std::fs::write(&self.log, line)?;
        self.end_pod(&serde_json::to_string(&result.compact())?).await
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
        let pods = self.cluster.api::<Pod>(&self.pod.namespace().unwrap_or_default());
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    fn router(&self) -> Router {
        let start = async |State(runner): State<Self>, Json(command): Json<StartCommand>| {
            if runner.command.set(command).is_ok() {
                runner.ordered.notify_one();
            }
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

/// A server that answered every read.
fn server() -> ServerRecord {
    let truth = ServerTruth {
        engine: None,
        version: "7.0.15".to_owned(),
        threads: Some(1),
        io_interface: None,
        max_memory_bytes: None,
        max_memory_policy: None,
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
        after: Some(counters(READS)),
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

/// Simulates the runner of every running client pod. Ends only if it fails.
pub async fn serve(cluster: Cluster, log: PathBuf, large: LargeResults) -> Result<()> {
    let clients = watcher::Config::default().labels("dragstrip.dev/component=client");
    let stream = watcher(cluster.everywhere::<Pod>(), clients).default_backoff().applied_objects();
    let mut stream = std::pin::pin!(stream);
    let mut simulated = BTreeSet::new();
    while let Some(pod) = stream.try_next().await? {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let (Some(address), Some(job), Some(uid)) = (address, job(&pod), pod.uid()) else {
            continue;
        };
        if pod.namespace().as_deref() == Some(SILENT) || !simulated.insert(uid) {
            continue;
        }
        let (pod, name) = (Arc::new(pod), job.run.clone());
        let runner = Runner {
            cluster: cluster.clone(),
            pod,
            job: Arc::new(job),
            log: log.clone(),
            large: large.clone(),
            command: Arc::default(),
            ordered: Arc::default(),
        };
        tokio::spawn(async move {
            if let Err(error) = simulate(runner, address).await {
                eprintln!("the simulated runner of run {name}: {error:#}");
            }
        });
    }
    Ok(())
}

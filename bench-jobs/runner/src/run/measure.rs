//! The measurement: waits for the start line, runs the tool to its end, and meters
//! the container meanwhile. Touches processes, the network and the clock.

use super::{
    pod::Pod,
    prepare::{Prepared, prepare},
    progress::Printer,
    statsd,
    watch::{Watched, watch},
};
use crate::{
    frame::{clock, failure::failed, stdout::print_line, stop::Stop},
    measuring::{processes::Accounting, round_trip, usage},
    server::{
        gate,
        members::{self, Counts},
    },
    tools::{
        adapter::{self, Adapter, Ended, Launch, LaunchContext},
        adapter_for,
        process::Tool,
    },
};
use dragstrip_results::{
    protocol::{RunnerStage, StartCommand},
    result::{Failure, FailureStep, ServerRecord},
    usage::ContainerUsage,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::sync::oneshot;

pub struct Armed {
    pub prepared: Prepared,
    pub command: StartCommand,
    pub before: Counts,
    pub context: LaunchContext,
    launch: Launch,
}

pub struct Done {
    pub launched_unix_nanos: i64,
    pub watched: Watched,
    pub ended: Ended,
    pub adapter: Box<dyn Adapter>,
    pub after: Result<Counts, String>,
    pub client: ContainerUsage,
}

/// Everything up to the instant at which the tool must start.
pub async fn arm(pod: &Pod) -> Result<Armed, Failure> {
    let job = &pod.job;
    let prepared = prepare(pod).await?;
    pod.shared.enter(RunnerStage::AtStartLine);
    let command = pod.shared.start_command().await;
    let line = command.line_unix_nanos();
    pod.shared.enter(RunnerStage::Armed);
    let left = clock::seconds(line.saturating_sub(clock::unix_nanos()));
    print_line(&format!("start line in {left:.3} s"));
    if left <= 0.0 {
        let message = format!("the start command arrived {:.3} s after the start line", -left);
        return Err(Failure::new(FailureStep::StartLine, message));
    }
    if prepared.gated && pod.is_first() {
        gate::remove(job, &prepared.ready).await.map_err(failed(FailureStep::Preflight))?;
    }
    let before = members::counts(&prepared.ready.access, &prepared.ready.members).await;
    let before = before.map_err(|e| {
        Failure::new(FailureStep::ServerIdentity, format!("unreachable at the start line: {e}"))
    })?;
    let adapter = adapter_for(&job.tool);
    let statsd_port = if adapter.sends_latencies(&prepared.context) {
        // Without a port there are no such series; the measurement does not need them.
        statsd::listen(Arc::clone(&pod.shared)).await.ok()
    } else {
        None
    };
    let context = LaunchContext { start_at_unix_nanos: line, statsd_port, ..prepared.context.clone() };
    let launch = adapter.launch(job, &context);
    clock::sleep_until(line.saturating_sub(clock::nanos(launch.lead))).await;
    Ok(Armed { prepared, command, before, context, launch })
}

/// Runs the tool to its end and queries the servers once more.
pub async fn load(pod: &Pod, armed: &Armed, stop: &Stop) -> Result<Done, Failure> {
    let line = armed.context.start_at_unix_nanos;
    let measured = line.saturating_add(clock::nanos(adapter::measured_after(&pod.job)));
    let (stop_meter, stopped) = oneshot::channel();
    let observers = pod.job.target.observers.clone();
    let meter = tokio::spawn(meter(measured, observers, pod.job.clients, pod.accounting, stopped));
    let launched_unix_nanos = clock::unix_nanos();
    let mut tool = start(pod, armed)?;
    pod.shared.enter(RunnerStage::Running);
    let watchdog = Duration::try_from_secs_f64(pod.job.watchdog_seconds).unwrap_or(Duration::MAX);
    let sampled = adapter::threads_sampled(&pod.job.tool);
    let watched = watch(&mut tool, &armed.launch, line, watchdog, sampled, stop);
    let watched = watched.await.map_err(failed(FailureStep::Tool))?;
    drop(stop_meter);
    let client = meter.await.unwrap_or_default();
    let ready = &armed.prepared.ready;
    let after = members::counts(&ready.access, &ready.members).await.map_err(|e| e.to_string());
    let written = tool.written(watched.exit, watched.wall, watched.active).await;
    let (ended, adapter) = written.map_err(failed(FailureStep::Tool))?;
    Ok(Done { launched_unix_nanos, watched, ended, adapter, after, client })
}

fn start(pod: &Pod, armed: &Armed) -> Result<Tool, Failure> {
    let (shared, mut printer) = (Arc::clone(&pod.shared), Printer::default());
    let line = armed.context.start_at_unix_nanos;
    let on_progress = move |progress| {
        shared.note_progress(&progress);
        let elapsed = clock::seconds(clock::unix_nanos().saturating_sub(line));
        if let Some(line) = printer.line(elapsed, &progress) {
            print_line(&line);
        }
    };
    let adapter = adapter_for(&pod.job.tool);
    let directory = &armed.context.output_directory;
    Tool::start(&armed.launch, directory, adapter, pod.redactor.clone(), on_progress)
        .map_err(failed(FailureStep::Launch))
}

/// The servers as this pod saw them; `None` where they do not speak RESP.
pub fn record(armed: &Armed, done: Option<&Done>) -> Option<ServerRecord> {
    let ready = &armed.prepared.ready;
    let after = done.and_then(|done| done.after.as_ref().ok());
    let sum = |counts: &Counts| counts.sum(&ready.members, ready.replica_reads);
    Some(ServerRecord {
        truth: ready.truth.clone()?,
        before: sum(&armed.before),
        after: after.map(sum),
        shards: members::shards(&ready.members, &armed.before, after),
    })
}

/// Meters what the container uses from `begin`, an instant of Unix time, until `stopped`. What
/// the tool does before, such as connecting and warming up, is not part of the load.
async fn meter(
    begin: i64,
    observers: Vec<SocketAddr>,
    clients: u32,
    accounting: Accounting,
    mut stopped: oneshot::Receiver<()>,
) -> ContainerUsage {
    tokio::select! {
        // A tool that ended before its load began loaded nothing.
        _ = &mut stopped => return ContainerUsage::default(),
        () = clock::sleep_until(begin) => {}
    }
    let opening = usage::open(accounting);
    let round_trip = round_trip::measure(&observers, clients, stopped).await;
    ContainerUsage { round_trip, ..opening.close() }
}

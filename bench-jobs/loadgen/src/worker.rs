//! One load thread: connects its connections, waits at the line, runs them on
//! an event loop of its own and hands back what they counted.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::configuration::{Configuration, Limit};
use crate::connect;
use crate::connection::{
    ConnectionName, ConnectionParts, LoadConnection, LoadError, ProgressCounters, Remaining, ThreadContext,
};
use crate::cpu::CpuTime;
use crate::keys::Share;
use crate::recorder::Recorder;
use crate::report::{Failure, FailureKind};
use crate::requests::{OperationSequence, RequestSource, RequestTemplates};

/// Longest wait for the current batches once the run is to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Timers of the event loop are good to a millisecond; the rest before the
/// line is slept more finely.
const COARSE_WAIT_MARGIN: Duration = Duration::from_millis(2);
/// A thread sleeps until this long before the line and spins from there.
const FINE_WAIT_MARGIN: Duration = Duration::from_micros(150);

/// What the whole run is doing; threads follow it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Prepare,
    /// Start the load at `origin`, which is never before the present.
    Load {
        origin: Instant,
    },
    Stop,
}

/// What a thread tells the coordinator.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Ready,
    Finished(Box<WorkerOutcome>),
}

/// What a thread hands back.
#[derive(Debug)]
pub(crate) struct WorkerOutcome {
    pub(crate) thread: usize,
    /// None when the thread sent nothing.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) cpu: CpuTime,
    /// Time for which the thread ran its load.
    pub(crate) busy: Duration,
    pub(crate) failure: Option<Failure>,
}

impl WorkerOutcome {
    fn idle(thread: usize, failure: Option<Failure>) -> Self {
        Self { thread, recorder: None, cpu: CpuTime::default(), busy: Duration::ZERO, failure }
    }
}

/// Everything a thread needs.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) thread: usize,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) events: mpsc::UnboundedSender<WorkerEvent>,
    pub(crate) progress: Arc<ProgressCounters>,
}

/// The failure of a client that could not do its own work.
pub(crate) fn client_failure(step: &str, target: String, problem: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot {step}: {problem}");
    Failure { kind: FailureKind::Client, step: step.into(), address: target, message }
}

/// Body of a load thread. Always ends with [`WorkerEvent::Finished`].
pub(crate) fn run(mut plan: WorkerPlan) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let outcome = match builder.enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => work_on(&runtime, &mut plan),
        Err(error) => {
            let failure = client_failure("start an event loop", plan.configuration.target(), &error);
            WorkerOutcome::idle(plan.thread, Some(failure))
        }
    };
    // A coordinator that no longer listens has no use for the outcome.
    let _ = plan.events.send(WorkerEvent::Finished(Box::new(outcome)));
}

fn work_on(runtime: &LocalRuntime, plan: &mut WorkerPlan) -> WorkerOutcome {
    let thread = plan.thread;
    runtime.block_on(work(plan)).unwrap_or_else(|failure| WorkerOutcome::idle(thread, Some(failure)))
}

async fn work(plan: &mut WorkerPlan) -> Result<WorkerOutcome, Failure> {
    let mut phase = plan.phase.clone();
    let prepared = tokio::select! {
        biased;
        () = stopped(&mut phase) => return Ok(WorkerOutcome::idle(plan.thread, None)),
        prepared = prepare(plan) => prepared?,
    };
    // As above: without a coordinator the wait below ends at once.
    let _ = plan.events.send(WorkerEvent::Ready);
    let Some(origin) = wait_at_line(&mut plan.phase).await else {
        return Ok(WorkerOutcome::idle(plan.thread, None));
    };
    run_load(plan, prepared, origin).await
}

/// Connections that are ready, and where they count.
struct Prepared {
    connections: Vec<ConnectionParts>,
    recorder: Recorder,
}

async fn prepare(plan: &WorkerPlan) -> Result<Prepared, Failure> {
    let configuration = &*plan.configuration;
    let client = |problem: &dyn std::fmt::Display| {
        client_failure("prepare the requests", configuration.target(), problem)
    };
    let templates = Rc::new(RequestTemplates::new(configuration).map_err(|error| client(&error))?);
    let recorder = Recorder::new(Instant::now()).map_err(|error| client(&error))?;
    let mut connections = Vec::with_capacity(configuration.connections_per_thread);
    for within_thread in 0..configuration.connections_per_thread {
        let within_run = plan.thread * configuration.connections_per_thread + within_thread;
        let share = Share { index: within_run as u64, connections: configuration.connections() as u64 };
        let source = RequestSource::new(configuration, Rc::clone(&templates), share)
            .map_err(|error| client(&error))?;
        let (stream, address) =
            connect::establish(configuration, &plan.addresses).await.map_err(|error| error.failure())?;
        let name = ConnectionName { within_run, within_thread, address };
        let replies = OperationSequence::new(configuration.ratio, share.index);
        connections.push(ConnectionParts { name, stream, source, replies });
    }
    Ok(Prepared { connections, recorder })
}

/// Returns when the run is to stop, or when there is no coordinator any more.
async fn stopped(phase: &mut watch::Receiver<Phase>) {
    // Both outcomes mean the same here.
    let _ = phase.wait_for(|phase| *phase == Phase::Stop).await;
}

/// Waits for the start and returns its instant, or none when the run stops first.
async fn wait_at_line(phase: &mut watch::Receiver<Phase>) -> Option<Instant> {
    let current = *phase.wait_for(|phase| *phase != Phase::Prepare).await.ok()?;
    let Phase::Load { origin } = current else {
        return None;
    };
    if let Some(coarse) = origin.checked_sub(COARSE_WAIT_MARGIN) {
        tokio::select! {
            biased;
            () = stopped(phase) => return None,
            () = sleep_until(coarse.into()) => {}
        }
    }
    let fine = origin.saturating_duration_since(Instant::now()).saturating_sub(FINE_WAIT_MARGIN);
    std::thread::sleep(fine);
    while Instant::now() < origin {
        std::hint::spin_loop();
    }
    Some(origin)
}

async fn run_load(
    plan: &mut WorkerPlan,
    prepared: Prepared,
    origin: Instant,
) -> Result<WorkerOutcome, Failure> {
    let configuration = Arc::clone(&plan.configuration);
    let Prepared { connections, mut recorder } = prepared;
    recorder.set_origin(origin);
    let names: Vec<ConnectionName> = connections.iter().map(|parts| parts.name).collect();
    let context = Rc::new(ThreadContext::new(recorder, connections.len(), Arc::clone(&plan.progress)));
    let cpu_before = CpuTime::of_thread();
    let mut tasks = JoinSet::new();
    for parts in connections {
        let remaining = remaining(&configuration, parts.name.within_run, origin);
        let context = Rc::clone(&context);
        let connection = LoadConnection::new(parts, context, configuration.pipeline, remaining, origin);
        tasks.spawn_local(connection.run());
    }
    let failure = watch_over(&mut tasks, &context, &configuration, &names, &mut plan.phase).await.err();
    tasks.shutdown().await;
    let cpu = CpuTime::of_thread().since(cpu_before);
    let busy = origin.elapsed();
    let finished = Rc::into_inner(context).map(|context| context.recorder.into_inner());
    let Some(mut recorder) = finished else {
        let problem = "a connection outlived its thread";
        return Err(client_failure("collect the counts", configuration.target(), &problem));
    };
    recorder.finish();
    Ok(WorkerOutcome { thread: plan.thread, recorder: Some(recorder), cpu, busy, failure })
}

fn remaining(configuration: &Configuration, index: usize, origin: Instant) -> Remaining {
    match configuration.limit {
        Limit::Requests(requests) => Remaining::Requests(requests.get()),
        Limit::Duration(duration) => Remaining::Until(origin + duration),
        Limit::AllKeys => {
            let share = Share { index: index as u64, connections: configuration.connections() as u64 };
            let (_, keys) = share.of_range(configuration.keys.minimum, configuration.keys.maximum);
            Remaining::Requests(keys)
        }
    }
}

/// Waits until every connection is done, one fails, or the run is to stop.
async fn watch_over(
    tasks: &mut JoinSet<Result<(), LoadError>>,
    context: &ThreadContext,
    configuration: &Configuration,
    names: &[ConnectionName],
    phase: &mut watch::Receiver<Phase>,
) -> Result<(), Failure> {
    let limit = configuration.response_timeout;
    let mut tick = interval((limit / 8).clamp(Duration::from_millis(5), Duration::from_millis(250)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopped(phase) => {
                context.stop.set(true);
                return drain(tasks, configuration).await;
            }
            _ = tick.tick() => fail_when_silent(context, limit, names)?,
            joined = tasks.join_next() => match joined {
                None => return Ok(()),
                Some(ended) => ended_well(ended, configuration)?,
            },
        }
    }
}

/// Lets the current batches end, for a while.
async fn drain(
    tasks: &mut JoinSet<Result<(), LoadError>>,
    configuration: &Configuration,
) -> Result<(), Failure> {
    let all_ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended_well(ended, configuration)?;
        }
        Ok(())
    };
    // What has not ended by then is cut off; its requests stay unanswered in the counts.
    timeout(STOP_GRACE.min(configuration.response_timeout), all_ended).await.unwrap_or(Ok(()))
}

fn ended_well(
    ended: Result<Result<(), LoadError>, tokio::task::JoinError>,
    configuration: &Configuration,
) -> Result<(), Failure> {
    match ended {
        Ok(outcome) => outcome.map_err(|error| error.failure()),
        Err(error) => Err(client_failure("run a connection", configuration.target(), &error)),
    }
}

fn fail_when_silent(
    context: &ThreadContext,
    limit: Duration,
    names: &[ConnectionName],
) -> Result<(), Failure> {
    let Some((index, silence)) = context.silent_connection(Instant::now(), limit) else {
        return Ok(());
    };
    let Some(name) = names.get(index) else {
        return Ok(());
    };
    let (connection, address) = (name.within_run, name.address);
    Err(LoadError::Silent { connection, address, seconds: silence.as_secs_f64() }.failure())
}

//! One load thread: connects its connections, waits at the line, runs them on
//! an event loop of its own and hands back what they counted.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dragstrip_results::histogram::HistogramError;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, watch};

use crate::configuration::{Configuration, Limit};
use crate::counts::recorder::Recorder;
use crate::counts::replies::Expectation;
use crate::counts::report::Failure;
use crate::driver::client::{Client, Map, Pace};
use crate::driver::clock::wait_until;
use crate::driver::connector::{Connected, Connector, Load};
use crate::driver::cpu::ScheduleTimes;
use crate::driver::event_loop::EventLoop;
use crate::driver::link::{Link, ThreadContext};
use crate::driver::pacer::{Pacer, Remaining, ScheduleCounts};
use crate::driver::phase::{Phase, stopped};
use crate::driver::progress::ProgressCounters;
use crate::driver::supervise::Watch;
use crate::wire::slots::SlotMap;
use crate::workload::keys::Share;
use crate::workload::requests::RequestSource;
use crate::workload::schedule::Plan;

/// What a thread reports to the coordinator.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Ready,
    Finished(Box<WorkerOutcome>),
}

/// What a thread hands back; nothing by default.
#[derive(Debug, Default)]
pub(crate) struct WorkerOutcome {
    pub(crate) thread: usize,
    /// None when the thread sent nothing.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) schedule: Option<ScheduleCounts>,
    /// CPU time of the measured window.
    pub(crate) cpu: ScheduleTimes,
    /// Time for which the thread ran its measured load.
    pub(crate) busy: Duration,
    pub(crate) failure: Option<Failure>,
}

pub(crate) struct WorkerPlan {
    pub(crate) thread: usize,
    pub(crate) load: Arc<Load>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) events: mpsc::UnboundedSender<WorkerEvent>,
    pub(crate) progress: Arc<ProgressCounters>,
}

/// Body of a load thread. Always ends with [`WorkerEvent::Finished`].
pub(crate) fn run(plan: &WorkerPlan) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(work(plan)),
        Err(error) => Err(Failure::of_client("start an event loop", &error)),
    };
    let outcome = outcome.unwrap_or_else(|failure| WorkerOutcome {
        thread: plan.thread,
        failure: Some(failure),
        ..WorkerOutcome::default()
    });
    // A coordinator that has ended has no use for the outcome.
    let _ = plan.events.send(WorkerEvent::Finished(Box::new(outcome)));
}

async fn work(plan: &WorkerPlan) -> Result<WorkerOutcome, Failure> {
    let mut phase = plan.phase.clone();
    let idle = || WorkerOutcome { thread: plan.thread, ..WorkerOutcome::default() };
    let prepared = tokio::select! {
        biased;
        () = stopped(&mut phase) => return Ok(idle()),
        prepared = prepare(plan) => prepared?,
    };
    // As above: without a coordinator the wait below ends at once.
    let _ = plan.events.send(WorkerEvent::Ready);
    let Some(origin) = wait_at_line(&mut phase).await else {
        return Ok(idle());
    };
    run_load(plan, prepared, origin, &phase).await
}

/// Clients that are ready, and what they need.
struct Prepared {
    connector: Connector,
    clients: Vec<Ready>,
    recorder: Recorder,
}

struct Ready {
    connections: Vec<Connected>,
    source: RequestSource,
    share: Share,
    remaining: Remaining,
}

async fn prepare(plan: &WorkerPlan) -> Result<Prepared, Failure> {
    let Load { configuration, templates, .. } = &*plan.load;
    let mut recorder = Recorder::new(configuration.operations.len(), Instant::now())
        .map_err(|error| Failure::of_client("prepare the records", &error))?;
    recorder.fill = configuration.fill();
    let connector = Connector::new(Arc::clone(&plan.load));
    let first = plan.thread * configuration.connections_per_thread;
    let own = first..first + configuration.connections_per_thread;
    let connected = connector.connect_all(own.clone()).await?;
    let mut clients = Vec::with_capacity(connected.len());
    for (client, connections) in own.zip(connected) {
        let share = Share { index: client as u64, connections: configuration.connections() as u64 };
        let source = RequestSource::new(configuration, Arc::clone(templates), share)
            .map_err(|error| Failure::of_client("prepare the requests", &error))?;
        clients.push(Ready { connections, source, share, remaining: remaining(configuration, share) });
    }
    Ok(Prepared { connector, clients, recorder })
}

/// What a client has to do in the measured window, from its beginning.
fn remaining(configuration: &Configuration, share: Share) -> Remaining {
    match configuration.limit {
        Limit::Requests(requests) => Remaining::Requests(requests),
        Limit::Duration(duration) => Remaining::For(duration),
        Limit::AllKeys => {
            let (_, keys) = share.of_range(configuration.keys.minimum, configuration.keys.maximum);
            let each =
                configuration.operations.first().map_or(1, |operation| operation.keys_per_command().max(1));
            Remaining::Requests(keys.div_ceil(each as u64))
        }
    }
}

/// Waits for the start and returns its instant, or none when the run stops first.
async fn wait_at_line(phase: &mut watch::Receiver<Phase>) -> Option<Instant> {
    let current = *phase.wait_for(|phase| *phase != Phase::Prepare).await.ok()?;
    let Phase::Load { origin } = current else {
        return None;
    };
    tokio::select! {
        biased;
        () = stopped(phase) => None,
        () = wait_until(origin) => Some(origin),
    }
}

async fn run_load(
    plan: &WorkerPlan,
    prepared: Prepared,
    origin: Instant,
    phase: &watch::Receiver<Phase>,
) -> Result<WorkerOutcome, Failure> {
    let configuration = &*plan.load.configuration;
    let measured_from = origin + configuration.warmup;
    let Prepared { connector, clients, mut recorder } = prepared;
    recorder.set_origin(measured_from);
    let (templates, progress) = (Arc::clone(&plan.load.templates), Arc::clone(&plan.progress));
    let context = Rc::new(ThreadContext::new(recorder, templates, progress, measured_from));
    let mut watch = Watch::new(&context, configuration);
    let pacer = pacer(configuration, &clients, origin)
        .map_err(|error| Failure::of_client("start the schedule", &error))?;
    let clients = clients_of(clients, &plan.load, &context, origin);
    let mut event_loop = EventLoop::new(clients, pacer, watch.alarm())
        .map_err(|error| Failure::of_client("start the event loop", &error))?;
    let failure = watch.over(&mut event_loop, &connector, phase).await.err();
    let cpu = watch.cpu_used();
    let busy = measured_from.elapsed();
    let schedule = finish(event_loop, &context);
    let Some(context) = Rc::into_inner(context) else {
        return Err(Failure::of_client("collect the counts", &"a connection outlived its thread"));
    };
    let mut recorder = context.recorder.into_inner();
    recorder.finish();
    Ok(WorkerOutcome { thread: plan.thread, recorder: Some(recorder), schedule, cpu, busy, failure })
}

/// The schedule of an open loop.
fn pacer(
    configuration: &Configuration,
    clients: &[Ready],
    origin: Instant,
) -> Result<Option<Pacer>, HistogramError> {
    let Some(rate) = configuration.load().rate.clone() else { return Ok(None) };
    let (seed, crowd) = (configuration.seed, configuration.crowd);
    let plan = Plan { rate, seed, crowd, connections: configuration.connections() as u64 };
    let numbers: Vec<u64> = clients.iter().map(|client| client.share.index).collect();
    let remaining = clients.iter().map(|client| client.remaining).collect();
    let measured_from = origin + configuration.warmup;
    Pacer::new(&plan, &numbers, remaining, origin, measured_from, configuration.drain).map(Some)
}

fn clients_of(ready: Vec<Ready>, load: &Load, context: &Rc<ThreadContext>, origin: Instant) -> Vec<Client> {
    let Load { configuration, templates, routes, .. } = load;
    let map = routes.cluster.then(|| Map {
        routes: Arc::clone(routes),
        slots: Rc::new(SlotMap::new(routes.shards.iter().map(|shard| &shard.slots))),
    });
    let replies = templates.replies();
    let client = |Ready { connections, source, share, remaining }: Ready| {
        let pace = if configuration.load().rate.is_some() {
            Pace::Scheduled { over: false }
        } else {
            Pace::Closed { pipeline: configuration.pipeline, remaining }
        };
        let link = |(name, socket): Connected| {
            let routed = routes.cluster || templates.fill.is_some();
            let flight = Client::flight(pace, routed, templates.walk(share.index));
            Link::new(name, socket, Expectation::new(flight, Arc::clone(&replies)), Rc::clone(context))
        };
        let links = connections.into_iter().map(link).collect();
        Client::new(links, source, Rc::clone(context), map.clone(), pace, origin)
    };
    ready.into_iter().map(client).collect()
}

/// Counts what an open loop left unanswered, with the time it has waited until now.
fn finish(event_loop: EventLoop, context: &ThreadContext) -> Option<ScheduleCounts> {
    let (clients, pacer) = event_loop.finish();
    let mut pacer = pacer?;
    let now = Instant::now();
    let mut recorder = context.recorder.borrow_mut();
    for (number, mut client) in clients {
        for (operation, due) in client.unanswered() {
            recorder.note_unanswered(operation, due, now);
        }
        while let Some(due) = pacer.next_missed(number, now) {
            recorder.note_unanswered(client.skip(), due, now);
        }
    }
    Some(pacer.counts)
}

//! One load thread: connects its connections, waits at the line, runs them on
//! an event loop of its own and hands back what they counted.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dragstrip_results::histogram::HistogramError;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::configuration::{Configuration, Limit};
use crate::counts::recorder::Recorder;
use crate::counts::replies::Expectation;
use crate::counts::report::Failure;
use crate::driver::client::{Client, Map, Pace, Remaining};
use crate::driver::connector::{Connected, Connector};
use crate::driver::cpu::CpuTime;
use crate::driver::event_loop::EventLoop;
use crate::driver::link::{Link, ThreadContext};
use crate::driver::pacer::{Pacer, ScheduleCounts, ScheduleEnd};
use crate::driver::phase::{Phase, stopped};
use crate::driver::progress::ProgressCounters;
use crate::driver::supervise::Watch;
use crate::wire::cluster::Routes;
use crate::wire::slots::SlotMap;
use crate::wire::tls::TlsClient;
use crate::workload::keys::Share;
use crate::workload::requests::{RequestSource, RequestTemplates};
use crate::workload::schedule::Plan;

/// Timers of the event loop are good to a millisecond; the rest before the
/// line is slept more finely.
const COARSE_WAIT_MARGIN: Duration = Duration::from_millis(2);
/// A thread sleeps until this long before the line and spins from there.
const FINE_WAIT_MARGIN: Duration = Duration::from_micros(150);

/// What a thread reports to the coordinator.
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
    /// How punctual an open loop was.
    pub(crate) schedule: Option<ScheduleCounts>,
    /// CPU time of the measured window.
    pub(crate) cpu: CpuTime,
    /// Time for which the thread ran its measured load.
    pub(crate) busy: Duration,
    pub(crate) failure: Option<Failure>,
}

impl WorkerOutcome {
    fn idle(thread: usize, failure: Option<Failure>) -> Self {
        Self {
            thread,
            recorder: None,
            schedule: None,
            cpu: CpuTime::default(),
            busy: Duration::ZERO,
            failure,
        }
    }
}

/// Everything a thread needs.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) thread: usize,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) templates: Arc<RequestTemplates>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) security: Option<TlsClient>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) events: mpsc::UnboundedSender<WorkerEvent>,
    pub(crate) progress: Arc<ProgressCounters>,
}

/// Body of a load thread. Always ends with [`WorkerEvent::Finished`].
pub(crate) fn run(mut plan: WorkerPlan) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let outcome = match builder.enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => work_on(&runtime, &mut plan),
        Err(error) => {
            let failure = Failure::of_client("start an event loop", plan.configuration.target(), &error);
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

/// Clients that are ready, and what they need.
struct Prepared {
    connector: Connector,
    clients: Vec<Ready>,
    recorder: Recorder,
}

/// A client that is ready.
struct Ready {
    connections: Vec<Connected>,
    source: RequestSource,
    share: Share,
    remaining: Remaining,
}

async fn prepare(plan: &WorkerPlan) -> Result<Prepared, Failure> {
    let configuration = &*plan.configuration;
    let problem = |problem: &dyn std::fmt::Display| {
        Failure::of_client("prepare the requests", configuration.target(), problem)
    };
    let recorder = Recorder::new(configuration.operations.len(), plan.routes.labels(), Instant::now())
        .map_err(|error| Failure::of_client("prepare the records", configuration.target(), &error))?;
    let connector = Connector {
        configuration: Arc::clone(&plan.configuration),
        templates: Arc::clone(&plan.templates),
        routes: Arc::clone(&plan.routes),
        security: plan.security.clone(),
        next: Cell::new(configuration.connections() * plan.routes.shards.len()),
    };
    let first = plan.thread * configuration.connections_per_thread;
    let own = first..first + configuration.connections_per_thread;
    let connected = connector.connect_all(own.clone()).await?;
    let mut clients = Vec::with_capacity(connected.len());
    for (client, connections) in own.zip(connected) {
        let share = Share { index: client as u64, connections: configuration.connections() as u64 };
        let source = RequestSource::new(configuration, Arc::clone(&plan.templates), share)
            .map_err(|error| problem(&error))?;
        clients.push(Ready { connections, source, share, remaining: remaining(configuration, share) });
    }
    Ok(Prepared { connector, clients, recorder })
}

/// What a client has to do in the measured window, from its beginning.
fn remaining(configuration: &Configuration, share: Share) -> Remaining {
    match configuration.limit {
        Limit::Requests(requests) => Remaining::Requests(requests.get()),
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
    let failed = |step: &str, problem: &dyn std::fmt::Display| {
        Failure::of_client(step, configuration.target(), problem)
    };
    let measured_from = origin + configuration.warmup;
    let Prepared { connector, clients, mut recorder } = prepared;
    recorder.set_origin(measured_from);
    let templates = Arc::clone(&plan.templates);
    let context = Rc::new(ThreadContext::new(recorder, templates, Arc::clone(&plan.progress), measured_from));
    let mut watch = Watch::new(&context, &configuration);
    let pacer =
        pacer(&configuration, &clients, origin).map_err(|error| failed("start the schedule", &error))?;
    let clients = clients_of(clients, &connector, &context, origin);
    if pacer.is_some() {
        wake_punctually().map_err(|error| failed("have the thread woken in time", &error))?;
    }
    let mut event_loop = EventLoop::new(clients, pacer, watch.alarm())
        .map_err(|error| failed("start the event loop", &error))?;
    let failure = watch.over(&mut event_loop, &connector, &plan.phase).await.err();
    let cpu = watch.cpu_used();
    let busy = measured_from.elapsed();
    let schedule = finish(event_loop, &context);
    let Some(context) = Rc::into_inner(context) else {
        return Err(failed("collect the counts", &"a connection outlived its thread"));
    };
    let mut recorder = context.recorder.into_inner();
    recorder.finish();
    Ok(WorkerOutcome { thread: plan.thread, recorder: Some(recorder), schedule, cpu, busy, failure })
}

/// Has the kernel wake this thread when its timers end: of others it may put timers that
/// end within 50 us of each other together (`PR_SET_TIMERSLACK` in prctl(2)), and each
/// request of an open loop would leave that much late.
fn wake_punctually() -> std::io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

/// The schedule of an open loop.
fn pacer(
    configuration: &Configuration,
    clients: &[Ready],
    origin: Instant,
) -> Result<Option<Pacer>, HistogramError> {
    let Some(schedule) = configuration.schedule else { return Ok(None) };
    let (seed, crowd) = (configuration.seed, configuration.crowd);
    let plan = Plan { schedule, seed, crowd, connections: configuration.connections() as u64 };
    let numbers: Vec<u64> = clients.iter().map(|client| client.share.index).collect();
    let measured_from = origin + configuration.warmup;
    let end = |client: &Ready| match client.remaining {
        Remaining::Requests(count) => ScheduleEnd::Requests(count),
        Remaining::For(duration) => ScheduleEnd::At(measured_from + duration),
    };
    let ends = clients.iter().map(end).collect();
    Pacer::new(&plan, &numbers, ends, origin, measured_from, configuration.drain).map(Some)
}

fn clients_of(
    ready: Vec<Ready>,
    connector: &Connector,
    context: &Rc<ThreadContext>,
    origin: Instant,
) -> Vec<Client> {
    let configuration = &*connector.configuration;
    let (routes, templates) = (&connector.routes, &connector.templates);
    let map = routes.cluster.then(|| Map {
        routes: Arc::clone(routes),
        slots: Rc::new(SlotMap::new(routes.shards.iter().map(|shard| &shard.slots))),
    });
    let replies = templates.replies();
    let client = |Ready { connections, source, share, remaining }: Ready| {
        let pace = match configuration.schedule {
            Some(_) => Pace::Scheduled { over: false },
            None => Pace::Closed { pipeline: configuration.pipeline, remaining },
        };
        let link = |(name, socket): Connected| {
            let flight = Client::flight(pace, routes.cluster, templates.walk(share.index));
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

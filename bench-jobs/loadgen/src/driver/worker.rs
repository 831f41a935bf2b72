//! One load thread: connects its connections, waits at the line, runs them on
//! an event loop of its own and hands back what they counted.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dragstrip_results::histogram;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::configuration::{Configuration, Limit};
use crate::counts::recorder::Recorder;
use crate::counts::replies::Expectation;
use crate::counts::report::Failure;
use crate::driver::closed_loop::{SocketLoop, run_as_task};
use crate::driver::connection::{LoadConnection, Remaining};
use crate::driver::cpu::CpuTime;
use crate::driver::follow::{Follower, FollowerParts};
use crate::driver::link::{ConnectionName, LinkParts, LoadError, ThreadContext};
use crate::driver::open_loop::{Dispatch, Pacer, ScheduleCounts, ScheduleEnd, ScheduledConnection};
use crate::driver::phase::{Phase, stopped};
use crate::driver::progress::ProgressCounters;
use crate::driver::supervise::{Tasks, Watch};
use crate::wire::cluster::{Routes, Shard};
use crate::wire::connect;
use crate::wire::slots::{SlotFilter, SlotMap};
use crate::wire::stream::LoadStream;
use crate::wire::tls::TlsClient;
use crate::workload::keys::{KeyPattern, Share};
use crate::workload::operations::OperationKind;
use crate::workload::requests::{MISSING_PREFIX, RequestSource, RequestTemplates};
use crate::workload::schedule::{Agenda, Plan};

/// Timers of the event loop are good to a millisecond; the rest before the
/// line is slept more finely.
const COARSE_WAIT_MARGIN: Duration = Duration::from_millis(2);
/// A thread sleeps until this long before the line and spins from there.
const FINE_WAIT_MARGIN: Duration = Duration::from_micros(150);

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
    /// How an open loop kept to its schedule.
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

/// Connections that are ready, and what they need.
struct Prepared {
    connections: Vec<Ready>,
    recorder: Recorder,
    followers: Option<FollowerParts>,
    /// Connections of the whole run that draw keys for themselves.
    streams: u64,
}

/// A connection that is ready.
struct Ready {
    parts: LinkParts,
    stream: LoadStream,
    /// Its number among those of the run that draw keys for themselves.
    number: u64,
    remaining: Remaining,
}

async fn prepare(plan: &WorkerPlan) -> Result<Prepared, Failure> {
    let configuration = &*plan.configuration;
    let recorder = Recorder::new(configuration.mix().len(), plan.routes.labels(), Instant::now())
        .map_err(|error| Failure::of_client("prepare the records", configuration.target(), &error))?;
    let slots = plan
        .routes
        .cluster
        .then(|| Rc::new(SlotMap::new(plan.routes.shards.iter().map(|shard| &shard.slots))));
    let mut shards: Vec<(&Shard, Option<SlotFilter>)> = Vec::new();
    let numbers = configuration.keys.minimum..configuration.keys.maximum.saturating_add(1);
    for (number, shard) in plan.routes.shards.iter().enumerate() {
        let filter = slots.as_ref().map(|slots| SlotFilter { slots: Rc::clone(slots), shard: number });
        // A shard that has none of the keys gets no load.
        if filter.as_ref().is_none_or(|filter| has_keys(configuration, filter, numbers.clone())) {
            shards.push((shard, filter));
        }
    }
    let mut connections = Vec::with_capacity(configuration.connections_per_thread * shards.len());
    for within_thread in 0..configuration.connections_per_thread {
        let client = plan.thread * configuration.connections_per_thread + within_thread;
        for (place, (shard, filter)) in shards.iter().enumerate() {
            let number = (client * shards.len() + place) as u64;
            let within_thread = connections.len();
            connections.push(connect_one(plan, shard, filter.clone(), client, number, within_thread).await?);
        }
    }
    let streams = (configuration.connections() * shards.len()) as u64;
    let followers = slots.map(|slots| FollowerParts {
        configuration: Arc::clone(&plan.configuration),
        security: plan.security.clone(),
        routes: Arc::clone(&plan.routes),
        slots,
        // A pass over all keys is divided by the map at its start.
        learns: configuration.keys.pattern != KeyPattern::Sequential,
    });
    Ok(Prepared { connections, recorder, followers, streams })
}

async fn connect_one(
    plan: &WorkerPlan,
    shard: &Shard,
    filter: Option<SlotFilter>,
    client: usize,
    number: u64,
    within_thread: usize,
) -> Result<Ready, Failure> {
    let configuration = &*plan.configuration;
    let problem = |problem: &dyn std::fmt::Display| {
        Failure::of_client("prepare the requests", configuration.target(), problem)
    };
    let share = Share { index: client as u64, connections: configuration.connections() as u64 };
    let remaining = remaining(configuration, share, filter.as_ref());
    let source = RequestSource::new(configuration, Arc::clone(&plan.templates), share, number, filter)
        .map_err(|error| problem(&error))?;
    let node = shard.nodes.get(client % shard.nodes.len().max(1)).copied().unwrap_or_default();
    let endpoint = plan.routes.nodes.get(node).ok_or_else(|| problem(&"the shard has no node"))?;
    let (stream, address) = connect::establish(configuration, plan.security.as_ref(), endpoint)
        .await
        .map_err(|error| error.failure())?;
    let within_run = usize::try_from(number).unwrap_or(usize::MAX);
    let parts = LinkParts {
        name: ConnectionName { within_run, within_thread, address },
        source,
        expected: Expectation::new(plan.templates.walk(share.index), plan.templates.replies()),
        node,
        follows: plan.routes.cluster,
    };
    Ok(Ready { parts, stream, number, remaining })
}

/// Whether any key of these numbers is in the slots of `filter`.
fn has_keys(configuration: &Configuration, filter: &SlotFilter, numbers: Range<u64>) -> bool {
    /// Keys looked at; with fewer slots than one in as many, none may be found.
    const SAMPLE: u64 = 1_000_000;
    let prefix = &configuration.keys.prefix;
    let missing = format!("{MISSING_PREFIX}{prefix}");
    let numbers = numbers.start..numbers.end.min(numbers.start.saturating_add(SAMPLE));
    configuration.mix().iter().any(|operation| {
        let prefix = if operation.missing { &missing } else { prefix };
        match &operation.kind {
            OperationKind::Command(_) => true,
            OperationKind::AddJob(plan) => plan.wait_keys().iter().any(|key| filter.owns(key.as_bytes())),
            _ => filter.any_owned(prefix, numbers.clone()),
        }
    })
}

/// What a connection has to do in the measured window, from its beginning.
fn remaining(configuration: &Configuration, share: Share, filter: Option<&SlotFilter>) -> Remaining {
    let (first, count) = share.of_range(configuration.keys.minimum, configuration.keys.maximum);
    // A small share may hold no key of the shard at all; then there is nothing to do.
    if configuration.keys.pattern == KeyPattern::Sequential
        && filter.is_some_and(|filter| !has_keys(configuration, filter, first..first + count))
    {
        return Remaining::Requests(0);
    }
    match configuration.limit {
        Limit::Requests(requests) => Remaining::Requests(requests.get()),
        Limit::Duration(duration) => Remaining::For(duration),
        Limit::AllKeys => {
            let prefix = &configuration.keys.prefix;
            let owned = filter.map_or(count, |filter| filter.count_owned(prefix, first..first + count));
            let each = configuration.mix().first().map_or(1, |operation| operation.keys_per_command().max(1));
            Remaining::Requests(owned.div_ceil(each as u64))
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
    let target = || configuration.target();
    let measured_from = origin + configuration.warmup;
    let Prepared { connections, mut recorder, followers, streams } = prepared;
    recorder.set_origin(measured_from);
    let names: Vec<ConnectionName> = connections.iter().map(|ready| ready.parts.name.clone()).collect();
    let context = Rc::new(ThreadContext::new(
        recorder,
        Arc::clone(&plan.templates),
        connections.len(),
        Arc::clone(&plan.progress),
        measured_from,
    ));
    let mut watch = Watch::new(&context, &configuration, &names);
    let mut schedule = None;
    let failure = if let Some(paced) = configuration.schedule {
        let times = Plan {
            schedule: paced,
            seed: configuration.seed,
            crowd: configuration.crowd,
            connections: streams,
        };
        let open = OpenLoop { plan: times, origin };
        let mut tasks = JoinSet::new();
        let dispatch = open
            .start(&mut tasks, connections, &context, followers.as_ref())
            .map_err(|error| Failure::of_client("start the schedule", target(), &error))?;
        let failure = watch.over_tasks(tasks, Some(&*dispatch), &mut plan.phase).await.err();
        schedule = Some(dispatch.counts.borrow().clone());
        failure
    } else {
        let closed = ClosedLoop { connections, followers, pipeline: configuration.pipeline, origin };
        closed.run(&mut watch, &context, &mut plan.phase).await.err()
    };
    let cpu = watch.cpu_used();
    let busy = measured_from.elapsed();
    let finished = Rc::into_inner(context).map(|context| context.recorder.into_inner());
    let Some(mut recorder) = finished else {
        let problem = "a connection outlived its thread";
        return Err(Failure::of_client("collect the counts", target(), &problem));
    };
    recorder.finish();
    Ok(WorkerOutcome { thread: plan.thread, recorder: Some(recorder), schedule, cpu, busy, failure })
}

/// The connections of a thread in a closed loop.
struct ClosedLoop {
    connections: Vec<Ready>,
    followers: Option<FollowerParts>,
    pipeline: usize,
    origin: Instant,
}

impl ClosedLoop {
    async fn run(
        self,
        watch: &mut Watch<'_>,
        context: &Rc<ThreadContext>,
        phase: &mut watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        if self.followers.is_none() && self.connections.iter().all(|ready| ready.stream.is_plain()) {
            return self.run_sockets(watch, context, phase);
        }
        let mut tasks = JoinSet::new();
        for Ready { parts, stream, remaining, .. } in self.connections {
            let follower = self.followers.clone().map(Follower::new);
            let context = Rc::clone(context);
            let connection = LoadConnection::new(parts, context, self.pipeline, remaining, self.origin);
            tasks.spawn_local(run_as_task(connection, stream, follower));
        }
        watch.over_tasks(tasks, None, phase).await
    }

    /// Occupies the thread until the end; nothing else runs on it.
    fn run_sockets(
        self,
        watch: &mut Watch<'_>,
        context: &Rc<ThreadContext>,
        phase: &watch::Receiver<Phase>,
    ) -> Result<(), Failure> {
        let failed = |problem: &dyn std::fmt::Display| {
            Failure::of_client("set up the event loop", watch.configuration.target(), problem)
        };
        let mut sockets = Vec::with_capacity(self.connections.len());
        for Ready { parts, stream, remaining, .. } in self.connections {
            let socket = stream.into_socket().map_err(|error| failed(&error))?;
            let context = Rc::clone(context);
            let connection = LoadConnection::new(parts, context, self.pipeline, remaining, self.origin);
            sockets.push((connection, socket));
        }
        let sockets = SocketLoop::new(sockets, watch.alarm()).map_err(|error| failed(&error))?;
        watch.over_sockets(sockets, phase)
    }
}

/// What the connections of an open loop have in common.
struct OpenLoop {
    plan: Plan,
    origin: Instant,
}

impl OpenLoop {
    fn start(
        &self,
        tasks: &mut Tasks,
        connections: Vec<Ready>,
        context: &Rc<ThreadContext>,
        followers: Option<&FollowerParts>,
    ) -> Result<Rc<Dispatch>, Box<dyn std::error::Error>> {
        let numbers: Vec<u64> = connections.iter().map(|ready| ready.number).collect();
        let agenda = Agenda::new(&self.plan, &numbers);
        let dispatch = Rc::new(Dispatch::new(connections.len(), histogram::empty()?));
        let ends = connections.iter().map(|ready| ready.remaining.end(context.measured_from)).collect();
        let pacer = Pacer::new(agenda, Rc::clone(&dispatch), Rc::clone(context), self.origin, ends)?;
        let (within_run, address) = (0, Arc::from("the schedule"));
        tasks.spawn_local(async move {
            pacer.run().await.map_err(|source| LoadError::Timer { connection: within_run, address, source })
        });
        for ready in connections {
            let follower = followers.cloned().map(Follower::new);
            let (context, dispatch) = (Rc::clone(context), Rc::clone(&dispatch));
            let Ready { parts, stream, .. } = ready;
            let connection =
                ScheduledConnection::new(parts, stream, context, follower, dispatch, self.origin);
            tasks.spawn_local(connection.run());
        }
        Ok(dispatch)
    }
}

impl Remaining {
    /// The same for a schedule.
    fn end(self, measured_from: Instant) -> ScheduleEnd {
        match self {
            Self::Requests(count) => ScheduleEnd::Requests(count),
            Self::For(duration) => ScheduleEnd::At(measured_from + duration),
        }
    }
}

//! Carries out a run through a client library: connects, waits at the start
//! line, lets the tasks or batches go, prints progress, obeys signals and
//! gathers the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::clients::connect::Links;
use crate::clients::error::LibraryError;
use crate::plan::{BatchWork, LibraryPlan, TaskWork, Work};
use crate::report::assemble::{self, Gathered};
use crate::report::counters::{Counters, ShardNumbers};
use crate::report::cpu_threads::{self, RuntimeThreads};
use crate::work::batches::{self, BatchLoader};
use crate::work::tasks::{self, LoadTask, SharedWork};
use dragstrip_crds::workload::BatchOperation;
use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::counts::report::{Failure, Report, ThreadCpu};
use dragstrip_loadgen::driver::ClockAnchor;
use dragstrip_loadgen::driver::ProgressLines;
use dragstrip_loadgen::driver::{self, CpuTime};
use dragstrip_loadgen::driver::{Ending, Signals};
use dragstrip_loadgen::wire::connect;
use dragstrip_loadgen::workload::streams::{Purpose, stream};

/// Longest wait for requests in flight once the run is to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Timers of the event loop are good to a millisecond; the rest before the line is waited out finely.
const COARSE_WAIT_MARGIN: Duration = Duration::from_millis(2);

/// Runs the load on a multi-threaded runtime of its own. Whatever happens after
/// the runtime stands, the report says how it ended and what was done until then.
pub fn run_to_end(configuration: &Configuration, plan: &LibraryPlan) -> std::io::Result<Report> {
    let threads = Arc::new(RuntimeThreads::default());
    let numbers = ShardNumbers::default();
    let announced = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(configuration.threads)
        .thread_name("library")
        .on_thread_start(move || {
            numbers.number_this_thread();
            announced.announce();
        })
        .enable_all()
        .build()?;
    let report = runtime.block_on(run(configuration, plan, &threads));
    // A name resolution that never ends must not hold up the exit.
    runtime.shutdown_background();
    Ok(report)
}

async fn run(configuration: &Configuration, plan: &LibraryPlan, threads: &RuntimeThreads) -> Report {
    let counters = match Counters::new(configuration.threads) {
        Ok(counters) => Arc::new(counters),
        Err(error) => {
            let failure = Failure::of_client("prepare the counters", configuration.target(), &error);
            return assemble::failed(configuration, failure);
        }
    };
    let mut gathered = Gathered::new(Arc::clone(&counters));
    let mut conductor = Conductor { configuration, plan, threads, counters };
    let ending = match conductor.conduct(&mut gathered).await {
        Ok(()) => Ending::Completed,
        Err(ending) => ending,
    };
    assemble::report(configuration, plan, &gathered, ending)
}

/// The prepared work.
enum Running {
    Tasks(JoinSet<Result<(), LibraryError>>, watch::Sender<Option<Instant>>),
    Batches(Box<BatchLoader>),
}

struct Conductor<'a> {
    configuration: &'a Configuration,
    plan: &'a LibraryPlan,
    threads: &'a RuntimeThreads,
    counters: Arc<Counters>,
}

impl Conductor<'_> {
    async fn conduct(&mut self, gathered: &mut Gathered) -> Result<(), Ending> {
        let mut signals = Signals::listen().map_err(|error| self.client("listen for signals", &error))?;
        driver::allow_open_files(self.plan.pool_size)
            .map_err(|error| self.client("open so many connections", &error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let running = tokio::select! {
            biased;
            stopper = signals.next() => return Err(Ending::Interrupted(stopper)),
            prepared = self.prepare(gathered, &stop) => prepared?,
        };
        let origin = tokio::select! {
            biased;
            stopper = signals.next() => return Err(Ending::Interrupted(stopper)),
            origin = self.wait_at_line(gathered) => origin,
        };
        self.load(running, origin, &stop, &mut signals, gathered).await
    }

    fn client(&self, step: &str, problem: &dyn std::fmt::Display) -> Ending {
        Ending::Failed(Failure::of_client(step, self.configuration.target(), problem))
    }

    fn broken(&self, error: &LibraryError) -> Ending {
        Ending::Failed(error.failure(self.plan.library, &self.configuration.target()))
    }

    async fn prepare(&self, gathered: &mut Gathered, stop: &Arc<AtomicBool>) -> Result<Running, Ending> {
        gathered.addresses = connect::addresses(self.configuration).await.map_err(Ending::Failed)?;
        let connecting = Links::connect(self.configuration, self.plan, &gathered.pool).await;
        let links = connecting.map_err(|error| self.broken(&error))?;
        match self.plan.work {
            Work::Tasks(work) => self.prepare_tasks(work, &links, stop),
            Work::Batches(work) => self.prepare_batches(work, links, stop).await,
        }
    }

    fn prepare_tasks(
        &self,
        work: TaskWork,
        links: &Links,
        stop: &Arc<AtomicBool>,
    ) -> Result<Running, Ending> {
        let shared = Arc::new(SharedWork::new(work, Arc::clone(&self.counters), Arc::clone(stop)));
        let value = tasks::value(self.configuration);
        let (start, started) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for index in 0..work.tasks {
            let (shared, link) = (Arc::clone(&shared), links.take_turn(index));
            let task = LoadTask::new(self.configuration, shared, link, value.clone(), index)
                .map_err(|error| self.client("draw keys", &error))?;
            tasks.spawn(task.run(started.clone()));
        }
        Ok(Running::Tasks(tasks, start))
    }

    async fn prepare_batches(
        &self,
        work: BatchWork,
        links: Links,
        stop: &Arc<AtomicBool>,
    ) -> Result<Running, Ending> {
        let configuration = self.configuration;
        let mut loader = BatchLoader {
            work,
            items: batches::items(
                work,
                stream(configuration.seed, configuration.crowd, Purpose::Requests, 0),
            )
            .into(),
            links,
            counters: Arc::clone(&self.counters),
            stop: Arc::clone(stop),
            turns: 0,
        };
        if work.operation == BatchOperation::Mget {
            loader.preload().await.map_err(|error| self.broken(&error))?;
        }
        Ok(Running::Batches(Box::new(loader)))
    }

    /// Waits for the wanted start, or not at all if it has passed, and returns
    /// the instant at which the load begins.
    async fn wait_at_line(&self, gathered: &mut Gathered) -> Instant {
        gathered.clock = ClockAnchor::now();
        let now = gathered.clock.instant();
        let wanted = self.configuration.specification.start_at_unix_nanos;
        let line = wanted.and_then(|nanos| gathered.clock.instant_at(nanos)).unwrap_or(now);
        gathered.line = Some(line);
        if let Some(coarse) = line.checked_sub(COARSE_WAIT_MARGIN) {
            sleep_until(coarse.into()).await;
        }
        while Instant::now() < line {
            std::hint::spin_loop();
        }
        line.max(now)
    }

    async fn load(
        &self,
        running: Running,
        origin: Instant,
        stop: &AtomicBool,
        signals: &mut Signals,
        gathered: &mut Gathered,
    ) -> Result<(), Ending> {
        let mut work = JoinSet::new();
        match running {
            Running::Tasks(tasks, start) => {
                let measured_from = self.counters.measure_from(origin + self.configuration.warmup);
                start.send_replace(Some(measured_from));
                work.spawn(async move {
                    // Dropped with this future, which ends every task.
                    let mut tasks = tasks;
                    while let Some(ended) = tasks.join_next().await {
                        ended.map_err(WorkError::Join)?.map_err(WorkError::Library)?;
                    }
                    Ok(Vec::new())
                });
            }
            Running::Batches(mut loader) => {
                let warmup = self.configuration.warmup;
                work.spawn(async move { loader.run(warmup).await.map_err(WorkError::Library) });
            }
        }
        let outcome = self.watch_over(&mut work, origin, stop, signals, gathered).await;
        work.shutdown().await;
        outcome
    }

    /// Waits until the work is done, fails, falls silent or is to stop.
    async fn watch_over(
        &self,
        work: &mut JoinSet<Result<Vec<Duration>, WorkError>>,
        origin: Instant,
        stop: &AtomicBool,
        signals: &mut Signals,
        gathered: &mut Gathered,
    ) -> Result<(), Ending> {
        let limit = self.configuration.response_timeout;
        let mut tick = interval((limit / 8).clamp(Duration::from_millis(5), Duration::from_millis(250)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let counters = self.counters.progress();
        let mut progress = ProgressLines::new(self.configuration.progress_interval, origin);
        let mut silence = Silence { answers: self.counters.answers(), since: Instant::now() };
        let mut baseline = None;
        let losses = gathered.pool.losses.clone();
        let outcome = loop {
            tokio::select! {
                biased;
                stopper = signals.next() => {
                    stop.store(true, Ordering::Relaxed);
                    // What has not ended by then is cut off; its requests stay unanswered in the counts.
                    let drained = timeout(STOP_GRACE.min(limit), work.join_next()).await;
                    if let Ok(Some(ended)) = drained {
                        gathered.batch_times = self.ended_well(ended)?;
                    }
                    break Err(Ending::Interrupted(stopper));
                }
                () = self.counters.measuring(), if baseline.is_none() => {
                    baseline = Some(CpuBaseline::take(self.threads, self.configuration.threads));
                }
                joined = work.join_next() => match joined.map(|ended| self.ended_well(ended)) {
                    Some(Ok(times)) => {
                        gathered.batch_times = times;
                        break Ok(());
                    }
                    Some(Err(ending)) => break Err(ending),
                    None => break Ok(()),
                },
                lost = losses.lost() => break Err(self.broken(&lost)),
                _ = tick.tick() => {
                    let seconds = silence.lasts(self.counters.answers()).as_secs_f64();
                    if seconds >= limit.as_secs_f64() {
                        break Err(self.broken(&LibraryError::Silent { seconds }));
                    }
                }
                () = progress.next() => {
                    if self.configuration.detail_interval.is_some() {
                        self.counters.publish_detail(self.plan.pool_size);
                    }
                    progress.print(&counters);
                }
            }
        };
        if let Some(baseline) = baseline {
            (gathered.process_cpu, gathered.thread_cpu) = baseline.used(self.threads);
        }
        outcome
    }

    fn ended_well(
        &self,
        ended: Result<Result<Vec<Duration>, WorkError>, JoinError>,
    ) -> Result<Vec<Duration>, Ending> {
        match ended {
            Ok(Ok(times)) => Ok(times),
            Ok(Err(WorkError::Library(error))) => Err(self.broken(&error)),
            Ok(Err(WorkError::Join(error))) | Err(error) => Err(self.client("run the load", &error)),
        }
    }
}

/// Since when the number of answers has not grown.
struct Silence {
    answers: u64,
    since: Instant,
}

impl Silence {
    fn lasts(&mut self, answers: u64) -> Duration {
        if answers != self.answers {
            *self = Self { answers, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

/// CPU times when the measured part began.
struct CpuBaseline {
    at: Instant,
    process: CpuTime,
    threads: Vec<(usize, Duration)>,
    thread_count: usize,
}

impl CpuBaseline {
    fn take(threads: &RuntimeThreads, thread_count: usize) -> Self {
        let (process, threads) = (CpuTime::of_process(), threads.cpu_times(thread_count));
        Self { at: Instant::now(), process, threads, thread_count }
    }

    /// What was used since, by the process and by each runtime thread.
    fn used(&self, threads: &RuntimeThreads) -> (CpuTime, Vec<ThreadCpu>) {
        let process = CpuTime::of_process().since(self.process);
        let after = threads.cpu_times(self.thread_count);
        (process, cpu_threads::used(&self.threads, &after, self.at.elapsed()))
    }
}

/// Why the work ended early.
enum WorkError {
    Library(LibraryError),
    Join(JoinError),
}

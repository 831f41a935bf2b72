//! Carries out a run through a client library, from its connections to its gathered result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clients;
use crate::clients::bb8_pool::PoolWatch;
use crate::clients::error::LibraryError;
use crate::clients::link::Link;
use crate::clients::loss::Losses;
use crate::plan::{LibraryPlan, TaskWork, Work};
use crate::report::assemble::{self, Gathered};
use crate::report::counters::{Counters, number_this_thread};
use crate::report::cpu_threads::{self, RuntimeThreads};
use crate::work::batches::{self, BatchLoader};
use crate::work::tasks::{LoadTask, SharedWork};
use dragstrip_crds::workload::BatchOperation;
use dragstrip_loadgen::configuration::Configuration;
use dragstrip_loadgen::counts::report::{Failure, Report};
use dragstrip_loadgen::driver::{self, ClockAnchor, Ending, ProgressLines, Signals, Stopper};
use dragstrip_loadgen::wire::connect;
use dragstrip_loadgen::workload::streams::{Purpose, stream};

/// Longest wait for requests in flight once the run is to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Runs the load on a multi-threaded runtime of its own. Whatever happens after
/// the runtime stands, the report has how it ended and what was done until then.
pub fn run_to_end(configuration: &Configuration, plan: &LibraryPlan) -> std::io::Result<Report> {
    let counters = Counters::new(configuration.threads).map_err(std::io::Error::other)?;
    let threads = Arc::new(RuntimeThreads::default());
    let announced = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(configuration.threads)
        .thread_name("library")
        .on_thread_start(move || {
            number_this_thread();
            announced.announce();
        })
        .enable_all()
        .build()?;
    let report = runtime.block_on(run(configuration, plan, &threads, counters.into()));
    // A name resolution that never ends must not delay the exit.
    runtime.shutdown_background();
    Ok(report)
}

async fn run(
    configuration: &Configuration,
    plan: &LibraryPlan,
    threads: &RuntimeThreads,
    counters: Arc<Counters>,
) -> Report {
    let mut gathered = Gathered {
        clock: ClockAnchor::now(),
        threads: Vec::new(),
        counters: Arc::clone(&counters),
        batch_times: Vec::new(),
        pings: Arc::default(),
    };
    let conductor = Conductor { configuration, plan, threads, counters, stop: Arc::default() };
    let ending = conductor.conduct(&mut gathered).await.err().unwrap_or(Ending::Completed);
    assemble::report(configuration, plan, &gathered, ending)
}

enum Ready {
    Tasks(Vec<LoadTask>),
    Batches(Box<BatchLoader>),
}

/// Work under way; batches return the times of the measured ones.
type Running = JoinSet<Result<Vec<Duration>, LibraryError>>;

struct Conductor<'a> {
    configuration: &'a Configuration,
    plan: &'a LibraryPlan,
    threads: &'a RuntimeThreads,
    counters: Arc<Counters>,
    /// Set to end the work after its current requests.
    stop: Arc<AtomicBool>,
}

impl Conductor<'_> {
    async fn conduct(&self, gathered: &mut Gathered) -> Result<(), Ending> {
        let mut signals = Signals::listen().map_err(|error| failed("listen for signals", &error))?;
        driver::allow_open_files(self.plan.pool_size)
            .map_err(|error| failed("open so many connections", &error))?;
        let (losses, mut lost) = mpsc::unbounded_channel();
        let watch = PoolWatch { pings: Arc::clone(&gathered.pings), losses: Losses(losses) };
        let ready = async {
            let ready = self.prepare(&watch).await?;
            Ok((ready, self.wait_at_line(gathered).await))
        };
        let (ready, origin) = tokio::select! {
            biased;
            stopper = signals.next() => return Err(Ending::Interrupted(stopper)),
            ready = ready => ready?,
        };
        let mut running = self.start(ready, origin);
        let outcome = self.watch_over(&mut running, origin, &mut signals, &mut lost, gathered).await;
        running.shutdown().await;
        outcome
    }

    fn broken(&self, error: &LibraryError) -> Ending {
        Ending::Failed(error.failure(&self.configuration.target()))
    }

    async fn prepare(&self, watch: &PoolWatch) -> Result<Ready, Ending> {
        let configuration = self.configuration;
        connect::check_name(configuration).await.map_err(Ending::Failed)?;
        let links = clients::connect::connect(configuration, self.plan, watch).await;
        let links = links.map_err(|error| self.broken(&error))?;
        match self.plan.work {
            Work::Tasks(work) => self.tasks(work, &links).map(Ready::Tasks),
            Work::Batches(work) => {
                let random = stream(configuration.seed, configuration.crowd, Purpose::Requests, 0);
                let mut loader = BatchLoader {
                    work,
                    items: batches::items(work, random).into(),
                    links,
                    counters: Arc::clone(&self.counters),
                    stop: Arc::clone(&self.stop),
                    turns: 0,
                };
                if work.operation == BatchOperation::Mget {
                    // MGET must find its keys. Nothing of this is measured.
                    loader.batch(BatchOperation::Mset).await.map_err(|error| self.broken(&error))?;
                }
                Ok(Ready::Batches(Box::new(loader)))
            }
        }
    }

    fn tasks(&self, work: TaskWork, links: &[Link]) -> Result<Vec<LoadTask>, Ending> {
        let (counters, stop) = (Arc::clone(&self.counters), Arc::clone(&self.stop));
        let shared = Arc::new(SharedWork { work, counters, taken: AtomicU64::new(0), stop });
        let value: Bytes = vec![b'x'; self.configuration.data_bytes[0]].into();
        let task = |(index, link): (usize, &Link)| {
            LoadTask::new(self.configuration, Arc::clone(&shared), link.clone(), value.clone(), index)
        };
        let tasks = (0..work.tasks).zip(links.iter().cycle()).map(task);
        tasks.collect::<Result<_, _>>().map_err(|error| failed("draw keys", &error))
    }

    /// Waits for the wanted start, if it is to come, and returns when the load begins.
    async fn wait_at_line(&self, gathered: &mut Gathered) -> Instant {
        gathered.clock = ClockAnchor::now();
        let line = gathered.clock.line(self.configuration.specification.start_at_unix_nanos);
        driver::wait_until(line).await;
        line.max(gathered.clock.instant())
    }

    fn start(&self, ready: Ready, origin: Instant) -> Running {
        let mut running = JoinSet::new();
        let warmup = self.configuration.warmup;
        match ready {
            Ready::Tasks(tasks) => {
                let measured_from = self.counters.measure_from(origin + warmup);
                for task in tasks {
                    running.spawn(async move { task.run(measured_from).await.map(|()| Vec::new()) });
                }
            }
            Ready::Batches(mut loader) => {
                running.spawn(async move { loader.run(warmup).await });
            }
        }
        running
    }

    /// Waits until the work is done, fails, falls silent or is to stop.
    async fn watch_over(
        &self,
        running: &mut Running,
        origin: Instant,
        signals: &mut Signals,
        lost: &mut UnboundedReceiver<LibraryError>,
        gathered: &mut Gathered,
    ) -> Result<(), Ending> {
        let limit = self.configuration.response_timeout;
        let mut tick = interval((limit / 8).clamp(Duration::from_millis(5), Duration::from_millis(250)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let counters = self.counters.progress();
        let mut progress = ProgressLines::new(self.configuration.progress_interval, origin);
        let mut silence = Silence { answers: self.counters.answers(), since: Instant::now() };
        let cpu_times = || self.threads.cpu_times(self.configuration.threads);
        let mut cpu_before = None;
        let outcome = loop {
            tokio::select! {
                biased;
                stopper = signals.next() => break self.stop(running, stopper, gathered).await,
                () = self.counters.measuring(), if cpu_before.is_none() => cpu_before = Some(cpu_times()),
                ended = self.until_done(running, gathered) => break ended,
                Some(lost) = lost.recv() => break Err(self.broken(&lost)),
                _ = tick.tick() => {
                    let seconds = silence.lasts(self.counters.answers()).as_secs_f64();
                    if seconds >= limit.as_secs_f64() {
                        break Err(self.broken(&LibraryError::Silent(seconds)));
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
        if let Some(before) = cpu_before {
            gathered.threads = cpu_threads::used(&before, &cpu_times());
        }
        outcome
    }

    /// Ends the work. What does not end soon is cut off; its requests count as unanswered.
    async fn stop(
        &self,
        running: &mut Running,
        stopper: Stopper,
        gathered: &mut Gathered,
    ) -> Result<(), Ending> {
        self.stop.store(true, Ordering::Relaxed);
        let grace = STOP_GRACE.min(self.configuration.response_timeout);
        match timeout(grace, self.until_done(running, gathered)).await {
            Ok(Err(ending)) => Err(ending),
            Ok(Ok(())) | Err(_) => Err(Ending::Interrupted(stopper)),
        }
    }

    /// Waits until all work is done. Each call goes on where an abandoned one stopped.
    async fn until_done(&self, running: &mut Running, gathered: &mut Gathered) -> Result<(), Ending> {
        while let Some(ended) = running.join_next().await {
            let ended = ended.map_err(|error| failed("run the load", &error))?;
            gathered.batch_times.extend(ended.map_err(|error| self.broken(&error))?);
        }
        Ok(())
    }
}

fn failed(step: &str, problem: &dyn std::fmt::Display) -> Ending {
    Ending::Failed(Failure::of_client(step, problem))
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

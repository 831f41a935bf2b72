//! `run`: one repetition of one phase, as one client pod. Each step is a module
//! of its own; here they are put in order, and whatever happens becomes one
//! result that is delivered once.

mod account;
mod load;
mod prepare;
mod progress;
mod statsd;
mod warmup;
mod watch;

use crate::{
    delivery::{
        deliver,
        http::{self, Serving},
        state::{Received, Shared},
    },
    frame::{
        clock,
        failure::failure,
        job::{self, Assignment},
        stdout::print_line,
        stop::Stop,
    },
    measuring::{processes::Accounting, round_trip, usage},
    run::watch::{Watched, watch},
    server::{
        gate,
        members::{self, Look},
        tls_files::{CertificateDirectories, TlsFiles},
    },
    tools::{
        adapter::{self, Adapter, Launch, LaunchContext},
        adapter_for, exec,
        output::Redactor,
        process::{Tool, Written},
    },
};
use dragstrip_crds::run::{MemoryMoment, MemoryReading};
use dragstrip_results::{
    memory,
    protocol::{JobTool, LONGEST_LINGER_SECONDS, RunnerStage},
    result::{Failure, FailureStep, PodResult, ServerRecord},
    usage::ContainerUsage,
};
use prepare::Prepared;
use progress::Printer;
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

/// Exit code when the numbers may be used.
pub const MEASURED: u8 = 0;
/// Exit code when the delivered result says why they may not.
pub const FAILED: u8 = 3;
/// Exit code when the result could not be delivered to both places.
pub const UNDELIVERED: u8 = 4;

/// Where the runner writes and listens.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory for the tool's files; must be empty.
    pub output_directory: PathBuf,
    /// The container's termination log.
    pub termination_log: PathBuf,
    /// Address of the HTTP server.
    pub listen: SocketAddr,
    /// Where certificates are mounted.
    pub certificates: CertificateDirectories,
    /// Whose account of CPU and memory is the client's.
    pub accounting: Accounting,
}

/// Runs the job from the environment, delivers its result and returns the exit code.
pub async fn run(options: &Options) -> u8 {
    let (runner, result) = match job::assignment() {
        Ok(assignment) => {
            let runner = Runner::new(assignment, options);
            let result = runner.result().await;
            (Some(runner), result)
        }
        Err(error) => (None, PodResult::failed("", 0, &job::pod_name(), error.failure())),
    };
    if let Some(failure) = &result.failure {
        eprintln!("{:?}: {}", failure.step, failure.message);
    }
    let delivered = deliver::deliver(&result, &options.termination_log);
    if let Some(runner) = runner {
        runner.see_out(&result).await;
    }
    if let Err(error) = delivered {
        eprintln!("{error}");
        return UNDELIVERED;
    }
    if result.failure.is_none() { MEASURED } else { FAILED }
}

/// One pod's work.
struct Runner<'a> {
    assignment: Assignment,
    options: &'a Options,
    tls: Option<TlsFiles>,
    shared: Arc<Shared>,
    redactor: Redactor,
    serving: Mutex<Option<Serving>>,
}

/// What is known when the tool is about to start.
struct Armed {
    prepared: Prepared,
    received: Received,
    before: Look,
    context: LaunchContext,
    launch: Launch,
}

/// What is known when it has ended.
struct Done {
    launched_unix_nanos: i64,
    watched: Watched,
    written: Written<Box<dyn Adapter>>,
    after: Result<Look, String>,
    client: ContainerUsage,
}

impl<'a> Runner<'a> {
    fn new(assignment: Assignment, options: &'a Options) -> Self {
        let own = match &assignment.job.tool {
            JobTool::Exec(spec) => exec::secrets(spec),
            _ => Vec::new(),
        };
        let secrets = own.iter().map(String::as_str).chain(assignment.password.as_deref());
        let redactor = Redactor::new(secrets);
        let tls = TlsFiles::of(&assignment.job.target, &options.certificates);
        Self { assignment, options, tls, shared: Arc::default(), redactor, serving: Mutex::default() }
    }

    /// The result, whatever happens. No secret is in it.
    async fn result(&self) -> PodResult {
        let job = &self.assignment.job;
        let nothing = failure(FailureStep::Job, "nothing was done");
        let mut result = PodResult::failed(&job.phase, job.repetition, &job::pod_name(), nothing);
        result.failure = self.measure(&mut result).await.err();
        self.clean(&mut result);
        result
    }

    /// Stays until the end of the load was scraped too, where somebody scrapes: the next
    /// phase waits for this pod's end, so that it is one scrape and no more. A pod that
    /// was asked to stop has no time for it.
    async fn see_out(&self, result: &PodResult) {
        let interrupted = |failure: &Failure| failure.step == FailureStep::Interrupted;
        let seconds = self.assignment.job.linger_seconds.clamp(0.0, LONGEST_LINGER_SECONDS);
        if !result.failure.as_ref().is_some_and(interrupted)
            && let (Ok(bound), Ok(stop)) = (Duration::try_from_secs_f64(seconds), Stop::listen())
        {
            tokio::select! {
                () = self.shared.last_scrape(bound) => {}
                () = stop.requested() => {}
            }
        }
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.end().await;
        }
    }

    /// Takes secrets out of every text that a tool may have brought in. The names of our
    /// own tools' operations are fixed words.
    fn clean(&self, result: &mut PodResult) {
        if let Some(failure) = &mut result.failure {
            self.redactor.clean_all(failure.last_lines.iter_mut().chain([&mut failure.message]));
        }
        self.redactor.clean_all(&mut result.tool.arguments);
        if matches!(self.assignment.job.tool, JobTool::Exec(_)) {
            self.redactor.clean_all([&mut result.tool.name].into_iter().chain(&mut result.tool.version));
            self.redactor.clean_all(result.operations.iter_mut().map(|operation| &mut operation.operation));
            let metrics = result.metrics.iter_mut();
            self.redactor
                .clean_all(metrics.flat_map(|metric| [&mut metric.name].into_iter().chain(&mut metric.unit)));
        }
        let errors = std::mem::take(&mut result.errors);
        for (kind, count) in errors {
            *result.errors.entry(self.redactor.clean(&kind)).or_default() += count;
        }
    }

    async fn measure(&self, result: &mut PodResult) -> Result<(), Failure> {
        let preparing = |message: String| failure(FailureStep::Preflight, message);
        let stop = Stop::listen().map_err(|e| preparing(format!("cannot listen for signals: {e}")))?;
        let listen = self.options.listen;
        let serving =
            http::serve(listen, &self.assignment.job, self.assignment.client_index, Arc::clone(&self.shared));
        let serving = serving.await.map_err(|e| preparing(format!("cannot listen on {listen}: {e}")))?;
        print_line(&format!("listening on {}", serving.address));
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        let armed = tokio::select! {
            armed = self.arm() => armed?,
            () = stop.requested() => {
                return Err(failure(FailureStep::Interrupted, "the pod was asked to stop before the load began"));
            }
        };
        result.load = armed.prepared.load;
        result.warmup.clone_from(&armed.prepared.warmup);
        let done = self.load(&armed, &stop).await;
        result.server = record(&armed, done.as_ref().ok());
        let ended = Instant::now();
        account::settle(&self.assignment.job, &armed, done?, &self.shared, result)?;
        result.memory = self.memory(&armed, ended, &stop).await;
        Ok(())
    }

    /// The memory of the servers right after the load, which had `ended`, and after the
    /// settle time, where this pod is the one to ask. A pod that is asked to stop waits no longer.
    async fn memory(&self, armed: &Armed, ended: Instant, stop: &Stop) -> Vec<MemoryReading> {
        let Some(asked) = self.assignment.job.memory.filter(|_| self.assignment.client_index == 0) else {
            return Vec::new();
        };
        let ready = &armed.prepared.ready;
        let read = async |moment| {
            let seconds = ended.elapsed().as_secs_f64();
            let mut members = members::memory(&ready.access, &ready.members).await;
            self.redactor.clean_all(members.iter_mut().filter_map(|member| member.unread.as_mut()));
            memory::readings(moment, seconds, members)
        };
        let mut readings = read(MemoryMoment::RightAfter).await;
        let settle = asked.settle_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if let Some(settle) = settle {
            tokio::select! {
                () = sleep(settle.saturating_sub(ended.elapsed())) => {
                    readings.extend(read(MemoryMoment::Settled).await);
                }
                () = stop.requested() => {}
            }
        }
        readings
    }

    /// Everything up to the instant at which the tool must be started.
    async fn arm(&self) -> Result<Armed, Failure> {
        let job = &self.assignment.job;
        let prepared = self.prepare().await?;
        self.shared.enter(RunnerStage::AtStartLine);
        let received = self.shared.command().await;
        self.shared.enter(RunnerStage::Armed);
        let left = clock::seconds(received.line_unix_nanos.saturating_sub(clock::unix_nanos()));
        print_line(&format!("start line in {left:.3} s"));
        if left <= 0.0 {
            let message = format!("the order to start arrived {:.3} s after the start line", -left);
            return Err(failure(FailureStep::StartLine, message));
        }
        if prepared.gated && self.assignment.client_index == 0 {
            gate::remove(job, &prepared.ready).await.map_err(|e| e.failure())?;
        }
        let before = members::look(&prepared.ready.access, &prepared.ready.members).await.map_err(|e| {
            failure(FailureStep::ServerIdentity, format!("unreachable at the start line: {e}"))
        })?;
        let adapter = adapter_for(&job.tool);
        let statsd_port = if adapter.sends_latencies(&prepared.context) {
            // Without a port there are no such series; the measurement does not need them.
            statsd::listen(Arc::clone(&self.shared)).await.ok()
        } else {
            None
        };
        let start_at_unix_nanos = received.line_unix_nanos;
        let context = LaunchContext { start_at_unix_nanos, statsd_port, ..prepared.context.clone() };
        let launch = adapter.launch(job, &context);
        clock::sleep_until(received.line_unix_nanos.saturating_sub(clock::nanos(launch.lead))).await;
        Ok(Armed { prepared, received, before, context, launch })
    }

    /// Runs the tool to its end and asks the server once more.
    async fn load(&self, armed: &Armed, stop: &Stop) -> Result<Done, Failure> {
        let line = armed.received.line_unix_nanos;
        let measured = line.saturating_add(clock::nanos(adapter::measured_after(&self.assignment.job)));
        let meter = self.meter(measured);
        let launched_unix_nanos = clock::unix_nanos();
        let mut tool = self.start(armed)?;
        self.shared.enter(RunnerStage::Running);
        let watchdog =
            Duration::try_from_secs_f64(self.assignment.job.watchdog_seconds).unwrap_or(Duration::MAX);
        let sampled = adapter::threads_sampled(&self.assignment.job.tool);
        let watched = watch(&mut tool, &armed.launch, line, watchdog, sampled, stop)
            .await
            .map_err(|e| failure(FailureStep::Tool, format!("the tool's end cannot be awaited: {e}")))?;
        let client = meter.read().await;
        let ready = &armed.prepared.ready;
        let after = members::look(&ready.access, &ready.members).await.map_err(|e| e.to_string());
        let written = tool.written().await.map_err(|e| failure(FailureStep::Tool, e.to_string()))?;
        Ok(Done { launched_unix_nanos, watched, written, after, client })
    }

    /// Meters the load from an instant of Unix time on: what the tool does before it, such
    /// as connecting and warming up, is not part of the load.
    fn meter(&self, begin: i64) -> Meter {
        let (stop, mut stopped) = oneshot::channel();
        let observers = self.assignment.job.target.observers.clone();
        let (clients, accounting) = (self.assignment.job.clients, self.options.accounting);
        let task = tokio::spawn(async move {
            tokio::select! {
                // A tool that ended before its load began loaded nothing.
                _ = &mut stopped => return ContainerUsage::default(),
                () = clock::sleep_until(begin) => {}
            }
            let opening = usage::open(accounting);
            let round_trip = round_trip::measure(&observers, clients, stopped).await;
            ContainerUsage { round_trip, ..opening.close() }
        });
        Meter { stop, task }
    }

    fn start(&self, armed: &Armed) -> Result<Tool<Box<dyn Adapter>>, Failure> {
        let adapter = adapter_for(&self.assignment.job.tool);
        let (shared, mut printer) = (Arc::clone(&self.shared), Printer::default());
        let line = armed.received.line_unix_nanos;
        let on_progress = move |progress| {
            shared.note_progress(progress);
            let elapsed = clock::seconds(clock::unix_nanos().saturating_sub(line));
            if let Some(line) = printer.line(elapsed, &progress) {
                print_line(&line);
            }
        };
        Tool::start(
            &armed.launch,
            &armed.context.output_directory,
            adapter,
            self.redactor.clone(),
            on_progress,
        )
        .map_err(|e| failure(FailureStep::Launch, e.to_string()))
    }
}

/// The servers as this pod saw them; nothing where they cannot be asked.
fn record(armed: &Armed, done: Option<&Done>) -> Option<ServerRecord> {
    let ready = &armed.prepared.ready;
    let after = done.and_then(|done| done.after.as_ref().ok());
    let sum = |look: &Look| look.sum(&ready.members, ready.replica_reads);
    Some(ServerRecord {
        truth: ready.truth.clone()?,
        before: sum(&armed.before),
        after: after.map(sum),
        shards: members::shards(&ready.members, &armed.before, after),
    })
}

/// What the container uses while the load runs.
struct Meter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<ContainerUsage>,
}

impl Meter {
    /// What was used until now.
    async fn read(self) -> ContainerUsage {
        drop(self.stop);
        self.task.await.unwrap_or_default()
    }
}

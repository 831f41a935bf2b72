//! `run`: one repetition of one phase, as one client pod. Each step is a module
//! of its own; here they are put in order, and whatever happens becomes one
//! result that is delivered once.

mod account;
mod progress;

use crate::{
    clock, deliver,
    failure::failure,
    flush, http,
    job::{self, Assignment},
    output::Redactor,
    preflight::{self, Ready},
    process::{Tool, Written},
    say,
    server::{ANSWER_TIMEOUT, Server},
    state::{Received, Shared},
    stop::Stop,
    tool::{Launch, LaunchContext, adapter_for},
    usage::{self, Opening},
    watch::{Watched, watch},
};
use dragstrip_crds::{
    observed::ServerCounters,
    protocol::RunnerStage,
    result::{ClientUsage, Failure, FailureStep, PodResult, ServerRecord},
};
use progress::Printer;
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

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
}

/// Runs the job from the environment, delivers its result and returns the exit code.
pub async fn run(options: &Options) -> u8 {
    let result = match job::assignment() {
        Ok(assignment) => Runner::new(assignment, options).result().await,
        Err(error) => PodResult::failed("", 0, &job::pod_name(), error.failure()),
    };
    if let Some(failure) = &result.failure {
        eprintln!("{:?}: {}", failure.step, failure.message);
    }
    if let Err(error) = deliver::deliver(&result, &options.termination_log) {
        eprintln!("{error}");
        return UNDELIVERED;
    }
    if result.failure.is_none() { MEASURED } else { FAILED }
}

/// One pod's work.
struct Runner<'a> {
    assignment: Assignment,
    options: &'a Options,
    shared: Arc<Shared>,
    redactor: Redactor,
}

/// What is known when the tool is about to start.
struct Armed {
    ready: Ready,
    received: Received,
    before: ServerCounters,
    context: LaunchContext,
    launch: Launch,
}

/// What is known when it has ended.
struct Done {
    launched_unix_nanos: i64,
    watched: Watched,
    written: Written,
    after: Result<ServerCounters, String>,
    client: ClientUsage,
}

impl<'a> Runner<'a> {
    fn new(assignment: Assignment, options: &'a Options) -> Self {
        let redactor = Redactor::new(assignment.password.as_deref());
        Self { assignment, options, shared: Arc::default(), redactor }
    }

    /// The result, whatever happens. No secret is in it.
    async fn result(&self) -> PodResult {
        let job = &self.assignment.job;
        let nothing = failure(FailureStep::Job, "nothing was done");
        let mut result = PodResult::failed(&job.phase, job.repetition, &job::pod_name(), nothing);
        result.failure = self.measure(&mut result).await.err();
        if let Some(failure) = &mut result.failure {
            self.redactor.clean_all(failure.last_lines.iter_mut().chain([&mut failure.message]));
        }
        self.redactor.clean_all(&mut result.tool.arguments);
        result
    }

    async fn measure(&self, result: &mut PodResult) -> Result<(), Failure> {
        let preparing = |message: String| failure(FailureStep::Preflight, message);
        let stop = Stop::listen().map_err(|e| preparing(format!("cannot listen for signals: {e}")))?;
        let listen = self.options.listen;
        let serving =
            http::serve(listen, &self.assignment.job, self.assignment.client_index, Arc::clone(&self.shared));
        let address = serving.await.map_err(|e| preparing(format!("cannot listen on {listen}: {e}")))?;
        say(&format!("listening on {address}"));
        let armed = tokio::select! {
            armed = self.arm() => armed?,
            () = stop.requested() => {
                return Err(failure(FailureStep::Interrupted, "the pod was asked to stop before the load began"));
            }
        };
        let mut record =
            ServerRecord { truth: armed.ready.truth.clone(), before: armed.before.clone(), after: None };
        let done = self.load(&armed, &stop).await;
        if let Ok(Done { after: Ok(after), .. }) = &done {
            record.after = Some(after.clone());
        }
        result.server = Some(record);
        account::settle(&self.assignment.job, &armed, done?, &self.shared, result)
    }

    /// Everything up to the instant at which the tool must be started.
    async fn arm(&self) -> Result<Armed, Failure> {
        let assignment = &self.assignment;
        let ready =
            preflight::check(assignment, &self.options.output_directory).await.map_err(|e| e.failure())?;
        if assignment.job.flush && assignment.client_index == 0 {
            flush::flush(assignment, &ready).await.map_err(|e| e.failure())?;
        }
        let engine =
            ready.truth.engine.map_or_else(|| "an unknown engine".to_owned(), |engine| engine.to_string());
        say(&format!("preflight passed: {} is {engine} {}", ready.address, ready.truth.version));
        self.shared.enter(RunnerStage::AtStartLine);
        let received = self.shared.order().await;
        self.shared.enter(RunnerStage::Armed);
        let left = clock::seconds(received.line_unix_nanos.saturating_sub(clock::unix_nanos()));
        say(&format!("start line in {left:.3} s"));
        if left <= 0.0 {
            let message = format!("the order to start arrived {:.3} s after the start line", -left);
            return Err(failure(FailureStep::StartLine, message));
        }
        let before = self.counters(ready.address).await.map_err(|reason| {
            failure(
                FailureStep::ServerIdentity,
                format!("{} is unreachable at the start line: {reason}", ready.address),
            )
        })?;
        let context = self.context(&ready, received);
        let launch = adapter_for(&assignment.job.tool).launch(&assignment.job, &context);
        clock::sleep_until(received.line_unix_nanos.saturating_sub(clock::nanos(launch.lead))).await;
        Ok(Armed { ready, received, before, context, launch })
    }

    fn context(&self, ready: &Ready, received: Received) -> LaunchContext {
        LaunchContext {
            address: ready.address,
            client_index: self.assignment.client_index,
            password: self.assignment.password.clone(),
            output_directory: self.output_directory(),
            start_at_unix_nanos: received.line_unix_nanos,
        }
    }

    /// The tool is started in its output directory, where a relative path would mean another place.
    fn output_directory(&self) -> PathBuf {
        let declared = &self.options.output_directory;
        std::path::absolute(declared).unwrap_or_else(|_| declared.clone())
    }

    /// Runs the tool to its end and asks the server once more.
    async fn load(&self, armed: &Armed, stop: &Stop) -> Result<Done, Failure> {
        let line = armed.received.line_unix_nanos;
        let opening = open_at(line);
        let launched_unix_nanos = clock::unix_nanos();
        let mut tool = self.start(armed)?;
        self.shared.enter(RunnerStage::Running);
        let watchdog =
            Duration::try_from_secs_f64(self.assignment.job.watchdog_seconds).unwrap_or(Duration::MAX);
        let watched = watch(&mut tool, &armed.launch, line, watchdog, stop)
            .await
            .map_err(|e| failure(FailureStep::Tool, format!("the tool's end cannot be awaited: {e}")))?;
        let client = close(opening).await;
        let after = self.counters(armed.ready.address).await;
        let written = tool.written().await.map_err(|e| failure(FailureStep::Tool, e.to_string()))?;
        Ok(Done { launched_unix_nanos, watched, written, after, client })
    }

    fn start(&self, armed: &Armed) -> Result<Tool, Failure> {
        let adapter = adapter_for(&self.assignment.job.tool);
        let (shared, mut printer) = (Arc::clone(&self.shared), Printer::default());
        let line = armed.received.line_unix_nanos;
        let on_progress = move |progress| {
            shared.note_progress(progress);
            let elapsed = clock::seconds(clock::unix_nanos().saturating_sub(line));
            if let Some(line) = printer.line(elapsed, progress) {
                say(&line);
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

    async fn counters(&self, address: SocketAddr) -> Result<ServerCounters, String> {
        let ask = async {
            Server::connect(address, self.assignment.password.as_deref(), ANSWER_TIMEOUT)
                .await?
                .counters()
                .await
        };
        ask.await.map_err(|e| e.to_string())
    }
}

/// Opens the account of the container's usage at the start line: what the tool
/// does before it, such as connecting, is not part of the load.
fn open_at(line: i64) -> JoinHandle<Opening> {
    tokio::spawn(async move {
        clock::sleep_until(line).await;
        usage::open()
    })
}

async fn close(opening: JoinHandle<Opening>) -> ClientUsage {
    // A tool that ended before the line loaded nothing.
    opening.abort();
    opening.await.map(Opening::close).unwrap_or_default()
}

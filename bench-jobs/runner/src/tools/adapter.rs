//! What a tool's adapter must know: how to start the tool, what its progress
//! output says, and what its files mean. Pure: an adapter opens no connection
//! and starts no process; the runner does that and hands over what it got.

use dragstrip_crds::workload::ToolSpec;
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_parsers::Capture;
use dragstrip_results::{
    live::LatencyCounts,
    protocol::JobSpec,
    result::{Failure, FailureStep, PodResult},
};
use nix::sys::signal::Signal;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// What the runner found out before the tool is started.
#[derive(Debug, Clone)]
pub struct LaunchContext {
    pub address: SocketAddr,
    /// Every server of the target, resolved; empty where they do not speak RESP.
    pub members: Vec<SocketAddr>,
    /// This pod's index among the clients, from 0.
    pub client_index: u32,
    pub password: Option<String>,
    /// How to encrypt connections; plain ones when absent.
    pub tls: Option<TlsOptions>,
    /// An empty, writable directory for the tool's files.
    pub output_directory: PathBuf,
    /// The start line, in nanoseconds of Unix time by this pod's clock, for
    /// tools that connect first and then wait for it themselves.
    pub start_at_unix_nanos: i64,
    /// The tool's version, where the runner queried it.
    pub tool_version: Option<String>,
    /// Where the runner listens for the latencies that the tool sends while it runs,
    /// a UDP port of the loopback device.
    pub statsd_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program, looked up on PATH when it holds no slash.
    pub program: String,
    pub arguments: Vec<String>,
    /// Text for its standard input; none closes it.
    pub input: Option<String>,
    pub environment: Vec<(String, String)>,
    /// The signal that makes it end and write its result.
    pub stop_signal: Signal,
    /// How long it may take to end after that before it is killed.
    pub stop_grace: Duration,
    /// Start it this long before the start line, because it connects first and waits by itself.
    pub lead: Duration,
}

/// A progress report out of a line the tool wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    pub operations: u64,
    pub errors: u64,
    /// Bytes sent and received so far, where the tool reports them.
    pub bytes: Option<u64>,
    pub connections: Option<u64>,
    /// How much of the planned load is done, from 0 to 1, where it reports that.
    pub ratio: Option<f64>,
    /// Latencies so far, where it reports them.
    pub latency: Option<LatencyCounts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Whether the runner ended it because the pod must stop.
    pub interrupted: bool,
    pub watchdog: bool,
}

/// The tool's complete run, as the runner saw it from outside.
#[derive(Debug, Clone)]
pub struct Ended {
    pub exit: Exit,
    /// Wall time of the process on the monotonic clock.
    pub wall: Duration,
    /// Time from the start line to the last moment at which one of its threads
    /// other than the main one used CPU: the load itself, without the tool's
    /// own start-up tail and its once-a-second poll for the end.
    pub active: Duration,
    /// The last lines it wrote to stdout and stderr, secrets removed, oldest first.
    pub last_lines: Vec<String>,
    /// The first MiB of stdout, as it was written.
    pub stdout: Capture,
    /// The first MiB of stderr, as it was written.
    pub stderr: Capture,
}

impl Ended {
    /// A failure of this run, with how the tool ended and what it wrote last.
    pub fn failure(&self, step: FailureStep, message: impl Into<String>) -> Failure {
        self.explain(Failure::new(step, message))
    }

    /// `failure` with how the tool ended and what it wrote last.
    pub fn explain(&self, failure: Failure) -> Failure {
        let Exit { code, signal, .. } = self.exit;
        Failure { exit_code: code, signal, last_lines: self.last_lines.clone(), ..failure }
    }
}

/// A measurement that must not be used, and the part of it that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    pub failure: Failure,
    /// What the tool wrote, where it could be read: for people, never as a result.
    pub partial: Option<PodResult>,
}

/// The result of a tool, if it may be used.
pub type Judged = Result<PodResult, Box<Rejected>>;

pub(super) fn rejected(failure: Failure, partial: Option<PodResult>) -> Judged {
    Err(Box::new(Rejected { failure, partial }))
}

pub trait Adapter: Send {
    /// The program to run with `--version`, where what the tool takes depends on that.
    fn versioned_program(&self) -> Option<&'static str> {
        None
    }

    fn version(&self, _answer: &str) -> Option<String> {
        None
    }

    /// Whether the tool takes all that the job declares; errors name field and remedy.
    fn accept(&self, _job: &JobSpec, _context: &LaunchContext) -> Result<(), String> {
        Ok(())
    }

    /// The tool with the options of a warm-up before the start line, and how long that is to
    /// run, where the job declares a warm-up that the tool cannot do by itself.
    fn warmup(&self, _job: &JobSpec) -> Option<(ToolSpec, Duration)> {
        None
    }

    /// Whether the tool sends its latencies to [`LaunchContext::statsd_port`].
    fn sends_latencies(&self, _context: &LaunchContext) -> bool {
        false
    }

    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch;

    /// Reads one line of stderr (ended by CR or LF); returns the progress if the line reports it.
    fn stderr_line(&mut self, line: &str) -> Option<Progress>;

    /// Reads what the tool left behind: the tool's part of the pod's result, with a window if the
    /// tool measured one, and the client's threads if it reports them. An exit code alone proves
    /// nothing: memtier exits 0 with a dead server.
    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended) -> Judged;
}

/// How long after the start line the measured part begins, for tools that warm
/// up by themselves: they do so on the connections that they measure with.
pub fn measured_after(job: &JobSpec) -> Duration {
    match &job.tool {
        ToolSpec::Loadgen(_) | ToolSpec::Bullmq(_) => warmup(job),
        ToolSpec::Memtier(_) | ToolSpec::Exec(_) => Duration::ZERO,
    }
}

/// Whether the tool's threads are to be sampled: those of a tool that does not report when it loaded, and
/// what its threads used, is watched.
pub fn threads_sampled(tool: &ToolSpec) -> bool {
    match tool {
        ToolSpec::Loadgen(_) | ToolSpec::Bullmq(_) => false,
        ToolSpec::Memtier(_) | ToolSpec::Exec(_) => true,
    }
}

/// The declared warm-up; zero for none.
pub fn warmup(job: &JobSpec) -> Duration {
    let seconds = job.warmup_seconds.unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

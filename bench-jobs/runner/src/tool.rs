//! What a tool's adapter must know: how to start the tool, what its progress
//! output says, and what its files mean. Pure: an adapter opens no connection
//! and starts no process; the runner does that and hands over what it got.

use crate::{loadgen::LoadgenAdapter, memtier::MemtierAdapter};
use dragstrip_crds::{
    protocol::{JobSpec, JobTool},
    result::{Failure, OperationResult, ToolRecord},
};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

/// What the runner found out before the tool is started.
#[derive(Debug, Clone)]
pub struct LaunchContext {
    /// The server, resolved.
    pub address: SocketAddr,
    /// This pod's index among the clients, from 0.
    pub client_index: u32,
    /// The target's password.
    pub password: Option<String>,
    /// An empty, writable directory for the tool's files.
    pub output_directory: PathBuf,
    /// The start line, in nanoseconds of Unix time by this pod's clock, for
    /// tools that connect first and then wait for it themselves.
    pub start_at_unix_nanos: i64,
}

/// How the tool is asked to end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT: memtier writes its result on it, and on nothing else.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// A command to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program, looked up on PATH when it holds no slash.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables to add.
    pub environment: Vec<(String, String)>,
    /// How to ask it to end.
    pub stop_signal: StopSignal,
    /// How long it may take to end after that before it is killed.
    pub stop_grace: Duration,
    /// Start it this long before the start line, because it connects first and waits by itself.
    pub lead: Duration,
}

/// A progress report out of a line the tool wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Operations so far.
    pub operations: u64,
    /// Errors so far.
    pub errors: u64,
}

/// How the tool's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the runner asked it to end because the pod was told to stop.
    pub interrupted: bool,
    /// Whether the watchdog had to kill it.
    pub watchdog: bool,
}

/// The tool's whole run, as the runner saw it from outside.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How it ended.
    pub exit: Exit,
    /// Wall time of the process on the monotonic clock.
    pub wall: Duration,
    /// Time from the start line to the last moment at which one of its threads
    /// other than the main one used CPU: the load itself, without the tool's
    /// own start-up tail and its once-a-second poll for the end.
    pub active: Duration,
    /// The last lines it wrote to stdout and stderr, secrets removed, oldest first.
    pub last_lines: Vec<String>,
    /// All of stdout, up to 1 MiB.
    pub stdout: String,
}

/// What a tool measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The tool's own account of itself.
    pub tool: ToolRecord,
    /// Per operation, without a total.
    pub operations: Vec<OperationResult>,
    /// Error replies by first word.
    pub errors: BTreeMap<String, u64>,
    /// Operations per whole second since the load began; empty where the tool does not tell.
    pub per_second: Vec<u64>,
    /// The load's window by the tool's monotonic clock, where it has one:
    /// start in nanoseconds of Unix time, and length in seconds.
    pub window: Option<(i64, f64)>,
}

/// A measurement that must not be used, and what could be read of it all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    /// Why.
    pub failure: Failure,
    /// What the tool wrote, where it could be read: for people, never as a result.
    pub partial: Option<Measured>,
}

/// One tool's adapter.
pub trait Adapter: Send {
    /// The command to start.
    fn launch(&self, job: &JobSpec, context: &LaunchContext) -> Launch;

    /// Takes in one line of stderr (ended by CR or LF); tells the progress if the line does.
    fn stderr_line(&mut self, line: &str) -> Option<Progress>;

    /// Reads what the tool left behind. An exit code alone proves nothing:
    /// memtier exits 0 with a dead server.
    fn judge(&self, job: &JobSpec, context: &LaunchContext, ended: &Ended)
    -> Result<Measured, Box<Rejected>>;
}

/// The adapter of a job's tool; one per run, since it remembers what the tool wrote.
pub fn adapter_for(tool: &JobTool) -> Box<dyn Adapter> {
    match tool {
        JobTool::Loadgen(spec) => Box::new(LoadgenAdapter::new(spec.clone())),
        JobTool::Memtier(spec) => Box::new(MemtierAdapter::new(spec.clone())),
    }
}

//! The tool's process: starts it in a process group of its own, signals that
//! group, and takes in what it writes. Touches processes and pipes.

use crate::{
    frame::install::{CLIENTS_NAME, LOADGEN_NAME, RUNNER_NAME},
    tools::{
        adapter::{Adapter, Ended, Exit, Launch, Progress, StopSignal},
        output::{LineSplitter, Redactor, Tail},
    },
};
use dragstrip_results::protocol::{JOB_VARIABLE, PASSWORD_VARIABLE};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

/// How much of each stream is captured, in bytes.
const MAXIMUM_CAPTURED_BYTES: usize = 1 << 20;
/// How long the pipes may stay open once the whole process group is gone.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);

/// A step in handling the process that failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "cannot start {program}: {source}. Check that the tool's image holds it and fits the node's architecture"
    )]
    Spawn { program: String, source: io::Error },
    #[error("the started tool has no {0}")]
    Incomplete(&'static str),
    #[error("the tool ended, but something that it started outside its process group keeps its output open")]
    PipesOpen,
}

/// The last lines of both streams, in the order of arrival.
type SharedTail = Arc<Mutex<Tail>>;

/// Reads what a tool writes while it runs.
pub trait Listener: Send + 'static {
    /// Reads one line of stderr; returns the progress if the line reports it.
    fn stderr_line(&mut self, line: &str) -> Option<Progress>;
}

impl Listener for Box<dyn Adapter> {
    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        (**self).stderr_line(line)
    }
}

/// The running tool, and who listens to it.
pub struct Tool<L> {
    child: Child,
    group: Pid,
    stdout: JoinHandle<Capture>,
    stderr: JoinHandle<(Capture, L)>,
    tail: SharedTail,
}

/// What a tool left on its pipes, and who listened to it.
pub struct Written<L> {
    pub listener: L,
    pub stdout: Capture,
    pub stderr: Capture,
    /// The last lines of both streams without progress, secrets removed.
    pub last_lines: Vec<String>,
}

impl<L> Written<L> {
    /// The whole run of a tool that ended like this, and its listener.
    pub fn ended(self, exit: Exit, wall: Duration, active: Duration) -> (Ended, L) {
        let Self { listener, stdout, stderr, last_lines } = self;
        let ended = Ended {
            exit,
            wall,
            active,
            last_lines,
            stdout: stdout.text,
            stdout_cut: stdout.cut,
            stderr: stderr.text,
            stderr_cut: stderr.cut,
        };
        (ended, listener)
    }
}

/// The beginning of a stream, up to 1 MiB, as it was written: a password may be a
/// number, so that secrets are removed from what is read, not from what is to be read.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    pub text: String,
    pub cut: bool,
}

/// The beginning of a stream while it is read.
#[derive(Default)]
struct Capturing {
    bytes: Vec<u8>,
    cut: bool,
}

impl Capturing {
    fn push(&mut self, bytes: &[u8]) {
        let room = MAXIMUM_CAPTURED_BYTES - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }

    fn captured(self) -> Capture {
        Capture { text: String::from_utf8_lossy(&self.bytes).into_owned(), cut: self.cut }
    }
}

impl<L: Listener> Tool<L> {
    /// Starts the tool. Every line of stderr goes to `listener`, every progress
    /// report that it finds there to `on_progress`.
    pub fn start(
        launch: &Launch,
        directory: &Path,
        listener: L,
        redactor: Redactor,
        on_progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<Self, ProcessError> {
        let mut child = Command::new(locate(&launch.program))
            .args(&launch.arguments)
            // The job holds the token, and the password is the adapter's to pass on.
            .env_remove(JOB_VARIABLE)
            .env_remove(PASSWORD_VARIABLE)
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(if launch.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| ProcessError::Spawn { program: launch.program.clone(), source })?;
        let id =
            child.id().and_then(|id| i32::try_from(id).ok()).ok_or(ProcessError::Incomplete("process id"))?;
        let stdout = child.stdout.take().ok_or(ProcessError::Incomplete("standard output"))?;
        let stderr = child.stderr.take().ok_or(ProcessError::Incomplete("standard error"))?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), launch.input.clone()) {
            // A tool that ends before it has read its input says why itself.
            tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        }
        let tail = SharedTail::default();
        let stdout = tokio::spawn(read_stdout(stdout, redactor.clone(), Arc::clone(&tail)));
        let stderr = tokio::spawn(read_stderr(stderr, listener, redactor, Arc::clone(&tail), on_progress));
        Ok(Self { child, group: Pid::from_raw(id), stdout, stderr, tail })
    }

    pub fn id(&self) -> i32 {
        self.group.as_raw()
    }

    /// Returns when the process has ended. May be dropped and called again.
    pub async fn ended(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }

    pub fn ask_to_stop(&self, signal: StopSignal) {
        self.signal(match signal {
            StopSignal::Interrupt => Signal::SIGINT,
            StopSignal::Terminate => Signal::SIGTERM,
        });
    }

    /// Asks the process to end, and kills it when it does not within its grace.
    pub async fn end(&mut self, launch: &Launch) -> io::Result<std::process::ExitStatus> {
        self.ask_to_stop(launch.stop_signal);
        if let Ok(status) = timeout(launch.stop_grace, self.ended()).await {
            return status;
        }
        self.kill();
        self.ended().await
    }

    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(&self, signal: Signal) {
        // An error means that the group is gone already, which is the aim.
        let _ = killpg(self.group, signal);
    }

    /// What the tool wrote; to be called when it has ended.
    pub async fn written(self) -> Result<Written<L>, ProcessError> {
        // What it may have left behind would keep the pipes open.
        self.kill();
        let both = async { tokio::join!(self.stdout, self.stderr) };
        let (stdout, stderr) = timeout(PIPE_TIMEOUT, both).await.map_err(|_| ProcessError::PipesOpen)?;
        let (stdout, (stderr, listener)) =
            stdout.ok().zip(stderr.ok()).ok_or(ProcessError::Incomplete("readable output"))?;
        let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Written { listener, stdout, stderr, last_lines: tail.into_lines() })
    }
}

/// Our own programs lie beside the runner; everything else is the image's. Another program
/// that is the runner too says on PATH where they are.
fn locate(program: &str) -> PathBuf {
    let own =
        std::env::current_exe().ok().filter(|own| own.file_name().is_some_and(|name| name == RUNNER_NAME));
    match own.map(|own| own.with_file_name(program)) {
        Some(path) if [LOADGEN_NAME, CLIENTS_NAME].contains(&program) && path.is_file() => path,
        _ => PathBuf::from(program),
    }
}

async fn read_stdout(mut pipe: impl AsyncRead + Unpin, redactor: Redactor, tail: SharedTail) -> Capture {
    let (mut capturing, mut splitter) = (Capturing::default(), LineSplitter::default());
    let keep = |line: &str| {
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(redactor.clean(line));
    };
    let mut buffer = vec![0; 8192];
    while let Some(bytes) = read_some(&mut pipe, &mut buffer).await {
        capturing.push(bytes);
        splitter.push(bytes, keep);
    }
    splitter.finish(keep);
    capturing.captured()
}

async fn read_stderr<L: Listener>(
    mut pipe: impl AsyncRead + Unpin,
    mut listener: L,
    redactor: Redactor,
    tail: SharedTail,
    mut on_progress: impl FnMut(Progress),
) -> (Capture, L) {
    let (mut capturing, mut splitter) = (Capturing::default(), LineSplitter::default());
    // Progress lines come every second and would push what matters out of the tail.
    let mut take_in = |line: &str| {
        if let Some(progress) = listener.stderr_line(line) {
            on_progress(progress);
        } else {
            tail.lock().unwrap_or_else(PoisonError::into_inner).push(redactor.clean(line));
        }
    };
    let mut buffer = vec![0; 8192];
    while let Some(bytes) = read_some(&mut pipe, &mut buffer).await {
        capturing.push(bytes);
        splitter.push(bytes, &mut take_in);
    }
    splitter.finish(&mut take_in);
    (capturing.captured(), listener)
}

/// The next bytes; `None` at the end, and when the pipe breaks, which is its end too.
async fn read_some<'a>(pipe: &mut (impl AsyncRead + Unpin), buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    match pipe.read(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(count) => buffer.get(..count),
    }
}

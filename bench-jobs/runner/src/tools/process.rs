//! The tool's process: starts it in its own process group, signals that
//! group, and reads what it writes. Touches processes and pipes.

use crate::{
    frame::install::{CLIENTS_NAME, LOADGEN_NAME, RUNNER_NAME},
    tools::{
        adapter::{Adapter, Ended, Exit, Launch, Progress},
        output::{LineSplitter, Redactor, Tail},
    },
};
use dragstrip_parsers::Capture;
use dragstrip_results::protocol::{JOB_VARIABLE, PASSWORD_VARIABLE};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

const MAXIMUM_CAPTURED_BYTES: usize = 1 << 20;
/// How long the pipes may stay open once the process group is gone.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "cannot start {program}: {source}. Check that the tool's image holds it and fits the node's architecture"
    )]
    Spawn { program: String, source: io::Error },
    #[error("the started tool has no {0}")]
    Incomplete(&'static str),
    #[error("cannot wait for the tool's end: {0}")]
    Wait(#[source] io::Error),
    #[error("the tool ended, but something that it started outside its process group keeps its output open")]
    PipesOpen,
}

/// The last lines of both streams, in the order of arrival.
type SharedTail = Arc<Mutex<Tail>>;

/// The running tool, and the adapter that reads its stderr.
pub struct Tool {
    child: Child,
    group: Pid,
    stdout: JoinHandle<Capture>,
    stderr: JoinHandle<(Capture, Box<dyn Adapter>)>,
    tail: SharedTail,
}

impl Tool {
    /// Starts the tool. Every line of stderr goes to `adapter`, every progress
    /// report that it finds there to `on_progress`.
    pub fn start(
        launch: &Launch,
        directory: &Path,
        mut adapter: Box<dyn Adapter>,
        redactor: Redactor,
        mut on_progress: impl FnMut(Progress) + Send + 'static,
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
        let remember = {
            let tail = Arc::clone(&tail);
            move |line: &str| {
                tail.lock().unwrap_or_else(PoisonError::into_inner).push(redactor.clean(line));
            }
        };
        let remember_stdout = remember.clone();
        let stdout = tokio::spawn(async move { read(stdout, remember_stdout).await });
        let stderr = tokio::spawn(async move {
            // Progress lines come every second and would push what matters out of the tail.
            let read = read(stderr, |line| match adapter.stderr_line(line) {
                Some(progress) => on_progress(progress),
                None => remember(line),
            });
            (read.await, adapter)
        });
        Ok(Self { child, group: Pid::from_raw(id), stdout, stderr, tail })
    }

    pub fn id(&self) -> i32 {
        self.group.as_raw()
    }

    /// Returns when the process has ended. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<ExitStatus, ProcessError> {
        self.child.wait().await.map_err(ProcessError::Wait)
    }

    /// Signals the process to end, and kills it when it does not within its grace.
    pub async fn end(&mut self, launch: &Launch) -> Result<ExitStatus, ProcessError> {
        self.signal(launch.stop_signal);
        if let Ok(status) = timeout(launch.stop_grace, self.ended()).await {
            return status;
        }
        self.kill();
        self.ended().await
    }

    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    pub fn signal(&self, signal: Signal) {
        // An error means that the group is gone already, which is the aim.
        let _ = killpg(self.group, signal);
    }

    /// The complete run of the tool, which ended like this, and its adapter.
    pub async fn written(
        self,
        exit: Exit,
        wall: Duration,
        active: Duration,
    ) -> Result<(Ended, Box<dyn Adapter>), ProcessError> {
        // What it may have left behind would keep the pipes open.
        self.kill();
        let both = async { tokio::join!(self.stdout, self.stderr) };
        let (stdout, stderr) = timeout(PIPE_TIMEOUT, both).await.map_err(|_| ProcessError::PipesOpen)?;
        let (stdout, (stderr, adapter)) =
            stdout.ok().zip(stderr.ok()).ok_or(ProcessError::Incomplete("readable output"))?;
        let tail = std::mem::take(&mut *self.tail.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((Ended { exit, wall, active, last_lines: tail.into_lines(), stdout, stderr }, adapter))
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

/// Reads a stream to its end: captures its beginning as it was written, and hands out each
/// line. A password may be a number, so that secrets are removed only from what is shown.
async fn read(mut pipe: impl AsyncRead + Unpin, mut on_line: impl FnMut(&str)) -> Capture {
    let (mut captured, mut cut, mut splitter) = (Vec::new(), false, LineSplitter::default());
    let mut buffer = vec![0; 8192];
    // A pipe that breaks has ended too.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let bytes = &buffer[..count];
        let room = MAXIMUM_CAPTURED_BYTES - captured.len();
        captured.extend_from_slice(&bytes[..count.min(room)]);
        cut |= count > room;
        splitter.push(bytes, &mut on_line);
    }
    splitter.finish(&mut on_line);
    Capture { text: String::from_utf8_lossy(&captured).into_owned(), cut }
}

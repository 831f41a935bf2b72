//! Runs a tool to its end outside the measurement: to write keys, to warm up,
//! to tell its version. Touches processes.

use crate::tools::{
    adapter::{Ended, Exit, Launch, Progress, VersionQuestion},
    output::Redactor,
    process::{Listener, ProcessError, Tool},
};
use dragstrip_results::protocol::{JOB_VARIABLE, PASSWORD_VARIABLE};
use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{process::Command, time::timeout};

/// How long a tool may take to tell its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a tool's run came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AsideError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("the tool's end cannot be awaited: {0}")]
    Wait(#[source] io::Error),
}

/// Runs the tool; ends it when it takes longer than `bound`, as a watchdog does.
pub async fn run<L: Listener>(
    launch: &Launch,
    directory: &Path,
    listener: L,
    redactor: Redactor,
    bound: Option<Duration>,
    on_progress: impl FnMut(Progress) + Send + 'static,
) -> Result<(Ended, L), AsideError> {
    let started = Instant::now();
    let mut tool = Tool::start(launch, directory, listener, redactor, on_progress)?;
    let ended = match bound {
        Some(bound) => timeout(bound, tool.ended()).await.ok(),
        None => Some(tool.ended().await),
    };
    let watchdog = ended.is_none();
    let status = match ended {
        Some(status) => status,
        None => tool.end(launch).await,
    }
    .map_err(AsideError::Wait)?;
    let wall = started.elapsed();
    let written = tool.written().await?;
    let ended = Ended {
        exit: Exit { code: status.code(), signal: status.signal(), interrupted: false, watchdog },
        wall,
        active: wall,
        last_lines: written.last_lines,
        stdout: written.stdout.text,
        stdout_cut: written.stdout.cut,
        stderr: written.stderr.text,
        stderr_cut: written.stderr.cut,
    };
    Ok((ended, written.listener))
}

/// What a program answers to the question for its version, both streams one
/// after the other, within a few seconds.
pub async fn version(question: &VersionQuestion) -> io::Result<String> {
    let mut command = Command::new(&question.program);
    command.args(&question.arguments).stdin(Stdio::null()).kill_on_drop(true);
    // The job holds the token.
    command.env_remove(JOB_VARIABLE).env_remove(PASSWORD_VARIABLE);
    let output = timeout(VERSION_TIMEOUT, command.output()).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", VERSION_TIMEOUT.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })?;
    let mut answer = String::from_utf8_lossy(&output.stdout).into_owned();
    answer.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(answer)
}

//! Runs a tool to its end outside the measurement: to write keys, to warm up,
//! to print its version. Touches processes.

use crate::tools::{
    adapter::{Adapter, Ended, Exit, Launch, Progress},
    output::Redactor,
    process::{ProcessError, Tool},
};
use dragstrip_results::{
    protocol::{JOB_VARIABLE, PASSWORD_VARIABLE},
    result::{Failure, FailureStep},
};
use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{process::Command, time::timeout};

/// How long a tool may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the tool; ends it when it takes longer than `bound`, as a watchdog does.
pub async fn run(
    launch: &Launch,
    directory: &Path,
    adapter: Box<dyn Adapter>,
    redactor: Redactor,
    bound: Option<Duration>,
    on_progress: impl FnMut(Progress) + Send + 'static,
) -> Result<(Ended, Box<dyn Adapter>), ProcessError> {
    let started = Instant::now();
    let mut tool = Tool::start(launch, directory, adapter, redactor, on_progress)?;
    let ended = match bound {
        Some(bound) => timeout(bound, tool.ended()).await.ok(),
        None => Some(tool.ended().await),
    };
    let watchdog = ended.is_none();
    let status = match ended {
        Some(status) => status,
        None => tool.end(launch).await,
    }?;
    let wall = started.elapsed();
    let exit = Exit { code: status.code(), signal: status.signal(), interrupted: false, watchdog };
    tool.written(exit, wall, wall).await
}

/// What a program prints when it is run for its version, both streams one after the other.
pub async fn version(program: &str) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    // The job holds the token.
    command.env_remove(JOB_VARIABLE).env_remove(PASSWORD_VARIABLE);
    let output = timeout(VERSION_TIMEOUT, command.output()).await.map_err(|_| {
        let seconds = VERSION_TIMEOUT.as_secs();
        let message = format!("{program} does not print its version: no answer within {seconds} s");
        Failure::new(FailureStep::Preflight, message)
    })?;
    let output = output.map_err(|source| {
        let program = program.to_owned();
        Failure::new(FailureStep::Launch, ProcessError::Spawn { program, source }.to_string())
    })?;
    let mut answer = String::from_utf8_lossy(&output.stdout).into_owned();
    answer.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(answer)
}

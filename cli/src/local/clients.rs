//! The clients of one measurement: one runner each. They start together, report their progress,
//! and leave a result. Touches processes and talks to the runners.

use super::{
    children::{self, Process, Program, last_lines, read_output},
    plan::Track,
    progress::{live, rate},
    server::{Death, Server},
};
use crate::output::screen::Screen;
use dragstrip_agents::{AgentError, Agents};
use dragstrip_core::run::{
    merge::common_window,
    offline::OfflineRun,
    timing::{RESULT_GRACE, lead, sampled_seconds, watchdog_seconds},
    validate::Attempt,
};
use dragstrip_crds::workload::ToolSpec;
use dragstrip_results::{
    protocol::{
        ClockOffset, INDEX_VARIABLE, JOB_VARIABLE, JobSpec, PASSWORD_VARIABLE, POD_NAME_VARIABLE,
        RunnerState, StartCommand, UsageCommand, UsageWindow,
    },
    result::{Failure, FailureStep, PodResult},
    usage::ServerUsage,
};
use dragstrip_runner::at_the_line;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::Signal;
use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

/// How often clients and server are checked for their end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How often the runners are queried while load runs.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// Lines of the log of a client without a result that are reported.
const LAST_LINES: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Child(#[from] children::Error),
    #[error("failed to write the job of a client")]
    Job(#[source] serde_json::Error),
    #[error("there is no server to load")]
    NoTarget,
    #[error("failed to write {1}")]
    Directory(#[source] std::io::Error, PathBuf),
    #[error("failed to give client {1} its start command")]
    Start(#[source] AgentError, String),
}

pub struct Measured {
    pub start: Option<Timestamp>,
    pub pods: Vec<PodResult>,
    pub servers: Vec<ServerUsage>,
    pub cut: Option<Cut>,
}

/// What ends a measurement before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    Interrupted,
    Died(Death),
    Overdue,
}

struct Client {
    name: String,
    process: Process,
    awaited: Option<oneshot::Receiver<SocketAddr>>,
    address: Option<SocketAddr>,
    reading: JoinHandle<Option<String>>,
    termination: PathBuf,
    log: PathBuf,
}

struct Clients {
    all: Vec<Client>,
    token: String,
}

fn environment(
    track: &Track<'_>,
    job: &JobSpec,
    name: &str,
    index: u32,
) -> Result<Vec<(String, OsString)>, Error> {
    let text = serde_json::to_string(job).map_err(Error::Job)?;
    let mut all: Vec<(String, OsString)> = match &job.tool {
        ToolSpec::Exec(exec) => {
            let plain = exec
                .env
                .iter()
                .filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?.into())));
            plain.collect()
        }
        _ => Vec::new(),
    };
    all.extend([
        (JOB_VARIABLE.to_owned(), text.into()),
        (POD_NAME_VARIABLE.to_owned(), name.into()),
        (INDEX_VARIABLE.to_owned(), index.to_string().into()),
        ("PATH".to_owned(), super::programs::path_with(&track.directory.bin())),
    ]);
    all.extend(track.plan.password.as_ref().map(|password| (PASSWORD_VARIABLE.to_owned(), password.into())));
    Ok(all)
}

fn start(track: &Track<'_>, job: &JobSpec, name: &str, index: u32) -> Result<Client, Error> {
    let own = track.directory.client(name);
    std::fs::create_dir_all(&own).map_err(|error| Error::Directory(error, own.clone()))?;
    let (termination, log) = (own.join("termination"), track.directory.log(name));
    let arguments = ["run", "--without-container", "--listen", "127.0.0.1:0"].map(str::to_owned);
    let file = |name: &str, path: &Path| format!("{name}={}", path.display());
    let files = [file("--output-directory", &own.join("output")), file("--termination-log", &termination)];
    let program = Program {
        name,
        file: &track.directory.runner(),
        arguments: arguments.into_iter().chain(files).collect(),
        environment: environment(track, job, name, index)?,
        directory: &own,
        cpus: track.plan.division.as_ref().map_or(&[], |division| division.clients.as_slice()),
        // It then ends its tool.
        orphaned: Signal::SIGTERM,
    };
    let mut process = program.start_piped(&log)?;
    let (awaited, reading) = read_output(&mut process, &track.directory.log(&format!("{name}-output")));
    let name = name.to_owned();
    Ok(Client { name, process, awaited: Some(awaited), address: None, reading, termination, log })
}

impl Clients {
    fn start(track: &Track<'_>, attempt: &Attempt, job: &JobSpec) -> Result<Self, Error> {
        let client = |index| start(track, job, &format!("{}-{index}", attempt.name), index);
        let all = (0..attempt.pods).map(client).collect::<Result<_, _>>()?;
        Ok(Self { all, token: job.token.clone() })
    }

    async fn states(&mut self, agents: &Agents) -> Vec<RunnerState> {
        for client in &mut self.all {
            if let Some(Ok(address)) = client.awaited.as_mut().map(oneshot::Receiver::try_recv) {
                (client.address, client.awaited) = (Some(address), None);
            }
        }
        let states = self.all.iter().filter_map(|client| client.address);
        let states = states.map(|address| agents.progress(address, &self.token));
        join_all(states).await.into_iter().flatten().collect()
    }

    fn ended(&mut self) -> Result<usize, children::Error> {
        let mut ended = 0;
        for client in &mut self.all {
            ended += usize::from(client.process.has_ended()?.is_some());
        }
        Ok(ended)
    }

    /// Sends all runners the same start line, even if one does not answer.
    async fn command(&self, agents: &Agents, start: Timestamp) -> Result<(), Error> {
        let nanos = |at: Timestamp| i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
        let command = StartCommand {
            start_at_unix_nanos: nanos(start),
            sent_at_unix_nanos: nanos(Timestamp::now()),
            // One machine has one clock.
            clock: ClockOffset { offset_nanos: 0, uncertainty_nanos: 0 },
        };
        let sent = self.all.iter().map(|client| async {
            let Some(address) = client.address else { return Ok(()) };
            let started = agents.start(address, &self.token, command).await;
            started.map(drop).map_err(|error| Error::Start(error, client.name.clone()))
        });
        join_all(sent).await.into_iter().collect()
    }

    /// Ends all that still run, and reads their results.
    async fn read(self, attempt: &Attempt, cut: Option<&Cut>) -> Result<Vec<PodResult>, Error> {
        let mut results = Vec::with_capacity(self.all.len());
        // All at once, so that none waits for the other's grace.
        self.all.iter().for_each(|client| client.process.terminate());
        for mut client in self.all {
            client.process.end().await?;
            let line = client.reading.await.ok().flatten();
            let line = line.or_else(|| std::fs::read_to_string(&client.termination).ok());
            let result = line.and_then(|line| serde_json::from_str::<PodResult>(&line).ok());
            let own = result.filter(|result| result.pod == client.name);
            results.push(own.unwrap_or_else(|| without_result(attempt, &client.name, &client.log, cut)));
        }
        Ok(results)
    }
}

fn without_result(attempt: &Attempt, name: &str, log: &Path, cut: Option<&Cut>) -> PodResult {
    let (step, message) = match cut {
        Some(Cut::Overdue) => (FailureStep::Lost, "no result arrived in time"),
        Some(_) => (FailureStep::Interrupted, "it was ended before it had a result"),
        None => (FailureStep::Tool, "the client ended without a result"),
    };
    let failure = Failure { last_lines: last_lines(log, LAST_LINES), ..Failure::new(step, message) };
    PodResult::failed(&attempt.phase, attempt.repetition, name, failure)
}

/// What stops a measurement now, if anything does.
async fn cut(track: &Track<'_>, server: &mut Server, end: Instant) -> Result<Option<Cut>, Error> {
    if let Some(death) = server.has_died()? {
        return Ok(Some(Cut::Died(death)));
    }
    if Instant::now() >= end {
        return Ok(Some(Cut::Overdue));
    }
    Ok(tokio::select! {
        () = track.stop.requested() => Some(Cut::Interrupted),
        () = tokio::time::sleep(CHECK_INTERVAL) => None,
    })
}

/// Waits until all are at the start line; false if one ended before it.
async fn line_up(
    track: &Track<'_>,
    clients: &mut Clients,
    server: &mut Server,
    (screen, label): (&mut Screen, &str),
) -> Result<Result<bool, Cut>, Error> {
    let timeout = track.plan.run.spec.timeout.duration();
    let end = Instant::now().checked_add(timeout).unwrap_or_else(Instant::now);
    loop {
        if clients.ended()? > 0 {
            return Ok(Ok(false));
        }
        let states = clients.states(track.agents).await;
        if states.len() == clients.all.len() && states.iter().all(|state| at_the_line(state.stage)) {
            return Ok(Ok(true));
        }
        screen.progress(&format!("{label}: {}", live(&states, None)));
        if let Some(cut) = cut(track, server, end).await? {
            return Ok(Err(cut));
        }
    }
}

async fn load(
    track: &Track<'_>,
    clients: &mut Clients,
    server: &mut Server,
    seconds: f64,
    (screen, label): (&mut Screen, &str),
) -> Result<Option<Cut>, Error> {
    let most = Duration::try_from_secs_f64(seconds)
        .unwrap_or(Duration::MAX)
        .saturating_add(RESULT_GRACE.unsigned_abs());
    let end = Instant::now().checked_add(most).unwrap_or_else(Instant::now);
    let mut queried = Instant::now();
    let mut last: Option<(f64, u64)> = None;
    loop {
        if clients.ended()? == clients.all.len() {
            return Ok(None);
        }
        if queried.elapsed() >= QUERY_INTERVAL {
            queried = Instant::now();
            let states = clients.states(track.agents).await;
            let (rate, now) = rate(&states, last);
            last = now;
            screen.progress(&format!("{label}: {}", live(&states, rate)));
        }
        if let Some(cut) = cut(track, server, end).await? {
            return Ok(Some(cut));
        }
    }
}

fn job(track: &Track<'_>, offline: &OfflineRun, attempt: &Attempt) -> Result<JobSpec, Error> {
    let mut job = offline.job(attempt, track.key.clone()).ok_or(Error::NoTarget)?;
    // Clients work in directories of their own, in which ./bench is another file or none.
    if let ToolSpec::Exec(exec) = &mut job.tool
        && let Some(program) = exec.command.first_mut()
        && let Some(file) = track.plan.tools.get(program).and_then(|file| file.to_str())
    {
        file.clone_into(program);
    }
    Ok(job)
}

/// Lets the clients load the server together; returns the start line, and what cut it short.
async fn race(
    track: &Track<'_>,
    offline: &OfflineRun,
    attempt: &Attempt,
    (clients, server): (&mut Clients, &mut Server),
    (screen, label): (&mut Screen, &str),
) -> Result<(Option<Timestamp>, Option<Cut>), Error> {
    match line_up(track, clients, server, (&mut *screen, label)).await? {
        Ok(true) => {}
        Ok(false) => return Ok((None, None)),
        Err(cut) => return Ok((None, Some(cut))),
    }
    let command =
        UsageCommand { token: clients.token.clone(), seconds: sampled_seconds(&offline.run, attempt) };
    server.sample(track.agents, &command).await;
    let lead = lead(attempt.pods, attempt.tool.head_start());
    let line = Timestamp::now() + lead;
    clients.command(track.agents, line).await?;
    let seconds = SignedDuration::as_secs_f64(&lead) + watchdog_seconds(&offline.run, attempt);
    let cut = load(track, clients, server, seconds, (screen, label)).await?;
    Ok((Some(line), cut))
}

pub async fn measure(
    track: &Track<'_>,
    offline: &OfflineRun,
    attempt: &Attempt,
    server: &mut Server,
    (screen, label): (&mut Screen, &str),
) -> Result<Measured, Error> {
    let job = job(track, offline, attempt)?;
    let mut clients = Clients::start(track, attempt, &job)?;
    let raced = race(track, offline, attempt, (&mut clients, server), (screen, label)).await;
    let cut = raced.as_ref().ok().and_then(|(_, cut)| cut.clone());
    // The clients end even after an error.
    let pods = clients.read(attempt, cut.as_ref()).await?;
    let (start, cut) = raced?;
    let servers = match common_window(&pods) {
        Some(window) => {
            let window =
                UsageWindow { token: job.token, from_unix_nanos: window.start, to_unix_nanos: window.end };
            server.usage(track.agents, &window, &offline.server_name()).await
        }
        None => Vec::new(),
    };
    // It may have died so late that its clients noticed first.
    let cut = cut.or(server.has_died()?.map(Cut::Died));
    Ok(Measured { start, pods, servers, cut })
}

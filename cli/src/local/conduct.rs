//! One local run from its plan to its results. The core plans, checks and judges it as it does
//! in a cluster. Touches processes and files.

use super::{
    clients::{Cut, Measured, measure},
    cpus,
    directory::{self, Directory},
    options::PAGE_FILE,
    plan::{Plan, Surroundings, Track, plan},
    programs,
    server::{self, Server},
    settings::Settings,
};
use crate::output::{
    errors::{Outcome, chain},
    figures::rate,
    input, print,
    screen::Screen,
};
use dragstrip_agents::{AgentError, Agents};
use dragstrip_core::run::{
    decide::{Ending, attempt_failure, failure},
    offline::{Next, OfflineRun},
    validate::Attempt,
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, Datastore,
    conditions::{self, types::PASSED},
    run::FailureStatus,
    units::thousands,
};
use dragstrip_report::{build, html};
use dragstrip_results::{
    result::{NodeRecord, RepetitionResult},
    signing::{KeyError, SigningKey},
};
use jiff::Timestamp;
use kube::ResourceExt;
use std::{collections::BTreeMap, path::Path};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to create a key for signing commands")]
    Key(#[source] KeyError),
    #[error("failed to create a client for runners")]
    Agents(#[source] AgentError),
}

/// A run that has ended, with its results.
pub struct Raced {
    pub run: BenchmarkRun,
    pub results: BTreeMap<String, RepetitionResult>,
}

fn machine(cpus: usize) -> NodeRecord {
    let file = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    NodeRecord {
        name: file("/proc/sys/kernel/hostname").unwrap_or_else(|| "this-machine".to_owned()),
        boot_id: file("/proc/sys/kernel/random/boot_id"),
        allocatable_millicpus: u64::try_from(cpus).ok().map(|cpus| cpus * 1000),
        ..NodeRecord::default()
    }
}

pub fn planned(run: &BenchmarkRun, datastores: &[Datastore], settings: &Settings) -> Outcome<Plan> {
    let cpus = cpus::available();
    let around = Surroundings {
        binary: &|engine| settings.binary(engine).map(Path::to_owned),
        password: settings.password.as_deref(),
        cpus: &cpus,
        machine: machine(cpus.len()),
        find: &programs::find,
        now: Timestamp::now(),
    };
    Ok(plan(run, datastores, &around)?)
}

/// The same, and that the port in a Custom server's command is free.
pub fn ready(run: &BenchmarkRun, datastores: &[Datastore], settings: &Settings) -> Outcome<Plan> {
    let plan = planned(run, datastores, settings)?;
    if let Some(declared) = &plan.server {
        server::port(&declared.datastore)?;
    }
    Ok(plan)
}

const DISTURBED: &str = "they disturb each other, so the verdict is Degraded at best";

/// How the machine is divided, for people.
fn division(plan: &Plan) -> String {
    match (&plan.division, &plan.server) {
        (Some(division), _) => format!(
            "server on CPU {}, clients on CPU {} of the same machine: {DISTURBED}",
            cpus::listed(&division.server),
            cpus::listed(&division.clients)
        ),
        (None, Some(_)) => format!("server and clients share the only CPU: {DISTURBED}"),
        (None, None) => "clients on all CPUs of this machine, server elsewhere".to_owned(),
    }
}

fn server_line(plan: &Plan, server: &Server) -> String {
    let (host, port) = &server.address;
    match &plan.server {
        Some(declared) => {
            let spec = &declared.datastore.spec;
            let version = server.version().unwrap_or("of unknown version");
            format!(
                "server: {} {version} ({}), threads: {}, on {host}:{port}",
                spec.engine,
                server.file.display(),
                spec.threads
            )
        }
        None => format!("server: {host}:{port}"),
    }
}

fn outcome(result: &RepetitionResult) -> String {
    if let Some(failure) = &result.failure {
        return format!("failed: {}", failure.failure.message);
    }
    let total = result.total();
    let throughput = total
        .and_then(|total| total.operations_per_second)
        .map(|ops| format!("{} ops/s", rate(ops)))
        .unwrap_or_default();
    let p99 = total.and_then(|total| total.latency_milliseconds.p99);
    let p99 = p99.map(|p99| format!(", p99 {p99:.3} ms")).unwrap_or_default();
    let errors = total.map_or(0, |total| total.errors);
    let errors = if errors > 0 { format!(", {} errors", thousands(errors)) } else { String::new() };
    format!("{throughput}{p99}{errors}")
}

fn label(offline: &OfflineRun, attempt: &Attempt) -> String {
    format!(
        "[{}/{}] {}, repetition {}{}",
        offline.measured() + 1,
        offline.planned(),
        attempt.phase,
        attempt.repetition,
        attempt.details()
    )
}

fn died(attempt: &Attempt, death: server::Death) -> Ending {
    Ending::Failed(FailureStatus {
        last_lines: death.last_lines,
        ..attempt_failure(attempt, "Server", death.message)
    })
}

fn no_server(error: &server::Error) -> FailureStatus {
    FailureStatus { last_lines: error.last_lines().to_vec(), ..failure("Server", chain(error)) }
}

/// Measures all attempts; returns the final status.
async fn race(
    track: &Track<'_>,
    offline: &mut OfflineRun,
    server: &mut Server,
    screen: &mut Screen,
) -> Outcome<BenchmarkRunStatus> {
    loop {
        let index = match offline.next(Timestamp::now()) {
            Next::Measure(index) => index,
            Next::End(ending) => return Ok(offline.status(ending, Timestamp::now())),
        };
        let attempt = offline.run.attempts[index].clone();
        let label = label(offline, &attempt);
        let measured = measure(track, offline, &attempt, server, (&mut *screen, &label)).await;
        let Measured { start, pods, servers, cut } = match measured {
            Ok(measured) => measured,
            Err(error) => {
                let failure = attempt_failure(&attempt, "Client", chain(&error));
                screen.step(&format!("{label}: failed: {}", failure.message));
                return Ok(offline.status(Ending::Failed(failure), Timestamp::now()));
            }
        };
        if let Some(result) = offline.store(index, start, pods, servers) {
            // Stored at once: a run of hours must not lose them.
            track.directory.result(&attempt.name, result)?;
            screen.step(&format!("{label}: {}", outcome(result)));
        }
        match cut {
            Some(Cut::Interrupted) => return Ok(offline.interrupted(Timestamp::now())),
            Some(Cut::Died(death)) => return Ok(offline.status(died(&attempt, death), Timestamp::now())),
            Some(Cut::Overdue) | None => {}
        }
    }
}

/// Runs `run` on this machine, against its one of `datastores`, after all checks.
pub async fn run_locally(
    run: &BenchmarkRun,
    datastores: &[Datastore],
    settings: &Settings,
    screen: &mut Screen,
) -> Outcome<Raced> {
    let plan = planned(run, datastores, settings)?;
    let path = match &settings.output_directory {
        Some(path) => path.clone(),
        None => directory::default_path(&run.name_any(), Timestamp::now())?,
    };
    let directory = Directory::create(&path)?;
    let signing = SigningKey::generate().and_then(|key| SigningKey::read(&key)).map_err(Error::Key)?;
    let key = signing.public();
    let agents = Agents::new(signing).map_err(Error::Agents)?;
    let phases = plan.run.spec.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>().join(", ");
    let repetitions = plan.run.spec.repetitions;
    screen.step(&format!("{}: phases: {phases}; repetitions: {repetitions}", run.name_any()));
    for note in &plan.notes {
        screen.step(note);
    }
    let track =
        Track { plan: &plan, directory: &directory, agents: &agents, key: &key, stop: &settings.stop };
    let raced = Box::pin(conduct(&track, screen)).await?;
    screen.step(&format!("results: {} (page: {PAGE_FILE})", directory.path().display()));
    Ok(raced)
}

/// Starts the server, measures, and always ends the server. An error fails the run.
async fn conduct(track: &Track<'_>, screen: &mut Screen) -> Outcome<Raced> {
    let Track { plan, directory, .. } = track;
    let mut offline = plan.offline.clone();
    let status = match Server::start(track).await {
        Ok(mut server) => {
            screen.step(&server_line(plan, &server));
            screen.step(&division(plan));
            offline.found(server.found());
            let status = race(track, &mut offline, &mut server, screen).await;
            server.end().await?;
            status?
        }
        Err(server::Error::Interrupted) => offline.interrupted(Timestamp::now()),
        Err(error) => {
            let failure = no_server(&error);
            let lines = failure.last_lines.iter().map(|line| format!("\n    | {line}"));
            screen.step(&format!("failed: {}{}", failure.message, lines.collect::<String>()));
            offline.status(Ending::Failed(failure), Timestamp::now())
        }
    };
    let run = BenchmarkRun { status: Some(status), ..plan.run.clone() };
    let mut measured = input::side_by_side(std::slice::from_ref(&run));
    for entry in &mut measured.entries {
        entry.results = offline.results.values().cloned().collect();
    }
    let page = html::render(&build(measured));
    directory.finish(&run, &input::text_report(std::slice::from_ref(&run)), &page)?;
    Ok(Raced { run, results: offline.results.clone() })
}

pub fn passed(run: &BenchmarkRun) -> bool {
    run.status.as_ref().is_some_and(|status| conditions::holds(&status.conditions, PASSED, None))
}

/// Prints `text`. A reader that has gone away does not end a run or change how it ends.
pub fn print_or_closed(text: &str) -> Result<(), print::Error> {
    match print::print(text) {
        Err(print::Error::Closed) => Ok(()),
        printed => printed,
    }
}

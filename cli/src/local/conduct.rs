//! Local runs from their manifests to their results, one after the other. What is measured is
//! planned, checked, judged and told by the same code as in a cluster.

use super::{
    Options, children,
    clients::{self, Cut, Measured, Track, measure},
    cpus,
    keep::{self, Directory},
    manifests::{self, Manifests},
    plan::{self, Plan, Surroundings, plan},
    programs,
    screen::Screen,
    server::{self, Server},
    suites,
};
use crate::{get::whole, report};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus, Datastore, Engine,
    conditions::{self, types::PASSED},
    run::FailureStatus,
    units::thousands,
};
use dragstrip_operator::{
    cluster::agents::{AgentError, Agents},
    run::{
        decide::Ending,
        offline::{Next, OfflineRun, failure},
        validate::Attempt,
    },
};
use dragstrip_results::{
    orders::{KeyError, OrderKey, SigningKey},
    protocol::PASSWORD_VARIABLE,
    result::{NodeRecord, RepetitionResult},
};
use dragstrip_runner::stop::Stop;
use jiff::Timestamp;
use kube::ResourceExt;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// A local run that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifests are not usable.
    #[error(transparent)]
    Manifests(#[from] manifests::Error),
    /// There is nothing to run.
    #[error(
        "the manifests hold no BenchmarkRun and no BenchmarkSuite: add one, such as examples/local.yaml has"
    )]
    NoRun,
    /// An engine's program is not named as it must be.
    #[error(
        "--server-binary {0}: write ENGINE=PATH with one of Dragonfly, Redis, Valkey, KeyDB and Garnet, such as Redis=/opt/redis/redis-server"
    )]
    Binary(String),
    /// Something that it needs is missing.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// Nothing can be kept.
    #[error(transparent)]
    Keep(#[from] keep::Error),
    /// Signals cannot be listened for.
    #[error("failed to listen for Ctrl-C")]
    Signals(#[source] std::io::Error),
    /// Orders cannot be signed.
    #[error("failed to make a key for orders")]
    Key(#[source] KeyError),
    /// Runners and observers cannot be asked.
    #[error("failed to make a client for runners")]
    Agents(#[source] AgentError),
    /// Its server cannot be had.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A measurement could not be made.
    #[error(transparent)]
    Measure(#[from] clients::Error),
    /// A process failed.
    #[error(transparent)]
    Child(#[from] children::Error),
    /// A suite could not be run.
    #[error(transparent)]
    Suite(#[from] suites::Error),
}

/// A run that has ended, and what was measured of it.
pub struct Raced {
    /// The run with its status.
    pub run: BenchmarkRun,
    /// Its results by name.
    pub results: BTreeMap<String, RepetitionResult>,
}

/// What all local runs of one command share.
#[derive(Clone)]
pub struct Settings {
    /// Programs of servers that were named, by engine.
    pub binaries: BTreeMap<Engine, PathBuf>,
    /// The password of servers that want one.
    pub password: Option<String>,
    /// Where results are kept; one directory per run in the user's cache when absent.
    pub output_directory: Option<PathBuf>,
    /// Whether somebody interrupts.
    pub stop: Stop,
}

/// The engine and program in `text`, such as Redis=/opt/redis-server.
fn binary(text: &str) -> Result<(Engine, PathBuf), Error> {
    let refused = || Error::Binary(text.to_owned());
    let (engine, path) = text.split_once('=').ok_or_else(refused)?;
    let engines = [Engine::Dragonfly, Engine::Redis, Engine::Valkey, Engine::KeyDB, Engine::Garnet];
    let named = |known: &Engine| known.to_string().eq_ignore_ascii_case(engine);
    let engine = engines.into_iter().find(named).filter(|_| !path.is_empty()).ok_or_else(refused)?;
    // A name is looked up on PATH; another working directory must not change what is meant.
    let path = PathBuf::from(path);
    let path = if path.components().count() > 1 { std::path::absolute(&path).unwrap_or(path) } else { path };
    Ok((engine, path))
}

/// This machine as a node.
fn machine(cpus: usize) -> NodeRecord {
    let file = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    NodeRecord {
        name: file("/proc/sys/kernel/hostname").unwrap_or_else(|| "this-machine".to_owned()),
        boot_id: file("/proc/sys/kernel/random/boot_id"),
        allocatable_millicpus: u64::try_from(cpus).ok().map(|cpus| cpus * 1000),
        ..NodeRecord::default()
    }
}

/// Looks at everything that `run` needs, now.
pub fn planned(run: &BenchmarkRun, datastores: &[Datastore], settings: &Settings) -> Result<Plan, Error> {
    let cpus = cpus::available();
    let around = Surroundings {
        binaries: &settings.binaries,
        password: settings.password.as_deref(),
        cpus: &cpus,
        machine: machine(cpus.len()),
        find: &programs::find,
        now: Timestamp::now(),
    };
    Ok(plan(run, datastores, &around)?)
}

/// What is about to happen, for people.
fn announcement(plan: &Plan) -> Vec<String> {
    let spec = &plan.run.spec;
    let count =
        |number: usize, one: &str, more: &str| format!("{number} {}", if number == 1 { one } else { more });
    let repetitions = usize::try_from(spec.repetitions).unwrap_or(1);
    let time = plan
        .offline
        .planned_seconds()
        .map(|seconds| format!(", {} s of load", whole(seconds)))
        .unwrap_or_default();
    let mut lines = vec![format!(
        "{}: {}, {}{time}",
        plan.run.name_any(),
        count(spec.phases.len(), "phase", "phases"),
        count(repetitions, "repetition", "repetitions"),
    )];
    lines.extend(plan.notes.iter().cloned());
    lines
}

/// What a shared machine makes of the numbers.
const DISTURBED: &str = "they disturb each other, so that the verdict is Degraded at best";

/// How the machine is divided, for people.
fn division(plan: &Plan) -> String {
    match (&plan.division, &plan.server) {
        (Some(division), _) => {
            let shared = if division.core_is_shared { ", which share a core" } else { "" };
            format!(
                "one machine for both: server on CPU {}, clients on CPU {}{shared}; {DISTURBED}",
                cpus::listed(&division.server),
                cpus::listed(&division.clients)
            )
        }
        (None, Some(_)) => {
            format!("one machine for both, and only one CPU: server and clients share it; {DISTURBED}")
        }
        (None, None) => "clients on all CPUs of this machine; the server is elsewhere".to_owned(),
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

/// What a result says, for people.
fn outcome(result: &RepetitionResult) -> String {
    if let Some(failure) = &result.failure {
        return format!("failed: {}", failure.failure.message);
    }
    let total = result.total();
    let rate = total.map(|total| format!("{} ops/s", whole(total.operations_per_second))).unwrap_or_default();
    let p99 = total.and_then(|total| total.latency_milliseconds.p99);
    let p99 = p99.map(|p99| format!(", p99 {p99:.3} ms")).unwrap_or_default();
    let errors = total.map_or(0, |total| total.errors);
    let errors = if errors > 0 { format!(", {} errors", thousands(errors)) } else { String::new() };
    format!("{rate}{p99}{errors}")
}

fn label(offline: &OfflineRun, run: &BenchmarkRun, attempt: &Attempt) -> String {
    let again = if attempt.measurement > 1 {
        format!(", measurement {}", attempt.measurement)
    } else {
        String::new()
    };
    let search = run.spec.phases.get(attempt.phase_index).and_then(|phase| phase.search.as_ref());
    let point =
        attempt.point.as_ref().zip(search).map(|(point, search)| format!(", {}", point.told(search.raise)));
    format!(
        "[{}/{}] {}, repetition {}{}{again}",
        offline.measured() + 1,
        offline.planned(),
        attempt.phase,
        attempt.repetition,
        point.unwrap_or_default()
    )
}

/// The end of a run whose server died under `attempt`.
fn died(attempt: &Attempt, death: server::Death) -> Ending {
    Ending::Failed(FailureStatus {
        phase: Some(attempt.phase.clone()),
        repetition: Some(attempt.repetition),
        last_lines: death.last_lines,
        ..failure("Server", death.message)
    })
}

/// Measures until nothing is left, and says how the run ended.
async fn race(
    track: &Track<'_>,
    offline: &mut OfflineRun,
    server: &mut Server,
    screen: &mut Screen,
) -> Result<BenchmarkRunStatus, Error> {
    loop {
        let index = match offline.next(Timestamp::now()) {
            Next::Measure(index) => index,
            Next::End(ending) => return Ok(offline.status(ending, Timestamp::now())),
        };
        let Some(attempt) = offline.attempt(index).cloned() else {
            let ending = Ending::Failed(failure("Internal", format!("there is no measurement {index}")));
            return Ok(offline.status(ending, Timestamp::now()));
        };
        let label = label(offline, &track.plan.run, &attempt);
        let measured = measure(track, offline, &attempt, server, (&mut *screen, &label)).await?;
        let Measured { start, pods, servers, cut } = measured;
        if let Some(result) = offline.keep(index, start, pods, servers) {
            // Kept at once: a run of hours must not lose them.
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

/// Runs `run` on this machine, against the Datastore that it names of `datastores`: the run
/// with its status. Everything is looked at before anything starts.
pub async fn run_locally(
    run: &BenchmarkRun,
    datastores: &[Datastore],
    settings: &Settings,
    screen: &mut Screen,
) -> Result<Raced, Error> {
    let plan = planned(run, datastores, settings)?;
    let path = match &settings.output_directory {
        Some(path) => path.clone(),
        None => keep::usual(&run.name_any(), Timestamp::now())?,
    };
    let directory = Directory::make(&path)?;
    let signing = SigningKey::generate().and_then(|key| SigningKey::read(&key)).map_err(Error::Key)?;
    let key = signing.public();
    let agents = Agents::new(signing).map_err(Error::Agents)?;
    for line in announcement(&plan) {
        screen.step(&line);
    }
    let raced = Box::pin(conduct(plan, &directory, &agents, &key, settings, screen)).await?;
    screen.step(&format!("results: {}", directory.path().display()));
    Ok(raced)
}

/// Starts the server, measures, and ends the server whatever came of it.
async fn conduct(
    plan: Plan,
    directory: &Directory,
    agents: &Agents,
    key: &OrderKey,
    settings: &Settings,
    screen: &mut Screen,
) -> Result<Raced, Error> {
    let mut server = Server::start(&plan, directory, agents, key, &settings.stop).await?;
    screen.step(&server_line(&plan, &server));
    screen.step(&division(&plan));
    let mut offline = plan.offline.clone();
    offline.found(server.found());
    let track = Track { plan: &plan, directory, agents, key, stop: &settings.stop };
    let status = race(&track, &mut offline, &mut server, screen).await;
    server.end().await?;
    let run = BenchmarkRun { status: Some(status?), ..plan.run };
    directory.finish(&run, offline.results(), &report::report(std::slice::from_ref(&run)))?;
    Ok(Raced { run, results: offline.results().clone() })
}

/// Whether the verdict of `run` lets its numbers be used.
pub fn passed(run: &BenchmarkRun) -> bool {
    let conditions = run.status.iter().flat_map(|status| &status.conditions);
    let conditions: Vec<_> = conditions.cloned().collect();
    conditions::find(&conditions, PASSED).is_some_and(|passed| passed.status == "True")
}

/// Where what is called `name` keeps its results, when one directory is named for `several`.
fn directory_of(all: Option<&Path>, name: &str, several: bool) -> Option<PathBuf> {
    let all = all?;
    Some(if several { all.join(name) } else { all.to_owned() })
}

/// What the command line says of all runs.
fn settings(options: &Options) -> Result<Settings, Error> {
    let binaries = options.server_binary.iter().map(|text| binary(text)).collect::<Result<_, _>>()?;
    let stop = Stop::listen().map_err(Error::Signals)?;
    let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
    Ok(Settings { binaries, password, output_directory: None, stop })
}

/// Runs what the manifests declare. 0 when all passed, 1 when one did not.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    let Manifests { datastores, runs, suites, notes } = manifests::read(&options.files)?;
    let declared = runs.len() + suites.len();
    if declared == 0 {
        return Err(Error::NoRun);
    }
    let settings = settings(&options)?;
    for run in &runs {
        planned(run, &datastores, &settings)?;
    }
    let plans = suites
        .iter()
        .map(|suite| suites::plan(suite, &datastores, &settings))
        .collect::<Result<Vec<_>, _>>()?;
    let mut screen = Screen::default();
    for note in &notes {
        screen.step(note);
    }
    let of = |name: &str| Settings {
        output_directory: directory_of(options.output_directory.as_deref(), name, declared > 1),
        ..settings.clone()
    };
    let (mut ended, mut good) = (Vec::new(), true);
    for run in &runs {
        ended.push(run_locally(run, &datastores, &of(&run.name_any()), &mut screen).await?.run);
        if settings.stop.is_requested() {
            break;
        }
    }
    if !ended.is_empty() {
        print!("{}", report::report(&ended));
    }
    good &= ended.len() == runs.len() && ended.iter().all(passed);
    for (suite, plan) in suites.iter().zip(&plans) {
        if settings.stop.is_requested() {
            good = false;
            break;
        }
        let (document, passed) = plan.race(&datastores, &of(&suite.name_any()), &mut screen).await?;
        print!("{}", dragstrip_report::text::render(&document));
        good &= passed;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_program_is_named_with_its_engine() {
        assert_eq!(binary("redis=/opt/redis-server").unwrap(), (Engine::Redis, "/opt/redis-server".into()));
        assert_eq!(binary("KeyDB=keydb-server").unwrap(), (Engine::KeyDB, "keydb-server".into()));
        for wrong in ["/opt/redis-server", "Redis=", "Reddis=/x", "Custom=/x"] {
            assert!(binary(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn several_runs_keep_their_results_apart() {
        let of = |all, several| directory_of(all, "sprint", several);
        assert_eq!(of(Some(Path::new("out")), false), Some("out".into()));
        assert_eq!(of(Some(Path::new("out")), true), Some("out/sprint".into()));
        assert_eq!(of(None, true), None);
    }
}

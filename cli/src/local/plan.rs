//! The plan of a local run, which checks everything it needs before anything starts. Touches
//! only PATH, through a function that it is given.

use super::{
    cpus::{Cpu, Division, divide},
    directory::Directory,
    programs,
};
use dragstrip_agents::Agents;
use dragstrip_core::{
    datastore::launch::{self as server, Launch},
    run::{
        offline::OfflineRun,
        validate::{Invalid, client_needs},
    },
};
use dragstrip_crds::{
    BenchmarkRun, Datastore, Engine,
    pod::PodSettings,
    run::{PhaseSpec, Target},
    workload::{ExecSpec, ToolSpec},
};
use dragstrip_results::{protocol::PASSWORD_VARIABLE, result::NodeRecord, signing::VerifyingKey};
use dragstrip_runner::Stop;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use std::{collections::BTreeMap, path::PathBuf};

/// Namespace of objects without one.
const NAMESPACE: &str = "local";
/// The port for checking a server's command; the server gets a free one when it starts.
const ANY_PORT: u16 = 6379;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("BenchmarkRun {0}")]
    Run(String, #[source] Invalid),
    #[error(
        "BenchmarkRun {run}: spec.target.datastoreRef.name: no manifest declares a Datastore named {name}{others}"
    )]
    NoDatastore { run: String, name: String, others: String },
    #[error("Datastore {0}")]
    Datastore(String, #[source] server::Error),
    #[error("BenchmarkRun {run}: {field} needs a cluster: {remedy}")]
    NotHere { run: String, field: String, remedy: &'static str },
    #[error(
        "BenchmarkRun {0}: authSecretRef: local runs have no Secrets: set the environment variable {PASSWORD_VARIABLE}"
    )]
    NoPassword(String),
    #[error("{needed_for} needs {program}, which is {}: {remedy}", absence(program))]
    NoProgram { needed_for: String, program: String, remedy: String },
}

fn absence(program: &str) -> &'static str {
    if program.contains('/') { "not an executable file" } else { "not on PATH" }
}

pub struct Surroundings<'a> {
    /// The server program that the command line names for an engine.
    pub binary: &'a dyn Fn(Engine) -> Option<PathBuf>,
    pub password: Option<&'a str>,
    pub cpus: &'a [Cpu],
    pub machine: NodeRecord,
    pub find: &'a dyn Fn(&str) -> Option<PathBuf>,
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub struct ServerPlan {
    pub datastore: Datastore,
    /// Absolute, or the name of a program that this one contains.
    pub file: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// With what the API server would have added.
    pub run: BenchmarkRun,
    pub offline: OfflineRun,
    /// Its server; none of an external target.
    pub server: Option<ServerPlan>,
    /// The files of the tools' programs, by their name in the run.
    pub tools: BTreeMap<String, PathBuf>,
    pub password: Option<String>,
    /// The CPUs of server and clients, if there are enough to divide.
    pub division: Option<Division>,
    /// Notes about ignored fields, for people.
    pub notes: Vec<String>,
}

/// `run` with what the API server adds to every object.
fn stored(run: &BenchmarkRun, now: Timestamp) -> BenchmarkRun {
    let mut run = run.clone();
    run.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    run.metadata.uid = Some(format!("{:x}", now.as_nanosecond()));
    run.metadata.generation = Some(1);
    run.metadata.creation_timestamp = Some(Time(now));
    run.status = None;
    run
}

fn stored_datastore(datastore: &Datastore, run: &BenchmarkRun) -> Datastore {
    let mut datastore = datastore.clone();
    datastore.metadata.namespace = run.namespace();
    datastore.metadata.uid = run.uid();
    datastore.metadata.generation = Some(1);
    datastore
}

/// The Datastore that `run` loads; none for an external target.
fn target(run: &BenchmarkRun, datastores: &[Datastore]) -> Result<Option<Datastore>, Error> {
    let reference = match &run.spec.target {
        Target::Datastore(spec) => return Ok(Some(Datastore::new(&run.name_any(), spec.clone()))),
        Target::DatastoreRef(reference) => reference,
        Target::External(_) => return Ok(None),
    };
    let found = datastores.iter().find(|one| one.name_any() == reference.name);
    found.cloned().map(Some).ok_or_else(|| {
        let names: Vec<String> = datastores.iter().map(ResourceExt::name_any).collect();
        let others =
            if names.is_empty() { String::new() } else { format!("; there is {}", names.join(", ")) };
        Error::NoDatastore { run: run.name_any(), name: reference.name.clone(), others }
    })
}

/// Which field of an exec tool needs a cluster.
fn exec_not_here(phase: &PhaseSpec, exec: &ExecSpec) -> Option<(String, &'static str)> {
    let field = |field: &str| format!("spec.phases[{}].exec.{field}", phase.name);
    if !exec.files.is_empty() {
        return Some((field("files"), "name files of this machine in exec.args"));
    }
    let referring = exec.env.iter().find(|variable| variable.value_from.is_some())?;
    Some((field(&format!("env[{}].valueFrom", referring.name)), "give the variable a value"))
}

fn not_here(run: &BenchmarkRun) -> Option<(String, &'static str)> {
    let external = run.spec.target.external();
    if external.is_some_and(|external| external.tls.is_some()) {
        return Some(("spec.target.external.tls".to_owned(), "load the server without encryption"));
    }
    run.spec.phases.iter().find_map(|phase| match &phase.tool {
        ToolSpec::Exec(exec) => exec_not_here(phase, exec),
        _ => None,
    })
}

fn ignored(run: &BenchmarkRun) -> Vec<&'static str> {
    let clients = &run.spec.clients;
    let placed =
        clients.placement != dragstrip_crds::datastore::Placement::default() || clients.colocate.is_some();
    let images = run.spec.phases.iter().any(|phase| match &phase.tool {
        ToolSpec::Memtier(spec) => spec.image.is_some(),
        ToolSpec::Bullmq(spec) => spec.image.is_some(),
        ToolSpec::Exec(_) => true,
        ToolSpec::Loadgen(_) => false,
    });
    let fields = [
        (placed, "spec.clients.placement"),
        (clients.resources.is_some(), "spec.clients.resources"),
        (clients.pod != PodSettings::default(), "spec.clients.pod"),
        (images, "the tools' images (programs on PATH instead)"),
        (
            run.spec.phases.iter().any(|phase| phase.memory.is_some()),
            "the settle time of spec.phases[].memory",
        ),
        (run.spec.ttl_after_finished.is_some(), "spec.ttlAfterFinished"),
    ];
    fields.into_iter().filter(|(declared, _)| *declared).map(|(_, field)| field).collect()
}

fn wants_password(run: &BenchmarkRun, datastore: Option<&Datastore>) -> bool {
    let external = run.spec.target.external();
    external.is_some_and(|external| external.auth_secret_ref.is_some())
        || datastore.is_some_and(|datastore| datastore.spec.auth_secret_ref.is_some())
}

/// The files of all tools' programs, which must exist.
fn tools(
    run: &BenchmarkRun,
    find: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut tools = BTreeMap::new();
    for phase in &run.spec.phases {
        let Some((program, remedy)) = programs::of_tool(&phase.tool) else { continue };
        let Some(file) = find(&program) else {
            let needed_for = format!("phase {} of BenchmarkRun {}", phase.name, run.name_any());
            return Err(Error::NoProgram { needed_for, program, remedy: remedy.to_owned() });
        };
        tools.insert(program, file);
    }
    Ok(tools)
}

/// The program of the server that `launch` would start in its container.
fn server_file(datastore: &Datastore, launch: &Launch, around: &Surroundings<'_>) -> Result<PathBuf, Error> {
    let engine = datastore.spec.engine;
    if programs::is_loadgen(&launch.program) {
        return Ok(programs::LOADGEN.into());
    }
    let named = (around.binary)(engine).map(|path| path.display().to_string());
    let usual = || programs::servers(engine).iter().map(|name| (*name).to_owned());
    let candidates: Vec<String> = match named {
        Some(path) => vec![path],
        None if engine == Engine::Custom => vec![launch.program.clone()],
        None => usual().collect(),
    };
    candidates.iter().find_map(|name| (around.find)(name)).ok_or_else(|| Error::NoProgram {
        needed_for: format!("Datastore {}", datastore.name_any()),
        program: candidates.join(" or "),
        remedy: programs::server_remedy(engine),
    })
}

/// Plans `run`, and checks everything it needs.
pub fn plan(run: &BenchmarkRun, datastores: &[Datastore], around: &Surroundings<'_>) -> Result<Plan, Error> {
    let run = stored(run, around.now);
    let name = run.name_any();
    let datastore = target(&run, datastores)?.map(|datastore| stored_datastore(&datastore, &run));
    let spec = datastore.as_ref().map(|datastore| &datastore.spec);
    let offline = OfflineRun::new(&run, spec, around.machine.clone())
        .map_err(|invalid| Error::Run(name.clone(), invalid))?;
    if let Some((field, remedy)) = not_here(&run) {
        return Err(Error::NotHere { run: name, field, remedy });
    }
    let password = around.password.filter(|_| wants_password(&run, datastore.as_ref()));
    if password.is_none() && wants_password(&run, datastore.as_ref()) {
        return Err(Error::NoPassword(name));
    }
    let tools = tools(&run, around.find)?;
    let mut notes: Vec<String> =
        ignored(&run).into_iter().map(|field| format!("ignored: {field} of BenchmarkRun {name}")).collect();
    let server = match datastore {
        None => None,
        Some(datastore) => {
            let launch = server::launch(&datastore, ANY_PORT, password)
                .map_err(|error| Error::Datastore(datastore.name_any(), error))?;
            let file = server_file(&datastore, &launch, around)?;
            let aside = server::ignored(&datastore).into_iter();
            notes
                .extend(aside.map(|field| format!("ignored: {field} of Datastore {}", datastore.name_any())));
            Some(ServerPlan { datastore, file })
        }
    };
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let division = server.as_ref().and_then(|server| {
        let threads = client_needs(&offline.run.spec, true).threads;
        let clients = threads.saturating_mul(u64::from(offline.run.most_pods()));
        let threads = usize::try_from(server.datastore.spec.threads).unwrap_or(1);
        divide(around.cpus, threads, count(clients))
    });
    Ok(Plan { password: password.map(str::to_owned), run, offline, server, tools, division, notes })
}

/// What the server and all measurements of a run share.
pub struct Track<'a> {
    pub plan: &'a Plan,
    pub directory: &'a Directory,
    pub agents: &'a Agents,
    pub key: &'a VerifyingKey,
    pub stop: &'a Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::errors::chain;
    use serde_json::{Value, json};
    use std::error::Error as _;

    fn run(target: &Value, phase: &Value) -> BenchmarkRun {
        let run = json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {"name": "sprint"}, "spec": {"target": target, "phases": [phase]}});
        serde_json::from_value(run).unwrap()
    }

    fn loadgen() -> Value {
        json!({"name": "read", "loadgen": {"duration": "2s", "threads": 3}})
    }

    /// A machine of four CPUs with these programs on PATH.
    fn tried(run: &BenchmarkRun, datastores: &[Datastore], programs: &[&str]) -> Result<Plan, Error> {
        let cpus: Vec<Cpu> = (0..4).map(|number| Cpu { number, core: number }).collect();
        let find = |name: &str| programs.contains(&name).then(|| PathBuf::from(format!("/bin/{name}")));
        let around = Surroundings {
            binary: &|_| None,
            password: None,
            cpus: &cpus,
            machine: NodeRecord { name: "laptop".into(), ..NodeRecord::default() },
            find: &find,
            now: Timestamp::UNIX_EPOCH,
        };
        plan(run, datastores, &around)
    }

    fn planned(run: &BenchmarkRun, datastores: &[Datastore], programs: &[&str]) -> Result<Plan, String> {
        tried(run, datastores, programs).map_err(|error| chain(&error))
    }

    fn redis() -> Value {
        json!({"datastore": {"engine": "Redis", "threads": 1}})
    }

    #[test]
    fn a_run_with_its_own_datastore_gets_cpus_and_a_program() {
        let plan = planned(&run(&redis(), &loadgen()), &[], &["redis-server"]).unwrap();
        assert_eq!(plan.server.unwrap().file, PathBuf::from("/bin/redis-server"));
        let division = plan.division.unwrap();
        assert_eq!((division.server, division.clients), (vec![0], vec![1, 2, 3]));
        assert_eq!(plan.run.namespace().as_deref(), Some("local"));
    }

    #[test]
    fn a_missing_program_is_reported_with_what_to_install() {
        let message = planned(&run(&redis(), &loadgen()), &[], &[]).unwrap_err();
        assert!(
            message.contains("Datastore sprint needs redis-server") && message.contains("install it"),
            "{message}"
        );
        assert!(message.contains("--server-binary Redis=PATH"), "{message}");
        let memtier = json!({"name": "read", "memtier": {"testTime": "2s"}});
        let message = planned(&run(&redis(), &memtier), &[], &["redis-server"]).unwrap_err();
        assert!(
            message.contains("phase read")
                && message.contains("memtier_benchmark")
                && message.contains("loadgen"),
            "{message}"
        );
    }

    #[test]
    fn an_undeclared_datastore_is_reported_with_the_declared_ones() {
        let other = Datastore::new("redis-8", serde_json::from_value(redis()["datastore"].clone()).unwrap());
        let reference = json!({"datastoreRef": {"name": "redis"}});
        let message = planned(&run(&reference, &loadgen()), &[other], &["redis-server"]).unwrap_err();
        assert!(
            message.contains("no manifest declares a Datastore named redis; there is redis-8"),
            "{message}"
        );
    }

    #[test]
    fn what_needs_a_cluster_is_refused_by_its_field() {
        let cluster = json!({"datastore": {"engine": "Redis", "threads": 1, "cluster": {"shards": 3}}});
        let message = planned(&run(&cluster, &loadgen()), &[], &["redis-server"]).unwrap_err();
        assert!(message.contains("spec.cluster needs a cluster"), "{message}");
        let secret = json!({"external": {"address": "h:1", "authSecretRef": {"name": "s"}}});
        let message = planned(&run(&secret, &loadgen()), &[], &[]).unwrap_err();
        assert!(message.contains("DRAGSTRIP_PASSWORD"), "{message}");
    }

    #[test]
    fn a_message_does_not_repeat_its_cause() {
        let cluster = json!({"datastore": {"engine": "Redis", "threads": 1, "cluster": {"shards": 3}}});
        let parser = json!({"redisBenchmarkCsv": {"requests": 1}});
        let exec = json!({"image": "i", "command": ["bench"], "parser": parser});
        let read = json!({"name": "read", "load": {"keyMaximum": 9}, "exec": exec});
        for refused in [run(&cluster, &loadgen()), run(&redis(), &read)] {
            let error = tried(&refused, &[], &["redis-server"]).unwrap_err();
            let reason = error.source().unwrap().to_string();
            assert!(!error.to_string().contains(&reason), "the cause is repeated: {error}");
        }
    }

    #[test]
    fn a_tools_program_is_started_by_the_file_that_was_found() {
        let parser = json!({"redisBenchmarkCsv": {"requests": 1}});
        let exec = json!({"name": "read", "exec": {"image": "i", "command": ["bench"], "parser": parser}});
        let plan = planned(&run(&redis(), &exec), &[], &["redis-server", "bench"]).unwrap();
        assert_eq!(plan.tools, BTreeMap::from([("bench".to_owned(), PathBuf::from("/bin/bench"))]));
    }

    #[test]
    fn an_external_target_has_no_server_and_no_cpus_of_its_own() {
        let plan = planned(&run(&json!({"external": {"address": "h:1"}}), &loadgen()), &[], &[]).unwrap();
        assert!(plan.server.is_none() && plan.division.is_none());
    }

    #[test]
    fn ignored_fields_are_named() {
        let mut placed = run(&redis(), &loadgen());
        placed.spec.clients.placement.zone = Some("a".into());
        let plan = planned(&placed, &[], &["redis-server"]).unwrap();
        assert_eq!(plan.notes, ["ignored: spec.clients.placement of BenchmarkRun sprint"]);
    }
}

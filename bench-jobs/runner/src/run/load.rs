//! Writes the keys of `load` before the start line, each exactly once, and
//! counts them afterwards. Our own load generator does both, whatever the
//! phase's tool is: each client its share. Touches processes.

use crate::{
    delivery::state::Shared,
    frame::{failure::failure, install::LOADGEN_NAME},
    tools::{
        adapter::{Ended, LaunchContext, Progress},
        aside::{self, AsideError},
        loadgen::{self, specification},
        ours::{progress, unread},
        output::Redactor,
        process::Listener,
    },
};
use dragstrip_crds::{
    units::thousands,
    workload::{LoadSpec, LoadgenSpec},
};
use dragstrip_loadgen::{
    counts::report::Report,
    specification::{Specification, Task},
};
use dragstrip_results::{
    protocol::{JobSpec, JobTool},
    result::{Failure, FailureStep, Presence},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Bytes of values that a connection may have under way.
const BYTES_IN_FLIGHT: i64 = 1 << 20;
/// Requests that a connection may have under way.
const MOST_IN_FLIGHT: i32 = 32;
/// Connections; fewer where there are fewer keys.
const CONNECTIONS: i32 = 16;
/// memtier's own key prefix.
const MEMTIER_PREFIX: &str = "memtier-";
const LOADGEN_PREFIX: &str = "dragstrip-";

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("load.keyPrefix is missing: set it to the key prefix that the tool uses")]
    NoPrefix,
    #[error("cannot create the directory {directory}: {source}")]
    Directory { directory: PathBuf, source: io::Error },
    #[error("the keys were not {step}: cannot encode the specification: {source}")]
    Encode { step: &'static str, source: serde_json::Error },
    #[error("the keys were not {step}: {source}")]
    Run { step: &'static str, source: AsideError },
    #[error("the keys were not {step}: {}", .failure.message)]
    Failed { step: &'static str, failure: Box<Failure> },
    #[error("{} keys were to be written, {} were", thousands(*.expected), thousands(*.written))]
    Written { expected: u64, written: u64 },
    #[error(
        "{} keys were written, but only {} of them are there: {} are missing. Check that the server's maxMemory holds the data set, that it evicts nothing, and that nobody deletes keys",
        thousands(.0.expected), thousands(.0.found), thousands(.0.expected.saturating_sub(.0.found))
    )]
    Missing(Presence),
}

impl LoadError {
    pub fn failure(&self) -> Failure {
        match self {
            Self::Failed { failure, .. } => {
                Failure { step: FailureStep::Load, message: self.to_string(), ..(**failure).clone() }
            }
            _ => failure(FailureStep::Load, self.to_string()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Keys {
    prefix: String,
    minimum: i64,
    maximum: i64,
    data_size: i64,
}

impl Keys {
    fn of(load: &LoadSpec, job: &JobSpec, client_index: u32) -> Result<Option<Self>, LoadError> {
        let prefix = load.key_prefix.clone().or_else(|| tool_prefix(&job.tool)).ok_or(LoadError::NoPrefix)?;
        let share = specification::exact_share(load.key_minimum, load.key_maximum, client_index, job.clients);
        Ok(share.map(|(minimum, maximum)| Self { prefix, minimum, maximum, data_size: load.data_size }))
    }

    fn task(&self, task: Task, job: &JobSpec, context: &LaunchContext, directory: &Path) -> Specification {
        // No more connections than keys: each must have some of its own.
        let connections = i32::try_from(self.count()).unwrap_or(CONNECTIONS).min(CONNECTIONS);
        let in_flight = (BYTES_IN_FLIGHT / self.data_size.max(1)).clamp(1, MOST_IN_FLIGHT.into());
        let loadgen = LoadgenSpec {
            connections_per_thread: connections,
            key_prefix: Some(self.prefix.clone()),
            key_minimum: self.minimum,
            key_maximum: self.maximum,
            data_size: self.data_size,
            pipeline: i32::try_from(in_flight).unwrap_or(MOST_IN_FLIGHT),
            ..LoadgenSpec::default()
        };
        specification::of_task(task, loadgen, job, context, directory)
    }

    fn count(&self) -> u64 {
        (self.maximum - self.minimum).unsigned_abs() + 1
    }
}

/// The prefix of the keys that a tool asks for.
fn tool_prefix(tool: &JobTool) -> Option<String> {
    match tool {
        JobTool::Memtier(spec) => Some(spec.key_prefix.clone().unwrap_or_else(|| MEMTIER_PREFIX.to_owned())),
        JobTool::Loadgen(spec) => Some(spec.key_prefix.clone().unwrap_or_else(|| LOADGEN_PREFIX.to_owned())),
        JobTool::Bullmq(_) | JobTool::Exec(_) => None,
    }
}

pub async fn load(
    load: &LoadSpec,
    job: &JobSpec,
    context: &LaunchContext,
    redactor: &Redactor,
    shared: &Arc<Shared>,
) -> Result<Presence, LoadError> {
    let Some(keys) = Keys::of(load, job, context.client_index)? else {
        return Ok(Presence::default());
    };
    let expected = keys.count();
    let write = keys.task(Task::WriteKeys, job, context, &subdirectory(context, "load")?);
    let report = run("written", write, context, "load", redactor, shared).await?;
    if report.totals.count != expected {
        return Err(LoadError::Written { expected, written: report.totals.count });
    }
    let verify = keys.task(Task::VerifyKeys, job, context, &subdirectory(context, "verify")?);
    let report = run("counted", verify, context, "verify", redactor, shared).await?;
    let found = report.verified.map(|verified| verified.present).unwrap_or_default();
    let presence = Presence { expected, found };
    if found == expected { Ok(presence) } else { Err(LoadError::Missing(presence)) }
}

fn subdirectory(context: &LaunchContext, name: &str) -> Result<PathBuf, LoadError> {
    let directory = context.output_directory.join(name);
    fs::create_dir_all(&directory)
        .map_err(|source| LoadError::Directory { directory: directory.clone(), source })?;
    Ok(directory)
}

/// Runs the generator to its end and reads its report.
async fn run(
    step: &'static str,
    specification: Specification,
    context: &LaunchContext,
    name: &str,
    redactor: &Redactor,
    shared: &Arc<Shared>,
) -> Result<Report, LoadError> {
    let directory = context.output_directory.join(name);
    let document =
        serde_json::to_string(&specification).map_err(|source| LoadError::Encode { step, source })?;
    let launch = loadgen::launch(LOADGEN_NAME, document, context, Duration::ZERO);
    let shared = Arc::clone(shared);
    let on_progress = move |progress| shared.note_progress(&progress);
    // Without a bound of its own: the generator gives up by itself when the
    // server falls silent, and the run's timeout ends everything.
    let ended = aside::run(&launch, &directory, ProgressLines, redactor.clone(), None, on_progress).await;
    let (ended, _) = ended.map_err(|source| LoadError::Run { step, source })?;
    outcome(&directory, &ended).map_err(|failure| LoadError::Failed { step, failure: Box::new(failure) })
}

fn outcome(directory: &Path, ended: &Ended) -> Result<Report, Failure> {
    let report = loadgen::read_report(directory).map_err(|error| unread(loadgen::NAME, &error, ended))?;
    // The figures report missing keys, so the generator's exit code for them is not a failure.
    let missing = report.verified.is_some_and(|verified| verified.present != verified.expected);
    match loadgen::verdict(&report, ended).filter(|_| !missing) {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

struct ProgressLines;

impl Listener for ProgressLines {
    fn stderr_line(&mut self, line: &str) -> Option<Progress> {
        progress(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{context, job};

    fn spec(json: &str) -> LoadSpec {
        serde_json::from_str(json).unwrap()
    }

    fn written(json: &str, clients: u32, index: u32) -> Specification {
        let job = job(clients, r#"{"memtier": {"testTime": "5s"}}"#);
        let keys = Keys::of(&spec(json), &job, index).unwrap().unwrap();
        keys.task(Task::WriteKeys, &job, &context(index, Path::new("/out")), Path::new("/out/load"))
    }

    #[test]
    fn every_client_writes_its_own_part_once() {
        let written = written(r#"{"keyMaximum": 9999, "dataSize": 256}"#, 2, 1);
        assert_eq!((written.task, written.server.name().as_str()), (Task::WriteKeys, "10.0.0.7:6379"));
        assert_eq!(written.report_file.as_deref(), Some(Path::new("/out/load/loadgen.json")));
        let load = &written.loadgen;
        assert_eq!(
            (load.key_prefix.as_deref(), load.key_minimum, load.key_maximum),
            (Some("memtier-"), 5000, 9999)
        );
        assert_eq!(
            (load.threads, load.connections_per_thread, load.data_size, load.pipeline),
            (1, 16, 256, 32)
        );
        let configuration =
            dragstrip_loadgen::configuration::Configuration::of_raw_client(written, None).unwrap();
        assert_eq!((configuration.keys.minimum, configuration.keys.maximum), (5000, 9999));
    }

    #[test]
    fn large_values_and_few_keys_keep_little_in_flight() {
        let load = written(r#"{"keyMaximum": 2, "dataSize": 10000000, "keyPrefix": "k:"}"#, 1, 0).loadgen;
        assert_eq!(
            (load.connections_per_thread, load.key_prefix.as_deref(), load.pipeline),
            (3, Some("k:"), 1)
        );
    }

    #[test]
    fn clients_without_keys_write_none() {
        let job = job(3, r#"{"loadgen": {"duration": "5s"}}"#);
        let shares: Vec<_> = (0..3)
            .map(|i| Keys::of(&spec(r#"{"keyMaximum": 1}"#), &job, i).unwrap().map(|k| k.count()))
            .collect();
        assert_eq!(shares.iter().flatten().sum::<u64>(), 2, "{shares:?}");
        assert!(shares.contains(&None), "{shares:?}");
    }

    #[test]
    fn keys_are_named_as_the_tool_names_them() {
        let prefix = |tool: &str| tool_prefix(&job(1, tool).tool);
        assert_eq!(prefix(r#"{"memtier": {"testTime": "5s"}}"#).as_deref(), Some("memtier-"));
        assert_eq!(prefix(r#"{"memtier": {"testTime": "5s", "keyPrefix": "m"}}"#).as_deref(), Some("m"));
        assert_eq!(prefix(r#"{"loadgen": {"duration": "5s"}}"#).as_deref(), Some("dragstrip-"));
        let job = job(1, r#"{"bullmq": {"duration": "5s"}}"#);
        let error = Keys::of(&spec(r#"{"keyMaximum": 1}"#), &job, 0).unwrap_err().to_string();
        assert!(error.contains("load.keyPrefix is missing"), "{error}");
    }

    #[test]
    fn a_missing_key_is_reported_with_both_figures() {
        let failure = LoadError::Missing(Presence { expected: 10_000, found: 9_998 }).failure();
        assert_eq!(failure.step, FailureStep::Load);
        assert!(
            failure.message.starts_with("10,000 keys were written, but only 9,998 of them"),
            "{failure:?}"
        );
    }
}

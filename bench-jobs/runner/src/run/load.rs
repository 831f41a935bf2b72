//! Writes the keys of `load` before the start line, each exactly once, and
//! counts them afterwards. Our own load generator does both, whatever the
//! phase's tool is: each client its share. Touches processes.

use super::pod::Pod;
use crate::{
    frame::install::LOADGEN_NAME,
    tools::{
        adapter::{Ended, LaunchContext, Progress},
        aside,
        loadgen::{self, LoadgenAdapter, specification},
        ours::unread,
    },
};
use dragstrip_crds::{
    units::thousands,
    workload::{LoadSpec, LoadgenSpec, ToolSpec},
};
use dragstrip_loadgen::{counts::report::Report, specification::Task};
use dragstrip_results::{
    protocol::JobSpec,
    result::{Failure, FailureStep, Presence},
};
use std::{fs, path::Path, sync::Arc, time::Duration};

/// Bytes of values that a connection may have under way.
const BYTES_IN_FLIGHT: i64 = 1 << 20;
/// Requests that a connection may have under way.
const MOST_IN_FLIGHT: i32 = 32;
/// Connections; fewer where there are fewer keys.
const CONNECTIONS: i32 = 16;
const MEMTIER_PREFIX: &str = "memtier-";
const LOADGEN_PREFIX: &str = "dragstrip-";

/// Writes this client's share of the keys and counts them.
pub async fn load(load: &LoadSpec, pod: &Pod, context: &LaunchContext) -> Result<Presence, Failure> {
    let failed = |message: String| Failure::new(FailureStep::Load, message);
    let Some(keys) = share(load, &pod.job, context.client_index).map_err(|e| failed(e.to_owned()))? else {
        return Ok(Presence::default());
    };
    let expected = count(&keys);
    let report = run(Task::WriteKeys, "load", &keys, pod, context).await;
    let written = report.map_err(|e| because("written", e))?.totals.count;
    if written != expected {
        let (expected, written) = (thousands(expected), thousands(written));
        return Err(failed(format!("{expected} keys were to be written, {written} were")));
    }
    let report = run(Task::VerifyKeys, "verify", &keys, pod, context).await;
    let verified = report.map_err(|e| because("counted", e))?.verified;
    let found = verified.map(|verified| verified.found).unwrap_or_default();
    let presence = Presence { expected, found };
    if found == expected || pod.job.allow_eviction { Ok(presence) } else { Err(failed(missing(presence))) }
}

fn missing(Presence { expected, found }: Presence) -> String {
    format!(
        "{} keys were written, but only {} of them are there: {} are missing. Check that the server's maxMemory holds \
         the data set, that it evicts nothing, and that nobody deletes keys",
        thousands(expected),
        thousands(found),
        thousands(expected.saturating_sub(found))
    )
}

/// Why the keys were not `done`.
fn because(done: &str, cause: Failure) -> Failure {
    Failure {
        step: FailureStep::Load,
        message: format!("the keys were not {done}: {}", cause.message),
        ..cause
    }
}

/// A load of the client's share of the keys; `None` if it has none of them.
fn share(load: &LoadSpec, job: &JobSpec, client_index: u32) -> Result<Option<LoadgenSpec>, &'static str> {
    let prefix = load.key_prefix.clone().or_else(|| tool_prefix(&job.tool));
    let prefix = prefix.ok_or("load.keyPrefix is missing: set it to the key prefix that the tool uses")?;
    let share = specification::exact_share(load.key_minimum, load.key_maximum, client_index, job.clients);
    Ok(share.map(|(minimum, maximum)| {
        let tool = if let ToolSpec::Loadgen(spec) = &job.tool { Some(spec) } else { None };
        let in_flight = (BYTES_IN_FLIGHT / load.data_size.max(1)).clamp(1, MOST_IN_FLIGHT.into());
        LoadgenSpec {
            threads: 1,
            // No more connections than keys: each must have some of its own.
            connections_per_thread: i32::try_from(maximum - minimum + 1)
                .unwrap_or(CONNECTIONS)
                .min(CONNECTIONS),
            key_prefix: Some(prefix),
            key_minimum: minimum,
            key_maximum: maximum,
            data_size: load.data_size,
            compressibility: tool.and_then(|spec| spec.compressibility.clone()),
            pipeline: i32::try_from(in_flight).unwrap_or(MOST_IN_FLIGHT),
            ..LoadgenSpec::default()
        }
    }))
}

fn count(keys: &LoadgenSpec) -> u64 {
    (keys.key_maximum - keys.key_minimum).unsigned_abs() + 1
}

fn tool_prefix(tool: &ToolSpec) -> Option<String> {
    let (own, default) = match tool {
        ToolSpec::Memtier(spec) => (&spec.key_prefix, MEMTIER_PREFIX),
        ToolSpec::Loadgen(spec) => (&spec.key_prefix, LOADGEN_PREFIX),
        ToolSpec::Bullmq(_) | ToolSpec::Exec(_) => return None,
    };
    Some(own.clone().unwrap_or_else(|| default.to_owned()))
}

/// Runs the generator to its end in a directory called `name` and reads its report.
async fn run(
    task: Task,
    name: &str,
    keys: &LoadgenSpec,
    pod: &Pod,
    context: &LaunchContext,
) -> Result<Report, Failure> {
    let failed = |message: String| Failure::new(FailureStep::Load, message);
    let directory = context.output_directory.join(name);
    fs::create_dir_all(&directory)
        .map_err(|e| failed(format!("cannot create the directory {}: {e}", directory.display())))?;
    let specification = specification::of_task(task, keys.clone(), &pod.job, context, &directory);
    let document = serde_json::to_string(&specification)
        .map_err(|e| failed(format!("cannot encode the specification: {e}")))?;
    let launch = loadgen::launch(LOADGEN_NAME, document, context, Duration::ZERO);
    let adapter = Box::new(LoadgenAdapter(keys.clone()));
    let shared = Arc::clone(&pod.shared);
    let keys = count(keys);
    // The keys are written first and counted afterwards.
    let done = if task == Task::VerifyKeys { keys } else { 0 };
    let on_progress = move |progress: Progress| {
        shared.note_preparation(&progress, (done + progress.operations) as f64 / (2 * keys) as f64);
    };
    // No bound is needed: the generator gives up by itself when the
    // server falls silent, and the run's timeout ends everything.
    let ended = aside::run(&launch, &directory, adapter, pod.redactor.clone(), None, on_progress).await;
    let (ended, _) = ended.map_err(|e| failed(e.to_string()))?;
    outcome(&directory, &ended)
}

fn outcome(directory: &Path, ended: &Ended) -> Result<Report, Failure> {
    let report = loadgen::read_report(directory).map_err(|error| unread(loadgen::NAME, &error, ended))?;
    // The figures report missing keys, so the generator's exit code for them is not a failure.
    let missing = report.verified.is_some_and(|verified| verified.found != verified.expected);
    match loadgen::verdict(&report, ended).filter(|_| !missing) {
        Some(failure) => Err(failure),
        None => Ok(report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{context, job};
    use dragstrip_loadgen::specification::Specification;

    fn spec(json: &str) -> LoadSpec {
        serde_json::from_str(json).unwrap()
    }

    fn written(json: &str, clients: u32, index: u32) -> Specification {
        let job = job(clients, r#"{"memtier": {"testTime": "5s"}}"#);
        let keys = share(&spec(json), &job, index).unwrap().unwrap();
        let (context, directory) = (context(index, Path::new("/out")), Path::new("/out/load"));
        specification::of_task(Task::WriteKeys, keys, &job, &context, directory)
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
    fn values_are_as_compressible_as_those_of_the_load_generator() {
        let of = |tool: &str| {
            let keys = share(&spec(r#"{"keyMaximum": 9}"#), &job(1, tool), 0).unwrap().unwrap();
            keys.compressibility.map(|share| share.to_string())
        };
        assert_eq!(
            of(r#"{"loadgen": {"duration": "5s", "compressibility": "0.5"}}"#).as_deref(),
            Some("0.5")
        );
        assert_eq!(of(r#"{"loadgen": {"duration": "5s"}}"#), None);
        assert_eq!(of(r#"{"memtier": {"testTime": "5s"}}"#), None);
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
            .map(|i| share(&spec(r#"{"keyMaximum": 1}"#), &job, i).unwrap().map(|keys| count(&keys)))
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
        let error = share(&spec(r#"{"keyMaximum": 1}"#), &job, 0).unwrap_err();
        assert!(error.contains("load.keyPrefix is missing"), "{error}");
    }

    #[test]
    fn a_missing_key_is_reported_with_both_figures() {
        let message = missing(Presence { expected: 10_000, found: 9_998 });
        assert!(
            message.starts_with("10,000 keys were written, but only 9,998 of them are there: 2"),
            "{message}"
        );
    }
}

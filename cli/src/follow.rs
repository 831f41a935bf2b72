//! Shows what runs do while they do it: each change of their status, and the
//! progress lines of their client pods.

use dragstrip_crds::{
    BenchmarkRun,
    conditions::holds,
    conditions::types::{COMPLETE, PASSED},
};
use dragstrip_results::result::LOG_MARKER;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::LogParams,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::{Duration, Instant},
};

/// Following failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The watch ended.
    #[error("failed to watch the runs")]
    Watch(#[source] Box<watcher::Error>),
    /// A run to be followed has a form that this version does not know.
    #[error("run {0} cannot be read by this version: {1}")]
    Undecodable(String, String),
    /// Time is up.
    #[error("the runs had not ended after {0} s")]
    Timeout(u64),
}

fn line(run: &BenchmarkRun) -> String {
    let status = run.status.clone().unwrap_or_default();
    let progress = status
        .progress
        .map(|progress| format!("{}/{}", progress.measured, progress.total))
        .unwrap_or_default();
    format!("{:<10} {progress:<5} {}", status.phase.to_string(), status.message.unwrap_or_default())
}

/// Prints the progress lines of `pod` until its log ends.
async fn print_log(pods: Api<Pod>, pod: String, prefix: String) {
    let parameters = LogParams { follow: true, container: Some("client".to_owned()), ..LogParams::default() };
    // The pod may be gone already: its result is in the status then, only the live view is lost.
    let Ok(stream) = pods.log_stream(&pod, &parameters).await else {
        return;
    };
    let mut lines = stream.lines();
    while let Ok(Some(line)) = lines.try_next().await {
        if !line.starts_with(LOG_MARKER) {
            println!("{prefix}  {line}");
        }
    }
}

/// Starts to print the logs of client pods that are ready and not yet printed.
async fn follow_pods(
    client: Client,
    namespace: String,
    runs: BTreeSet<String>,
    width: usize,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let mut seen = BTreeSet::new();
    let config = watcher::Config::default().labels("dragstrip.dev/component=client");
    let mut stream = watcher(pods.clone(), config).default_backoff().touched_objects().boxed();
    while let Some(event) = stream.next().await {
        let pod = event.map_err(|error| Error::Watch(Box::new(error)))?;
        let Some(run) = pod.labels().get("dragstrip.dev/run").filter(|run| runs.contains(*run)) else {
            continue;
        };
        let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if running && seen.insert(pod.name_any()) {
            let prefix = format!("{:>9}{run:<width$}", "");
            tokio::spawn(print_log(pods.clone(), pod.name_any(), prefix));
        }
    }
    Ok(())
}

async fn follow_runs(
    client: Client,
    namespace: &str,
    names: &BTreeSet<String>,
    width: usize,
) -> Result<bool, Error> {
    let started = Instant::now();
    // Another run that this version cannot read is nobody's concern here.
    let api: Api<DeserializeGuard<BenchmarkRun>> = Api::namespaced(client, namespace);
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut ended: BTreeMap<String, bool> = BTreeMap::new();
    let mut stream = watcher(api, watcher::Config::default()).default_backoff().touched_objects().boxed();
    while ended.len() < names.len() {
        let Some(event) = stream.next().await else { break };
        let guard = event.map_err(|error| Error::Watch(Box::new(error)))?;
        let name = guard.name_any();
        if !names.contains(&name) {
            continue;
        }
        let run = guard.0.map_err(|invalid| Error::Undecodable(name.clone(), invalid.error))?;
        let text = line(&run);
        if last.get(&name) != Some(&text) {
            println!("{:>6.1}s  {name:<width$}  {text}", started.elapsed().as_secs_f64());
            last.insert(name.clone(), text);
        }
        let conditions = run.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if holds(conditions, COMPLETE, None) {
            ended.insert(name, holds(conditions, PASSED, None));
        }
    }
    Ok(ended.values().all(|passed| *passed))
}

/// Follows `runs` until all have ended or `timeout` is over.
pub async fn follow(
    client: Client,
    namespace: &str,
    runs: &[String],
    timeout: Duration,
) -> Result<ExitCode, Error> {
    let names: BTreeSet<String> = runs.iter().cloned().collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let pods = follow_pods(client.clone(), namespace.to_owned(), names.clone(), width);
    tokio::select! {
        passed = follow_runs(client, namespace, &names, width) => {
            Ok(if passed? { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Err(error) = pods => Err(error),
        () = tokio::time::sleep(timeout) => Err(Error::Timeout(timeout.as_secs())),
    }
}

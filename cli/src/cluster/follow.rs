//! `dragstrip follow`: shows what runs and suites do until they end, by their statuses and by
//! the logs of their client pods. Needs the client.

mod live;
mod view;

pub use view::Ending;

use super::client::{self, Cluster, Subject};
use crate::{
    manifests::kind::Kind,
    output::{errors::chain, screen::Screen},
};
use clap::Args;
use dragstrip_core::{labels, suite::described};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, units::Period};
use dragstrip_results::result::LOG_MARKER;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use live::Live;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::Duration,
};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use view::{Load, View};

/// How often the statuses are read.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Follow these runs and suites: NAME, run/NAME or suite/NAME.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Give up after this time, such as 90s or 2h, with exit code 2.
    #[arg(long, default_value = "1h")]
    pub timeout: Period,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] client::Error),
    #[error("suite/{0} starts rounds on a schedule and never ends: {1}")]
    Rounds(String, String),
    #[error(
        "timed out after {0}; the runs continue: use dragstrip follow to watch them, or dragstrip cancel to stop them"
    )]
    Timeout(Period),
}

impl Ending {
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Whether a request that failed like this will never succeed.
fn is_permanent(error: &client::Error) -> bool {
    let client::Error::Read(error, _) = error else { return false };
    match error.as_ref() {
        kube::Error::Api(status) => [401, 403].contains(&status.code),
        error => matches!(error, kube::Error::SerdeError(_)),
    }
}

/// The load that `pod` makes, while it makes one.
fn load_of(pod: &Pod) -> Option<Load> {
    let label = |name: &str| pod.labels().get(name).cloned();
    let phase = pod.status.as_ref()?.phase.as_deref()?;
    (phase == "Running").then_some(())?;
    Some(Load {
        run: label(labels::RUN)?,
        phase: label(labels::PHASE)?,
        repetition: label(labels::REPETITION).unwrap_or_else(|| "1".to_owned()),
        pod: pod.name_any(),
    })
}

/// Reads the log of a load's pod until it ends.
async fn listen(pods: Api<Pod>, load: Load, heard: mpsc::Sender<(Load, Option<Live>)>) {
    let parameters = LogParams { follow: true, container: Some("client".to_owned()), ..LogParams::default() };
    // The pod may be gone already: then only the live view is lost.
    if let Ok(stream) = pods.log_stream(&load.pod, &parameters).await {
        let mut lines = stream.lines();
        while let Ok(Some(line)) = lines.try_next().await {
            let live = (!line.starts_with(LOG_MARKER)).then(|| live::read(&line)).flatten();
            if live.is_some() && heard.send((load.clone(), live)).await.is_err() {
                return;
            }
        }
    }
    // The receiver is gone once the run has ended.
    let _ = heard.send((load, None)).await;
}

/// Reads everything in `view` again; returns lines about what has changed.
async fn refresh(cluster: &Cluster, view: &mut View) -> Result<Vec<String>, client::Error> {
    let mut lines = Vec::new();
    for (kind, name) in view.names() {
        lines.extend(match cluster.find_subject(kind, &name).await? {
            Some(subject) => view.update(subject),
            None => view.gone(kind, &name),
        });
    }
    Ok(lines)
}

/// The loads of the runs and suites in `view`; none for an account that may not see pods.
async fn loads(cluster: &Cluster, view: &View) -> Vec<Load> {
    let names = view.names();
    let of = |kind: Kind| names.iter().filter(move |(one, _)| *one == kind).map(|(_, name)| name.clone());
    let mut runs: BTreeMap<String, String> = of(Kind::Run).map(|name| (name.clone(), name)).collect();
    let suites: Vec<String> = of(Kind::Suite).collect();
    if !suites.is_empty() {
        let children = ListParams::default().labels(&format!("{} in ({})", labels::SUITE, suites.join(",")));
        let children = cluster.api::<BenchmarkRun>().list_metadata(&children).await;
        let children = children.iter().flat_map(|list| &list.items);
        runs.extend(children.map(|run| (run.name_any(), described(run))));
    }
    let clients = ListParams::default().labels(&format!("{}={}", labels::COMPONENT, labels::CLIENT));
    let pods = cluster.api::<Pod>().list(&clients).await.map(|list| list.items).unwrap_or_default();
    let described = |load: Load| Some(Load { run: runs.get(&load.run)?.clone(), ..load });
    pods.iter().filter_map(load_of).filter_map(described).collect()
}

/// Shows `view` until everything in it has ended.
async fn show(cluster: &Cluster, view: &mut View, screen: &mut Screen) -> Result<Ending, Error> {
    let (sender, mut heard) = mpsc::channel(256);
    let (mut followed, mut silent) = (BTreeSet::new(), false);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some((load, live)) = heard.recv() => { view.live(load, live); continue },
            _ = ticks.tick() => {}
        }
        let failed = match refresh(cluster, view).await {
            Ok(lines) => {
                for line in lines {
                    screen.step(&line);
                }
                None
            }
            Err(error) if is_permanent(&error) => return Err(error.into()),
            Err(error) => Some(error),
        };
        if let Some(error) = failed.as_ref().filter(|_| !silent) {
            screen.step(&format!("no news from the API server, retrying: {}", chain(error)));
        }
        silent = failed.is_some();
        if let Some(ending) = view.ending() {
            return Ok(ending);
        }
        for load in loads(cluster, view).await {
            if followed.insert(load.pod.clone()) {
                tokio::spawn(listen(cluster.api(), load, sender.clone()));
            }
        }
        let progress = view.progress();
        if !progress.is_empty() {
            screen.progress(&progress.join("; "));
        }
    }
}

/// Why `suite` never ends, if it does not.
pub fn endless(suite: &BenchmarkSuite) -> Option<Error> {
    let status = suite.status.as_ref();
    // A cancelled suite starts no further rounds.
    if suite.spec.schedule.is_none() || status.is_some_and(|status| status.phase.finished()) {
        return None;
    }
    let last = status.and_then(|status| status.last_round.as_ref());
    let next = status.and_then(|status| status.next_scheduled_at.as_ref());
    let instead = match (last, next) {
        (Some(round), _) => format!("follow suite/{round} (its last round)"),
        (None, _) if suite.spec.suspend => "it is suspended and has started none".to_owned(),
        (None, Some(next)) => format!("it has started none yet, and the next is due at {}", next.0),
        (None, None) => "it has started none yet".to_owned(),
    };
    Some(Error::Rounds(suite.name_any(), instead))
}

/// Follows `subjects` until all have ended or `timeout` is over.
pub async fn subjects(cluster: &Cluster, subjects: Vec<Subject>, timeout: &Period) -> Result<Ending, Error> {
    let suites = subjects.iter().filter_map(|subject| match subject {
        Subject::Suite(suite) => endless(suite),
        Subject::Run(_) => None,
    });
    if let Some(error) = suites.into_iter().next() {
        return Err(error);
    }
    let (mut view, mut screen) = (View::default(), Screen::default());
    for subject in subjects {
        for line in view.add(subject) {
            screen.step(&line);
        }
    }
    let ending = tokio::time::timeout(timeout.duration(), show(cluster, &mut view, &mut screen)).await;
    ending.map_err(|_| Error::Timeout(timeout.clone()))?
}

pub async fn follow(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let found = cluster.subjects(&options.names).await?;
    subjects(cluster, found, &options.timeout).await.map(Ending::exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_with_a_schedule_never_ends() {
        let mut suite: BenchmarkSuite =
            serde_yaml::from_str(include_str!("../../../examples/suite-schedule.yaml")).unwrap();
        let message =
            |suite: &BenchmarkSuite| endless(suite).map(|error| error.to_string()).unwrap_or_default();
        let mut status = |status: serde_json::Value| {
            suite.status = Some(serde_json::from_value(status).unwrap());
            message(&suite)
        };
        let first =
            status(serde_json::json!({"phase": "Scheduled", "nextScheduledAt": "2026-01-02T03:00:00Z"}));
        assert!(
            first.ends_with("it has started none yet, and the next is due at 2026-01-02T03:00:00Z"),
            "{first}"
        );
        let later = status(serde_json::json!({"phase": "Scheduled", "lastRound": "nightly-29454660"}));
        assert_eq!(
            later,
            "suite/nightly starts rounds on a schedule and never ends: follow suite/nightly-29454660 (its last round)"
        );
        assert_eq!(status(serde_json::json!({"phase": "Cancelled"})), "", "it has ended");
    }
}

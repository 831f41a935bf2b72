//! `dragstrip follow`: shows what runs and suites do while they do it, by their status and
//! by what their client pods say. Needs the client.

mod live;
mod view;

pub use view::Ending;

use crate::{
    causes,
    cluster::{self, Cluster, Subject},
    output,
};
use clap::Args;
use dragstrip_core::labels;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, units::Period};
use dragstrip_results::result::LOG_MARKER;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream::BoxStream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Resource, ResourceExt,
    api::LogParams,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{WatchStreamExt, watcher},
};
use live::Live;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use view::{Load, View};

/// How often the block is drawn.
const TICK: Duration = Duration::from_millis(500);
/// How often lines tell what the loads do, where there is no block.
const LINES_EVERY: Duration = Duration::from_secs(5);
/// How long watches may fail before that is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is followed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Names of runs and suites; run/NAME and suite/NAME say which.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Give up after this time, such as 90s or 2h, with exit code 2.
    #[arg(long, default_value = "1h", alias = "timeout-seconds", value_parser = period)]
    pub timeout: Period,
}

/// Reads a time such as 90s or 1h30m; a number alone is seconds.
pub fn period(text: &str) -> Result<Period, String> {
    let text =
        if text.chars().all(|one| one.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
    text.parse::<Period>().map_err(|error| error.to_string())
}

/// Following failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is to be followed could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The watch ended.
    #[error("failed to watch the runs")]
    Watch(#[source] Box<watcher::Error>),
    /// A run to be followed has a form that this version does not know.
    #[error("{0} cannot be read by this version: {1}")]
    Undecodable(String, String),
    /// A suite has no end.
    #[error("suite/{0} makes rounds by its schedule and does not end itself: {1}")]
    Rounds(String, String),
    /// Time is up.
    #[error("not all had ended after {0}: they go on; follow them again, or cancel them")]
    Timeout(Period),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// What is heard while something is followed.
enum Event {
    Run(Box<watcher::Event<DeserializeGuard<BenchmarkRun>>>),
    Suite(Box<watcher::Event<DeserializeGuard<BenchmarkSuite>>>),
    Pod(Box<watcher::Event<Pod>>),
    Live(Load, Live),
    Idle(Load),
    /// A watch has failed and is tried again.
    Failing(watcher::Error),
    Tick,
}

/// Whether a watch that failed so will never succeed.
fn hopeless(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
        _ => return false,
    };
    [401, 403, 404].contains(&status)
}

/// A watch of `api` that outlives the apiserver's restarts, as `event` calls what it hears.
fn watched<'a, K>(
    api: Api<K>,
    config: watcher::Config,
    event: impl Fn(watcher::Event<K>) -> Event + Send + 'a,
) -> BoxStream<'a, Result<Event, Error>>
where
    K: Resource + Clone + Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let events = watcher(api, config).default_backoff().map(move |heard| match heard {
        Ok(heard) => Ok(event(heard)),
        Err(error) if hopeless(&error) => Err(Error::Watch(Box::new(error))),
        Err(error) => Ok(Event::Failing(error)),
    });
    events.boxed()
}

/// Whether the apiserver answers.
#[derive(Default)]
struct Answers {
    failing_since: Option<Instant>,
    told: bool,
}

impl Answers {
    /// What is to be said of `error` at `now`: nothing of one that passes, and the rest once.
    fn failed(&mut self, error: &watcher::Error, now: Instant) -> Option<String> {
        let since = *self.failing_since.get_or_insert(now);
        if self.told || now.duration_since(since) < PATIENCE {
            return None;
        }
        self.told = true;
        Some(format!("nothing new is seen, and it is tried again: {}", causes::told(error)))
    }
}

/// What `event` says of objects that are looked at: the object, or the name of one that is gone.
enum Change<K> {
    Now(K),
    Gone(String),
}

/// The objects that lists and watches tell of. A list tells by what it leaves out, too.
struct Objects {
    listed: BTreeSet<String>,
    wanted: BTreeSet<String>,
}

impl Objects {
    fn of(wanted: impl Iterator<Item = String>) -> Self {
        Self { listed: BTreeSet::new(), wanted: wanted.collect() }
    }

    fn take_in<K>(&mut self, event: watcher::Event<DeserializeGuard<K>>) -> Result<Vec<Change<K>>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitDone => {
                return Ok(self.wanted.difference(&self.listed).cloned().map(Change::Gone).collect());
            }
            watcher::Event::Delete(guard) => return Ok(vec![Change::Gone(guard.name_any())]),
            watcher::Event::Apply(guard) | watcher::Event::InitApply(guard) => {
                let name = guard.name_any();
                if self.wanted.contains(&name) {
                    self.listed.insert(name.clone());
                    let object = guard.0.map_err(|invalid| Error::Undecodable(name, invalid.error))?;
                    return Ok(vec![Change::Now(object)]);
                }
            }
        }
        Ok(Vec::new())
    }
}

/// Whose load `pod` makes.
fn load_of(pod: &Pod) -> Option<Load> {
    let label = |name: &str| pod.labels().get(name).cloned();
    Some(Load {
        run: label(labels::RUN)?,
        phase: label(labels::PHASE)?,
        repetition: label(labels::REPETITION).unwrap_or_else(|| "1".to_owned()),
        pod: pod.name_any(),
    })
}

/// Hears what `load`'s pod says until its log ends.
async fn listen(pods: Api<Pod>, load: Load, heard: mpsc::Sender<Event>) {
    let parameters = LogParams { follow: true, container: Some("client".to_owned()), ..LogParams::default() };
    // The pod may be gone already: its result is in the status then, only the live view is lost.
    if let Ok(stream) = pods.log_stream(&load.pod, &parameters).await {
        let mut lines = stream.lines();
        while let Ok(Some(line)) = lines.try_next().await {
            let told = (!line.starts_with(LOG_MARKER)).then(|| live::read(&line)).flatten();
            let Some(told) = told else { continue };
            if heard.send(Event::Live(load.clone(), told)).await.is_err() {
                return;
            }
        }
    }
    // Nobody listens any more when the run has ended.
    let _ = heard.send(Event::Idle(load)).await;
}

/// Where what is seen is shown.
struct Screen {
    bar: Option<ProgressBar>,
    started: Instant,
    told: Instant,
}

impl Screen {
    fn new() -> Self {
        let bar = output::terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            // Without a template there is nothing to be wrong with it.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, started: Instant::now(), told: Instant::now() }
    }

    fn changed(&self, lines: &[String]) -> Result<(), output::Error> {
        if self.bar.is_none() {
            for line in lines {
                output::line(&format!("{:>7.1}s  {line}", self.started.elapsed().as_secs_f64()))?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, view: &View) -> Result<(), output::Error> {
        match &self.bar {
            Some(bar) => bar.set_message(view.block().join("\n")),
            None if self.told.elapsed() >= LINES_EVERY => {
                self.told = Instant::now();
                self.changed(&view.progress())?;
            }
            None => {}
        }
        Ok(())
    }

    /// Leaves the last view where it is.
    fn end(&self, view: &View) {
        if let Some(bar) = &self.bar {
            bar.set_message(view.block().join("\n"));
            bar.abandon();
        }
    }
}

/// Everything that is to be heard of `view`'s runs and suites.
fn events<'a>(cluster: &Cluster, view: &View) -> BoxStream<'a, Result<Event, Error>> {
    // Another run that this version cannot read is nobody's concern here.
    let guarded: Api<DeserializeGuard<BenchmarkRun>> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let runs = watched(guarded, watcher::Config::default(), |event| Event::Run(Box::new(event)));
    let clients = watcher::Config::default().labels(&format!("{}={}", labels::COMPONENT, labels::CLIENT));
    let pods = watched(cluster.api::<Pod>(), clients, |event| Event::Pod(Box::new(event)));
    // Who may not see pods still sees the runs.
    let pods = pods.filter(|event| std::future::ready(event.is_ok())).boxed();
    let mut all = vec![runs, pods];
    if view.suites().next().is_some() {
        let guarded: Api<DeserializeGuard<BenchmarkSuite>> =
            Api::namespaced(cluster.client.clone(), &cluster.namespace);
        all.push(watched(guarded, watcher::Config::default(), |event| Event::Suite(Box::new(event))));
    }
    futures::stream::select_all(all).boxed()
}

/// The client pods that run, and the runs of suites that are looked at.
#[derive(Default)]
struct Loads {
    running: BTreeMap<String, Load>,
    listened: BTreeSet<String>,
    of_suites: BTreeSet<String>,
}

impl Loads {
    fn note_pod(&mut self, event: &watcher::Event<Pod>) {
        let (watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { return };
        let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if let Some(load) = load_of(pod).filter(|_| running) {
            self.running.insert(load.pod.clone(), load);
        }
    }

    fn note_owner(&mut self, event: &watcher::Event<DeserializeGuard<BenchmarkRun>>, view: &View) {
        let (watcher::Event::Apply(guard) | watcher::Event::InitApply(guard)) = event else { return };
        let owners = guard.owner_references().iter();
        if owners
            .into_iter()
            .any(|owner| owner.kind == "BenchmarkSuite" && view.suites().any(|suite| suite == owner.name))
        {
            self.of_suites.insert(guard.name_any());
        }
    }

    /// Those that nobody has listened to yet.
    fn fresh(&mut self, view: &View) -> Vec<Load> {
        let shown = |load: &&Load| view.shows(&load.run) || self.of_suites.contains(&load.run);
        let fresh: Vec<Load> = self.running.values().filter(shown).cloned().collect();
        self.running.retain(|_, load| !fresh.contains(load));
        fresh.into_iter().filter(|load| self.listened.insert(load.pod.clone())).collect()
    }
}

async fn shown(cluster: &Cluster, view: &mut View, screen: &mut Screen) -> Result<Ending, Error> {
    let mut events = events(cluster, view);
    let (sender, mut heard) = mpsc::channel(256);
    let mut loads = Loads::default();
    let mut runs = Objects::of(view.runs().map(str::to_owned));
    let mut suites = Objects::of(view.suites().map(str::to_owned));
    let mut ticks = tokio::time::interval(TICK);
    let mut answers = Answers::default();
    loop {
        if let Some(ending) = view.ending() {
            return Ok(ending);
        }
        let event = tokio::select! {
            event = events.next() => match event {
                Some(event) => event?,
                None => continue,
            },
            Some(event) = heard.recv() => event,
            _ = ticks.tick() => Event::Tick,
        };
        if matches!(event, Event::Run(_) | Event::Suite(_)) {
            answers.failing_since = None;
        }
        match event {
            Event::Failing(error) => {
                answers.failed(&error, Instant::now()).iter().for_each(|told| output::warn(told));
            }
            Event::Run(event) => {
                loads.note_owner(&event, view);
                for change in runs.take_in(*event)? {
                    let lines = match change {
                        Change::Now(run) => view.run(run),
                        Change::Gone(name) => view.gone(&name, true),
                    };
                    screen.changed(&lines)?;
                }
            }
            Event::Suite(event) => {
                for change in suites.take_in(*event)? {
                    let lines = match change {
                        Change::Now(suite) => view.suite(suite),
                        Change::Gone(name) => view.gone(&name, false),
                    };
                    screen.changed(&lines)?;
                }
            }
            Event::Pod(event) => loads.note_pod(&event),
            Event::Live(load, live) => view.live(load, live),
            Event::Idle(load) => view.idle(&load),
            Event::Tick => {
                for load in loads.fresh(view) {
                    tokio::spawn(listen(cluster.api(), load, sender.clone()));
                }
                screen.draw(view)?;
            }
        }
    }
}

/// That `suite` makes rounds and so never ends, where it does.
fn endless(suite: &BenchmarkSuite) -> Option<Error> {
    let status = suite.status.as_ref();
    // One that was cancelled makes no further rounds.
    if suite.spec.schedule.is_none() || status.is_some_and(|status| status.phase.finished()) {
        return None;
    }
    let last = status.and_then(|status| status.last_round.as_ref());
    let next = status.and_then(|status| status.next_scheduled_at.as_ref());
    let instead = match (last, next) {
        (Some(round), _) => format!("follow suite/{round} (the last round)"),
        (None, _) if suite.spec.suspend => "it is suspended, and has made none".to_owned(),
        (None, Some(next)) => format!("it has made none yet, and the next is due at {}", next.0),
        (None, None) => "it has made none yet".to_owned(),
    };
    Some(Error::Rounds(suite.name_any(), instead))
}

/// Follows `subjects` until all have ended or `timeout` is over.
pub async fn subjects(cluster: &Cluster, subjects: Vec<Subject>, timeout: &Period) -> Result<Ending, Error> {
    let (mut runs, mut suites) = (Vec::new(), Vec::new());
    for subject in subjects {
        match subject {
            Subject::Run(run) => runs.push(*run),
            Subject::Suite(suite) => match endless(&suite) {
                Some(error) => return Err(error),
                None => suites.push(*suite),
            },
        }
    }
    let (mut view, mut screen) = (View::of(runs, suites), Screen::new());
    screen.changed(&view.first())?;
    let ending = tokio::time::timeout(timeout.duration(), shown(cluster, &mut view, &mut screen)).await;
    screen.end(&view);
    ending.map_err(|_| Error::Timeout(timeout.clone()))?
}

/// The exit code that an ending stands for.
pub fn exit_code(ending: Ending) -> ExitCode {
    ExitCode::from(match ending {
        Ending::Passed => 0,
        Ending::NotPassed => 1,
        Ending::Gone => 2,
    })
}

/// Follows what is named. A name that is not there is told at once.
pub async fn follow(cluster: &Cluster, options: &Options) -> Result<ExitCode, Error> {
    let found = cluster.subjects(&cluster::given(&options.names)?).await?;
    subjects(cluster, found, &options.timeout).await.map(exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_with_a_schedule_is_told_to_have_no_end() {
        let mut suite: BenchmarkSuite =
            serde_yaml::from_str(include_str!("../../examples/suite-schedule.yaml")).unwrap();
        let told = |suite: &BenchmarkSuite| endless(suite).map(|error| error.to_string()).unwrap_or_default();
        let mut status = |status: serde_json::Value| {
            suite.status = Some(serde_json::from_value(status).unwrap());
            told(&suite)
        };
        let first =
            status(serde_json::json!({"phase": "Scheduled", "nextScheduledAt": "2026-01-02T03:00:00Z"}));
        assert!(
            first.ends_with("it has made none yet, and the next is due at 2026-01-02T03:00:00Z"),
            "{first}"
        );
        let later = status(serde_json::json!({"phase": "Scheduled", "lastRound": "nightly-29454660"}));
        assert_eq!(
            later,
            "suite/nightly makes rounds by its schedule and does not end itself: follow suite/nightly-29454660 (the last round)"
        );
        assert_eq!(status(serde_json::json!({"phase": "Cancelled"})), "", "it has ended");
    }

    #[test]
    fn a_watch_that_keeps_failing_is_told_once() {
        let (mut answers, start) = (Answers::default(), Instant::now());
        let mut after = |seconds| {
            answers.failed(&watcher::Error::NoResourceVersion, start + Duration::from_secs(seconds))
        };
        assert_eq!(after(0), None, "it may pass");
        assert!(after(6).is_some_and(|told| told.contains("it is tried again: no metadata.resourceVersion")));
        assert_eq!(after(60), None, "it was said");
    }

    #[test]
    fn a_time_is_a_period_or_a_number_of_seconds() {
        assert_eq!(period("90").unwrap(), period("90s").unwrap());
        assert_eq!(period("1h30m").unwrap().duration(), Duration::from_secs(5400));
        assert!(period("soon").is_err(), "soon is no time");
    }
}

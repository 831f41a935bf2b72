//! The metrics of the newest finished runs, from one list at the start and a watch after it.
//! [`Newest`] is pure, [`History::follow`] needs the client.

use super::{families::Families, phases::Detail};
use crate::cluster::{feed, finished::FinishedRun, scope::Scope};
use dragstrip_crds::{BenchmarkRun, run::RunPhase};
use dragstrip_results::error_chain::chain;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Runs in one page of the first list: smaller pages need many requests, a single page much memory.
const PAGE: u32 = 250;

/// When a run ended, its namespace and its name.
type Id = (Timestamp, String, String);

/// The values of the runs that ended last, at most `limit`.
#[derive(Debug)]
struct Newest<V> {
    limit: usize,
    values: BTreeMap<Id, V>,
}

impl<V> Newest<V> {
    fn new(limit: usize) -> Self {
        Self { limit, values: BTreeMap::new() }
    }

    /// Inserts or replaces a value, which is computed only if it is among the newest.
    fn insert(&mut self, id: Id, value: impl FnOnce() -> Option<V>) {
        self.values.remove(&id);
        let oldest = self.values.first_key_value().map(|(oldest, _)| oldest);
        if self.values.len() < self.limit || oldest < Some(&id) {
            self.values.extend(value().map(|value| (id, value)));
        }
        if self.values.len() > self.limit {
            self.values.pop_first();
        }
    }
}

/// A finished run, decoded only as far as its end: most of thousands are too old to be shown, and to
/// decode them all would take seconds.
#[derive(Debug, Clone, Resource)]
#[resource(inherit = BenchmarkRun)]
struct Ended {
    metadata: ObjectMeta,
    id: Option<Id>,
    text: Box<RawValue>,
}

impl<'de> Deserialize<'de> for Ended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let run: FinishedRun = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let id = run.finished_at().map(|end| (end, run.namespace().unwrap_or_default(), run.name_any()));
        Ok(Self { metadata: run.metadata, id, text })
    }
}

#[derive(Debug, Clone)]
pub struct Shown {
    pub namespace: String,
    pub name: String,
    /// Its uid: a later run of the same name has another.
    pub uid: String,
    pub state: RunPhase,
    pub complete: Arc<Families>,
    /// Those that remain if the page grows too large.
    pub totals: Arc<Families>,
}

impl Shown {
    pub fn has_name_of(&self, run: &BenchmarkRun) -> bool {
        (Some(&self.namespace), Some(&self.name)) == (run.namespace().as_ref(), run.metadata.name.as_ref())
    }
}

/// The metrics of `ended` runs, oldest first, within so many bytes: complete for as many of the newest
/// runs as leave room for the totals of all others.
pub fn within(ended: &[Shown], most_bytes: usize) -> impl Iterator<Item = &Families> {
    let mut used: usize = ended.iter().map(|run| run.totals.len()).sum();
    let complete = ended.iter().rev().take_while(|run| {
        used += run.complete.len() - run.totals.len();
        used <= most_bytes
    });
    let totals = ended.len() - complete.count();
    ended.iter().enumerate().map(move |(index, run)| {
        let part = if index < totals { &run.totals } else { &run.complete };
        part.as_ref()
    })
}

pub type Render = dyn Fn(&BenchmarkRun, Detail) -> Families + Send + Sync;

/// The newest finished runs. [`History::follow`] fills it, the metrics page shows it.
pub struct History {
    render: Box<Render>,
    newest: Mutex<Newest<Shown>>,
}

impl History {
    pub fn new(limit: usize, render: Box<Render>) -> Self {
        Self { render, newest: Mutex::new(Newest::new(limit)) }
    }

    fn lock(&self) -> MutexGuard<'_, Newest<Shown>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs to show, oldest first.
    pub fn shown(&self) -> Vec<Shown> {
        self.lock().values.values().cloned().collect()
    }

    fn show(&self, (_, namespace, name): &Id, text: &RawValue) -> Option<Shown> {
        let run: BenchmarkRun = serde_json::from_str(text.get())
            .inspect_err(|error| tracing::debug!(namespace, name, %error, "a finished run cannot be decoded"))
            .ok()?;
        Some(Shown {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: run.uid().unwrap_or_default(),
            state: run.status.as_ref().map(|status| status.phase).unwrap_or_default(),
            complete: Arc::new((self.render)(&run, Detail::Complete).shrunk()),
            totals: Arc::new((self.render)(&run, Detail::Totals).shrunk()),
        })
    }

    /// Applies an event of the watch. `listing` has the undecoded runs of an incomplete list: a list is
    /// sorted by name, often also by end, so that each run in turn would be the newest and be decoded.
    fn apply(&self, event: Event<Ended>, listing: &mut Newest<Box<RawValue>>) {
        match event {
            Event::Init => listing.values.clear(),
            Event::InitApply(Ended { id: Some(id), text, .. }) => listing.insert(id, || Some(text)),
            Event::InitDone => {
                let runs = std::mem::take(&mut listing.values).into_iter();
                let shown = runs.filter_map(|(id, text)| self.show(&id, &text).map(|shown| (id, shown)));
                let shown = shown.collect();
                self.lock().values = shown;
            }
            Event::Apply(Ended { id: Some(id), text, .. }) => {
                self.lock().insert(id.clone(), || self.show(&id, &text));
            }
            Event::Delete(Ended { id: Some(id), .. }) => drop(self.lock().values.remove(&id)),
            Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {}
        }
    }

    /// Follows the runs that end, forever.
    pub async fn follow(&self, client: Client, scope: &Scope) {
        let limit = self.lock().limit;
        if limit == 0 {
            return std::future::pending().await;
        }
        let runs: Api<Ended> = scope.api(&client);
        let ended = watcher::Config::default().fields("status.finishedAt!=");
        let watch = |config| feed::events(runs.clone(), config);
        // One request, which the API server answers from its cache, run by run.
        let mut events = Box::pin(watch(ended.clone().streaming_lists()));
        let mut listing = Newest::new(limit);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event, &mut listing),
                Err(error) if refuses_streaming(&error) => {
                    tracing::info!("the API server does not stream lists: listing finished runs in pages");
                    events = Box::pin(watch(ended.clone().page_size(PAGE)));
                }
                // It restarts, after a longer wait each time.
                Err(error) => tracing::warn!(error = %chain(&error), "the watch of finished runs failed"),
            }
        }
    }
}

/// Whether the API server has no streaming lists (WatchList, of Kubernetes 1.34, can be off).
fn refuses_streaming(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 422) && status.message.contains("sendInitialEvents")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn id(second: i64) -> Id {
        (Timestamp::from_second(second).unwrap(), "races".into(), format!("run-{second}"))
    }

    fn seconds(newest: &Newest<i64>) -> Vec<i64> {
        newest.values.values().copied().collect()
    }

    #[test]
    fn only_the_newest_are_stored_in_whatever_sequence_they_come() {
        let mut newest = Newest::new(2);
        for second in [5, 1, 9, 3, 7] {
            newest.insert(id(second), || Some(second));
        }
        assert_eq!(seconds(&newest), [7, 9]);
        newest.insert(id(3), || panic!("the value of an older run is not even computed"));
        newest.insert(id(9), || Some(90));
        assert_eq!(seconds(&newest), [7, 90], "a later event replaces the value");
    }

    fn ended(name: &str, end: &str) -> Ended {
        serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {"name": name, "namespace": "races", "uid": name, "labels": {"other": "x"},
                "managedFields": [{"manager": "m"}]},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": []},
            "status": {"phase": "Failed", "finishedAt": end}
        }))
        .unwrap()
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_later_events_at_once() {
        let history = History::new(2, Box::new(|_, _| Families::default()));
        let names = || history.shown().into_iter().map(|run| run.name).collect::<Vec<_>>();
        let mut listing = Newest::new(2);
        let mut apply = |event| history.apply(event, &mut listing);
        apply(Event::Init);
        apply(Event::InitApply(ended("a", "2026-01-01T00:00:01Z")));
        apply(Event::InitApply(
            serde_json::from_value(json!({
                "metadata": {"name": "odd"}, "spec": {"phases": 1}, "status": {"finishedAt": "2026-01-01T00:00:09Z"}
            }))
            .unwrap(),
        ));
        assert_eq!(names(), [""; 0], "an incomplete list does not count");
        apply(Event::InitDone);
        assert_eq!(names(), ["a"], "a run that cannot be decoded blocks no other");
        apply(Event::Apply(ended("b", "2026-01-01T00:00:02Z")));
        apply(Event::Apply(ended("c", "2026-01-01T00:00:03Z")));
        assert_eq!(names(), ["b", "c"]);
        apply(Event::Delete(ended("c", "2026-01-01T00:00:03Z")));
        assert_eq!(names(), ["b"]);
        apply(Event::Init);
        apply(Event::InitApply(ended("d", "2026-01-01T00:00:04Z")));
        assert_eq!(names(), ["b"], "the runs stay while a new list is incomplete");
        apply(Event::InitDone);
        assert_eq!(names(), ["d"]);
        assert_eq!(history.shown()[0].state, RunPhase::Failed);
    }

    #[test]
    fn only_the_runs_of_a_list_that_are_shown_are_rendered() {
        let rendered = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&rendered);
        let render = move |run: &BenchmarkRun, _| {
            seen.lock().unwrap().push(run.name_any());
            Families::default()
        };
        let (history, mut listing) = (History::new(1, Box::new(render)), Newest::new(1));
        history.apply(Event::Init, &mut listing);
        for (name, end) in [("a", "2026-01-01T00:00:01Z"), ("b", "2026-01-01T00:00:02Z")] {
            history.apply(Event::InitApply(ended(name, end)), &mut listing);
        }
        history.apply(Event::InitDone, &mut listing);
        assert_eq!(
            *rendered.lock().unwrap(),
            ["b", "b"],
            "complete and in totals: thousands would take seconds"
        );
    }

    #[test]
    fn only_an_apiserver_without_streaming_lists_lists_in_pages() {
        let refused = |code, message: &str| {
            let status = kube::core::Status::failure(message, "Invalid").with_code(code);
            refuses_streaming(&watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed())))
        };
        let words = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless \
                     the WatchList feature gate is enabled";
        assert!(refused(422, words));
        assert!(
            !refused(504, "the watch cache is behind; sendInitialEvents timed out"),
            "the watch is retried"
        );
        assert!(!refused(422, "something else"));
    }
}

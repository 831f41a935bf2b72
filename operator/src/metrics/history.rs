//! The runs that ended last, as text that metrics show: found by one list at the start and
//! a watch after it. Of all others only names and ends are kept, so that thousands of them
//! cost little. [`Newest`] is pure, [`follow`] needs the client.

use super::{families::Families, phases::Detail};
use crate::cluster::{feed, scope::Scope};
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
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

/// Runs read at once at the start: a hundred calls for ten thousand of them would be many,
/// and all in one answer much memory.
const PAGE: u32 = 250;

/// When a run ended, its namespace and its name.
type Id = (Timestamp, String, String);

/// The `most` values that ended last, and the names of all others.
#[derive(Debug)]
struct Newest<V> {
    most: usize,
    kept: BTreeMap<Id, V>,
    /// All of them ended before every one that is kept.
    older: BTreeSet<Id>,
}

impl<V> Newest<V> {
    fn new(most: usize) -> Self {
        Self { most, kept: BTreeMap::new(), older: BTreeSet::new() }
    }

    /// Takes note of a value, which is made where it is kept; of none where that fails.
    fn put(&mut self, id: Id, value: impl FnOnce() -> Option<V>) {
        self.remove(&id);
        let first = self.kept.first_key_value().map(|(first, _)| first);
        let wanted = self.older.last() < Some(&id) && (self.kept.len() < self.most || first < Some(&id));
        if !wanted {
            self.older.insert(id);
            return;
        }
        self.kept.extend(value().map(|value| (id, value)));
        if self.kept.len() > self.most {
            self.older.extend(self.kept.pop_first().map(|(oldest, _)| oldest));
        }
    }

    fn remove(&mut self, id: &Id) {
        if self.kept.remove(id).is_none() {
            self.older.remove(id);
        }
    }

    /// The same of what `make` makes of each value; without those it makes nothing of.
    fn filter_map<W>(self, make: impl Fn(&Id, V) -> Option<W>) -> Newest<W> {
        let made = self.kept.into_iter().filter_map(|(id, value)| {
            let made = make(&id, value)?;
            Some((id, made))
        });
        Newest { most: self.most, kept: made.collect(), older: self.older }
    }

    /// What is to be kept too, since there is room again.
    fn missing(&self) -> Option<&Id> {
        self.older.last().filter(|_| self.kept.len() < self.most)
    }

    /// Takes note of the value of `id`, which was missing; of none where there is none any more.
    fn found(&mut self, id: Id, value: Option<V>) {
        self.older.remove(&id);
        self.kept.extend(value.map(|value| (id, value)));
    }
}

/// A run that has ended, read no further than to its end: most of thousands are too old to
/// be shown, and to decode them all would take seconds.
#[derive(Debug, Clone, Resource)]
#[resource(inherit = BenchmarkRun)]
struct Ended {
    metadata: ObjectMeta,
    id: Option<Id>,
    text: Box<RawValue>,
}

#[derive(Deserialize)]
struct Outline {
    metadata: Names,
    status: Option<End>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    finished_at: Option<String>,
}

impl<'de> Deserialize<'de> for Ended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let outline: Outline = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let end = outline.status.and_then(|status| status.finished_at?.parse().ok());
        let Names { name, namespace, resource_version } = outline.metadata;
        let id = end.map(|end| (end, namespace.clone().unwrap_or_default(), name.clone()));
        let metadata = ObjectMeta { name: Some(name), namespace, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, id, text })
    }
}

/// A run that has ended, as metrics show it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: a later run of the same name is another.
    pub uid: String,
    /// How it ended.
    pub state: RunPhase,
    /// All its metrics.
    pub whole: Arc<Families>,
    /// Those that are left where room is short.
    pub totals: Arc<Families>,
}

/// The parts of a page that tell of `ended` runs, oldest first, within so many bytes: those
/// that ended last are told whole as long as all others can be told by their totals.
pub fn within(ended: &[Shown], most_bytes: usize) -> impl Iterator<Item = &Families> {
    let mut used: usize = ended.iter().map(|run| run.totals.len()).sum();
    let whole = ended.iter().rev().take_while(|run| {
        used += run.whole.len() - run.totals.len();
        used <= most_bytes
    });
    let short = ended.len() - whole.count();
    ended.iter().enumerate().map(
        move |(index, run)| {
            if index < short { run.totals.as_ref() } else { run.whole.as_ref() }
        },
    )
}

/// How a run is made metrics.
pub type Render = dyn Fn(&BenchmarkRun, Detail) -> Families + Send + Sync;

/// The runs that ended last. Shared by who follows them and who shows them.
pub struct History {
    render: Box<Render>,
    newest: Mutex<Newest<Shown>>,
}

impl History {
    /// Of nobody so far; `most` runs will be kept.
    pub fn new(most: usize, render: Box<Render>) -> Self {
        Self { render, newest: Mutex::new(Newest::new(most)) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Newest<Shown>) -> T) -> T {
        act(&mut self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The runs to be shown.
    pub fn shown(&self) -> Vec<Shown> {
        self.with(|newest| newest.kept.values().cloned().collect())
    }

    fn show(&self, (_, namespace, name): &Id, text: &RawValue) -> Option<Shown> {
        let run: BenchmarkRun = serde_json::from_str(text.get())
            .inspect_err(|error| tracing::debug!(namespace, name, %error, "an ended run cannot be decoded"))
            .ok()?;
        Some(Shown {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: run.uid().unwrap_or_default(),
            state: run.status.as_ref().map(|status| status.phase).unwrap_or_default(),
            whole: Arc::new((self.render)(&run, Detail::Whole).shrunk()),
            totals: Arc::new((self.render)(&run, Detail::Totals).shrunk()),
        })
    }

    /// Takes note of an event of the watch; `listing` is what the list
    /// has told so far, which counts when it is complete. Lists come in the order of names, often
    /// that of ends: to decode each run that was the newest so far would be to decode them all.
    fn take(&self, event: Event<Ended>, listing: &mut Newest<Box<RawValue>>) {
        match event {
            Event::Init => *listing = Newest::new(listing.most),
            Event::InitApply(Ended { id: Some(id), text, .. }) => listing.put(id, || Some(text)),
            Event::InitDone => {
                let whole = std::mem::replace(listing, Newest::new(listing.most));
                let whole = whole.filter_map(|id, text| self.show(id, &text));
                self.with(|newest| *newest = whole);
            }
            Event::Apply(Ended { id: Some(id), text, .. }) => {
                self.with(|newest| newest.put(id.clone(), || self.show(&id, &text)));
            }
            Event::InitApply(_) | Event::Apply(_) => {}
            Event::Delete(run) => {
                if let Some(id) = run.id {
                    self.with(|newest| newest.remove(&id));
                }
            }
        }
    }

    /// Reads runs anew that there is room for again.
    async fn refill(&self, client: &Client) -> kube::Result<()> {
        while let Some(id) = self.with(|newest| newest.missing().cloned()) {
            let run = Api::<Ended>::namespaced(client.clone(), &id.1).get_opt(&id.2).await?;
            // A later run of the same name may have taken its place.
            let shown =
                run.filter(|run| run.id.as_ref() == Some(&id)).and_then(|run| self.show(&id, &run.text));
            self.with(|newest| newest.found(id, shown));
        }
        Ok(())
    }

    /// Follows the runs that end, for ever; of none where none is to be kept.
    pub async fn follow(&self, client: Client, scope: &Scope) {
        let most = self.with(|newest| newest.most);
        if most == 0 {
            return std::future::pending().await;
        }
        let runs: Api<Ended> = scope.api(&client);
        let ended = watcher::Config::default().fields("status.finishedAt!=");
        let watch = |config| feed::events(runs.clone(), config);
        // One call, answered from the apiserver's cache run by run.
        let mut events = Box::pin(watch(ended.clone().streaming_lists()));
        let mut listing = Newest::new(most);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event, &mut listing),
                Err(error) if refuses_streaming(&error) => {
                    tracing::info!("the apiserver does not stream lists: ended runs are listed in pages");
                    events = Box::pin(watch(ended.clone().page_size(PAGE)));
                }
                // It is begun anew, later each time; what was seen stays.
                Err(error) => tracing::warn!(error = %chain(&error), "the watch of ended runs failed"),
            }
            if let Err(error) = self.refill(&client).await {
                tracing::warn!(error = %chain(&error), "an ended run cannot be read for metrics");
            }
        }
    }
}

/// Whether an apiserver answered that it has no streaming lists, a feature of Kubernetes
/// 1.34 that may be switched off (WatchList).
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
        newest.kept.values().copied().collect()
    }

    #[test]
    fn the_newest_are_kept_in_whatever_order_they_are_told() {
        let mut newest = Newest::new(2);
        for second in [5, 1, 9, 3, 7] {
            newest.put(id(second), || Some(second));
        }
        assert_eq!(seconds(&newest), [7, 9]);
        assert_eq!(newest.missing(), None);
        newest.put(id(3), || panic!("what is not kept is not even made"));
        newest.put(id(9), || Some(90));
        assert_eq!(seconds(&newest), [7, 90], "told again is told anew");
    }

    #[test]
    fn who_follows_a_run_that_is_deleted_takes_its_place() {
        let mut newest = Newest::new(2);
        for second in [1, 3, 5, 7] {
            newest.put(id(second), || Some(second));
        }
        newest.remove(&id(7));
        assert_eq!(newest.missing(), Some(&id(3)));
        newest.put(id(1), || panic!("an older one must not overtake it"));
        newest.found(id(3), None);
        assert_eq!(newest.missing(), Some(&id(1)), "it was deleted too");
        newest.found(id(1), Some(1));
        assert_eq!(seconds(&newest), [1, 5]);
        newest.put(id(9), || Some(9));
        newest.remove(&id(1));
        assert_eq!((seconds(&newest), newest.missing()), (vec![5, 9], None));
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
        let mut take = |event| history.take(event, &mut listing);
        take(Event::Init);
        take(Event::InitApply(ended("a", "2026-01-01T00:00:01Z")));
        take(Event::InitApply(
            serde_json::from_value(json!({
                "metadata": {"name": "odd"}, "spec": 1, "status": {"finishedAt": "2026-01-01T00:00:09Z"}
            }))
            .unwrap(),
        ));
        assert_eq!(names(), [""; 0], "half a list tells nothing");
        take(Event::InitDone);
        assert_eq!(names(), ["a"], "what cannot be decoded stops nobody");
        take(Event::Apply(ended("b", "2026-01-01T00:00:02Z")));
        take(Event::Apply(ended("c", "2026-01-01T00:00:03Z")));
        assert_eq!(names(), ["b", "c"]);
        take(Event::Delete(ended("c", "2026-01-01T00:00:03Z")));
        assert_eq!(names(), ["b"]);
        take(Event::Init);
        take(Event::InitApply(ended("d", "2026-01-01T00:00:04Z")));
        assert_eq!(names(), ["b"], "what was seen stays while all is listed anew");
        take(Event::InitDone);
        assert_eq!(names(), ["d"]);
        assert_eq!(history.shown()[0].state, RunPhase::Failed);
    }

    #[test]
    fn of_a_list_only_those_are_rendered_that_are_shown() {
        let rendered = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&rendered);
        let render = move |run: &BenchmarkRun, _| {
            seen.lock().unwrap().push(run.name_any());
            Families::default()
        };
        let (history, mut listing) = (History::new(1, Box::new(render)), Newest::new(1));
        history.take(Event::Init, &mut listing);
        for (name, end) in [("a", "2026-01-01T00:00:01Z"), ("b", "2026-01-01T00:00:02Z")] {
            history.take(Event::InitApply(ended(name, end)), &mut listing);
        }
        history.take(Event::InitDone, &mut listing);
        assert_eq!(
            *rendered.lock().unwrap(),
            ["b", "b"],
            "whole and in totals: thousands would take seconds"
        );
    }

    #[test]
    fn only_an_apiserver_without_streaming_lists_is_asked_for_pages() {
        let refused = |code, message: &str| {
            let status = kube::core::Status::failure(message, "Invalid").with_code(code);
            refuses_streaming(&watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed())))
        };
        let words = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless \
                     the WatchList feature gate is enabled";
        assert!(refused(422, words));
        assert!(!refused(504, "the watch cache is behind; sendInitialEvents timed out"), "it is tried again");
        assert!(!refused(422, "something else"));
    }
}

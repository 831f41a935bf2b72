//! A watch of one kind, of all namespaces or of some, shared by all who need it: a store to
//! look things up in, and for each subscriber a stream of what was touched. Needs the client.

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream, select_all},
};
use kube::{
    Api, Resource, ResourceExt,
    api::ObjectMeta,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        reflector::{Lookup, ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    hash::Hash,
    sync::Arc,
};
use tokio::sync::mpsc;

use super::undecodable::{Conditioned, Undecodable};
use crate::process::chain;

/// Objects of ours read at once at the start. Each is buffered as a tree of values until
/// it is known whether it can be decoded, many times its size, and what a whole page
/// took the process keeps.
const PAGE: u32 = 100;

/// What can be watched.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}
impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// What is watched: every namespace at once (`None`), or each by itself.
pub type Apis<K> = Vec<(Option<String>, Api<K>)>;

/// What a watch tells, and of which namespace it is; `None` where it is of all.
type Told<K> = (Option<String>, watcher::Result<Event<K>>);

/// What becomes of an object that was told: `Err` where it is none of those in the store,
/// whether it was one before or not.
type Changed<K> = Result<K, ObjectRef<K>>;

/// What happens in the store.
enum Step<K: Watched> {
    Event(Event<K>),
    /// It is not kept any more, or was deleted in a state that is not kept: left out of the
    /// store it would seem to be there for ever as it last was.
    Leaves(ObjectRef<K>),
}

/// A watch that has not been started, or is under way in [`Feed::run`].
pub struct Feed<K: Watched>
where
    ObjectRef<K>: Eq + Hash,
{
    steps: BoxStream<'static, (Option<String>, watcher::Result<Step<K>>)>,
    store: Store<K>,
    writer: Writer<K>,
    subscribers: Vec<mpsc::UnboundedSender<Arc<K>>>,
    /// Namespaces whose first list is not complete: until then nothing is in the store.
    missing: HashSet<String>,
    /// Lists of namespaces that are not in the store yet.
    lists: HashMap<String, HashMap<ObjectRef<K>, K>>,
}

/// `events` with the beginning of each list told together with what follows it: a list that is
/// begun and refused is no success.
fn begun_lists<A>(
    events: impl Stream<Item = watcher::Result<Event<A>>>,
) -> impl Stream<Item = watcher::Result<Event<A>>> {
    let mut begun = false;
    events.flat_map(move |event| {
        let held_back = std::mem::replace(&mut begun, matches!(event, Ok(Event::Init)));
        let init = (held_back && event.is_ok()).then_some(Ok(Event::Init));
        let event = Some(event).filter(|event| !matches!(event, Ok(Event::Init)));
        stream::iter(init.into_iter().chain(event))
    })
}

/// What a watch of `api` tells, for ever. One that fails is begun anew, later each time until it
/// succeeds: kube takes the beginning of a list for that, and would ask every second.
pub fn events<A>(api: Api<A>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<A>>> + Send
where
    A: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    begun_lists(watcher::watcher(api, config)).default_backoff()
}

/// One watch of all `apis`.
fn watch<A>(apis: Apis<A>, config: &watcher::Config) -> impl Stream<Item = Told<A>> + Send + use<A>
where
    A: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    select_all(apis.into_iter().map(|(namespace, api)| {
        let events = events(api, config.clone());
        events.map(move |event| (namespace.clone(), event)).boxed()
    }))
}

/// What `event` means for the store, with its object changed by `change`, which is told
/// whether the object was deleted.
fn step<A, K: Watched>(event: Event<A>, change: impl FnOnce(A, bool) -> Changed<K>) -> Step<K> {
    let event = match event {
        Event::Apply(object) => change(object, false).map(Event::Apply),
        Event::Delete(object) => change(object, true).map(Event::Delete),
        Event::InitApply(object) => change(object, false).map(Event::InitApply),
        Event::Init => Ok(Event::Init),
        Event::InitDone => Ok(Event::InitDone),
    };
    event.map_or_else(Step::Leaves, Step::Event)
}

/// The object that `metadata` is of.
fn key_of<K: Watched>(metadata: &ObjectMeta) -> ObjectRef<K> {
    let key = ObjectRef::new(metadata.name.as_deref().unwrap_or_default());
    match &metadata.namespace {
        Some(namespace) => key.within(namespace),
        None => key,
    }
}

/// Whether the watch was longer away than the apiserver remembers: the usual end of one that
/// is told little.
fn has_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

fn namespaces<A>(apis: &Apis<A>) -> HashSet<String> {
    apis.iter().filter_map(|(namespace, _)| namespace.clone()).collect()
}

impl<K: Watched> Feed<K>
where
    ObjectRef<K>: Eq + Hash,
{
    /// Of what `told` tells of these `namespaces`, each object changed by `change`, which is
    /// told whether it was deleted.
    fn of<A: Send + 'static>(
        namespaces: HashSet<String>,
        told: impl Stream<Item = Told<A>> + Send + 'static,
        mut change: impl FnMut(A, bool) -> Changed<K> + Send + 'static,
    ) -> Self {
        let steps =
            told.map(move |(namespace, event)| (namespace, event.map(|event| step(event, &mut change))));
        let writer = Writer::<K>::new(());
        Self {
            steps: steps.boxed(),
            store: writer.as_reader(),
            writer,
            subscribers: Vec::new(),
            missing: namespaces,
            lists: HashMap::new(),
        }
    }

    /// Watches objects of Kubernetes' own. `keep` leaves nothing in them that nobody
    /// reads, since they stay in memory, and says whether the object is kept at all.
    pub fn new(apis: Apis<K>, config: &watcher::Config, keep: fn(&mut K) -> bool) -> Self {
        let kept = move |mut object: K, _| {
            // managedFields are three quarters of an object in memory and nobody reads them.
            object.managed_fields_mut().clear();
            if keep(&mut object) { Ok(object) } else { Err(object.to_object_ref(())) }
        };
        Self::of(namespaces(&apis), watch(apis, config), kept)
    }

    /// Watches objects of ours, of which some may have been written by an older or
    /// a newer version: what cannot be decoded is told and left out.
    pub fn guarded(
        apis: Apis<DeserializeGuard<K>>,
        config: watcher::Config,
        mut undecodable: Undecodable<K>,
    ) -> Self
    where
        K: Conditioned,
    {
        let decode = move |guard: DeserializeGuard<K>, deleted| match guard.0 {
            Ok(mut object) => {
                undecodable.decoded(&object);
                object.managed_fields_mut().clear();
                Ok(object)
            }
            Err(invalid) => {
                if deleted {
                    undecodable.gone(&invalid.metadata);
                } else {
                    undecodable.tell(&invalid);
                }
                Err(key_of(&invalid.metadata))
            }
        };
        Self::of(namespaces(&apis), watch(apis, &config.page_size(PAGE)), decode)
    }

    /// What is there, as far as it was seen.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Every object that is made, changed or deleted from now on, and at first those that are there.
    pub fn subscribe(&mut self) -> impl Stream<Item = Arc<K>> + use<K> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.subscribers.push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context))
    }

    fn send(&self, object: &Arc<K>) {
        for subscriber in &self.subscribers {
            // A controller that has ended does not listen any more.
            let _ = subscriber.send(Arc::clone(object));
        }
    }

    /// Takes over what was listed, and tells also what was deleted unseen.
    fn listed(&mut self, event: &Event<K>) {
        let before = self.store.state();
        self.writer.apply_watcher_event(event);
        let now = self.store.state();
        let known: HashSet<_> = now.iter().map(|object| object.to_object_ref(())).collect();
        let gone = before.iter().filter(|object| !known.contains(&object.to_object_ref(())));
        gone.chain(&now).for_each(|object| self.send(object));
    }

    /// Takes an object out of the store, if it is there, and tells it.
    fn take_out(&mut self, key: &ObjectRef<K>) {
        if let Some(known) = self.store.get(key) {
            self.take(&Event::Delete((*known).clone()));
        }
    }

    fn take(&mut self, event: &Event<K>) {
        match event {
            Event::Apply(object) => {
                self.writer.apply_watcher_event(event);
                if let Some(object) = self.store.get(&object.to_object_ref(())) {
                    self.send(&object);
                }
            }
            Event::Delete(object) => {
                self.writer.apply_watcher_event(event);
                self.send(&Arc::new(object.clone()));
            }
            Event::InitDone => self.listed(event),
            Event::Init | Event::InitApply(_) => self.writer.apply_watcher_event(event),
        }
    }

    /// Takes what was told of one namespace. The store takes lists of the whole only: it is
    /// given the first ones when all are complete, and a later one with what is known of the others.
    fn take_of(&mut self, namespace: String, event: Event<K>) {
        let whole = self.missing.is_empty();
        match event {
            Event::Init => {
                self.lists.insert(namespace.clone(), HashMap::new());
                if !whole {
                    self.missing.insert(namespace);
                }
            }
            Event::InitDone => {
                self.missing.remove(&namespace);
                if whole {
                    let list = self.lists.remove_entry(&namespace);
                    self.merge(list.into_iter().collect());
                } else if self.missing.is_empty() {
                    let lists = std::mem::take(&mut self.lists);
                    self.merge(lists);
                }
            }
            Event::Apply(_) | Event::Delete(_) if whole => self.take(&event),
            Event::InitApply(object) | Event::Apply(object) => {
                let list = self.lists.entry(namespace).or_default();
                list.insert(object.to_object_ref(()), object);
            }
            Event::Delete(object) => {
                self.lists.entry(namespace).or_default().remove(&object.to_object_ref(()));
            }
        }
    }

    /// Takes over whole lists of some namespaces.
    fn merge(&mut self, lists: HashMap<String, HashMap<ObjectRef<K>, K>>) {
        let known = self.store.state();
        let others = known.iter().filter(|object| {
            !object.meta().namespace.as_ref().is_some_and(|namespace| lists.contains_key(namespace))
        });
        let others: Vec<K> = others.map(|object| K::clone(object)).collect();
        self.take(&Event::Init);
        for object in lists.into_values().flat_map(HashMap::into_values).chain(others) {
            self.take(&Event::InitApply(object));
        }
        self.take(&Event::InitDone);
    }

    fn follow(&mut self, namespace: Option<String>, step: Step<K>) {
        match (namespace, step) {
            (Some(namespace), Step::Event(event)) => self.take_of(namespace, event),
            (None, Step::Event(event)) => self.take(&event),
            (namespace, Step::Leaves(key)) => {
                let list = namespace.and_then(|namespace| self.lists.get_mut(&namespace));
                if let Some(list) = list {
                    list.remove(&key);
                }
                self.take_out(&key);
            }
        }
    }

    /// Watches for ever. A watch that fails is begun anew, later each time.
    pub async fn run(mut self) {
        let mut failing = false;
        while let Some((namespace, step)) = self.steps.next().await {
            match step {
                Ok(step) => {
                    failing = false;
                    self.follow(namespace, step);
                }
                Err(error) if failing || has_expired(&error) => {
                    tracing::debug!(kind = %K::kind(&()), error = %chain(&error), "watch failed");
                }
                Err(error) => {
                    failing = true;
                    tracing::warn!(kind = %K::kind(&()), error = %chain(&error), "watch failed; it is begun anew");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::BenchmarkRun;
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::Service;

    fn service(namespace: &str, name: &str) -> Service {
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        Service { metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() }, ..Service::default() }
    }

    fn feed() -> Feed<Service> {
        let namespaces = ["pits", "races"].map(str::to_owned).into();
        Feed::of(namespaces, futures::stream::empty::<Told<Service>>(), |service, _| Ok(service))
    }

    fn list(feed: &mut Feed<Service>, namespace: &str, names: &[&str]) {
        feed.take_of(namespace.into(), Event::Init);
        for name in names {
            feed.take_of(namespace.into(), Event::InitApply(service(namespace, name)));
        }
        feed.take_of(namespace.into(), Event::InitDone);
    }

    fn names(feed: &Feed<Service>) -> Vec<String> {
        let mut names: Vec<_> = feed.store().state().iter().map(|service| service.name_any()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_list_that_is_begun_and_refused_is_no_success() {
        let refused = || Err(watcher::Error::NoResourceVersion);
        let told = vec![
            Ok(Event::Init),
            refused(),
            Ok(Event::Init),
            refused(),
            Ok(Event::Init),
            Ok(Event::InitApply(service("pits", "a"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(service("pits", "b"))),
        ];
        let heard = begun_lists(stream::iter(told)).map(|event| match event {
            Ok(Event::Init) => "init",
            Ok(Event::InitApply(_)) => "listed",
            Ok(Event::InitDone) => "done",
            Ok(_) => "changed",
            Err(_) => "refused",
        });
        let heard: Vec<_> = heard.collect().await;
        assert_eq!(heard, ["refused", "refused", "init", "listed", "done", "changed"]);
    }

    #[test]
    fn nothing_is_known_before_every_namespace_was_listed() {
        let mut feed = feed();
        let store = feed.store();
        list(&mut feed, "pits", &["a", "b"]);
        feed.take_of("pits".into(), Event::Delete(service("pits", "a")));
        feed.take_of("pits".into(), Event::Apply(service("pits", "c")));
        assert!(store.wait_until_ready().now_or_never().is_none(), "half a cluster looks like a whole one");
        list(&mut feed, "races", &["d"]);
        assert!(store.wait_until_ready().now_or_never().is_some());
        assert_eq!(names(&feed), ["b", "c", "d"], "what happened meanwhile must count");
    }

    #[test]
    fn a_namespace_that_is_listed_anew_leaves_the_others_and_tells_what_has_gone() {
        let mut feed = feed();
        list(&mut feed, "pits", &["a", "b"]);
        list(&mut feed, "races", &["d"]);
        let mut told = Box::pin(feed.subscribe());
        list(&mut feed, "pits", &["b"]);
        assert_eq!(names(&feed), ["b", "d"]);
        let first = told.next().now_or_never().flatten().map(|service| service.name_any());
        assert_eq!(first.as_deref(), Some("a"), "its deletion must be told");
    }

    #[tokio::test]
    async fn what_cannot_be_decoded_any_more_or_ends_so_leaves_the_store_and_is_told() {
        let object = |name: &str, spec: serde_json::Value| -> DeserializeGuard<BenchmarkRun> {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
                "metadata": {"namespace": "pits", "name": name, "uid": name}, "spec": spec
            }))
            .unwrap()
        };
        let sound = serde_json::json!({"target": {"datastoreRef": {"name": "redis"}}, "phases": []});
        let told = vec![
            Event::Init,
            Event::InitApply(object("edited", sound.clone())),
            Event::InitApply(object("deleted", sound.clone())),
            Event::InitApply(object("stays", sound)),
            Event::InitDone,
            Event::Apply(object("edited", serde_json::json!(1))),
            Event::Delete(object("deleted", serde_json::json!(1))),
        ];
        let change = |guard: DeserializeGuard<BenchmarkRun>, _| {
            guard.0.map_err(|invalid| key_of::<BenchmarkRun>(&invalid.metadata))
        };
        let told = futures::stream::iter(told.into_iter().map(|event| (None, Ok(event))));
        let mut feed = Feed::of(HashSet::new(), told, change);
        let (store, mut subscribed) = (feed.store(), Box::pin(feed.subscribe()));
        feed.run().await;
        let left: Vec<_> = store.state().iter().map(|run| run.name_any()).collect();
        assert_eq!(left, ["stays"], "a run that seems to be there for ever keeps its turn for ever");
        let mut names = Vec::new();
        while let Some(run) = subscribed.next().await {
            names.push(run.name_any());
        }
        assert_eq!(names[3..], ["edited", "deleted"], "the keeper of turns must hear of it");
    }

    #[test]
    fn a_list_under_way_does_not_count_when_another_is_complete() {
        let mut feed = feed();
        list(&mut feed, "pits", &["a"]);
        list(&mut feed, "races", &["d"]);
        feed.take_of("pits".into(), Event::Init);
        list(&mut feed, "races", &["e"]);
        assert_eq!(names(&feed), ["a", "e"]);
        feed.take_of("pits".into(), Event::InitDone);
        assert_eq!(names(&feed), ["e"]);
    }
}

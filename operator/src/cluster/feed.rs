//! A watch of one kind, of all namespaces or of some, shared by all who need it: a store to
//! look things up in, and for each subscriber a stream of what was touched. Needs the client.

use futures::{
    Stream, StreamExt,
    stream::{BoxStream, select_all},
};
use kube::{
    Api, Resource, ResourceExt,
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

/// A watch that has not been started, or is under way in [`Feed::run`].
pub struct Feed<K: Watched>
where
    ObjectRef<K>: Eq + Hash,
{
    events: BoxStream<'static, Told<K>>,
    store: Store<K>,
    writer: Writer<K>,
    subscribers: Vec<mpsc::UnboundedSender<Arc<K>>>,
    /// Namespaces whose first list is not complete: until then nothing is in the store.
    missing: HashSet<String>,
    /// Lists of namespaces that are not in the store yet.
    lists: HashMap<String, HashMap<ObjectRef<K>, K>>,
}

/// One watch of all `apis`.
fn watch<A>(apis: Apis<A>, config: &watcher::Config) -> impl Stream<Item = Told<A>> + Send + use<A>
where
    A: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    select_all(apis.into_iter().map(|(namespace, api)| {
        let events = watcher::watcher(api, config.clone()).default_backoff();
        events.map(move |event| (namespace.clone(), event)).boxed()
    }))
}

/// `event` with its object changed by `change`; one for which that gives nothing is left out.
fn map_object<A, B>(event: Event<A>, change: impl FnOnce(A) -> Option<B>) -> Option<Event<B>> {
    Some(match event {
        Event::Apply(object) => Event::Apply(change(object)?),
        Event::Delete(object) => Event::Delete(change(object)?),
        Event::InitApply(object) => Event::InitApply(change(object)?),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    })
}

fn namespaces<A>(apis: &Apis<A>) -> HashSet<String> {
    apis.iter().filter_map(|(namespace, _)| namespace.clone()).collect()
}

impl<K: Watched> Feed<K>
where
    ObjectRef<K>: Eq + Hash,
{
    /// Of what `told` tells of these `namespaces`, each object changed by `change`; one for
    /// which that gives nothing is left out.
    fn of<A: Send + 'static>(
        namespaces: HashSet<String>,
        told: impl Stream<Item = Told<A>> + Send + 'static,
        mut change: impl FnMut(A) -> Option<K> + Send + 'static,
    ) -> Self {
        let events = told.filter_map(move |(namespace, event)| {
            let event = event.map(|event| map_object(event, &mut change)).transpose();
            std::future::ready(event.map(|event| (namespace, event)))
        });
        let writer = Writer::<K>::new(());
        Self {
            events: events.boxed(),
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
        let kept = move |mut object: K| {
            // managedFields are three quarters of an object in memory and nobody reads them.
            object.managed_fields_mut().clear();
            keep(&mut object).then_some(object)
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
        let decode = move |guard: DeserializeGuard<K>| match guard.0 {
            Ok(mut object) => {
                undecodable.decoded(&object);
                object.managed_fields_mut().clear();
                Some(object)
            }
            Err(invalid) => {
                undecodable.tell(&invalid);
                None
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

    /// Watches for ever. A watch that fails is begun anew, later each time.
    pub async fn run(mut self) {
        let mut failing = false;
        while let Some((namespace, event)) = self.events.next().await {
            match event {
                Ok(event) => {
                    failing = false;
                    match namespace {
                        Some(namespace) => self.take_of(namespace, event),
                        None => self.take(&event),
                    }
                }
                Err(error) if failing => {
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
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::Service;
    use kube::api::ObjectMeta;

    fn service(namespace: &str, name: &str) -> Service {
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        Service { metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() }, ..Service::default() }
    }

    fn feed() -> Feed<Service> {
        let namespaces = ["pits", "races"].map(str::to_owned).into();
        Feed::of(namespaces, futures::stream::empty::<Told<Service>>(), Some)
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

//! A shared watch of one kind: a store for look-ups, and for each subscriber a stream of the objects
//! that changed. Needs the client.

use super::{
    scope::Scope,
    undecodable::{Conditioned, Undecodable},
};
use crate::metrics::counters::Metrics;
use dragstrip_results::error_chain::chain;
use futures::{
    Stream, StreamExt,
    future::ready,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{
        WatchStreamExt,
        reflector::{Lookup, ObjectRef, Store, store::Writer},
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event},
    },
};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug, hash::Hash, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Objects of ours in one page of the first list. kube buffers each as a tree of values, many times its
/// size, before it decodes it, and the process never returns the memory of a complete page.
const PAGE: u32 = 100;

pub trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}
impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// An object of an event; `Err` if the store must not contain it, whether it did before or not.
type Changed<K> = Result<K, ObjectRef<K>>;

/// A watch, which runs in [`Feed::run`].
pub struct Feed<K: Watched>
where
    ObjectRef<K>: Eq + Hash,
{
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    store: Store<K>,
    writer: Writer<K>,
    subscribers: Vec<mpsc::UnboundedSender<Arc<K>>>,
}

/// `events` with the start of each list delayed until the next event: one that is then refused failed.
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

/// Longest wait before a watch that failed starts again. By default kube waits for up to a minute: after an API
/// server that was away, client pods would not be seen to start, and Leases would stay.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

#[derive(Default)]
struct ShortBackoff(DefaultBackoff);

impl Iterator for ShortBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| wait.min(LONGEST_BACKOFF))
    }
}

impl Backoff for ShortBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// The events of a watch of `api`, forever. A watch that fails restarts, after a longer wait each time
/// until it succeeds: kube takes the start of a list for success, and would retry every second.
pub fn events<A>(api: Api<A>, config: watcher::Config) -> impl Stream<Item = watcher::Result<Event<A>>> + Send
where
    A: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    begun_lists(watcher::watcher(api, config)).backoff(ShortBackoff::default())
}

/// `event` with its object changed by `change`, which learns whether the object was deleted. If the
/// `store` must not contain the object, it is the object's deletion: if the event were ignored, the
/// object would stay in the store forever in its last state.
fn changed<A, K: Watched>(
    event: Event<A>,
    store: &Store<K>,
    change: impl FnOnce(A, bool) -> Changed<K>,
) -> Option<Event<K>>
where
    ObjectRef<K>: Eq + Hash,
{
    let event = match event {
        Event::Apply(object) => change(object, false).map(Event::Apply),
        Event::Delete(object) => change(object, true).map(Event::Delete),
        Event::InitApply(object) => change(object, false).map(Event::InitApply),
        Event::Init => Ok(Event::Init),
        Event::InitDone => Ok(Event::InitDone),
    };
    event.or_else(|key| store.get(&key).map(|object| Event::Delete((*object).clone())).ok_or(key)).ok()
}

/// Whether the watch resumed later than the API server remembers: the usual end of one with few events.
fn has_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

impl<K: Watched> Feed<K>
where
    ObjectRef<K>: Eq + Hash,
{
    /// A feed of `events`, each object changed by `change`, which learns whether it was deleted.
    fn of<A: Send + 'static>(
        events: impl Stream<Item = watcher::Result<Event<A>>> + Send + 'static,
        mut change: impl FnMut(A, bool) -> Changed<K> + Send + 'static,
    ) -> Self {
        let writer = Writer::<K>::new(());
        let (store, current) = (writer.as_reader(), writer.as_reader());
        let events = events.filter_map(move |event| {
            ready(event.map(|event| changed(event, &current, &mut change)).transpose())
        });
        Self { events: events.boxed(), store, writer, subscribers: Vec::new() }
    }

    /// Watches objects of Kubernetes. `prune` removes what nobody reads, since they stay in memory, and
    /// returns whether to store the object at all.
    pub fn new(
        api: Api<K>,
        config: &watcher::Config,
        mut prune: impl FnMut(&mut K) -> bool + Send + 'static,
    ) -> Self {
        let pruned = move |mut object: K, _| {
            // managedFields take three quarters of an object's memory, and nobody reads them.
            object.managed_fields_mut().clear();
            if prune(&mut object) { Ok(object) } else { Err(object.to_object_ref(())) }
        };
        Self::of(events(api, config.clone()), pruned)
    }

    /// The same once `listed` ends, so that `prune` can ask what other watches have listed.
    #[must_use]
    pub fn after(mut self, listed: impl Future<Output = ()> + Send + 'static) -> Self {
        self.events = stream::once(listed).filter_map(|()| ready(None)).chain(self.events).boxed();
        self
    }

    /// Watches objects of ours; reports and skips what it cannot decode, as of another version.
    pub fn guarded(client: &Client, scope: &Scope, config: watcher::Config, metrics: &Metrics) -> Self
    where
        K: Conditioned + Resource<Scope = NamespaceResourceScope>,
    {
        let mut undecodable = Undecodable::<K>::new(client.clone(), metrics.clone());
        let api: Api<DeserializeGuard<K>> = scope.api(client);
        let decode = move |guard: DeserializeGuard<K>, deleted| {
            let key = guard.to_object_ref(()).into_kind_unchecked(());
            match guard.0 {
                Ok(mut object) => {
                    undecodable.decoded(&object);
                    object.managed_fields_mut().clear();
                    return Ok(object);
                }
                Err(invalid) if deleted => undecodable.gone(&invalid.metadata),
                Err(invalid) => undecodable.report(&invalid),
            }
            Err(key)
        };
        Self::of(events(api, config.page_size(PAGE)), decode)
    }

    /// The objects that the watch has reported.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Every object that exists, and then every object that is created, changed or deleted.
    pub fn subscribe(&mut self) -> impl Stream<Item = Arc<K>> + use<K> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.subscribers.push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context))
    }

    fn send(&self, object: &Arc<K>) {
        for subscriber in &self.subscribers {
            // A controller that has ended receives nothing.
            let _ = subscriber.send(Arc::clone(object));
        }
    }

    /// Replaces the store by a list, and sends also the objects that were deleted unseen.
    fn listed(&mut self, event: &Event<K>) {
        let before = self.store.state();
        self.writer.apply_watcher_event(event);
        let now = self.store.state();
        let present: HashSet<_> = now.iter().map(|object| object.to_object_ref(())).collect();
        let gone = before.iter().filter(|object| !present.contains(&object.to_object_ref(())));
        gone.chain(&now).for_each(|object| self.send(object));
    }

    fn apply(&mut self, event: &Event<K>) {
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

    /// Watches forever. A watch that fails restarts, after a longer wait each time.
    pub async fn run(mut self) {
        let mut failing = false;
        while let Some(event) = self.events.next().await {
            match event {
                Ok(event) => {
                    failing = false;
                    self.apply(&event);
                }
                Err(error) if failing || has_expired(&error) => {
                    tracing::debug!(kind = %K::kind(&()), error = %chain(&error), "watch failed");
                }
                Err(error) => {
                    failing = true;
                    tracing::warn!(kind = %K::kind(&()), error = %chain(&error), "watch failed; restarting it");
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
    use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};

    fn service(namespace: &str, name: &str) -> Service {
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        Service { metadata: ObjectMeta { namespace, name, ..ObjectMeta::default() }, ..Service::default() }
    }

    fn feed() -> Feed<Service> {
        Feed::of(stream::empty::<watcher::Result<Event<Service>>>(), |service, _| Ok(service))
    }

    fn list(feed: &mut Feed<Service>, names: &[&str]) {
        feed.apply(&Event::Init);
        for name in names {
            feed.apply(&Event::InitApply(service("pits", name)));
        }
        feed.apply(&Event::InitDone);
    }

    fn names(feed: &Feed<Service>) -> Vec<String> {
        let mut names: Vec<_> = feed.store().state().iter().map(|service| service.name_any()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_watch_that_fails_tries_again_within_5_s_however_often() {
        let mut backoff = ShortBackoff::default();
        let waits: Vec<Duration> = backoff.by_ref().take(30).collect();
        assert_eq!(waits.len(), 30, "it gives up");
        assert!(waits[0] >= Duration::from_millis(500), "it does not wait at first: {waits:?}");
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(5)), "{waits:?}");
    }

    #[tokio::test]
    async fn a_list_that_begins_and_is_refused_is_not_a_success() {
        let refused = || Err(watcher::Error::NoResourceVersion);
        let events = vec![
            Ok(Event::Init),
            refused(),
            Ok(Event::Init),
            refused(),
            Ok(Event::Init),
            Ok(Event::InitApply(service("pits", "a"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(service("pits", "b"))),
        ];
        let names = begun_lists(stream::iter(events)).map(|event| match event {
            Ok(Event::Init) => "init",
            Ok(Event::InitApply(_)) => "listed",
            Ok(Event::InitDone) => "done",
            Ok(_) => "changed",
            Err(_) => "refused",
        });
        let names: Vec<_> = names.collect().await;
        assert_eq!(names, ["refused", "refused", "init", "listed", "done", "changed"]);
    }

    #[test]
    fn a_new_list_reports_the_objects_that_were_deleted_unseen() {
        let mut feed = feed();
        list(&mut feed, &["a", "b"]);
        let mut events = Box::pin(feed.subscribe());
        list(&mut feed, &["b"]);
        assert_eq!(names(&feed), ["b"]);
        let first = events.next().now_or_never().flatten().map(|service| service.name_any());
        assert_eq!(first.as_deref(), Some("a"), "subscribers must learn of the deletion");
    }

    #[tokio::test]
    async fn an_object_that_can_no_longer_be_decoded_leaves_the_store_and_subscribers_learn_of_it() {
        let object = |name: &str, spec: serde_json::Value| -> DeserializeGuard<BenchmarkRun> {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
                "metadata": {"namespace": "pits", "name": name, "uid": name}, "spec": spec
            }))
            .unwrap()
        };
        let sound = serde_json::json!({"target": {"datastoreRef": {"name": "redis"}}, "phases": []});
        let events = vec![
            Event::Init,
            Event::InitApply(object("edited", sound.clone())),
            Event::InitApply(object("deleted", sound.clone())),
            Event::InitApply(object("remains", sound)),
            Event::InitDone,
            Event::Apply(object("edited", serde_json::json!(1))),
            Event::Delete(object("deleted", serde_json::json!(1))),
        ];
        let change = |guard: DeserializeGuard<BenchmarkRun>, _| {
            let key = guard.to_object_ref(()).into_kind_unchecked(());
            guard.0.map_err(|_| key)
        };
        let mut feed = Feed::of(stream::iter(events.into_iter().map(Ok)), change);
        let (store, mut subscribed) = (feed.store(), Box::pin(feed.subscribe()));
        feed.run().await;
        let left: Vec<_> = store.state().iter().map(|run| run.name_any()).collect();
        assert_eq!(left, ["remains"], "a run that stays in the store forever holds its Leases forever");
        let mut names = Vec::new();
        while let Some(run) = subscribed.next().await {
            names.push(run.name_any());
        }
        assert_eq!(names[3..], ["edited", "deleted"], "the cleanup of Leases must learn of it");
    }
}

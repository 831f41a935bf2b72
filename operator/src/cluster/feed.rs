//! A watch of one kind, shared by all who need it: a store to look things up in,
//! and for each subscriber a stream of what was touched. Needs the client.

use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        reflector::{Lookup, ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug, hash::Hash, sync::Arc};
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

/// A watch that has not been started, or is under way in [`Feed::run`].
pub struct Feed<K: Watched> {
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    store: Store<K>,
    writer: Writer<K>,
    subscribers: Vec<mpsc::UnboundedSender<Arc<K>>>,
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

impl<K: Watched> Feed<K>
where
    ObjectRef<K>: Eq + Hash,
{
    fn of(events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static) -> Self {
        let writer = Writer::<K>::new(());
        Self { events: events.boxed(), store: writer.as_reader(), writer, subscribers: Vec::new() }
    }

    /// Watches objects of Kubernetes' own. `keep` leaves nothing in them that nobody
    /// reads, since they stay in memory, and says whether the object is kept at all.
    pub fn new(client: &Client, config: watcher::Config, keep: fn(&mut K) -> bool) -> Self {
        let events = watcher::watcher(Api::<K>::all(client.clone()), config).default_backoff();
        let kept = move |mut object: K| {
            // managedFields are three quarters of an object in memory and nobody reads them.
            object.managed_fields_mut().clear();
            keep(&mut object).then_some(object)
        };
        Self::of(events.try_filter_map(move |event| std::future::ready(Ok(map_object(event, kept)))))
    }

    /// Watches objects of ours, of which some may have been written by an older or
    /// a newer version: what cannot be decoded is told and left out.
    pub fn guarded(client: &Client, config: watcher::Config, mut undecodable: Undecodable<K>) -> Self
    where
        K: Conditioned,
    {
        let api = Api::<DeserializeGuard<K>>::all(client.clone());
        let events = watcher::watcher(api, config.page_size(PAGE)).default_backoff();
        let mut decode = move |guard: DeserializeGuard<K>| match guard.0 {
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
        Self::of(events.try_filter_map(move |event| std::future::ready(Ok(map_object(event, &mut decode)))))
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

    /// Watches for ever. A watch that fails is begun anew, later each time.
    pub async fn run(mut self) {
        let mut failing = false;
        while let Some(event) = self.events.next().await {
            match event {
                Ok(event) => {
                    failing = false;
                    self.take(&event);
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

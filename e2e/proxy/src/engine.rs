//! What the proxies of one test share: the record of all requests, and the fault to inject. Touches the
//! clock.

use crate::{
    fault::{Fault, Moment, WatchFault},
    request::Request,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// A request of the record.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// Which of the requests with the same words of the same operator it is, from 1.
    pub number: usize,
    /// The operator that sent it, from 0.
    pub operator: usize,
    /// When it was sent.
    pub at: Instant,
    /// Its status, once the API server has answered.
    pub status: Option<u16>,
}

/// Which request a fault hits: its words and its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub String, pub usize);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} #{}", self.0, self.1)
    }
}

/// The moment of a [`Fault::Halt`]: the request goes on when this is sent to; when it is dropped, the
/// connection is reset.
pub type Hit = oneshot::Sender<()>;

/// Watches of one resource, or all, with their fault.
type Watches = (Option<String>, WatchFault);

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    numbers: HashMap<(usize, String), usize>,
    /// The fault of the first operator's request at this place.
    armed: Option<(Place, Fault)>,
    injected: Option<Instant>,
    outage_until: Option<Instant>,
    watches: Option<Watches>,
    stalled: HashSet<String>,
    /// Resource versions of committed writes.
    versions: Vec<u64>,
    /// The resource version of all lists.
    old: Option<u64>,
}

/// Shared by all proxies of a test.
pub struct Engine {
    state: Mutex<State>,
    hits: mpsc::UnboundedSender<Hit>,
}

impl Engine {
    /// An engine without faults, and the receiver of its hits.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Hit>) {
        let (hits, receiver) = mpsc::unbounded_channel();
        (Self { state: Mutex::default(), hits }, receiver)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects `fault` once, into the first operator's request at `place`.
    pub fn arm(&self, place: Place, fault: Fault) {
        self.lock().armed = Some((place, fault));
    }

    /// Injects `fault` into the watches of `resource`, or all, from now on.
    pub fn disturb(&self, resource: Option<String>, fault: WatchFault) {
        let mut state = self.lock();
        state.watches = Some((resource, fault));
        state.injected = Some(Instant::now());
    }

    /// From now on lists are as of the write before the last, or `None` as they are.
    pub fn serve_old_lists(&self, old: bool) {
        let mut state = self.lock();
        let before = state.versions.len().saturating_sub(2);
        state.old = state.versions.get(before).copied().filter(|_| old);
    }

    /// The resource version of lists, if they are to be old.
    pub(crate) fn old(&self) -> Option<u64> {
        self.lock().old
    }

    /// When the fault was injected.
    pub fn injected(&self) -> Option<Instant> {
        self.lock().injected
    }

    /// All requests so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    /// How many requests `counts` accepts that were sent within the last `time`.
    pub fn recent(&self, time: Duration, counts: impl Fn(&Entry) -> bool) -> usize {
        let state = self.lock();
        state
            .entries
            .iter()
            .rev()
            .take_while(|entry| entry.at.elapsed() < time)
            .filter(|it| counts(it))
            .count()
    }

    /// Records a request; returns its index in the record and its fault.
    pub(crate) fn begin(&self, operator: usize, request: Request) -> (usize, Option<Fault>) {
        let mut state = self.lock();
        let (words, now) = (request.words(), Instant::now());
        let number = state.numbers.entry((operator, words.clone())).or_default();
        *number += 1;
        let place = Place(words, *number);
        state.entries.push(Entry { request, number: place.1, operator, at: now, status: None });
        let index = state.entries.len() - 1;
        if state.outage_until.is_some_and(|until| now < until) {
            return (index, Some(Fault::Answer(503)));
        }
        let hit = operator == 0 && state.armed.as_ref().is_some_and(|(armed, _)| *armed == place);
        let fault = if hit { state.armed.take().map(|(_, fault)| fault) } else { None };
        if fault.is_some() {
            state.injected = Some(now);
        }
        if let Some(Fault::Outage(time)) = fault {
            state.outage_until = Some(now + time);
            return (index, Some(Fault::Answer(503)));
        }
        (index, fault)
    }

    /// Records the API server's answer to the request with this index.
    pub(crate) fn answered(&self, index: usize, status: u16, body: &[u8]) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(index) else { return };
        entry.status = Some(status);
        if entry.request.mutates && status < 300 {
            let version: Option<u64> = serde_json::from_slice::<serde_json::Value>(body)
                .ok()
                .and_then(|body| body.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok());
            state.versions.extend(version);
        }
    }

    /// The fault of a new watch of `resource`.
    pub(crate) fn of_watch(&self, resource: &str) -> Option<WatchFault> {
        let mut state = self.lock();
        let (_, fault) =
            state.watches.clone().filter(|(of, _)| of.as_ref().is_none_or(|of| of == resource))?;
        let again = matches!(fault, WatchFault::Stall(_)) && !state.stalled.insert(resource.to_owned());
        (!again).then_some(fault)
    }

    /// Lets the test act now, if `fault` halts at this `moment`; `None` if the request must not go on.
    pub(crate) async fn halt(&self, fault: Option<Fault>, moment: Moment) -> Option<()> {
        if fault != Some(Fault::Halt(moment)) {
            return Some(());
        }
        let (sender, released) = oneshot::channel();
        self.hits.send(sender).ok()?;
        released.await.ok()
    }
}

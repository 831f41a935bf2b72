//! Turn taking: the Leases a run needs, their holders, its clients' nodes and its place in the queue. Pure.

pub mod client_nodes;

use crate::{
    digest::digest,
    lease::{Holder, LeaseKey, NO_RUN, given_back, holder_of},
    nodes,
    run::{
        decide::{ReadyTarget, Turn},
        validate::ValidatedRun,
    },
};
use client_nodes::{Servers, Uses, candidates, may_grow, none_fits, terms, wanted};
use dragstrip_crds::{
    BenchmarkRun,
    run::{QueueStatus, RunReference},
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeSelectorTerm, Pod},
};
use kube::ResourceExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The Leases that a run against `target` needs beside those of its clients' nodes: those of the target and
/// of its servers' nodes, where another server under load would disturb.
pub fn keys(target: &ReadyTarget, operator_namespace: &str) -> Vec<LeaseKey> {
    let own = match &target.datastore {
        Some(datastore) => LeaseKey::of_datastore(&datastore.namespace, &datastore.name),
        // An address is the same target from every namespace and in any spelling.
        None => LeaseKey {
            namespace: operator_namespace.to_owned(),
            name: format!(
                "dragstrip-external.{}",
                digest(&format!("{}:{}", target.host.to_lowercase(), target.connection.port))
            ),
        },
    };
    let nodes = target.nodes.iter().map(|node| LeaseKey::of_node(operator_namespace, node));
    std::iter::once(own).chain(nodes).collect()
}

/// The runs that wait for a Lease: the first, and how many.
type Waiting = (RunReference, usize);

/// The Leases for which runs wait that come before `run`: each of them drew a ticket when it published
/// that it is queued. Older runs come first, but after every run that has not failed to start come those
/// that have: otherwise they would hand the turn to each other. A run that is being deleted takes no turn.
fn tickets(runs: &[Arc<BenchmarkRun>], run: &ValidatedRun, set_back: bool) -> BTreeMap<String, Waiting> {
    let of = |other: &Arc<BenchmarkRun>| {
        let reference = RunReference { namespace: other.namespace()?, name: other.name_any() };
        let created = other.metadata.creation_timestamp.as_ref()?.0;
        let status = other.status.as_ref()?;
        let queue = status.queue.as_ref()?;
        let leases: BTreeSet<String> = queue.lacks.iter().chain([&queue.lease]).cloned().collect();
        Some(((status.setback.is_some(), created, reference), leases))
    };
    let others = runs.iter().filter(|other| {
        other.uid().as_deref() != Some(&run.holder.uid) && other.metadata.deletion_timestamp.is_none()
    });
    let own = (set_back, run.created, run.holder.reference());
    let mut drawn: Vec<_> = others.filter_map(of).filter(|(place, _)| *place < own).collect();
    drawn.sort();
    let mut tickets: BTreeMap<String, Waiting> = BTreeMap::new();
    for ((_, _, reference), leases) in drawn {
        for lease in leases {
            tickets.entry(lease).or_insert_with(|| (reference.clone(), 0)).1 += 1;
        }
    }
    tickets
}

/// The objects that determine the turn.
pub struct Seen<'a> {
    pub leases: &'a [Arc<Lease>],
    /// All runs that have not ended.
    pub runs: &'a [Arc<BenchmarkRun>],
    pub nodes: &'a [Arc<Node>],
    pub pods: &'a [Arc<Pod>],
    /// Where the Leases of nodes are.
    pub operator_namespace: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TurnCheck {
    pub turn: Turn,
    /// The Leases to acquire if the turn is free, in a fixed sequence.
    pub missing: Vec<LeaseKey>,
    /// The Leases of the turn if the run holds it.
    pub held: Vec<LeaseKey>,
    /// The nodes for the clients; empty if the scheduler is to find some, since there are too few yet.
    pub client_nodes: Vec<String>,
    /// Why there are too few nodes for the clients.
    pub no_node: Option<String>,
    /// What a node for the clients must have that does not exist yet.
    pub wanted: Vec<NodeSelectorTerm>,
    /// Why the places of the clients cannot be determined, or why a free turn is of no use to the run:
    /// there are too few nodes, and nothing adds any.
    pub unplaceable: Option<String>,
}

/// What else determines the turn of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// How often its clients could not start: each time other nodes come first.
    pub setbacks: usize,
    /// Whether the run is between two phases of a repetition, which nobody may disturb. It waits for no
    /// queue: if another operator released a part of its turn, the queued run waits for the other part.
    pub between_phases: bool,
    /// Whether the run has measured something: all of it is measured from the same nodes.
    pub measured: bool,
}

struct Holders<'a> {
    run: &'a ValidatedRun,
    by_key: BTreeMap<String, &'a Arc<Lease>>,
    tickets: BTreeMap<String, Waiting>,
    uses: Uses,
    servers: Servers<'a>,
    seen: &'a Seen<'a>,
}

impl Holders<'_> {
    fn holder(&self, key: &LeaseKey) -> Option<Holder> {
        let lease = self.by_key.get(&key.to_string())?;
        let stranger =
            || Holder { namespace: key.namespace.clone(), name: NO_RUN.into(), uid: String::new() };
        Some(holder_of(lease).unwrap_or_else(stranger))
    }

    /// Whether the run holds the Lease for good: a released Lease will be removed.
    fn own(&self, key: &LeaseKey) -> bool {
        self.holder(key).as_ref() == Some(&self.run.holder)
            && !self.by_key.get(&key.to_string()).is_some_and(|lease| given_back(lease))
    }

    /// The run that keeps this run off the Lease: its holder, the first in its queue, or the run
    /// whose clients are on the node or wait for it.
    fn blocked_by(&self, key: &LeaseKey) -> Option<RunReference> {
        if self.own(key) {
            return None;
        }
        let first = || self.tickets.get(&key.to_string()).map(|(first, _)| first.clone());
        let beside = || self.uses.clients.get(key.node()?).cloned();
        let awaited = || {
            // Rarely needed: a search for each of many nodes would be expensive.
            let name = key.node().filter(|_| !self.uses.waiting.is_empty())?;
            let node = self.seen.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name))?;
            self.uses.awaited_by(node).cloned()
        };
        self.holder(key).map(|holder| holder.reference()).or_else(first).or_else(beside).or_else(awaited)
    }

    /// The queue for `key`, which `holder` has, and for all of `needs` that this run does not hold.
    fn busy<'a>(
        &self,
        key: &LeaseKey,
        holder: RunReference,
        needs: impl Iterator<Item = &'a LeaseKey>,
    ) -> QueueStatus {
        let lease = key.to_string();
        let ahead = self.tickets.get(&lease).map_or(0, |(_, waiting)| *waiting);
        let position = i32::try_from(ahead).unwrap_or(i32::MAX).saturating_add(1);
        let lacks: BTreeSet<String> = needs.filter(|key| !self.own(key)).map(ToString::to_string).collect();
        QueueStatus { position, lease, holder, lacks: lacks.into_iter().collect() }
    }

    fn node(&self, name: &str) -> LeaseKey {
        LeaseKey::of_node(self.seen.operator_namespace, name)
    }
}

struct Choice {
    /// Free ones and those held already, as many as needed; the best first.
    nodes: Vec<String>,
    /// Those of them that are held already.
    own: Vec<String>,
    /// How many must be held before a client starts.
    least: usize,
    /// The run that keeps this run off a suitable node, if too few are free.
    blocked: Option<(RunReference, LeaseKey)>,
    /// As many nodes as needed, free and held ones first.
    needs: Vec<LeaseKey>,
    /// Why there are too few nodes, whoever holds them: the scheduler or an autoscaler finds the others.
    too_few: Option<String>,
}

impl Choice {
    /// `setbacks` is how often the clients could not start: each time other nodes come first.
    fn of(held: &Holders<'_>, setbacks: usize) -> Self {
        let mut fit = candidates(held.run, held.seen.nodes, &held.uses, &held.servers);
        let (needed, most) = wanted(held.run);
        let too_few =
            (fit.len() < needed).then(|| none_fits(held.run, held.seen.nodes, &held.uses, &held.servers));
        // If there are too few, hold all: pods that may go to any node would go to one that another
        // run uses between two of its phases.
        let least = needed.min(fit.len());
        let turned = setbacks % fit.len().max(1);
        fit.rotate_left(turned);
        fit.sort_by_key(|node| !held.own(&held.node(node)));
        let free = fit.iter().filter(|node| held.blocked_by(&held.node(node)).is_none());
        let nodes: Vec<String> = free.take(most).cloned().collect();
        let own = nodes.iter().filter(|node| held.own(&held.node(node))).cloned().collect();
        let busy = || fit.iter().filter(|node| !nodes.contains(node)).map(|node| held.node(node));
        let blocked =
            (nodes.len() < least).then(|| busy().find_map(|key| Some((held.blocked_by(&key)?, key))));
        let needs = nodes.iter().map(|node| held.node(node)).chain(busy()).take(least).collect();
        Self { blocked: blocked.flatten(), needs, nodes, own, least, too_few }
    }

    /// The `chosen` nodes that clients are bound to: none if they are too few, since others are to come.
    fn bound(&self, chosen: &[String]) -> Vec<String> {
        if self.too_few.is_some() { Vec::new() } else { chosen.to_vec() }
    }
}

/// Determines the turn of `run`.
pub fn check(run: &ValidatedRun, target: &ReadyTarget, seen: &Seen<'_>, progress: Progress) -> TurnCheck {
    let queued: &[_] = if progress.between_phases { &[] } else { seen.runs };
    let nodes = seen.nodes.iter().map(Arc::as_ref).filter(|node| target.nodes.contains(&node.name_any()));
    let nodes: Vec<&Node> = nodes.collect();
    let (beside, unplaceable) = match nodes::beside(run.spec.clients.colocate, &nodes) {
        Ok(beside) => (beside, None),
        Err(why) => (None, Some(why)),
    };
    let held = Holders {
        run,
        servers: Servers { nodes, beside },
        by_key: seen.leases.iter().map(|lease| (LeaseKey::of(lease).to_string(), lease)).collect(),
        tickets: tickets(queued, run, progress.setbacks > 0),
        uses: Uses::of(seen.pods, &run.holder.uid),
        seen,
    };
    let choice = Choice::of(&held, progress.setbacks);
    let fixed = keys(target, seen.operator_namespace);
    let of_run = |lease: &&Arc<Lease>| holder_of(lease).as_ref() == Some(&run.holder);
    let turn_check = |turn, missing, client_nodes| TurnCheck {
        turn,
        missing,
        held: Vec::new(),
        client_nodes,
        no_node: choice.too_few.clone(),
        wanted: terms(run, &held.servers),
        unplaceable: unplaceable.clone(),
    };
    if seen.leases.iter().filter(of_run).any(|lease| given_back(lease)) {
        return turn_check(Turn::Returning, Vec::new(), Vec::new());
    }
    // An operator that ended may have acquired only some of the nodes: fewer would measure something else.
    let spread = progress.measured || choice.own.len() == choice.nodes.len();
    if spread && choice.own.len() >= choice.least && fixed.iter().all(|key| held.own(key)) {
        let held = fixed.into_iter().chain(choice.own.iter().map(|node| held.node(node))).collect();
        return TurnCheck { held, ..turn_check(Turn::Held, Vec::new(), choice.bound(&choice.own)) };
    }
    let target_blocked = fixed.iter().find_map(|key| Some((held.blocked_by(key)?, key.clone())));
    // Until the target is free, the run leaves the clients' nodes to others; then it waits for them too.
    let nodes: &[LeaseKey] = if target_blocked.is_some() { &[] } else { &choice.needs };
    if let Some((by, key)) = target_blocked.or_else(|| choice.blocked.clone()) {
        let holds = seen.leases.iter().any(|lease| of_run(&lease));
        let queue = held.busy(&key, by, fixed.iter().chain(nodes));
        return turn_check(Turn::Busy { queue, holds }, Vec::new(), Vec::new());
    }
    let nodes = choice.nodes.iter().map(|node| held.node(node));
    let mut missing: Vec<LeaseKey> =
        fixed.iter().cloned().chain(nodes).filter(|key| !held.own(key)).collect();
    // The same sequence for all runs, so that two never wait for each other; a shared node once.
    missing.sort();
    missing.dedup();
    let free = turn_check(Turn::Free, missing, choice.bound(&choice.nodes));
    let begun = seen.leases.iter().any(|lease| of_run(&lease));
    let in_vain = choice.too_few.clone().filter(|_| !begun && !may_grow(seen.nodes));
    TurnCheck { unplaceable: free.unplaceable.or(in_vain), ..free }
}

#[cfg(test)]
mod tests;

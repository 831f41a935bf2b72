//! Whose turn it is: which Leases a run needs, who holds them, which nodes its
//! clients get, and its place in the queue. Pure.

use super::{
    client_nodes::{Servers, Uses, candidates, none_fits, terms, wanted},
    decide::{ReadyTarget, Turn},
    validate::ValidatedRun,
};
use crate::cluster::{
    lease::{Holder, LeaseKey, given_back, holder_of},
    nodes,
};
use dragstrip_crds::{
    BenchmarkRun,
    run::{QueueStatus, RunReference},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeSelectorTerm, Pod},
};
use kube::ResourceExt;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

/// The first 12 hexadecimal digits of the SHA-256 of `text`.
pub fn digest(text: &str) -> String {
    let mut short = String::with_capacity(12);
    for byte in Sha256::digest(text.as_bytes()).iter().take(6) {
        // Writing into a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}

/// The Leases that a run against `target` needs beside those of its clients' nodes:
/// the target's, and that of each node its servers run on, since two servers loaded
/// on one node disturb each other.
pub fn keys(target: &ReadyTarget, operator_namespace: &str) -> Vec<LeaseKey> {
    let own = match &target.datastore {
        Some(datastore) => LeaseKey::of_datastore(&datastore.namespace, &datastore.name),
        // An address is the same target from every namespace and in any case.
        None => LeaseKey {
            namespace: operator_namespace.to_owned(),
            name: format!(
                "dragstrip-external.{}",
                digest(&format!("{}:{}", target.host.to_lowercase(), target.port))
            ),
        },
    };
    let nodes = target.nodes.iter().map(|node| LeaseKey::of_node(operator_namespace, node));
    std::iter::once(own).chain(nodes).collect()
}

/// A run that published that it is queued: its ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ticket {
    created: Timestamp,
    run: RunReference,
    lease: String,
}

/// The tickets that were drawn before `run` was made, the oldest first.
fn tickets(runs: &[Arc<BenchmarkRun>], run: &ValidatedRun) -> Vec<Ticket> {
    let queued = runs.iter().filter(|other| other.uid().as_deref() != Some(&run.holder.uid));
    let mut tickets: Vec<Ticket> = queued
        .filter_map(|other| {
            Some(Ticket {
                created: other.metadata.creation_timestamp.as_ref()?.0,
                run: RunReference { namespace: other.namespace()?, name: other.name_any() },
                lease: other.status.as_ref()?.queue.as_ref()?.lease.clone(),
            })
        })
        .filter(|ticket| (ticket.created, &ticket.run) < (run.created, &run.holder.reference()))
        .collect();
    tickets.sort_by(|a, b| (a.created, &a.run).cmp(&(b.created, &b.run)));
    tickets
}

/// What of the cluster a look at the turn rests on.
pub struct Seen<'a> {
    /// All Leases of ours.
    pub leases: &'a [Arc<Lease>],
    /// All runs that have not ended.
    pub runs: &'a [Arc<BenchmarkRun>],
    /// All nodes.
    pub nodes: &'a [Arc<Node>],
    /// All server and client pods.
    pub pods: &'a [Arc<Pod>],
    /// Where the Leases of nodes are.
    pub operator_namespace: &'a str,
}

/// The turn as it was found, and what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    /// Whose turn it is.
    pub turn: Turn,
    /// The Leases to take when it is nobody's, in a fixed order.
    pub missing: Vec<LeaseKey>,
    /// The nodes for the clients; empty where the scheduler is to find one, since none is there yet.
    pub client_nodes: Vec<String>,
    /// Why there is no node for the clients.
    pub no_node: Option<String>,
    /// What a node for the clients must have that is still to be made.
    pub wanted: Vec<NodeSelectorTerm>,
    /// Why nobody can tell which nodes the clients may have.
    pub unplaceable: Option<String>,
}

struct Holders<'a> {
    run: &'a ValidatedRun,
    by_key: BTreeMap<String, &'a Arc<Lease>>,
    tickets: Vec<Ticket>,
    uses: Uses,
    servers: Servers<'a>,
    seen: &'a Seen<'a>,
}

impl Holders<'_> {
    fn holder(&self, key: &LeaseKey) -> Option<Holder> {
        let lease = self.by_key.get(&key.to_string())?;
        let stranger =
            || Holder { namespace: key.namespace.clone(), name: "(not a run)".into(), uid: String::new() };
        Some(holder_of(lease).unwrap_or_else(stranger))
    }

    /// Held for good: a Lease that was given back is on its way out.
    fn own(&self, key: &LeaseKey) -> bool {
        self.holder(key).as_ref() == Some(&self.run.holder)
            && !self.by_key.get(&key.to_string()).is_some_and(|lease| given_back(lease))
    }

    /// What keeps this run off the Lease: who holds it, who was there first, or whose
    /// clients are on the node.
    fn kept_by(&self, key: &LeaseKey) -> Option<RunReference> {
        if self.own(key) {
            return None;
        }
        let first = || self.tickets.iter().find(|ticket| ticket.lease == key.to_string());
        let beside = || self.uses.clients.get(key.node()?).cloned();
        self.holder(key)
            .map(|holder| holder.reference())
            .or_else(|| first().map(|ticket| ticket.run.clone()))
            .or_else(beside)
    }

    fn busy(&self, key: &LeaseKey, holder: RunReference) -> QueueStatus {
        let lease = key.to_string();
        let ahead = self.tickets.iter().filter(|ticket| ticket.lease == lease).count();
        QueueStatus { position: i32::try_from(ahead).unwrap_or(i32::MAX).saturating_add(1), lease, holder }
    }

    fn node(&self, name: &str) -> LeaseKey {
        LeaseKey::of_node(self.seen.operator_namespace, name)
    }
}

/// The nodes for the clients.
struct Choice {
    /// Free ones and those held already, as many as are used; the best first.
    nodes: Vec<String>,
    /// Of these the ones held already.
    own: Vec<String>,
    /// Who keeps this run off a node that would do, where there are too few.
    kept: Option<(RunReference, LeaseKey)>,
    /// Why no node will do, whoever has it.
    none: Option<String>,
}

impl Choice {
    /// `setbacks` is how often the clients could not start: each time other nodes come first.
    fn of(held: &Holders<'_>, setbacks: usize) -> Self {
        let mut fit = candidates(held.run, held.seen.nodes, &held.uses, &held.servers);
        let (least, most) = wanted(held.run);
        if fit.len() < least {
            // The scheduler, or who makes nodes, is to find one.
            let none = Some(none_fits(held.run, held.seen.nodes, &held.uses, &held.servers));
            return Self { nodes: Vec::new(), own: Vec::new(), kept: None, none };
        }
        let turned = setbacks % fit.len().max(1);
        fit.rotate_left(turned);
        fit.sort_by_key(|node| !held.own(&held.node(node)));
        let kept = fit.iter().map(|node| held.node(node)).find_map(|key| Some((held.kept_by(&key)?, key)));
        let free = fit.into_iter().filter(|node| held.kept_by(&held.node(node)).is_none());
        let nodes: Vec<String> = free.take(most).collect();
        let own = nodes.iter().filter(|node| held.own(&held.node(node))).cloned().collect();
        Self { kept: kept.filter(|_| nodes.len() < least), nodes, own, none: None }
    }
}

/// Finds out whose turn it is. `setbacks` is how often the clients could not start.
pub fn look(run: &ValidatedRun, target: &ReadyTarget, seen: &Seen<'_>, setbacks: usize) -> Looked {
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
        tickets: tickets(seen.runs, run),
        uses: Uses::of(seen.pods, &run.holder.uid),
        seen,
    };
    let choice = Choice::of(&held, setbacks);
    let fixed = keys(target, seen.operator_namespace);
    let of_run = |lease: &&Arc<Lease>| holder_of(lease).as_ref() == Some(&run.holder);
    let looked = |turn, missing, client_nodes| Looked {
        turn,
        missing,
        client_nodes,
        no_node: choice.none.clone(),
        wanted: terms(run, &held.servers),
        unplaceable: unplaceable.clone(),
    };
    if seen.leases.iter().filter(of_run).any(|lease| given_back(lease)) {
        return looked(Turn::Returning, Vec::new(), Vec::new());
    }
    let clients_held = choice.own.len() >= wanted(run).0 || choice.none.is_some();
    if clients_held && fixed.iter().all(|key| held.own(key)) {
        return looked(Turn::Held, Vec::new(), choice.own.clone());
    }
    let kept = fixed.iter().find_map(|key| Some((held.kept_by(key)?, key.clone())));
    if let Some((by, key)) = kept.or_else(|| choice.kept.clone()) {
        let holds = seen.leases.iter().any(|lease| of_run(&lease));
        return looked(Turn::Busy { queue: held.busy(&key, by), holds }, Vec::new(), Vec::new());
    }
    let nodes = choice.nodes.iter().map(|node| held.node(node));
    let mut missing: Vec<LeaseKey> =
        fixed.iter().cloned().chain(nodes).filter(|key| !held.own(key)).collect();
    // In one order for all, so that two runs never wait for each other; a shared node once.
    missing.sort();
    missing.dedup();
    looked(Turn::Free, missing, choice.nodes.clone())
}

#[cfg(test)]
mod tests;

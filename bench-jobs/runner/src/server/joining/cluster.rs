//! What a cluster of primaries and their replicas lacks: from how every server sees it to the
//! commands that repair it. Pure, and the same whether the cluster is new, was
//! left half made, or lost a server: only what the servers report now counts.

use super::step::{Step, Verdict};
use crate::server::{
    nodes::ClusterNode,
    slots::{self, Slots, even},
};
use std::{collections::BTreeSet, net::SocketAddr};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// All servers it knows, itself too.
    pub nodes: Vec<ClusterNode>,
    pub state_ok: bool,
    /// Whether it has a copy of everything that its primary has.
    pub synchronised: bool,
    /// The ids of the servers that it names to clients. A server names a replica only once gossip brought
    /// word of its first write or ping from its primary, up to 13 s after the copy.
    pub listed: BTreeSet<String>,
    pub keys: u64,
}

impl View {
    fn find(&self, id: &str) -> Option<&ClusterNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Whether a MEET of `address` is still under way.
    fn meeting(&self, address: SocketAddr) -> bool {
        self.nodes.iter().any(|node| node.handshake && node.address == Some(address))
    }
}

/// A server of the cluster, and what it is to do: serve slots, or replicate a shard.
struct Shard<'a> {
    index: usize,
    address: SocketAddr,
    view: &'a View,
    myself: &'a ClusterNode,
    due: Slots,
    /// The index of the shard that it is to replicate.
    replicates: Option<usize>,
}

impl Shard<'_> {
    /// A command about the cluster to this shard.
    fn step(&self, arguments: &[&str]) -> Step {
        let words = std::iter::once(&"CLUSTER").chain(arguments).map(|word| (*word).to_owned());
        Step { server: self.index, words: words.collect() }
    }
}

/// What to do about the servers: the first `count` are to share the slots evenly in this sequence,
/// the others to replicate those in turn.
pub fn decide(servers: &[(SocketAddr, View)], count: usize) -> Verdict {
    let mut shards = Vec::with_capacity(servers.len());
    let mut parts = even(count).into_iter();
    for (index, (address, view)) in servers.iter().enumerate() {
        let Some(myself) = view.nodes.iter().find(|node| node.myself) else {
            return Verdict::Stuck(format!("{address} does not list itself in CLUSTER NODES"));
        };
        let replicates = index.checked_sub(count).map(|replica| replica % count.max(1));
        if myself.replica && replicates.is_none() {
            let message =
                format!("{address} replicates another server instead of serving slots: delete its pod");
            return Verdict::Stuck(message);
        }
        let due = parts.next().unwrap_or_default();
        shards.push(Shard { index, address: *address, view, myself, due, replicates });
    }
    if let Some(verdict) = misplaced(&shards) {
        return verdict;
    }
    let mut steps = match strangers(&shards) {
        Ok(steps) => steps,
        Err(message) => return Verdict::Wait(message),
    };
    steps.extend(epochs(&shards));
    steps.extend(free_slots(&shards));
    steps.extend(meetings(&shards));
    steps.extend(replications(&shards));
    if !steps.is_empty() {
        return Verdict::Do(steps);
    }
    missing(&shards).map_or(Verdict::Complete, Verdict::Wait)
}

/// Slots served by another shard than they should be. While there is no key
/// anywhere, all shards are reset, which only empty servers accept; slots that hold data are never moved.
fn misplaced(shards: &[Shard<'_>]) -> Option<Verdict> {
    let shard = shards.iter().find(|shard| !shard.myself.slots.is_subset(&shard.due))?;
    let keys: u64 = shards.iter().map(|shard| shard.view.keys).sum();
    if keys == 0 {
        return Some(Verdict::Do(shards.iter().map(|shard| shard.step(&["RESET", "HARD"])).collect()));
    }
    let slots = slots::text(&(&shard.myself.slots - &shard.due));
    Some(Verdict::Stuck(format!(
        "{} serves slots {slots}, which are another shard's, and the cluster holds {keys} keys: slots that hold data are never moved; remove the keys, or delete the Datastore and create it again",
        shard.address
    )))
}

/// Servers that a shard knows and that are not shards: the former
/// selves of restarted ones, and those that are gone. One that still lives is
/// waited for.
fn strangers(shards: &[Shard<'_>]) -> Result<Vec<Step>, String> {
    let ids: BTreeSet<&str> = shards.iter().map(|shard| shard.myself.id.as_str()).collect();
    let mut steps = Vec::new();
    for shard in shards {
        for node in &shard.view.nodes {
            // A server that was just met has an id of no meaning, and vanishes by itself. A replica
            // forgets its primary only when it follows another.
            let followed = shard.myself.primary.as_ref() == Some(&node.id);
            if node.handshake || followed || ids.contains(node.id.as_str()) {
                continue;
            }
            let replaced = shards.iter().any(|shard| node.address == Some(shard.address));
            if !(node.failing || replaced || !node.connected) {
                let place = node.address.map_or_else(|| node.id.clone(), |address| address.to_string());
                return Err(format!("{place} is in the cluster but is not a shard of this Datastore"));
            }
            steps.push(shard.step(&["FORGET", &node.id]));
        }
    }
    Ok(steps)
}

/// A distinct epoch for every shard that knows no other server and has no epoch yet: the
/// server accepts it in no other state.
fn epochs(shards: &[Shard<'_>]) -> Vec<Step> {
    let highest = shards.iter().flat_map(|shard| &shard.view.nodes).map(|node| node.epoch).max();
    shards
        .iter()
        .filter(|shard| shard.view.nodes.len() == 1 && shard.myself.epoch == 0)
        .zip(highest.unwrap_or(0) + 1..)
        .map(|(shard, epoch)| shard.step(&["SET-CONFIG-EPOCH", &epoch.to_string()]))
        .collect()
}

/// The slots that a shard is due and lacks. No other shard serves them: [`misplaced`] came before.
fn free_slots(shards: &[Shard<'_>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for shard in shards.iter().filter(|shard| !shard.due.is_subset(&shard.myself.slots)) {
        let bounds = slots::bounds(&(&shard.due - &shard.myself.slots));
        let mut step = shard.step(&["ADDSLOTSRANGE"]);
        step.words.extend(bounds.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
        steps.push(step);
    }
    steps
}

/// The first shard meets those it does not know; gossip does the rest. A shard that has
/// another one at a wrong address, or without an address, meets it again.
fn meetings(shards: &[Shard<'_>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for shard in shards {
        for other in shards.iter().filter(|other| other.index != shard.index) {
            let needed = match shard.view.find(&other.myself.id) {
                None => shard.index == 0,
                Some(node) => node.address != Some(other.address),
            };
            if needed && !shard.view.meeting(other.address) {
                let (host, port) = (other.address.ip().to_string(), other.address.port().to_string());
                steps.push(shard.step(&["MEET", &host, &port]));
            }
        }
    }
    steps
}

fn replications(shards: &[Shard<'_>]) -> Vec<Step> {
    let step = |replica: &Shard<'_>| {
        let primary = &shards[replica.replicates?].myself.id;
        let known = replica.view.find(primary).is_some_and(|node| !node.handshake);
        (known && replica.myself.primary.as_ref() != Some(primary))
            .then(|| replica.step(&["REPLICATE", primary]))
    };
    shards.iter().filter_map(step).collect()
}

/// What time alone will bring; `None` when nothing is missing.
fn missing(shards: &[Shard<'_>]) -> Option<String> {
    for shard in shards {
        let (address, count) = (shard.address, shard.view.nodes.len());
        if count != shards.len() {
            return Some(format!("{address} knows {count} of {} servers", shards.len()));
        }
        let served = |other: &Shard<'_>| shard.view.find(&other.myself.id).map(|node| &node.slots);
        if let Some(other) = shards.iter().find(|other| served(other) != Some(&other.due)) {
            let due = slots::text(&other.due);
            return Some(format!("{address} does not know yet that {} serves {due}", other.address));
        }
        let followed = |other: &Shard<'_>| shard.view.find(&other.myself.id)?.primary.as_ref();
        let right = |other: &Shard<'_>| other.replicates.map(|index| &shards[index].myself.id);
        if let Some(other) = shards.iter().find(|other| followed(other) != right(other)) {
            return Some(format!("{address} does not know yet what {} replicates", other.address));
        }
        if shard.replicates.is_some() && !shard.view.synchronised {
            return Some(format!("{address} is not synchronised with its shard yet"));
        }
        if !shard.view.state_ok {
            return Some(format!("{address} does not report cluster_state:ok yet"));
        }
        if let Some(other) = shards.iter().find(|other| !shard.view.listed.contains(&other.myself.id)) {
            return Some(format!("{address} does not list {} in CLUSTER SLOTS yet", other.address));
        }
    }
    None
}

#[cfg(test)]
mod tests;

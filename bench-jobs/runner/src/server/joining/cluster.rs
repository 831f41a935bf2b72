//! What a cluster of primaries lacks: from how every server sees it to the
//! commands that mend it. Pure, and the same whether the cluster is new, was
//! left half made, or lost a server: only what is seen counts.

use super::{
    nodes::KnownNode,
    slots::{SlotRanges, even},
    step::{Step, Verdict},
};
use std::{collections::BTreeSet, net::SocketAddr};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// All servers it knows, itself too.
    pub nodes: Vec<KnownNode>,
    /// Whether it says `cluster_state:ok`.
    pub state_ok: bool,
    pub keys: u64,
}

impl View {
    fn myself(&self) -> Option<&KnownNode> {
        self.nodes.iter().find(|node| node.myself)
    }

    fn knows(&self, id: &str) -> Option<&KnownNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Whether a MEET of `address` is still under way.
    fn meeting(&self, address: SocketAddr) -> bool {
        self.nodes.iter().any(|node| node.handshake && node.address == Some(address))
    }
}

/// One shard: where it is, and how it sees the cluster or why it does not say.
#[derive(Debug, Clone)]
pub struct Shard {
    pub address: SocketAddr,
    pub view: Result<View, String>,
}

/// A command about the cluster to the shard with this index.
fn step(shard: usize, arguments: &[&str]) -> Step {
    Step::new(shard, "CLUSTER", arguments)
}

struct Present<'a> {
    index: usize,
    address: SocketAddr,
    view: &'a View,
    myself: &'a KnownNode,
    due: SlotRanges,
}

/// What to do about `shards`, which are to share the slots evenly in this sequence.
pub fn decide(shards: &[Shard]) -> Verdict {
    let present = match present(shards) {
        Ok(present) => present,
        Err(message) => return Verdict::Stuck(message),
    };
    if let Some(replica) = present.iter().find(|shard| shard.myself.replica) {
        return Verdict::Stuck(format!(
            "{} replicates another server instead of serving slots: delete its pod",
            replica.address
        ));
    }
    if let Some(verdict) = misplaced(&present) {
        return verdict;
    }
    let mut steps = match strangers(&present) {
        Ok(steps) => steps,
        Err(message) => return Verdict::Wait(message),
    };
    steps.extend(epochs(&present));
    steps.extend(free_slots(&present));
    steps.extend(meetings(&present));
    if !steps.is_empty() {
        return Verdict::Do(steps);
    }
    missing(&present).map_or(Verdict::Complete, Verdict::Wait)
}

fn present(shards: &[Shard]) -> Result<Vec<Present<'_>>, String> {
    let parts = even(shards.len());
    let mut found = Vec::with_capacity(shards.len());
    for (index, (shard, due)) in shards.iter().zip(parts).enumerate() {
        let view =
            shard.view.as_ref().map_err(|error| format!("{} does not answer: {error}", shard.address))?;
        let Some(myself) = view.myself() else {
            return Err(format!("{} does not know itself in CLUSTER NODES", shard.address));
        };
        found.push(Present { index, address: shard.address, view, myself, due });
    }
    Ok(found)
}

/// Slots served by another shard than they should be. While there is no key
/// anywhere, all shards are reset, which only empty servers accept; slots that hold data are never moved.
fn misplaced(present: &[Present<'_>]) -> Option<Verdict> {
    let (shard, slots) = present
        .iter()
        .map(|shard| (shard, shard.myself.slots.without(&shard.due)))
        .find(|(_, slots)| !slots.is_empty())?;
    let keys: u64 = present.iter().map(|shard| shard.view.keys).sum();
    if keys == 0 {
        return Some(Verdict::Do(
            present.iter().map(|shard| step(shard.index, &["RESET", "HARD"])).collect(),
        ));
    }
    Some(Verdict::Stuck(format!(
        "{} serves slots {slots}, which are another shard's, and the cluster holds {keys} keys: slots that hold data are never moved; remove the keys, or delete the Datastore and create it again",
        shard.address
    )))
}

/// Servers that a shard knows and that are not shards: the former
/// selves of restarted ones, and those that are gone. One that still lives is
/// waited for.
fn strangers(present: &[Present<'_>]) -> Result<Vec<Step>, String> {
    let ids: BTreeSet<&str> = present.iter().map(|shard| shard.myself.id.as_str()).collect();
    let addresses: BTreeSet<SocketAddr> = present.iter().map(|shard| shard.address).collect();
    let mut steps = Vec::new();
    for shard in present {
        for node in &shard.view.nodes {
            // A server that was just met has an id of no meaning, and vanishes by itself.
            if node.handshake || ids.contains(node.id.as_str()) {
                continue;
            }
            let replaced = node.address.is_some_and(|address| addresses.contains(&address));
            if !(node.failing || replaced || !node.connected) {
                let place = node.address.map_or_else(|| node.id.clone(), |address| address.to_string());
                return Err(format!("{place} is in the cluster but is not a shard of this Datastore"));
            }
            steps.push(step(shard.index, &["FORGET", &node.id]));
        }
    }
    Ok(steps)
}

/// An epoch of its own for every shard that knows nobody and has none yet: the
/// server takes it in no other state.
fn epochs(present: &[Present<'_>]) -> Vec<Step> {
    let highest = present.iter().flat_map(|shard| &shard.view.nodes).map(|node| node.epoch).max();
    present
        .iter()
        .filter(|shard| shard.view.nodes.len() == 1 && shard.myself.epoch == 0)
        .zip(highest.unwrap_or(0) + 1..)
        .map(|(shard, epoch)| step(shard.index, &["SET-CONFIG-EPOCH", &epoch.to_string()]))
        .collect()
}

/// Nobody else serves what a shard is due and lacks: [`misplaced`] came before.
fn free_slots(present: &[Present<'_>]) -> Vec<Step> {
    present
        .iter()
        .map(|shard| (shard.index, shard.due.without(&shard.myself.slots)))
        .filter(|(_, slots)| !slots.is_empty())
        .map(|(shard, slots)| {
            let bounds =
                slots.ranges().iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]);
            let words: Vec<String> = std::iter::once("ADDSLOTSRANGE".to_owned()).chain(bounds).collect();
            Step { server: shard, name: "CLUSTER", arguments: words }
        })
        .collect()
}

/// The first shard meets those it does not know; the rest is gossip's. Who has
/// another shard at a wrong address, or at none, meets it anew.
fn meetings(present: &[Present<'_>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for shard in present {
        for other in present.iter().filter(|other| other.index != shard.index) {
            let needed = match shard.view.knows(&other.myself.id) {
                None => shard.index == 0,
                Some(node) => node.address != Some(other.address),
            };
            if needed && !shard.view.meeting(other.address) {
                let (host, port) = (other.address.ip().to_string(), other.address.port().to_string());
                steps.push(step(shard.index, &["MEET", &host, &port]));
            }
        }
    }
    steps
}

/// What time alone will bring; `None` when nothing is missing.
fn missing(present: &[Present<'_>]) -> Option<String> {
    for shard in present {
        let (address, known) = (shard.address, shard.view.nodes.len());
        if known != present.len() {
            return Some(format!("{address} knows {known} of {} servers", present.len()));
        }
        for other in present {
            let slots = shard.view.knows(&other.myself.id).map(|node| &node.slots);
            if slots != Some(&other.due) {
                let other_address = other.address;
                return Some(format!(
                    "{address} does not know yet that {other_address} serves {}",
                    other.due
                ));
            }
        }
        if !shard.view.state_ok {
            return Some(format!("{address} does not say cluster_state:ok yet"));
        }
    }
    None
}

#[cfg(test)]
mod tests;

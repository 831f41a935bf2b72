//! Checks of the machines: who used their CPUs and memory, and where the pods were. Pure.

use super::{Evidence, Found, percent, placed, unless};
use crate::{
    result::{NodeRecord, PodResult},
    usage::{ContainerUsage, HostUsage, ThreadUsage},
};
use dragstrip_crds::run::CheckName;
use std::collections::{BTreeMap, BTreeSet};

const NO_THREADS: &str = "the CPU time of the tool's threads is not known";
const NO_HOST: &str = "the machines' CPU time is not known";
const NO_SERVER: &str = "what the server used is not known";

/// Share of the time in which a thread had something to do, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Busy {
    /// The thread, or what it is a thread of.
    pub name: String,
    /// The share.
    pub share: f64,
}

/// The threads in `usage` of `owner`, over `seconds`.
fn threads_of(usage: &ContainerUsage, seconds: f64, owner: &str) -> Vec<Busy> {
    let busy = |thread: &ThreadUsage| Busy {
        name: format!("{} of {owner}", thread.name),
        // One that is ready and has no CPU has work to do as well.
        share: ((thread.cpu_seconds + thread.waiting_seconds) / seconds).min(1.0),
    };
    if seconds > 0.0 { usage.threads.iter().map(busy).collect() } else { Vec::new() }
}

/// The load threads of `pod`, as its runner sampled them or as the tool knows them itself.
fn load_threads(pod: &PodResult) -> Vec<Busy> {
    // memtier ends up to a second after its load.
    let sampled = threads_of(&pod.client, pod.client.seconds.min(pod.window.seconds), &pod.pod);
    if !sampled.is_empty() || pod.window.seconds <= 0.0 {
        return sampled;
    }
    let known = pod.workers.iter().filter(|worker| worker.cpu_seconds > 0.0);
    known
        .map(|worker| Busy {
            name: format!("{} {} of {}", worker.role, worker.index, pod.pod),
            share: (worker.cpu_seconds / pod.window.seconds).min(1.0),
        })
        .collect()
}

/// The busiest first.
fn sorted(mut threads: Vec<Busy>) -> Vec<Busy> {
    threads.sort_by(|one, other| other.share.total_cmp(&one.share));
    threads
}

/// How busy a machine's CPUs were, and with whom.
struct Machine<'a> {
    host: &'a HostUsage,
    seconds: f64,
    /// CPUs that our clients and servers on it used.
    own_cpus: f64,
}

impl Evidence<'_> {
    /// What each pod used, with its name.
    pub(super) fn usages(&self) -> impl Iterator<Item = (&str, &ContainerUsage)> {
        let clients = self.result.pods.iter().map(|pod| (pod.pod.as_str(), &pod.client));
        clients.chain(self.result.servers.iter().map(|server| (server.server.as_str(), &server.usage)))
    }

    /// The load threads of all clients, the busiest first.
    pub(super) fn client_threads(&self) -> Vec<Busy> {
        sorted(self.result.pods.iter().flat_map(load_threads).collect())
    }

    /// The threads of all servers, the busiest first.
    pub(super) fn server_threads(&self) -> Vec<Busy> {
        sorted(
            self.result
                .servers
                .iter()
                .flat_map(|one| threads_of(&one.usage, one.usage.seconds, &one.server))
                .collect(),
        )
    }

    fn node(&self, name: &str) -> Option<&NodeRecord> {
        self.result.nodes.iter().find(|node| node.name == name)
    }

    /// The machine of a node: what several nodes run on (kind) is one.
    fn machine_of(&self, node: &str) -> String {
        let known = self.node(node).and_then(|node| node.boot_id.clone());
        known.unwrap_or_else(|| node.to_owned())
    }

    /// Every machine whose CPU time is known, by its nodes' names.
    fn machines(&self) -> BTreeMap<String, (BTreeSet<&str>, Machine<'_>)> {
        let clients = self.result.pods.iter().filter_map(|pod| Some((pod.node.as_deref()?, &pod.client)));
        let servers =
            self.result.servers.iter().filter_map(|server| Some((server.node.as_deref()?, &server.usage)));
        let mut machines: BTreeMap<String, (BTreeSet<&str>, Machine<'_>)> = BTreeMap::new();
        for (node, usage) in clients.chain(servers) {
            let Some(host) = usage.host.as_ref().filter(|host| usage.seconds > 0.0 && host.cpus > 0) else {
                continue;
            };
            let (nodes, machine) = machines.entry(self.machine_of(node)).or_insert_with(|| {
                (BTreeSet::new(), Machine { host, seconds: usage.seconds, own_cpus: 0.0 })
            });
            nodes.insert(node);
            machine.own_cpus += usage.cpu_seconds / usage.seconds;
        }
        machines
    }
}

fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// A load thread of a client was busy for more than `limit` of the time: latencies then
/// contain its own, and more load would not have come.
pub(super) fn client_saturated(evidence: &Evidence, limit: f64) -> Found {
    let threads = evidence.client_threads();
    let Some(busiest) = threads.first() else { return Found::NotMade(NO_THREADS) };
    unless(busiest.share <= limit, || {
        let above = threads.iter().filter(|thread| thread.share > limit).count();
        format!(
            "load thread {} was busy for {} of the time ({above} of {} threads above the limit of {}): give the clients more threads, CPUs or pods",
            busiest.name,
            percent(busiest.share),
            threads.len(),
            percent(limit)
        )
    })
}

fn throttled<'a>(usages: impl Iterator<Item = (&'a str, &'a ContainerUsage)>, limit: f64) -> Found {
    let shares = usages.filter(|(_, usage)| usage.seconds > 0.0);
    let shares = shares.map(|(name, usage)| (name, usage.throttled_seconds / usage.seconds));
    let Some((name, share)) = shares.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return Found::NotMade("what the container used is not known");
    };
    unless(share <= limit, || {
        format!(
            "the CPU limit of {name} held it back for {} of the time (limit {})",
            percent(share),
            percent(limit)
        )
    })
}

/// A client's CPU limit held it back for more than `limit` of the window.
pub(super) fn client_throttled(evidence: &Evidence, limit: f64) -> Found {
    throttled(evidence.result.pods.iter().map(|pod| (pod.pod.as_str(), &pod.client)), limit)
}

/// The server's CPU limit held it back for more than `limit` of the window.
pub(super) fn server_throttled(evidence: &Evidence, limit: f64) -> Found {
    if evidence.result.servers.is_empty() {
        return Found::NotMade(NO_SERVER);
    }
    throttled(evidence.result.servers.iter().map(|one| (one.server.as_str(), &one.usage)), limit)
}

/// The hypervisor gave more than `limit` of a machine's CPU time to others.
pub(super) fn steal(evidence: &Evidence, limit: f64) -> Found {
    let machines = evidence.machines();
    let share =
        |machine: &Machine| machine.host.steal_seconds / (machine.seconds * f64::from(machine.host.cpus));
    let worst = machines.values().map(|(nodes, machine)| (nodes, share(machine)));
    let Some((nodes, share)) = worst.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return Found::NotMade(NO_HOST);
    };
    unless(share <= limit, || {
        format!(
            "the hypervisor gave {} of the CPU time of {} to others (limit {})",
            percent(share),
            joined(nodes),
            percent(limit)
        )
    })
}

/// Others than this run's clients and servers used more than `limit` of a machine's CPUs.
pub(super) fn foreign_load(evidence: &Evidence, limit: f64) -> Found {
    let machines = evidence.machines();
    if machines.is_empty() {
        return Found::NotMade(NO_HOST);
    }
    // A server that is not known to us would count as a stranger beside its clients.
    let serves =
        |nodes: &BTreeSet<&str>| nodes.iter().any(|node| evidence.node(node).is_some_and(|n| n.serves));
    let known = |nodes: &BTreeSet<&str>| !serves(nodes) || !evidence.result.servers.is_empty();
    let foreign =
        |machine: &Machine| (machine.host.busy_seconds / machine.seconds - machine.own_cpus).max(0.0);
    let worst = machines
        .values()
        .filter(|(nodes, _)| known(nodes))
        .map(|(nodes, machine)| (nodes, foreign(machine), f64::from(machine.host.cpus)))
        .max_by(|one, other| (one.1 / one.2).total_cmp(&(other.1 / other.2)));
    let Some((nodes, cpus, all)) = worst else { return Found::NotMade(NO_SERVER) };
    unless(cpus / all <= limit, || {
        format!(
            "others used {cpus:.2} of the {all} CPUs of {} while the load ran (limit {})",
            joined(nodes),
            percent(limit)
        )
    })
}

/// A container read memory back from disk more than `limit` times a second, or went into swap.
pub(super) fn memory_pressure(evidence: &Evidence, limit: f64) -> Found {
    let known: Vec<_> = evidence.usages().filter(|(_, usage)| usage.seconds > 0.0).collect();
    if known.is_empty() {
        return Found::NotMade("what the containers used is not known");
    }
    if let Some((name, usage)) = known.iter().find(|(_, usage)| usage.swapped_bytes > 0) {
        return Found::Bad(format!("{} bytes of {name} went into swap", usage.swapped_bytes));
    }
    let rates = known.iter().map(|(name, usage)| (name, usage.major_page_faults as f64 / usage.seconds));
    let worst = rates.max_by(|one, other| one.1.total_cmp(&other.1));
    let (name, rate) = worst.map_or((&"", 0.0), |(name, rate)| (name, rate));
    unless(rate <= limit, || {
        format!("{name} read memory back from disk {rate:.0} times a second (limit {limit})")
    })
}

/// Clients and server were on one machine.
pub(super) fn shared_node(evidence: &Evidence, _: f64) -> Found {
    let machines = |pick: fn(&NodeRecord) -> bool| -> BTreeSet<String> {
        let nodes = evidence.result.nodes.iter().filter(|node| pick(node));
        nodes.map(|node| evidence.machine_of(&node.name)).collect()
    };
    let (servers, clients) = (machines(|node| node.serves), machines(|node| node.loads));
    if servers.is_empty() || clients.is_empty() {
        return Found::NotMade("the server's node is not known");
    }
    let shared: BTreeSet<&str> = evidence
        .result
        .nodes
        .iter()
        .filter(|node| {
            (node.serves || node.loads) && {
                let machine = evidence.machine_of(&node.name);
                servers.contains(&machine) && clients.contains(&machine)
            }
        })
        .map(|node| node.name.as_str())
        .collect();
    unless(shared.is_empty(), || match shared.len() {
        1 => format!("clients and server shared node {}: each took CPU time from the other", joined(&shared)),
        _ => format!("the nodes {} are one machine, which clients and server shared", joined(&shared)),
    })
}

/// Client and server nodes differ in what `pick` tells of them; `None` where all that
/// tell anything tell the same.
fn apart(nodes: &[NodeRecord], what: &str, pick: fn(&NodeRecord) -> Option<&str>) -> Option<String> {
    let used = || nodes.iter().filter(|node| node.serves || node.loads);
    let told: BTreeSet<&str> = used().map(|node| pick(node).unwrap_or("none")).collect();
    let each = || {
        let one = |node: &NodeRecord| format!("{} in {}", node.name, pick(node).unwrap_or("none"));
        used().map(one).collect::<Vec<_>>().join(", ")
    };
    (told.len() > 1).then(|| format!("the nodes are in different {what}: {}", each()))
}

/// Clients and server are not in one zone and placement group, or the clients' machines
/// have fewer CPUs than the server has threads.
pub(super) fn placement(evidence: &Evidence, _: f64) -> Found {
    let nodes = &evidence.result.nodes;
    let zone: fn(&NodeRecord) -> Option<&str> = |node| node.zone.as_deref();
    if !nodes.iter().any(|node| node.serves) {
        return Found::NotMade("the server's node is not known");
    }
    let found = apart(nodes, "zones", zone).or_else(|| different_groups(nodes)).or_else(|| weaker(evidence));
    match found {
        Some(found) => Found::Bad(found),
        None if nodes.iter().all(|node| zone(node).is_none() && node.placement_group.is_none()) => {
            Found::NotMade("the nodes have no labels of a zone or a placement group")
        }
        None => Found::Good,
    }
}

/// That the nodes are in different placement groups.
fn different_groups(nodes: &[NodeRecord]) -> Option<String> {
    let placed = placed::of_nodes(nodes, None);
    let group = placed.into_iter().find(|one| one.check == CheckName::SamePlacementGroup)?;
    let differ = group.holds == Some(false);
    differ.then(|| format!("the nodes are in different placement groups: {}", group.message))
}

/// That the clients have fewer CPUs than the server has threads.
fn weaker(evidence: &Evidence) -> Option<String> {
    let pods = &evidence.result.pods;
    let mut of_machines: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for pod in pods {
        let cpus = f64::from(pod.client.host.as_ref()?.cpus);
        let wanted = pod.client.cpu_limit.unwrap_or(cpus);
        let machine = of_machines.entry(evidence.machine_of(pod.node.as_deref()?)).or_insert((cpus, 0.0));
        machine.1 += wanted;
    }
    let cpus: f64 = of_machines.values().map(|(there, wanted)| there.min(*wanted)).sum();
    let server = pods.first()?.server.as_ref()?;
    let threads = f64::from(server.truth.threads?) * server.shards.len().max(1) as f64;
    (cpus < threads).then(|| {
        format!(
            "the clients have {cpus} CPUs, the server's threads are {threads}: give the clients the stronger machines"
        )
    })
}

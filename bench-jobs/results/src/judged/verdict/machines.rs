//! Checks of the machines: who used their CPUs, memory and network, and where the pods were. Pure.

use super::{
    evidence::{Evidence, Found, Machine, interrupted, percent, unless},
    placed,
};
use crate::{judged::limits, measured::usage::ContainerUsage, result::NodeRecord};
use dragstrip_crds::run::CheckName;
use std::collections::{BTreeMap, BTreeSet};

const NO_HOST: &str = "the machines' CPU time is not known";
const NO_SERVER: &str = "what the server used is not known";
const NO_NODE: &str = "the server's node is not known";

/// What has the largest share; `None` without any.
fn worst<T>(shares: impl Iterator<Item = (T, f64)>) -> Option<(T, f64)> {
    shares.max_by(|one, other| one.1.total_cmp(&other.1))
}

fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// A load thread of a client was busy for more than `limit` of the time, or waited too long for a CPU, or
/// interrupts used up a CPU of its machine: latencies then contain its own queue, and it could not have
/// sent more load.
pub(super) fn client_saturated(evidence: &Evidence, limit: f64) -> Found {
    let threads = evidence.client_threads();
    let Some(busiest) = threads.first() else {
        return Found::NotMade("the CPU time of the tool's threads is not known");
    };
    if busiest.share > limit {
        let waited = percent(busiest.waiting / busiest.share);
        let waited =
            if busiest.waiting > 0.0 { format!(", {waited} of it without a CPU") } else { String::new() };
        let above = threads.iter().filter(|thread| thread.share > limit).count();
        return Found::Bad(format!(
            "load thread {} was busy for {} of the time{waited} ({above} of {} threads above the limit of {}): give the clients more threads, CPUs or pods",
            busiest.name,
            percent(busiest.share),
            threads.len(),
            percent(limit)
        ));
    }
    if let Some(found) = interrupted(evidence.clients_on_nodes()) {
        return Found::Bad(found);
    }
    let Some((thread, waited)) = worst(threads.iter().map(|thread| (thread, thread.waiting))) else {
        return Found::Good;
    };
    unless(waited <= limits::WAITING, || {
        format!(
            "load thread {} waited for a CPU for {} of the time (limit {}), and read replies late: give the clients CPUs of their own",
            thread.name,
            percent(waited),
            percent(limits::WAITING)
        )
    })
}

fn throttled<'a>(usages: impl Iterator<Item = (&'a str, &'a ContainerUsage)>, limit: f64) -> Found {
    let measured = usages.filter(|(_, usage)| usage.seconds > 0.0);
    let shares = measured.map(|(name, usage)| (name, usage.throttled_seconds / usage.seconds));
    let Some((name, share)) = worst(shares) else {
        return Found::NotMade("what the container used is not known");
    };
    unless(share <= limit, || {
        let (share, limit) = (percent(share), percent(limit));
        format!("the CPU limit of {name} held it back for {share} of the time (limit {limit})")
    })
}

/// A client's CPU limit held it back for more than `limit` of the window.
pub(super) fn client_throttled(evidence: &Evidence, limit: f64) -> Found {
    throttled(evidence.clients(), limit)
}

/// The server's CPU limit held it back for more than `limit` of the window.
pub(super) fn server_throttled(evidence: &Evidence, limit: f64) -> Found {
    if evidence.result.servers.is_empty() {
        return Found::NotMade(NO_SERVER);
    }
    throttled(evidence.servers(), limit)
}

/// Threads of a server waited for more than `limit` of the time for a CPU that they use; without the kernel's
/// account of them all, the one that waited longest. Time held back by the CPU limit, which both contain, is
/// another check's.
pub(super) fn server_pressure(evidence: &Evidence, limit: f64) -> Found {
    let shares = evidence.servers().filter(|(_, usage)| usage.seconds > 0.0).filter_map(|(name, usage)| {
        let threads = usage.threads.iter().filter(|thread| thread.waiting_seconds > 0.0);
        let longest =
            || worst(threads.map(|thread| (format!("thread {} of", thread.name), thread.waiting_seconds)));
        let pressure = usage.cpu_pressure_seconds.map(|seconds| ("threads of".to_owned(), seconds));
        let (threads, seconds) = pressure.or_else(longest)?;
        Some(((threads, name), (seconds - usage.throttled_seconds).max(0.0) / usage.seconds))
    });
    let Some(((threads, name), share)) = worst(shares) else {
        return Found::NotMade("the kernel does not report how long the server's threads waited for a CPU");
    };
    unless(share <= limit, || {
        let (share, limit) = (percent(share), percent(limit));
        format!(
            "{threads} {name} waited for a CPU for {share} of the time (limit {limit}): give the server a CPU for each thread, without other processes"
        )
    })
}

/// The hypervisor gave more than `limit` of the time of the CPUs that containers may use to others.
pub(super) fn steal(evidence: &Evidence, limit: f64) -> Found {
    let shares = evidence.machines().into_iter().map(|machine| {
        let share = machine.steal_seconds / (machine.seconds * f64::from(machine.cpus));
        (machine, share)
    });
    let Some((machine, share)) = worst(shares) else {
        return Found::NotMade(NO_HOST);
    };
    unless(share <= limit, || {
        let (share, limit, name) = (percent(share), percent(limit), machine.name());
        format!("the hypervisor gave {share} of the CPU time of {name} to others (limit {limit})")
    })
}

/// Others than this run's clients and servers used more than `limit` of the CPUs that these may use.
pub(super) fn foreign_load(evidence: &Evidence, limit: f64) -> Found {
    let machines = evidence.machines();
    if machines.is_empty() {
        return Found::NotMade(NO_HOST);
    }
    // A server whose use is unknown would count as a stranger beside its clients.
    let known = |machine: &Machine| !evidence.serves(&machine.nodes) || !evidence.result.servers.is_empty();
    let foreign = |machine: &Machine| (machine.busy_seconds / machine.seconds - machine.own_cpus).max(0.0);
    let shares = machines.iter().filter(|machine| known(machine));
    let shares = shares.map(|machine| (machine, foreign(machine) / f64::from(machine.cpus)));
    let Some((machine, share)) = worst(shares) else { return Found::NotMade(NO_SERVER) };
    unless(share <= limit, || {
        format!(
            "others used {:.2} of the {} CPUs of {} while the load ran (limit {})",
            foreign(machine),
            machine.cpus,
            machine.name(),
            percent(limit)
        )
    })
}

/// A container read memory back from disk more than `limit` times a second, or was swapped.
pub(super) fn memory_pressure(evidence: &Evidence, limit: f64) -> Found {
    let measured: Vec<_> = evidence.usages().filter(|(_, usage)| usage.seconds > 0.0).collect();
    if let Some((name, usage)) = measured.iter().find(|(_, usage)| usage.swapped_bytes > 0) {
        return Found::Bad(format!("{} bytes of {name} went into swap", usage.swapped_bytes));
    }
    let rates = measured.iter().map(|(name, usage)| (name, usage.major_page_faults as f64 / usage.seconds));
    let Some((name, rate)) = worst(rates) else {
        return Found::NotMade("what the containers used is not known");
    };
    unless(rate <= limit, || {
        format!("{name} read memory back from disk {rate:.0} times a second (limit {limit})")
    })
}

pub(super) fn shared_node(evidence: &Evidence, _: f64) -> Found {
    let nodes: Vec<&NodeRecord> = evidence.result.nodes.iter().collect();
    if !nodes.iter().any(|node| node.serves) || !nodes.iter().any(|node| node.loads) {
        return Found::NotMade(NO_NODE);
    }
    let shared: BTreeSet<&str> = placed::shared(&nodes).iter().map(|node| node.name.as_str()).collect();
    unless(shared.is_empty(), || match shared.len() {
        1 => format!("clients and server shared node {}: each took CPU time from the other", joined(&shared)),
        _ => format!("the nodes {} are one machine, which clients and server shared", joined(&shared)),
    })
}

/// Clients and server are not in one zone and placement group, or the clients' machines
/// have fewer CPUs than the server has threads.
pub(super) fn placement(evidence: &Evidence, _: f64) -> Found {
    if !evidence.result.nodes.iter().any(|node| node.serves) {
        return Found::NotMade(NO_NODE);
    }
    let kinds = [(CheckName::SameZone, "zones"), (CheckName::SamePlacementGroup, "placement groups")];
    let placed = placed::of_nodes(&evidence.result.nodes, None);
    let of = |check| placed.iter().find(|one| one.check == check);
    let apart = kinds.iter().find_map(|(check, what)| {
        let placed = of(*check).filter(|one| one.holds == Some(false))?;
        Some(format!("the nodes are in different {what}: {}", placed.message))
    });
    match apart.or_else(|| weaker(evidence)) {
        Some(found) => Found::Bad(found),
        None if kinds.iter().all(|(check, _)| of(*check).is_none_or(|one| one.holds.is_none())) => {
            Found::NotMade("the nodes have no labels of a zone or a placement group")
        }
        None => Found::Good,
    }
}

/// That the clients have fewer CPUs than the server has threads.
fn weaker(evidence: &Evidence) -> Option<String> {
    let pods = &evidence.result.pods;
    let mut of_machines: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
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

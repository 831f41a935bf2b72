//! Where servers and clients are, as conditions that hold or do not, each with its
//! evidence. docs/placement.md says what each rests on. Pure.

use crate::{
    ranges::numbers,
    result::{CpuSetRecord, GroupEvidence, NodeRecord, RepetitionResult},
};
use dragstrip_crds::{
    observed::ServerTruth,
    run::{CheckName, Level, Requirement},
};
use std::collections::{BTreeMap, BTreeSet};

/// Reason of a condition of which nothing can be known yet.
const NOT_YET: &str = "NotYetKnown";
/// Reason where nobody says what is to be compared.
const NOT_LABELLED: &str = "NotLabelled";
/// Reason where the servers are not ours.
const SERVER_UNKNOWN: &str = "ServerUnknown";
/// Nodes that a message lists at most.
const LISTED: usize = 6;

/// A condition of where servers and clients are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its name.
    pub check: CheckName,
    /// Whether it holds; `None` where that cannot be told.
    pub holds: Option<bool>,
    /// A constant in UpperCamelCase: the evidence, or what is missing.
    pub reason: &'static str,
    /// The evidence for people: labels, nodes and values.
    pub message: String,
}

impl Placed {
    fn new(check: CheckName, holds: Option<bool>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { check, holds, reason, message: message.into() }
    }

    /// Whether the answer only needs time.
    fn pending(&self) -> bool {
        self.reason == NOT_YET
    }
}

/// The first condition that `requirements` want to hold and that does not, or of which
/// nobody will be able to tell: `NAME: evidence`.
pub fn broken(placed: &[Placed], requirements: &[Requirement]) -> Option<String> {
    let required = |check| requirements.iter().any(|one| one.check == check && one.level == Level::Required);
    let broken = |one: &&Placed| one.holds != Some(true) && !one.pending() && required(one.check);
    placed.iter().find(broken).map(|one| {
        let (check, message) = (one.check, &one.message);
        let unknown = if one.holds.is_none() { "cannot be told: " } else { "" };
        format!("{check}: {unknown}{message} (spec.requirements makes this condition Required)")
    })
}

/// What a stored result says of where its servers and clients were.
pub fn of_result(result: &RepetitionResult) -> Vec<Placed> {
    let trips = result.pods.iter().filter_map(|pod| pod.client.round_trip.as_ref());
    let mut medians: Vec<f64> =
        trips.filter(|trip| trip.samples > 0).map(|trip| trip.median_milliseconds).collect();
    medians.sort_by(f64::total_cmp);
    let mut placed = of_nodes(&result.nodes, medians.get(medians.len() / 2).copied());
    placed.push(exclusive_cpus(&result.cpusets, true));
    placed
}

type Rule = fn(&[&NodeRecord]) -> Placed;

/// What `nodes` say; `round_trip` between clients and servers is told with it, in milliseconds.
pub fn of_nodes(nodes: &[NodeRecord], round_trip: Option<f64>) -> Vec<Placed> {
    let used: Vec<&NodeRecord> = nodes.iter().filter(|node| node.serves || node.loads).collect();
    let trip = round_trip
        .map(|median| format!("; TCP's handshake between them takes {median:.3} ms (median)"))
        .unwrap_or_default();
    let rules: [(CheckName, Rule); 4] = [
        (CheckName::SameZone, same_zone),
        (CheckName::SamePlacementGroup, same_group),
        (CheckName::ClientStronger, client_stronger),
        (CheckName::DistinctNodes, distinct_nodes),
    ];
    let placed = rules.map(|(check, rule)| {
        if !used.iter().any(|node| node.serves) {
            Placed::new(check, None, SERVER_UNKNOWN, "the server's node is not known")
        } else if used.iter().any(|node| node.loads) {
            rule(&used)
        } else {
            Placed::new(check, None, NOT_YET, "the clients' nodes are not known yet")
        }
    });
    let measured = |check| matches!(check, CheckName::SameZone | CheckName::SamePlacementGroup);
    let mut placed = Vec::from(placed);
    for one in placed.iter_mut().filter(|one| measured(one.check)) {
        one.message.push_str(&trip);
    }
    placed
}

/// `nodes` with what `tell` says of each, the first few of many.
fn each(nodes: &[&NodeRecord], tell: impl Fn(&NodeRecord) -> String) -> String {
    let told: Vec<String> =
        nodes.iter().take(LISTED).map(|node| format!("{} {}", node.name, tell(node))).collect();
    let more = nodes.len().saturating_sub(LISTED);
    if more > 0 { format!("{} and {more} more", told.join(", ")) } else { told.join(", ") }
}

/// What one source says of a node's place: nothing, that it is in none, or which.
type Told<'a> = Option<Option<&'a str>>;

/// A source of what is compared.
struct Source {
    /// Its name as a reason.
    reason: &'static str,
    /// What it is, for people.
    named: &'static str,
    tell: fn(&NodeRecord) -> Told<'_>,
}

impl Source {
    /// Whether all nodes are in one place; `None` where this does not tell of all of them.
    fn same(&self, nodes: &[&NodeRecord]) -> Option<bool> {
        let told: BTreeSet<Option<&str>> =
            nodes.iter().map(|node| (self.tell)(node)).collect::<Option<_>>()?;
        Some(told.len() == 1 && !told.contains(&None))
    }

    fn list(&self, nodes: &[&NodeRecord]) -> String {
        each(nodes, |node| match (self.tell)(node) {
            Some(Some(place)) => format!("in {place}"),
            Some(None) => "in none".to_owned(),
            None => "not told".to_owned(),
        })
    }
}

/// Whether all `nodes` are in one place: by the first of `sources` that tells of them all.
/// That a later one says otherwise is told. `remedy` helps where nobody tells.
fn same(check: CheckName, nodes: &[&NodeRecord], sources: &[Source], remedy: &str) -> Placed {
    let by = |source: &Source| Some((source.same(nodes)?, source.reason, source.named, source.list(nodes)));
    let mut verdicts = sources.iter().filter_map(by);
    if let Some((holds, reason, named, list)) = verdicts.next() {
        let against = verdicts
            .find(|(other, ..)| *other != holds)
            .map(|(_, _, named, list)| format!("; {named} says otherwise ({list}) and does not count"));
        let message = format!("by {named}: {list}{}", against.unwrap_or_default());
        return Placed::new(check, Some(holds), reason, message);
    }
    let silent = |node: &&&NodeRecord| sources.iter().all(|source| (source.tell)(node).is_none());
    let missing: Vec<&str> = nodes.iter().filter(silent).map(|node| node.name.as_str()).collect();
    let names = missing.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    if missing.len() == nodes.len() {
        Placed::new(check, None, NOT_LABELLED, format!("nobody tells it of any node: {remedy}"))
    } else if missing.is_empty() {
        let told = each(nodes, |node| {
            let known = sources.iter().filter_map(|source| Some((source.named, (source.tell)(node)??)));
            known.map(|(named, place)| format!("in {place} by {named}")).collect::<Vec<_>>().join(" and ")
        });
        let message = format!("different sources cannot be compared: {told}: {remedy}");
        Placed::new(check, None, NOT_LABELLED, message)
    } else {
        let message = format!("others have a label and {names} none: {remedy}");
        Placed::new(check, Some(false), NOT_LABELLED, message)
    }
}

fn same_zone(nodes: &[&NodeRecord]) -> Placed {
    let sources = [Source {
        reason: "Label",
        named: "label topology.kubernetes.io/zone",
        tell: |node| node.zone.as_deref().map(Some),
    }];
    let remedy = "give the nodes the label topology.kubernetes.io/zone, as cloud providers do";
    same(CheckName::SameZone, nodes, &sources, remedy)
}

fn group(node: &NodeRecord, evidence: GroupEvidence) -> Told<'_> {
    let record = node.groups.iter().find(|record| record.evidence == evidence);
    let recorded = record.map(|record| record.group.as_deref());
    // Results of a version without sources have one label.
    let unsourced = || node.placement_group.as_deref().filter(|_| node.groups.is_empty()).map(Some);
    if evidence == GroupEvidence::Label { recorded.or_else(unsourced) } else { recorded }
}

fn same_group(nodes: &[&NodeRecord]) -> Placed {
    let sources = [
        Source {
            reason: "KarpenterLabel",
            named: "label karpenter.k8s.aws/placement-group-id",
            tell: |node| group(node, GroupEvidence::KarpenterLabel),
        },
        Source {
            reason: "Label",
            named: "label dragstrip.dev/placement-group",
            tell: |node| group(node, GroupEvidence::Label),
        },
    ];
    let remedy = "label the nodes with dragstrip.dev/placement-group=GROUP";
    same(CheckName::SamePlacementGroup, nodes, &sources, remedy)
}

/// The machine of a node: what several nodes run on (kind) is one.
fn machine(node: &NodeRecord) -> &str {
    node.boot_id.as_deref().unwrap_or(&node.name)
}

/// What is known of all machines together: one that has several nodes counts once.
fn sum(nodes: &[&NodeRecord], pick: fn(&NodeRecord) -> Option<u64>) -> Option<u64> {
    let machines: BTreeMap<&str, &NodeRecord> = nodes.iter().map(|node| (machine(node), *node)).collect();
    machines.values().map(|node| pick(node)).sum()
}

fn split<'a>(nodes: &[&'a NodeRecord]) -> (Vec<&'a NodeRecord>, Vec<&'a NodeRecord>) {
    let of = |pick: fn(&NodeRecord) -> bool| nodes.iter().copied().filter(|node| pick(node)).collect();
    (of(|node| node.serves), of(|node| node.loads))
}

/// Nodes of clients and servers that are one machine.
fn shared<'a>(nodes: &[&'a NodeRecord]) -> Vec<&'a NodeRecord> {
    let (servers, clients) = split(nodes);
    let on = |side: &[&NodeRecord], node: &NodeRecord| side.iter().any(|one| machine(one) == machine(node));
    nodes.iter().copied().filter(|node| on(&servers, node) && on(&clients, node)).collect()
}

fn client_stronger(nodes: &[&NodeRecord]) -> Placed {
    let check = CheckName::ClientStronger;
    let strength = |node: &NodeRecord| {
        let cpus = node
            .allocatable_millicpus
            .map_or("CPUs not known".to_owned(), |milli| format!("{} CPUs", milli as f64 / 1e3));
        let network = node.network_megabits_per_second;
        let network = network.map(|rate| format!(", {} Gbit/s", rate as f64 / 1e3)).unwrap_or_default();
        format!("({cpus}{network})")
    };
    let (servers, clients) = split(nodes);
    let told = format!("clients on {}, servers on {}", each(&clients, strength), each(&servers, strength));
    if !shared(nodes).is_empty() {
        return Placed::new(check, None, "SharedNode", format!("both share a machine: {told}"));
    }
    let of = |pick: fn(&NodeRecord) -> Option<u64>| sum(&clients, pick).zip(sum(&servers, pick));
    let Some((client_cpus, server_cpus)) = of(|node| node.allocatable_millicpus) else {
        return Placed::new(check, None, "NotKnown", told);
    };
    let networks = of(|node| node.network_megabits_per_second);
    let (holds, reason) = match networks {
        _ if client_cpus <= server_cpus => (false, "NotMoreCPUs"),
        Some((client, server)) if client < server => (false, "LessNetwork"),
        Some(_) => (true, "MoreCPUsAndNoLessNetwork"),
        None => (true, "MoreCPUs"),
    };
    Placed::new(check, Some(holds), reason, told)
}

fn distinct_nodes(nodes: &[&NodeRecord]) -> Placed {
    let check = CheckName::DistinctNodes;
    let shared = shared(nodes);
    let side = |node: &NodeRecord| {
        let boot = node.boot_id.as_ref().map(|id| format!(" boot {id}")).unwrap_or_default();
        let role = match (node.serves, node.loads) {
            (true, true) => "serves and loads",
            (true, false) => "serves",
            _ => "loads",
        };
        format!("({role}{boot})")
    };
    if shared.is_empty() {
        return Placed::new(check, Some(true), "DistinctNodes", each(nodes, side));
    }
    Placed::new(check, Some(false), "SharedNode", format!("one machine has both: {}", each(&shared, side)))
}

/// Whether every server has CPUs of its own, and every client that asks for whole ones:
/// as many as it asks for, fewer than the machine has, and none that another one has.
/// `complete` where no more is going to be known.
pub fn exclusive_cpus(sets: &[CpuSetRecord], complete: bool) -> Placed {
    let check = CheckName::ExclusiveCPUs;
    let told = |set: &CpuSetRecord| {
        let wants =
            set.whole_cpus.map_or("no whole CPUs requested".to_owned(), |cpus| format!("{cpus} requested"));
        let node = set.node.as_ref().map(|node| format!(" of {node}")).unwrap_or_default();
        format!("{} may run on CPUs {}{node}, which has {} ({wants})", set.pod, set.cpus, set.online)
    };
    let known: Vec<(&CpuSetRecord, BTreeSet<u32>)> =
        sets.iter().filter_map(|set| Some((set, numbers(&set.cpus)?.collect()))).collect();
    let own = |(set, cpus): &(&CpuSetRecord, BTreeSet<u32>)| {
        let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        set.whole_cpus == Some(count) && (set.online == 0 || count < set.online)
    };
    let asks = |set: &CpuSetRecord| set.serves || set.whole_cpus.is_some();
    if let Some((set, _)) = known.iter().find(|one| asks(one.0) && !own(one)) {
        let message = format!(
            "{}: the kubelet's CPU manager policy must be static and the CPUs whole, with limits equal to requests: cpu.exclusive",
            told(set)
        );
        return Placed::new(check, Some(false), "SharedCPUs", message);
    }
    let pairs = || {
        known.iter().enumerate().flat_map(|(index, one)| known[..index].iter().map(move |other| (other, one)))
    };
    let overlap = pairs().find(|(one, other)| one.0.node == other.0.node && !one.1.is_disjoint(&other.1));
    if let Some((one, other)) = overlap {
        let message = format!("{}; {}", told(one.0), told(other.0));
        return Placed::new(check, Some(false), "OverlappingCPUs", message);
    }
    if !known.iter().any(|(set, _)| set.serves) || !complete || known.len() < sets.len() {
        let reason = if complete { "NotKnown" } else { NOT_YET };
        let seen: Vec<String> = known.iter().map(|(set, _)| told(set)).collect();
        let seen = if seen.is_empty() { "no container's CPUs are known".to_owned() } else { seen.join("; ") };
        return Placed::new(check, None, reason, seen);
    }
    let seen: Vec<String> = known.iter().take(LISTED).map(|(set, _)| told(set)).collect();
    Placed::new(check, Some(true), "SeenFromInside", seen.join("; "))
}

/// What the server says of its I/O and threads, of which `declared` are; `None` of a
/// server that is not ours.
pub fn of_server(truth: Option<&ServerTruth>, declared: Option<i32>) -> [Placed; 2] {
    let uses = truth.and_then(|truth| truth.io_interface.as_deref());
    let check = CheckName::IoUring;
    let io_uring = match uses {
        Some(uses) if uses.replace('_', "").starts_with("iouring") => {
            Placed::new(check, Some(true), "ToldByServer", format!("the server's I/O interface is {uses}"))
        }
        Some(uses) => {
            Placed::new(check, Some(false), "ToldByServer", format!("the server's I/O interface is {uses}"))
        }
        None => Placed::new(check, None, "NotTold", "the server does not tell its I/O interface"),
    };
    let check = CheckName::ThreadsAsRequested;
    let threads = match (truth.and_then(|truth| truth.threads), declared) {
        (Some(told), Some(declared)) => {
            let message = format!("{declared} declared, the server runs with {told}");
            Placed::new(check, Some(told == declared), "ToldByServer", message)
        }
        (None, Some(_)) => Placed::new(check, None, "NotTold", "the server does not tell its threads"),
        (_, None) => {
            Placed::new(check, None, SERVER_UNKNOWN, "no threads are declared for an external server")
        }
    };
    [io_uring, threads]
}

#[cfg(test)]
mod tests;

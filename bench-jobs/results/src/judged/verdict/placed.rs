//! Where servers and clients are, as conditions that hold or do not, each with its
//! evidence. docs/placement.md says what each condition is based on. Pure.

use crate::{
    ranges::numbers,
    result::{CpuSetRecord, GroupEvidence, NodeRecord, RepetitionResult},
};
use dragstrip_crds::{
    observed::ServerTruth,
    run::{CheckName, Level, Requirement},
};
use std::collections::{BTreeMap, BTreeSet};

const NOT_YET: &str = "NotYetKnown";
/// Reason if labels that would be compared are missing.
const NOT_LABELLED: &str = "NotLabelled";
/// Reason if the servers are not Dragstrip's.
const SERVER_UNKNOWN: &str = "ServerUnknown";
/// Reason if the CPUs of some nodes or containers are missing.
const NOT_KNOWN: &str = "NotKnown";
/// Most nodes in a message.
const LISTED: usize = 6;

/// A condition of where servers and clients are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub check: CheckName,
    /// Whether it holds; `None` if that is unknown.
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

/// The first required condition that does not hold or is unknown: `NAME: evidence`.
pub fn broken(placed: &[Placed], requirements: &[Requirement]) -> Option<String> {
    let required = |check| requirements.iter().any(|one| one.check == check && one.level == Level::Required);
    let broken = |one: &&Placed| one.holds != Some(true) && !one.pending() && required(one.check);
    placed.iter().find(broken).map(|one| {
        let (check, message) = (one.check, &one.message);
        let unknown = if one.holds.is_none() { "unknown: " } else { "" };
        format!("{check}: {unknown}{message} (spec.requirements makes this condition Required)")
    })
}

/// What a stored result says about where its servers and clients were.
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

/// What `nodes` show; messages contain `round_trip` between clients and servers, in milliseconds.
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

/// `nodes` with what `describe` says about each, the first few of many.
fn each(nodes: &[&NodeRecord], describe: impl Fn(&NodeRecord) -> String) -> String {
    let listed = nodes.iter().take(LISTED).map(|node| format!("{} {}", node.name, describe(node)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = nodes.len().saturating_sub(LISTED);
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// What one source says about a node's place: nothing, that it is in none, or which.
type Place<'a> = Option<Option<&'a str>>;

/// A source of what is compared.
struct Source {
    /// Its name as a reason.
    reason: &'static str,
    /// What it is, for people.
    label: &'static str,
    place: fn(&NodeRecord) -> Place<'_>,
}

impl Source {
    /// Whether all nodes are in one place; `None` if this does not say it of all of them.
    fn same(&self, nodes: &[&NodeRecord]) -> Option<bool> {
        let places: BTreeSet<Option<&str>> =
            nodes.iter().map(|node| (self.place)(node)).collect::<Option<_>>()?;
        Some(places.len() == 1 && !places.contains(&None))
    }

    fn list(&self, nodes: &[&NodeRecord]) -> String {
        each(nodes, |node| match (self.place)(node) {
            Some(Some(place)) => format!("in {place}"),
            Some(None) => "in none".to_owned(),
            None => "unknown".to_owned(),
        })
    }
}

/// Whether all `nodes` are in one place: by the first of `sources` that knows it of them all. The
/// message shows a later one that disagrees. `remedy` helps if no source knows.
fn same(check: CheckName, nodes: &[&NodeRecord], sources: &[Source], remedy: &str) -> Placed {
    let mut verdicts = sources.iter().filter_map(|source| Some((source, source.same(nodes)?)));
    if let Some((source, holds)) = verdicts.next() {
        let against = verdicts.find(|(_, other)| *other != holds).map(|(other, _)| {
            format!("; {} says otherwise ({}) and does not count", other.label, other.list(nodes))
        });
        let message = format!("by {}: {}{}", source.label, source.list(nodes), against.unwrap_or_default());
        return Placed::new(check, Some(holds), source.reason, message);
    }
    let silent = |node: &&&NodeRecord| sources.iter().all(|source| (source.place)(node).is_none());
    let missing: Vec<&str> = nodes.iter().filter(silent).map(|node| node.name.as_str()).collect();
    if missing.len() == nodes.len() {
        Placed::new(check, None, NOT_LABELLED, format!("no node has a label that says it: {remedy}"))
    } else if missing.is_empty() {
        let places = each(nodes, |node| {
            let known = sources.iter().filter_map(|source| Some((source.label, (source.place)(node)??)));
            known.map(|(label, place)| format!("in {place} by {label}")).collect::<Vec<_>>().join(" and ")
        });
        let message = format!("different sources cannot be compared: {places}: {remedy}");
        Placed::new(check, None, NOT_LABELLED, message)
    } else {
        let names = missing.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        let message = format!("others have a label and {names} none: {remedy}");
        Placed::new(check, Some(false), NOT_LABELLED, message)
    }
}

fn same_zone(nodes: &[&NodeRecord]) -> Placed {
    let sources = [Source {
        reason: "Label",
        label: "label topology.kubernetes.io/zone",
        place: |node| node.zone.as_deref().map(Some),
    }];
    let remedy = "give the nodes the label topology.kubernetes.io/zone, as cloud providers do";
    same(CheckName::SameZone, nodes, &sources, remedy)
}

fn group(node: &NodeRecord, evidence: GroupEvidence) -> Place<'_> {
    let record = node.groups.iter().find(|record| record.evidence == evidence)?;
    Some(record.group.as_deref())
}

fn same_group(nodes: &[&NodeRecord]) -> Placed {
    let sources = [
        Source {
            reason: "KarpenterLabel",
            label: "label karpenter.k8s.aws/placement-group-id",
            place: |node| group(node, GroupEvidence::KarpenterLabel),
        },
        Source {
            reason: "Label",
            label: "label dragstrip.dev/placement-group",
            place: |node| group(node, GroupEvidence::Label),
        },
    ];
    let remedy = "label the nodes with dragstrip.dev/placement-group=GROUP";
    let mut placed = same(CheckName::SamePlacementGroup, nodes, &sources, remedy);
    placed.message.push_str(&shared_layers(nodes));
    placed
}

/// How many layers of EC2's network all `nodes` share, as a part of a message; empty if a node has no labels.
fn shared_layers(nodes: &[&NodeRecord]) -> String {
    let layers = nodes.iter().map(|node| node.network_layers.len()).min().unwrap_or_default();
    let names = |layer| nodes.iter().map(|node| &node.network_layers[layer]).collect::<BTreeSet<_>>();
    match (0..layers).take_while(|layer| names(*layer).len() == 1).count() {
        _ if layers == 0 => String::new(),
        shared => format!(
            "; they share {shared} of {layers} layers of EC2's network (labels topology.k8s.aws/network-node-layer-*)"
        ),
    }
}

/// The sum over all machines: one that has several nodes counts once.
fn sum(nodes: &[&NodeRecord], pick: fn(&NodeRecord) -> Option<u64>) -> Option<u64> {
    let machines: BTreeMap<&str, &NodeRecord> = nodes.iter().map(|node| (node.machine(), *node)).collect();
    machines.values().map(|node| pick(node)).sum()
}

fn split<'a>(nodes: &[&'a NodeRecord]) -> (Vec<&'a NodeRecord>, Vec<&'a NodeRecord>) {
    let of = |pick: fn(&NodeRecord) -> bool| nodes.iter().copied().filter(|node| pick(node)).collect();
    (of(|node| node.serves), of(|node| node.loads))
}

/// Nodes of clients and servers that are one machine.
pub(super) fn shared<'a>(nodes: &[&'a NodeRecord]) -> Vec<&'a NodeRecord> {
    let (servers, clients) = split(nodes);
    let on = |side: &[&NodeRecord], node: &NodeRecord| side.iter().any(|one| one.machine() == node.machine());
    let both = |node: &&NodeRecord| (node.serves || node.loads) && on(&servers, node) && on(&clients, node);
    nodes.iter().copied().filter(both).collect()
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
    let sides = format!("clients on {}, servers on {}", each(&clients, strength), each(&servers, strength));
    if !shared(nodes).is_empty() {
        return Placed::new(check, None, "SharedNode", format!("both share a machine: {sides}"));
    }
    let of = |pick: fn(&NodeRecord) -> Option<u64>| sum(&clients, pick).zip(sum(&servers, pick));
    let Some((client_cpus, server_cpus)) = of(|node| node.allocatable_millicpus) else {
        return Placed::new(check, None, NOT_KNOWN, sides);
    };
    let networks = of(|node| node.network_megabits_per_second);
    let (holds, reason) = match networks {
        _ if client_cpus <= server_cpus => (false, "NotMoreCPUs"),
        Some((client, server)) if client < server => (false, "LessNetwork"),
        Some(_) => (true, "MoreCPUsAndNoLessNetwork"),
        None => (true, "MoreCPUs"),
    };
    Placed::new(check, Some(holds), reason, sides)
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
    Placed::new(
        check,
        Some(false),
        "SharedNode",
        format!("clients and servers share a machine: {}", each(&shared, side)),
    )
}

/// Whether every server has CPUs of its own, and every client that requests whole ones:
/// as many as it requests, fewer than the machine has, and none that another one has.
/// `complete` if no more will be known.
pub fn exclusive_cpus(sets: &[CpuSetRecord], complete: bool) -> Placed {
    let check = CheckName::ExclusiveCPUs;
    let shown = |set: &CpuSetRecord| {
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
    let requests = |set: &CpuSetRecord| set.serves || set.whole_cpus.is_some();
    if let Some((set, _)) = known.iter().find(|one| requests(one.0) && !own(one)) {
        let message = format!(
            "{}: the kubelet's CPU manager policy must be static and the CPUs whole, with limits equal to requests: cpu.exclusive",
            shown(set)
        );
        return Placed::new(check, Some(false), "SharedCPUs", message);
    }
    let pairs = || {
        known.iter().enumerate().flat_map(|(index, one)| known[..index].iter().map(move |other| (other, one)))
    };
    let overlap = pairs().find(|(one, other)| one.0.node == other.0.node && !one.1.is_disjoint(&other.1));
    if let Some((one, other)) = overlap {
        let message = format!("{}; {}", shown(one.0), shown(other.0));
        return Placed::new(check, Some(false), "OverlappingCPUs", message);
    }
    if !known.iter().any(|(set, _)| set.serves) || !complete || known.len() < sets.len() {
        let reason = if complete { NOT_KNOWN } else { NOT_YET };
        let seen: Vec<String> = known.iter().map(|(set, _)| shown(set)).collect();
        let seen = if seen.is_empty() { "no container's CPUs are known".to_owned() } else { seen.join("; ") };
        return Placed::new(check, None, reason, seen);
    }
    let seen: Vec<String> = known.iter().take(LISTED).map(|(set, _)| shown(set)).collect();
    Placed::new(check, Some(true), "SeenFromInside", seen.join("; "))
}

/// What the server reports of its I/O and threads, of which `declared` are; `None` of a
/// server that is not Dragstrip's.
pub fn of_server(truth: Option<&ServerTruth>, declared: Option<i32>) -> [Placed; 2] {
    const REPORTED: &str = "ReportedByServer";
    const NOT_REPORTED: &str = "NotReported";
    let check = CheckName::IoUring;
    let io_uring = match truth.and_then(|truth| truth.io_interface.as_deref()) {
        Some(interface) => {
            let holds = interface.replace('_', "").starts_with("iouring");
            let message = format!("the server's I/O interface is {interface}");
            Placed::new(check, Some(holds), REPORTED, message)
        }
        None => Placed::new(check, None, NOT_REPORTED, "the server does not report its I/O interface"),
    };
    let check = CheckName::ThreadsAsRequested;
    let threads = match (truth.and_then(|truth| truth.threads), declared) {
        (Some(actual), Some(declared)) => {
            let message = format!("{declared} declared, the server runs with {actual}");
            Placed::new(check, Some(actual == declared), REPORTED, message)
        }
        (None, Some(_)) => Placed::new(check, None, NOT_REPORTED, "the server does not report its threads"),
        (_, None) => {
            Placed::new(check, None, SERVER_UNKNOWN, "no threads are declared for an external server")
        }
    };
    [io_uring, threads]
}

#[cfg(test)]
mod tests;

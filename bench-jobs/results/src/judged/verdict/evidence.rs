//! What the checks of one repetition look at, and what a check comes to.

use crate::{
    judged::limits,
    measured::usage::{ContainerUsage, HostUsage, ThreadUsage},
    ranges,
    result::{NodeRecord, PodResult, RepetitionResult, ServerRecord, WorkerRecord},
};
use dragstrip_crds::{
    run::Interval,
    workload::{Pacing, ToolSpec},
};
use std::collections::{BTreeMap, BTreeSet};

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Good,
    /// The evidence against the number, as one sentence.
    Bad(String),
    /// The same, and the parts of the measured time that it is about.
    BadDuring(String, Vec<Interval>),
    /// It could not be made, and why.
    NotMade(&'static str),
    /// There is nothing to check, such as the clients' start with one client.
    Pointless,
}

/// `bad` as evidence unless the number is `good`.
pub(super) fn unless(good: bool, bad: impl FnOnce() -> String) -> Found {
    if good { Found::Good } else { Found::Bad(bad()) }
}

/// A share from 0 to 1 for people.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 10.0 && percent != 0.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Share of the time in which a thread had work, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Busy {
    /// The thread and its owner.
    pub name: String,
    pub share: f64,
    /// The part of it in which the thread had no CPU.
    pub waiting: f64,
}

/// How busy the CPUs were that containers on a machine may use, and with whom.
pub(super) struct Machine<'a> {
    pub nodes: BTreeSet<&'a str>,
    /// Those CPUs as a list; `None` for all of the machine.
    pub list: Option<&'a str>,
    pub cpus: u32,
    /// CPU time of all processes on them.
    pub busy_seconds: f64,
    /// Time on them that the hypervisor gave to others.
    pub steal_seconds: f64,
    pub seconds: f64,
    /// CPUs that our clients and servers used which may use any of these.
    pub own_cpus: f64,
}

impl Machine<'_> {
    /// Its nodes and CPUs for people.
    pub fn name(&self) -> String {
        let nodes = self.nodes.iter().copied().collect::<Vec<_>>().join(", ");
        match self.list {
            Some(list) => format!("{nodes}, CPUs {list}"),
            None => nodes,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct OnNode<'a> {
    pub node: &'a str,
    pub usage: &'a ContainerUsage,
    pub host: &'a HostUsage,
}

impl<'a> OnNode<'a> {
    fn of(node: Option<&'a str>, usage: &'a ContainerUsage) -> Option<Self> {
        let host = usage.host.as_ref().filter(|host| usage.seconds > 0.0 && host.cpus > 0)?;
        Some(Self { node: node?, usage, host })
    }
}

/// That a CPU of any of these machines is used up, mostly by interrupts.
pub(super) fn interrupted<'a>(containers: impl Iterator<Item = OnNode<'a>>) -> Option<String> {
    let shares = containers.filter_map(|OnNode { node, usage, host }| {
        let cpu = host.most_interrupted.as_ref()?;
        let (interrupts, busy) = (cpu.interrupt_seconds / usage.seconds, cpu.busy_seconds / usage.seconds);
        let used_up = interrupts >= limits::INTERRUPTED && interrupts + busy >= limits::BUSY;
        used_up.then_some((interrupts, busy, node, cpu.cpu))
    });
    let (interrupts, busy, node, cpu) = shares.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!(
        "CPU {cpu} of {node} spent {} of the time in interrupts and {} in processes: spread the queues of its network interface over more CPUs",
        percent(interrupts),
        percent(busy)
    ))
}

/// Whether any CPU is in both lists; `None` is all of them.
fn share_cpus(one: Option<&str>, other: Option<&str>) -> bool {
    let ranges = |list: Option<&str>| list.and_then(ranges::ranges);
    let (Some(one), Some(other)) = (ranges(one), ranges(other)) else { return true };
    one.iter().any(|one| other.iter().any(|other| one.start() <= other.end() && other.start() <= one.end()))
}

/// What was recorded, and the tool that loaded.
pub(super) struct Evidence<'a> {
    pub result: &'a RepetitionResult,
    pub tool: &'a ToolSpec,
}

impl<'a> Evidence<'a> {
    pub fn clients(&self) -> impl Iterator<Item = (&'a str, &'a ContainerUsage)> {
        self.result.pods.iter().map(|pod| (pod.pod.as_str(), &pod.client))
    }

    pub fn servers(&self) -> impl Iterator<Item = (&'a str, &'a ContainerUsage)> {
        self.result.servers.iter().map(|server| (server.server.as_str(), &server.usage))
    }

    pub fn usages(&self) -> impl Iterator<Item = (&'a str, &'a ContainerUsage)> {
        self.clients().chain(self.servers())
    }

    /// The servers, as each client saw them.
    pub fn server_records(&self) -> impl Iterator<Item = &'a ServerRecord> {
        self.result.pods.iter().filter_map(|pod| pod.server.as_ref())
    }

    /// The load threads of all clients, the busiest first.
    pub fn client_threads(&self) -> Vec<Busy> {
        sorted(self.result.pods.iter().flat_map(load_threads).collect())
    }

    /// The threads of all servers, the busiest first.
    pub fn server_threads(&self) -> Vec<Busy> {
        sorted(self.servers().flat_map(|(name, usage)| threads_of(usage, usage.seconds, name)).collect())
    }

    /// Whether the load threads use their CPUs even while they wait.
    pub fn spins(&self) -> bool {
        let ToolSpec::Loadgen(spec) = self.tool else { return false };
        spec.rate.as_ref().is_some_and(|rate| rate.pacing == Pacing::Spin)
    }

    fn node(&self, name: &str) -> Option<&'a NodeRecord> {
        self.result.nodes.iter().find(|node| node.name == name)
    }

    pub fn machine_of(&self, name: &'a str) -> &'a str {
        self.node(name).map_or(name, NodeRecord::machine)
    }

    /// Whether a server of the target runs on one of `nodes`.
    pub fn serves(&self, nodes: &BTreeSet<&str>) -> bool {
        nodes.iter().any(|name| self.node(name).is_some_and(|node| node.serves))
    }

    /// What each client used whose machine's CPU time is known.
    pub fn clients_on_nodes(&self) -> impl Iterator<Item = OnNode<'a>> {
        self.result.pods.iter().filter_map(|pod| OnNode::of(pod.node.as_deref(), &pod.client))
    }

    /// What each client and server used whose machine's CPU time is known.
    pub fn on_nodes(&self) -> impl Iterator<Item = OnNode<'a>> {
        let servers = self.result.servers.iter();
        let servers = servers.filter_map(|server| OnNode::of(server.node.as_deref(), &server.usage));
        self.clients_on_nodes().chain(servers)
    }

    /// Every set of CPUs of a machine that a container may use, if their CPU time is known.
    pub fn machines(&self) -> Vec<Machine<'a>> {
        let mut machines: BTreeMap<(&str, Option<&str>), Machine<'a>> = BTreeMap::new();
        for OnNode { node, usage, host } in self.on_nodes() {
            let all = (host.cpus, host.busy_seconds, host.steal_seconds);
            let (cpus, busy_seconds, steal_seconds) = host
                .allowed
                .as_ref()
                .map_or(all, |allowed| (allowed.cpus, allowed.busy_seconds, allowed.steal_seconds));
            let allowed = host.allowed.as_ref().filter(|allowed| allowed.cpus < host.cpus);
            let list = allowed.map(|allowed| allowed.list.as_str());
            let (nodes, seconds, own_cpus) = (BTreeSet::new(), usage.seconds, 0.0);
            let new = Machine { nodes, list, cpus, busy_seconds, steal_seconds, seconds, own_cpus };
            machines.entry((self.machine_of(node), list)).or_insert(new).nodes.insert(node);
        }
        for OnNode { node, usage, host } in self.on_nodes() {
            let allowed = host.allowed.as_ref().map(|allowed| allowed.list.as_str());
            let here = self.machine_of(node);
            let its = machines.iter_mut().filter(|((of, list), _)| *of == here && share_cpus(*list, allowed));
            its.for_each(|(_, machine)| machine.own_cpus += usage.cpu_seconds / usage.seconds);
        }
        machines.into_values().collect()
    }
}

fn threads_of(usage: &ContainerUsage, seconds: f64, owner: &str) -> Vec<Busy> {
    let busy = |thread: &ThreadUsage| Busy {
        name: format!("{} of {owner}", thread.name),
        // One that is ready and has no CPU has work to do as well.
        share: ((thread.cpu_seconds + thread.waiting_seconds) / seconds).min(1.0),
        waiting: (thread.waiting_seconds / seconds).min(1.0),
    };
    if seconds > 0.0 { usage.threads.iter().map(busy).collect() } else { Vec::new() }
}

/// The load threads of `pod`, as its runner sampled them or as the tool itself reports them.
fn load_threads(pod: &PodResult) -> Vec<Busy> {
    // memtier ends up to a second after its load.
    let sampled = threads_of(&pod.client, pod.client.seconds.min(pod.window.seconds), &pod.pod);
    if !sampled.is_empty() || pod.window.seconds <= 0.0 {
        return sampled;
    }
    pod.workers.iter().map(|worker| of_worker(pod, worker)).filter(|thread| thread.share > 0.0).collect()
}

/// A thread that the tool of `pod` reports: the fuller of its CPU time and its event loop. The loop's
/// share is of the thread's own part of the window: readers may begin after the writers.
fn of_worker(pod: &PodResult, worker: &WorkerRecord) -> Busy {
    let share = |seconds: f64| (seconds / pod.window.seconds).min(1.0);
    let (used, waiting) = (share(worker.cpu_seconds + worker.waiting_seconds), share(worker.waiting_seconds));
    let name = format!("{} {} of {}", worker.role, worker.index, pod.pod);
    let event_loop = worker.event_loop_utilization;
    if event_loop > used {
        return Busy { name: format!("event loop of {name}"), share: event_loop.min(1.0), waiting };
    }
    Busy { name, share: used, waiting }
}

pub(super) fn sorted(mut threads: Vec<Busy>) -> Vec<Busy> {
    threads.sort_by(|one, other| other.share.total_cmp(&one.share));
    threads
}

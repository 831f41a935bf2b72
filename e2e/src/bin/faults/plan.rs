//! What a seed stands for: a run, a fault, and the moment at which the fault is injected. Pure.

use clap::ValueEnum;
use dragstrip_e2e::{manifests::against, nodes::on};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
pub enum Fault {
    None,
    ClientKilled,
    ToolKilled,
    ClientDeleted,
    ClientEvicted,
    ClientOutOfMemory,
    ServerKilled,
    ServerFrozen,
    ServerRestarted,
    ServerOutOfMemory,
    KubeletRestarted,
    ContainerdRestarted,
    NodeLost,
    DiskFull,
    ClientClockStepped,
    OperatorClockStepped,
    ApiserverRestarted,
    EtcdRestarted,
    NamespaceDeleted,
    ImageMissing,
}

/// How often each is drawn: what takes longer, less often.
const WEIGHTS: [(Fault, u32); 20] = [
    (Fault::None, 2),
    (Fault::ClientKilled, 8),
    (Fault::ToolKilled, 5),
    (Fault::ClientDeleted, 6),
    (Fault::ClientEvicted, 7),
    (Fault::ClientOutOfMemory, 8),
    (Fault::ServerKilled, 7),
    (Fault::ServerFrozen, 9),
    (Fault::ServerRestarted, 4),
    (Fault::ServerOutOfMemory, 3),
    (Fault::KubeletRestarted, 6),
    (Fault::ContainerdRestarted, 4),
    (Fault::NodeLost, 1),
    (Fault::DiskFull, 6),
    (Fault::ClientClockStepped, 6),
    (Fault::OperatorClockStepped, 3),
    (Fault::ApiserverRestarted, 5),
    (Fault::EtcdRestarted, 4),
    (Fault::NamespaceDeleted, 4),
    (Fault::ImageMissing, 2),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Fault {
    /// Whether it needs a client pod.
    fn hits_a_client(self) -> bool {
        matches!(
            self,
            Self::ClientKilled
                | Self::ToolKilled
                | Self::ClientDeleted
                | Self::ClientEvicted
                | Self::ClientOutOfMemory
                | Self::ClientClockStepped
        )
    }

    /// Whether every run feels it, so that only one lane at a time injects it.
    pub fn is_shared(self) -> bool {
        matches!(
            self,
            Self::KubeletRestarted
                | Self::ContainerdRestarted
                | Self::NodeLost
                | Self::OperatorClockStepped
                | Self::ApiserverRestarted
                | Self::EtcdRestarted
        )
    }

    /// Whether a server that it hit must not be used again: kubelets wait ever longer before they
    /// restart a container once more.
    pub fn spoils_the_server(self) -> bool {
        matches!(self, Self::ServerKilled | Self::ServerOutOfMemory | Self::NodeLost | Self::NamespaceDeleted)
    }

    /// When it may be injected.
    fn moments(self) -> &'static [Moment] {
        use Moment::{BeforeStart, BetweenPhases, Collecting, InLoad, Preparing, StartLine};
        match self {
            Self::ToolKilled => &[InLoad],
            // A container that runs needs its image no more.
            Self::ImageMissing => &[BeforeStart, Collecting, BetweenPhases],
            _ if self.hits_a_client() => &[Preparing, StartLine, InLoad, InLoad, Collecting],
            _ => &[BeforeStart, Preparing, StartLine, InLoad, InLoad, Collecting, BetweenPhases],
        }
    }

    /// How long it lasts at most, in seconds, if it ends by itself.
    fn longest_seconds(self) -> f64 {
        match self {
            Self::ServerFrozen | Self::EtcdRestarted | Self::ApiserverRestarted => 4.0,
            Self::NodeLost => 15.0,
            _ => 6.0,
        }
    }
}

/// When a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Moment {
    /// As soon as the run exists.
    BeforeStart,
    /// The phase's client pods start.
    Preparing,
    /// The client pods wait for their start.
    StartLine,
    /// The load runs.
    InLoad,
    /// The load has ended; its result is delivered, read and stored.
    Collecting,
    /// The first phase's result is stored, the second phase begins.
    BetweenPhases,
}

/// Where the fault is, if client and server have one each: kubelet, containerd, node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// A phase of a run.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// Whether it writes or reads.
    pub writes: bool,
    /// How long it loads.
    pub duration: Duration,
    pipeline: u32,
}

/// A run and its fault.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub fault: Fault,
    pub moment: Moment,
    /// Into which phase, from 0.
    pub phase: usize,
    /// How far into the moment, from 0 to 1.
    pub fraction: f64,
    pub phases: Vec<Phase>,
    pub pods: u32,
    pub retries: u32,
    pub side: Side,
    /// How long the fault lasts, if it ends by itself.
    pub lasts: Duration,
    /// By how much a clock is stepped, in seconds.
    pub step_seconds: f64,
}

/// The run's timeout.
pub const TIMEOUT: Duration = Duration::from_secs(120);

fn weighted(random: &mut StdRng) -> Fault {
    let total = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let mut left: u32 = random.random_range(0..total);
    for (fault, weight) in WEIGHTS {
        if left < weight {
            return fault;
        }
        left -= weight;
    }
    Fault::None
}

impl Plan {
    /// What `seed` stands for.
    pub fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let fault = weighted(&mut random);
        let moments = fault.moments();
        let moment = moments[random.random_range(0..moments.len())];
        let two = moment == Moment::BetweenPhases || random.random_bool(0.25);
        let phases: Vec<Phase> = (0..if two { 2 } else { 1 })
            .map(|index| Phase {
                writes: index == 0,
                duration: Duration::from_millis(random.random_range(10..=20) * 100),
                pipeline: if random.random_bool(0.5) { 1 } else { 8 },
            })
            .collect();
        // From 50 ms to a minute, as many small ones as large ones, forward and back.
        let step = 0.05 * 1200_f64.powf(random.random());
        Self {
            seed,
            fault,
            moment,
            phase: if moment == Moment::BetweenPhases { 1 } else { random.random_range(0..phases.len()) },
            fraction: random.random(),
            phases,
            pods: if random.random_bool(0.25) { 2 } else { 1 },
            retries: u32::from(random.random_bool(0.5)),
            side: if random.random_bool(0.7) { Side::Client } else { Side::Server },
            lasts: Duration::from_secs_f64(random.random::<f64>() * fault.longest_seconds()),
            step_seconds: if random.random_bool(0.5) { step } else { -step },
        }
    }

    /// Name of the run.
    pub fn run(&self) -> String {
        format!("seed-{}", self.seed)
    }

    /// Name of the phase with this index.
    pub fn phase_name(index: usize) -> String {
        format!("phase-{}", index + 1)
    }

    /// The run's spec, in YAML, against the Datastore redis and with its clients on `node`.
    pub fn spec(&self, node: &str) -> String {
        use fmt::Write as _;
        let mut text = "phases:\n".to_owned();
        for (index, phase) in self.phases.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "- name: {}\n  warmup: 0s\n  loadgen: {{ratio: '{}', keyMaximum: 9999, duration: {}ms, pipeline: {}}}",
                Self::phase_name(index),
                if phase.writes { "1:0" } else { "0:1" },
                phase.duration.as_millis(),
                phase.pipeline,
            );
        }
        let clients = format!("clients: {{pods: {}, placement: {}}}", self.pods, on(node));
        let more = format!("{clients}\nmaxRetries: {}\ntimeout: {}s\n", self.retries, TIMEOUT.as_secs());
        against("redis", &(text + &more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_thousand_seeds_inject_every_fault_at_every_moment_that_it_has() {
        let plans: Vec<Plan> = (1..=1000).map(Plan::of).collect();
        for (fault, _) in WEIGHTS {
            let drawn: BTreeSet<Moment> =
                plans.iter().filter(|plan| plan.fault == fault).map(|plan| plan.moment).collect();
            let all: BTreeSet<Moment> = fault.moments().iter().copied().collect();
            assert!(fault == Fault::NodeLost || drawn == all, "{fault} at {drawn:?} only, not at {all:?}");
            assert!(!drawn.is_empty(), "no {fault}");
        }
    }

    #[test]
    fn a_seed_stands_for_the_same_run_every_time() {
        assert_eq!(Plan::of(7).spec("node"), Plan::of(7).spec("node"));
        assert_ne!(Plan::of(7).spec("node"), Plan::of(8).spec("node"));
    }
}

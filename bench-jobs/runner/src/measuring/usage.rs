//! What a container, its machine and its pod's network used while the load ran. Touches
//! the cgroup below the root it is given, /proc, and the kernel's account of ended children.

use crate::measuring::{
    cgroup, host, network,
    processes::{self, Accounting},
};
use dragstrip_results::usage::{ContainerUsage, NetworkUsage};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use std::{path::Path, time::Instant};

/// What the machine and the pod's network have used since they began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Around {
    pub host: Option<host::Times>,
    pub network: Option<NetworkUsage>,
}

impl Around {
    pub fn read() -> Self {
        Self { host: host::times(), network: network::usage() }
    }

    /// `own`, what a container used since an earlier reading, with what the machine and the network did
    /// meanwhile, if both readings report it.
    #[must_use]
    pub fn since(&self, before: &Self, own: ContainerUsage) -> ContainerUsage {
        let allowed = own.cgroup.as_ref().map(|cgroup| cgroup.cpuset.as_str());
        let host = self.host.as_ref().zip(before.host.as_ref());
        let network = self.network.as_ref().zip(before.network.as_ref());
        ContainerUsage {
            host: host.map(|(after, before)| host::usage_between(before, after, allowed)),
            network: network.map(|(after, before)| network_since(after, before)),
            ..own
        }
    }
}

fn network_since(after: &NetworkUsage, before: &NetworkUsage) -> NetworkUsage {
    NetworkUsage {
        received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
        sent_bytes: after.sent_bytes.saturating_sub(before.sent_bytes),
        sent_segments: after.sent_segments.saturating_sub(before.sent_segments),
        retransmitted_segments: after.retransmitted_segments.saturating_sub(before.retransmitted_segments),
    }
}

#[derive(Debug)]
pub struct Opening {
    accounting: Accounting,
    at: Instant,
    cgroup: Option<cgroup::Reading>,
    around: Around,
    megahertz: Option<[f64; 2]>,
}

pub fn open(accounting: Accounting) -> Opening {
    let megahertz = host::megahertz();
    Opening { accounting, at: Instant::now(), cgroup: own(accounting), around: Around::read(), megahertz }
}

/// What this container has used, or this process with its children.
fn own(accounting: Accounting) -> Option<cgroup::Reading> {
    match accounting {
        Accounting::Container => cgroup::read(Path::new(cgroup::OWN_ROOT)),
        Accounting::Processes => processes::read_own(),
    }
}

impl Opening {
    /// Closes the account: the usage of the complete container since it was opened, the
    /// runner's own share included; the ended tool's CPU time alone where the
    /// cgroup cannot be read.
    pub fn close(self) -> ContainerUsage {
        let around = Around::read();
        let own = match (self.cgroup, own(self.accounting)) {
            (Some(before), Some(after)) => cgroup::usage_between(&before, &after),
            _ => ContainerUsage { cpu_seconds: ended_children_seconds(), ..ContainerUsage::default() },
        };
        let own = ContainerUsage { seconds: self.at.elapsed().as_secs_f64(), ..own };
        with_clock_rates(around.since(&self.around, own), self.megahertz)
    }
}

/// `usage` with the range of clock rates `before` it and now.
pub fn with_clock_rates(mut usage: ContainerUsage, before: Option<[f64; 2]>) -> ContainerUsage {
    if let Some(host) = &mut usage.host {
        host.megahertz = before.into_iter().chain(host::megahertz()).reduce(host::wider);
    }
    usage
}

fn ended_children_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measuring::host::CpuTimes;
    use dragstrip_results::observed::CgroupUsage;

    #[test]
    fn only_usage_in_between_counts() {
        let reading = |busy, sent_bytes| {
            let all = CpuTimes { busy, ..CpuTimes::default() };
            let host = host::Times { all, cpus: vec![(3, all)] };
            Around { host: Some(host), network: Some(NetworkUsage { sent_bytes, ..NetworkUsage::default() }) }
        };
        let cgroup = CgroupUsage { cpuset: "2-3".into(), ..CgroupUsage::default() };
        let own = ContainerUsage { cgroup: Some(cgroup), ..ContainerUsage::default() };
        let between = reading(12.0, 500).since(&reading(10.0, 200), own.clone());
        let host = between.host.unwrap();
        assert!((host.busy_seconds - 2.0).abs() < 1e-9, "{host:?}");
        assert_eq!(host.allowed.map(|allowed| (allowed.list, allowed.cpus)), Some(("2-3".into(), 1)));
        assert_eq!(between.network.map(|network| network.sent_bytes), Some(300));
        assert_eq!(reading(12.0, 500).since(&Around::default(), own.clone()), own, "half is nothing");
    }

    #[test]
    fn an_account_covers_the_time_that_it_was_open() {
        let usage = open(Accounting::Container).close();
        assert!(usage.seconds < 5.0 && usage.host.is_some() && usage.network.is_some(), "{usage:?}");
    }
}

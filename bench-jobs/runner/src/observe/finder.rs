//! Finds the servers' processes and their containers: in a shared process namespace the same
//! user reaches each process's root, and so its cgroup, through /proc, and its open sockets,
//! which show the port that it listens on. Touches /proc and the servers' cgroups.

use crate::measuring::{
    cgroup::{self, Reading},
    processes::{self, Accounting},
};
use dragstrip_results::observed::CgroupUsage;
use procfs::{
    net::{TcpState, tcp, tcp6},
    process::{FDTarget, Process, all_processes},
};
use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
};

/// Process names of the engines' servers, as the kernel cuts them.
const SERVER_NAMES: [&str; 5] =
    ["dragonfly", "redis-server", "valkey-server", "keydb-server", "GarnetServer"];
const SANDBOX_NAME: &str = "pause";

#[derive(Debug, Clone)]
pub struct Servers {
    pub ports: Vec<u16>,
    pub accounting: Accounting,
}

impl Servers {
    /// What the server's `process` has used, or its container.
    pub fn read(&self, process: i32) -> Option<Reading> {
        match self.accounting {
            Accounting::Container => cgroup::read(&cgroup_root(process)),
            Accounting::Processes => processes::read(process),
        }
    }

    /// What all servers have used together; `None` where no process of theirs is found.
    pub fn usage(&self) -> Option<CgroupUsage> {
        let found = listeners(&self.ports).into_iter().flatten();
        found.filter_map(|process| Some(self.read(process)?.usage)).reduce(sum)
    }
}

/// Where the cgroup of a process's container is seen.
pub fn cgroup_root(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/root{}", cgroup::OWN_ROOT))
}

/// The process that listens on each of `ports`, where one is found.
pub fn listeners(ports: &[u16]) -> Vec<Option<i32>> {
    let entries = [tcp(), tcp6()].into_iter().flatten().flatten();
    let listening = entries.filter(|entry| entry.state == TcpState::Listen);
    let sockets: HashMap<u64, u16> =
        listening.map(|entry| (entry.inode, entry.local_address.port())).collect();
    let mut found = vec![None; ports.len()];
    for process in candidates(named_processes(), std::process::id().cast_signed()) {
        if found.iter().all(Option::is_some) {
            break;
        }
        let listened = ports_of(process, &sockets);
        for (port, found) in ports.iter().zip(&mut found) {
            // Children have their parent's sockets too, and come after it.
            if found.is_none() && listened.contains(port) {
                *found = Some(process);
            }
        }
    }
    found
}

/// The ports that a process listens on, by the sockets that it holds.
fn ports_of(process: i32, sockets: &HashMap<u64, u16>) -> BTreeSet<u16> {
    let opened = Process::new(process).and_then(|process| process.fd());
    let sockets_of = opened.into_iter().flatten().filter_map(|file| match file.ok()?.target {
        FDTarget::Socket(inode) => sockets.get(&inode).copied(),
        _ => None,
    });
    sockets_of.collect()
}

/// Two containers as one. Their peaks need not have been at the same time: the
/// sum is the most that both can have used.
// Taken by value, as Iterator::reduce hands them over.
#[allow(clippy::needless_pass_by_value)]
fn sum(one: CgroupUsage, other: CgroupUsage) -> CgroupUsage {
    let cpusets: BTreeSet<&str> = [one.cpuset.as_str(), other.cpuset.as_str()].into();
    CgroupUsage {
        cpuset: cpusets.into_iter().collect::<Vec<_>>().join(","),
        cpu_seconds: one.cpu_seconds + other.cpu_seconds,
        throttled_seconds: one.throttled_seconds + other.throttled_seconds,
        throttled_periods: one.throttled_periods + other.throttled_periods,
        memory_bytes: one.memory_bytes + other.memory_bytes,
        inactive_file_bytes: one.inactive_file_bytes + other.inactive_file_bytes,
        memory_peak_bytes: one.memory_peak_bytes + other.memory_peak_bytes,
    }
}

/// Which processes may be a server's: the engines' first. Pure.
fn candidates(processes: Vec<(i32, String)>, own: i32) -> Vec<i32> {
    let mut ranked: Vec<(bool, i32)> = processes
        .into_iter()
        .filter(|(id, name)| *id != own && name != SANDBOX_NAME)
        .map(|(id, name)| (!SERVER_NAMES.contains(&name.as_str()), id))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, id)| id).collect()
}

fn named_processes() -> Vec<(i32, String)> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes.filter_map(|process| Some((process.pid, process.stat().ok()?.comm))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Vec<(i32, String)> {
        [(1, "pause"), (7, "tini"), (9, "dragstrip-runne"), (12, "dragonfly"), (30, "sh")]
            .map(|(id, name)| (id, name.to_owned()))
            .to_vec()
    }

    #[test]
    fn an_engines_server_comes_first() {
        assert_eq!(candidates(pod(), 9), [12, 7, 30]);
    }

    #[test]
    fn containers_are_summed() {
        let usage = |cpuset: &str, cpu_seconds, memory_bytes| CgroupUsage {
            cpuset: cpuset.to_owned(),
            cpu_seconds,
            memory_bytes,
            ..CgroupUsage::default()
        };
        let both = sum(usage("1", 1.5, 10), usage("2", 2.0, 30));
        assert_eq!((both.cpuset.as_str(), both.cpu_seconds, both.memory_bytes), ("1,2", 3.5, 40));
        assert_eq!(sum(usage("0-3", 0.0, 0), usage("0-3", 0.0, 0)).cpuset, "0-3");
    }

    #[test]
    fn an_observer_alone_finds_no_server() {
        assert!(candidates(vec![(1, "pause".into()), (9, "x".into())], 9).is_empty());
    }
}

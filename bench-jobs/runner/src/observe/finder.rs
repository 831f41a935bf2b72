//! Finds the server's container: in a shared process namespace each process's
//! root, and so its cgroup, is reachable through /proc by the same user; and so are
//! its open sockets, which show the port it listens on. Touches /proc.

use crate::measuring::{
    cgroup,
    processes::{self, Accounting},
};
use dragstrip_results::observed::CgroupUsage;
use procfs::{
    net::{TcpState, tcp, tcp6},
    process::{FDTarget, Process as OpenedProcess},
};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::PathBuf,
};

/// Process names of the engines' servers, as the kernel cuts them.
const SERVER_NAMES: [&str; 5] =
    ["dragonfly", "redis-server", "valkey-server", "keydb-server", "GarnetServer"];
const SANDBOX_NAME: &str = "pause";
/// Longest process name that the kernel stores.
const MAXIMUM_NAME_BYTES: usize = 15;

#[derive(Debug, Clone)]
pub struct Servers {
    pub ports: Vec<u16>,
    /// Their processes' name, where it is declared.
    pub process_name: Option<String>,
    pub accounting: Accounting,
}

type Process = (u32, String);

/// The usage of the server's container, or of all containers when the pod runs
/// several servers; `None` where no other process of the pod can be seen.
/// Without containers it is that of the processes that listen.
pub fn server_usage(servers: &Servers) -> Option<CgroupUsage> {
    let name = servers.process_name.as_deref();
    if servers.accounting == Accounting::Processes {
        let listening = listeners(&servers.ports, name).into_iter().flatten();
        return listening.filter_map(|process| Some(processes::read(process)?.usage)).reduce(sum);
    }
    let candidates = candidates(processes(), std::process::id(), name);
    let roots = candidates.into_iter().filter_map(|id| i32::try_from(id).ok().map(cgroup_root));
    let usages = roots.filter_map(|root| Some(cgroup::read(&root)?.usage));
    // Each server is the first process of a container of its own.
    usages.take(servers.ports.len()).reduce(sum)
}

/// Where the cgroup of a process's container is seen.
pub fn cgroup_root(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/root{}", cgroup::OWN_ROOT))
}

/// The process that listens on each of `ports`, where one is found. `name` is its
/// process name where it is declared.
pub fn listeners(ports: &[u16], name: Option<&str>) -> Vec<Option<i32>> {
    let entries = [tcp(), tcp6()].into_iter().flatten().flatten();
    let listening = entries.filter(|entry| entry.state == TcpState::Listen);
    let sockets: HashMap<u64, u16> =
        listening.map(|entry| (entry.inode, entry.local_address.port())).collect();
    let mut found = vec![None; ports.len()];
    for id in candidates(processes(), std::process::id(), name) {
        if found.iter().all(Option::is_some) {
            break;
        }
        let Ok(process) = i32::try_from(id) else { continue };
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
    let opened = OpenedProcess::new(process).and_then(|process| process.fd());
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

/// Which processes may be the server's, best first. Pure.
fn candidates(processes: Vec<Process>, own: u32, name: Option<&str>) -> Vec<u32> {
    let rank = |process: &str| match name {
        Some(wanted) if process == cut(wanted) => Some(0),
        Some(_) => None,
        None if SERVER_NAMES.contains(&process) => Some(0),
        // The container's entry point, or a server of another name.
        None => Some(1),
    };
    let mut ranked: Vec<(u8, u32)> = processes
        .into_iter()
        .filter(|(id, process)| *id != own && process != SANDBOX_NAME)
        .filter_map(|(id, process)| Some((rank(&process)?, id)))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, id)| id).collect()
}

fn cut(name: &str) -> &str {
    name.get(..MAXIMUM_NAME_BYTES).unwrap_or(name)
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|id| Some((id, fs::read_to_string(format!("/proc/{id}/comm")).ok()?.trim().to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Vec<Process> {
        [(1, "pause"), (7, "tini"), (9, "dragstrip-runne"), (12, "dragonfly"), (30, "sh")]
            .map(|(id, name)| (id, name.to_owned()))
            .to_vec()
    }

    #[test]
    fn a_known_server_comes_first() {
        assert_eq!(candidates(pod(), 9, None), [12, 7, 30]);
    }

    #[test]
    fn a_declared_name_is_the_only_one() {
        assert_eq!(candidates(pod(), 9, Some("sh")), [30]);
        let pod = vec![(4, "a-very-long-ser".to_owned())];
        assert_eq!(candidates(pod, 9, Some("a-very-long-server")), [4]);
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
    fn alone_there_is_no_server() {
        assert!(candidates(vec![(1, "pause".into()), (9, "x".into())], 9, None).is_empty());
    }
}

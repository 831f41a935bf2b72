//! The CPUs of a machine, divided between server and clients. [`available`] reads /sys and
//! calls the kernel; the rest is pure.

use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};
use std::fs;

/// A CPU that this process may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    pub number: usize,
    /// The number of the first CPU of its core.
    pub core: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    pub server: Vec<usize>,
    /// The clients', the observer's and this process's.
    pub clients: Vec<usize>,
}

fn core_of(number: usize) -> usize {
    let siblings = format!("/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list");
    let listed = fs::read_to_string(siblings).unwrap_or_default();
    let first = listed.trim().split([',', '-']).next().unwrap_or_default();
    first.parse().unwrap_or(number)
}

/// The CPUs that this process may run on; none if they are unknown.
pub fn available() -> Vec<Cpu> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    let all = (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false));
    all.map(|number| Cpu { number, core: core_of(number) }).collect()
}

/// Divides `cpus` between a server and clients with these numbers of threads: the server gets
/// one for each thread, or its share if they are scarce. A single CPU cannot be divided.
pub fn divide(cpus: &[Cpu], server_threads: usize, client_threads: usize) -> Option<Division> {
    if cpus.len() < 2 {
        return None;
    }
    let (server, clients) = (server_threads.max(1), client_threads.max(1));
    let wanted = server.saturating_add(clients);
    let share = if wanted <= cpus.len() {
        server
    } else {
        // Rounded to the nearest.
        (cpus.len() * server + wanted / 2) / wanted
    };
    let mut sorted = cpus.to_vec();
    sorted.sort_by_key(|cpu| (cpu.core, cpu.number));
    let (server, clients) = sorted.split_at(share.clamp(1, cpus.len() - 1));
    let numbers = |cpus: &[Cpu]| {
        let mut numbers: Vec<usize> = cpus.iter().map(|cpu| cpu.number).collect();
        numbers.sort_unstable();
        numbers
    };
    Some(Division { server: numbers(server), clients: numbers(clients) })
}

/// Sorted `numbers` as a kernel list such as 0-3,8.
pub fn listed(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let ranges = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_a_kernel_list() {
        assert_eq!(listed(&[0, 1, 2, 8]), "0-2,8");
    }

    /// Cores with several CPUs each, numbered as Linux does: first threads first.
    fn machine(cores: usize, threads: usize) -> Vec<Cpu> {
        (0..cores * threads).map(|number| Cpu { number, core: number % cores }).collect()
    }

    fn division(cpus: &[Cpu], server: usize, clients: usize) -> (String, String) {
        let division = divide(cpus, server, clients).unwrap();
        assert!(division.server.iter().all(|cpu| !division.clients.contains(cpu)), "they overlap");
        (listed(&division.server), listed(&division.clients))
    }

    #[test]
    fn the_server_has_a_cpu_for_each_thread_and_clients_have_the_rest() {
        assert_eq!(division(&machine(8, 1), 2, 4), ("0-1".into(), "2-7".into()));
        assert_eq!(division(&machine(2, 1), 1, 1), ("0".into(), "1".into()));
    }

    #[test]
    fn scarce_cpus_are_shared_and_each_side_has_at_least_one() {
        assert_eq!(division(&machine(2, 1), 4, 4), ("0".into(), "1".into()));
        assert_eq!(division(&machine(4, 1), 60, 1), ("0-2".into(), "3".into()));
        assert_eq!(division(&machine(4, 1), 1, 60), ("0".into(), "1-3".into()));
        assert_eq!(divide(&machine(1, 1), 1, 1), None, "one CPU cannot be divided");
    }

    #[test]
    fn a_core_is_split_only_if_necessary() {
        let two_threads = machine(4, 2);
        assert_eq!(division(&two_threads, 2, 2), ("0,4".into(), "1-3,5-7".into()));
        assert_eq!(division(&two_threads, 1, 2), ("0".into(), "1-7".into()));
    }

    #[test]
    fn this_machine_has_cpus() {
        assert!(!available().is_empty());
    }
}

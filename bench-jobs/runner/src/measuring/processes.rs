//! What processes use that have no container of their own: the kernel's account of each, in
//! the form of a cgroup's. It shows no throttling. Touches /proc.

use crate::measuring::cgroup::Reading;
use dragstrip_results::{observed::CgroupUsage, ranges};
use procfs::{
    WithCurrentSystemInfo as _,
    process::{Process, Stat, all_processes},
};

/// Whose account of CPU and memory is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Accounting {
    #[default]
    Container,
    /// That of the processes alone: there is no container.
    Processes,
}

impl Accounting {
    pub fn new(without_container: bool) -> Self {
        if without_container { Self::Processes } else { Self::Container }
    }
}

/// CPU time of a process and of its ended children, in seconds.
fn cpu_seconds(stat: &Stat) -> f64 {
    let children = u64::try_from(stat.cutime + stat.cstime).unwrap_or_default();
    (stat.utime + stat.stime + children) as f64 / procfs::ticks_per_second() as f64
}

/// What the process with this number has used; `None` where it is gone.
pub fn read(process: i32) -> Option<Reading> {
    let opened = Process::new(process).ok()?;
    let (stat, status) = (opened.stat().ok()?, opened.status().ok()?);
    let bytes = |kibibytes: Option<u64>| kibibytes.unwrap_or_default() * 1024;
    Some(Reading {
        usage: CgroupUsage {
            cpu_seconds: cpu_seconds(&stat),
            cpuset: ranges::text(&status.cpus_allowed_list.unwrap_or_default()),
            memory_bytes: bytes(status.vmrss),
            memory_peak_bytes: bytes(status.vmhwm),
            ..CgroupUsage::default()
        },
        cpu_limit: None,
        cpu_pressure_seconds: None,
        major_page_faults: stat.majflt,
        swapped_bytes: bytes(status.vmswap),
    })
}

/// What this process has used with its children, those that run included.
pub fn read_own() -> Option<Reading> {
    let own = i32::try_from(std::process::id()).ok()?;
    let mut reading = read(own)?;
    for child in all_processes().ok()?.flatten() {
        if let Ok(stat) = child.stat()
            && stat.ppid == own
        {
            reading.usage.cpu_seconds += cpu_seconds(&stat);
            reading.usage.memory_bytes += stat.rss_bytes().get();
            reading.major_page_faults += stat.majflt;
        }
    }
    // Its own peak alone would be less than what all use now.
    reading.usage.memory_peak_bytes = reading.usage.memory_peak_bytes.max(reading.usage.memory_bytes);
    Some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_read_with_its_cpus_and_memory_and_without_a_limit() {
        let own = read(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.usage.memory_bytes > 100_000 && own.usage.memory_peak_bytes > 100_000, "{own:?}");
        assert!(!own.usage.cpuset.is_empty() && own.cpu_limit.is_none(), "{own:?}");
        assert_eq!(read(i32::MAX), None, "there is no such process");
    }

    #[test]
    fn the_cpu_time_of_a_child_counts_while_it_runs_and_after_its_end() {
        let before = read_own().unwrap().usage.cpu_seconds;
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let used = || read_own().unwrap().usage.cpu_seconds - before;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while used() < 0.2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let while_it_runs = used();
        busy.kill().unwrap();
        busy.wait().unwrap();
        // Times are added up as fractions.
        let after = used() + 1e-6;
        assert!(while_it_runs >= 0.2 && after >= while_it_runs, "{while_it_runs} s, then {after} s");
    }

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {}
}

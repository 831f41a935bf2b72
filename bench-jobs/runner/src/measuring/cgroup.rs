//! CPU and memory of a container, from its cgroup's files: version 1 with its
//! controllers' directories, and version 2 with one. Touches files below the
//! root it is given and nothing else.

use dragstrip_results::{observed::CgroupUsage, usage::ContainerUsage};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub const OWN_ROOT: &str = "/sys/fs/cgroup";

/// What a cgroup has used since it exists, and what it may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    pub usage: CgroupUsage,
    /// Its own CPU limit, in CPUs. The pod's limit is not visible here.
    pub cpu_limit: Option<f64>,
    /// Time in which a process of it was ready and had no CPU, in seconds.
    pub cpu_pressure_seconds: Option<f64>,
    /// Page faults that read the disk.
    pub major_page_faults: u64,
    pub swapped_bytes: u64,
}

/// Reads a cgroup's usage; `None` if its CPU time cannot be read. Other missing
/// values read as 0 or as an empty text.
pub fn read(root: &Path) -> Option<Reading> {
    if root.join("cgroup.controllers").exists() { read_unified(root) } else { read_legacy(root) }
}

pub fn usage_between(before: &Reading, after: &Reading) -> ContainerUsage {
    let (now, then) = (&after.usage, &before.usage);
    ContainerUsage {
        cpu_seconds: (now.cpu_seconds - then.cpu_seconds).max(0.0),
        throttled_seconds: (now.throttled_seconds - then.throttled_seconds).max(0.0),
        throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
        cpu_pressure_seconds: since(after.cpu_pressure_seconds, before.cpu_pressure_seconds),
        cpu_limit: after.cpu_limit,
        major_page_faults: after.major_page_faults.saturating_sub(before.major_page_faults),
        swapped_bytes: after.swapped_bytes.saturating_sub(before.swapped_bytes),
        cgroup: Some(now.clone()),
        ..ContainerUsage::default()
    }
}

/// The growth of a pressure, if both readings have it.
fn since(after: Option<f64>, before: Option<f64>) -> Option<f64> {
    Some((after? - before?).max(0.0))
}

/// The seconds in which some process waited, of a file with the kernel's pressure stall information.
fn pressure_seconds(file: &Path) -> Option<f64> {
    let text = text(file)?;
    let total = text.lines().find_map(|line| line.strip_prefix("some ")?.split_once("total="))?.1;
    Some(total.parse::<f64>().ok()? / 1e6)
}

fn read_unified(root: &Path) -> Option<Reading> {
    let statistics = text(&root.join("cpu.stat"))?;
    let memory = text(&root.join("memory.stat")).unwrap_or_default();
    let micros = |name| keyed(&statistics, name).unwrap_or_default() as f64 / 1e6;
    let usage = CgroupUsage {
        cpu_seconds: keyed(&statistics, "usage_usec")? as f64 / 1e6,
        throttled_seconds: micros("throttled_usec"),
        throttled_periods: keyed(&statistics, "nr_throttled").unwrap_or_default(),
        cpuset: text(&root.join("cpuset.cpus.effective")).unwrap_or_default(),
        memory_bytes: number(&root.join("memory.current")).unwrap_or_default(),
        inactive_file_bytes: keyed(&memory, "inactive_file").unwrap_or_default(),
        memory_peak_bytes: number(&root.join("memory.peak")).unwrap_or_default(),
    };
    // `max` is not a number: then there is no limit.
    let limit = text(&root.join("cpu.max")).unwrap_or_default();
    let (quota, period) = limit.split_once(' ').unwrap_or_default();
    Some(Reading {
        usage,
        cpu_limit: cpus(quota.parse().ok(), period.parse().ok()),
        cpu_pressure_seconds: pressure_seconds(&root.join("cpu.pressure")),
        major_page_faults: keyed(&memory, "pgmajfault").unwrap_or_default(),
        swapped_bytes: number(&root.join("memory.swap.current")).unwrap_or_default(),
    })
}

fn read_legacy(root: &Path) -> Option<Reading> {
    let cpu = controller(root, &["cpu,cpuacct", "cpu"]);
    let accounting = controller(root, &["cpu,cpuacct", "cpuacct"]);
    let statistics = text(&cpu.join("cpu.stat")).unwrap_or_default();
    let memory = root.join("memory");
    let kinds = text(&memory.join("memory.stat")).unwrap_or_default();
    let of_all = |name| keyed(&kinds, &format!("total_{name}")).or_else(|| keyed(&kinds, name));
    let cpuset = root.join("cpuset");
    let usage = CgroupUsage {
        cpu_seconds: number(&accounting.join("cpuacct.usage"))? as f64 / 1e9,
        throttled_seconds: keyed(&statistics, "throttled_time").unwrap_or_default() as f64 / 1e9,
        throttled_periods: keyed(&statistics, "nr_throttled").unwrap_or_default(),
        cpuset: ["cpuset.effective_cpus", "cpuset.cpus"]
            .iter()
            .find_map(|name| text(&cpuset.join(name)))
            .unwrap_or_default(),
        memory_bytes: number(&memory.join("memory.usage_in_bytes")).unwrap_or_default(),
        inactive_file_bytes: of_all("inactive_file").unwrap_or_default(),
        memory_peak_bytes: number(&memory.join("memory.max_usage_in_bytes")).unwrap_or_default(),
    };
    Some(Reading {
        usage,
        // -1 is not a number here: then there is no limit.
        cpu_limit: cpus(number(&cpu.join("cpu.cfs_quota_us")), number(&cpu.join("cpu.cfs_period_us"))),
        cpu_pressure_seconds: None,
        major_page_faults: of_all("pgmajfault").unwrap_or_default(),
        swapped_bytes: of_all("swap").unwrap_or_default(),
    })
}

/// A limit as CPUs; none where one of its numbers is missing.
fn cpus(quota: Option<u64>, period: Option<u64>) -> Option<f64> {
    Some(quota? as f64 / period.filter(|period| *period > 0)? as f64)
}

/// The first directory that exists: CPU controllers are mounted together or apart.
fn controller(root: &Path, names: &[&str]) -> PathBuf {
    names.iter().map(|name| root.join(name)).find(|path| path.is_dir()).unwrap_or_else(|| root.to_path_buf())
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The number behind `name` in lines of `name number`.
fn keyed(lines: &str, name: &str) -> Option<u64> {
    lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn expected() -> Reading {
        let usage = CgroupUsage {
            cpu_seconds: 12.5,
            throttled_seconds: 0.25,
            throttled_periods: 3,
            cpuset: "0-3".into(),
            memory_bytes: 4096,
            inactive_file_bytes: 1024,
            memory_peak_bytes: 8192,
        };
        Reading {
            usage,
            cpu_limit: Some(1.5),
            cpu_pressure_seconds: None,
            major_page_faults: 7,
            swapped_bytes: 512,
        }
    }

    #[test]
    fn version_two_is_read() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("cgroup.controllers", "cpu memory"),
                (
                    "cpu.stat",
                    "usage_usec 12500000\nuser_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 250000\n",
                ),
                ("cpuset.cpus.effective", "0-3\n"),
                (
                    "cpu.pressure",
                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
                ),
                ("memory.current", "4096\n"),
                ("memory.peak", "8192\n"),
                ("cpu.max", "150000 100000\n"),
                ("memory.stat", "anon 1\ninactive_file 1024\npgfault 900\npgmajfault 7\n"),
                ("memory.swap.current", "512\n"),
            ],
        );
        let expected = Reading { cpu_pressure_seconds: Some(2.5), ..expected() };
        assert_eq!(read(root.path()), Some(expected));
    }

    #[test]
    fn version_one_is_read_with_joined_and_with_separate_controllers() {
        for (cpu, accounting) in [("cpu,cpuacct", "cpu,cpuacct"), ("cpu", "cpuacct")] {
            let root = tempfile::tempdir().unwrap();
            write(
                root.path(),
                &[
                    (&format!("{cpu}/cpu.stat"), "nr_periods 9\nnr_throttled 3\nthrottled_time 250000000\n"),
                    (&format!("{accounting}/cpuacct.usage"), "12500000000\n"),
                    ("cpuset/cpuset.cpus", "0-3\n"),
                    ("memory/memory.usage_in_bytes", "4096\n"),
                    ("memory/memory.max_usage_in_bytes", "8192\n"),
                    (&format!("{cpu}/cpu.cfs_quota_us"), "150000\n"),
                    (&format!("{cpu}/cpu.cfs_period_us"), "100000\n"),
                    (
                        "memory/memory.stat",
                        "swap 1\npgmajfault 2\ntotal_swap 512\ntotal_pgmajfault 7\ntotal_inactive_file 1024\n",
                    ),
                ],
            );
            assert_eq!(read(root.path()), Some(expected()));
        }
    }

    #[test]
    fn without_a_cgroup_there_is_no_usage() {
        assert_eq!(read(tempfile::tempdir().unwrap().path()), None);
    }

    #[test]
    fn a_missing_limit_is_absent() {
        let unified = tempfile::tempdir().unwrap();
        let files = [("cgroup.controllers", ""), ("cpu.stat", "usage_usec 1\n"), ("cpu.max", "max 100000\n")];
        write(unified.path(), &files);
        let legacy = tempfile::tempdir().unwrap();
        let files = [
            ("cpuacct/cpuacct.usage", "1\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ];
        write(legacy.path(), &files);
        for root in [unified, legacy] {
            assert_eq!(read(root.path()).unwrap().cpu_limit, None);
        }
    }

    #[test]
    fn usage_is_a_difference() {
        let usage = CgroupUsage { cpu_seconds: 10.0, throttled_periods: 1, ..CgroupUsage::default() };
        let before = Reading { usage, major_page_faults: 5, swapped_bytes: 1024, ..Reading::default() };
        let usage = usage_between(&before, &expected());
        assert!((usage.cpu_seconds - 2.5).abs() < 1e-9);
        assert_eq!((usage.throttled_periods, usage.major_page_faults), (2, 2));
        assert_eq!(usage.swapped_bytes, 0, "memory that came back from swap does not count");
        assert_eq!((usage.cpu_limit, usage.cgroup), (Some(1.5), Some(expected().usage)));
    }
}

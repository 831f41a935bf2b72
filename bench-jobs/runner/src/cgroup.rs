//! CPU and memory of a container, from its cgroup's files: version 1 with its
//! controllers' directories, and version 2 with one. Touches files below the
//! root it is given and nothing else.

use dragstrip_results::{observed::CgroupUsage, usage::ContainerUsage};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where a container sees its own cgroup.
pub const OWN_ROOT: &str = "/sys/fs/cgroup";

/// Reads a cgroup's usage; `None` where its CPU time cannot be read. What else
/// is missing reads as 0 or as an empty text.
pub fn read(root: &Path) -> Option<CgroupUsage> {
    if root.join("cgroup.controllers").exists() { read_unified(root) } else { read_legacy(root) }
}

/// What was used between two readings.
pub fn usage_between(before: &CgroupUsage, after: CgroupUsage) -> ContainerUsage {
    ContainerUsage {
        cpu_seconds: (after.cpu_seconds - before.cpu_seconds).max(0.0),
        throttled_seconds: (after.throttled_seconds - before.throttled_seconds).max(0.0),
        throttled_periods: after.throttled_periods.saturating_sub(before.throttled_periods),
        cgroup: Some(after),
        ..ContainerUsage::default()
    }
}

fn read_unified(root: &Path) -> Option<CgroupUsage> {
    let statistics = text(&root.join("cpu.stat"))?;
    let micros = |name| keyed(&statistics, name).unwrap_or_default() as f64 / 1e6;
    Some(CgroupUsage {
        cpu_seconds: keyed(&statistics, "usage_usec")? as f64 / 1e6,
        throttled_seconds: micros("throttled_usec"),
        throttled_periods: keyed(&statistics, "nr_throttled").unwrap_or_default(),
        cpuset: text(&root.join("cpuset.cpus.effective")).unwrap_or_default(),
        memory_bytes: number(&root.join("memory.current")).unwrap_or_default(),
        memory_peak_bytes: number(&root.join("memory.peak")).unwrap_or_default(),
    })
}

fn read_legacy(root: &Path) -> Option<CgroupUsage> {
    let cpu = controller(root, &["cpu,cpuacct", "cpu"]);
    let accounting = controller(root, &["cpu,cpuacct", "cpuacct"]);
    let statistics = text(&cpu.join("cpu.stat")).unwrap_or_default();
    let memory = root.join("memory");
    let cpuset = root.join("cpuset");
    Some(CgroupUsage {
        cpu_seconds: number(&accounting.join("cpuacct.usage"))? as f64 / 1e9,
        throttled_seconds: keyed(&statistics, "throttled_time").unwrap_or_default() as f64 / 1e9,
        throttled_periods: keyed(&statistics, "nr_throttled").unwrap_or_default(),
        cpuset: ["cpuset.effective_cpus", "cpuset.cpus"]
            .iter()
            .find_map(|name| text(&cpuset.join(name)))
            .unwrap_or_default(),
        memory_bytes: number(&memory.join("memory.usage_in_bytes")).unwrap_or_default(),
        memory_peak_bytes: number(&memory.join("memory.max_usage_in_bytes")).unwrap_or_default(),
    })
}

/// The first of the directories that exists: distributions mount the CPU
/// controllers together or apart.
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

    fn expected() -> CgroupUsage {
        CgroupUsage {
            cpu_seconds: 12.5,
            throttled_seconds: 0.25,
            throttled_periods: 3,
            cpuset: "0-3".into(),
            memory_bytes: 4096,
            memory_peak_bytes: 8192,
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
                ("memory.current", "4096\n"),
                ("memory.peak", "8192\n"),
            ],
        );
        assert_eq!(read(root.path()), Some(expected()));
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
                ],
            );
            assert_eq!(read(root.path()), Some(expected()));
        }
    }

    #[test]
    fn no_cgroup_is_no_usage() {
        assert_eq!(read(tempfile::tempdir().unwrap().path()), None);
    }

    #[test]
    fn usage_is_a_difference() {
        let before = CgroupUsage { cpu_seconds: 10.0, throttled_periods: 1, ..CgroupUsage::default() };
        let usage = usage_between(&before, expected());
        assert!((usage.cpu_seconds - 2.5).abs() < 1e-9);
        assert_eq!((usage.throttled_periods, usage.cgroup), (2, Some(expected())));
    }
}

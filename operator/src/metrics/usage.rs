//! What the operator's process is, and what it uses by the names that all Prometheus clients have for it.
//! Reads /proc.

use super::families::{Families, Metric};
#[cfg(target_os = "linux")]
pub use procfs::ProcError;
#[cfg(target_os = "linux")]
use procfs::{WithCurrentSystemInfo as _, process::Process};

/// Nothing fails where nothing is read.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, thiserror::Error)]
pub enum ProcError {}

const BUILD: Metric = Metric("dragstrip_build_info", "The operator's version; always 1.");
const CPU: Metric = Metric("process_cpu_seconds_total", "CPU time of the process, user and system.");
const MEMORY: Metric = Metric("process_resident_memory_bytes", "Resident memory of the process.");
const START: Metric = Metric("process_start_time_seconds", "When the process started, in Unix time.");
const FILES: Metric = Metric("process_open_fds", "Open file descriptors of the process.");

/// CPU, memory, start and open files of this process.
#[cfg(target_os = "linux")]
fn used() -> Result<Vec<(Metric, f64)>, ProcError> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let start = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks;
    Ok(vec![
        (CPU, (stat.utime + stat.stime) as f64 / ticks),
        (MEMORY, stat.rss_bytes().get() as f64),
        (START, start),
        (FILES, process.fd_count()? as f64),
    ])
}

/// Operators run on Linux: elsewhere there is only the command line.
#[cfg(not(target_os = "linux"))]
fn used() -> Result<Vec<(Metric, f64)>, ProcError> {
    Ok(Vec::new())
}

/// Version, CPU, memory, start and open files of this process.
pub fn families() -> Result<Families, ProcError> {
    let mut page = Families::default();
    page.add(&BUILD, "", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    for (metric, value) in used()? {
        page.add(&metric, "", &[], value);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_process_tells_what_it_uses() {
        let text = super::Families::text(&[&super::families().unwrap()]);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6, "{text}");
        assert!(value("process_start_time_seconds") > 1.7e9, "{text}");
        assert!(value("process_open_fds") >= 3.0, "{text}");
        assert!(value("process_cpu_seconds_total") >= 0.0, "{text}");
    }
}

//! The operator's version and its process's resources, under Prometheus clients' usual names. Reads /proc.

use super::families::{Families, Metric};
use procfs::{ProcError, WithCurrentSystemInfo as _, process::Process};

const BUILD: Metric = Metric("dragstrip_build_info", "The operator's version; always 1.");
const CPU: Metric = Metric("process_cpu_seconds_total", "CPU time of the process, user and system.");
const MEMORY: Metric = Metric("process_resident_memory_bytes", "Resident memory of the process.");
const START: Metric = Metric("process_start_time_seconds", "When the process started, in Unix time.");
const FILES: Metric = Metric("process_open_fds", "Open file descriptors of the process.");
const TASKS: Metric = Metric("dragstrip_tokio_tasks", "Tasks of the process that have not ended.");

/// Version, CPU time, memory, start and open files of this process.
pub fn families() -> Result<Families, ProcError> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let start = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks;
    let mut page = Families::default();
    page.add(&BUILD, "", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.add(&CPU, "", &[], (stat.utime + stat.stime) as f64 / ticks);
    page.add(&MEMORY, "", &[], stat.rss_bytes().get() as f64);
    page.add(&START, "", &[], start);
    page.add(&FILES, "", &[], process.fd_count()? as f64);
    let runtime = tokio::runtime::Handle::try_current().ok();
    page.add(&TASKS, "", &[], runtime.map(|runtime| runtime.metrics().num_alive_tasks() as f64));
    Ok(page)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_process_shows_what_it_uses() {
        let task = tokio::spawn(std::future::pending::<()>());
        let text = super::Families::text(&[&super::families().unwrap()]);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6, "{text}");
        assert!(value("process_start_time_seconds") > 1.7e9, "{text}");
        assert!(value("process_open_fds") >= 3.0, "{text}");
        assert!(value("process_cpu_seconds_total") >= 0.0, "{text}");
        assert!(value("dragstrip_tokio_tasks") >= 1.0, "{text}");
        task.abort();
    }
}

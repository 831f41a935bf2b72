//! Processes of a pod, where the testbed's nodes share this machine's kernel.

use crate::{LOAD_GONE, Look, faults, until};
use anyhow::{Context, Result};
pub use rustix::process::Signal;
use rustix::{
    io::Errno,
    process::{Pid, kill_process},
};
use std::fs;

/// A process of a pod.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The name of each of its threads.
    pub threads: Vec<String>,
}

impl Process {
    /// The name of its program, of which the kernel keeps 15 characters.
    pub fn name(&self) -> String {
        self.threads.first().cloned().unwrap_or_default()
    }

    /// Whether that begins with `start`.
    pub fn is(&self, start: &str) -> bool {
        self.name().starts_with(start)
    }
}

/// Sends a signal to a process, unless it has ended.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("0 is not a process")?;
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot send {signal:?} to process {pid:?}")),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn threads(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let name = |id: String| read(&format!("/proc/{pid}/task/{id}/comm")).map(|name| name.trim().to_owned());
    entries.flatten().filter_map(|entry| name(entry.file_name().into_string().ok()?)).collect()
}

/// The processes in the cgroups of the pod with this uid; none of them when the
/// nodes are other machines.
pub fn of_pod(uid: &str) -> Result<Vec<Process>> {
    let systemd = uid.replace('-', "_");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end between the two looks.
        let cgroups = read(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if cgroups.contains(uid) || cgroups.contains(&systemd) {
            found.push(Process { pid, threads: threads(pid) });
        }
    }
    Ok(found)
}

/// Waits until the pod with this uid has no process left. On clusters whose
/// nodes are other machines only the API server and the server know.
pub async fn await_none(uid: &str) -> Result<()> {
    if !faults::local() {
        return Ok(());
    }
    until(&format!("no process of pod {uid}"), LOAD_GONE, || async {
        let left = of_pod(uid)?;
        Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{left:?}")) })
    })
    .await
}

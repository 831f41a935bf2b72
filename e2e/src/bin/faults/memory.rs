//! Has a container run out of memory: its cgroup gets a limit just above what it uses, and something in it
//! allocates until the kernel ends the container's own processes.

use anyhow::{Context, Result};
use dragstrip_e2e::processes::{self, Process};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::{fs, path::PathBuf, time::Duration};
use tokio::{process::Command, time::timeout};

/// What the container may still allocate, in bytes.
const ROOM: u64 = 4 << 20;
/// How long the kernel may take to end it.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// The cgroup of a process that counts memory, and the names of its limit and its usage.
fn cgroup(pid: u32) -> Result<(PathBuf, &'static str, &'static str)> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let of = |marker: &str| text.lines().find_map(|line| Some(line.split_once(marker)?.1.to_owned()));
    if let Some(path) = of(":memory:/") {
        let directory = PathBuf::from("/sys/fs/cgroup/memory").join(path);
        return Ok((directory, "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
    let path = of("0::/").context("the process is in no cgroup")?;
    Ok((PathBuf::from("/sys/fs/cgroup").join(path), "memory.max", "memory.current"))
}

/// Whether a process is of the container that the fault is for.
fn hit(process: &Process) -> bool {
    // The observer beside a server is another container.
    process.is("redis-server") || process.is("dragstrip-")
}

/// Has the container of a client's or a server's pod run out of memory.
pub async fn exhaust(pod: &Pod) -> Result<String> {
    let found = processes::of_pod(&pod.uid().unwrap_or_default())?;
    let server = found.iter().find(|process| process.is("redis-server"));
    let first = server.or_else(|| found.iter().find(|process| hit(process))).context("no process yet")?;
    let (directory, limit, usage) = cgroup(first.pid)?;
    let inside = fs::read_to_string(directory.join("cgroup.procs"))?;
    for pid in inside.lines() {
        // Not what allocates below, which has the most memory.
        _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
    }
    let used: u64 = fs::read_to_string(directory.join(usage))?.trim().parse()?;
    fs::write(directory.join(limit), (used + ROOM).to_string())?;
    let script = format!("echo 0 >{}/cgroup.procs && exec tail /dev/zero", directory.display());
    let mut hog = Command::new("sh").args(["-c", &script]).kill_on_drop(true).spawn()?;
    let ended = timeout(ENDED_WITHIN, hog.wait()).await;
    Ok(format!("memory of pod {} exhausted at {used} bytes, {ended:?}", pod.name_any()))
}

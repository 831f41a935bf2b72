//! Separates the runner from the tool, which runs as the same user in the same container: only the runner
//! may write the log and the termination message, from which the operator reads the result. Touches processes.

use nix::{
    errno::Errno,
    sys::{
        prctl::set_dumpable,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpid},
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long processes may take to end once they are killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Closes this process to others of its user: they can neither open its output and memory in /proc nor
/// trace it. A program that it starts is open again.
pub fn close() -> nix::Result<()> {
    set_dumpable(false)
}

/// Ends everything else in the container, such as a process that left the tool's process group to write
/// another termination message later. Elsewhere than in a container, other processes are not the tool's.
pub async fn end_others() {
    if getpid() != Pid::from_raw(1) {
        return;
    }
    // One call ends all: none can fork in time. An error means that no other process is left.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    // Those without a parent are children of process 1.
    let ended = async {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => sleep(POLL_INTERVAL).await,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    };
    // One that the kernel does not let go yet can do nothing more either.
    let _ = timeout(END_TIMEOUT, ended).await;
}

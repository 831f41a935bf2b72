//! The two processes of this program behind every child. The warden inherits what its program
//! leaves behind, such as daemons, and kills all of it when the program or the warden's parent
//! has ended, or on a signal. The starter sets the CPUs and becomes the program. Touches
//! processes and /proc.

use dragstrip_results::ranges::numbers;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{
        prctl::{set_child_subreaper, set_dumpable, set_pdeathsig},
        signal::{Signal, kill, raise},
        wait::waitpid,
    },
    unistd::{Pid, getppid},
};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{ExitCode, ExitStatus},
};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

/// First argument of this program as a warden.
pub const WARDEN: &str = "__ward";
/// First argument of this program as a starter.
const STARTER: &str = "__child";
/// Makes a warden kill everything it wards.
pub const KILL: Signal = Signal::SIGUSR1;
/// A shell's exit code for a program that could not be started.
const NOT_STARTED: u8 = 127;

/// Runs a warden or a starter, if this process was started as one.
pub fn other_work() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let first = arguments.next()?;
    if first != WARDEN && first != STARTER {
        return None;
    }
    let parent = arguments.next().unwrap_or_default();
    Some(if first == WARDEN { ward(&parent, arguments) } else { become_program(&parent, arguments) })
}

/// Makes the kernel send `signal` to this process when `parent` ends.
fn end_with(parent: &OsStr, signal: Signal) -> io::Result<()> {
    set_pdeathsig(signal)?;
    // A parent that ended before that causes no signal.
    if *parent != *getppid().to_string() {
        return Err(io::Error::other("its parent process has ended"));
    }
    Ok(())
}

/// Runs the program of `arguments`, and ends as it ended.
fn ward(parent: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| runtime.block_on(warded(parent, arguments)));
    kill_all();
    match ended {
        Ok(Some(status)) => end_as(status),
        Ok(None) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot start: {error}");
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// How the program ended; `None` if it must be killed.
async fn warded(parent: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Result<Option<ExitStatus>> {
    let mut kills = signal(SignalKind::user_defined1())?;
    // A SIGTERM to the process group is for the program.
    let _terminations = signal(SignalKind::terminate())?;
    end_with(parent, KILL)?;
    set_child_subreaper(true)?;
    let own = std::process::id().to_string();
    let mut program = Command::new(env::current_exe()?).args([STARTER, &own]).args(arguments).spawn()?;
    tokio::select! {
        status = program.wait() => status.map(Some),
        _ = kills.recv() => Ok(None),
    }
}

/// Kills everything this process wards. The children of a killed process become this one's:
/// when it has none, nothing is left.
fn kill_all() {
    loop {
        let mut children = children();
        // Waiting for a process of another user, which cannot be killed, might never end.
        children.retain(|child| kill(*child, Signal::SIGKILL).is_ok());
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = waitpid(child, None);
        }
    }
}

fn children() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |process: fs::DirEntry| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        (parent(&stat)? == own).then_some(Pid::from_raw(id))
    };
    processes.filter_map(child).collect()
}

/// The parent in the text of /proc/PID/stat, where a name may contain blanks and brackets.
fn parent(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)
}

/// Ends this process as the program ended, so that its parent sees the signal.
fn end_as(status: ExitStatus) -> ExitCode {
    let Some(number) = status.signal() else {
        return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    };
    if let Ok(signal) = Signal::try_from(number) {
        // The program has dumped its own core.
        let _ = set_dumpable(false);
        let _ = raise(signal);
    }
    // A signal that the warden handles does not end it.
    ExitCode::from(u8::try_from(128 + number).unwrap_or(1))
}

/// Becomes the program of `arguments`: signal at the parent's end, CPUs, file, its own arguments.
fn become_program(parent: &OsStr, mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut text = || arguments.next().and_then(|one| one.into_string().ok()).unwrap_or_default();
    let (signal, cpus) = (text(), text());
    let prepared = prepare(parent, &signal, &cpus);
    let Some(program) = arguments.next() else { return ExitCode::from(NOT_STARTED) };
    let error = match prepared {
        Ok(()) => std::process::Command::new(&program).args(arguments).exec(),
        Err(error) => error,
    };
    eprintln!("cannot start {}: {error}", program.display());
    ExitCode::from(NOT_STARTED)
}

fn prepare(parent: &OsStr, signal: &str, cpus: &str) -> io::Result<()> {
    end_with(parent, signal.parse()?)?;
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for number in numbers(cpus).ok_or_else(|| io::Error::other(format!("{cpus:?} is not a list of CPUs")))? {
        set.set(usize::try_from(number).map_err(io::Error::other)?)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (a) S 1 (b) R 34 12 12 0"), Some("34"));
        assert_eq!(parent("12"), None);
    }

    #[test]
    fn a_process_knows_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = children();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&Pid::from_raw(i32::try_from(child.id()).unwrap())), "{found:?}");
    }
}

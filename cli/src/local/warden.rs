//! The two processes of this program that stand behind every child. The warden inherits what
//! its program leaves behind, wrappers' children and daemons too, and kills all of it when the
//! program has ended, when it is told to, or when who started it is gone, however that ended.
//! The starter takes the CPUs and becomes the program. Touches processes and /proc.

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

/// First argument of this program when it is to be a warden.
pub const WARDEN: &str = "__ward";
/// First argument of this program when it is to become another.
const STARTER: &str = "__child";
/// Has a warden kill all that it wards.
pub const KILL: Signal = Signal::SIGUSR1;
/// Exit code of what could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// Does the work of a warden or a starter, if this process was started for it.
pub fn other_work() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let first = arguments.next()?;
    if first != WARDEN && first != STARTER {
        return None;
    }
    let parent = arguments.next().unwrap_or_default();
    Some(if first == WARDEN { ward(&parent, arguments) } else { become_program(&parent, arguments) })
}

/// Has the kernel send `signal` to this process when `parent` is gone.
fn end_with(parent: &OsStr, signal: Signal) -> io::Result<()> {
    set_pdeathsig(signal)?;
    // Who ended before that sends no signal any more.
    if *parent != *getppid().to_string() {
        return Err(io::Error::other("who started it is gone"));
    }
    Ok(())
}

/// Wards the program of `arguments`, and ends as it did.
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

/// How the program ended; none where it is to be killed.
async fn warded(parent: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Result<Option<ExitStatus>> {
    let mut told = signal(SignalKind::user_defined1())?;
    // Who asks the whole group to end means the program.
    let _asked = signal(SignalKind::terminate())?;
    end_with(parent, KILL)?;
    set_child_subreaper(true)?;
    let own = std::process::id().to_string();
    let mut program = Command::new(env::current_exe()?).args([STARTER, &own]).args(arguments).spawn()?;
    tokio::select! {
        status = program.wait() => status.map(Some),
        _ = told.recv() => Ok(None),
    }
}

/// Kills all that this process wards. What a killed process leaves becomes this one's child:
/// when it has none, nothing is left.
fn kill_all() {
    loop {
        let mut children = children();
        // What runs as another user cannot be killed, and must not be waited for.
        children.retain(|child| kill(*child, Signal::SIGKILL).is_ok());
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = waitpid(child, None);
        }
    }
}

/// The children of this process.
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

/// The parent in the text of /proc/PID/stat, in which a name may hold blanks and brackets.
fn parent(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)
}

/// Ends this process as the program ended, so that who started it is told the signal.
fn end_as(status: ExitStatus) -> ExitCode {
    let Some(number) = status.signal() else {
        return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    };
    if let Ok(signal) = Signal::try_from(number) {
        // The program's core is the one to keep.
        let _ = set_dumpable(false);
        let _ = raise(signal);
    }
    // A signal that the warden listens to does not end it.
    ExitCode::from(u8::try_from(128 + number).unwrap_or(1))
}

/// Becomes the program of `arguments`: who sends it which signal, its CPUs, its file and its own.
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

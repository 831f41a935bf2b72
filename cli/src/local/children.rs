//! Child processes that end with this one: each is started by this program itself, which
//! asks the kernel for that, takes its CPUs and becomes the program. Touches processes.

use super::cpus::listed;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, killpg},
    },
    unistd::{Pid, getppid},
};
use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// First argument of this program when it is to become a child's.
const STARTER: &str = "__child";
/// How long a child may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A child that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Where this program lies is unknown.
    #[error("failed to find this program")]
    Own(#[source] io::Error),
    /// Its log cannot be written.
    #[error("failed to write {1}")]
    Log(#[source] io::Error, PathBuf),
    /// It could not be started.
    #[error("failed to start {1}")]
    Start(#[source] io::Error, String),
    /// Its end could not be awaited.
    #[error("failed to await the end of {1}")]
    Await(#[source] io::Error, String),
}

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// What people call it.
    pub name: &'a str,
    /// The file.
    pub file: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment beside this process's own.
    pub environment: Vec<(String, OsString)>,
    /// Its working directory.
    pub directory: &'a Path,
    /// The CPUs that it may run on; all where there are none.
    pub cpus: &'a [usize],
    /// Sent to it when this process is no more.
    pub orphaned: Signal,
}

/// A child, in a process group of its own: a terminal's Ctrl-C reaches this process alone.
pub struct Process {
    /// What people call it.
    pub name: String,
    child: Child,
    group: Pid,
}

impl Program<'_> {
    /// The command that starts it, without its streams.
    fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(env::current_exe().map_err(Error::Own)?);
        let parent = std::process::id().to_string();
        command.args([STARTER, &parent, self.orphaned.as_str(), &listed(self.cpus)]).arg(self.file);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        Ok(command)
    }

    /// Starts it with both streams in `log`.
    pub fn start(&self, log: &Path) -> Result<Process, Error> {
        let unwritable = |error| Error::Log(error, log.to_owned());
        let file = File::create(log).map_err(unwritable)?;
        let also = file.try_clone().map_err(unwritable)?;
        self.started(self.command()?.stdout(file).stderr(also))
    }

    /// Starts it with standard output as a pipe, and errors in `log`.
    pub fn start_piped(&self, log: &Path) -> Result<Process, Error> {
        let file = File::create(log).map_err(|error| Error::Log(error, log.to_owned()))?;
        self.started(self.command()?.stdout(Stdio::piped()).stderr(file))
    }

    /// Must be called on the thread that lives as long as this process: with it ends who is its child.
    fn started(&self, command: &mut Command) -> Result<Process, Error> {
        let failed = |error| Error::Start(error, self.name.to_owned());
        let child = command.spawn().map_err(failed)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        Ok(Process { name: self.name.to_owned(), child, group: Pid::from_raw(id) })
    }
}

impl Process {
    /// Its standard output, once.
    pub fn output(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns when it has ended. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().await.map_err(|error| Error::Await(error, self.name.clone()))
    }

    /// Whether it has ended, and how.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|error| Error::Await(error, self.name.clone()))
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        // An error means that it is gone already, which is the aim.
        let _ = killpg(self.group, Signal::SIGTERM);
    }

    /// Ends it, and whatever it started in its group.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.ask_to_end();
        let ended = timeout(GRACE, self.ended()).await;
        let _ = killpg(self.group, Signal::SIGKILL);
        match ended {
            Ok(ended) => ended.map(drop),
            Err(_) => self.ended().await.map(drop),
        }
    }
}

/// Becomes the program that this process was started for, if it was.
pub fn starter() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != STARTER {
        return None;
    }
    let mut text = || arguments.next().and_then(|one| one.into_string().ok()).unwrap_or_default();
    let (parent, signal, cpus) = (text(), text(), text());
    let prepared = prepare(&parent, &signal, &cpus);
    let Some(program) = arguments.next() else { return Some(ExitCode::from(2)) };
    let error = match prepared {
        Ok(()) => std::process::Command::new(&program).args(arguments).exec(),
        Err(error) => error,
    };
    eprintln!("cannot start {}: {error}", program.display());
    Some(ExitCode::from(127))
}

fn prepare(parent: &str, signal: &str, cpus: &str) -> io::Result<()> {
    let signal: Signal = signal.parse()?;
    set_pdeathsig(signal)?;
    // Who ended before that sends no signal any more.
    if getppid().as_raw().to_string() != parent {
        return Err(io::Error::other("who started it is gone"));
    }
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for number in numbers(cpus).ok_or_else(|| io::Error::other(format!("{cpus:?} is no list of CPUs")))? {
        set.set(number)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// The numbers in a kernel list such as 0-3,8.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let range = |range: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// The last lines of the log at `path`; none of one that cannot be read.
pub fn last_lines(path: &Path, most: usize) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_handed_over_as_the_kernel_lists_them() {
        assert_eq!(numbers(&listed(&[0, 1, 2, 8])), Some(vec![0, 1, 2, 8]));
        assert_eq!(numbers("x"), None);
    }

    #[test]
    fn the_last_lines_of_a_log_are_those_that_say_something() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "one\ntwo\n\nthree\n\n").unwrap();
        assert_eq!(last_lines(log.path(), 2), ["two", "three"]);
        assert_eq!(last_lines(Path::new("/no/such/file"), 2), Vec::<String>::new());
    }
}

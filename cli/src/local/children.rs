//! Child processes that end with this one, with all that they start: each has a
//! [`warden`](super::warden) for that. Touches processes.

use super::{
    cpus::listed,
    warden::{KILL, WARDEN},
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a child may take to end before it is killed: more than a runner gives its tool,
/// which is 15 s for BullMQ, or what the tool says last is lost with the runner.
const GRACE: Duration = Duration::from_secs(20);

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
    /// Sent to it when somebody has killed its warden.
    pub orphaned: Signal,
}

/// A child, in a process group of its own: a terminal's Ctrl-C reaches this process alone.
/// Its warden leads the group.
pub struct Process {
    /// What people call it.
    pub name: String,
    warden: Child,
    group: Pid,
}

impl Program<'_> {
    /// The command that starts it, without its streams.
    fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(env::current_exe().map_err(Error::Own)?);
        let parent = std::process::id().to_string();
        command.args([WARDEN, &parent, self.orphaned.as_str(), &listed(self.cpus)]).arg(self.file);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory).stdin(Stdio::null()).process_group(0);
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
        let warden = command.spawn().map_err(failed)?;
        let id = warden.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        Ok(Process { name: self.name.to_owned(), warden, group: Pid::from_raw(id) })
    }
}

impl Process {
    /// Its standard output, once.
    pub fn output(&mut self) -> Option<tokio::process::ChildStdout> {
        self.warden.stdout.take()
    }

    /// Returns when it has ended. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<ExitStatus, Error> {
        self.warden.wait().await.map_err(|error| Error::Await(error, self.name.clone()))
    }

    /// Whether it has ended, and how.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.warden.try_wait().map_err(|error| Error::Await(error, self.name.clone()))
    }

    /// Whether its end is still to be awaited; after that its number may be another's.
    fn is_there(&self) -> bool {
        self.warden.id().is_some()
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        if self.is_there() {
            // An error means that it is gone already, which is the aim.
            let _ = killpg(self.group, Signal::SIGTERM);
        }
    }

    /// Has it killed, with all that it started.
    fn kill(&self) {
        if self.is_there() {
            // The warden must stay: it alone knows what was started.
            let _ = kill(self.group, KILL);
        }
    }

    /// Ends it, and whatever it started.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.ask_to_end();
        if let Ok(ended) = timeout(GRACE, self.ended()).await {
            return ended.map(drop);
        }
        self.kill();
        self.ended().await.map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
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
    fn the_last_lines_of_a_log_are_those_that_say_something() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "one\ntwo\n\nthree\n\n").unwrap();
        assert_eq!(last_lines(log.path(), 2), ["two", "three"]);
        assert_eq!(last_lines(Path::new("/no/such/file"), 2), Vec::<String>::new());
    }
}

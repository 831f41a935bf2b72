//! Child processes that end with this one, with everything they start: each has a
//! [`warden`](super::warden) for that. Touches processes.

use super::{
    cpus::listed,
    warden::{KILL, WARDEN},
};
use dragstrip_results::result::LOG_MARKER;
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

/// How long a child may take to end before it is killed. A runner gives its tool up to 15 s
/// (BullMQ); with less, the tool's last output would be lost with the runner.
const GRACE: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to find the file of this program")]
    Own(#[source] io::Error),
    #[error("failed to write {1}")]
    Log(#[source] io::Error, PathBuf),
    #[error("failed to start {1}")]
    Start(#[source] io::Error, String),
    #[error("failed to await the end of {1}")]
    Await(#[source] io::Error, String),
}

#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// Its name in messages.
    pub name: &'a str,
    pub file: &'a Path,
    pub arguments: Vec<String>,
    /// In addition to the environment of this process.
    pub environment: Vec<(String, OsString)>,
    pub directory: &'a Path,
    /// The CPUs that it may run on; all if empty.
    pub cpus: &'a [usize],
    /// Sent to it if its warden is killed.
    pub orphaned: Signal,
}

/// A child in its warden's process group: a terminal's Ctrl-C reaches only this process.
pub struct Process {
    pub name: String,
    warden: Child,
    group: Pid,
}

impl Program<'_> {
    /// The command that starts it, without streams.
    fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(env::current_exe().map_err(Error::Own)?);
        let parent = std::process::id().to_string();
        command.args([WARDEN, &parent, self.orphaned.as_str(), &listed(self.cpus)]).arg(self.file);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory).stdin(Stdio::null()).process_group(0);
        Ok(command)
    }

    /// Starts it with both streams in the file `log`.
    pub fn start(&self, log: &Path) -> Result<Process, Error> {
        let unwritable = |error| Error::Log(error, log.to_owned());
        let file = File::create(log).map_err(unwritable)?;
        let also = file.try_clone().map_err(unwritable)?;
        self.spawn(self.command()?.stdout(file).stderr(also))
    }

    /// Starts it with standard output as a pipe, and standard error in the file `log`.
    pub fn start_piped(&self, log: &Path) -> Result<Process, Error> {
        let file = File::create(log).map_err(|error| Error::Log(error, log.to_owned()))?;
        self.spawn(self.command()?.stdout(Stdio::piped()).stderr(file))
    }

    /// Must run on the thread that lives as long as this process: a child ends with its thread.
    fn spawn(&self, command: &mut Command) -> Result<Process, Error> {
        let failed = |error| Error::Start(error, self.name.to_owned());
        let warden = command.spawn().map_err(failed)?;
        let id = warden.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        Ok(Process { name: self.name.to_owned(), warden, group: Pid::from_raw(id) })
    }
}

impl Process {
    /// Its standard output; `None` the second time.
    pub fn output(&mut self) -> Option<tokio::process::ChildStdout> {
        self.warden.stdout.take()
    }

    /// Waits for its end. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<ExitStatus, Error> {
        self.warden.wait().await.map_err(|error| Error::Await(error, self.name.clone()))
    }

    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.warden.try_wait().map_err(|error| Error::Await(error, self.name.clone()))
    }

    /// Whether nobody has waited for its end yet; after that its process id may be another's.
    fn exists(&self) -> bool {
        self.warden.id().is_some()
    }

    pub fn terminate(&self) {
        if self.exists() {
            // An error means that it has ended already.
            let _ = killpg(self.group, Signal::SIGTERM);
        }
    }

    /// Kills it, with everything it started.
    fn kill(&self) {
        if self.exists() {
            // The warden must stay: only it knows what was started.
            let _ = kill(self.group, KILL);
        }
    }

    /// Ends it, with everything it started.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.terminate();
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

/// Reads the standard output of `process`, and copies it to `log`: the address that it listens
/// on, and the last result that it writes.
pub fn read_output(
    process: &mut Process,
    log: &Path,
) -> (oneshot::Receiver<SocketAddr>, JoinHandle<Option<String>>) {
    let (sender, receiver) = oneshot::channel();
    let (output, log) = (process.output(), log.to_owned());
    let reading = tokio::spawn(async move {
        let mut sender = Some(sender);
        let mut result = None;
        let mut lines = BufReader::new(output?).lines();
        // The copy is for people: a result does not depend on it.
        let mut copy = File::create(log).ok();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(found) = line.strip_prefix(LOG_MARKER) {
                result = Some(found.to_owned());
                continue;
            }
            if let Some(copy) = &mut copy {
                let _ = writeln!(copy, "{line}");
            }
            let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
            if let Some(address) = address.and_then(|address| address.parse().ok())
                && let Some(sender) = sender.take()
            {
                // The receiver may be gone.
                let _ = sender.send(address);
            }
        }
        result
    });
    (receiver, reading)
}

/// The last lines of the log at `path`; none if it cannot be read.
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
    fn the_last_lines_of_a_log_are_not_empty() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "one\ntwo\n\nthree\n\n").unwrap();
        assert_eq!(last_lines(log.path(), 2), ["two", "three"]);
        assert_eq!(last_lines(Path::new("/no/such/file"), 2), Vec::<String>::new());
    }
}

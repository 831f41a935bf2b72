//! A redis server and a program under test ([`crate::PROGRAM`]) that end with the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dragstrip_loadgen::counts::report::Report;
use dragstrip_results::{histogram::Latencies, result::Operation};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::notation;

/// Nothing in these tests may take longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// How many latencies are in the histogram of `operation`.
pub(crate) fn latencies(operation: &Operation) -> u64 {
    Latencies::decode(operation.histogram.as_ref().unwrap()).unwrap().count()
}

/// A port that nothing listens on at the moment.
pub(crate) fn free_port() -> u16 {
    // Each number once, so that no two tests have the same; and none of those that
    // the kernel gives to outgoing connections, which could take it meanwhile.
    const PORTS: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes started one after the other begin far from each other.
    let own = u16::try_from(u64::from(std::process::id()) * 251 % u64::from(PORTS)).unwrap();
    std::iter::repeat_with(|| 10_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS) % PORTS)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

pub(crate) fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

/// Calls `probe` until it returns something.
pub(crate) fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {DEADLINE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) struct RedisServer {
    pub(crate) port: u16,
    child: Child,
    _directory: TempDir,
}

impl RedisServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        // Another process may take the free port first; then the next one is tried.
        wait_for("redis-server", || Self::start_on(free_port(), options))
    }

    /// A node of a cluster that is yet to be formed, and the port of its bus.
    pub(crate) fn start_node() -> (Self, u16) {
        wait_for("redis-server", || {
            let bus = free_port();
            let options = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus.to_string(),
                "--cluster-node-timeout",
                "5000",
            ];
            Some((Self::start_on(free_port(), &options)?, bus))
        })
    }

    fn start_on(port: u16, options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir".as_ref(), directory.path().as_os_str()])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server must be on the PATH (package redis-server) for these tests");
        let mut server = Self { port, child, _directory: directory };
        let alive = wait_for("redis-server to listen", || {
            let ended = server.child.try_wait().unwrap().is_some();
            let listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
            (ended || listens).then_some(!ended)
        });
        alive.then_some(server)
    }

    /// Runs commands, one per line, on one connection and returns everything the
    /// server answers until it closes.
    pub(crate) fn ask(&self, commands: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let lines = format!("{}\r\nQUIT\r\n", commands.join("\r\n"));
        stream.write_all(lines.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The number after `field` in `INFO section`, up to a comma or line end; 0 without the field.
    pub(crate) fn info(&self, section: &str, field: &str) -> u64 {
        let text = self.ask(&[&format!("INFO {section}")]);
        let Some((_, after)) = text.split_once(field) else {
            return 0;
        };
        after.split([',', '\r']).next().unwrap().parse().unwrap()
    }

    pub(crate) fn calls(&self, command: &str) -> u64 {
        self.info("commandstats", &format!("cmdstat_{command}:calls="))
    }

    /// How often each command was answered, refusals included, but for those of `ask`.
    pub(crate) fn answered(&self) -> BTreeMap<String, u64> {
        let text = self.ask(&["INFO commandstats"]);
        let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let number = |fields: &str, name: &str| -> u64 {
            let value = fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.map_or(0, |value| value.parse().unwrap())
        };
        lines
            .map(|(name, fields)| {
                (name.to_owned(), number(fields, "calls") + number(fields, "rejected_calls"))
            })
            .filter(|(name, count)| *count > 0 && !["info", "quit"].contains(&name.as_str()))
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) json: Option<String>,
    /// Time from the start of the process.
    pub(crate) took: Duration,
    /// Most memory it was seen to have, in bytes.
    pub(crate) peak_bytes: u64,
}

impl Ended {
    pub(crate) fn report(&self) -> Report {
        Report::from_json(self.json.as_deref().unwrap_or_else(|| panic!("no JSON was written: {self:?}")))
            .unwrap()
    }
}

/// Most resident memory of a process so far, in bytes; none when it has ended.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// A run of the binary.
pub(crate) struct Running {
    words: String,
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    stderr_text: String,
    json_file: PathBuf,
    _directory: TempDir,
    started: Instant,
}

impl Running {
    /// Starts the binary against `port`, its specification in short notation.
    pub(crate) fn start(port: u16, words: &str, password: Option<&str>) -> Self {
        Self::start_mix(port, words, &[], password)
    }

    fn start_mix(port: u16, words: &str, operations: &[&str], password: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let json_file = directory.path().join("report.json");
        let words = format!("server.port={port} reportFile={} {words}", json_file.display());
        let path = directory.path().join("specification.json");
        std::fs::write(&path, notation::specification(&words, operations).to_string()).unwrap();
        let mut command = Command::new(crate::PROGRAM);
        command
            .arg("run")
            .arg(&path)
            .env_remove("DRAGSTRIP_PASSWORD")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(password) = password {
            command.env("DRAGSTRIP_PASSWORD", password);
        }
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            words,
            child,
            stderr,
            stderr_text: String::new(),
            json_file,
            _directory: directory,
            started: Instant::now(),
        }
    }

    /// Waits for the first progress line that counts an operation.
    pub(crate) fn until_loading(&mut self) {
        loop {
            let mut line = String::new();
            let length = self.stderr.read_line(&mut line).unwrap();
            assert!(length > 0, "the run ended before it made progress: {}", self.stderr_text);
            self.stderr_text.push_str(&line);
            if line.starts_with("progress ") && !line.contains(" operations=0 ") {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> Ended {
        let (child, mut peak_bytes) = (&mut self.child, 0);
        let status = wait_for(&format!("the end of the run {}", self.words), || {
            peak_bytes = peak_memory(child.id()).unwrap_or(0).max(peak_bytes);
            child.try_wait().unwrap()
        });
        let took = self.started.elapsed();
        self.stderr.read_to_string(&mut self.stderr_text).unwrap();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let json = std::fs::read_to_string(&self.json_file).ok();
        let code = status.code().expect("the program must exit by itself");
        Ended { code, stdout, stderr: std::mem::take(&mut self.stderr_text), json, took, peak_bytes }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a mix of operations to its end.
pub(crate) fn run_mix(port: u16, words: &str, operations: &[&str]) -> Ended {
    Running::start_mix(port, words, operations, None).wait()
}

/// Runs the binary to its end, without a password.
pub(crate) fn run(port: u16, options: &str) -> Ended {
    Running::start(port, options, None).wait()
}

pub(crate) fn openssl(directory: &Path, options: &str) {
    let output = Command::new("openssl")
        .current_dir(directory)
        .args("req -x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1".split(' '))
        .args(options.split(' '))
        .output()
        .expect("openssl must be on the PATH (package openssl) for these tests");
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Writes an authority's certificate and a server's and a client's of it.
pub(crate) fn write_certificates(directory: &Path) {
    openssl(directory, "-subj /CN=authority -keyout ca.key -out ca.pem");
    for name in ["server", "client"] {
        let host = format!("-subj /CN={name} -addext subjectAltName=DNS:{name}.test");
        let issued = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE";
        openssl(directory, &format!("{host} {issued} -keyout {name}.key -out {name}.pem"));
    }
}

//! redis-servers on ports that are chosen before, and an observer that joins them.

use crate::signing::{operator, public_key, sign};
use dragstrip_results::protocol::{TOPOLOGY_PATH, TopologyCommand, TopologyState};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

/// Longest wait for anything that should be a matter of seconds.
const PATIENCE: Duration = Duration::from_secs(90);
pub const TOKEN: &str = "token-of-this-datastore";
pub const PASSWORD: &str = "Correct-Horse-77";

/// Returns as soon as `condition` gives something; fails after a deadline.
pub async fn wait_for<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// As many ports one after the other, which are free and whose bus ports
/// (10000 above) are too. Below the ports that the kernel gives to clients.
pub fn ports(count: u16) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run at the same time begin at different places.
    let offset = u16::try_from(std::process::id() % 90).unwrap() * 70;
    for _ in 0..500 {
        let first = 11_000 + (offset + NEXT.fetch_add(count, Ordering::Relaxed)) % 9_000;
        if (first..first + count).all(|port| free(port) && free(port + 10_000)) {
            return (first..first + count).collect();
        }
    }
    panic!("no {count} free ports");
}

pub fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A redis-server; ends with the value.
pub struct Shard {
    pub port: u16,
    options: Vec<String>,
    directory: tempfile::TempDir,
    child: Child,
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shard {
    /// Starts one with further options.
    pub fn start(port: u16, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = spawn(port, &options, directory.path());
        Self { port, options, directory, child }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port, as a restarted container does.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, &self.options, self.directory.path());
    }

    /// Starts it again with an empty directory, as a new pod does.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.directory = tempfile::tempdir().unwrap();
        self.child = spawn(self.port, &self.options, self.directory.path());
    }

    /// The answer to a command, by redis-cli; an error is one too.
    pub fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]);
        if self.options.iter().any(|option| option == PASSWORD) {
            command.env("REDISCLI_AUTH", PASSWORD);
        }
        if let Some(place) = self.options.iter().position(|option| option == "--tls-ca-cert-file") {
            command.args(["--tls", "--cacert", &self.options[place + 1]]);
        }
        let output = command.args(words).output().expect("these tests need redis-cli on PATH");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The server's `run_id`.
    pub fn run_id(&self) -> String {
        let info = self.ask(&["INFO", "server"]);
        info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim().to_owned()
    }
}

/// The options of a shard that is a plain server; `--port 0` of encrypted ones comes after and wins.
fn spawn(port: u16, options: &[String], directory: &Path) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(options)
        .current_dir(directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("these tests need redis-server on PATH")
}

/// The observer; ends with the value.
pub struct Observer {
    child: Child,
    address: String,
    client: reqwest::Client,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How the observer's connections are encrypted.
pub struct Encrypted {
    pub name: &'static str,
    pub authority: PathBuf,
    pub client: Option<PathBuf>,
}

impl Observer {
    /// Starts one beside `servers` servers from `port` on.
    pub fn start(port: u16, servers: usize, password: &str, encrypted: Option<&Encrypted>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dragstrip-runner"));
        command
            .args(["observe", "--listen", "127.0.0.1:0", "--port", &port.to_string()])
            .args(["--servers", &servers.to_string()])
            .env("DRAGSTRIP_PASSWORD", password)
            .env("DRAGSTRIP_TOKEN", TOKEN)
            .env("DRAGSTRIP_VERIFYING_KEY", public_key())
            .stdout(Stdio::piped());
        if let Some(Encrypted { name, authority, client }) = encrypted {
            command.args(["--tls-server-name", name]).arg("--tls-authority-directory").arg(authority);
            if let Some(client) = client {
                command.arg("--tls-client-directory").arg(client);
            }
        }
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        // What it says later must find a reader, and shows when a test fails.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| println!("{line}")));
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).unwrap();
        Self { child, address: format!("http://{address}"), client: reqwest::Client::new() }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let request = self.client.get(format!("{}{path}", self.address)).header("x-dragstrip-token", TOKEN);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Sends a command to join; `None` when the observer died over it.
    pub async fn join(&self, command: &TopologyCommand) -> Option<TopologyState> {
        let body = serde_json::to_vec(command).unwrap();
        let signature = sign(operator(), "POST", TOPOLOGY_PATH, TOKEN, &self.address, &body);
        let request = self.client.post(format!("{}{TOPOLOGY_PATH}", self.address)).json(command);
        let request = request.header("x-dragstrip-token", TOKEN).header("x-dragstrip-signature", signature);
        let answer = request.send().await.ok()?;
        assert_eq!(answer.status().as_u16(), 200);
        answer.json().await.ok()
    }

    /// Repeats a command until it is carried out, as the operator does; all that was changed over it.
    pub async fn joined(&self, command: &TopologyCommand) -> (TopologyState, Vec<String>) {
        let mut changes = Vec::new();
        let mut last = String::new();
        let state = wait_for("the servers to be joined", async || {
            let state = self.join(command).await.expect("the observer died");
            changes.extend(state.changes.clone());
            if last != state.message {
                println!("{}", state.message);
                last.clone_from(&state.message);
            }
            state.complete.then_some(state)
        })
        .await;
        (state, changes)
    }

    /// The environment of the process, as the kernel shows it, must hold a password that argv does not.
    pub fn command_line(&self) -> String {
        String::from_utf8_lossy(&fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap()).into_owned()
    }
}

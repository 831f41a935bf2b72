//! A real redis-server on a free loopback port.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

/// Longest wait for anything that should be a matter of moments.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns as soon as `condition` gives something; fails after a deadline.
pub async fn wait_for<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A free port whose cluster bus port, which is 10000 above, is free too.
pub fn free_port() -> u16 {
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

/// A running server; ends with the value.
pub struct Redis {
    pub port: u16,
    options: Vec<String>,
    password: Option<String>,
    child: Child,
    directory: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Redis {
    /// Starts a server with further options, and waits until it answers.
    pub async fn start(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let place = options.iter().position(|option| option == "--requirepass");
        let password = place.map(|place| options[place + 1].clone());
        let port = free_port();
        let child = spawn(port, &options, &directory);
        let mut redis = Self { port, options, password, child, directory };
        redis.until_ready().await;
        redis
    }

    /// Kills the server.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port.
    pub async fn restart(&mut self) {
        self.stop();
        self.child = spawn(self.port, &self.options, &self.directory);
        self.until_ready().await;
    }

    /// The answers to inline commands, as they come over the wire.
    pub fn ask(&self, commands: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let login = self.password.as_ref().map_or(String::new(), |password| {
            format!(
                "AUTH {password}
"
            )
        });
        stream.write_all(format!("{login}{commands}\r\nQUIT\r\n").as_bytes()).ok()?;
        let mut answers = String::new();
        stream.read_to_string(&mut answers).ok()?;
        Some(answers.split_off(if self.password.is_some() { "+OK\r\n".len() } else { 0 }))
    }

    /// The server's `run_id`.
    pub fn run_id(&self) -> String {
        let info = self.ask("INFO server").unwrap();
        info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().to_owned()
    }

    async fn until_ready(&mut self) {
        wait_for("redis-server to answer", async || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server ended at once: {ended:?}");
            self.ask("PING").filter(|answer| answer.contains("PONG"))
        })
        .await;
    }
}

fn spawn(port: u16, options: &[String], directory: &tempfile::TempDir) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(options)
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("these tests need redis-server on PATH")
}

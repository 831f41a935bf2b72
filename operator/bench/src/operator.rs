//! The operator under measurement: a process of this machine. Starts and stops it,
//! reads its memory from /proc, its calls from its metrics and its warnings from its log.

use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::Write,
    net::TcpListener,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
};

/// Time between two readings of the metrics.
const READ_INTERVAL: Duration = Duration::from_millis(25);
/// After this time without a call the operator is quiet.
const SILENCE: Duration = Duration::from_secs(3);

/// The operator's requests to the API server since it started.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    /// All requests, watches included.
    pub all: u64,
    /// Those that change something.
    pub writes: u64,
    /// Requests without a response yet.
    pub in_flight: u64,
}

/// Memory of a process in MiB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Resident now.
    pub now: f64,
    /// The highest value so far.
    pub most: f64,
}

/// Work until the operator became quiet, or until the time was over.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// From the beginning to the last call, in seconds.
    pub seconds: f64,
    /// Calls until then.
    pub calls: Calls,
}

/// A running operator.
pub struct Operator {
    child: Child,
    metrics: String,
    token: String,
    http: reqwest::Client,
    warnings: Arc<AtomicUsize>,
    most_in_flight: AtomicU64,
    started: Instant,
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Counts the warnings of a log and writes all of it to `file`.
async fn read_log(log: ChildStdout, mut file: File, warnings: Arc<AtomicUsize>) -> Result<()> {
    let mut lines = BufReader::new(log).lines();
    while let Some(line) = lines.next_line().await? {
        if line.contains("\"level\":\"WARN\"") || line.contains("\"level\":\"ERROR\"") {
            warnings.fetch_add(1, Ordering::Relaxed);
        }
        writeln!(file, "{line}")?;
    }
    Ok(())
}

fn sum(metrics: &str, series: impl Fn(&str) -> bool) -> u64 {
    let samples = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    samples.filter(|(name, _)| series(name)).filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

fn calls(metrics: &str) -> Calls {
    let request = |name: &str| name.starts_with("dragstrip_api_requests_total{");
    let write = |name: &str| ["POST", "PUT", "PATCH", "DELETE"].iter().any(|verb| name.contains(verb));
    Calls {
        all: sum(metrics, request),
        writes: sum(metrics, |name| request(name) && write(name)),
        in_flight: sum(metrics, |name| name == "dragstrip_api_requests_in_flight"),
    }
}

impl Operator {
    /// Starts `program`; its log is appended to `log`.
    pub async fn start(program: &Path, kubeconfig: &Path, log: &Path, token: &str) -> Result<Self> {
        let listen = format!("127.0.0.1:{}", free_port()?);
        let file = File::options().append(true).create(true).open(log).context("cannot write the log")?;
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(["--listen", &listen])
            .env("KUBECONFIG", kubeconfig)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("the operator has no output")?;
        let warnings = Arc::new(AtomicUsize::new(0));
        tokio::spawn(read_log(stdout, file, warnings.clone()));
        let http = reqwest::Client::builder().no_proxy().build()?;
        let operator = Self {
            child,
            metrics: format!("http://{listen}/metrics"),
            token: token.to_owned(),
            http,
            warnings,
            most_in_flight: AtomicU64::new(0),
            started,
        };
        operator.await_metrics().await?;
        Ok(operator)
    }

    async fn await_metrics(&self) -> Result<()> {
        while let Err(error) = self.calls().await {
            if self.started.elapsed() > Duration::from_secs(30) {
                return Err(error).context("the operator did not come up");
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
        Ok(())
    }

    /// Stops it as a cluster would.
    pub async fn stop(mut self) -> Result<()> {
        let pid = self.pid()?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await?;
        tokio::time::timeout(Duration::from_secs(30), self.child.wait())
            .await
            .context("it does not stop")??;
        Ok(())
    }

    fn pid(&self) -> Result<u32> {
        self.child.id().context("the operator has ended by itself")
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Warnings and errors in its log so far.
    pub fn warnings(&self) -> usize {
        self.warnings.load(Ordering::Relaxed)
    }

    /// Its page of metrics.
    pub async fn page(&self) -> Result<String> {
        Ok(self
            .http
            .get(&self.metrics)
            .bearer_auth(&self.token)
            .send()
            .await?
            .error_for_status()?
            .text()
            .await?)
    }

    /// Its calls so far.
    pub async fn calls(&self) -> Result<Calls> {
        let text = self.page().await?;
        let calls = calls(&text);
        self.most_in_flight.fetch_max(calls.in_flight, Ordering::Relaxed);
        Ok(calls)
    }

    /// The highest number of requests in flight at any reading.
    pub fn most_in_flight(&self) -> u64 {
        self.most_in_flight.load(Ordering::Relaxed)
    }

    /// Calls per second over the next `seconds`.
    pub async fn rate(&self, seconds: u32) -> Result<f64> {
        let before = self.calls().await?.all;
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        Ok((self.calls().await?.all - before) as f64 / f64::from(seconds))
    }

    /// Its memory.
    pub fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.pid()?);
        let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let mebibytes = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u32>().ok());
            Ok(f64::from(kibibytes.with_context(|| format!("no {name} in {path}"))?) / 1024.0)
        };
        Ok(Memory { now: mebibytes("VmRSS")?, most: mebibytes("VmHWM")? })
    }

    /// Waits until it is quiet; fails `within` after `begun`.
    pub async fn await_quiet(&self, begun: Instant, within: Duration) -> Result<()> {
        let (_, quiet) = self.settled_by(begun, within).await?;
        if quiet { Ok(()) } else { bail!("the operator still sends requests after {within:?}") }
    }

    /// Waits until it has sent no request for a while, at most until `within` after `begun`; returns
    /// whether it became quiet.
    pub async fn settled_by(&self, begun: Instant, within: Duration) -> Result<(Settled, bool)> {
        let mut last = (begun.elapsed(), self.calls().await?);
        loop {
            let calls = self.calls().await?;
            let now = begun.elapsed();
            if calls.all != last.1.all {
                last = (now, calls);
            }
            let quiet = now.saturating_sub(last.0) >= SILENCE;
            if quiet || now >= within {
                return Ok((Settled { seconds: last.0.as_secs_f64(), calls: last.1 }, quiet));
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }
}

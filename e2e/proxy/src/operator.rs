//! An operator as a process: started, killed, stopped and resumed, and started again if it ends by
//! itself, as a kubelet does.

use anyhow::{Context, Result, ensure};
use dragstrip_fault_proxy::proxy::Proxy;
use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::{Child, Command};

/// The Lease of the election, if there is one.
pub const LEASE: &str = "leader";
/// How long after its end an operator is started again.
const RESTART_AFTER: Duration = Duration::from_millis(500);

/// How to start an operator.
pub struct Start<'a> {
    pub program: &'a Path,
    pub namespace: &'a str,
    /// Its name in the election, if there is one.
    pub elected_as: Option<&'a str>,
    /// A directory for its kubeconfig and its log.
    pub directory: &'a Path,
}

/// An operator behind its own proxy.
pub struct Operator {
    arguments: Vec<String>,
    program: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    listen: String,
    child: Child,
    ended: Option<Instant>,
    /// How often it ended by itself.
    pub exits: usize,
    /// It ends with the operator.
    _proxy: Proxy,
}

impl Operator {
    /// Starts an operator whose API server is `proxy`.
    pub fn start(start: &Start<'_>, proxy: Proxy) -> Result<Self> {
        let name = start.elected_as.unwrap_or("operator");
        let kubeconfig = start.directory.join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, proxy.kubeconfig())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let mut arguments =
            ["--own-namespace-only", "--plain-logs", "--listen", &listen, "--namespace", start.namespace]
                .map(str::to_owned)
                .to_vec();
        if let Some(name) = start.elected_as {
            arguments.extend(["--leader-lease", LEASE, "--pod-name", name].map(str::to_owned));
        }
        let log = start.directory.join(format!("{name}.log"));
        let program = start.program.to_owned();
        let child = spawn(&program, &arguments, &kubeconfig, &log)?;
        Ok(Self { arguments, program, kubeconfig, log, listen, child, ended: None, exits: 0, _proxy: proxy })
    }

    fn again(&mut self) -> Result<()> {
        self.child = spawn(&self.program, &self.arguments, &self.kubeconfig, &self.log)?;
        self.ended = None;
        Ok(())
    }

    /// Starts it again a moment after it ended by itself.
    pub fn restart_if_ended(&mut self) -> Result<()> {
        match self.ended {
            Some(ended) if ended.elapsed() >= RESTART_AFTER => self.again()?,
            Some(_) => {}
            None => {
                if self.child.try_wait()?.is_some() {
                    self.ended = Some(Instant::now());
                    self.exits += 1;
                }
            }
        }
        Ok(())
    }

    /// Kills it with SIGKILL; it does not run when this returns.
    pub async fn kill(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Starts it again after [`Operator::kill`].
    pub fn revive(&mut self) -> Result<()> {
        self.again()
    }

    async fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("the operator has ended")?.to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await?;
        ensure!(sent.success(), "cannot send {signal} to the operator");
        Ok(())
    }

    /// Stops it with SIGSTOP: it does nothing until it is resumed.
    pub async fn stop(&self) -> Result<()> {
        self.signal("-STOP").await
    }

    /// Resumes it.
    pub async fn resume(&self) -> Result<()> {
        self.signal("-CONT").await
    }

    /// Whether it is ready.
    pub async fn is_ready(&self, http: &reqwest::Client) -> bool {
        let answer = http.get(format!("http://{}/readyz", self.listen)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

fn spawn(program: &Path, arguments: &[String], kubeconfig: &Path, log: &Path) -> Result<Child> {
    let log = File::options().append(true).create(true).open(log)?;
    Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("RUST_LOG", "info,dragstrip_operator=debug,kube=error")
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

//! The server of a local run and its observer. Touches processes and ports.

use super::{
    children::{self, Process, Program, last_lines, read_output},
    plan::Track,
};
use dragstrip_agents::Agents;
use dragstrip_core::{
    datastore::launch::{Error as ServerError, Launch, launch},
    run::offline::Found,
};
use dragstrip_results::{
    observed::Observation,
    protocol::{PASSWORD_VARIABLE, UsageCommand, UsageWindow},
    signing::VERIFYING_KEY_VARIABLE,
    usage::ServerUsage,
};
use dragstrip_runner::TOKEN_VARIABLE;
use kube::ResourceExt;
use nix::sys::signal::Signal;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitStatus,
    time::Duration,
};
use tokio::{net::TcpStream, time::Instant};

const READY_WITHIN: Duration = Duration::from_secs(60);
const QUERY_INTERVAL: Duration = Duration::from_millis(50);
/// Lines of its log that are reported when it dies.
const LAST_LINES: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to find a free port")]
    Port(#[source] io::Error),
    #[error(
        "spec.port of Datastore {1}: port {2} is taken: end the program that listens there, or change the port in spec.port and in the command"
    )]
    PortTaken(#[source] io::Error, String, u16),
    #[error("Datastore {0}")]
    Launch(String, #[source] ServerError),
    #[error(transparent)]
    Child(#[from] children::Error),
    #[error("{}", .0.message)]
    Died(Death),
    #[error("the server {name} did not answer on port {port} within {within} s", within = READY_WITHIN.as_secs())]
    Silent { name: String, port: u16, last_lines: Vec<String> },
    #[error("the observer of the server did not start")]
    Observer { last_lines: Vec<String> },
    #[error("interrupted before the server was ready")]
    Interrupted,
}

impl Error {
    pub fn last_lines(&self) -> &[String] {
        match self {
            Self::Died(Death { last_lines, .. })
            | Self::Silent { last_lines, .. }
            | Self::Observer { last_lines } => last_lines,
            _ => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    pub message: String,
    pub last_lines: Vec<String>,
}

struct Observer {
    process: Process,
    address: SocketAddr,
    token: String,
}

pub struct Server {
    process: Option<Process>,
    observer: Option<Observer>,
    log: PathBuf,
    pub file: PathBuf,
    pub address: (String, u16),
    observation: Option<Observation>,
}

/// A port on which nobody listens at the moment.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Port)?;
    Ok(listener.local_addr().map_err(Error::Port)?.port())
}

/// The port for the server of `datastore`: a free one, or that of a Custom server's command.
pub fn port(datastore: &dragstrip_crds::Datastore) -> Result<u16, Error> {
    if datastore.spec.custom.is_none() {
        return free_port();
    }
    let declared = u16::try_from(datastore.spec.port).unwrap_or_default();
    let taken = |error| Error::PortTaken(error, datastore.name_any(), declared);
    TcpListener::bind((Ipv4Addr::LOCALHOST, declared)).map_err(taken)?;
    Ok(declared)
}

fn ended(name: &str, status: ExitStatus, log: &std::path::Path) -> Death {
    Death {
        message: format!("the server {name} ended unexpectedly ({status})"),
        last_lines: last_lines(log, LAST_LINES),
    }
}

impl Server {
    /// Starts the server of the plan with its observer, and waits until it answers.
    pub async fn start(track: &Track<'_>) -> Result<Self, Error> {
        let Track { plan, directory, agents, stop, .. } = track;
        let Some(declared) = &plan.server else {
            let address = plan.offline.external_address().unwrap_or_default();
            let (file, log) = (PathBuf::new(), PathBuf::new());
            return Ok(Self { process: None, observer: None, log, file, address, observation: None });
        };
        let name = declared.datastore.name_any();
        let port = port(&declared.datastore)?;
        let launch = launch(&declared.datastore, port, plan.password.as_deref())
            .map_err(|error| Error::Launch(name.clone(), error))?;
        let cpus = plan.division.as_ref();
        let log = directory.log("server");
        let file = directory.bin().join(&declared.file);
        let program = Program {
            name: &name,
            file: &file,
            arguments: launch.arguments.clone(),
            environment: pairs(&launch),
            directory: &directory.server(),
            cpus: cpus.map_or(&[], |division| division.server.as_slice()),
            orphaned: Signal::SIGKILL,
        };
        let process = program.start(&log)?;
        let address = (Ipv4Addr::LOCALHOST.to_string(), port);
        let mut server =
            Self { process: Some(process), observer: None, log, file, address, observation: None };
        let asks = launch.speaks_resp;
        let ready = async {
            server.observer = Some(observer(track, port, asks).await?);
            server.ready(agents, asks).await
        };
        let ready = tokio::select! {
            ready = ready => ready,
            () = stop.requested() => Err(Error::Interrupted),
        };
        if let Err(error) = ready {
            server.end().await?;
            return Err(error);
        }
        Ok(server)
    }

    /// Waits until the server answers; without RESP, until it listens.
    async fn ready(&mut self, agents: &Agents, asks: bool) -> Result<(), Error> {
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            if let Some(death) = self.has_died()? {
                return Err(Error::Died(death));
            }
            if let Some(observer) = self.observer.as_ref().filter(|_| asks) {
                if let Ok(observation) = agents.observe(observer.address, &observer.token).await {
                    self.observation = Some(observation);
                    return Ok(());
                }
            } else if TcpStream::connect((self.address.0.as_str(), self.address.1)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(QUERY_INTERVAL).await;
        }
        let name = self.process.as_ref().map(|process| process.name.clone()).unwrap_or_default();
        Err(Error::Silent { name, port: self.address.1, last_lines: last_lines(&self.log, LAST_LINES) })
    }

    /// What the run needs to know of it.
    pub fn found(&self) -> Found {
        Found {
            host: self.address.0.clone(),
            port: self.address.1,
            observers: self.observer.iter().map(|observer| observer.address).collect(),
            observation: self.observation.clone(),
        }
    }

    pub fn version(&self) -> Option<&str> {
        self.observation.as_ref().map(|observation| observation.server.version.as_str())
    }

    pub fn has_died(&mut self) -> Result<Option<Death>, children::Error> {
        let Some(process) = &mut self.process else { return Ok(None) };
        let status = process.has_ended()?;
        Ok(status.map(|status| ended(&process.name, status, &self.log)))
    }

    /// Lets the observer sample what the server uses.
    pub async fn sample(&self, agents: &Agents, command: &UsageCommand) {
        if let Some(observer) = &self.observer {
            // The check that misses the figures reports that.
            let _ = agents.sample(observer.address, &observer.token, command).await;
        }
    }

    /// What the server used in `window`, under its `name`; nothing without an answer.
    pub async fn usage(&self, agents: &Agents, window: &UsageWindow, name: &str) -> Vec<ServerUsage> {
        let Some(observer) = &self.observer else { return Vec::new() };
        let usage = agents.usage(observer.address, &observer.token, window).await.unwrap_or_default();
        usage.into_iter().map(|server| ServerUsage { server: name.to_owned(), ..server }).collect()
    }

    pub async fn end(&mut self) -> Result<(), children::Error> {
        if let Some(observer) = &mut self.observer {
            observer.process.end().await?;
        }
        match &mut self.process {
            Some(process) => process.end().await,
            None => Ok(()),
        }
    }
}

fn pairs(launch: &Launch) -> Vec<(String, std::ffi::OsString)> {
    launch.environment.iter().map(|(name, value)| (name.clone(), value.into())).collect()
}

/// The observer of the server on `port`, on the clients' CPUs: the server has its own.
async fn observer(track: &Track<'_>, port: u16, asks: bool) -> Result<Observer, Error> {
    let Track { plan, directory, key, .. } = track;
    let token = plan.run.uid().unwrap_or_default();
    let log = directory.log("observer");
    let mut environment = vec![
        (TOKEN_VARIABLE.to_owned(), token.clone().into()),
        (VERIFYING_KEY_VARIABLE.to_owned(), String::from((*key).clone()).into()),
    ];
    environment
        .extend(plan.password.as_ref().map(|password| (PASSWORD_VARIABLE.to_owned(), password.into())));
    let port = port.to_string();
    let arguments = ["observe", "--without-container", "--listen", "127.0.0.1:0", "--port", &port];
    let arguments = arguments.into_iter().chain((!asks).then_some("--without-resp"));
    let program = Program {
        name: "observer",
        file: &directory.runner(),
        arguments: arguments.map(str::to_owned).collect(),
        environment,
        directory: &directory.server(),
        cpus: plan.division.as_ref().map_or(&[], |division| division.clients.as_slice()),
        orphaned: Signal::SIGKILL,
    };
    let mut process = program.start_piped(&log)?;
    let (address, _) = read_output(&mut process, &directory.log("observer-output"));
    let silent = |_| Error::Observer { last_lines: last_lines(&log, LAST_LINES) };
    let address = address.await.map_err(silent)?;
    Ok(Observer { process, address, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_chosen_that_nobody_listens_on() {
        let port = free_port().unwrap();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "port {port} is taken");
    }

    #[test]
    fn a_port_that_a_custom_command_names_must_be_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = listener.local_addr().unwrap().port();
        let custom: dragstrip_crds::Datastore = serde_json::from_value(serde_json::json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "metadata": {"name": "kv"},
            "spec": {"engine": "Custom", "image": "x", "threads": 1, "port": taken, "custom": {"command": ["kv"]}}
        }))
        .unwrap();
        let message = port(&custom).unwrap_err().to_string();
        assert!(message.contains(&format!("port {taken} is taken")), "{message}");
        drop(listener);
        assert_eq!(port(&custom).unwrap(), taken);
    }
}

//! `observe`: the sidecar beside a server, or beside several in one pod. Idle
//! until asked; then it asks each server over one connection that it keeps, where it
//! speaks RESP, and reads its cgroup. On command it joins servers to a cluster or to a primary.
//! Touches the network, /proc and the cgroup file system.

mod finder;
mod page;
mod probes;
mod sampler;
mod samples;
mod scrape;

use crate::{
    delivery::{
        agent::{Guard, Own, commands, questions},
        http,
    },
    frame::stop::Stop,
    measuring::{
        cgroup, host,
        processes::{self, Accounting},
    },
    server::{
        access::Access,
        connection::{ANSWER_TIMEOUT, Server, ServerError},
        encryption::{Encryption, EncryptionError},
        joining,
        tls_files::TlsFiles,
    },
    tools::output::Redactor,
};
use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dragstrip_crds::observed::ServerTruth;
use dragstrip_results::{
    memory::MemberMemory,
    observed::Observation,
    protocol::{
        CLOCK_PATH, MEMORY_PATH, OBSERVED_PATH, READY_PATH, TOPOLOGY_PATH, TopologyCommand, TopologyState,
        USAGE_PATH, UsageCommand, UsageWindow,
    },
    signing::{KeyError, VERIFYING_KEY_VARIABLE, VerifyingKey},
};
use probes::Servers;
use sampler::Sampler;
use scrape::Scraped;
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Mutex};

/// Environment variable with the token that everything under `/v1` asks for; without it
/// nobody gets an answer there.
pub const TOKEN_VARIABLE: &str = "DRAGSTRIP_TOKEN";

/// What the observer is told.
#[derive(Clone)]
pub struct Options {
    /// Where the server listens; the first one, where there are several.
    pub server: SocketAddr,
    /// How many servers there are, on ports one after the other.
    pub servers: u16,
    /// Where the observer listens.
    pub listen: SocketAddr,
    /// The server's process name, where it is none of the known ones.
    pub process_name: Option<String>,
    /// The server's password.
    pub password: Option<String>,
    /// How connections to the servers are encrypted; plain ones when absent.
    pub tls: Option<TlsFiles>,
    /// What everything under `/v1` asks for; without it nobody gets an answer there.
    pub token: Option<String>,
    /// The key that must have signed commands, in base64; the token is enough without one.
    pub verifying_key: Option<String>,
    /// Whose account of CPU and memory is the servers'.
    pub accounting: Accounting,
    /// Whether the servers can be asked.
    pub speaks_resp: bool,
}

/// Why the observer ended.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot encrypt connections to the server")]
    Encryption(#[source] EncryptionError),
    #[error("{VERIFYING_KEY_VARIABLE} cannot be used")]
    VerifyingKey(#[source] KeyError),
    #[error("--servers {servers}: there are not so many ports from {first} on")]
    Ports { first: u16, servers: u16 },
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot serve")]
    Serve(#[source] io::Error),
}

/// Serves until SIGTERM or SIGINT.
pub async fn observe(options: Options) -> Result<(), ObserveError> {
    let stop = Stop::listen().map_err(ObserveError::Signals)?;
    let address = options.listen;
    let listener =
        TcpListener::bind(address).await.map_err(|source| ObserveError::Listen { address, source })?;
    let bound = listener.local_addr().map_err(|source| ObserveError::Listen { address, source })?;
    crate::frame::stdout::print_line(&format!("listening on {bound}, observing {}", options.server));
    let service = router(options)?.into_make_service_with_connect_info::<Own>();
    // Not graceful: nobody's open connection may hold up the pod's end.
    tokio::select! {
        served = axum::serve(listener, service) => served.map_err(ObserveError::Serve),
        () = stop.requested() => Ok(()),
    }
}

fn router(options: Options) -> Result<Router, ObserveError> {
    let (observer, guard) = Observer::new(options)?;
    let guard = Arc::new(guard);
    // Who asks for the use ends its sampling.
    let commanded = Router::new()
        .route(TOPOLOGY_PATH, post(join))
        .route(USAGE_PATH, get(usage).post(sample))
        .route_layer(from_fn_with_state(Arc::clone(&guard), commands));
    let asked = Router::new()
        .route(OBSERVED_PATH, get(observed))
        .route(MEMORY_PATH, get(memory))
        .route(CLOCK_PATH, get(http::clock_answer))
        .route_layer(from_fn_with_state(guard, questions));
    let router = Router::new()
        .route(READY_PATH, get(ready))
        .route("/metrics", get(metrics))
        .merge(commanded)
        .merge(asked);
    Ok(router.with_state(Arc::new(observer)))
}

/// How long a server that was ready counts as ready while its connection stays
/// open. It is probed every second, and each question is work for its threads.
const READY_STANDS: Duration = Duration::from_secs(10);

/// A connection, and when the server last said over it that it is ready.
struct Kept {
    server: Server,
    ready: Option<Instant>,
}

/// A server of the pod.
struct Neighbour {
    address: SocketAddr,
    /// The one connection, made when it is first needed and after it broke.
    connection: Mutex<Option<Kept>>,
}

impl Neighbour {
    /// Whether nothing speaks against what it said last.
    async fn still_ready(&self) -> bool {
        let kept = self.connection.lock().await;
        let said = kept.as_ref().filter(|kept| kept.server.is_open()).and_then(|kept| kept.ready);
        said.is_some_and(|said| said.elapsed() < READY_STANDS)
    }

    async fn note_ready(&self) {
        if let Some(kept) = self.connection.lock().await.as_mut() {
            kept.ready = Some(Instant::now());
        }
    }
}

struct Observer {
    neighbours: Vec<Neighbour>,
    access: Access,
    speaks_resp: bool,
    servers: Servers,
    redactor: Redactor,
    sampler: Sampler,
    scraped: Mutex<Scraped>,
    /// One command at a time: two would undo each other's work.
    joining: Mutex<()>,
}

impl Observer {
    fn new(options: Options) -> Result<(Self, Guard), ObserveError> {
        let Options {
            server,
            servers,
            password,
            tls,
            token,
            verifying_key,
            process_name,
            accounting,
            speaks_resp,
            listen: _,
        } = options;
        let key =
            verifying_key.map(VerifyingKey::try_from).transpose().map_err(ObserveError::VerifyingKey)?;
        let first = server.port();
        let ports = first.checked_add(servers.saturating_sub(1)).map(|last| first..=last);
        let neighbour =
            |port| Neighbour { address: SocketAddr::new(server.ip(), port), connection: Mutex::new(None) };
        let encryption = tls.as_ref().map(Encryption::load).transpose().map_err(ObserveError::Encryption)?;
        let ports: Vec<u16> = ports.ok_or(ObserveError::Ports { first, servers })?.collect();
        let neighbours = ports.iter().copied().map(neighbour).collect();
        let servers = Servers { ports, process_name, accounting };
        let observer = Self {
            neighbours,
            scraped: Mutex::new(Scraped::of(servers.clone())),
            sampler: Sampler::new(servers.clone()),
            servers,
            redactor: Redactor::new(password.as_deref()),
            access: Access { password, encryption, ..Access::default() },
            speaks_resp,
            joining: Mutex::new(()),
        };
        Ok((observer, Guard { token, key }))
    }

    /// Asks a server over the kept connection, and once more over a new one
    /// when the kept one turns out to be broken: the server may have restarted.
    async fn ask<T>(
        &self,
        neighbour: &Neighbour,
        question: impl AsyncFn(&mut Server) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        if !self.speaks_resp {
            return Err(ServerError::NoResp);
        }
        let mut kept = neighbour.connection.lock().await;
        if let Some(mut former) = kept.take()
            && let Ok(answer) = question(&mut former.server).await
        {
            *kept = Some(former);
            return Ok(answer);
        }
        let mut server = self.connect(neighbour).await?;
        let answer = question(&mut server).await?;
        *kept = Some(Kept { server, ready: None });
        Ok(answer)
    }

    /// Connects twice, one after the other, as every client of a load does: a server
    /// that takes the first connection may refuse the second.
    async fn connect(&self, neighbour: &Neighbour) -> Result<Server, ServerError> {
        let connect = || Server::connect(neighbour.address, &self.access, ANSWER_TIMEOUT);
        connect().await?.ping().await?;
        connect().await
    }

    /// What every server is, in the order of their ports.
    async fn truths(&self) -> Result<Vec<ServerTruth>, String> {
        let mut truths = Vec::with_capacity(self.neighbours.len());
        for neighbour in &self.neighbours {
            let truth = self.ask(neighbour, async |server: &mut Server| server.truth().await).await;
            truths.push(truth.map_err(|error| self.complaint(neighbour, &error.to_string()))?);
        }
        Ok(truths)
    }

    /// The memory of every server, by its own account and its container's, in the order of
    /// their ports.
    async fn memory(&self) -> Vec<MemberMemory> {
        let ports: Vec<u16> = self.neighbours.iter().map(|neighbour| neighbour.address.port()).collect();
        let processes = finder::listeners(&ports, self.servers.process_name.as_deref());
        let mut all = Vec::with_capacity(ports.len());
        for (neighbour, process) in self.neighbours.iter().zip(processes) {
            let told = self.ask(neighbour, async |server: &mut Server| server.memory().await).await;
            let told = told.unwrap_or_else(|error| match error {
                ServerError::NoResp => by_the_kernel(process),
                error => MemberMemory {
                    unread: Some(self.redactor.clean(&error.to_string())),
                    ..MemberMemory::default()
                },
            });
            let server = neighbour.address.port().to_string();
            all.push(MemberMemory { server, ..with_cgroup(told, process) });
        }
        all
    }

    /// Says which server it is, where there are several. A server may repeat
    /// what it was sent, the password too.
    fn complaint(&self, neighbour: &Neighbour, reason: &str) -> String {
        let port = neighbour.address.port();
        let place = if self.neighbours.len() > 1 { format!("port {port}: ") } else { String::new() };
        format!("{place}{}", self.redactor.clean(reason))
    }
}

/// The memory of the server's `process` by the kernel's account: resident now, and at most.
fn by_the_kernel(process: Option<i32>) -> MemberMemory {
    let usage = process.and_then(processes::read).map(|read| read.usage);
    MemberMemory {
        rss_bytes: usage.as_ref().map(|usage| usage.memory_bytes),
        peak_bytes: usage.as_ref().map(|usage| usage.memory_peak_bytes),
        unread: usage.is_none().then(|| "no process is seen that listens on its port".to_owned()),
        ..MemberMemory::default()
    }
}

/// `told` with the account of the container of the server's `process`.
fn with_cgroup(told: MemberMemory, process: Option<i32>) -> MemberMemory {
    let Some(read) = process.and_then(|process| cgroup::read(&finder::cgroup_root(process))) else {
        let unread = told.unread.or_else(|| Some("its container's account cannot be read".to_owned()));
        return MemberMemory { unread, ..told };
    };
    let usage = read.usage;
    MemberMemory {
        cgroup_bytes: Some(usage.memory_bytes.saturating_sub(usage.inactive_file_bytes)),
        // Kernels before 5.19 keep no peak.
        cgroup_peak_bytes: Some(usage.memory_peak_bytes).filter(|peak| *peak > 0),
        ..told
    }
}

/// The answer when a server gives none.
fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

async fn ready(State(observer): State<Arc<Observer>>) -> Response {
    for neighbour in &observer.neighbours {
        if neighbour.still_ready().await {
            continue;
        }
        let question = async |server: &mut Server| {
            server.ping().await?;
            server.loading().await
        };
        let complaint = match observer.ask(neighbour, question).await {
            Ok(false) => {
                neighbour.note_ready().await;
                continue;
            }
            Ok(true) => "the server is still loading its data set".to_owned(),
            Err(error) => error.to_string(),
        };
        return unavailable(&observer.complaint(neighbour, &complaint));
    }
    (StatusCode::OK, "ready\n").into_response()
}

async fn observed(State(observer): State<Arc<Observer>>) -> Response {
    let truths = match observer.truths().await {
        Ok(truths) => truths,
        Err(error) => return unavailable(&error),
    };
    let Some(server) = truths.first().cloned() else {
        return unavailable("there is no server to observe");
    };
    let cgroup = finder::server_usage(&observer.servers);
    let shards = if truths.len() > 1 { truths } else { Vec::new() };
    Json(Observation { server, host: host::read(), cgroup, shards }).into_response()
}

async fn memory(State(observer): State<Arc<Observer>>) -> Response {
    Json(observer.memory().await).into_response()
}

async fn join(State(observer): State<Arc<Observer>>, Json(command): Json<TopologyCommand>) -> Response {
    let _turn = observer.joining.lock().await;
    let mut state: TopologyState = joining::join(&command, &observer.access).await;
    for change in &state.changes {
        crate::frame::stdout::print_line(&format!("joining: {change}"));
    }
    state.message = observer.redactor.clean(&state.message);
    Json(state).into_response()
}

async fn sample(State(observer): State<Arc<Observer>>, Json(command): Json<UsageCommand>) -> Response {
    observer.sampler.begin(command);
    Json(()).into_response()
}

async fn usage(State(observer): State<Arc<Observer>>, Query(window): Query<UsageWindow>) -> Response {
    match observer.sampler.usage(&window) {
        Ok(servers) => Json(servers).into_response(),
        Err(reason) => (StatusCode::CONFLICT, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(observer): State<Arc<Observer>>) -> Response {
    http::metrics_answer(observer.metrics_page().await)
}

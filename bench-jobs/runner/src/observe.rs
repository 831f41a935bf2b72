//! `observe`: the sidecar beside a server, or beside several in one pod. Idle
//! until it gets a request; then it queries each server where it speaks RESP, and reads its
//! cgroup. On command it joins servers to a cluster or to a primary.
//! Touches the network, /proc and the cgroup file system.

mod finder;
mod memory;
mod neighbours;
mod page;
mod probes;
mod sampler;
mod samples;
mod scrape;

use crate::{
    delivery::agent::{Guard, LocalEnd, clock_answer, guarded, metrics_answer},
    frame::{stdout::print_line, stop::Stop},
    measuring::{host, processes::Accounting},
    server::{
        access::Access,
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
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dragstrip_results::{
    observed::Observation,
    protocol::{
        CLOCK_PATH, MEMORY_PATH, OBSERVED_PATH, READY_PATH, TOPOLOGY_PATH, TopologyCommand, USAGE_PATH,
        UsageCommand, UsageWindow,
    },
    signing::{KeyError, VERIFYING_KEY_VARIABLE, VerifyingKey},
};
use finder::Servers;
use neighbours::{Neighbour, Neighbours};
use sampler::Sampler;
use scrape::Scraper;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, sync::Mutex};

/// Environment variable with the token that every request under `/v1` must carry.
pub const TOKEN_VARIABLE: &str = "DRAGSTRIP_TOKEN";

#[derive(Clone)]
pub struct Options {
    /// Where the server listens; the first one, where there are several.
    pub server: SocketAddr,
    /// How many servers there are, on consecutive ports.
    pub servers: u16,
    pub listen: SocketAddr,
    /// The server's process name, where it is not one of the engines'.
    pub process_name: Option<String>,
    pub password: Option<String>,
    pub tls: Option<TlsFiles>,
    /// The token of everything under `/v1`.
    pub token: Option<String>,
    /// The key that must have signed commands, in base64.
    pub verifying_key: Option<String>,
    pub accounting: Accounting,
    pub speaks_resp: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot encrypt connections to the server")]
    Encryption(#[source] EncryptionError),
    #[error("the environment variable {0} is not set: the operator sets it in every observer")]
    Missing(&'static str),
    #[error("cannot use {VERIFYING_KEY_VARIABLE}")]
    VerifyingKey(#[source] KeyError),
    #[error("--servers {servers}: there are fewer ports from {first} on")]
    Ports { first: u16, servers: u16 },
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot serve HTTP")]
    Serve(#[source] io::Error),
}

pub async fn observe(options: Options) -> Result<(), ObserveError> {
    let stop = Stop::listen().map_err(ObserveError::Signals)?;
    let (address, server) = (options.listen, options.server);
    let service = router(options)?.into_make_service_with_connect_info::<LocalEnd>();
    let listener =
        TcpListener::bind(address).await.map_err(|source| ObserveError::Listen { address, source })?;
    let bound = listener.local_addr().map_err(|source| ObserveError::Listen { address, source })?;
    print_line(&format!("listening on {bound}, observing {server}"));
    // Not graceful: an open connection must not delay the pod's end.
    tokio::select! {
        served = axum::serve(listener, service) => served.map_err(ObserveError::Serve),
        () = stop.requested() => Ok(()),
    }
}

fn router(options: Options) -> Result<Router, ObserveError> {
    let token = options.token.clone().ok_or(ObserveError::Missing(TOKEN_VARIABLE))?;
    let key = options.verifying_key.clone().ok_or(ObserveError::Missing(VERIFYING_KEY_VARIABLE))?;
    let guard = Guard { token, key: VerifyingKey::try_from(key).map_err(ObserveError::VerifyingKey)? };
    let open = Router::new().route(READY_PATH, get(ready)).route("/metrics", get(metrics));
    let queries = Router::new()
        .route(OBSERVED_PATH, get(observed))
        .route(MEMORY_PATH, get(memory))
        .route(CLOCK_PATH, get(clock_answer));
    // Reading the usage ends its sampling, so that it is a command too.
    let commands = Router::new().route(TOPOLOGY_PATH, post(join)).route(USAGE_PATH, get(usage).post(sample));
    Ok(guarded(guard, open, queries, commands).with_state(Arc::new(Observer::new(options)?)))
}

struct Observer {
    neighbours: Neighbours,
    servers: Servers,
    sampler: Sampler,
    /// One page is made at a time, and whoever scrapes meanwhile gets that one.
    scraper: Mutex<Scraper>,
    /// One command at a time: two would undo each other's work.
    joining: Mutex<()>,
}

impl Observer {
    fn new(options: Options) -> Result<Self, ObserveError> {
        let Options { server, servers, password, tls, process_name, accounting, speaks_resp, .. } = options;
        let first = server.port();
        let last =
            first.checked_add(servers.saturating_sub(1)).ok_or(ObserveError::Ports { first, servers })?;
        let ports: Vec<u16> = (first..=last).collect();
        let encryption = tls.as_ref().map(Encryption::load).transpose().map_err(ObserveError::Encryption)?;
        let neighbours = Neighbours {
            servers: ports.iter().map(|port| Neighbour::at(SocketAddr::new(server.ip(), *port))).collect(),
            redactor: Redactor::new(password.as_deref()),
            access: Access { password, encryption, ..Access::default() },
            speaks_resp,
        };
        let servers = Servers { ports, process_name, accounting };
        Ok(Self {
            neighbours,
            scraper: Mutex::new(Scraper::of(servers.clone())),
            sampler: Sampler::new(servers.clone()),
            servers,
            joining: Mutex::new(()),
        })
    }
}

/// The answer for a server that gives none.
fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

async fn ready(State(observer): State<Arc<Observer>>) -> Response {
    match observer.neighbours.ready().await {
        Ok(()) => (StatusCode::OK, "ready\n").into_response(),
        Err(complaint) => unavailable(&complaint),
    }
}

async fn observed(State(observer): State<Arc<Observer>>) -> Response {
    let truths = match observer.neighbours.truths().await {
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
    Json(memory::memory(&observer.neighbours, &observer.servers).await).into_response()
}

async fn join(State(observer): State<Arc<Observer>>, Json(command): Json<TopologyCommand>) -> Response {
    let _turn = observer.joining.lock().await;
    let mut state = joining::join(&command, &observer.neighbours.access).await;
    for change in &state.changes {
        print_line(&format!("joining: {change}"));
    }
    state.message = observer.neighbours.redactor.clean(&state.message);
    Json(state).into_response()
}

async fn sample(State(observer): State<Arc<Observer>>, Json(request): Json<UsageCommand>) -> Response {
    observer.sampler.begin(request);
    Json(()).into_response()
}

async fn usage(State(observer): State<Arc<Observer>>, Query(window): Query<UsageWindow>) -> Response {
    match observer.sampler.usage(&window) {
        Ok(servers) => Json(servers).into_response(),
        Err(reason) => (StatusCode::CONFLICT, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(observer): State<Arc<Observer>>) -> Response {
    metrics_answer(observer.scraper.lock().await.page(&observer.neighbours).await)
}

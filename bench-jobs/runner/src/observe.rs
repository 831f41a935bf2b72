//! `observe`: the sidecar beside a server, or beside several in one pod. Idle
//! until it gets a request; then it queries each server where it speaks RESP, and reads its
//! cgroup. On command it joins servers to a cluster or to a primary.
//! Touches the environment, the network, /proc and the cgroup file system.

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
    frame::{
        environment::{password, variable},
        stdout::print_line,
        stop::Stop,
    },
    measuring::{host, processes::Accounting},
    server::{
        access::{Access, CertificateError},
        joining,
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
use clap::Args;
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_results::{
    observed::Observation,
    protocol::{
        CLOCK_PATH, MEMORY_PATH, OBSERVED_PATH, OBSERVER_PORT, READY_PATH, SERVER_CERTIFICATE_DIRECTORY,
        TOPOLOGY_PATH, TopologyCommand, USAGE_PATH, UsageCommand, UsageWindow,
    },
    signing::{KeyError, VERIFYING_KEY_VARIABLE, VerifyingKey},
};
use finder::Servers;
use neighbours::{Neighbour, Neighbours};
use sampler::Sampler;
use scrape::Scraper;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::Mutex, time::timeout};

/// Environment variable with the token that every request under `/v1` must carry.
pub const TOKEN_VARIABLE: &str = "DRAGSTRIP_TOKEN";
/// A server that was ready and takes longer to answer is not.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// Options of `observe`.
#[derive(Debug, Args)]
pub struct Options {
    /// Port of the server.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Number of servers, on consecutive ports.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Encrypt connections, and require that the server's certificate is valid for this name.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Directory with the ca.crt that must have signed the certificate.
    #[arg(long, default_value = SERVER_CERTIFICATE_DIRECTORY)]
    tls_authority_directory: PathBuf,
    /// Directory with the tls.crt and tls.key to present to the server.
    #[arg(long, requires = "tls_server_name")]
    tls_client_directory: Option<PathBuf>,
    /// Address and port of the HTTP server.
    #[arg(long, default_value_t = (Ipv4Addr::UNSPECIFIED, OBSERVER_PORT).into())]
    listen: SocketAddr,
    /// Account for the processes that listen on the ports instead of containers.
    #[arg(long)]
    without_container: bool,
    /// Send nothing to the servers, which do not speak RESP; report what they use.
    #[arg(long)]
    without_resp: bool,
}

impl Options {
    fn tls(&self) -> Option<TlsOptions> {
        let client = self.tls_client_directory.as_ref();
        Some(TlsOptions {
            ca_file: Some(self.tls_authority_directory.join("ca.crt")),
            certificate_file: client.map(|directory| directory.join("tls.crt")),
            key_file: client.map(|directory| directory.join("tls.key")),
            server_name: Some(self.tls_server_name.clone()?),
            insecure: false,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot reach the server")]
    Certificates(#[source] CertificateError),
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
    let (address, port) = (options.listen, options.port);
    let service = router(&options)?.into_make_service_with_connect_info::<LocalEnd>();
    let failed = |source| ObserveError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    print_line(&format!("listening on {bound}, observing port {port}"));
    // Not graceful: an open connection must not delay the pod's end.
    tokio::select! {
        served = axum::serve(listener, service) => served.map_err(ObserveError::Serve),
        () = stop.requested() => Ok(()),
    }
}

fn router(options: &Options) -> Result<Router, ObserveError> {
    let required = |name| variable(name).ok_or(ObserveError::Missing(name));
    let key =
        VerifyingKey::try_from(required(VERIFYING_KEY_VARIABLE)?).map_err(ObserveError::VerifyingKey)?;
    let guard = Guard { token: required(TOKEN_VARIABLE)?, key };
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
    /// One page is made at a time; scrapes in the meantime get that one.
    scraper: Mutex<Scraper>,
    /// One command runs at a time: two would undo each other's work.
    joining: Mutex<()>,
}

impl Observer {
    fn new(options: &Options) -> Result<Self, ObserveError> {
        let Options { port: first, servers, .. } = *options;
        let last =
            first.checked_add(servers.saturating_sub(1)).ok_or(ObserveError::Ports { first, servers })?;
        let ports: Vec<u16> = (first..=last).collect();
        let password = password();
        let neighbours = Neighbours {
            servers: ports
                .iter()
                .map(|port| Neighbour::at(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))))
                .collect(),
            redactor: Redactor::new(password.as_deref()),
            access: Access::new(None, password, options.tls().as_ref())
                .map_err(ObserveError::Certificates)?,
            speaks_resp: !options.without_resp,
        };
        let servers = Servers { ports, accounting: Accounting::new(options.without_container) };
        Ok(Self {
            neighbours,
            scraper: Mutex::new(Scraper::of(servers.clone())),
            sampler: Sampler::new(servers.clone()),
            servers,
            joining: Mutex::new(()),
        })
    }
}

/// The answer for a server that does not answer.
fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

async fn ready(State(observer): State<Arc<Observer>>) -> Response {
    observer.neighbours.started().await;
    match timeout(READY_WITHIN, observer.neighbours.ready()).await {
        Ok(Ok(())) => (StatusCode::OK, "ready\n").into_response(),
        Ok(Err(complaint)) => unavailable(&complaint),
        Err(_) => {
            unavailable(&format!("the server takes longer than {} s to answer", READY_WITHIN.as_secs()))
        }
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
    let cgroup = observer.servers.usage();
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

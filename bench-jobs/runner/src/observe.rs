//! `observe`: the sidecar beside a server. Idle until asked; then it asks the
//! server over one connection that it keeps, and reads the server's cgroup.
//! Touches the network, /proc and the cgroup file system.

mod finder;
mod page;

use crate::{
    exposition::CONTENT_TYPE,
    host, http,
    output::Redactor,
    server::{ANSWER_TIMEOUT, Server, ServerError, truth::detect_engine},
    stop::Stop,
};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use dragstrip_crds::{
    observed::{Observation, ServerTruth},
    protocol::{OBSERVED_PATH, READY_PATH},
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, sync::Mutex};

/// Environment variable with the token that `/v1/observed` asks for.
pub const TOKEN_VARIABLE: &str = "DRAGSTRIP_TOKEN";

/// What the observer is told.
#[derive(Clone)]
pub struct Options {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Where the observer listens.
    pub listen: SocketAddr,
    /// The server's process name, where it is none of the known ones.
    pub process_name: Option<String>,
    /// The server's password.
    pub password: Option<String>,
    /// What `/v1/observed` asks for; without it nobody gets an answer there.
    pub token: Option<String>,
}

/// Why the observer ended.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// Signals cannot be listened for.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// The port is taken.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The HTTP server gave up.
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
    crate::say(&format!("listening on {bound}, observing {}", options.server));
    let redactor = Redactor::new(options.password.as_deref());
    let router = Router::new()
        .route(READY_PATH, get(ready))
        .route(OBSERVED_PATH, get(observed))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Observer { options, redactor, connection: Mutex::new(None) }));
    // Not graceful: nobody's open connection may hold up the pod's end.
    tokio::select! {
        served = axum::serve(listener, router) => served.map_err(ObserveError::Serve),
        () = stop.requested() => Ok(()),
    }
}

struct Observer {
    options: Options,
    redactor: Redactor,
    /// The one connection, made when it is first needed and after it broke.
    connection: Mutex<Option<Server>>,
}

impl Observer {
    /// Asks the server over the kept connection, and once more over a new one
    /// when the kept one turns out to be broken: the server may have restarted.
    async fn ask<T>(
        &self,
        question: impl AsyncFn(&mut Server) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let mut kept = self.connection.lock().await;
        if let Some(mut server) = kept.take()
            && let Ok(answer) = question(&mut server).await
        {
            *kept = Some(server);
            return Ok(answer);
        }
        let password = self.options.password.as_deref();
        let mut server = Server::connect(self.options.server, password, ANSWER_TIMEOUT).await?;
        let answer = question(&mut server).await?;
        *kept = Some(server);
        Ok(answer)
    }
}

/// The answer when the server gives none. A server may repeat what it was
/// sent, the password too.
fn unavailable(observer: &Observer, reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", observer.redactor.clean(reason))).into_response()
}

async fn ready(State(observer): State<Arc<Observer>>) -> Response {
    let question = async |server: &mut Server| {
        server.ping().await?;
        server.loading().await
    };
    match observer.ask(question).await {
        Ok(false) => (StatusCode::OK, "ready\n").into_response(),
        Ok(true) => unavailable(&observer, "the server is still loading its data set"),
        Err(error) => unavailable(&observer, &error.to_string()),
    }
}

async fn observed(State(observer): State<Arc<Observer>>, headers: HeaderMap) -> Response {
    let token = observer.options.token.as_deref();
    if !token.is_some_and(|token| http::authorised(&headers, token)) {
        return http::refusal();
    }
    let truth: Result<ServerTruth, _> = observer.ask(async |server: &mut Server| server.truth().await).await;
    match truth {
        Ok(server) => {
            let cgroup = finder::server_usage(observer.options.process_name.as_deref());
            Json(Observation { server, host: host::read(), cgroup }).into_response()
        }
        Err(error) => unavailable(&observer, &error.to_string()),
    }
}

async fn metrics(State(observer): State<Arc<Observer>>) -> Response {
    // A server that does not answer is a value too.
    let info = observer.ask(async |server: &mut Server| server.info().await).await.ok();
    let engine = info.as_ref().and_then(detect_engine);
    let usage = finder::server_usage(observer.options.process_name.as_deref());
    let page = page::page(engine, info.as_ref(), usage.as_ref());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response()
}

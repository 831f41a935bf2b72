//! The HTTP interface that runner and observer share: queries must carry the agent's
//! token, commands the operator's signature too; the clock; the page of metrics.
//! Touches the clock.

use crate::frame::clock;
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use dragstrip_results::{
    protocol::{ClockReading, TOKEN_HEADER},
    signing::{AgentRequest, Refused, SIGNATURE_HEADER, VerifyingKey},
};
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// Largest command, in bytes: that of a cluster names 64 servers.
const LARGEST_COMMAND: usize = 64 * 1024;
const NANOS_PER_MILLI: i64 = 1_000_000;

#[derive(Debug)]
pub struct Guard {
    pub token: String,
    pub key: VerifyingKey,
}

/// The agent's end of a connection: the address that a command must be for. Serve a guarded
/// router with `into_make_service_with_connect_info::<LocalEnd>`.
#[derive(Debug, Clone, Copy)]
pub struct LocalEnd(Option<SocketAddr>);

impl Connected<IncomingStream<'_, TcpListener>> for LocalEnd {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        // Commands over a socket whose end is unknown are refused.
        Self(stream.io().local_addr().ok())
    }
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the header {TOKEN_HEADER} does not hold the token of this run or Datastore")]
    Token,
    #[error(transparent)]
    Signature(#[from] Refused),
    #[error("a command has at most {LARGEST_COMMAND} bytes")]
    TooLarge,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Token | Self::Signature(_) => StatusCode::FORBIDDEN,
        };
        (status, format!("{self}\n")).into_response()
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Guard {
    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if text(headers, TOKEN_HEADER) == Some(&self.token) { Ok(()) } else { Err(Refusal::Token) }
    }

    async fn check_signature(&self, LocalEnd(end): LocalEnd, request: Request) -> Result<Request, Refusal> {
        self.check_token(request.headers())?;
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, LARGEST_COMMAND).await.map_err(|_| Refusal::TooLarge)?;
        let command = AgentRequest {
            method: parts.method.as_str(),
            path: parts.uri.path_and_query().map_or("/", |path| path.as_str()),
            token: &self.token,
            agent: end.ok_or(Refusal::Signature(Refused::OtherKey))?,
            body: &body,
        };
        let now = clock::unix_nanos() / NANOS_PER_MILLI;
        self.key.check(&command, text(&parts.headers, SIGNATURE_HEADER), now)?;
        Ok(Request::from_parts(parts, Body::from(body)))
    }
}

/// The routes: `open` ones need nothing, `queries` need the token, since they change nothing,
/// and `commands` need the operator's signature too.
pub fn guarded<S: Clone + Send + Sync + 'static>(
    guard: Guard,
    open: Router<S>,
    queries: Router<S>,
    commands: Router<S>,
) -> Router<S> {
    let guard = Arc::new(guard);
    let queries = queries.route_layer(from_fn_with_state(Arc::clone(&guard), query));
    open.merge(queries).merge(commands.route_layer(from_fn_with_state(guard, command)))
}

async fn query(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check_token(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn command(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(end): ConnectInfo<LocalEnd>,
    request: Request,
    next: Next,
) -> Response {
    match guard.check_signature(end, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The agent's clock, read last, so that making the answer takes no part of the round trip.
pub async fn clock_answer() -> Response {
    Json(ClockReading { unix_nanos: clock::unix_nanos() }).into_response()
}

pub fn metrics_answer(page: Result<String, prometheus::Error>) -> Response {
    match page {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

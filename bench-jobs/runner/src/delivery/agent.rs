//! Who may ask an agent, and who may command it: a question carries the agent's token, an
//! command the operator's signature besides. Touches the clock.

use crate::frame::clock;
use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::{HeaderMap, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use dragstrip_results::{
    protocol::TOKEN_HEADER,
    signing::{AgentRequest, Refused, SIGNATURE_HEADER, VerifyingKey},
};
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// Largest command, in bytes: that of a cluster names 64 servers.
const LARGEST_COMMAND: usize = 64 * 1024;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// What a question and a command must carry.
#[derive(Debug)]
pub struct Guard {
    /// Whose agent this is; without it nobody gets an answer.
    pub token: Option<String>,
    /// The operator's key; an agent without one takes the token for a signature.
    pub key: Option<VerifyingKey>,
}

/// The agent's end of a connection: the address that a command must be for. A router served
/// with [`Guard`] is to tell it (`into_make_service_with_connect_info::<Own>`).
#[derive(Debug, Clone, Copy)]
pub struct Own(Option<SocketAddr>);

impl Connected<IncomingStream<'_, TcpListener>> for Own {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        // A socket whose end is unknown is nobody's: commands over it are refused.
        Self(stream.io().local_addr().ok())
    }
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
enum No {
    #[error("the header {TOKEN_HEADER} does not hold the token of this run or Datastore")]
    Token,
    #[error(transparent)]
    Signature(#[from] Refused),
    #[error("a command has at most {LARGEST_COMMAND} bytes")]
    TooLarge,
}

impl IntoResponse for No {
    fn into_response(self) -> Response {
        let status = if matches!(self, Self::TooLarge) {
            StatusCode::PAYLOAD_TOO_LARGE
        } else {
            StatusCode::FORBIDDEN
        };
        (status, format!("{self}\n")).into_response()
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Guard {
    /// The token, if the request carries it.
    fn known(&self, headers: &HeaderMap) -> Result<&str, No> {
        let token = self.token.as_deref().ok_or(No::Token)?;
        if text(headers, TOKEN_HEADER) == Some(token) { Ok(token) } else { Err(No::Token) }
    }

    async fn signed(&self, own: Own, request: Request) -> Result<Request, No> {
        let token = self.known(request.headers())?;
        let Some(key) = &self.key else { return Ok(request) };
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, LARGEST_COMMAND).await.map_err(|_| No::TooLarge)?;
        let command = AgentRequest {
            method: parts.method.as_str(),
            path: parts.uri.path_and_query().map_or("/", |path| path.as_str()),
            token,
            agent: own.0.ok_or(No::Signature(Refused::OtherKey))?,
            body: &body,
        };
        let now = clock::unix_nanos() / NANOS_PER_MILLI;
        key.check(&command, text(&parts.headers, SIGNATURE_HEADER), now)?;
        Ok(Request::from_parts(parts, Body::from(body)))
    }
}

/// Lets through who knows the token: for questions, which change nothing.
pub async fn questions(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.known(request.headers()) {
        Ok(_) => next.run(request).await,
        Err(no) => no.into_response(),
    }
}

/// Lets through what the operator signed: for commands.
pub async fn commands(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(own): ConnectInfo<Own>,
    request: Request,
    next: Next,
) -> Response {
    match guard.signed(own, request).await {
        Ok(request) => next.run(request).await,
        Err(no) => no.into_response(),
    }
}

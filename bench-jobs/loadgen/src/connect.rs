//! Finds the server and makes connections ready for load: resolve, connect,
//! authenticate, agree on the protocol version.
//!
//! Every failure names the server's address and the step it happened in.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::configuration::{Configuration, Credentials, Protocol};
use crate::report::{Failure, FailureKind};
use crate::scanner::{ReplyKind, ReplyScanner, ReplySink, ScanError};

/// What a connection is asked before the load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HandshakeStep {
    Authenticate,
    NegotiateProtocol,
}

impl HandshakeStep {
    fn name(self) -> &'static str {
        match self {
            Self::Authenticate => "authenticate (AUTH)",
            Self::NegotiateProtocol => "agree on RESP3 (HELLO 3)",
        }
    }
}

/// A connection could not be made ready.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("cannot resolve {target}: {source}")]
    Resolve { target: String, source: io::Error },
    #[error("cannot resolve {target}: no answer within {seconds} s")]
    ResolveTimeout { target: String, seconds: f64 },
    #[error("cannot resolve {target}: the name has no address")]
    NoAddress { target: String },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("cannot connect to {address}: no answer within {seconds} s")]
    ConnectTimeout { address: SocketAddr, seconds: f64 },
    #[error("cannot set up the socket to {address}: {source}")]
    ConfigureSocket { address: SocketAddr, source: io::Error },
    #[error("cannot {} with {address}: {source}", step.name())]
    Exchange { step: HandshakeStep, address: SocketAddr, source: io::Error },
    #[error("cannot {} with {address}: no answer within {seconds} s", step.name())]
    ExchangeTimeout { step: HandshakeStep, address: SocketAddr, seconds: f64 },
    #[error("cannot {} with {address}: the server closed the connection", step.name())]
    Closed { step: HandshakeStep, address: SocketAddr },
    #[error("cannot {} with {address}: the server says: {reply}", step.name())]
    Refused { step: HandshakeStep, address: SocketAddr, reply: String },
    #[error("cannot {} with {address}: {source}", step.name())]
    Unreadable { step: HandshakeStep, address: SocketAddr, source: ScanError },
}

impl ConnectError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self) -> Failure {
        let (kind, step, address) = match self {
            Self::Resolve { target, .. }
            | Self::ResolveTimeout { target, .. }
            | Self::NoAddress { target } => (FailureKind::NameResolution, "resolve", target.clone()),
            Self::Connect { address, .. }
            | Self::ConnectTimeout { address, .. }
            | Self::ConfigureSocket { address, .. } => (FailureKind::Connect, "connect", address.to_string()),
            Self::Exchange { step, address, .. }
            | Self::ExchangeTimeout { step, address, .. }
            | Self::Closed { step, address }
            | Self::Unreadable { step, address, .. } => {
                (FailureKind::Handshake, step.name(), address.to_string())
            }
            Self::Refused { step, address, reply } => {
                (refusal_kind(*step, reply), step.name(), address.to_string())
            }
        };
        Failure { kind, step: step.into(), address, message: self.to_string() }
    }
}

fn refusal_kind(step: HandshakeStep, reply: &str) -> FailureKind {
    if step == HandshakeStep::Authenticate || reply.starts_with("NOAUTH") {
        FailureKind::Authentication
    } else {
        FailureKind::Handshake
    }
}

/// The addresses of the server, at least one.
pub(crate) async fn resolve(configuration: &Configuration) -> Result<Vec<SocketAddr>, ConnectError> {
    let target = configuration.target();
    let lookup = lookup_host((configuration.host.as_str(), configuration.port));
    let addresses: Vec<SocketAddr> = match timeout(configuration.connect_timeout, lookup).await {
        Err(_) => {
            let seconds = configuration.connect_timeout.as_secs_f64();
            return Err(ConnectError::ResolveTimeout { target, seconds });
        }
        Ok(Err(source)) => return Err(ConnectError::Resolve { target, source }),
        Ok(Ok(found)) => found.collect(),
    };
    if addresses.is_empty() { Err(ConnectError::NoAddress { target }) } else { Ok(addresses) }
}

/// A connection ready for load, made with the first address that accepts one.
pub(crate) async fn establish(
    configuration: &Configuration,
    addresses: &[SocketAddr],
) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let mut last_error = ConnectError::NoAddress { target: configuration.target() };
    for &address in addresses {
        match connect(address, configuration.connect_timeout).await {
            Ok(mut stream) => {
                greet(&mut stream, address, configuration).await?;
                return Ok((stream, address));
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

async fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, ConnectError> {
    let stream = match timeout(limit, TcpStream::connect(address)).await {
        Err(_) => {
            return Err(ConnectError::ConnectTimeout { address, seconds: limit.as_secs_f64() });
        }
        Ok(Err(source)) => return Err(ConnectError::Connect { address, source }),
        Ok(Ok(stream)) => stream,
    };
    stream.set_nodelay(true).map_err(|source| ConnectError::ConfigureSocket { address, source })?;
    Ok(stream)
}

async fn greet(
    stream: &mut TcpStream,
    address: SocketAddr,
    configuration: &Configuration,
) -> Result<(), ConnectError> {
    if let Some(credentials) = &configuration.credentials {
        let request = authentication_request(credentials);
        ask(stream, address, HandshakeStep::Authenticate, &request, configuration.connect_timeout).await?;
    }
    if configuration.protocol == Protocol::Resp3 {
        let request = encode_command(&["HELLO", "3"]);
        ask(stream, address, HandshakeStep::NegotiateProtocol, &request, configuration.connect_timeout)
            .await?;
    }
    Ok(())
}

fn authentication_request(credentials: &Credentials) -> Vec<u8> {
    match &credentials.username {
        Some(username) => encode_command(&["AUTH", username, &credentials.password]),
        None => encode_command(&["AUTH", &credentials.password]),
    }
}

fn encode_command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

async fn ask(
    stream: &mut TcpStream,
    address: SocketAddr,
    step: HandshakeStep,
    request: &[u8],
    limit: Duration,
) -> Result<(), ConnectError> {
    match timeout(limit, exchange(stream, address, step, request)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ConnectError::ExchangeTimeout { step, address, seconds: limit.as_secs_f64() }),
    }
}

async fn exchange(
    stream: &mut TcpStream,
    address: SocketAddr,
    step: HandshakeStep,
    request: &[u8],
) -> Result<(), ConnectError> {
    let broken = |source| ConnectError::Exchange { step, address, source };
    stream.write_all(request).await.map_err(broken)?;
    let mut scanner = ReplyScanner::new();
    let mut answer = Answer::default();
    let mut buffer = [0_u8; 4096];
    loop {
        let length = stream.read(&mut buffer).await.map_err(broken)?;
        if length == 0 {
            return Err(ConnectError::Closed { step, address });
        }
        let bytes = buffer.get(..length).unwrap_or_default();
        scanner.scan(bytes, &mut answer).map_err(|source| ConnectError::Unreadable {
            step,
            address,
            source,
        })?;
        if let Some(reply) = answer.error.take() {
            return Err(ConnectError::Refused { step, address, reply });
        }
        if answer.accepted {
            return Ok(());
        }
    }
}

/// The single reply that a handshake request has.
#[derive(Debug, Default)]
struct Answer {
    accepted: bool,
    error: Option<String>,
}

impl ReplySink for Answer {
    fn reply(&mut self, _kind: ReplyKind, _bytes: u64) {
        self.accepted = true;
    }

    fn error(&mut self, message: &[u8], _bytes: u64) {
        self.error = Some(String::from_utf8_lossy(message).into_owned());
    }

    fn push(&mut self, _bytes: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_exactly() {
        let credentials = Credentials { username: Some("user".into()), password: "pässword".into() };
        let request = authentication_request(&credentials);
        assert_eq!(request, "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$9\r\npässword\r\n".as_bytes());
        assert!(!format!("{credentials:?}").contains("ssword\""), "{credentials:?}");
    }

    #[test]
    fn a_refused_hello_for_lack_of_credentials_is_an_authentication_failure() {
        let hello = HandshakeStep::NegotiateProtocol;
        assert_eq!(refusal_kind(hello, "NOAUTH HELLO must be called"), FailureKind::Authentication);
        assert_eq!(refusal_kind(hello, "ERR unknown command"), FailureKind::Handshake);
    }
}

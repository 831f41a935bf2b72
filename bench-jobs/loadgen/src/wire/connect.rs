//! Finds the server and makes connections ready for load: resolve, connect,
//! secure, authenticate, agree on the protocol version.
//!
//! Every failure names the server's address and the step it happened in.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;

use crate::configuration::{Configuration, Credentials};
use crate::counts::report::{Failure, FailureKind};
use crate::wire::exchange::{ExchangeError, Said, encode_command, exchange};
use crate::wire::outgoing::Outgoing;
use crate::wire::stream::LoadStream;
use crate::wire::tls::{TlsClient, TlsError};

/// Where a server can be reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Endpoint {
    /// As people know it, `host:port` or a path.
    pub(crate) label: Arc<str>,
    /// Its host, which a certificate must name.
    pub(crate) host: String,
    pub(crate) place: Place,
}

/// A way to a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

impl Endpoint {
    /// The addresses behind the name, as text.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match &self.place {
            Place::Tcp(addresses) => addresses.iter().map(SocketAddr::to_string).collect(),
            Place::Unix(path) => vec![path.display().to_string()],
        }
    }
}

/// Requests on a connection before the load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HandshakeStep {
    Authenticate,
    NegotiateProtocol,
    AllowReplicaReads,
    ReadSlots,
}

impl HandshakeStep {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Authenticate => "authenticate (AUTH)",
            Self::NegotiateProtocol => "agree on RESP3 (HELLO 3)",
            Self::AllowReplicaReads => "allow reads from a replica (READONLY)",
            Self::ReadSlots => "read the slots of the cluster (CLUSTER SLOTS)",
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
    Connect { address: String, source: io::Error },
    #[error("cannot connect to {address}: no answer within {seconds} s")]
    ConnectTimeout { address: String, seconds: f64 },
    #[error("cannot set up the socket to {address}: {source}")]
    ConfigureSocket { address: String, source: io::Error },
    #[error("cannot secure the connection to {address}: {source}")]
    NameServer { address: String, source: TlsError },
    #[error("cannot secure the connection to {address} (TLS): {source}")]
    Secure { address: String, source: io::Error },
    #[error("cannot secure the connection to {address} (TLS): no answer within {seconds} s")]
    SecureTimeout { address: String, seconds: f64 },
    #[error("cannot {} with {address}: {source}", step.name())]
    Exchange { step: HandshakeStep, address: String, source: ExchangeError },
    #[error("cannot {} with {address}: no answer within {seconds} s", step.name())]
    ExchangeTimeout { step: HandshakeStep, address: String, seconds: f64 },
    #[error("cannot {} with {address}: the server says: {reply}", step.name())]
    Refused { step: HandshakeStep, address: String, reply: String },
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
            | Self::ConfigureSocket { address, .. } => (FailureKind::Connect, "connect", address.clone()),
            Self::NameServer { address, .. }
            | Self::Secure { address, .. }
            | Self::SecureTimeout { address, .. } => {
                (FailureKind::Handshake, "secure the connection (TLS)", address.clone())
            }
            Self::Exchange { step, address, .. } | Self::ExchangeTimeout { step, address, .. } => {
                (FailureKind::Handshake, step.name(), address.clone())
            }
            Self::Refused { step, address, reply } => {
                (refusal_kind(*step, reply), step.name(), address.clone())
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

/// The addresses of the server that `configuration` names.
pub async fn addresses(configuration: &Configuration) -> Result<Vec<String>, Failure> {
    find(configuration).await.map(|endpoint| endpoint.addresses()).map_err(|error| error.failure())
}

/// The server that `configuration` names.
pub(crate) async fn find(configuration: &Configuration) -> Result<Endpoint, ConnectError> {
    if let Some(path) = &configuration.server().unix_socket {
        let label = configuration.target().into();
        return Ok(Endpoint {
            label,
            host: configuration.server().host.clone(),
            place: Place::Unix(path.clone()),
        });
    }
    resolve(&configuration.server().host, configuration.server().port, configuration.connect_timeout).await
}

/// The server at a host and port, with at least one address.
pub(crate) async fn resolve(host: &str, port: u16, limit: Duration) -> Result<Endpoint, ConnectError> {
    let target = crate::specification::host_and_port(host, port);
    let addresses: Vec<SocketAddr> = match timeout(limit, lookup_host((host, port))).await {
        Err(_) => return Err(ConnectError::ResolveTimeout { target, seconds: limit.as_secs_f64() }),
        Ok(Err(source)) => return Err(ConnectError::Resolve { target, source }),
        Ok(Ok(found)) => found.collect(),
    };
    if addresses.is_empty() {
        return Err(ConnectError::NoAddress { target });
    }
    Ok(Endpoint { label: target.into(), host: host.into(), place: Place::Tcp(addresses) })
}

/// A connection ready for load, made with the first address that accepts one,
/// and the address.
pub(crate) async fn establish(
    configuration: &Configuration,
    security: Option<&TlsClient>,
    endpoint: &Endpoint,
) -> Result<(LoadStream, Arc<str>), ConnectError> {
    let limit = configuration.connect_timeout;
    let (mut stream, address) = match &endpoint.place {
        Place::Unix(path) => (connect_unix(path, limit).await?, Arc::clone(&endpoint.label)),
        Place::Tcp(addresses) => {
            let (stream, address) = connect_first(endpoint, addresses, limit).await?;
            (secured(stream, security, &endpoint.host, &address, limit).await?, address.into())
        }
    };
    greet(&mut stream, &address, configuration).await?;
    Ok((stream, address))
}

async fn connect_unix(path: &std::path::Path, limit: Duration) -> Result<LoadStream, ConnectError> {
    let address = path.display().to_string();
    match timeout(limit, UnixStream::connect(path)).await {
        Err(_) => Err(ConnectError::ConnectTimeout { address, seconds: limit.as_secs_f64() }),
        Ok(Err(source)) => Err(ConnectError::Connect { address, source }),
        Ok(Ok(stream)) => Ok(LoadStream::Unix(stream)),
    }
}

async fn connect_first(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<(TcpStream, String), ConnectError> {
    let mut last_error = ConnectError::NoAddress { target: endpoint.label.to_string() };
    for &address in addresses {
        match connect(address, limit).await {
            Ok(stream) => return Ok((stream, address.to_string())),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

async fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, ConnectError> {
    let text = || address.to_string();
    let stream = match timeout(limit, TcpStream::connect(address)).await {
        Err(_) => {
            return Err(ConnectError::ConnectTimeout { address: text(), seconds: limit.as_secs_f64() });
        }
        Ok(Err(source)) => return Err(ConnectError::Connect { address: text(), source }),
        Ok(Ok(stream)) => stream,
    };
    stream.set_nodelay(true).map_err(|source| ConnectError::ConfigureSocket { address: text(), source })?;
    Ok(stream)
}

async fn secured(
    stream: TcpStream,
    security: Option<&TlsClient>,
    host: &str,
    address: &str,
    limit: Duration,
) -> Result<LoadStream, ConnectError> {
    let Some(client) = security else { return Ok(LoadStream::Tcp(stream)) };
    let address = || address.to_owned();
    let name =
        client.name_of(host).map_err(|source| ConnectError::NameServer { address: address(), source })?;
    match timeout(limit, client.connector.connect(name, stream)).await {
        Err(_) => Err(ConnectError::SecureTimeout { address: address(), seconds: limit.as_secs_f64() }),
        Ok(Err(source)) => Err(ConnectError::Secure { address: address(), source }),
        Ok(Ok(stream)) => Ok(LoadStream::Tls(Box::new(stream))),
    }
}

async fn greet(
    stream: &mut LoadStream,
    address: &str,
    configuration: &Configuration,
) -> Result<(), ConnectError> {
    let limit = configuration.connect_timeout;
    if let Some(credentials) = &configuration.credentials {
        let request = authentication_request(credentials);
        send(stream, address, HandshakeStep::Authenticate, &request, limit, None).await?;
    }
    if configuration.load().resp3 {
        let request = encode_command(&["HELLO", "3"]);
        send(stream, address, HandshakeStep::NegotiateProtocol, &request, limit, None).await?;
    }
    if configuration.load().replica_reads {
        let request = encode_command(&["READONLY"]);
        send(stream, address, HandshakeStep::AllowReplicaReads, &request, limit, None).await?;
    }
    Ok(())
}

fn authentication_request(credentials: &Credentials) -> Outgoing {
    match &credentials.username {
        Some(username) => encode_command(&["AUTH", username, &credentials.password]),
        None => encode_command(&["AUTH", &credentials.password]),
    }
}

/// Asks the server one thing, which it must not refuse. With `raw` the bytes
/// of its reply are kept.
pub(crate) async fn send(
    stream: &mut LoadStream,
    address: &str,
    step: HandshakeStep,
    request: &Outgoing,
    limit: Duration,
    raw: Option<&mut Vec<u8>>,
) -> Result<(), ConnectError> {
    let address = || address.to_owned();
    match timeout(limit, exchange(stream, request, &[], 1, raw)).await {
        Err(_) => {
            Err(ConnectError::ExchangeTimeout { step, address: address(), seconds: limit.as_secs_f64() })
        }
        Ok(Err(source)) => Err(ConnectError::Exchange { step, address: address(), source }),
        Ok(Ok(answers)) => match answers.said.into_iter().next() {
            Some(Said::Error(reply)) => {
                let reply = String::from_utf8_lossy(&reply).into_owned();
                Err(ConnectError::Refused { step, address: address(), reply })
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_sent_and_not_shown() {
        let credentials = Credentials { username: Some("user".into()), password: "pässword".into() };
        let request = authentication_request(&credentials);
        assert_eq!(request.bytes, "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$9\r\npässword\r\n".as_bytes());
        assert!(!format!("{credentials:?}").contains("ssword\""), "{credentials:?}");
    }

    #[test]
    fn a_refused_hello_for_lack_of_credentials_is_an_authentication_failure() {
        let hello = HandshakeStep::NegotiateProtocol;
        assert_eq!(refusal_kind(hello, "NOAUTH HELLO must be called"), FailureKind::Authentication);
        assert_eq!(refusal_kind(hello, "ERR unknown command"), FailureKind::Handshake);
    }
}

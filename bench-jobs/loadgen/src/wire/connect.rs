//! Finds the server and makes connections ready for load: resolves its name, connects, encrypts,
//! authenticates, agrees on the protocol version. A failure names the address and the step.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisError, Value};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::configuration::{Configuration, Credentials};
use crate::counts::report::{Failure, FailureKind};
use crate::wire::slots::SLOTS;
use crate::wire::socket::LoadSocket;
use crate::wire::tls::TlsClient;

/// Where a server can be reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Endpoint {
    /// `host:port`, as messages and redirections name it.
    pub(crate) label: Arc<str>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// Its host, which a certificate must name.
    pub(crate) fn host(&self) -> &str {
        let host = self.label.rsplit_once(':').map_or(&*self.label, |(host, _)| host);
        host.trim_matches(['[', ']'])
    }
}

/// A step from a server's name to a connection that is ready for load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Resolve,
    Connect,
    Encrypt,
    Authenticate,
    NegotiateProtocol,
    AllowReplicaReads,
    ReadSlots,
}

impl Step {
    /// The step as messages name it, before the address.
    fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect to",
            Self::Encrypt => "encrypt the connection (TLS) to",
            Self::Authenticate => "authenticate (AUTH) with",
            Self::NegotiateProtocol => "agree on RESP3 (HELLO 3) with",
            Self::AllowReplicaReads => "allow reads from the replica (READONLY)",
            Self::ReadSlots => "read the slots of the cluster (CLUSTER SLOTS) at",
        }
    }
}

#[derive(Debug, Error)]
#[error("cannot {} {address}: {cause}", step.name())]
pub(crate) struct ConnectError {
    step: Step,
    address: String,
    #[source]
    cause: Cause,
}

#[derive(Debug, Error)]
pub(crate) enum Cause {
    #[error("{0}")]
    Transfer(#[from] io::Error),
    #[error("no answer within {0} s")]
    Timeout(f64),
    #[error("the name has no address")]
    NoAddress,
    #[error("{0}")]
    Decode(#[from] RedisError),
    #[error("the server says: {0}")]
    Refused(String),
    #[error("the reply is not a list of slots")]
    Form,
    #[error("{0} of {SLOTS} slots have no shard; finish forming the cluster first")]
    Incomplete(usize),
    #[error(
        "no replica of this server is listed; add one, leave out loadgen.replicaReads, or try again when a new replica has been running for 15 s"
    )]
    NoReplica,
}

impl Cause {
    pub(crate) fn at(self, step: Step, address: impl Into<String>) -> ConnectError {
        ConnectError { step, address: address.into(), cause: self }
    }
}

impl ConnectError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self) -> Failure {
        let kind = match (self.step, &self.cause) {
            (Step::Resolve, _) => FailureKind::NameResolution,
            (Step::Connect, _) => FailureKind::Connect,
            (Step::Authenticate, Cause::Refused(_)) => FailureKind::Authentication,
            (_, Cause::Refused(words)) if words.starts_with("NOAUTH") => FailureKind::Authentication,
            _ => FailureKind::Handshake,
        };
        Failure { kind, message: self.to_string() }
    }
}

/// Gives up `work` after `limit`, and names the step in an error.
async fn within<T, E: Into<Cause>>(
    limit: Duration,
    step: Step,
    address: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, ConnectError> {
    let outcome = match timeout(limit, work).await {
        Err(_) => Err(Cause::Timeout(limit.as_secs_f64())),
        Ok(outcome) => outcome.map_err(Into::into),
    };
    outcome.map_err(|cause| cause.at(step, address))
}

/// Fails if the server's name has no address.
pub async fn check_name(configuration: &Configuration) -> Result<(), Failure> {
    find(configuration).await.map(drop).map_err(|error| error.failure())
}

pub(crate) async fn find(configuration: &Configuration) -> Result<Endpoint, ConnectError> {
    resolve(&configuration.target(), configuration.connect_timeout).await
}

/// The server at `host:port`.
pub(crate) async fn resolve(label: &str, limit: Duration) -> Result<Endpoint, ConnectError> {
    let found = within(limit, Step::Resolve, label, lookup_host(label)).await?;
    Ok(Endpoint { label: label.into(), addresses: found.collect() })
}

/// A connection that is ready for load.
pub(crate) struct Established {
    pub(crate) socket: LoadSocket,
    pub(crate) address: Arc<str>,
    /// The reply to the last command before the load.
    pub(crate) reply: Value,
}

/// Connects to the first address that accepts a connection and makes it ready. The
/// server gets `last` after the commands that every connection needs.
pub(crate) async fn establish(
    configuration: &Configuration,
    tls: Option<&TlsClient>,
    endpoint: &Endpoint,
    last: Option<(Step, Cmd)>,
) -> Result<Established, ConnectError> {
    let limit = configuration.connect_timeout;
    let (mut stream, address) = connect(endpoint, limit).await?;
    let greetings: Vec<_> = greetings(configuration).into_iter().chain(last).collect();
    let (socket, reply) = if let Some(client) = tls {
        let encrypted = client.connect(endpoint.host(), stream);
        let mut stream = within(limit, Step::Encrypt, &address, encrypted).await?;
        let reply = greet(&mut stream, &address, &greetings, limit).await?;
        (LoadSocket::encrypted(stream), reply)
    } else {
        let reply = greet(&mut stream, &address, &greetings, limit).await?;
        (LoadSocket::plain(stream), reply)
    };
    let socket = socket.map_err(|error| Cause::from(error).at(Step::Connect, &*address))?;
    Ok(Established { socket, address, reply })
}

async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<(TcpStream, Arc<str>), ConnectError> {
    let mut last_error = Cause::NoAddress.at(Step::Resolve, &*endpoint.label);
    for address in &endpoint.addresses {
        let connected = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        let address = address.to_string();
        match within(limit, Step::Connect, &address, connected).await {
            Ok(stream) => return Ok((stream, address.into())),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// The commands that make a connection ready.
fn greetings(configuration: &Configuration) -> Vec<(Step, Cmd)> {
    let mut commands = Vec::new();
    let mut add = |step, words: &[&str]| {
        let mut command = Cmd::new();
        command.arg(words);
        commands.push((step, command));
    };
    if let Some(Credentials { username, password }) = &configuration.credentials {
        match username {
            Some(username) => add(Step::Authenticate, &["AUTH", username, password]),
            None => add(Step::Authenticate, &["AUTH", password]),
        }
    }
    if configuration.load().resp3 {
        add(Step::NegotiateProtocol, &["HELLO", "3"]);
    }
    if configuration.load().replica_reads {
        add(Step::AllowReplicaReads, &["READONLY"]);
    }
    commands
}

/// Sends the commands one after the other and returns the last reply.
async fn greet(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    address: &str,
    commands: &[(Step, Cmd)],
    limit: Duration,
) -> Result<Value, ConnectError> {
    let mut reply = Value::Nil;
    for (step, command) in commands {
        reply = within(limit, *step, address, exchange(stream, command)).await?;
    }
    Ok(reply)
}

/// Sends one command, which the server must not refuse, and returns its reply.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), command: &Cmd) -> Result<Value, Cause> {
    stream.write_all(&command.get_packed_command()).await?;
    stream.flush().await?;
    match redis::parse_redis_value_async(&mut <_>::default(), stream).await? {
        Value::ServerError(error) => {
            Err(Cause::Refused(format!("{} {}", error.code(), error.details().unwrap_or_default())))
        }
        reply => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_sent_and_not_shown() {
        let mut configuration = crate::configuration::example("duration=1s resp3=true", &[]).unwrap();
        let credentials = Credentials { username: Some("user".into()), password: "pässword".into() };
        assert!(!format!("{credentials:?}").contains("ssword\""), "{credentials:?}");
        configuration.credentials = Some(credentials);
        let sent: Vec<u8> =
            greetings(&configuration).iter().flat_map(|(_, command)| command.get_packed_command()).collect();
        let wanted = "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$9\r\npässword\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
        assert_eq!(sent, wanted.as_bytes());
    }

    #[test]
    fn a_refused_hello_for_lack_of_credentials_is_an_authentication_failure() {
        let kind =
            |words: &str| Cause::Refused(words.into()).at(Step::NegotiateProtocol, "h:1").failure().kind;
        assert_eq!(kind("NOAUTH HELLO must be called"), FailureKind::Authentication);
        assert_eq!(kind("ERR unknown command"), FailureKind::Handshake);
    }
}

//! What can break a run through a client library. Error replies of the server
//! are not among it: they are counted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::plan::Library;
use dragstrip_loadgen::counts::report::{Failure, FailureKind};
use dragstrip_loadgen::wire::tls::TlsError;

/// The library could not connect, or lost its connection.
#[derive(Debug, Error)]
pub(crate) enum LibraryError {
    #[error("cannot read {path}: {source}")]
    ReadTlsFile { path: PathBuf, source: io::Error },
    #[error("cannot set up TLS: {0}")]
    SetUpTls(#[source] TlsError),
    #[error("redis-rs does not accept the way to the server: {0}")]
    DescribeRedis(#[source] redis::RedisError),
    #[error("redis-rs cannot connect: {0}")]
    ConnectRedis(#[source] redis::RedisError),
    #[error("fred cannot connect: {0}")]
    ConnectFred(#[source] fred::error::Error),
    #[error("the bb8 pool cannot connect: {0}")]
    FillPool(#[source] redis::RedisError),
    #[error("no connection within {seconds} s")]
    ConnectTimeout { seconds: f64 },
    #[error("redis-rs lost the server during the run: {0}")]
    LoseRedis(#[source] redis::RedisError),
    #[error("fred lost the server during the run: {0}")]
    LoseFred(#[source] fred::error::Error),
    #[error("the bb8 pool has no connection that works: {0}")]
    TakeFromPool(#[source] bb8::RunError<redis::RedisError>),
    #[error("no reply for {seconds:.1} s with requests outstanding")]
    Silent { seconds: f64 },
}

impl LibraryError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self, library: Library, address: &str) -> Failure {
        let (kind, step) = match self {
            Self::ReadTlsFile { .. } | Self::SetUpTls(_) | Self::DescribeRedis(_) => {
                (FailureKind::Client, "set up the library")
            }
            Self::ConnectRedis(error) | Self::FillPool(error) => (redis_connect_kind(error), "connect"),
            Self::ConnectFred(error) => (fred_connect_kind(error), "connect"),
            Self::ConnectTimeout { .. } => (FailureKind::Connect, "connect"),
            Self::LoseRedis(error) => (redis_lost_kind(error), "await replies"),
            Self::LoseFred(error) => (fred_lost_kind(error), "await replies"),
            Self::TakeFromPool(bb8::RunError::User(error)) => {
                (redis_lost_kind(error), "take a connection from the pool")
            }
            Self::TakeFromPool(bb8::RunError::TimedOut) => {
                (FailureKind::ResponseTimeout, "take a connection from the pool")
            }
            Self::Silent { .. } => (FailureKind::ResponseTimeout, "await replies"),
        };
        let message = format!("{} at {address}: {self}", library.name());
        Failure { kind, step: step.into(), address: address.into(), message }
    }
}

fn redis_connect_kind(error: &redis::RedisError) -> FailureKind {
    let refused = ["NOAUTH", "WRONGPASS", "NOPERM"];
    if error.code().is_some_and(|code| refused.contains(&code))
        || error.kind() == redis::ErrorKind::AuthenticationFailed
    {
        return FailureKind::Authentication;
    }
    if error.is_io_error() || error.is_timeout() { FailureKind::Connect } else { FailureKind::Handshake }
}

fn redis_lost_kind(error: &redis::RedisError) -> FailureKind {
    if error.is_timeout() {
        FailureKind::ResponseTimeout
    } else if error.is_io_error() || error.is_connection_dropped() {
        FailureKind::ConnectionLost
    } else {
        FailureKind::Protocol
    }
}

fn fred_connect_kind(error: &fred::error::Error) -> FailureKind {
    use fred::error::ErrorKind;
    match error.kind() {
        ErrorKind::Auth => FailureKind::Authentication,
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Routing | ErrorKind::Canceled => FailureKind::Connect,
        _ => FailureKind::Handshake,
    }
}

fn fred_lost_kind(error: &fred::error::Error) -> FailureKind {
    use fred::error::ErrorKind;
    match error.kind() {
        ErrorKind::Timeout => FailureKind::ResponseTimeout,
        ErrorKind::Protocol | ErrorKind::Parse => FailureKind::Protocol,
        _ => FailureKind::ConnectionLost,
    }
}

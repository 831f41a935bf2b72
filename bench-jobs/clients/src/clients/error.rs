//! What can break a run through a client library. Error replies of the server
//! are not among these failures: they are counted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use dragstrip_loadgen::counts::report::{Failure, FailureKind};
use dragstrip_loadgen::wire::tls::TlsError;

/// The library could not connect, or lost its connection.
#[derive(Debug, Error)]
pub(crate) enum LibraryError {
    #[error("cannot read {path}: {source}")]
    ReadTlsFile { path: PathBuf, source: io::Error },
    #[error("cannot set up TLS: {0}")]
    SetUpTls(#[source] TlsError),
    #[error("redis-rs does not accept the server's address: {0}")]
    DescribeRedis(#[source] redis::RedisError),
    #[error("redis-rs cannot connect: {0}")]
    ConnectRedis(#[source] redis::RedisError),
    #[error("fred cannot connect: {0}")]
    ConnectFred(#[source] fred::error::Error),
    #[error("no connection within {0} s")]
    ConnectTimeout(f64),
    #[error("redis-rs lost the server during the run: {0}")]
    LoseRedis(#[source] redis::RedisError),
    #[error("fred lost the server during the run: {0}")]
    LoseFred(#[source] fred::error::Error),
    #[error("the bb8 pool has no connection that works")]
    TakeFromPool,
    #[error("no reply for {0:.1} s with requests outstanding")]
    Silent(f64),
}

impl LibraryError {
    /// The form in which the failure is reported.
    pub(crate) fn failure(&self, address: &str) -> Failure {
        let kind = match self {
            Self::ReadTlsFile { .. } | Self::SetUpTls(_) | Self::DescribeRedis(_) => FailureKind::Client,
            Self::ConnectRedis(error) => redis_connect_kind(error),
            Self::ConnectFred(error) => fred_connect_kind(error),
            Self::ConnectTimeout(_) => FailureKind::Connect,
            Self::LoseRedis(error) => redis_lost_kind(error),
            Self::LoseFred(error) => fred_lost_kind(error),
            Self::TakeFromPool | Self::Silent(_) => FailureKind::ResponseTimeout,
        };
        Failure { kind, message: format!("{address}: {self}") }
    }
}

impl From<bb8::RunError<redis::RedisError>> for LibraryError {
    fn from(error: bb8::RunError<redis::RedisError>) -> Self {
        match error {
            bb8::RunError::User(error) => Self::LoseRedis(error),
            bb8::RunError::TimedOut => Self::TakeFromPool,
        }
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

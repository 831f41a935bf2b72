//! The validated description of one run.
//!
//! Everything the rest of the crate needs to know is here, in its final type;
//! how it was given on a command line is the business of [`crate::cli`].

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use crate::keys::KeyPattern;
use crate::libraries::plan::LibraryPlan;
use crate::replay::plan::ReplayPlan;

/// RESP version spoken with the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// The protocol every connection starts with.
    Resp2,
    /// Negotiated with `HELLO 3`.
    Resp3,
}

/// What to authenticate with. Its debug form hides the password.
#[derive(Clone)]
pub struct Credentials {
    /// ACL user; without it the password is that of the default user.
    pub username: Option<String>,
    /// The secret itself.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// The repeating sequence of requests: `sets` SETs, then `gets` GETs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ratio {
    /// SETs in a row.
    pub sets: u32,
    /// GETs in a row.
    pub gets: u32,
}

/// Which keys are used.
#[derive(Clone, Debug)]
pub struct KeySpace {
    /// Text before the key number.
    pub prefix: String,
    /// Lowest key number.
    pub minimum: u64,
    /// Highest key number, included.
    pub maximum: u64,
    /// How key numbers are chosen.
    pub pattern: KeyPattern,
}

/// What SET writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data {
    /// Smallest value, in bytes.
    pub minimum_bytes: usize,
    /// Largest value, in bytes; sizes are uniform between both.
    pub maximum_bytes: usize,
    /// Random bytes instead of a run of `x`.
    pub random: bool,
    /// Range of the expiry in seconds, uniform; none leaves values for good.
    pub expiry_seconds: Option<(u64, u64)>,
}

/// When a connection has done its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// After this many requests on each connection.
    Requests(NonZeroU64),
    /// After one pass over the connection's share of the key space.
    AllKeys,
    /// At the first batch boundary after this time from the start.
    Duration(Duration),
}

/// The validated description of one run.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Host name or address of the server.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// RESP version.
    pub protocol: Protocol,
    /// Credentials, when the server wants any.
    pub credentials: Option<Credentials>,
    /// Load threads, each with its own event loop.
    pub threads: usize,
    /// Connections of each thread.
    pub connections_per_thread: usize,
    /// Sequence of requests.
    pub ratio: Ratio,
    /// Keys.
    pub keys: KeySpace,
    /// Values.
    pub data: Data,
    /// Requests written at once on a connection.
    pub pipeline: usize,
    /// When to stop.
    pub limit: Limit,
    /// Seed of all random draws.
    pub seed: u64,
    /// Longest time for name resolution, and for connect plus handshake of each connection.
    pub connect_timeout: Duration,
    /// Longest silence of the server while replies are outstanding.
    pub response_timeout: Duration,
    /// Common start instant, as nanoseconds since the Unix epoch.
    pub start_at_unix_nanos: Option<u64>,
    /// Interval of progress lines; none prints no progress.
    pub progress_interval: Option<Duration>,
    /// Where the JSON result goes; `-` is the standard output.
    pub json_out_file: Option<PathBuf>,
    /// A client library instead of the generator's own RESP.
    pub library: Option<LibraryPlan>,
    /// BullMQ jobs instead of SETs and GETs.
    pub replay: Option<ReplayPlan>,
}

impl Configuration {
    /// Connections of all threads together.
    pub fn connections(&self) -> usize {
        self.threads * self.connections_per_thread
    }

    /// The server as it was named, `host:port`.
    pub fn target(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

//! The validated description of one run.
//!
//! Everything the rest of the crate needs to know is here, in its final type;
//! how it was given on a command line is the business of [`crate::cli`].

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use crate::wire::tls::TlsOptions;
use crate::workload::keys::KeyPattern;
use crate::workload::mix::Cycle;
use crate::workload::operations::{OperationKind, OperationSpec};
use crate::workload::schedule::Schedule;
use crate::workload::streams::Crowd;

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
    /// Unix socket of the server, instead of host and port.
    pub unix_socket: Option<PathBuf>,
    /// How connections are secured, if at all.
    pub tls: Option<TlsOptions>,
    /// Whether the server is a node of a Redis Cluster whose shards share the load.
    pub cluster: bool,
    /// Whether the replicas of a cluster take the load.
    pub replica_reads: bool,
    /// RESP version.
    pub protocol: Protocol,
    /// Credentials, when the server wants any.
    pub credentials: Option<Credentials>,
    /// Load threads, each with its own event loop.
    pub threads: usize,
    /// Connections of each thread; in a cluster, each is one to every shard.
    pub connections_per_thread: usize,
    /// Sequence of requests, unless operations are declared.
    pub ratio: Ratio,
    /// The mix of operations; an empty one is that of the ratio.
    pub operations: Vec<OperationSpec>,
    /// Keys.
    pub keys: KeySpace,
    /// Values.
    pub data: Data,
    /// Requests written at once on a connection.
    pub pipeline: usize,
    /// When to stop.
    pub limit: Limit,
    /// Time of load before the measured window.
    pub warmup: Duration,
    /// Rate of an open loop; none is a closed loop.
    pub schedule: Option<Schedule>,
    /// How long the answers of an open loop are awaited after the end of its schedule.
    pub drain: Duration,
    /// Whether the run only counts which keys are there.
    pub verify_keys: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// The processes that share the load.
    pub crowd: Crowd,
    /// Longest time for name resolution, and for connect plus handshake of each connection.
    pub connect_timeout: Duration,
    /// Longest silence of the server while replies are outstanding.
    pub response_timeout: Duration,
    /// Common start instant, as nanoseconds since the Unix epoch.
    pub start_at_unix_nanos: Option<u64>,
    /// Interval of progress lines; none prints no progress.
    pub progress_interval: Option<Duration>,
    /// How often progress lines tell bytes, connections and latencies too; none for never.
    pub detail_interval: Option<Duration>,
    /// Where the JSON result goes; `-` is the standard output.
    pub json_out_file: Option<PathBuf>,
}

impl Configuration {
    /// Clients of all threads together; each has a connection, in a cluster one
    /// to every shard.
    pub fn connections(&self) -> usize {
        self.threads * self.connections_per_thread
    }

    /// The server as it was named, `host:port` or the path of its socket.
    pub fn target(&self) -> String {
        match &self.unix_socket {
            Some(path) => path.display().to_string(),
            None => host_and_port(&self.host, self.port),
        }
    }

    /// The operations that are sent.
    pub fn mix(&self) -> Vec<OperationSpec> {
        if !self.operations.is_empty() {
            return self.operations.clone();
        }
        [(OperationKind::Set, self.ratio.sets), (OperationKind::Get, self.ratio.gets)]
            .into_iter()
            .filter_map(|(kind, count)| Some(OperationSpec::of(kind, NonZeroU32::new(count)?)))
            .collect()
    }

    /// The order in which they are sent: a ratio in rows, a mix evenly spread.
    pub(crate) fn cycle(&self) -> Cycle {
        let weights: Vec<u64> =
            self.mix().iter().map(|operation| u64::from(operation.weight.get())).collect();
        if self.operations.is_empty() { Cycle::in_a_row(&weights) } else { Cycle::spread(&weights) }
    }
}

/// `host:port`, with brackets around an IPv6 host.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

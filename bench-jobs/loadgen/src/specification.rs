//! The specification of one run: the JSON document that the runner, or a person, hands
//! to the load generators, and that their report carries back. Pure.

use std::path::PathBuf;

use dragstrip_crds::units::Period;
use dragstrip_crds::workload::LoadgenSpec;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::wire::tls::TlsOptions;

pub const EXAMPLE: &str = include_str!("specification/example.json");

/// One run. A password comes from the environment alone.
#[skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Specification {
    pub server: Server,
    /// The load, as a manifest declares it.
    pub loadgen: LoadgenSpec,
    #[serde(default)]
    pub task: Task,
    /// Load of the same kind before the measured window; it is in no figure.
    pub warmup: Option<Period>,
    /// Processes like this one that share the load: they draw independent keys, divide
    /// sequential ones, and interleave the times of an open loop.
    #[serde(default = "one")]
    pub clients: u32,
    /// Number of this process among `clients`, from 0.
    #[serde(default)]
    pub client_index: u32,
    /// Connect first, then start at this instant: nanoseconds since the Unix epoch.
    pub start_at_unix_nanos: Option<u64>,
    /// Longest time for name resolution and for each step of making a connection; 5s when absent.
    pub connect_timeout: Option<Period>,
    /// Longest silence of the server while replies are outstanding; 10s when absent.
    pub response_timeout: Option<Period>,
    /// How long an open loop awaits replies after its last intended time; 5s when absent.
    pub drain: Option<Period>,
    /// Interval of progress lines on standard error; none when absent.
    pub progress_interval: Option<Period>,
    /// Add bytes, connections and latencies to progress lines, for programs that read them.
    #[serde(default)]
    pub progress_detail: bool,
    pub report_file: Option<PathBuf>,
}

fn one() -> u32 {
    1
}

#[skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Server {
    /// Host name or address; 127.0.0.1 when absent.
    #[serde(default = "localhost")]
    pub host: String,
    /// TCP port; 6379 when absent.
    #[serde(default = "redis_port")]
    pub port: u16,
    /// ACL user to authenticate as; needs a password.
    pub username: Option<String>,
    /// Whether the server is a node of a Redis Cluster whose shards share the load.
    #[serde(default)]
    pub cluster: bool,
    /// How to encrypt connections; plain ones when absent.
    pub tls: Option<TlsOptions>,
}

fn localhost() -> String {
    "127.0.0.1".into()
}

fn redis_port() -> u16 {
    6379
}

impl Server {
    /// `host:port`.
    pub fn name(&self) -> String {
        host_and_port(&self.host, self.port)
    }
}

/// `host:port`, with brackets around an IPv6 host.
pub fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Task {
    /// Send the declared load and measure it.
    #[default]
    Load,
    /// Set every key once, in ascending order, divided over all connections.
    WriteKeys,
    /// Send no load; count with EXISTS which keys are there. Exit code 13 when some are not.
    VerifyKeys,
}

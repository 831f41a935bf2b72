//! Options that every program has which loads a server: where it is, with
//! which keys and values, how long and how it is told. The password never comes
//! from the command line, where every user of the machine could read it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dragstrip_results::protocol::PROGRESS_DETAIL_VARIABLE;
use jiff::SignedDuration;

use super::{ArgumentError, MAXIMUM_VALUE_BYTES, TransportArguments};
use crate::configuration::{Configuration, Credentials, Data, KeySpace, Limit, Protocol, Ratio};
use crate::workload::keys::{KeyPattern, KeyPicker, Share};
use crate::workload::streams::Crowd;

/// Environment variable that holds the password.
pub const PASSWORD_VARIABLE: &str = "DRAGSTRIP_PASSWORD";
/// A year; instants this far ahead can still be expressed.
const MAXIMUM_DURATION: Duration = Duration::from_secs(8760 * 3600);

/// Server, keys, values and course of the run.
// Each bool is one flag of the command line.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
pub struct CommonArguments {
    /// Host name or address of the server.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// TCP port of the server.
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// Protocol version; resp3 is agreed on with HELLO 3.
    #[arg(long, value_enum, default_value_t = ProtocolName::Resp2)]
    pub protocol: ProtocolName,
    /// ACL user to authenticate as; needs a password.
    #[arg(long)]
    pub username: Option<String>,
    /// File that holds the password, instead of the environment; a final line end is not part of it.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The server is a node of a Redis Cluster: keys go where their slots are, and redirections are
    /// followed. Commands of several keys need a --key-prefix with a {hashtag}.
    #[arg(long)]
    pub cluster: bool,
    /// Send the load, which may only read, to the replicas of the cluster.
    #[arg(long, requires = "cluster")]
    pub replica_reads: bool,
    /// How connections are made and secured.
    #[command(flatten)]
    pub transport: TransportArguments,
    /// Load threads, each with its own event loop.
    #[arg(long, default_value_t = 1)]
    pub threads: u16,
    /// Seed of all random draws [default: random; the result names it].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Processes like this one that share the load, each with its own --client-index: they draw
    /// independent keys and interleave the times of --rate.
    #[arg(long, default_value_t = 1)]
    pub clients: u32,
    /// Number of this process among --clients, from 0.
    #[arg(long, default_value_t = 0)]
    pub client_index: u32,
    /// Longest time for name resolution and for each step of making a connection.
    #[arg(long, default_value = "5s", value_parser = positive_duration)]
    pub connect_timeout: Duration,
    /// Longest silence of the server while replies are outstanding; then the run fails.
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub response_timeout: Duration,
    /// Connect first, then start at this instant: nanoseconds since the Unix epoch.
    #[arg(long, value_name = "N")]
    pub start_at_unix_nanos: Option<u64>,
    /// Interval of progress lines on standard error; 0s prints none.
    #[arg(long, default_value = "1s", value_parser = any_duration)]
    pub progress_interval: Duration,
    /// Progress lines tell bytes, connections and latencies too, for programs that read them.
    #[arg(long, env = PROGRESS_DETAIL_VARIABLE)]
    pub progress_detail: bool,
    /// File for the JSON result; "-" writes it to standard output instead of the summary.
    #[arg(long, value_name = "FILE")]
    pub json_out_file: Option<PathBuf>,
    /// Load of the same kind before the measured window; it is in no figure.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = any_duration)]
    pub warmup: Duration,
    /// Text before the key number.
    #[arg(long, default_value = "dragstrip-")]
    pub key_prefix: String,
    /// Lowest key number.
    #[arg(long, default_value_t = 0)]
    pub key_minimum: u64,
    /// Highest key number, included.
    #[arg(long, default_value_t = 9_999_999)]
    pub key_maximum: u64,
    /// How key numbers are chosen; sequential divides the keys over all connections.
    #[arg(long, value_enum, default_value_t = PatternName::Uniform)]
    pub key_pattern: PatternName,
    /// Standard deviation of the gaussian pattern, in keys [default: a sixth of the keys].
    #[arg(long, value_name = "KEYS")]
    pub key_stddev: Option<f64>,
    /// Centre of the gaussian pattern, as a key number [default: the middle].
    #[arg(long, value_name = "KEY")]
    pub key_median: Option<f64>,
    /// Exponent of the zipfian pattern; --key-minimum is the most frequent key.
    #[arg(long, default_value_t = 1.0)]
    pub zipf_exponent: f64,
    /// Size of values, in bytes, up to 536870912. From 16 KiB on all connections share the bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub data_size: u64,
    /// Sizes of values, uniform between both, in bytes.
    #[arg(long, value_name = "MIN-MAX", conflicts_with = "data_size")]
    pub data_size_range: Option<RangeText>,
    /// Values of random bytes instead of a run of 'x'.
    #[arg(long)]
    pub random_data: bool,
}

/// Values of `--protocol`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ProtocolName {
    /// RESP version 2.
    Resp2,
    /// RESP version 3.
    Resp3,
}

/// Values of `--key-pattern`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum PatternName {
    /// Every key equally likely.
    Uniform,
    /// Ascending; the key space is divided over all connections.
    Sequential,
    /// Normal around --key-median.
    Gaussian,
    /// A few keys are very frequent.
    Zipfian,
}

/// Value of `--data-size-range` and `--expiry-range`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeText {
    pub(super) minimum: u64,
    pub(super) maximum: u64,
}

impl FromStr for RangeText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('-').and_then(|(minimum, maximum)| {
            Some(Self { minimum: minimum.parse().ok()?, maximum: maximum.parse().ok()? })
        });
        match parsed {
            Some(range) if range.minimum <= range.maximum => Ok(range),
            _ => Err("expected MIN-MAX, two whole numbers in ascending order".into()),
        }
    }
}

/// A length of time such as 10s or 1m30s, up to a year.
pub fn any_duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let duration = Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())?;
    if duration > MAXIMUM_DURATION { Err("must be at most 8760h".into()) } else { Ok(duration) }
}

/// The same, but not 0.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    any_duration(text).and_then(
        |duration| {
            if duration.is_zero() { Err("must be above 0".into()) } else { Ok(duration) }
        },
    )
}

impl CommonArguments {
    /// A configuration of what these say, and of the `limit`. What is sent, and on
    /// how many connections, is still to be filled in: nothing is.
    pub fn configuration(self, limit: Limit) -> Result<Configuration, ArgumentError> {
        if self.threads == 0 {
            return Err(ArgumentError::OutOfRange { option: "threads", expected: "above 0" });
        }
        if self.client_index >= self.clients {
            return Err(ArgumentError::OutOfRange { option: "client-index", expected: "below --clients" });
        }
        let progress_interval = Some(self.progress_interval).filter(|interval| !interval.is_zero());
        Ok(Configuration {
            credentials: self.credentials()?,
            tls: self.transport.tls_options()?,
            keys: KeySpace {
                pattern: self.pattern(),
                prefix: self.key_prefix.clone(),
                minimum: self.key_minimum,
                maximum: self.key_maximum,
            },
            data: self.data()?,
            host: self.host,
            port: self.port,
            unix_socket: self.transport.unix_socket,
            cluster: self.cluster,
            replica_reads: self.replica_reads,
            protocol: match self.protocol {
                ProtocolName::Resp2 => Protocol::Resp2,
                ProtocolName::Resp3 => Protocol::Resp3,
            },
            threads: self.threads.into(),
            connections_per_thread: 0,
            ratio: Ratio { sets: 0, gets: 0 },
            operations: Vec::new(),
            pipeline: 0,
            limit,
            warmup: self.warmup,
            schedule: None,
            drain: Duration::ZERO,
            verify_keys: false,
            seed: self.seed.unwrap_or_else(rand::random),
            crowd: Crowd { index: self.client_index, processes: self.clients },
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            start_at_unix_nanos: self.start_at_unix_nanos,
            progress_interval,
            detail_interval: progress_interval.filter(|_| self.progress_detail),
            json_out_file: self.json_out_file,
        })
    }

    fn data(&self) -> Result<Data, ArgumentError> {
        let sizes =
            self.data_size_range.unwrap_or(RangeText { minimum: self.data_size, maximum: self.data_size });
        let too_large =
            ArgumentError::OutOfRange { option: "data-size", expected: "at most 536870912 (512 MiB)" };
        if sizes.maximum > MAXIMUM_VALUE_BYTES {
            return Err(too_large);
        }
        let (Ok(minimum_bytes), Ok(maximum_bytes)) = (sizes.minimum.try_into(), sizes.maximum.try_into())
        else {
            return Err(too_large);
        };
        Ok(Data { minimum_bytes, maximum_bytes, random: self.random_data, expiry_seconds: None })
    }

    fn pattern(&self) -> KeyPattern {
        let (minimum, maximum) = (self.key_minimum as f64, self.key_maximum as f64);
        match self.key_pattern {
            PatternName::Uniform => KeyPattern::Uniform,
            PatternName::Sequential => KeyPattern::Sequential,
            PatternName::Gaussian => KeyPattern::Gaussian {
                median: self.key_median.unwrap_or(f64::midpoint(minimum, maximum)),
                deviation: self.key_stddev.unwrap_or((maximum - minimum + 1.0) / 6.0),
            },
            PatternName::Zipfian => KeyPattern::Zipfian { exponent: self.zipf_exponent },
        }
    }

    fn credentials(&self) -> Result<Option<Credentials>, ArgumentError> {
        let password = match &self.password_file {
            Some(path) => Some(read_password(path)?),
            None => match std::env::var(PASSWORD_VARIABLE) {
                Ok(password) => Some(password),
                Err(std::env::VarError::NotPresent) => None,
                Err(std::env::VarError::NotUnicode(_)) => return Err(ArgumentError::DecodePassword),
            },
        };
        match password {
            Some(password) if password.is_empty() => Err(ArgumentError::EmptyPassword),
            Some(password) => Ok(Some(Credentials { username: self.username.clone(), password })),
            None if self.username.is_some() => Err(ArgumentError::MissingPassword),
            None => Ok(None),
        }
    }
}

fn read_password(path: &Path) -> Result<String, ArgumentError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ArgumentError::ReadPassword { path: path.to_path_buf(), source })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Every one of so many clients must be able to draw keys; the last one's share
/// is the smallest.
pub fn check_keys(configuration: &Configuration, clients: u64) -> Result<(), ArgumentError> {
    let share = Share { index: clients.saturating_sub(1), connections: clients };
    let keys = &configuration.keys;
    KeyPicker::new(keys.pattern, keys.minimum, keys.maximum, share)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_file_loses_only_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " secret \r\n").unwrap();
        assert_eq!(read_password(file.path()).unwrap(), " secret ");
    }
}

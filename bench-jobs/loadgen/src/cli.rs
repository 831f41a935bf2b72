//! The command line and the environment, and how they become a
//! [`Configuration`]. The password never comes from the command line, where
//! every user of the machine could read it.

mod pacing;
mod transport;
mod workload;

use std::io;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Parser, ValueEnum};
use jiff::SignedDuration;
use thiserror::Error;

use crate::configuration::{Configuration, Credentials, Data, KeySpace, Limit, Protocol, Ratio};
use crate::exit;
use crate::keys::{KeyError, KeyPattern, KeyPicker, Share};
use crate::libraries::options::{LibraryArgumentError, LibraryArguments, OtherOptions};
use crate::operations::{OperationKind, OperationSpec};
use crate::outgoing::SHARED_VALUE_BYTES;
use crate::replay::options::{ReplayArgumentError, ReplayArguments};
use crate::requests::MISSING_PREFIX;
use crate::tls::TlsError;

pub use pacing::{ArrivalName, PacingArguments};
pub use transport::TransportArguments;
pub use workload::WorkloadArguments;

/// Environment variable that holds the password.
pub const PASSWORD_VARIABLE: &str = "DRAGSTRIP_PASSWORD";
/// Longest request batch, so that its buffer stays within memory.
const MAXIMUM_BATCH_BYTES: u64 = 1 << 30;
/// Bytes that a key and a value need besides the prefix and themselves, at most.
const REQUEST_OVERHEAD_BYTES: u64 = 128;
/// Largest value a server accepts.
const MAXIMUM_VALUE_BYTES: u64 = 512 * 1024 * 1024;

/// A year; instants this far ahead can still be expressed.
const MAXIMUM_DURATION: Duration = Duration::from_secs(8760 * 3600);

/// Generates load on a RESP datastore and measures it.
///
/// Every connection writes a batch of --pipeline requests at once, awaits all
/// its replies and goes on with the next batch; with --rate, requests leave at
/// their intended times instead. The password is taken from
/// --password-file or from the environment variable `DRAGSTRIP_PASSWORD`.
#[derive(Debug, Parser)]
#[command(name = "dragstrip-loadgen", version, after_long_help = exit::HELP)]
#[command(group(ArgGroup::new("limit").required(true).args(["requests", "duration", "verify_keys"])))]
pub struct Arguments {
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
    /// Load threads, each with its own event loop.
    #[arg(long, default_value_t = 1)]
    pub threads: u16,
    /// Connections of each thread; with --cluster, to each shard.
    #[arg(long, default_value_t = 20)]
    pub connections_per_thread: u32,
    /// Repeating sequence of SETs and GETs, such as 1:0, 0:1 or 1:10; connections begin at
    /// different places of it.
    #[arg(long, value_name = "SET:GET", default_value = "1:10")]
    pub ratio: RatioText,
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
    /// Expiry of what set and mset-expireat write, uniform between both, in seconds.
    #[arg(long, value_name = "MIN-MAX")]
    pub expiry_range: Option<RangeText>,
    /// Requests written at once on a connection; 1 with --rate.
    #[arg(long, default_value_t = 1)]
    pub pipeline: u32,
    /// Requests of each connection after the warm-up, or "allkeys" for one sequential pass over all
    /// keys.
    #[arg(long, value_name = "COUNT|allkeys")]
    pub requests: Option<RequestsText>,
    /// Length of the measured window, such as 10s or 1m30s; batches in flight are awaited.
    #[arg(long, value_parser = positive_duration)]
    pub duration: Option<Duration>,
    /// Seed of all random draws [default: random; the result names it].
    #[arg(long)]
    pub seed: Option<u64>,
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
    /// File for the JSON result; "-" writes it to standard output instead of the summary.
    #[arg(long, value_name = "FILE")]
    pub json_out_file: Option<PathBuf>,
    /// Which operations are sent, and where to in a cluster.
    #[command(flatten)]
    pub workload: WorkloadArguments,
    /// How requests follow each other.
    #[command(flatten)]
    pub pacing: PacingArguments,
    /// How connections are made and secured.
    #[command(flatten)]
    pub transport: TransportArguments,
    // Last, since their headings hold for all options after them.
    /// Client libraries instead of the raw client.
    #[command(flatten)]
    pub library: LibraryArguments,
    /// BullMQ jobs instead of SETs and GETs.
    #[command(flatten)]
    pub replay: ReplayArguments,
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

/// Value of `--ratio`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RatioText(Ratio);

impl FromStr for RatioText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text
            .split_once(':')
            .and_then(|(sets, gets)| Some(Ratio { sets: sets.parse().ok()?, gets: gets.parse().ok()? }));
        match parsed {
            Some(ratio) if ratio.sets > 0 || ratio.gets > 0 => Ok(Self(ratio)),
            _ => Err("expected SET:GET, two whole numbers that are not both 0".into()),
        }
    }
}

/// Value of `--data-size-range` and `--expiry-range`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeText {
    minimum: u64,
    maximum: u64,
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

/// Value of `--requests`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestsText {
    /// Requests of each connection.
    Count(NonZeroU64),
    /// One pass over the key space.
    AllKeys,
}

impl FromStr for RequestsText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "allkeys" {
            return Ok(Self::AllKeys);
        }
        text.parse().map(Self::Count).map_err(|_| "expected a number above 0, or allkeys".into())
    }
}

fn any_duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let duration = Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())?;
    if duration > MAXIMUM_DURATION { Err("must be at most 8760h".into()) } else { Ok(duration) }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    any_duration(text).and_then(
        |duration| {
            if duration.is_zero() { Err("must be above 0".into()) } else { Ok(duration) }
        },
    )
}

/// The command line or the environment is not usable.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// A number is out of its range.
    #[error("--{option} must be {expected}")]
    OutOfRange {
        /// Name of the option.
        option: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// The password file could not be read.
    #[error("cannot read --password-file {path}: {source}")]
    ReadPassword {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The password is not text.
    #[error("the environment variable {PASSWORD_VARIABLE} is not valid UTF-8")]
    DecodePassword,
    /// A password is needed.
    #[error(
        "--username needs a password, in --password-file or the environment variable {PASSWORD_VARIABLE}"
    )]
    MissingPassword,
    /// The password is empty.
    #[error("the password is empty")]
    EmptyPassword,
    /// The keys cannot be drawn.
    #[error("{0}")]
    CheckKeys(#[from] KeyError),
    /// The options of a client library do not fit.
    #[error("{0}")]
    CheckLibrary(#[from] LibraryArgumentError),
    /// The options of a replay do not fit.
    #[error("{0}")]
    CheckReplay(#[from] ReplayArgumentError),
    /// The pass over all keys is only defined for the sequential pattern.
    #[error("--requests allkeys needs --key-pattern sequential")]
    PassWithoutOrder,
    /// An open loop sends single requests.
    #[error("--rate sends each request at its own time; leave --pipeline at 1")]
    PipelinedRate,
    /// TLS cannot be set up.
    #[error("{0}")]
    SetUpTls(#[from] TlsError),
    /// The weights of a mix make its repeating order too long.
    #[error("the weights of --operation repeat only after more than 100000 requests; use rounder ones")]
    UnlikeWeights,
    /// An operation writes expiries that nobody declared.
    #[error("--operation {operation:?} needs expiry=SECONDS or --expiry-range")]
    MissingExpiry {
        /// The operation.
        operation: String,
    },
    /// Keys of one command would be in different slots.
    #[error(
        "--operation {operation:?} has several keys, which a cluster only takes from one slot: \
         use one key, or a --key-prefix with a {{hashtag}}, which puts all keys in one slot"
    )]
    SeveralSlots {
        /// The operation.
        operation: String,
    },
    /// Replicas answer no writes.
    #[error("--replica-reads allows get, mget and exists only, not --operation {operation:?}")]
    ReplicaWrite {
        /// The operation.
        operation: String,
    },
    /// A pass cannot be counted in requests.
    #[error("--requests allkeys needs operations that all have the same number of keys, at least 1")]
    UnevenPass,
    /// Batches would be too large.
    #[error(
        "a batch of {pipeline} requests would exceed 1 GiB; lower --pipeline, keys= or the size of values"
    )]
    BatchTooLarge {
        /// Wanted batch.
        pipeline: u32,
    },
}

impl Arguments {
    /// The configuration these arguments and the environment describe.
    pub fn into_configuration(self) -> Result<Configuration, ArgumentError> {
        let credentials = self.credentials()?;
        self.check_numbers()?;
        let library = self.library.plan(&self.other_than_library()?)?;
        let replay = self.replay.plan()?;
        let limit = self.limit()?;
        let data = self.data()?;
        let schedule = self.pacing.schedule(self.pipeline)?;
        let tls = self.transport.tls_options()?;
        let verify_keys = self.workload.verify_keys;
        let keys = KeySpace {
            pattern: if verify_keys { KeyPattern::Sequential } else { self.pattern() },
            prefix: self.key_prefix,
            minimum: self.key_minimum,
            maximum: self.key_maximum,
        };
        let mut configuration = Configuration {
            host: self.host,
            port: self.port,
            unix_socket: self.transport.unix_socket,
            tls,
            cluster: self.workload.cluster,
            replica_reads: self.workload.replica_reads,
            protocol: match self.protocol {
                ProtocolName::Resp2 => Protocol::Resp2,
                ProtocolName::Resp3 => Protocol::Resp3,
            },
            credentials,
            threads: self.threads.into(),
            connections_per_thread: self.connections_per_thread as usize,
            ratio: self.ratio.0,
            operations: match &replay {
                _ if verify_keys => vec![WorkloadArguments::verification()],
                Some(replay) => {
                    vec![OperationSpec::of(OperationKind::AddJob(Box::new(replay.clone())), NonZeroU32::MIN)]
                }
                None => self.workload.operation,
            },
            keys,
            data,
            pipeline: self.pipeline as usize,
            limit,
            warmup: self.pacing.warmup,
            schedule,
            verify_keys,
            seed: self.seed.unwrap_or_else(rand::random),
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            start_at_unix_nanos: self.start_at_unix_nanos,
            progress_interval: Some(self.progress_interval).filter(|interval| !interval.is_zero()),
            json_out_file: self.json_out_file,
            library,
            replay,
        };
        workload::fit_verification(&mut configuration);
        check_keys(&configuration)?;
        if configuration.library.is_none() {
            workload::check_mix(&configuration)?;
            check_sizes(&configuration)?;
        }
        Ok(configuration)
    }

    fn check_numbers(&self) -> Result<(), ArgumentError> {
        for (option, value) in [
            ("threads", u32::from(self.threads)),
            ("connections-per-thread", self.connections_per_thread),
            ("pipeline", self.pipeline),
        ] {
            if value == 0 {
                return Err(ArgumentError::OutOfRange { option, expected: "above 0" });
            }
        }
        Ok(())
    }

    /// What a client library must know of the other options.
    fn other_than_library(&self) -> Result<OtherOptions, ArgumentError> {
        let raw_only = [
            ("requests", self.requests.is_some()),
            ("bullmq-add", self.replay.is_wanted()),
            ("pipeline", self.pipeline != 1),
            ("ratio", self.ratio.0 != Ratio { sets: 1, gets: 10 }),
            ("expiry-range", self.expiry_range.is_some()),
            ("operation", !self.workload.operation.is_empty()),
            ("rate", self.pacing.rate.is_some()),
            ("verify-keys", self.workload.verify_keys),
        ];
        Ok(OtherOptions {
            duration: self.duration,
            value_bytes: usize::try_from(self.data_size).unwrap_or(usize::MAX),
            raw_only: raw_only.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect(),
            tls: self.transport.tls_options()?,
            cluster: self.workload.cluster,
            replica_reads: self.workload.replica_reads,
        })
    }

    fn limit(&self) -> Result<Limit, ArgumentError> {
        if let Some(total) = self.library.total_requests() {
            return Ok(Limit::Requests(total));
        }
        match (self.requests, self.duration) {
            (Some(RequestsText::Count(count)), _) => Ok(Limit::Requests(count)),
            (Some(RequestsText::AllKeys), _) if self.key_pattern != PatternName::Sequential => {
                Err(ArgumentError::PassWithoutOrder)
            }
            (Some(RequestsText::AllKeys), _) => Ok(Limit::AllKeys),
            (None, Some(duration)) => Ok(Limit::Duration(duration)),
            (None, None) if self.workload.verify_keys => Ok(Limit::AllKeys),
            // The parser demands one of them.
            (None, None) => Err(ArgumentError::OutOfRange { option: "duration", expected: "given" }),
        }
    }

    fn data(&self) -> Result<Data, ArgumentError> {
        let sizes =
            self.data_size_range.unwrap_or(RangeText { minimum: self.data_size, maximum: self.data_size });
        let too_large =
            ArgumentError::OutOfRange { option: "data-size", expected: "at most 536870912 (512 MiB)" };
        if sizes.maximum > MAXIMUM_VALUE_BYTES {
            return Err(too_large);
        }
        if self.expiry_range.is_some_and(|range| range.minimum == 0) {
            return Err(ArgumentError::OutOfRange { option: "expiry-range", expected: "above 0 seconds" });
        }
        let (Ok(minimum_bytes), Ok(maximum_bytes)) = (sizes.minimum.try_into(), sizes.maximum.try_into())
        else {
            return Err(too_large);
        };
        let expiry_seconds = self.expiry_range.map(|range| (range.minimum, range.maximum));
        Ok(Data { minimum_bytes, maximum_bytes, random: self.random_data, expiry_seconds })
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

/// Every connection must be able to draw keys; the last share is the smallest.
fn check_keys(configuration: &Configuration) -> Result<(), ArgumentError> {
    let connections = configuration.connections() as u64;
    let share = Share { index: connections.saturating_sub(1), connections };
    let keys = &configuration.keys;
    KeyPicker::new(keys.pattern, keys.minimum, keys.maximum, share)?;
    Ok(())
}

/// Batches are encoded in memory, large values excepted.
fn check_sizes(configuration: &Configuration) -> Result<(), ArgumentError> {
    let too_large =
        ArgumentError::OutOfRange { option: "operation data-size", expected: "at most 536870912 (512 MiB)" };
    let key = (configuration.keys.prefix.len() + MISSING_PREFIX.len()) as u64 + REQUEST_OVERHEAD_BYTES;
    let mut largest = 0;
    for operation in configuration.mix() {
        let value = operation.data_bytes.unwrap_or(configuration.data.maximum_bytes);
        if value as u64 > MAXIMUM_VALUE_BYTES {
            return Err(too_large);
        }
        let copied = if value < SHARED_VALUE_BYTES && operation.kind.has_data() { value as u64 } else { 0 };
        largest = largest.max(operation.keys_per_command().max(1) as u64 * 2 * (key + copied));
    }
    let pipeline = u32::try_from(configuration.pipeline).unwrap_or(u32::MAX);
    if largest.saturating_mul(pipeline.into()) > MAXIMUM_BATCH_BYTES {
        return Err(ArgumentError::BatchTooLarge { pipeline });
    }
    Ok(())
}

/// A valid configuration for the tests of other modules.
#[cfg(test)]
pub(crate) fn example() -> Configuration {
    Arguments::parse_from(["dragstrip-loadgen", "--requests", "1"]).into_configuration().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Configuration, String> {
        let words = std::iter::once("dragstrip-loadgen").chain(words.iter().copied());
        let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        arguments.into_configuration().map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_whole_command_line_is_understood() {
        let words = "--host h --ratio 2:3 --key-minimum 5 --key-maximum 9 --key-pattern gaussian \
            --data-size-range 10-20 --expiry-range 60-120 --pipeline 7 --duration 1m30s --seed 4 \
            --progress-interval 0s";
        let configuration = parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(configuration.ratio, Ratio { sets: 2, gets: 3 });
        assert_eq!((configuration.data.minimum_bytes, configuration.data.maximum_bytes), (10, 20));
        assert_eq!(configuration.data.expiry_seconds, Some((60, 120)));
        assert_eq!(configuration.limit, Limit::Duration(Duration::from_secs(90)));
        assert_eq!(configuration.keys.pattern, KeyPattern::Gaussian { median: 7.0, deviation: 5.0 / 6.0 });
        assert_eq!(configuration.progress_interval, None);
    }

    #[test]
    fn unusable_command_lines_are_refused_with_the_reason() {
        for (words, reason) in [
            ("", "--requests <COUNT|allkeys>|--duration <DURATION>"),
            ("--requests 1 --duration 1s", "cannot be used with"),
            ("--requests 0", "above 0, or allkeys"),
            ("--duration 0s", "above 0"),
            ("--duration=-1s", "must not be negative"),
            ("--duration 9000h", "at most 8760h"),
            ("--requests 1 --ratio 0:0", "not both 0"),
            ("--requests 1 --pipeline 0", "--pipeline must be above 0"),
            ("--requests 1 --threads 0", "--threads must be above 0"),
            ("--requests allkeys", "needs --key-pattern sequential"),
            ("--requests 1 --key-minimum 2 --key-maximum 1", "is empty"),
            ("--requests 1 --key-pattern sequential --key-maximum 18", "cannot be divided over 20"),
            ("--requests 1 --data-size 999999999", "at most 536870912"),
            ("--requests 1 --data-size 16000 --ratio 1:0 --pipeline 100000", "exceed 1 GiB"),
            ("--requests 1 --rate 0", "--rate must be above 0"),
            ("--requests 1 --rate 5 --pipeline 2", "leave --pipeline at 1"),
            ("--requests 1 --arrival poisson", "--rate"),
            ("--requests 1 --tls-insecure", "--tls"),
            ("--requests 1 --unix-socket /s --port 1", "cannot be used with"),
            ("--requests 1 --replica-reads", "--cluster"),
            ("--requests 1 --cluster --replica-reads", "get, mget and exists only"),
            ("--requests 1 --cluster --bullmq-add --bullmq-queue-name q%d", "put a {hashtag}"),
            ("--requests 1 --cluster --bullmq-add --replica-reads", "get, mget and exists only"),
            ("--requests 1 --verify-keys", "cannot be used with"),
            ("--requests 1 --operation get --ratio 1:1", "cannot be used with"),
            ("--requests 1 --operation mset-expireat", "needs expiry=SECONDS or --expiry-range"),
            ("--requests 1 --expiry-range 0-5", "--expiry-range must be above 0"),
            ("--requests 1 --data-size-range 5-4", "ascending order"),
            ("--requests 1 --username me", "needs a password"),
            ("--requests 1 --password-file /nonexistent/file", "cannot read --password-file"),
            ("--requests 1 --key-pattern zipfian --zipf-exponent 0", "must be above 0"),
        ] {
            let refusal = parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap_err();
            assert!(refusal.contains(reason), "{words}: {refusal}");
        }
    }

    #[test]
    fn operations_demand_what_they_need() {
        for (options, operation, reason) in [
            ("--requests 1", "set exat", "needs expiry=SECONDS"),
            ("--requests 1 --cluster", "mget keys=2", "a {hashtag}, which puts all keys in one slot"),
            ("--requests 1", "set data-size=999999999", "at most 536870912"),
            ("--requests allkeys --key-pattern sequential", "command PING", "same number of keys"),
            ("--requests 1", "fly", "\"fly\" is not understood"),
        ] {
            let mut words: Vec<&str> = options.split(' ').collect();
            words.extend(["--operation", operation]);
            let refusal = parse(&words).unwrap_err();
            assert!(refusal.contains(reason), "{operation}: {refusal}");
        }
        let words = ["--requests", "1", "--cluster", "--key-prefix", "{a}", "--operation", "mget keys=2"];
        assert_eq!(parse(&words).unwrap().mix()[0].keys, 2);
    }

    #[test]
    fn verification_is_a_pass_of_exists_over_all_keys() {
        let configuration = parse(&["--verify-keys", "--key-maximum", "6", "--threads", "3"]).unwrap();
        assert_eq!((configuration.threads, configuration.connections_per_thread), (3, 2));
        assert_eq!(
            (configuration.limit, configuration.keys.pattern),
            (Limit::AllKeys, KeyPattern::Sequential)
        );
        assert_eq!(configuration.mix()[0].to_string(), "exists weight=1");
    }

    #[test]
    fn the_password_file_loses_only_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " secret \r\n").unwrap();
        assert_eq!(read_password(file.path()).unwrap(), " secret ");
    }
}

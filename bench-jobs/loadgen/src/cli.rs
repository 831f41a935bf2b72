//! The command line and the environment, and how they become a
//! [`Configuration`].

mod common;
mod pacing;
mod transport;
mod workload;

use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use thiserror::Error;

use crate::configuration::{Configuration, Limit, Ratio};
use crate::counts::exit;
use crate::wire::outgoing::SHARED_VALUE_BYTES;
use crate::wire::tls::TlsError;
use crate::workload::keys::{KeyError, KeyPattern};
use crate::workload::requests::MISSING_PREFIX;

pub use common::{
    CommonArguments, PASSWORD_VARIABLE, PatternName, ProtocolName, RangeText, any_duration, check_keys,
    positive_duration,
};
pub use pacing::{ArrivalName, PacingArguments};
pub use transport::TransportArguments;
pub use workload::WorkloadArguments;

/// Longest request batch, so that its buffer stays within memory.
const MAXIMUM_BATCH_BYTES: u64 = 1 << 30;
/// Bytes that a key and a value need besides the prefix and themselves, at most.
const REQUEST_OVERHEAD_BYTES: u64 = 128;
/// Largest value a server accepts.
const MAXIMUM_VALUE_BYTES: u64 = 512 * 1024 * 1024;

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
    /// Server, keys, values and course of the run.
    #[command(flatten)]
    pub common: CommonArguments,
    /// Connections of each thread; with --cluster, each is one to every shard, with one batch under
    /// way over all of them.
    #[arg(long, default_value_t = 20)]
    pub connections_per_thread: u32,
    /// Repeating sequence of SETs and GETs, such as 1:0, 0:1 or 1:10; connections begin at
    /// different places of it.
    #[arg(long, value_name = "SET:GET", default_value = "1:10")]
    pub ratio: RatioText,
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
    /// Which operations are sent, and where to in a cluster.
    #[command(flatten)]
    pub workload: WorkloadArguments,
    /// How requests follow each other.
    #[command(flatten)]
    pub pacing: PacingArguments,
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
        self.check_numbers()?;
        let (limit, expiry_seconds) = (self.limit()?, self.expiry_seconds()?);
        let verify_keys = self.workload.verify_keys;
        let mut configuration = self.common.configuration(limit)?;
        if verify_keys {
            configuration.keys.pattern = KeyPattern::Sequential;
        }
        configuration.connections_per_thread = self.connections_per_thread as usize;
        configuration.ratio = self.ratio.0;
        configuration.operations =
            if verify_keys { vec![WorkloadArguments::verification()] } else { self.workload.operation };
        configuration.data.expiry_seconds = expiry_seconds;
        configuration.pipeline = self.pipeline as usize;
        configuration.schedule = self.pacing.schedule(self.pipeline)?;
        configuration.drain = self.pacing.drain;
        configuration.verify_keys = verify_keys;
        workload::fit_verification(&mut configuration);
        check_keys(&configuration, configuration.connections() as u64)?;
        workload::check_mix(&configuration)?;
        check_sizes(&configuration)?;
        Ok(configuration)
    }

    fn check_numbers(&self) -> Result<(), ArgumentError> {
        for (option, value) in
            [("connections-per-thread", self.connections_per_thread), ("pipeline", self.pipeline)]
        {
            if value == 0 {
                return Err(ArgumentError::OutOfRange { option, expected: "above 0" });
            }
        }
        Ok(())
    }

    fn expiry_seconds(&self) -> Result<Option<(u64, u64)>, ArgumentError> {
        match self.expiry_range {
            Some(RangeText { minimum: 0, .. }) => {
                Err(ArgumentError::OutOfRange { option: "expiry-range", expected: "above 0 seconds" })
            }
            range => Ok(range.map(|range| (range.minimum, range.maximum))),
        }
    }

    fn limit(&self) -> Result<Limit, ArgumentError> {
        match (self.requests, self.duration) {
            (Some(RequestsText::Count(count)), _) => Ok(Limit::Requests(count)),
            (Some(RequestsText::AllKeys), _) if self.common.key_pattern != PatternName::Sequential => {
                Err(ArgumentError::PassWithoutOrder)
            }
            (Some(RequestsText::AllKeys), _) => Ok(Limit::AllKeys),
            (None, Some(duration)) => Ok(Limit::Duration(duration)),
            (None, None) if self.workload.verify_keys => Ok(Limit::AllKeys),
            // The parser demands one of them.
            (None, None) => Err(ArgumentError::OutOfRange { option: "duration", expected: "given" }),
        }
    }
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
            ("--requests 1 --clients 2 --client-index 2", "--client-index must be below --clients"),
            ("--requests 1 --rate 0", "--rate must be above 0"),
            ("--requests 1 --rate 5 --pipeline 2", "leave --pipeline at 1"),
            ("--requests 1 --arrival poisson", "--rate"),
            ("--requests 1 --tls-insecure", "--tls"),
            ("--requests 1 --unix-socket /s --port 1", "cannot be used with"),
            ("--requests 1 --replica-reads", "--cluster"),
            ("--requests 1 --cluster --replica-reads", "get, mget and exists only"),
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
}

//! The validated description of one run: a [`Specification`] with every value checked and in
//! its final type. Pure.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use dragstrip_crds::units::Period;
use dragstrip_crds::workload::{self, LoadgenSpec};
use thiserror::Error;

use crate::cli::PASSWORD_VARIABLE;
use crate::specification::{Server, Specification, Task};
use crate::wire::outgoing::SHARED_VALUE_BYTES;
use crate::workload::keys::{KeyError, KeyPattern, KeyPicker, Share};
use crate::workload::mix::Cycle;
use crate::workload::operations::{MAXIMUM_VALUE_BYTES, OperationError, OperationKind, OperationSpec};
use crate::workload::requests::MISSING_PREFIX;
use crate::workload::schedule::{Arrival, Schedule};
use crate::workload::streams::Crowd;

/// Text before the key number when none is declared.
const DEFAULT_PREFIX: &str = "dragstrip-";
/// Exponent of the Zipfian pattern when none is declared, the same as in YCSB.
const DEFAULT_ZIPF_EXPONENT: f64 = 0.99;
/// Longest request batch, so that its buffer stays within memory.
const MAXIMUM_BATCH_BYTES: u64 = 1 << 30;
/// Bytes that a key and a value need besides the prefix and themselves, at most.
const REQUEST_OVERHEAD_BYTES: u64 = 128;
/// Fewest EXISTS in a batch of [`Task::VerifyKeys`].
const VERIFY_PIPELINE: usize = 100;

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

/// When a connection has done its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// After this many requests on each connection, or of all tasks of a client library.
    Requests(NonZeroU64),
    /// After one pass over the connection's share of the key space.
    AllKeys,
    /// At the first batch boundary after this time from the start.
    Duration(Duration),
}

/// The validated description of one run.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What was declared.
    pub specification: Specification,
    /// Credentials, when the server wants any.
    pub credentials: Option<Credentials>,
    /// Load threads, each with its own event loop.
    pub threads: usize,
    /// Connections of each thread; in a cluster, each is one to every shard.
    pub connections_per_thread: usize,
    /// The operations that are sent.
    pub operations: Vec<OperationSpec>,
    /// Keys.
    pub keys: KeySpace,
    /// Size of values in bytes, unless an operation has its own.
    pub data_bytes: usize,
    /// Requests written at once on a connection.
    pub pipeline: usize,
    /// When to stop.
    pub limit: Limit,
    /// Time of load before the measured window.
    pub warmup: Duration,
    /// Rate of an open loop; none is a closed loop.
    pub schedule: Option<Schedule>,
    /// How long the replies of an open loop are awaited after the end of its schedule.
    pub drain: Duration,
    /// Seed of all random draws.
    pub seed: u64,
    /// The processes that share the load.
    pub crowd: Crowd,
    /// Longest time for name resolution, and for connect plus handshake of each connection.
    pub connect_timeout: Duration,
    /// Longest silence of the server while replies are outstanding.
    pub response_timeout: Duration,
    /// Interval of progress lines; none prints no progress.
    pub progress_interval: Option<Duration>,
    /// How often progress lines have bytes, connections and latencies too; none for never.
    pub detail_interval: Option<Duration>,
}

/// Why a specification cannot be carried out; each message names the field.
#[derive(Debug, Error)]
pub enum SpecificationError {
    /// A number is out of its range.
    #[error("{field} must be {expected}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// Fields contradict each other, or the server cannot do what they declare.
    #[error("{0}")]
    Contradiction(String),
    /// An operation is not usable.
    #[error("loadgen.operations[{place}]: {source}")]
    Operation {
        /// Its place, from 0.
        place: usize,
        /// What is wrong with it.
        source: OperationError,
    },
    /// The keys cannot be drawn.
    #[error("loadgen.keyMinimum, loadgen.keyMaximum and loadgen.keyPattern: {0}")]
    Keys(#[from] KeyError),
    /// The user has no password.
    #[error("server.username needs a password, in the environment variable {PASSWORD_VARIABLE}")]
    MissingPassword,
    /// The password is empty.
    #[error("the environment variable {PASSWORD_VARIABLE} is empty")]
    EmptyPassword,
    /// Batches would be too large.
    #[error(
        "a batch of {pipeline} requests would exceed 1 GiB: lower loadgen.pipeline, keys or the size of values"
    )]
    BatchTooLarge {
        /// Requests of a batch.
        pipeline: usize,
    },
}

use SpecificationError::{Contradiction, OutOfRange};

impl Configuration {
    /// Validates a specification.
    pub fn new(specification: Specification, password: Option<String>) -> Result<Self, SpecificationError> {
        let load = &specification.loadgen;
        check_socket(&specification.server)?;
        if specification.task == Task::Load
            && let Some(problem) = load.problem(specification.server.cluster)
        {
            return Err(Contradiction(problem));
        }
        if specification.client_index >= specification.clients {
            return Err(OutOfRange { field: "clientIndex", expected: "less than clients" });
        }
        let duration = |period: &Option<Period>, default| {
            period.as_ref().map_or(Duration::from_secs(default), Period::duration)
        };
        let progress_interval = specification.progress_interval.as_ref().map(Period::duration);
        let crowd = Crowd { index: specification.client_index, processes: specification.clients };
        let configuration = Self {
            credentials: credentials(specification.server.username.as_ref(), password)?,
            threads: count("loadgen.threads", load.threads)?,
            connections_per_thread: count("loadgen.connectionsPerThread", load.connections_per_thread)?,
            operations: operations(&specification)?,
            keys: keys(&specification, crowd)?,
            data_bytes: value_size(load.data_size)?,
            pipeline: count("loadgen.pipeline", load.pipeline)?,
            limit: limit(&specification)?,
            warmup: duration(&specification.warmup, 0),
            schedule: schedule(load)?,
            drain: duration(&specification.drain, 5),
            seed: whole("loadgen.seed", load.seed.unwrap_or_default())?,
            crowd,
            connect_timeout: duration(&specification.connect_timeout, 5),
            response_timeout: duration(&specification.response_timeout, 10),
            progress_interval,
            detail_interval: progress_interval.filter(|_| specification.progress_detail),
            specification,
        };
        configuration.fit_verification().checked_sizes()
    }

    /// Validates a specification of the generator's own client.
    pub fn of_raw_client(
        specification: Specification,
        password: Option<String>,
    ) -> Result<Self, SpecificationError> {
        let load = &specification.loadgen;
        if load.client != workload::Client::Raw || load.library.is_some() || load.batch.is_some() {
            return Err(Contradiction(
                "loadgen.client must be Raw, without library and batch: dragstrip-clients measures client libraries"
                    .into(),
            ));
        }
        let configuration = Self::new(specification, password)?;
        configuration.check_keys(configuration.connections() as u64)?;
        Ok(configuration)
    }

    /// Checks that each of so many connections or tasks can draw keys; the last one's share
    /// is the smallest.
    pub fn check_keys(&self, clients: u64) -> Result<(), SpecificationError> {
        let share = Share { index: clients.saturating_sub(1), connections: clients };
        KeyPicker::new(self.keys.pattern, self.keys.minimum, self.keys.maximum, share)?;
        Ok(())
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.specification.server
    }

    /// The load as it was declared.
    pub fn load(&self) -> &LoadgenSpec {
        &self.specification.loadgen
    }

    /// Whether the run only counts which keys exist.
    pub fn verifies_keys(&self) -> bool {
        self.specification.task == Task::VerifyKeys
    }

    /// Clients of all threads together; each has a connection, in a cluster one
    /// to every shard.
    pub fn connections(&self) -> usize {
        self.threads * self.connections_per_thread
    }

    /// The server's name for messages.
    pub fn target(&self) -> String {
        self.server().name()
    }

    /// The sequence in which the operations are sent: a ratio in rows, a mix evenly spread.
    pub(crate) fn cycle(&self) -> Cycle {
        let weights: Vec<u64> =
            self.operations.iter().map(|operation| u64::from(operation.weight.get())).collect();
        if self.load().operations.is_empty() { Cycle::in_a_row(&weights) } else { Cycle::spread(&weights) }
    }

    /// Verification divides the keys over all connections; none may be left without.
    fn fit_verification(mut self) -> Self {
        if self.verifies_keys() {
            let keys = self.keys.maximum.saturating_sub(self.keys.minimum).saturating_add(1);
            let keys = usize::try_from(keys).unwrap_or(usize::MAX);
            self.threads = self.threads.min(keys);
            self.connections_per_thread = self.connections_per_thread.min(keys / self.threads.max(1));
            self.pipeline = self.pipeline.max(VERIFY_PIPELINE);
        }
        self
    }

    /// Batches are encoded in memory, large values excepted.
    fn checked_sizes(self) -> Result<Self, SpecificationError> {
        let key = (self.keys.prefix.len() + MISSING_PREFIX.len()) as u64 + REQUEST_OVERHEAD_BYTES;
        let largest = self.operations.iter().map(|operation| {
            let value = operation.data_bytes.unwrap_or(self.data_bytes);
            let copied = value < SHARED_VALUE_BYTES && operation.kind.has_data();
            operation.keys_per_command().max(1) as u64 * 2 * (key + if copied { value as u64 } else { 0 })
        });
        if largest.max().unwrap_or(0).saturating_mul(self.pipeline as u64) > MAXIMUM_BATCH_BYTES {
            return Err(SpecificationError::BatchTooLarge { pipeline: self.pipeline });
        }
        Ok(self)
    }
}

fn check_socket(server: &Server) -> Result<(), SpecificationError> {
    if server.unix_socket.is_some() && (server.tls.is_some() || server.cluster) {
        return Err(Contradiction(
            "server.unixSocket cannot be combined with server.tls or server.cluster".into(),
        ));
    }
    Ok(())
}

fn count(field: &'static str, number: i32) -> Result<usize, SpecificationError> {
    let number = usize::try_from(number).ok().filter(|number| *number > 0);
    number.ok_or(OutOfRange { field, expected: "greater than 0" })
}

fn whole(field: &'static str, number: i64) -> Result<u64, SpecificationError> {
    u64::try_from(number).map_err(|_| OutOfRange { field, expected: "0 or more" })
}

fn value_size(bytes: i64) -> Result<usize, SpecificationError> {
    let size = usize::try_from(bytes).ok().filter(|size| (1..=MAXIMUM_VALUE_BYTES).contains(size));
    size.ok_or(OutOfRange { field: "loadgen.dataSize", expected: "from 1 to 536870912 (512 MiB)" })
}

fn credentials(
    username: Option<&String>,
    password: Option<String>,
) -> Result<Option<Credentials>, SpecificationError> {
    match password {
        Some(password) if password.is_empty() => Err(SpecificationError::EmptyPassword),
        Some(password) => Ok(Some(Credentials { username: username.cloned(), password })),
        None if username.is_some() => Err(SpecificationError::MissingPassword),
        None => Ok(None),
    }
}

fn operations(specification: &Specification) -> Result<Vec<OperationSpec>, SpecificationError> {
    match specification.task {
        Task::WriteKeys => return Ok(vec![OperationSpec::of(OperationKind::Set, NonZeroU32::MIN)]),
        Task::VerifyKeys => return Ok(vec![OperationSpec::of(OperationKind::Exists, NonZeroU32::MIN)]),
        Task::Load => {}
    }
    let declared = &specification.loadgen.operations;
    if declared.is_empty() {
        return ratio(&specification.loadgen.ratio);
    }
    let read = |(place, declared)| {
        OperationSpec::declared(declared).map_err(|source| SpecificationError::Operation { place, source })
    };
    declared.iter().enumerate().map(read).collect()
}

fn ratio(text: &str) -> Result<Vec<OperationSpec>, SpecificationError> {
    let numbers = text.split_once(':').and_then(|(sets, gets)| {
        Some([(OperationKind::Set, sets.parse().ok()?), (OperationKind::Get, gets.parse().ok()?)])
    });
    let sent = numbers.into_iter().flatten();
    let sent = sent.filter_map(|(kind, count)| Some(OperationSpec::of(kind, NonZeroU32::new(count)?)));
    let operations: Vec<_> = sent.collect();
    if operations.is_empty() {
        let expected = "SETs:GETs, two whole numbers that are not both 0, such as 1:10";
        return Err(OutOfRange { field: "loadgen.ratio", expected });
    }
    Ok(operations)
}

/// The keys; of sequential ones this process has its own part, where there are enough.
fn keys(specification: &Specification, crowd: Crowd) -> Result<KeySpace, SpecificationError> {
    let load = &specification.loadgen;
    let minimum = whole("loadgen.keyMinimum", load.key_minimum)?;
    let maximum = whole("loadgen.keyMaximum", load.key_maximum)?;
    if minimum > maximum {
        return Err(KeyError::EmptyRange { minimum, maximum }.into());
    }
    let pattern = match load.key_pattern {
        _ if specification.task != Task::Load => KeyPattern::Sequential,
        workload::KeyPattern::Uniform => KeyPattern::Uniform,
        workload::KeyPattern::Sequential => KeyPattern::Sequential,
        workload::KeyPattern::Gaussian => KeyPattern::gaussian(minimum, maximum),
        workload::KeyPattern::Zipfian => KeyPattern::Zipfian {
            exponent: load
                .zipf_exponent
                .as_ref()
                .map_or(DEFAULT_ZIPF_EXPONENT, dragstrip_crds::units::Decimal::value),
        },
    };
    let prefix = load.key_prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.into());
    let mut keys = KeySpace { prefix, minimum, maximum, pattern };
    let processes = u64::from(crowd.processes);
    if specification.task == Task::Load
        && pattern == KeyPattern::Sequential
        && maximum - minimum >= processes - 1
    {
        let (first, own) =
            Share { index: crowd.index.into(), connections: processes }.of_range(minimum, maximum);
        (keys.minimum, keys.maximum) = (first, first + own - 1);
    }
    Ok(keys)
}

fn limit(specification: &Specification) -> Result<Limit, SpecificationError> {
    let load = &specification.loadgen;
    if specification.task != Task::Load {
        return Ok(Limit::AllKeys);
    }
    let total = load.library.as_ref().and_then(|library| library.total_requests);
    match (&load.duration, load.requests_per_connection.filter(|_| load.library.is_none()), total) {
        (Some(duration), None, None) => Ok(Limit::Duration(duration.duration())),
        (None, Some(requests), None) | (None, None, Some(requests)) => u64::try_from(requests)
            .ok()
            .and_then(NonZeroU64::new)
            .map(Limit::Requests)
            .ok_or(OutOfRange { field: "the number of requests", expected: "greater than 0" }),
        _ => Err(Contradiction(
            "set exactly one of loadgen.duration and loadgen.requestsPerConnection (for a client library \
             loadgen.library.totalRequests): how long to measure, or how much"
                .into(),
        )),
    }
}

fn schedule(load: &LoadgenSpec) -> Result<Option<Schedule>, SpecificationError> {
    let Some(rate) = &load.rate else { return Ok(None) };
    if rate.operations_per_second <= 0 {
        return Err(OutOfRange { field: "loadgen.rate.operationsPerSecond", expected: "greater than 0" });
    }
    let arrival = match rate.arrival {
        workload::ArrivalSchedule::Fixed => Arrival::Fixed,
        workload::ArrivalSchedule::Poisson => Arrival::Poisson,
    };
    Ok(Some(Schedule { operations_per_second: rate.operations_per_second as f64, arrival }))
}

/// The configuration of a specification in short notation, for the tests of other modules.
#[cfg(test)]
pub(crate) fn example(words: &str, operations: &[&str]) -> Result<Configuration, String> {
    let document = crate::notation::specification(words, operations);
    let specification = serde_json::from_value(document).map_err(|error| error.to_string())?;
    Configuration::of_raw_client(specification, None).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_specification_is_understood() {
        let words = "server.host=h ratio=2:3 keyMinimum=5 keyMaximum=9 keyPattern=Gaussian dataSize=10 pipeline=7 \
            duration=1m30s seed=4 connectionsPerThread=2";
        let configuration = example(words, &[]).unwrap();
        let weights: Vec<u32> = configuration.operations.iter().map(|it| it.weight.get()).collect();
        assert_eq!((weights, configuration.data_bytes), (vec![2, 3], 10));
        assert_eq!(configuration.limit, Limit::Duration(Duration::from_secs(90)));
        assert_eq!(configuration.keys.pattern, KeyPattern::Gaussian { median: 7.0, deviation: 5.0 / 6.0 });
        assert_eq!((configuration.target().as_str(), configuration.progress_interval), ("h:6379", None));
    }

    #[test]
    fn unusable_specifications_are_refused_with_the_field() {
        for (words, reason) in [
            ("", "exactly one of loadgen.duration and loadgen.requestsPerConnection"),
            ("requestsPerConnection=1 duration=1s", "exactly one of"),
            ("requestsPerConnection=0", "greater than 0"),
            ("duration=0s", "\"0s\" is not a time"),
            ("duration=1s fly=1", "unknown field `fly`"),
            ("duration=1s ratio=0:0", "loadgen.ratio must be"),
            ("duration=1s pipeline=0", "loadgen.pipeline must be greater than 0"),
            ("duration=1s threads=0", "loadgen.threads must be greater than 0"),
            ("duration=1s keyMinimum=2 keyMaximum=1", "is empty"),
            ("duration=1s keyMinimum=-1", "loadgen.keyMinimum must be 0 or more"),
            ("duration=1s keyPattern=Sequential keyMaximum=18", "cannot be divided over 20"),
            ("duration=1s dataSize=999999999", "loadgen.dataSize must be from 1 to 536870912"),
            ("duration=1s dataSize=16000 ratio=1:0 pipeline=100000", "exceed 1 GiB"),
            ("duration=1s clients=2 clientIndex=2", "clientIndex must be less than clients"),
            ("duration=1s rate.operationsPerSecond=0", "loadgen.rate.operationsPerSecond must be"),
            ("duration=1s rate.operationsPerSecond=5 pipeline=2", "leave loadgen.pipeline at 1"),
            ("duration=1s server.unixSocket=/s server.cluster=true", "server.unixSocket cannot be combined"),
            ("duration=1s replicaReads=true", "loadgen.replicaReads needs a target in cluster mode"),
            ("duration=1s client=Fred library.tasks=1 ratio=1:0", "loadgen.client must be Raw"),
            ("duration=1s server.username=me", "server.username needs a password"),
            ("duration=1s keyPattern=Zipfian zipfExponent=\"0\"", "must be above 0"),
        ] {
            let refusal = example(words, &[]).unwrap_err();
            assert!(refusal.contains(reason), "{words}: {refusal}");
        }
    }

    #[test]
    fn operations_demand_what_they_need() {
        for (words, operation, reason) in [
            ("", "Set absoluteExpiry=true", "need an expiry"),
            ("server.cluster=true", "Mget keys=2", "a {hashtag}, which puts all keys in one slot"),
            ("", "Set dataSize=999999999", "loadgen.operations[0]: dataSize must be"),
            ("", "Get keys=2", "loadgen.operations[0]: keys has no meaning for Get"),
        ] {
            let refusal = example(&format!("duration=1s {words}"), &[operation]).unwrap_err();
            assert!(refusal.contains(reason), "{operation}: {refusal}");
        }
        let words = "duration=1s server.cluster=true keyPrefix={a}";
        assert_eq!(example(words, &["Mget keys=2"]).unwrap().operations[0].keys, 2);
    }

    #[test]
    fn verification_is_a_pass_of_exists_over_all_keys() {
        let configuration = example("task=VerifyKeys keyMaximum=6 threads=3", &[]).unwrap();
        assert_eq!((configuration.threads, configuration.connections_per_thread), (3, 2));
        assert_eq!(
            (configuration.limit, configuration.keys.pattern),
            (Limit::AllKeys, KeyPattern::Sequential)
        );
        assert_eq!(configuration.operations, [OperationSpec::of(OperationKind::Exists, NonZeroU32::MIN)]);
    }

    #[test]
    fn processes_divide_sequential_keys() {
        let range = |maximum: u64, index: u32| {
            let words = format!(
                "duration=1s connectionsPerThread=1 keyPattern=Sequential keyMaximum={maximum} clients=3 clientIndex={index}"
            );
            let keys = example(&words, &[]).unwrap().keys;
            (keys.minimum, keys.maximum)
        };
        assert_eq!([0, 1, 2].map(|index| range(9, index)), [(0, 3), (4, 6), (7, 9)]);
        assert_eq!(range(1, 1), (0, 1), "with fewer keys than processes each has all of them");
    }
}

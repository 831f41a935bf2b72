//! The validated description of a run: a [`Specification`] with checked values. Pure.

use std::fmt;
use std::time::Duration;

use dragstrip_crds::units::{Decimal, Period};
use dragstrip_crds::workload::{Client, KeyPattern, LoadgenOperation, LoadgenSpec, OnMiss, OperationName};
use dragstrip_results::protocol::PASSWORD_VARIABLE;
use thiserror::Error;

use crate::specification::{Server, Specification, Task};
use crate::wire::outgoing::SHARED_VALUE_BYTES;
use crate::workload::keys::{KeyPicker, KeySpace, MISSING_PREFIX, Share};
use crate::workload::mix::{Cycle, OperationIndex};
use crate::workload::operations::{OperationSpec, sizes, within};
use crate::workload::streams::Crowd;

/// Text before the key number when none is declared.
const DEFAULT_PREFIX: &str = "dragstrip-";
/// Exponent of the Zipfian pattern when none is declared, the same as in YCSB.
const DEFAULT_ZIPF_EXPONENT: f64 = 0.99;
/// Largest key number, count or rate, as a manifest may declare it.
const LARGEST: i64 = 1_000_000_000_000_000;
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
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// When a connection has done its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// After this many requests on each connection, or of all tasks of a client library.
    Requests(u64),
    /// After one pass over the connection's share of the key space.
    AllKeys,
    /// At the first batch boundary after this time from the start.
    Duration(Duration),
}

#[derive(Clone, Debug)]
pub struct Configuration {
    pub specification: Specification,
    pub credentials: Option<Credentials>,
    /// Load threads, each with its own event loop.
    pub threads: usize,
    /// Connections of each thread; in a cluster, each is one to every shard.
    pub connections_per_thread: usize,
    /// The operations that are sent; last the one that follows a miss, if any does.
    pub operations: Vec<OperationSpec>,
    pub keys: KeySpace,
    /// Smallest and largest size of values in bytes, unless an operation has its own.
    pub data_bytes: [usize; 2],
    /// Share of each value that is one repeated byte; the rest is random.
    pub compressibility: f64,
    /// Requests written at once on a connection.
    pub pipeline: usize,
    pub limit: Limit,
    pub warmup: Duration,
    /// How long the replies of an open loop are awaited after the end of its schedule.
    pub drain: Duration,
    pub seed: u64,
    /// The processes that share the load.
    pub crowd: Crowd,
    /// Longest time for name resolution, and for connect plus handshake of each connection.
    pub connect_timeout: Duration,
    /// Longest silence of the server while replies are outstanding.
    pub response_timeout: Duration,
    pub progress_interval: Option<Duration>,
    /// How often progress lines have bytes, connections and latencies too; none for never.
    pub detail_interval: Option<Duration>,
}

/// Why a specification cannot be carried out: field and remedy.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct SpecificationError(String);

impl From<String> for SpecificationError {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

pub fn refuse_if(wrong: bool, problem: &str) -> Result<(), SpecificationError> {
    if wrong { Err(SpecificationError(problem.to_owned())) } else { Ok(()) }
}

impl Configuration {
    pub fn new(specification: Specification, password: Option<String>) -> Result<Self, SpecificationError> {
        let load = &specification.loadgen;
        if specification.task == Task::Load
            && let Some(problem) = load.problem(specification.server.cluster)
        {
            return Err(problem.into());
        }
        refuse_if(
            specification.client_index >= specification.clients,
            "clientIndex must be less than clients",
        )?;
        let rate = load.rate.as_ref().map_or(1, |rate| rate.operations_per_second);
        within::<i64>("loadgen.rate.operationsPerSecond", rate, 1..=LARGEST)?;
        let duration = |period: &Option<Period>, default| {
            period.as_ref().map_or(Duration::from_secs(default), Period::duration)
        };
        let progress_interval = specification.progress_interval.as_ref().map(Period::duration);
        let crowd = Crowd { index: specification.client_index, processes: specification.clients };
        let connections = load.connections_per_thread.into();
        let compressibility = load.compressibility.as_ref().map_or(1.0, Decimal::value);
        refuse_if(!(0.0..=1.0).contains(&compressibility), "loadgen.compressibility must be from 0 to 1")?;
        let data_bytes = sizes(load.data_size, load.data_size_maximum);
        let configuration = Self {
            credentials: credentials(specification.server.username.as_ref(), password)?,
            threads: within("loadgen.threads", load.threads.into(), 1..=1024)?,
            connections_per_thread: within("loadgen.connectionsPerThread", connections, 1..=10_000)?,
            operations: operations(&specification, crowd)?,
            keys: keys("loadgen", load, specification.task, crowd)?,
            data_bytes: data_bytes.map_err(|problem| format!("loadgen.{problem}"))?,
            compressibility,
            pipeline: within("loadgen.pipeline", load.pipeline.into(), 1..=10_000)?,
            limit: limit(&specification)?,
            warmup: duration(&specification.warmup, 0),
            drain: duration(&specification.drain, 5),
            seed: within("loadgen.seed", load.seed.unwrap_or_default(), 0..=LARGEST)?,
            crowd,
            connect_timeout: duration(&specification.connect_timeout, 5),
            response_timeout: duration(&specification.response_timeout, 10),
            progress_interval,
            detail_interval: progress_interval.filter(|_| specification.progress_detail),
            specification,
        };
        let configuration = configuration.fit_verification();
        configuration.check_sizes()?;
        Ok(configuration)
    }

    /// Validates a specification of the generator's own client.
    pub fn of_raw_client(
        specification: Specification,
        password: Option<String>,
    ) -> Result<Self, SpecificationError> {
        let load = &specification.loadgen;
        refuse_if(
            load.client != Client::Raw || load.library.is_some() || load.batch.is_some(),
            "loadgen.client must be Raw, without library and batch: dragstrip-clients measures client libraries",
        )?;
        let configuration = Self::new(specification, password)?;
        configuration.check_keys(configuration.connections() as u64)?;
        Ok(configuration)
    }

    /// Checks that so many connections or tasks can draw keys; the last has the smallest share.
    pub fn check_keys(&self, clients: u64) -> Result<(), SpecificationError> {
        let share = Share { index: clients.saturating_sub(1), connections: clients };
        let own = self.operations.iter().filter_map(|operation| operation.key_space.as_ref());
        for keys in own.chain([&self.keys]) {
            KeyPicker::new(keys, share).map_err(|error| {
                format!("loadgen: keyMinimum and keyMaximum of the keys {}*: {error}", keys.prefix)
            })?;
        }
        Ok(())
    }

    pub fn server(&self) -> &Server {
        &self.specification.server
    }

    pub fn load(&self) -> &LoadgenSpec {
        &self.specification.loadgen
    }

    /// Whether the run only counts which keys exist.
    pub fn verifies_keys(&self) -> bool {
        self.specification.task == Task::VerifyKeys
    }

    /// The operation that follows a miss.
    pub(crate) fn fill(&self) -> Option<OperationIndex> {
        self.operations.iter().position(|operation| operation.follows_miss).map(OperationIndex)
    }

    /// Clients of all threads, each with a connection, in a cluster to every shard.
    pub fn connections(&self) -> usize {
        self.threads * self.connections_per_thread
    }

    /// The server's `host:port`.
    pub fn target(&self) -> String {
        self.server().name()
    }

    /// The sequence in which the operations are sent: a ratio in rows, a mix evenly spread.
    pub(crate) fn cycle(&self) -> Cycle {
        let weights: Vec<u64> = self.operations.iter().map(|operation| operation.weight).collect();
        if self.load().operations.is_empty() { Cycle::in_a_row(&weights) } else { Cycle::spread(&weights) }
    }

    /// Verification divides the keys over all connections; none may be left without.
    fn fit_verification(mut self) -> Self {
        if self.verifies_keys() {
            let keys = usize::try_from(self.keys.keys()).unwrap_or(usize::MAX);
            self.threads = self.threads.min(keys);
            self.connections_per_thread = self.connections_per_thread.min(keys / self.threads.max(1));
            self.pipeline = self.pipeline.max(VERIFY_PIPELINE);
        }
        self
    }

    /// Batches are encoded in memory, large values excepted.
    fn check_sizes(&self) -> Result<(), SpecificationError> {
        let largest = self.operations.iter().map(|operation| {
            let prefix = &operation.key_space.as_ref().unwrap_or(&self.keys).prefix;
            let key = (prefix.len() + MISSING_PREFIX.len()) as u64 + REQUEST_OVERHEAD_BYTES;
            let [least, most] = operation.data_bytes.unwrap_or(self.data_bytes);
            let copied = least < SHARED_VALUE_BYTES && operation.kind.has_data();
            let value = if copied { most.min(SHARED_VALUE_BYTES) as u64 } else { 0 };
            operation.keys_per_command().max(1) as u64 * 2 * (key + value)
        });
        refuse_if(
            largest.max().unwrap_or(0).saturating_mul(self.pipeline as u64) > MAXIMUM_BATCH_BYTES,
            "a batch would exceed 1 GiB: lower loadgen.pipeline, keys or the size of values",
        )
    }
}

fn credentials(
    username: Option<&String>,
    password: Option<String>,
) -> Result<Option<Credentials>, SpecificationError> {
    let variable = format!("the environment variable {PASSWORD_VARIABLE}");
    refuse_if(password.as_ref().is_some_and(String::is_empty), &format!("{variable} is empty"))?;
    let missing = username.is_some() && password.is_none();
    refuse_if(missing, &format!("server.username needs a password, in {variable}"))?;
    Ok(password.map(|password| Credentials { username: username.cloned(), password }))
}

fn operations(specification: &Specification, crowd: Crowd) -> Result<Vec<OperationSpec>, SpecificationError> {
    let load = &specification.loadgen;
    let read = |(place, declared): (usize, &LoadgenOperation)| -> Result<_, SpecificationError> {
        let field = format!("loadgen.operations[{place}]");
        let operation = OperationSpec::declared(declared).map_err(|problem| format!("{field}: {problem}"))?;
        let own = LoadgenSpec {
            key_prefix: declared.key_prefix.clone().or_else(|| load.key_prefix.clone()),
            key_minimum: declared.key_minimum.unwrap_or(load.key_minimum),
            key_maximum: declared.key_maximum.unwrap_or(load.key_maximum),
            key_pattern: declared.key_pattern.unwrap_or(load.key_pattern),
            ..load.clone()
        };
        let key_space = declared.has_own_keys().then(|| keys(&field, &own, Task::Load, crowd));
        Ok(OperationSpec { key_space: key_space.transpose()?, ..operation })
    };
    let mut sent: Vec<OperationSpec> = match specification.task {
        Task::WriteKeys => return Ok(vec![OperationSpec::of(OperationName::Set, 1)]),
        Task::VerifyKeys => return Ok(vec![OperationSpec::of(OperationName::Exists, 1)]),
        Task::Load if load.operations.is_empty() => ratio(load)?,
        Task::Load => load.operations.iter().enumerate().map(read).collect::<Result<_, _>>()?,
    };
    sent.extend(load.on_miss.map(|OnMiss::Set| OperationSpec::set(load, 0, true)));
    Ok(sent)
}

fn ratio(load: &LoadgenSpec) -> Result<Vec<OperationSpec>, SpecificationError> {
    let numbers = load.ratio.split_once(':').and_then(|(sets, gets)| {
        Some([(OperationName::Set, sets.parse::<u32>().ok()?), (OperationName::Get, gets.parse().ok()?)])
    });
    let sent = numbers.into_iter().flatten().filter(|(_, weight)| *weight > 0);
    let operation = |(name, weight): (OperationName, u32)| match name {
        OperationName::Set => OperationSpec::set(load, weight.into(), false),
        other => OperationSpec::of(other, weight.into()),
    };
    let operations: Vec<_> = sent.map(operation).collect();
    let problem = "loadgen.ratio must be SETs:GETs, two whole numbers that are not both 0, such as 1:10";
    refuse_if(operations.is_empty(), problem)?;
    Ok(operations)
}

/// The keys; of sequential ones this process has its own part, where there are enough.
fn keys(field: &str, load: &LoadgenSpec, task: Task, crowd: Crowd) -> Result<KeySpace, SpecificationError> {
    let is_load = task == Task::Load;
    let exponent = load.zipf_exponent.as_ref().map_or(DEFAULT_ZIPF_EXPONENT, Decimal::value);
    refuse_if(!(0.01..=10.0).contains(&exponent), "loadgen.zipfExponent must be from 0.01 to 10")?;
    let mut keys = KeySpace {
        prefix: load.key_prefix.clone().unwrap_or_else(|| DEFAULT_PREFIX.into()),
        minimum: within(&format!("{field}.keyMinimum"), load.key_minimum, 0..=LARGEST)?,
        maximum: within(&format!("{field}.keyMaximum"), load.key_maximum, 0..=LARGEST)?,
        pattern: if is_load { load.key_pattern } else { KeyPattern::Sequential },
        zipf_exponent: exponent,
    };
    refuse_if(keys.minimum > keys.maximum, "loadgen.keyMaximum must not be below loadgen.keyMinimum")?;
    let processes = u64::from(crowd.processes);
    if is_load && keys.pattern == KeyPattern::Sequential && keys.keys() >= processes {
        let share = Share { index: crowd.index.into(), connections: processes };
        let (first, own) = share.of_range(keys.minimum, keys.maximum);
        (keys.minimum, keys.maximum) = (first, first + own - 1);
    }
    Ok(keys)
}

fn limit(specification: &Specification) -> Result<Limit, SpecificationError> {
    let load = &specification.loadgen;
    if specification.task != Task::Load {
        return Ok(Limit::AllKeys);
    }
    let requests = match &load.library {
        Some(library) => library.total_requests,
        None => load.requests_per_connection,
    };
    match (&load.duration, requests) {
        (Some(duration), None) => Ok(Limit::Duration(duration.duration())),
        (None, Some(requests)) => {
            Ok(Limit::Requests(within("the number of requests", requests, 1..=LARGEST)?))
        }
        _ => Err(SpecificationError(
            "set exactly one of loadgen.duration and loadgen.requestsPerConnection (for a client library \
             loadgen.library.totalRequests): how long to measure, or how much"
                .into(),
        )),
    }
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
        let weights: Vec<u64> = configuration.operations.iter().map(|it| it.weight).collect();
        assert_eq!((weights, configuration.data_bytes), (vec![2, 3], [10, 10]));
        assert_eq!(configuration.limit, Limit::Duration(Duration::from_secs(90)));
        assert_eq!((configuration.keys.pattern, configuration.keys.keys()), (KeyPattern::Gaussian, 5));
        assert_eq!((configuration.target().as_str(), configuration.progress_interval), ("h:6379", None));
    }

    #[test]
    fn unusable_specifications_are_refused_with_the_field() {
        for (words, reason) in [
            ("", "exactly one of loadgen.duration and loadgen.requestsPerConnection"),
            ("requestsPerConnection=1 duration=1s", "exactly one of"),
            ("requestsPerConnection=0", "the number of requests must be from 1"),
            ("duration=0s", "\"0s\" is not a time"),
            ("duration=1s fly=1", "unknown field `fly`"),
            ("duration=1s ratio=0:0", "loadgen.ratio must be"),
            ("duration=1s pipeline=0", "loadgen.pipeline must be from 1 to 10000"),
            ("duration=1s threads=0", "loadgen.threads must be from 1 to 1024"),
            ("duration=1s keyMinimum=2 keyMaximum=1", "keyMaximum must not be below"),
            ("duration=1s keyMinimum=-1", "loadgen.keyMinimum must be from 0"),
            ("duration=1s keyPattern=Sequential keyMaximum=18", "cannot be divided over 20"),
            ("duration=1s dataSize=999999999", "loadgen.dataSize must be from 1 to 536870912"),
            ("duration=1s dataSizeMaximum=31", "loadgen.dataSizeMaximum must be from 32 to 536870912"),
            ("duration=1s compressibility=\"1.1\"", "loadgen.compressibility must be from 0 to 1"),
            ("duration=1s clients=2 clientIndex=2", "clientIndex must be less than clients"),
            ("duration=1s rate.operationsPerSecond=0", "loadgen.rate.operationsPerSecond must be"),
            ("duration=1s rate.operationsPerSecond=5 pipeline=2", "leave loadgen.pipeline at 1"),
            ("duration=1s replicaReads=true", "loadgen.replicaReads needs a target in cluster mode"),
            ("duration=1s client=Fred library.tasks=1 ratio=1:0", "loadgen.client must be Raw"),
            ("duration=1s server.username=me", "server.username needs a password"),
            ("duration=1s keyPattern=Zipfian zipfExponent=\"0\"", "loadgen.zipfExponent must be from 0.01"),
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
            ("", "Set dataSizeMaximum=9", "loadgen.operations[0]: dataSize must be from 1"),
            ("", "Get keyMinimum=-1", "loadgen.operations[0].keyMinimum must be from 0"),
            (
                "",
                "Get keyPattern=Sequential keyPrefix=a: keyMaximum=18",
                "keys a:*: 19 keys cannot be divided",
            ),
            ("pipeline=10000", "Mset keys=4 dataSize=5 dataSizeMaximum=99999", "exceed 1 GiB"),
            ("pipeline=100", "Mset keys=1000 dataSize=16000", "exceed 1 GiB"),
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
        assert_eq!(configuration.operations, [OperationSpec::of(OperationName::Exists, 1)]);
    }

    #[test]
    fn an_operation_has_the_keys_of_the_load_but_for_what_it_declares() {
        let words = "duration=1s connectionsPerThread=2 keyPrefix=a: keyMaximum=99 clients=2 clientIndex=1";
        let operations = ["Get", "Get keyPrefix=b:", "Set keyMaximum=9 keyPattern=Sequential"];
        let configuration = example(words, &operations).unwrap();
        let own: Vec<_> = configuration.operations.iter().map(|it| it.key_space.as_ref()).collect();
        assert_eq!(own[0], None);
        let prefixed = KeySpace { prefix: "b:".into(), ..configuration.keys.clone() };
        assert_eq!(own[1], Some(&prefixed));
        let divided = KeySpace {
            minimum: 5,
            maximum: 9,
            pattern: KeyPattern::Sequential,
            ..configuration.keys.clone()
        };
        assert_eq!(own[2], Some(&divided), "processes divide sequential keys of an operation too");
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

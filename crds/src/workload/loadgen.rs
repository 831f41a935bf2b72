//! Dragstrip's own load generator.

mod judge;

use super::keys::{KeyPattern, LARGEST, ratio};
use crate::{
    defaults::{int, long},
    units::{Decimal, Period, decimal_between},
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Set, Get, Incr, Mset, Mget, Del, Exists or MsetExpireat. Omitted for a `command`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationName {
    /// SET key value.
    Set,
    /// GET key.
    Get,
    /// INCR key.
    Incr,
    /// MSET of `keys` keys.
    Mset,
    /// MGET of `keys` keys.
    Mget,
    /// DEL of `keys` keys.
    Del,
    /// EXISTS of `keys` keys.
    Exists,
    /// MSET of `keys` keys followed by an EXPIREAT of each, sent together.
    MsetExpireat,
}

/// One operation of a mix.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("has(self.operation) != has(self.command)")
        .message("set exactly one of operation (such as Get) and command (a template)"),
    validation = Rule::new("!has(self.expiry) || has(self.command) || (has(self.operation) && self.operation in ['Set', 'MsetExpireat'])")
        .message("expiry goes with a command, or with operation Set or MsetExpireat"),
    validation = Rule::new("!self.missing || (has(self.operation) && self.operation in ['Get', 'Mget', 'Del', 'Exists'])")
        .message("missing goes with operation Get, Mget, Del or Exists"),
    validation = Rule::new("!has(self.dataSizeMaximum) || (has(self.dataSize) && self.dataSizeMaximum >= self.dataSize)")
        .message("dataSizeMaximum needs a dataSize that is not above it, such as dataSize 1000 and dataSizeMaximum 8000"),
)]
pub struct LoadgenOperation {
    /// The operation, such as Get.
    pub operation: Option<OperationName>,
    /// Any command, with `__key__` and `__data__` in place of a key and a value,
    /// such as `ZADD __key__ 1 __data__`. Quotes keep words together.
    #[schemars(length(min = 1, max = 1024))]
    pub command: Option<String>,
    /// Share of this operation, relative to the others. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: i32,
    /// Keys of each command of Mset, Mget, Del, Exists and MsetExpireat. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 100_000))]
    pub keys: i32,
    /// Lifetime of the written keys, such as 300s: `SET ... EX`, or the EXPIREAT of MsetExpireat. A `command`
    /// with `__key__` as its first argument is followed by an EXPIRE of that key, sent together as one operation.
    /// Keys do not expire if omitted.
    pub expiry: Option<Period>,
    /// Longest lifetime, such as 600s: each is then drawn evenly from `expiry` to this, in whole seconds, so
    /// that keys written together do not expire together. Defaults to `expiry`.
    pub expiry_maximum: Option<Period>,
    /// Write the expiry as an absolute instant (`SET ... EXAT`). Defaults to false.
    #[serde(default)]
    pub absolute_expiry: bool,
    /// Read keys that are never written. Defaults to false.
    #[serde(default)]
    pub missing: bool,
    /// Value size in bytes. Defaults to the sizes of the load.
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: Option<i64>,
    /// Largest value size in bytes, such as 8000: the size of each value is then drawn evenly from this entry's
    /// `dataSize` to this. Defaults to its `dataSize`.
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size_maximum: Option<i64>,
    /// Text before the number of this operation's keys, such as `session:`. An operation with a keyPrefix,
    /// keyMinimum, keyMaximum or keyPattern draws its keys by itself, and its results have the prefix in their
    /// name: `GET session:*`. Defaults to the keyPrefix of the load.
    #[schemars(length(max = 40))]
    pub key_prefix: Option<String>,
    /// First key number of this operation, such as 0. Defaults to the keyMinimum of the load.
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: Option<i64>,
    /// Last key number of this operation, such as 99999. Defaults to the keyMaximum of the load.
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_maximum: Option<i64>,
    /// How this operation draws its keys, such as Zipfian. Defaults to the keyPattern of the load.
    pub key_pattern: Option<KeyPattern>,
}

/// What follows a GET that did not find its key; nothing if omitted. Set sends a SET of it on the same
/// connection at once, with the sizes and lifetimes of the load. These SETs are the operation `SET (miss)`: they are extra
/// to `requestsPerConnection` and to the schedule of `rate`, are part of a closed loop's batch, and are not
/// in the phase's throughput and latency (TOTAL). MGET and commands of a template are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnMiss {
    /// SET the key, as an application does with a cache beside its database.
    Set,
}

/// When the requests of an open loop are due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArrivalSchedule {
    /// At equal intervals.
    #[default]
    Fixed,
    /// At exponentially distributed intervals, as independent users would send them.
    Poisson,
}

/// How a load thread of an open loop waits until a request is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Pacing {
    /// It sleeps, and its timer wakes it.
    #[default]
    Timer,
    /// It spins for the last 500 us.
    Spin,
}

/// An open loop: requests are due by a schedule, whatever the server does.
/// Latency counts from the instant a request was due, so that a stall shows. The load
/// generator awaits replies for 5 s after the end of the schedule; a request without one
/// counts with the time it has waited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenLoopSpec {
    /// Operations per second of all client pods together, such as 100000.
    #[schemars(range(min = 1, max = LARGEST))]
    pub operations_per_second: i64,
    /// The schedule: Fixed (equal intervals) or Poisson (as independent users would send). Defaults to Fixed.
    #[serde(default)]
    pub arrival: ArrivalSchedule,
    /// How load threads wait until a request is due: Timer (sleep) or Spin (stay awake for the last
    /// 500 us, so that a late timer does not delay the request). With Spin each load thread needs a CPU
    /// of its own. Defaults to Timer.
    #[serde(default)]
    pub pacing: Pacing,
}

/// What sends the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Client {
    /// The generator's own code: the least client CPU per operation.
    #[default]
    Raw,
    /// The redis crate (redis-rs).
    RedisRs,
    /// The fred crate.
    Fred,
    /// The redis crate behind a bb8 pool.
    Bb8Redis,
}

/// What kind of connection redis-rs uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConnectionKind {
    /// MultiplexedConnection.
    #[default]
    Multiplexed,
    /// ConnectionManager, which reconnects.
    ConnectionManager,
}

/// Settings of a client library. Instead of `threads` x `connectionsPerThread`
/// connections there are `poolSize` clients that `tasks` Tokio tasks share.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LibrarySpec {
    /// Tokio tasks, each awaiting one operation (or batch) at a time. Defaults to 100.
    #[serde(default = "int::<100>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tasks: i32,
    /// Clients or connections, which the tasks use in turn. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 10_000))]
    pub pool_size: i32,
    /// Connections of redis-rs: Multiplexed or ConnectionManager (which reconnects). Defaults to
    /// Multiplexed.
    #[serde(default)]
    pub connection_kind: ConnectionKind,
    /// Operations of all tasks together, such as 10000000, instead of duration and requestsPerConnection.
    #[schemars(range(min = 1, max = LARGEST))]
    pub total_requests: Option<i64>,
    /// Check every INCR's reply against the task's own count. Defaults to false.
    #[serde(default)]
    pub assert_expected: bool,
}

/// Batches timed one by one, as Criterion does: each writes or reads `items` items in commands of
/// `batchSize` items, `parallelism` of them in flight. The result is time per batch, items per second
/// and MiB per second, each with its 95 % confidence interval.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchSpec {
    /// Items of one timed batch, such as 100000.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub items: i32,
    /// Items of one command or pipeline, such as 10000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batch_size: i32,
    /// Commands or pipelines in flight. Defaults to 1.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 10_000))]
    pub parallelism: i32,
    /// The operation: Mset, SetExpire, MsetExpire or Mget.
    pub operation: BatchOperation,
    /// Size of each key in bytes. Defaults to 80.
    #[serde(default = "int::<80>")]
    #[schemars(range(min = 1, max = 65_536))]
    pub key_size: i32,
    /// Lifetime of the items that SetExpire and MsetExpire write. Defaults to 300s.
    pub expiry: Option<Period>,
}

/// The operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BatchOperation {
    /// One MSET per `batchSize` items.
    Mset,
    /// A pipeline of `SET key value EXAT instant`.
    SetExpire,
    /// A pipeline of one MSET and an EXPIREAT per item.
    MsetExpire,
    /// One MGET per `batchSize` items.
    Mget,
}

/// Dragstrip's own load generator. Without `rate` it is a closed loop: it sends a batch of `pipeline`
/// requests and awaits all replies.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.duration), has(self.requestsPerConnection), has(self.library) && has(self.library.totalRequests)].filter(x, x).size() == 1")
        .message("set exactly one of duration and requestsPerConnection (or library.totalRequests): how long to measure, or how much"),
    validation = Rule::new("(self.client == 'Raw') == !has(self.library)")
        .message("library goes with client RedisRs, Fred or Bb8Redis, and those need it"),
    validation = Rule::new("!has(self.batch) || self.client != 'Raw'")
        .message("batch measures client libraries: set client to RedisRs, Fred or Bb8Redis"),
    validation = Rule::new("!has(self.rate) || (self.client == 'Raw' && has(self.duration))")
        .message("rate needs client Raw and a duration"),
    validation = Rule::new("self.keyMaximum >= self.keyMinimum")
        .message("keyMaximum must not be below keyMinimum"),
    validation = Rule::new("!has(self.dataSizeMaximum) || self.dataSizeMaximum >= self.dataSize")
        .message("dataSizeMaximum must not be below dataSize"),
)]
pub struct LoadgenSpec {
    /// Load threads in each client pod. Defaults to 1. A limit in clients.resources must have as many
    /// CPUs.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: i32,
    /// Connections of each thread. In a cluster, each is one to every shard, with one batch in flight
    /// over all of them. Defaults to 20.
    #[serde(default = "int::<20>")]
    #[schemars(range(min = 1, max = 10000))]
    pub connections_per_thread: i32,
    /// How long to measure, such as 60s, 5m or 1h30m.
    pub duration: Option<Period>,
    /// Requests of each connection, such as 200000.
    #[schemars(range(min = 1, max = LARGEST))]
    pub requests_per_connection: Option<i64>,
    /// SETs to GETs, such as 1:0 (writes only), 0:1 (reads only) or 1:10. Defaults to 1:10.
    #[serde(default = "ratio")]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,6}:[0-9]{1,6}$') && !self.matches('^0+:0+$')")
        .message("ratio is SETs:GETs, two whole numbers that are not both 0, such as 1:10"))]
    #[schemars(length(max = 13))]
    pub ratio: String,
    /// Operations to mix, instead of ratio, such as `[{operation: Incr}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub operations: Vec<LoadgenOperation>,
    /// What follows a GET that did not find its key.
    pub on_miss: Option<OnMiss>,
    /// Lifetime of what the SETs of `ratio` and `onMiss` write, such as 300s (entries of `operations` have
    /// their own). Keys do not expire if omitted.
    pub expiry: Option<Period>,
    /// Longest lifetime, such as 600s: each is then drawn evenly from `expiry` to this, in whole seconds, so
    /// that keys written together do not expire together. Defaults to `expiry`.
    pub expiry_maximum: Option<Period>,
    /// Open loop: send by a schedule, such as `{operationsPerSecond: 100000}`. Closed loop if omitted.
    pub rate: Option<OpenLoopSpec>,
    /// What sends the requests: Raw (the generator's own code), or a client library: RedisRs, Fred or
    /// Bb8Redis. Defaults to Raw.
    #[serde(default)]
    pub client: Client,
    /// Settings of a client library, such as `{tasks: 100, poolSize: 8}`.
    pub library: Option<LibrarySpec>,
    /// Time batches one by one, such as `{items: 100000, batchSize: 10000, operation: Mset}`.
    pub batch: Option<BatchSpec>,
    /// Send the load to the replicas of a target in cluster mode. It may then only read (ratio 0:1,
    /// or the operations Get, Mget and Exists). Defaults to false.
    #[serde(default)]
    pub replica_reads: bool,
    /// Requests in flight on each connection. Defaults to 1: no pipelining.
    #[serde(default = "int::<1>")]
    #[schemars(range(min = 1, max = 10000))]
    pub pipeline: i32,
    /// Value size in bytes. Defaults to 32.
    #[serde(default = "long::<32>")]
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size: i64,
    /// Largest value size in bytes, such as 8000: the size of each value is then drawn evenly from `dataSize` to
    /// this. Defaults to `dataSize`.
    #[schemars(range(min = 1, max = 536_870_912))]
    pub data_size_maximum: Option<i64>,
    /// Share of each value that is one repeated byte, from "0" to "1", such as "0.5". The rest are random bytes,
    /// other ones in each value. The values of the phase's `load` have the same share. Defaults to "1".
    #[x_kube(validation = Rule::new(decimal_between("0.0", "1.0"))
        .message("compressibility is from 0 to 1, such as \"0.5\""))]
    pub compressibility: Option<Decimal>,
    /// Text before the key's number. Defaults to `dragstrip-`.
    #[schemars(length(max = 128))]
    pub key_prefix: Option<String>,
    /// First key number. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_minimum: i64,
    /// Last key number. Defaults to 1000000.
    #[serde(default = "long::<1_000_000>")]
    #[schemars(range(min = 0, max = LARGEST))]
    pub key_maximum: i64,
    /// How keys are drawn: Uniform, Sequential (each key once per pass), Gaussian (near the middle) or
    /// Zipfian (few keys most of the time). Defaults to Uniform.
    #[serde(default)]
    pub key_pattern: KeyPattern,
    /// Exponent of the Zipfian pattern, from "0.01" to "10", such as "1.2". Defaults to "0.99".
    #[x_kube(validation = Rule::new(decimal_between("0.01", "10.0"))
        .message("zipfExponent is from 0.01 to 10, such as \"0.99\""))]
    pub zipf_exponent: Option<Decimal>,
    /// Seed of the random numbers, such as 7. Each connection of each client pod draws independently.
    /// Defaults to 0: the same keys each time.
    #[schemars(range(min = 0, max = LARGEST))]
    pub seed: Option<i64>,
    /// Speak RESP3 instead of RESP2. Defaults to false.
    #[serde(default)]
    pub resp3: bool,
}

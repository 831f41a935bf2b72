//! Any tool in any image, and how to read its output.

use crate::{
    defaults::yes,
    units::{Decimal, Period, decimal_between},
};
use k8s_openapi::api::core::v1::EnvVar;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A benchmark tool in an image of your own. The runner starts `command` and `args`, replaces
/// `${HOST}`, `${PORT}`, `${ADDRESS}` (host:port), `${MEMBERS}` (host:port of every member, joined
/// by commas), `${OUTPUT}` (a writable directory), `${CLIENT_INDEX}`, `${CLIENTS}` and `${PASSWORD}`
/// (empty if the target has none) in them and in the values of `env`, and sets environment
/// variables with the same names after DRAGSTRIP_. DRAGSTRIP_PASSWORD is set only if there is a
/// password. Everybody on the client's node can read arguments: pass the password in `env` if the
/// tool reads it there, as redis-cli reads REDISCLI_AUTH. redis-benchmark and valkey-benchmark
/// accept it only as `[-a, "${PASSWORD}"]`: create an ACL user for the benchmark and delete it
/// afterwards.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecSpec {
    /// Image with the tool, such as redis:8.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The program and its first arguments, such as `[redis-benchmark]`. No shell runs it.
    #[schemars(length(min = 1, max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Further arguments, such as `[-h, "${HOST}", -p, "${PORT}", --csv]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Further environment variables, such as `[{name: TZ, value: UTC}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// How long the tool is expected to run, such as 60s. The runner kills it 15 s after that.
    /// If omitted, only the run's timeout limits it.
    pub duration: Option<Period>,
    /// How to read the tool's output, such as `{redisBenchmarkCsv: {requests: 1000000}}`.
    pub parser: ParserSpec,
    /// Compare the tool's counts with the server's own command counters, and fail the repetition
    /// if they differ. Needs a RESP server, and operations whose names begin with a command of the
    /// server: `MSET (10 keys)` does, `add-job` does not. Defaults to false.
    #[serde(default)]
    pub counter_check: bool,
    /// Files from ConfigMaps for the tool, such as `[{configMap: workloads, mountPath: /workloads}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["mountPath".into()]))]
    pub files: Vec<ExecFiles>,
    /// User and group id of the tool, not root, such as 1000. Set it if other users cannot read
    /// the files of the image. Defaults to 65532.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub user: Option<i64>,
}

/// A ConfigMap's keys as files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecFiles {
    /// Name of a ConfigMap in the run's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Read-only directory with a file for each key, such as /workloads. It hides the image's own
    /// files there.
    #[schemars(length(min = 2, max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/') && !self.contains(':') && !self.contains('..') && self != '/tmp' && !self.startsWith('/dragstrip')")
        .message("mountPath must be an absolute path, such as /workloads, without .. or a colon; /tmp and /dragstrip are taken"))]
    pub mount_path: String,
}

/// How to read the tool's output: exactly one parser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ParserSpec {
    /// memtier's JSON result, which dfly_bench writes too, such as `{file: out.json}`.
    MemtierJson(FileParser),
    /// What `redis-benchmark --csv` prints, such as `{requests: 1000000}`.
    RedisBenchmarkCsv(RedisBenchmarkParser),
    /// What `go test -bench` prints: `{}`.
    GoBench(GoBenchParser),
    /// A table with a header, such as `{columns: [{header: rps, meaning: OperationsPerSecond}]}`.
    Csv(CsvParser),
    /// Lines that match patterns, such as `{lines: [{pattern: "(?<operationsPerSecond>[0-9]+) req/sec"}]}`.
    Regex(RegexParser),
    /// A JSON document whose values JSON pointers name, such as
    /// `{operation: GET, values: [{pointer: /rps, meaning: OperationsPerSecond}]}`.
    Json(JsonParser),
    /// Logs of HdrHistogram (.hlog, .hdr), such as `{files: [{file: ycsb-READ.hdr, operation: READ}]}`.
    HdrHistogramLog(HdrHistogramLogParser),
    /// Dragstrip's own result format, for tools of your own (docs/result.schema.json), such as
    /// `{file: result.json}`.
    DragstripJson(FileParser),
}

/// A parser that reads one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileParser {
    /// File below the output directory (`${OUTPUT}`), such as result.json, or `-` for standard output.
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
}

/// The parser of redis-benchmark's CSV.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedisBenchmarkParser {
    /// Requests of each operation (the tool's `-n`), which the tool does not print, such as
    /// 1000000. If omitted, only rates and latencies are reported.
    #[schemars(range(min = 1))]
    pub requests: Option<i64>,
}

/// The parser of `go test -bench`. It has no options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoBenchParser {}

/// What a column's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CsvMeaning {
    /// The operation's name. Each row is one operation; two rows may not have the same name.
    Operation,
    /// Operations that succeeded.
    Count,
    /// Operations per second. The number may have a unit that says so (ops/s, req/sec, ...).
    OperationsPerSecond,
    /// Error replies.
    Errors,
    /// Duration of the row's measurement, in `unit`.
    Duration,
    /// Time per operation, in `unit`. The metric ns/op.
    TimePerOperation,
    /// Mean latency, in `unit`.
    MeanLatency,
    /// Latency percentile, in `unit`; `percentile` names it.
    LatencyPercentile,
    /// Largest latency, in `unit`.
    MaximumLatency,
    /// A metric called `metric`. A unit behind the number becomes the metric's and must be the
    /// same in all rows.
    Metric,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TimeUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    #[default]
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// How to join a metric of several client pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Merge {
    /// The sum, as of counts and rates.
    #[default]
    Sum,
    /// The arithmetic mean.
    Mean,
    /// The largest.
    Maximum,
    /// The smallest.
    Minimum,
}

/// One column of a table.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("(self.meaning == 'LatencyPercentile') == has(self.percentile)")
        .message("set percentile for the meaning LatencyPercentile, and for no other"),
    validation = Rule::new("(self.meaning == 'Metric') == has(self.metric)")
        .message("set metric for the meaning Metric, and for no other"),
)]
pub struct CsvColumn {
    /// The column's header, such as Throughput.
    #[schemars(length(min = 1, max = 128))]
    pub header: String,
    /// What its numbers mean: Operation (its name), Count, OperationsPerSecond, Errors, Duration,
    /// TimePerOperation, MeanLatency, LatencyPercentile, MaximumLatency or Metric.
    pub meaning: CsvMeaning,
    /// Unit of times without a unit in their cell. A unit behind the number (1.2ms, 950µs, 1m2.5s)
    /// takes precedence. Defaults to Milliseconds.
    #[serde(default)]
    pub unit: TimeUnit,
    /// The percentile, from "0" to "100", such as "99.9".
    #[x_kube(validation = Rule::new(decimal_between("0.0", "100.0"))
        .message("percentile must be from 0 to 100, such as \"99.9\""))]
    pub percentile: Option<Decimal>,
    /// Name of the metric, such as memory.
    #[schemars(length(min = 1, max = 63))]
    pub metric: Option<String>,
    /// How to join the metric of several client pods: Sum, Mean, Maximum or Minimum. Defaults to Sum.
    #[serde(default)]
    pub merge: Merge,
    /// Whether more of the metric is better. If omitted, its comparisons are never Better or Worse.
    pub more_is_better: Option<bool>,
    /// Unit of the metric for numbers without one, such as jobs/s.
    #[schemars(length(min = 1, max = 32))]
    pub metric_unit: Option<String>,
}

/// A table with a header line and commas between columns.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CsvParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output. Defaults to -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// The columns to read, such as `[{header: rps, meaning: OperationsPerSecond}]`. The parser
    /// ignores other columns.
    #[schemars(length(min = 1, max = 64))]
    pub columns: Vec<CsvColumn>,
    /// Name of the operation, such as GET, for a table without a column of names.
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
}

fn stdout() -> String {
    "-".to_owned()
}

/// A pattern of lines.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegexLine {
    /// Regular expression (Rust's regex syntax) with named groups, matched line by line. The names
    /// `operation`, `count`, `operationsPerSecond`, `errors`, `hits`, `misses`, `bytes`, `seconds`,
    /// `meanLatency` and `maximumLatency` have a meaning; `p` and two to eight
    /// digits is a percentile (p50, p99; p999 is 99.9, p9999 is 99.99, p100 the maximum). Any other group is a metric
    /// of that name. The unit of a time (1.2ms, 950µs, 0.5 secs, 1m2.5s) takes precedence over
    /// latencyUnit.
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: String,
    /// Name of the operation, such as GET, for a pattern without the group `operation`.
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
    /// Unit of latencies without one: Nanoseconds, Microseconds, Milliseconds or Seconds. Defaults
    /// to Milliseconds. The group `seconds` without a unit is in seconds.
    #[serde(default)]
    pub latency_unit: TimeUnit,
    /// How to join the metrics of several client pods, by group name, such as `{memory: Maximum}`.
    /// Other metrics are added up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merge: BTreeMap<String, Merge>,
    /// Whether more of a metric is better, by group name, such as `{addJobs: true}`. Comparisons of
    /// other metrics are never Better or Worse.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more_is_better: BTreeMap<String, bool>,
    /// Unit of a metric, by group name, such as `{addJobs: jobs/s}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// Whether a line must match. Defaults to true.
    #[serde(default = "yes")]
    pub required: bool,
}

/// Patterns of lines. The last line that matches a pattern counts.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegexParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output and standard
    /// error. Defaults to -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// The patterns, such as `[{pattern: "Throughput: (?<operationsPerSecond>[0-9]+)"}]`.
    #[schemars(length(min = 1, max = 64))]
    pub lines: Vec<RegexLine>,
    /// Character between groups of three digits, such as a comma. If omitted, a number with such
    /// a character is an error.
    #[x_kube(validation = Rule::new("self.matches('^[^0-9A-Za-z.+-]$')")
        .message("thousandsSeparator is one character that is not a digit, letter, point or sign"))]
    #[schemars(length(min = 1, max = 1))]
    pub thousands_separator: Option<String>,
}

/// What a value of a JSON document means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JsonMeaning {
    /// Operations that succeeded.
    Count,
    /// Operations that succeeded or failed. Needs a Count of the same operation; the difference is
    /// its Errors.
    Attempts,
    /// Operations per second.
    OperationsPerSecond,
    /// Operations that failed.
    Errors,
    /// Reads that found their key.
    Hits,
    /// Reads that found nothing.
    Misses,
    /// Bytes sent and received.
    Bytes,
    /// Duration of the operation's measurement, in `unit`.
    Duration,
    /// Mean latency, in `unit`.
    MeanLatency,
    /// Latency percentile, in `unit`; `percentile` names it.
    LatencyPercentile,
    /// Largest latency, in `unit`.
    MaximumLatency,
    /// A metric called `metric`.
    Metric,
}

/// One value of a JSON document.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("(self.meaning == 'LatencyPercentile') == has(self.percentile)")
        .message("set percentile for the meaning LatencyPercentile, and for no other"),
    validation = Rule::new("(self.meaning == 'Metric') == has(self.metric)")
        .message("set metric for the meaning Metric, and for no other"),
)]
pub struct JsonValue {
    /// JSON pointer to the value (RFC 6901), such as /latencies/99th or /operations/0/rps. In a
    /// name, write / as ~1 and ~ as ~0.
    #[x_kube(validation = Rule::new("self.matches('^/[ -~]*$')").message("pointer must begin with /, such as /latencies/99th"))]
    #[schemars(length(min = 1, max = 256))]
    pub pointer: String,
    /// What it means: Count (operations that succeeded), Attempts (operations that succeeded or
    /// failed), OperationsPerSecond, Errors, Hits, Misses, Bytes, Duration, MeanLatency,
    /// LatencyPercentile, MaximumLatency or Metric.
    pub meaning: JsonMeaning,
    /// Name of its operation, such as GET. Defaults to the parser's operation.
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
    /// Unit of a time: Nanoseconds, Microseconds, Milliseconds or Seconds. The unit of a text
    /// (1.2ms, 950µs, 1m2.5s) takes precedence. Defaults to Milliseconds.
    #[serde(default)]
    pub unit: TimeUnit,
    /// The percentile, from "0" to "100", such as "99.9".
    #[x_kube(validation = Rule::new(decimal_between("0.0", "100.0"))
        .message("percentile must be from 0 to 100, such as \"99.9\""))]
    pub percentile: Option<Decimal>,
    /// Name of the metric, such as memory.
    #[schemars(length(min = 1, max = 63))]
    pub metric: Option<String>,
    /// How to join the metric of several client pods: Sum, Mean, Maximum or Minimum. Defaults to Sum.
    #[serde(default)]
    pub merge: Merge,
    /// Whether more of the metric is better. If omitted, its comparisons are never Better or Worse.
    pub more_is_better: Option<bool>,
    /// Unit of the metric, such as jobs/s.
    #[schemars(length(min = 1, max = 32))]
    pub metric_unit: Option<String>,
    /// Whether the document must have it. Defaults to true.
    #[serde(default = "yes")]
    pub required: bool,
}

/// One JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JsonParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output. Defaults to -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// Name of the operation, such as GET, for values that name none.
    #[schemars(length(min = 1, max = 63))]
    pub operation: String,
    /// The values to read, such as `[{pointer: /rps, meaning: OperationsPerSecond}]`. The parser
    /// ignores other values.
    #[schemars(length(min = 1, max = 128))]
    pub values: Vec<JsonValue>,
}

/// One log of histograms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HdrHistogramLogFile {
    /// File below the output directory (`${OUTPUT}`), such as ycsb-READ.hdr.
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// Name of the operation, such as READ, for histograms without a tag. A tag names the operation
    /// of its histograms.
    #[schemars(length(min = 1, max = 63))]
    pub operation: String,
    /// Whether its operations failed. They then count as errors, and their latencies are in no
    /// percentile. Defaults to false.
    #[serde(default)]
    pub errors: bool,
    /// Whether the tool must write this file. Defaults to true.
    #[serde(default = "yes")]
    pub required: bool,
}

fn microseconds() -> TimeUnit {
    TimeUnit::Microseconds
}

/// Logs of HdrHistogram. The latencies of all client pods merge exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HdrHistogramLogParser {
    /// The logs, such as `[{file: ycsb-READ.hdr, operation: READ}]`.
    #[schemars(length(min = 1, max = 64))]
    pub files: Vec<HdrHistogramLogFile>,
    /// Unit of the tool's latencies: Nanoseconds, Microseconds, Milliseconds or Seconds. Defaults to
    /// Microseconds; others are converted, exact to a thousandth.
    #[serde(default = "microseconds")]
    pub unit: TimeUnit,
}

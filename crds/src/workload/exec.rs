//! Any tool in any image, and how its output is read.

use crate::units::{Decimal, Period, decimal_between};
use k8s_openapi::api::core::v1::EnvVar;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A benchmark tool in an image of your own. The runner starts `command` and
/// `args`, in which `${HOST}`, `${PORT}`, `${ADDRESS}` (host:port), `${MEMBERS}`
/// (host:port of every member, joined by commas), `${OUTPUT}` (a writable
/// directory), `${CLIENT_INDEX}`, `${CLIENTS}` and `${PASSWORD}` (empty where the
/// target has none) are put in, and into the values of `env`; the same names with
/// DRAGSTRIP_ in front are environment variables, DRAGSTRIP_PASSWORD only where
/// there is one. A password belongs into `env` where the tool takes it from there
/// (redis-cli does from REDISCLI_AUTH): everybody on the client's node can read
/// arguments. redis-benchmark and valkey-benchmark take it only as `[-a, "${PASSWORD}"]`:
/// make an ACL user for the benchmark and throw it away afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecSpec {
    /// Image that holds the tool, such as redis:8.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The program and its first arguments, such as `[redis-benchmark]`. It is not run in a shell.
    #[schemars(length(min = 1, max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Further arguments, such as `[-h, "${HOST}", -p, "${PORT}", --csv]`. None when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Further environment variables, such as `[{name: TZ, value: UTC}]`. None when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// How long the tool is expected to run, such as 60s; it is killed 15 s after that.
    /// Bounded by the run's timeout alone when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Period>,
    /// What its output means, such as `{redisBenchmarkCsv: {requests: 1000000}}`.
    pub parser: ParserSpec,
    /// Compare the tool's counts with the server's own command counters, and
    /// fail the repetition where they differ. Of operations whose names begin with no
    /// command of the server (`MSET (10 keys)` begins with one, `add-job` with none)
    /// nothing is compared. Needs a RESP server. Default false.
    #[serde(default)]
    pub counter_check: bool,
    /// Exit codes that mean success. Default [0].
    #[serde(default = "success", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), inner(range(min = 0, max = 255)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub success_exit_codes: Vec<i32>,
    /// Files for the tool from ConfigMaps, such as `[{configMap: workloads, mountPath: /workloads}]`.
    /// None when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["mountPath".into()]))]
    pub files: Vec<ExecFiles>,
    /// User and group id the tool runs as, not root, such as 1000, where its image has
    /// files that others cannot use. 65532 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub user: Option<i64>,
}

/// A ConfigMap's keys as files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecFiles {
    /// Name of a ConfigMap in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Directory with a file for each key, read-only, such as /workloads. It hides what the
    /// image has there.
    #[schemars(length(min = 2, max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/') && !self.contains(':') && !self.contains('..') && self != '/tmp' && !self.startsWith('/dragstrip')")
        .message("mountPath is an absolute path, such as /workloads, without .. or a colon; /tmp and /dragstrip are there already"))]
    pub mount_path: String,
}

fn success() -> Vec<i32> {
    vec![0]
}

/// How a tool's output is read: exactly one parser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("[has(self.memtierJson), has(self.redisBenchmarkCsv), has(self.goBench), has(self.criterionJson), has(self.csv), has(self.regex), has(self.json), has(self.hdrHistogramLog), has(self.dragstripJson)].filter(x, x).size() == 1")
        .message("parser needs exactly one of memtierJson, redisBenchmarkCsv, goBench, criterionJson, csv, regex, json, hdrHistogramLog and dragstripJson"),
    validation = Rule::new("!has(self.goBench) || !has(self.goBench.requests)")
        .message("goBench takes no requests: go test prints the number of iterations itself"),
)]
pub struct ParserSpec {
    /// memtier's JSON result, which dfly_bench writes too, such as `{file: out.json}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memtier_json: Option<FileParser>,
    /// What `redis-benchmark --csv` prints, such as `{requests: 1000000}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_benchmark_csv: Option<StdoutParser>,
    /// What `go test -bench` prints, such as `{}`. Refuses `requests`: go prints how
    /// many iterations there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_bench: Option<StdoutParser>,
    /// Criterion's result files, such as `{directory: criterion}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criterion_json: Option<CriterionJsonParser>,
    /// A table with a header, such as `{columns: [{header: rps, meaning: OperationsPerSecond}]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvParser>,
    /// Lines that match patterns, such as `{lines: [{pattern: "(?P<operationsPerSecond>[0-9]+) req/sec"}]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<RegexParser>,
    /// Any JSON document whose values are named by JSON pointers, such as
    /// `{operation: GET, values: [{pointer: /rps, meaning: OperationsPerSecond}]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonParser>,
    /// Logs of HdrHistogram (.hlog, .hdr), such as `{files: [{file: ycsb-READ.hdr, operation: READ}]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdr_histogram_log: Option<HdrHistogramLogParser>,
    /// Dragstrip's own result format, for tools of your own (docs/result.schema.json),
    /// such as `{file: result.json}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dragstrip_json: Option<FileParser>,
}

/// A parser that reads one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileParser {
    /// File below the output directory (`${OUTPUT}`), such as result.json, or `-` for standard output.
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
}

/// A parser that reads standard output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StdoutParser {
    /// Requests of each operation, where the tool was told and does not print it
    /// (redis-benchmark's `-n`), such as 1000000. Without it only rates and latencies are reported.
    /// Only for redisBenchmarkCsv.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests: Option<i64>,
}

/// A parser of Criterion's results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CriterionJsonParser {
    /// Criterion's directory below the output directory (set CRITERION_HOME to
    /// `${OUTPUT}/NAME`), or `-` for the lines of `--message-format json` on standard output.
    #[schemars(length(min = 1, max = 256))]
    pub directory: String,
}

/// What a column's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CsvMeaning {
    /// The operation's name. Each row is one operation; rows of the same name are refused.
    Operation,
    /// Operations that succeeded.
    Count,
    /// Operations per second. Of units behind the number only those that say so
    /// (ops/s, req/sec, ...) are understood.
    OperationsPerSecond,
    /// Error replies.
    Errors,
    /// Duration of the row's measurement, in `unit`.
    Duration,
    /// Time per operation, in `unit`.
    TimePerOperation,
    /// Mean latency, in `unit`.
    MeanLatency,
    /// Latency percentile, in `unit`; `percentile` names it.
    LatencyPercentile,
    /// Largest latency, in `unit`.
    MaximumLatency,
    /// A figure of its own, kept under `metric`; a unit behind the number is kept
    /// with it and must be the same in all rows.
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

/// How one named figure of several client pods becomes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Merge {
    /// Added up, as counts and rates are.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("(self.meaning == 'LatencyPercentile') == has(self.percentile)")
        .message("percentile goes with meaning LatencyPercentile, and only with it"),
    validation = Rule::new("(self.meaning == 'Metric') == has(self.metric)")
        .message("metric goes with meaning Metric, and only with it"),
)]
pub struct CsvColumn {
    /// The column's header, such as Throughput.
    #[schemars(length(min = 1, max = 128))]
    pub header: String,
    /// What its numbers are: Operation (its name), Count, OperationsPerSecond, Errors,
    /// Duration, TimePerOperation, MeanLatency, LatencyPercentile, MaximumLatency or
    /// Metric (a figure of its own).
    pub meaning: CsvMeaning,
    /// Unit of times that carry none in their cell: a unit behind the number
    /// (1.2ms, 950µs, 1m2.5s) beats this one. Default Milliseconds.
    #[serde(default)]
    pub unit: TimeUnit,
    /// Which percentile, from "0" to "100", such as "99.9".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(decimal_between("0.0", "100.0"))
        .message("percentile is from 0 to 100, such as \"99.9\""))]
    pub percentile: Option<Decimal>,
    /// Name of the figure, such as memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub metric: Option<String>,
    /// How the figures of several client pods are joined: Sum, Mean, Maximum or Minimum. Default Sum.
    #[serde(default)]
    pub merge: Merge,
}

/// A table with a header line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.decimalSeparator != self.delimiter || self.quoted")
        .message("a table whose decimal separator is also its delimiter must quote such numbers: set quoted: true if it does"),
    validation = Rule::new("!has(self.thousandsSeparator) || self.thousandsSeparator != self.decimalSeparator")
        .message("thousandsSeparator and decimalSeparator must differ"),
)]
pub struct CsvParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output. Default -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// Character between columns, such as ; or a tab. Default , (a comma).
    #[serde(default = "comma")]
    #[schemars(length(min = 1, max = 1))]
    pub delimiter: String,
    /// Character before a number's fraction: `.` or `,`. Default . (a point).
    #[serde(default = "point")]
    #[x_kube(validation = Rule::new("self == '.' || self == ','").message("decimalSeparator is . or ,"))]
    #[schemars(length(min = 1, max = 1))]
    pub decimal_separator: String,
    /// Character between groups of three digits, such as a comma. A number that holds one
    /// although none is declared is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1))]
    pub thousands_separator: Option<String>,
    /// Whether fields may stand in double quotes. Default true.
    #[serde(default = "super::default_true")]
    pub quoted: bool,
    /// The columns to read, such as `[{header: rps, meaning: OperationsPerSecond}]`; others are ignored.
    #[schemars(length(min = 1, max = 64))]
    pub columns: Vec<CsvColumn>,
    /// Name of the operation where no column tells it, such as GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
}

fn stdout() -> String {
    "-".to_owned()
}

fn comma() -> String {
    ",".to_owned()
}

fn point() -> String {
    ".".to_owned()
}

/// A pattern of lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegexLine {
    /// Regular expression (Rust's regex syntax) with named groups, matched line by
    /// line. `operation`, `count`, `operationsPerSecond`, `errors`, `hits`,
    /// `misses`, `bytes`, `seconds`, `meanLatency`, `minimumLatency`,
    /// `maximumLatency` and percentiles have their meaning: `p` and two to eight
    /// digits, the first two before the point (p50, p99, p999 is 99.9, p9999 is
    /// 99.99). Any other group is a figure of its own under that name. A time may
    /// carry its unit (1.2ms, 950µs, 0.5 secs, 1m2.5s), which beats latencyUnit.
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: String,
    /// Name of the operation where no group `operation` tells it, such as GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
    /// Unit of latencies that carry none: Nanoseconds, Microseconds, Milliseconds or
    /// Seconds. Default Milliseconds. The group `seconds` without a unit is in seconds.
    #[serde(default)]
    pub latency_unit: TimeUnit,
    /// How figures of their own are joined over client pods, by group name, such as
    /// `{memory: Maximum}`. Added up otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merge: BTreeMap<String, Merge>,
    /// Whether the output must hold such a line. Default true.
    #[serde(default = "super::default_true")]
    pub required: bool,
}

/// Patterns of lines; the last line that matches a pattern counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("!has(self.thousandsSeparator) || self.thousandsSeparator != self.decimalSeparator")
        .message("thousandsSeparator and decimalSeparator must differ"),
)]
pub struct RegexParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output and
    /// standard error. Default -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// The patterns, such as `[{pattern: "Throughput: (?P<operationsPerSecond>[0-9]+)"}]`.
    #[schemars(length(min = 1, max = 64))]
    pub lines: Vec<RegexLine>,
    /// Character before a number's fraction: `.` or `,`. Default . (a point).
    #[serde(default = "point")]
    #[x_kube(validation = Rule::new("self == '.' || self == ','").message("decimalSeparator is . or ,"))]
    #[schemars(length(min = 1, max = 1))]
    pub decimal_separator: String,
    /// Character between groups of three digits, such as a comma. None when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1))]
    pub thousands_separator: Option<String>,
}

/// What a value of a JSON document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JsonMeaning {
    /// Operations that succeeded.
    Count,
    /// Operations that succeeded or failed. Needs a Count of the same operation, and
    /// what is missing of it are Errors.
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
    /// Smallest latency, in `unit`.
    MinimumLatency,
    /// Latency percentile, in `unit`; `percentile` names it.
    LatencyPercentile,
    /// Largest latency, in `unit`.
    MaximumLatency,
    /// A figure of its own, kept under `metric`.
    Metric,
}

/// One value of a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("(self.meaning == 'LatencyPercentile') == has(self.percentile)")
        .message("percentile goes with meaning LatencyPercentile, and only with it"),
    validation = Rule::new("(self.meaning == 'Metric') == has(self.metric)")
        .message("metric goes with meaning Metric, and only with it"),
)]
pub struct JsonValue {
    /// Where the value stands, as a JSON pointer (RFC 6901), such as /latencies/99th or
    /// /operations/0/rps. In a name / is written ~1 and ~ is written ~0.
    #[x_kube(validation = Rule::new("self.matches('^/[ -~]*$')").message("pointer begins with /, such as /latencies/99th"))]
    #[schemars(length(min = 1, max = 256))]
    pub pointer: String,
    /// What it is: Count (of those that succeeded), Attempts (succeeded or failed: what
    /// is missing of Count are errors), OperationsPerSecond, Errors, Hits, Misses,
    /// Bytes, Duration, MeanLatency, MinimumLatency, LatencyPercentile, MaximumLatency
    /// or Metric (a figure of its own).
    pub meaning: JsonMeaning,
    /// Name of the operation it belongs to, such as GET. The parser's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub operation: Option<String>,
    /// Unit of a time: Nanoseconds, Microseconds, Milliseconds or Seconds. A text with a
    /// unit of its own (1.2ms, 950µs, 1m2.5s) beats it. Default Milliseconds.
    #[serde(default)]
    pub unit: TimeUnit,
    /// Which percentile, from "0" to "100", such as "99.9".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(decimal_between("0.0", "100.0"))
        .message("percentile is from 0 to 100, such as \"99.9\""))]
    pub percentile: Option<Decimal>,
    /// Name of the figure, such as memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub metric: Option<String>,
    /// How the figures of several client pods are joined: Sum, Mean, Maximum or Minimum. Default Sum.
    #[serde(default)]
    pub merge: Merge,
    /// Whether the document must hold it. Default true.
    #[serde(default = "super::default_true")]
    pub required: bool,
}

/// One JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JsonParser {
    /// File below the output directory (`${OUTPUT}`), or `-` for standard output. Default -.
    #[serde(default = "stdout")]
    #[schemars(length(min = 1, max = 256))]
    pub file: String,
    /// Name of the operation of values that name none, such as GET.
    #[schemars(length(min = 1, max = 63))]
    pub operation: String,
    /// The values to read, such as `[{pointer: /rps, meaning: OperationsPerSecond}]`; others are ignored.
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
    /// Name of the operation of histograms without a tag, such as READ. A tag is the
    /// name of its histograms' operation.
    #[schemars(length(min = 1, max = 63))]
    pub operation: String,
    /// Whether its latencies are those of operations that failed: they are counted as
    /// errors, and in no percentile. Default false.
    #[serde(default)]
    pub errors: bool,
    /// Whether the tool must leave this file. Default true.
    #[serde(default = "super::default_true")]
    pub required: bool,
}

fn microseconds() -> TimeUnit {
    TimeUnit::Microseconds
}

/// Logs of HdrHistogram, whose histograms are added: all latencies, of any number of
/// client pods, merge exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HdrHistogramLogParser {
    /// The logs, such as `[{file: ycsb-READ.hdr, operation: READ}]`.
    #[schemars(length(min = 1, max = 64))]
    pub files: Vec<HdrHistogramLogFile>,
    /// What the tool recorded: Nanoseconds, Microseconds, Milliseconds or Seconds.
    /// Default Microseconds; others are converted, exact to a thousandth.
    #[serde(default = "microseconds")]
    pub unit: TimeUnit,
}

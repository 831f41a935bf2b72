//! Dragstrip's own result format, for benchmark tools that people write: one
//! JSON object, described by docs/result.schema.json, which is generated from
//! the types here. The schema's descriptions are its documentation.

#![warn(missing_docs)]

use crate::parsed::{Parsed, Tool, metric_name, named};
use dragstrip_crds::{
    measured::{LatencySummary, Metric},
    workload::Merge,
};
use dragstrip_results::{
    histogram::{EncodedHistogram, HistogramError, Latencies},
    result::{MOST_ROWS, Operation},
};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// The only version of the format.
const SCHEMA_VERSION: u32 = 1;
/// Counts beyond 2^53 are not exact in every JSON reader, and come from no run.
const LARGEST_COUNT: u64 = 1 << 53;
/// A run of more than a week would need more seconds in its series.
const LONGEST_SERIES: usize = 7 * 24 * 3600;
/// Most characters of the name of an operation or a tool, and of a version.
const LONGEST_NAME: usize = 128;

/// A benchmark tool's result, read by Dragstrip's parser dragstripJson.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Dragstrip result")]
pub struct ResultDocument {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema_version: u32,
    /// The tool that measured.
    pub tool: Option<Tool>,
    /// When the load ran.
    pub window: Option<Window>,
    /// One entry per operation, without a total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ROWS))]
    pub operations: Vec<ResultOperation>,
    /// Error replies by their first word, such as OOM.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Operations of all kinds that succeeded in each whole second since the load began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 604_800))]
    pub per_second: Vec<u64>,
    /// Figures of any other kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ROWS))]
    pub metrics: Vec<ResultMetric>,
    /// Set by a tool that was ended early, or lost some of its work: why. Such
    /// a result is shown and never counts.
    #[schemars(length(max = 1000))]
    pub incomplete: Option<String>,
}

/// When the load ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// From the first request sent to the last reply received, in seconds, by a monotonic clock.
    #[schemars(range(min = 0.0))]
    pub seconds: f64,
    /// When the first request was sent, in nanoseconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_nanos: Option<i64>,
}

/// What was measured of one operation.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultOperation {
    /// Its name: the command in upper case, such as GET, where it is one.
    #[schemars(length(min = 1, max = 128))]
    pub operation: String,
    /// How many succeeded.
    #[schemars(range(max = 9_007_199_254_740_992_u64))]
    pub count: u64,
    /// How many failed; they are not in count, nor in histogram.
    #[serde(default)]
    pub errors: u64,
    /// Reads that found their key.
    pub hits: Option<u64>,
    /// Reads that found nothing; they succeeded.
    pub misses: Option<u64>,
    /// The server's commands of which each operation sends one, in lower case, such as
    /// `["set", "setex"]`: what the server's counters are compared with. When absent the
    /// command that the operation's name begins with.
    #[schemars(length(max = 100))]
    pub commands: Option<Vec<String>>,
    /// Duration of this operation's own measurement in seconds, if the tool ran its
    /// operations one after the other: its rate is taken over it.
    #[schemars(range(min = 0.0))]
    pub seconds: Option<f64>,
    /// Bytes sent and received.
    pub bytes: Option<u64>,
    /// The latency in microseconds of every one of the count, as an HdrHistogram
    /// (V2 encoding, deflated, base64: what every HdrHistogram library writes,
    /// beginning with HISTF). Those of several clients are merged exactly if
    /// all have the same lowest value and digits, of which 3 at most are read; 1 µs to 1 h with 3
    /// digits is usual.
    pub histogram: Option<EncodedHistogram>,
    /// Latencies of a tool without histograms. They are shown for each client
    /// and never merged. Not together with histogram.
    pub latency_milliseconds: Option<LatencySummary>,
}

/// A figure of any kind.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultMetric {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, such as MiB.
    #[schemars(length(max = 32))]
    pub unit: Option<String>,
    /// The operation it belongs to, if it belongs to one.
    pub operation: Option<String>,
    /// How the values of several clients become one.
    #[serde(default)]
    pub merge: Merge,
    /// Whether more is better. If omitted, comparisons are never Better or Worse.
    pub more_is_better: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    #[error("the file does not follow docs/result.schema.json, or is cut short")]
    Json(#[source] serde_json::Error),
    #[error("schemaVersion is {0}, and only 1 can be read")]
    Version(u32),
    #[error("{field} of {place} {problem}")]
    Value { field: &'static str, place: String, problem: String },
    #[error("histogram of {operation}: {source}")]
    Histogram { operation: String, source: HistogramError },
    #[error("{0} is there twice")]
    Twice(String),
}

/// The JSON schema of the format.
pub fn schema() -> Schema {
    schema_for!(ResultDocument)
}

pub fn parse(text: &str) -> Result<Parsed, ResultError> {
    let document: ResultDocument = serde_json::from_str(text).map_err(ResultError::Json)?;
    if document.schema_version != SCHEMA_VERSION {
        return Err(ResultError::Version(document.schema_version));
    }
    if let Some(window) = document.window {
        not_negative("seconds", "window", window.seconds)?;
    }
    if document.per_second.len() > LONGEST_SERIES {
        return Err(wrong("perSecond", "the result", "has more than 604800 seconds, a week".to_owned()));
    }
    let seconds = document.per_second.iter().map(|count| ("perSecond", count));
    for (field, count) in seconds.chain(document.errors.values().map(|count| ("errors", count))) {
        within_bounds(field, "the result", *count)?;
    }
    check_sizes(&document)?;
    let mut parsed = Parsed {
        seconds: document.window.map(|window| window.seconds),
        start_unix_nanos: document.window.and_then(|window| window.start_unix_nanos),
        per_second: document.per_second,
        errors: document.errors,
        tool: document.tool,
        incomplete: document.incomplete,
        ..Parsed::default()
    };
    // Operations with a duration of their own ran one after the other.
    let together = document.operations.iter().all(|operation| operation.seconds.is_none());
    for read in document.operations {
        if parsed.operations.iter().any(|known| known.name == read.operation) {
            return Err(ResultError::Twice(format!("operation {:?}", read.operation)));
        }
        parsed.operations.push(operation(read, parsed.seconds, together)?);
    }
    for read in document.metrics {
        let metric = metric(read)?;
        if parsed.metrics.iter().any(|known| known.name == metric.name) {
            return Err(ResultError::Twice(format!("metric {:?}", metric.name)));
        }
        parsed.metrics.push(metric);
    }
    Ok(parsed)
}

/// The lengths that the schema promises. Before anything is decoded: each operation may have a histogram.
fn check_sizes(document: &ResultDocument) -> Result<(), ResultError> {
    let at_most = |field, place: &str, size: usize, most: usize| {
        let problem = || format!("has the size {size}, at most {most} is read");
        if size <= most { Ok(()) } else { Err(wrong(field, place, problem())) }
    };
    let length = |text: Option<&String>| text.map_or(0, |text| text.chars().count());
    at_most("operations", "the result", document.operations.len(), MOST_ROWS)?;
    at_most("metrics", "the result", document.metrics.len(), MOST_ROWS)?;
    at_most("incomplete", "the result", length(document.incomplete.as_ref()), 1000)?;
    for text in document.tool.iter().flat_map(|tool| [Some(&tool.name), tool.version.as_ref()]) {
        at_most("tool", "the result", length(text), LONGEST_NAME)?;
    }
    for (index, read) in document.operations.iter().enumerate() {
        let place = format!("operation {index}");
        at_most("operation", &place, length(Some(&read.operation)), LONGEST_NAME)?;
        at_most("commands", &place, read.commands.as_ref().map_or(0, Vec::len), 100)?;
    }
    for (index, read) in document.metrics.iter().enumerate() {
        let place = format!("metric {index}");
        at_most("name", &place, length(Some(&read.name)), 63)?;
        at_most("unit", &place, length(read.unit.as_ref()), 32)?;
        at_most("operation", &place, length(read.operation.as_ref()), LONGEST_NAME)?;
    }
    Ok(())
}

fn operation(read: ResultOperation, seconds: Option<f64>, together: bool) -> Result<Operation, ResultError> {
    let place = format!("operation {:?}", read.operation);
    let optional = [("hits", read.hits), ("misses", read.misses), ("bytes", read.bytes)];
    let given = optional.into_iter().filter_map(|(field, count)| Some((field, count?)));
    for (field, count) in given.chain([("count", read.count), ("errors", read.errors)]) {
        within_bounds(field, &place, count)?;
    }
    let found = read.hits.unwrap_or(0) + read.misses.unwrap_or(0);
    if found > read.count {
        let problem = format!("and misses are {found} together, more than its count {}", read.count);
        return Err(wrong("hits", &place, problem));
    }
    not_negative("seconds", &place, read.seconds.unwrap_or(0.0))?;
    let over = read.seconds.or(seconds).filter(|seconds| *seconds > 0.0);
    let rate = over.map(|seconds| read.count as f64 / seconds);
    let unnamed = named(&read.operation);
    let commands = read.commands.as_ref();
    let commands = commands.map(|commands| commands.iter().map(|name| name.to_lowercase()).collect());
    Ok(Operation {
        latency_milliseconds: latencies(&read, &place)?,
        commands: commands.unwrap_or(unnamed.commands),
        name: unnamed.name,
        count: read.count,
        hits: read.hits,
        misses: read.misses,
        errors: read.errors,
        bytes: read.bytes.unwrap_or_default(),
        operations_per_second: rate.filter(|_| !together),
        tool_operations_per_second: rate,
        histogram: read.histogram,
        per_second: Vec::new(),
    })
}

/// Those of the histogram, or else those printed.
fn latencies(read: &ResultOperation, place: &str) -> Result<LatencySummary, ResultError> {
    let Some(histogram) = &read.histogram else {
        let printed = read.latency_milliseconds.unwrap_or_default();
        let LatencySummary { mean, p50, p90, p95, p99, p999, p9999, max } = printed;
        for value in [mean, p50, p90, p95, p99, p999, p9999, max].into_iter().flatten() {
            not_negative("latencyMilliseconds", place, value)?;
        }
        return Ok(printed);
    };
    if read.latency_milliseconds.is_some() {
        let problem = "is given besides histogram: leave one of them out".to_owned();
        return Err(wrong("latencyMilliseconds", place, problem));
    }
    let latencies = Latencies::decode(histogram)
        .map_err(|source| ResultError::Histogram { operation: read.operation.clone(), source })?;
    if latencies.count() != read.count {
        let problem = format!("holds {} latencies, its count is {}", latencies.count(), read.count);
        return Err(wrong("histogram", place, problem));
    }
    Ok(latencies.summary())
}

fn metric(read: ResultMetric) -> Result<Metric, ResultError> {
    // serde_json reads no other number, but a reader of another format might.
    if !read.value.is_finite() {
        return Err(wrong("value", &format!("metric {:?}", read.name), "is not a finite number".to_owned()));
    }
    let name = metric_name(read.operation.as_deref(), &read.name);
    Ok(Metric {
        name,
        value: read.value,
        unit: read.unit,
        merge: read.merge,
        more_is_better: read.more_is_better,
    })
}

fn within_bounds(field: &'static str, place: &str, count: u64) -> Result<(), ResultError> {
    if count <= LARGEST_COUNT { Ok(()) } else { Err(wrong(field, place, format!("is {count}, beyond 2^53"))) }
}

fn not_negative(field: &'static str, place: &str, value: f64) -> Result<(), ResultError> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(wrong(field, place, format!("is {value}, below 0")))
    }
}

fn wrong(field: &'static str, place: &str, problem: String) -> ResultError {
    ResultError::Value { field, place: place.to_owned(), problem }
}

#[cfg(test)]
mod tests;

//! memtier's result file: what it says, as far as it can be used.
//!
//! Used are `Count`, the histograms, the per-second counts and bytes. `Ops/sec` and `Total duration` can be a second off
//! in either direction, since the tool averages the clients' start and end
//! times in a way that loses whole seconds, and `Average Latency` of `Totals`
//! is cut to complete milliseconds in 2.1.2 to 2.3.0; the first two are recorded
//! as the tool's own account, the last is not read at all.
//!
//! The section `configuration` is passed over: it holds the password, and names
//! and values stand there as they were given, so a quotation mark among
//! them makes it invalid JSON.

use super::document::Value;
use dragstrip_crds::units;
use dragstrip_results::histogram::{EncodedHistogram, HistogramError, Latencies};
use std::borrow::Cow;

/// Where the results begin, as every version writes it.
const RESULTS: &str = "\n\t,\"run information\":";
/// Seconds of a series that are believed: a week.
const LONGEST_SERIES: usize = 7 * 24 * 3600;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("memtier wrote no result file that can be read")]
    File(#[source] std::io::Error),
    #[error("memtier left no result: its result file is cut short or damaged")]
    Json(#[source] serde_json::Error),
    #[error("memtier left no result: its result file has no section \"ALL STATS\"")]
    NoResult,
    /// `--run-count` was more than 1; memtier's own averages over runs are wrong.
    #[error(
        "memtier ran the test several times (its result file has {0:?}), and what it then reports cannot be used: \
         leave out --run-count and use repetitions"
    )]
    SeveralRuns(String),
    #[error("the result file has no usable {field:?} in {section:?}")]
    Missing { section: String, field: &'static str },
    #[error("memtier's result file has a second {second:?} in the series of {section:?}")]
    Second { section: String, second: String },
    #[error("the histogram of {section:?} in memtier's result file cannot be used: {source}")]
    Histogram { section: String, source: HistogramError },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Threads the tool says it used.
    pub threads: u64,
    /// Connections per thread the tool says it opened.
    pub connections_per_thread: u64,
    /// Requests each connection was to send, where the run was bounded by them.
    pub requests_per_connection: Option<u64>,
    /// Seconds the run was to last, where it was bounded by time.
    pub test_seconds: Option<u64>,
    /// When the clients began and ended, averaged over them, in milliseconds of Unix time.
    pub start_and_finish: (f64, f64),
    /// Duration in seconds by the tool's own account; it may be negative.
    pub seconds: f64,
    /// Whether the tool says that SIGINT ended it early.
    pub interrupted: bool,
    /// Connection errors that the tool reports; always 0 before 2.3.0.
    pub connection_errors: u64,
    /// Operations per second by the tool's own account.
    pub operations_per_second: f64,
    pub cluster: bool,
    /// Operations by the row `Totals`.
    pub total_count: u64,
    /// One per row of the tool's table, without `Totals`, in its order.
    pub rows: Vec<Row>,
}

/// One row of the tool's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its label, such as `Sets`, `Lpushs` or `Scan <cursor>s`.
    pub label: String,
    /// Replies that arrived before the end, errors and redirections included.
    /// In cluster mode the histogram of a timed run may hold a few more: those
    /// that were under way then.
    pub count: u64,
    /// Operations per second by the tool's own account, where that is a number.
    pub operations_per_second: Option<f64>,
    /// Reads that found their key and reads that did not, where the tool counted them.
    pub hits_and_misses: Option<(u64, u64)>,
    /// Replies that redirected to another cluster node with MOVED.
    pub moved: u64,
    /// Replies that redirected to another cluster node with ASK.
    pub ask: u64,
    pub bytes: u64,
    pub latencies: Latencies,
    /// Replies in each second since the load began.
    pub per_second: Vec<u64>,
}

impl Report {
    /// Connections the tool says it opened, in a cluster to each of its servers.
    pub fn connections(&self) -> u64 {
        self.threads.saturating_mul(self.connections_per_thread)
    }

    pub fn read(text: &str) -> Result<Self, ReportError> {
        let document = Value::parse(&results(text)).map_err(ReportError::Json)?;
        let stats = only_run(&document)?;
        let run = section(&document, "run information")?;
        let runtime = section(stats, "Runtime")?;
        let totals = section(stats, "Totals")?;
        Ok(Self {
            threads: whole(run, "run information", "Threads")?,
            connections_per_thread: whole(run, "run information", "Connections per thread")?,
            requests_per_connection: run.whole("Requests per client"),
            test_seconds: run.whole("Seconds"),
            start_and_finish: (
                number(runtime, "Runtime", "Start time")?,
                number(runtime, "Runtime", "Finish time")?,
            ),
            seconds: number(runtime, "Runtime", "Total duration")? / 1000.0,
            interrupted: runtime.text("Interrupted") == Some("true"),
            connection_errors: totals.whole("Connection Errors").unwrap_or(0),
            operations_per_second: totals.number("Ops/sec").unwrap_or(0.0),
            cluster: totals.get("MOVED/sec").is_some(),
            total_count: whole(totals, "Totals", "Count")?,
            rows: rows(stats)?,
        })
    }
}

/// A document without the configuration; the complete text if no result follows it.
fn results(text: &str) -> Cow<'_, str> {
    text.find(RESULTS).map_or(Cow::Borrowed(text), |at| {
        let (_, behind) = text.split_at(at);
        Cow::Owned(format!("{{{}", behind.trim_start_matches(['\n', '\t', ','])))
    })
}

/// The section of the run, if there was only one.
fn only_run(document: &Value) -> Result<&Value, ReportError> {
    document.get("ALL STATS").ok_or_else(|| {
        let several = document.members().iter().find(|(name, _)| name.contains(" RESULTS"));
        several.map_or(ReportError::NoResult, |(name, _)| ReportError::SeveralRuns(name.clone()))
    })
}

fn rows(stats: &Value) -> Result<Vec<Row>, ReportError> {
    stats
        .members()
        .iter()
        // Without --hide-histogram there are arrays besides the rows.
        .filter(|(label, value)| label != "Totals" && value.get("Count").is_some())
        .map(|(label, value)| row(label, value))
        .collect()
}

fn row(label: &str, value: &Value) -> Result<Row, ReportError> {
    let count = whole(value, label, "Count")?;
    let rates = Rates { value, count };
    let series = series(label, value)?;
    let (moved, ask) = (rates.share("MOVED/sec"), rates.share("ASK/sec"));
    Ok(Row {
        label: label.to_owned(),
        count,
        operations_per_second: value.number("Ops/sec").filter(|rate| rate.is_finite()),
        hits_and_misses: rates.hits().map(|hits| (hits, count.saturating_sub(moved + ask + hits))),
        moved,
        ask,
        bytes: series_bytes(value, &series, count).unwrap_or_else(|| rates.bytes()),
        latencies: latencies(label, value)?,
        per_second: series,
    })
}

/// The rates of a row, which become counts again here. All of a row's rates
/// were divided by the same duration, right or wrong, so that their ratio to
/// `Ops/sec` times `Count` is the count they came from: exactly for runs of up
/// to 50 seconds, beyond that (rates have two decimals) within 0.01 per second
/// of the run, and in cluster mode within the replies under way at the end.
struct Rates<'a> {
    value: &'a Value,
    count: u64,
}

impl Rates<'_> {
    /// How many of the row's replies the rate `name` stands for.
    fn share(&self, name: &str) -> u64 {
        self.scaled(name).map_or(0, |count| units::whole(count.round()).min(self.count))
    }

    /// Hits, if the tool separates reads from other operations: with `--command`
    /// it writes 0 for both hits and misses.
    fn hits(&self) -> Option<u64> {
        let separate = self.value.number("Hits/sec")? + self.value.number("Misses/sec")? > 0.0;
        separate.then(|| self.share("Hits/sec"))
    }

    fn bytes(&self) -> u64 {
        self.scaled("KB/sec").map_or(0, |kibibytes| units::whole((kibibytes * 1024.0).round()))
    }

    fn scaled(&self, name: &str) -> Option<f64> {
        let ratio = self.value.number(name)? / self.value.number("Ops/sec")?;
        (ratio.is_finite() && ratio >= 0.0).then_some(ratio * self.count as f64)
    }
}

/// Replies per second; seconds without any are missing in the file.
fn series(label: &str, value: &Value) -> Result<Vec<u64>, ReportError> {
    let mut counts = Vec::new();
    for (second, numbers) in seconds(value) {
        let index = second
            .parse()
            .ok()
            .filter(|index| *index < LONGEST_SERIES)
            .ok_or_else(|| ReportError::Second { section: label.to_owned(), second: second.clone() })?;
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] += whole(numbers, label, "Count")?;
    }
    Ok(counts)
}

/// Bytes by the series, which has them as whole numbers since 2.1.0; `None`
/// where they are missing or the series does not cover all replies (in cluster
/// mode it can lack the last few).
fn series_bytes(value: &Value, series: &[u64], count: u64) -> Option<u64> {
    if series.iter().sum::<u64>() != count {
        return None;
    }
    seconds(value).iter().map(|(_, second)| Some(second.whole("Bytes RX")? + second.whole("Bytes TX")?)).sum()
}

fn seconds(value: &Value) -> &[(String, Value)] {
    value.get("Time-Serie").map_or(&[], Value::members)
}

fn latencies(label: &str, value: &Value) -> Result<Latencies, ReportError> {
    let text = value
        .get("Percentile Latencies")
        .and_then(|percentiles| percentiles.get("Histogram log format"))
        .and_then(|format| format.text("Compressed Histogram"))
        .ok_or_else(|| missing(label, "Compressed Histogram"))?;
    Latencies::decode(&EncodedHistogram(text.to_owned()))
        .map_err(|source| ReportError::Histogram { section: label.to_owned(), source })
}

fn section<'a>(document: &'a Value, name: &'static str) -> Result<&'a Value, ReportError> {
    document.get(name).ok_or_else(|| missing("the file", name))
}

fn whole(value: &Value, section: &str, field: &'static str) -> Result<u64, ReportError> {
    value.whole(field).ok_or_else(|| missing(section, field))
}

fn number(value: &Value, section: &str, field: &'static str) -> Result<f64, ReportError> {
    value.number(field).ok_or_else(|| missing(section, field))
}

pub(super) fn missing(section: &str, field: &'static str) -> ReportError {
    ReportError::Missing { section: section.to_owned(), field }
}

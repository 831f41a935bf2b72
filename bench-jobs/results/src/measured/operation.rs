//! What one operation did. A load tool, a parser, a pod and a repetition all report this one type.

use super::histogram::{EncodedHistogram, HistogramError, Latencies, merged};
use dragstrip_crds::measured::LatencySummary;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Name of the row of all operations together.
pub const TOTAL: &str = "TOTAL";
/// Name of the SETs that follow GETs which missed. The load did not have them due: they are not in the total.
pub const FILL: &str = "SET (miss)";

/// `rows` without those that only followed others.
pub fn due(rows: &[Operation]) -> impl Iterator<Item = &Operation> + Clone {
    rows.iter().filter(|row| row.name != FILL)
}

/// What one operation did in one process, one pod, or all pods of one repetition.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The name that the tool gives it: usually a command in upper case, such as GET.
    #[serde(rename = "operation")]
    pub name: String,
    /// The server's commands, in lower case, one of which each use of the operation
    /// sends; empty if it is not a command of the server, and in sums.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Replies that were not errors; 0 if the tool reports only a rate.
    pub count: u64,
    /// Reads that found their key; absent for operations that do not read.
    pub hits: Option<u64>,
    /// Reads that found nothing.
    pub misses: Option<u64>,
    pub errors: u64,
    /// Bytes sent and received.
    #[serde(default)]
    pub bytes: u64,
    /// Operations per second. In a repetition: over the window in which every client was active.
    /// In a pod: only if the operation did not share the pod's window with the others, or has
    /// no count; this is then its rate, and has no sum with another operation's.
    #[serde(alias = "ownOperationsPerSecond", skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
    /// Operations per second by the tool's own account, for comparison.
    #[serde(alias = "reportedOperationsPerSecond", skip_serializing_if = "Option::is_none")]
    pub tool_operations_per_second: Option<f64>,
    /// Read from the histogram; what the tool printed if there is no histogram.
    #[serde(default)]
    pub latency_milliseconds: LatencySummary,
    /// All latencies; absent in the compact form, and for tools that only print
    /// percentiles, which cannot be merged with another pod's.
    pub histogram: Option<EncodedHistogram>,
    /// Operations answered in each whole second since the load began; empty if the tool does
    /// not report them, and in a repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_second: Vec<u64>,
}

impl Operation {
    /// Bytes per second: those of a mean operation times the operations per second.
    pub fn bytes_per_second(&self) -> f64 {
        let each = self.bytes as f64 / self.count.max(1) as f64;
        each * self.operations_per_second.unwrap_or_default()
    }

    /// `rows` together under one name. Rates over a window have no sum here; latencies that were
    /// only printed stay if there is one row.
    pub fn sum(name: &str, rows: &[&Self]) -> Result<Self, HistogramError> {
        let histogram = merged(rows.iter().map(|row| row.histogram.as_ref()))?;
        Self::sum_with(name, rows, histogram)
    }

    /// The same with the sum of their histograms.
    pub fn sum_with(
        name: &str,
        rows: &[&Self],
        histogram: Option<Latencies>,
    ) -> Result<Self, HistogramError> {
        let latency_milliseconds = match (&histogram, rows) {
            (Some(all), _) => all.summary(),
            // A tool that reports only a rate does not say how many requests it is of.
            (None, [single]) if single.count == 0 => single.latency_milliseconds,
            (None, [single]) => single.latency_milliseconds.supported_by(single.count),
            (None, _) => LatencySummary::default(),
        };
        let known =
            |pick: fn(&Self) -> Option<u64>| rows.iter().filter_map(|row| pick(row)).reduce(|a, b| a + b);
        Ok(Self {
            name: name.to_owned(),
            commands: Vec::new(),
            count: rows.iter().map(|row| row.count).sum(),
            hits: known(|row| row.hits),
            misses: known(|row| row.misses),
            errors: rows.iter().map(|row| row.errors).sum(),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            operations_per_second: None,
            tool_operations_per_second: rows.iter().map(|row| row.tool_operations_per_second).sum(),
            latency_milliseconds,
            histogram: histogram.map(|all| all.encode()).transpose()?,
            per_second: added_seconds(rows.iter().map(|row| row.per_second.as_slice())),
        })
    }
}

/// Series of counts per second, added second by second; counts that a pod made up do not overflow.
pub fn added_seconds<'a>(series: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    series.fold(Vec::new(), |mut sums, counts| {
        sums.resize(sums.len().max(counts.len()), 0);
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(*count);
        }
        sums
    })
}

//! From the rows of memtier's table to operations as Dragstrip names them.

use super::report::{Report, ReportError, Row};
use dragstrip_results::{
    commands,
    histogram::{HistogramError, Latencies},
    result::OperationResult,
};
use std::collections::BTreeMap;

/// What several rows of one command add up to.
struct Sum {
    operation: String,
    hits_and_misses: Option<(u64, u64)>,
    redirections: u64,
    bytes: u64,
    operations_per_second: Option<f64>,
    latencies: Latencies,
    per_second: Vec<u64>,
}

/// One entry per command. Rows of the same command (two `SET` lines told apart
/// by `--command-stats-breakdown=line`, or `SCAN 0` and `SCAN <cursor>`) are
/// added; rows without a reply are left out. What the histogram holds is what
/// was answered: in cluster mode the tool's own count lacks the last few.
///
/// memtier does not say which operation got which error reply; `errors` are
/// taken off an operation's count only where there is just one.
pub fn operations(report: &Report, errors: u64) -> Result<Vec<OperationResult>, ReportError> {
    let mut sums: Vec<Sum> = Vec::new();
    for row in report.rows.iter().filter(|row| row.count > 0) {
        let operation = command(&row.label);
        match sums.iter_mut().find(|sum| sum.operation == operation) {
            Some(sum) => sum.add(row).map_err(|source| histogram_error(&row.label, source))?,
            None => sums.push(Sum::new(operation, row)),
        }
    }
    let errors = if sums.len() == 1 { errors } else { 0 };
    sums.into_iter().map(|sum| sum.result(errors)).collect()
}

/// Replies of all operations in each second.
pub fn per_second(report: &Report) -> Vec<u64> {
    let mut counts = Vec::new();
    for row in &report.rows {
        add_seconds(&mut counts, &row.per_second);
    }
    counts
}

/// Adds a series of seconds to another, which grows where it is shorter.
fn add_seconds(sums: &mut Vec<u64>, counts: &[u64]) {
    if sums.len() < counts.len() {
        sums.resize(counts.len(), 0);
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Redirections by their word.
pub fn redirections(report: &Report) -> BTreeMap<String, u64> {
    let moved = ("MOVED".to_owned(), report.rows.iter().map(|row| row.moved).sum());
    let ask = ("ASK".to_owned(), report.rows.iter().map(|row| row.ask).sum());
    [moved, ask].into_iter().filter(|(_, count)| *count > 0).collect()
}

/// `LPUSH` out of `Lpushs`, `SCAN` out of `Scan <cursor>s`: memtier writes the
/// command's name with one `s` behind it.
pub(super) fn command(label: &str) -> String {
    let singular = label.strip_suffix('s').unwrap_or(label);
    singular.split_whitespace().next().unwrap_or(label).to_uppercase()
}

/// The server's commands that an operation may be: with `--expiry-range` memtier's SETs
/// are SETEX, with `--data-offset` SETRANGE and GETRANGE.
pub(super) fn sent(operation: &str) -> Vec<String> {
    let of = |commands: &[&str]| commands.iter().map(|&command| command.to_owned()).collect();
    match operation {
        "SET" => of(&["set", "setex", "setrange"]),
        "GET" => of(&["get", "getrange"]),
        _ => commands::named(operation).into_iter().collect(),
    }
}

impl Sum {
    fn new(operation: String, row: &Row) -> Self {
        Self {
            operation,
            hits_and_misses: row.hits_and_misses,
            redirections: row.moved + row.ask,
            bytes: row.bytes,
            operations_per_second: row.operations_per_second,
            latencies: row.latencies.clone(),
            per_second: row.per_second.clone(),
        }
    }

    fn add(&mut self, row: &Row) -> Result<(), HistogramError> {
        self.hits_and_misses = self
            .hits_and_misses
            .zip(row.hits_and_misses)
            .map(|(one, other)| (one.0 + other.0, one.1 + other.1));
        self.redirections += row.moved + row.ask;
        self.bytes += row.bytes;
        self.operations_per_second =
            self.operations_per_second.zip(row.operations_per_second).map(|(one, other)| one + other);
        add_seconds(&mut self.per_second, &row.per_second);
        self.latencies.add(&row.latencies)
    }

    fn result(self, errors: u64) -> Result<OperationResult, ReportError> {
        let errors = errors + self.redirections;
        let count = self.latencies.count().saturating_sub(errors);
        let histogram = self.latencies.encode().map_err(|source| histogram_error(&self.operation, source))?;
        Ok(OperationResult {
            commands: sent(&self.operation),
            operation: self.operation,
            count,
            hits: self.hits_and_misses.map(|(hits, _)| hits),
            misses: self.hits_and_misses.map(|(_, misses)| misses),
            errors,
            bytes: self.bytes,
            latency_milliseconds: self.latencies.summary(),
            histogram: Some(histogram),
            per_second: self.per_second,
            reported_operations_per_second: self.operations_per_second,
            own_operations_per_second: None,
        })
    }
}

fn histogram_error(section: &str, source: HistogramError) -> ReportError {
    ReportError::Histogram { section: section.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_the_names_of_commands() {
        for (label, name) in [
            ("Sets", "SET"),
            ("Gets", "GET"),
            ("Waits", "WAIT"),
            ("Lpushs", "LPUSH"),
            ("Hgetalls", "HGETALL"),
            ("Existss", "EXISTS"),
            ("Scan 0s", "SCAN"),
            ("Scan <cursor>s", "SCAN"),
            ("s", "S"),
        ] {
            assert_eq!(command(label), name, "{label}");
        }
    }
}

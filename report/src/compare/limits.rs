//! Refuses to compare throughputs that no server limited, and memory of different numbers of keys. Pure.

use super::baseline::Baseline;
use crate::document::{Cell, Comparison, Document, Row, RunRecord};
use dragstrip_crds::{run::Limiter, suite::ComparisonVerdict, thresholds::MetricName, units::number};

/// Differences of the number of keys up to this share are none.
const SAME_KEYS: f64 = 0.01;

/// `comparison` of `row`, which is not comparable if the clients limited the throughput of both sides:
/// the figures are the clients' then, and the servers may differ as they like. Neither is memory that
/// holds another number of keys: a server that writes more slowly would look better.
pub fn checked(
    comparison: Comparison,
    row: &Row,
    document: &Document,
    baseline: &Baseline<'_>,
) -> Comparison {
    let there = baseline.counterparts.get(&row.cell).filter(|_| baseline.table.is_none());
    let Some(there) = there.filter(|_| comparison.verdict != ComparisonVerdict::NotComparable) else {
        return comparison;
    };
    let other = baseline.other.unwrap_or(document);
    let by_clients = is_throughput(row)
        && by_client(&document.runs, &row.cell, &row.phase)
        && by_client(&other.runs, there, &row.phase);
    let keys = keys(document, &row.cell, &row.phase).zip(keys(other, there, &row.phase));
    let keys = keys.filter(|(here, there)| (here / there - 1.0).abs() > SAME_KEYS);
    let reason = match keys.filter(|_| is_memory(row) && row.metric != MetricName::BytesPerKey.to_string()) {
        _ if by_clients => {
            "the clients limited both sides, so the figures are theirs: give them more threads, CPUs or pods"
                .to_owned()
        }
        Some((here, there)) => {
            format!("it holds {} keys instead of {}: compare bytes per key", number(here), number(there))
        }
        None => return comparison,
    };
    Comparison { verdict: ComparisonVerdict::NotComparable, reason, chance: None, ..comparison }
}

fn is_throughput(row: &Row) -> bool {
    let throughput = [MetricName::OperationsPerSecond, MetricName::BytesPerSecond];
    MetricName::named(&row.metric).is_some_and(|name| throughput.contains(&name))
}

/// Whether `row` is an amount of memory, in whatever account.
pub fn is_memory(row: &Row) -> bool {
    ["B", "MiB"].contains(&row.unit.as_str())
}

/// How many keys the servers held.
fn keys(document: &Document, cell: &Cell, phase: &str) -> Option<f64> {
    let mean = |metric: MetricName| {
        let metric = metric.to_string();
        let mut rows = document.rows.iter().filter(|row| row.cell == *cell && row.phase == phase);
        Some(rows.find(|row| row.metric == metric)?.spread?.mean)
    };
    let each = mean(MetricName::BytesPerKey).filter(|each| *each > 0.0)?;
    Some((mean(MetricName::ServerUsedBytes)? / each).round())
}

/// Whether both rows are throughputs of `document` that the clients limited.
pub fn by_both_clients(document: &Document, one: &Row, other: &Row) -> bool {
    let limited = |row: &Row| is_throughput(row) && by_client(&document.runs, &row.cell, &row.phase);
    limited(one) && limited(other)
}

fn by_client(runs: &[RunRecord], cell: &Cell, phase: &str) -> bool {
    let of_cell = runs.iter().filter(|run| run.cell == *cell);
    let mut limits = of_cell.flat_map(|run| &run.limited_by).filter(|limit| limit.phase == phase).peekable();
    limits.peek().is_some() && limits.all(|limit| limit.limited_by.by == Limiter::Client)
}

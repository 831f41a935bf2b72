//! Refuses to compare throughputs that no server limited, and memory of different numbers of keys. Pure.

use super::baseline::Baseline;
use crate::document::{Cell, Comparison, Document, Row, RunRecord};
use dragstrip_crds::{run::Limiter, suite::ComparisonVerdict, thresholds::MetricName, units::number};

/// Why such throughputs are not compared.
pub const BY_CLIENTS: &str =
    "the clients limited both sides, so the figures are theirs: give them more threads, CPUs or pods";

/// Differences of the number of keys up to this share are none.
const SAME_KEYS: f64 = 0.01;

/// `comparison` of `row`, which is not comparable if the clients limited the throughput of both sides:
/// the figures are the clients' then, and the servers may differ as they like.
pub fn checked(
    comparison: Comparison,
    row: &Row,
    document: &Document,
    baseline: &Baseline<'_>,
) -> Comparison {
    let there =
        baseline.counterparts.get(&row.cell).filter(|_| is_throughput(row) && baseline.table.is_none());
    let other = baseline.other.unwrap_or(document);
    let both = there.is_some_and(|there| {
        by_client(&document.runs, &row.cell, &row.phase) && by_client(&other.runs, there, &row.phase)
    });
    if !both || comparison.verdict == ComparisonVerdict::NotComparable {
        return comparison;
    }
    let verdict = ComparisonVerdict::NotComparable;
    Comparison { verdict, reason: BY_CLIENTS.to_owned(), chance: None, ..comparison }
}

/// Why the memory of `row` is not compared, if it holds another number of keys than the baseline's: a
/// server that writes more slowly would look better.
pub fn other_keys(row: &Row, document: &Document, baseline: &Baseline<'_>) -> Option<String> {
    let there = baseline.counterparts.get(&row.cell).filter(|_| baseline.table.is_none())?;
    other_keys_than(row, document, (baseline.other.unwrap_or(document), there, &row.phase))
}

/// The same of another combination and phase.
pub fn other_keys_than(
    row: &Row,
    document: &Document,
    (other, cell, phase): (&Document, &Cell, &str),
) -> Option<String> {
    let amount = is_memory(row) && row.metric != MetricName::BytesPerKey.to_string();
    let there = keys(other, cell, phase).filter(|_| amount)?;
    let here = keys(document, &row.cell, &row.phase)?;
    ((here / there - 1.0).abs() > SAME_KEYS).then(|| {
        format!("it holds {} keys instead of {}: compare bytes per key", number(here), number(there))
    })
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

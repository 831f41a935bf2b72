//! Refuses to compare throughputs that no server limited. Pure.

use super::baseline::Baseline;
use crate::document::{Cell, Comparison, Document, Row, RunRecord};
use dragstrip_crds::{run::Limiter, suite::ComparisonVerdict, thresholds::MetricName};

/// `comparison` of `row`, which is not comparable if the clients limited the throughput of both sides:
/// the figures are the clients' then, and the servers may differ as they like.
pub fn checked(
    comparison: Comparison,
    row: &Row,
    document: &Document,
    baseline: &Baseline<'_>,
) -> Comparison {
    let throughput = [MetricName::OperationsPerSecond, MetricName::BytesPerSecond];
    let is_throughput = MetricName::named(&row.metric).is_some_and(|name| throughput.contains(&name));
    let there = baseline.counterparts.get(&row.cell).filter(|_| is_throughput && baseline.table.is_none());
    let other = baseline.other.unwrap_or(document);
    let both = there.is_some_and(|there| {
        by_client(&document.runs, &row.cell, &row.phase) && by_client(&other.runs, there, &row.phase)
    });
    if !both || comparison.verdict == ComparisonVerdict::NotComparable {
        return comparison;
    }
    let reason =
        "the clients limited both sides, so the figures are theirs: give them more threads, CPUs or pods";
    let verdict = ComparisonVerdict::NotComparable;
    Comparison { verdict, reason: reason.to_owned(), chance: None, ..comparison }
}

/// Whether both rows are throughputs of `document` that the clients limited.
pub fn by_both_clients(document: &Document, one: &Row, other: &Row) -> bool {
    let throughput = [MetricName::OperationsPerSecond, MetricName::BytesPerSecond];
    let limited = |row: &Row| {
        MetricName::named(&row.metric).is_some_and(|name| throughput.contains(&name))
            && by_client(&document.runs, &row.cell, &row.phase)
    };
    limited(one) && limited(other)
}

fn by_client(runs: &[RunRecord], cell: &Cell, phase: &str) -> bool {
    let of_cell = runs.iter().filter(|run| run.cell == *cell);
    let mut limits = of_cell.flat_map(|run| &run.limited_by).filter(|limit| limit.phase == phase).peekable();
    limits.peek().is_some() && limits.all(|limit| limit.limited_by.by == Limiter::Client)
}

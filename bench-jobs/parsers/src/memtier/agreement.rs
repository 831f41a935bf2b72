//! Whether the counts in one result file of memtier agree with each other.

use super::report::Report;
use dragstrip_results::result::in_flight;

/// Counts in the result file that do not agree with each other. `shards` are the
/// servers of a cluster.
pub fn contradiction(report: &Report, shards: u64) -> Option<String> {
    // Replies that were under way when the time was up have their latencies recorded
    // and are not counted.
    let late_at_most = match report.test_seconds {
        Some(_) => in_flight(report.connections(), report.pipeline.unwrap_or(1), shards),
        None => 0,
    };
    let rows: u64 = report.rows.iter().map(|row| row.count).sum();
    if rows != report.total_count {
        return Some(format!(
            "memtier's rows add up to {rows} operations, its total is {}",
            report.total_count
        ));
    }
    report.rows.iter().find_map(|row| {
        let recorded = row.latencies.count();
        let answered = row.per_second.iter().sum::<u64>().max(row.count);
        let late = recorded.saturating_sub(answered);
        if recorded < answered {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded only {recorded} latencies: versions \
                 before 2.1.2 lose latencies beyond 1 s",
                row.label
            ))
        } else if late > late_at_most {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded {recorded} latencies",
                row.label
            ))
        } else {
            None
        }
    })
}

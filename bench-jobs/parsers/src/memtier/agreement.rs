//! Whether the counts in one result file of memtier agree with each other.

use super::report::Report;

/// The share of replies that may still be under way to a cluster's nodes when
/// the time is up.
const LATE_REPLIES: f64 = 0.05;

/// Counts in the result file that do not agree with each other.
pub fn contradiction(report: &Report) -> Option<String> {
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
        } else if late > 0 && (!report.cluster || late as f64 > answered as f64 * LATE_REPLIES) {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded {recorded} latencies",
                row.label
            ))
        } else {
            None
        }
    })
}

//! Whether the counts in one result file of memtier agree with each other.

use super::report::Report;

/// The share of replies that may still be under way when the time is up where
/// nobody knows how many requests were in flight: to a cluster's nodes, memtier
/// opens connections of its own accord.
const LATE_REPLIES: f64 = 0.05;

/// Counts in the result file that do not agree with each other. `pipeline` is
/// the requests in flight per connection, where they are known: what was under
/// way when the time was up is in the histograms but not in the counts.
pub fn contradiction(report: &Report, pipeline: Option<u64>) -> Option<String> {
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
        let connections = report.threads.saturating_mul(report.connections_per_thread);
        let in_flight =
            pipeline.filter(|_| !report.cluster).map(|pipeline| pipeline.saturating_mul(connections));
        let most = in_flight.map_or(answered as f64 * LATE_REPLIES, |in_flight| in_flight as f64);
        if recorded < answered {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded only {recorded} latencies: versions \
                 before 2.1.2 lose latencies beyond 1 s",
                row.label
            ))
        } else if late as f64 > most {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded {recorded} latencies",
                row.label
            ))
        } else {
            None
        }
    })
}

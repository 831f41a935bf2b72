//! Whether the counts in one result file of memtier agree with each other.

use super::report::Report;
use dragstrip_results::result::in_flight;

/// The share of replies that may be under way at the end, if the requests in flight are unknown.
const LATE_REPLIES: f64 = 0.05;

/// Counts in the result file that do not agree with each other. `pipeline` is the
/// requests in flight per connection, where they are known; `shards` are the target's
/// servers: in cluster mode every connection is one to each of them.
pub fn contradiction(report: &Report, pipeline: Option<u64>, shards: u64) -> Option<String> {
    let shards = if report.cluster { shards } else { 1 };
    let in_flight = pipeline.map(|pipeline| in_flight(report.connections(), pipeline, shards));
    // Replies that were under way when the time was up have their latencies recorded
    // and are not counted; a set number of requests awaits them all.
    let late_at_most = |answered: u64| match (report.test_seconds, in_flight) {
        (None, _) => 0.0,
        (Some(_), Some(in_flight)) => in_flight as f64,
        (Some(_), None) => answered as f64 * LATE_REPLIES,
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
        } else if late as f64 > late_at_most(answered) {
            Some(format!(
                "memtier counted {answered} replies in {:?} but recorded {recorded} latencies",
                row.label
            ))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{super::report::Row, *};
    use dragstrip_results::histogram::{Latencies, empty};

    /// 132,829 replies counted, one latency more recorded: memtier 2.3.0 over TLS.
    fn report(test_seconds: Option<u64>, late: u64) -> Report {
        let mut latencies = empty().unwrap();
        latencies.record_n(200, 132_829 + late).unwrap();
        let row = Row {
            label: "Gets".into(),
            count: 132_829,
            operations_per_second: None,
            hits_and_misses: None,
            moved: 0,
            ask: 0,
            bytes: 0,
            latencies: Latencies::from_microseconds(latencies),
            per_second: vec![132_829],
        };
        Report {
            threads: 2,
            connections_per_thread: 5,
            requests_per_connection: test_seconds.is_none().then_some(13_283),
            test_seconds,
            start_and_finish: (0.0, 0.0),
            seconds: 5.0,
            interrupted: false,
            connection_errors: 0,
            operations_per_second: 0.0,
            cluster: false,
            total_count: 132_829,
            rows: vec![row],
        }
    }

    #[test]
    fn what_was_under_way_at_the_clocks_end_is_not_a_contradiction() {
        assert_eq!(contradiction(&report(Some(5), 1), Some(3), 1), None);
        assert_eq!(contradiction(&report(Some(5), 30), Some(3), 1), None, "2 x 5 connections of 3 requests");
        assert!(contradiction(&report(Some(5), 31), Some(3), 1).is_some());
        assert!(contradiction(&report(Some(5), 31), Some(3), 3).is_some(), "one server and its replicas");
        let cluster = Report { cluster: true, ..report(Some(5), 90) };
        assert_eq!(
            contradiction(&cluster, Some(3), 3),
            None,
            "each connection is one to each of three shards"
        );
        assert!(
            contradiction(&report(None, 1), Some(3), 1).is_some(),
            "a set number of requests awaits them all"
        );
    }
}

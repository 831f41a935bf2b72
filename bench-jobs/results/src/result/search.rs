//! One point of a search for the limit of a server: what was raised to which value, and
//! the figures from which the next value follows. Pure.

use super::RepetitionResult;
use crate::judged::limits;
use dragstrip_crds::measured::ScheduleRecord;
use serde::{Deserialize, Serialize};

/// A point of a search, with all that the search needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchPoint {
    /// The value, in the unit of what was raised; for a share, the declared operations per second.
    pub value: u64,
    /// Share of the throughput found, if latency was measured at one.
    pub share: Option<f64>,
    /// Throughput of all operations together, in operations per second.
    pub operations_per_second: f64,
    /// 99th percentile of their latency, in milliseconds; absent if unknown.
    pub p99_milliseconds: Option<f64>,
    /// Whether the server followed an open loop: 99% of its requests were answered, none
    /// was unanswered at the end, and the answers came within 105% of its time. True of a
    /// closed loop.
    pub followed: bool,
}

/// Whether the server followed `schedule`, whose load was declared to run for so many
/// seconds and ran for `seconds`.
fn followed(schedule: &ScheduleRecord, declared_seconds: Option<f64>, seconds: f64) -> bool {
    schedule.unanswered == 0
        && schedule.answered as f64 >= limits::ANSWERED * schedule.scheduled as f64
        && declared_seconds.is_none_or(|declared| seconds <= limits::LONGER * declared)
}

impl SearchPoint {
    /// The point at `value` (and `share`) that `result` measured, whose load was declared
    /// to run for so many seconds.
    pub fn of(
        value: u64,
        share: Option<f64>,
        result: &RepetitionResult,
        declared_seconds: Option<f64>,
    ) -> Self {
        let total = result.total();
        let in_time = |schedule| followed(schedule, declared_seconds, result.window_seconds);
        Self {
            value,
            share,
            operations_per_second: total.and_then(|total| total.operations_per_second).unwrap_or(0.0),
            p99_milliseconds: total.and_then(|total| total.latency_milliseconds.p99),
            followed: result.schedule.as_ref().is_none_or(in_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Operation;

    #[test]
    fn a_server_follows_that_answers_nearly_all_in_time() {
        let of = |scheduled, answered, unanswered, seconds| {
            let schedule = ScheduleRecord { scheduled, answered, unanswered, ..ScheduleRecord::default() };
            followed(&schedule, Some(5.0), seconds)
        };
        assert!(of(1000, 990, 0, 5.2));
        assert!(!of(1000, 989, 0, 5.0), "it answered less than 99%");
        assert!(!of(1000, 999, 1, 5.0), "one was unanswered at the end");
        assert!(!of(1000, 1000, 0, 5.3), "the last answers came long after the last request was due");
    }

    #[test]
    fn a_point_has_the_figures_of_all_operations_together() {
        let mut result: RepetitionResult =
            serde_json::from_str(include_str!("../../tests/two-pods.json")).unwrap();
        let total = Operation {
            name: "TOTAL".into(),
            operations_per_second: Some(7.5),
            ..result.operations[0].clone()
        };
        result.operations.push(total.clone());
        let point = SearchPoint::of(8, None, &result, Some(1.0));
        assert_eq!(Some(point.operations_per_second), total.operations_per_second);
        assert_eq!(point.p99_milliseconds, total.latency_milliseconds.p99);
        assert!(point.followed, "a closed loop waits for its answers");
    }
}

//! One point of a search for the limit of a server: what was raised to which value, and
//! the figures from which the next value follows. Pure.

use super::RepetitionResult;
use crate::judged::schedule::followed;
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
    /// 99th percentile of latency in milliseconds, of too few requests the maximum; absent if unknown.
    pub p99_milliseconds: Option<f64>,
    /// CPUs that all servers together used; absent if nothing could measure it.
    pub server_cpus: Option<f64>,
    /// Whether the server followed an open loop: it answered 99.5% of the requests in time, and
    /// none was unanswered at the end. True of a closed loop.
    pub followed: bool,
}

impl SearchPoint {
    /// The point at `value` (and `share`) that `result` measured.
    pub fn of(value: u64, share: Option<f64>, result: &RepetitionResult) -> Self {
        let total = result.total();
        Self {
            value,
            share,
            operations_per_second: total.and_then(|total| total.operations_per_second).unwrap_or(0.0),
            // Few requests have only a maximum, which is at least the percentile.
            p99_milliseconds: total.and_then(|total| {
                let latency = total.latency_milliseconds;
                latency.p99.or(latency.max)
            }),
            server_cpus: result.server_cpus(),
            followed: result.schedule.as_ref().is_none_or(followed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Operation;

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
        let point = SearchPoint::of(8, None, &result);
        assert_eq!(Some(point.operations_per_second), total.operations_per_second);
        assert_eq!(point.p99_milliseconds, total.latency_milliseconds.p99);
        assert!(point.followed, "a closed loop waits for its answers");
        let latency = &mut result.operations.last_mut().unwrap().latency_milliseconds;
        (latency.p99, latency.max) = (None, Some(9.0));
        assert_eq!(SearchPoint::of(8, None, &result).p99_milliseconds, Some(9.0));
    }
}

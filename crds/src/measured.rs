//! Figures that appear in a run's status.

use crate::workload::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Latencies in milliseconds, read from a histogram, whose resolution is the
/// tool's (1 µs for loadgen, 8 µs for memtier), or as a tool without histograms
/// printed them. What is not known is omitted: nothing is answered in 0 ms. So is a percentile above
/// the median with fewer than 10 requests above it: p99 takes 1,000 requests, p99.9 takes 10,000.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencySummary {
    /// Arithmetic mean, in milliseconds.
    pub mean: Option<f64>,
    /// Median, in milliseconds.
    pub p50: Option<f64>,
    /// 90th percentile, in milliseconds.
    pub p90: Option<f64>,
    /// 95th percentile, in milliseconds.
    pub p95: Option<f64>,
    /// 99th percentile, in milliseconds.
    pub p99: Option<f64>,
    /// 99.9th percentile, in milliseconds.
    pub p999: Option<f64>,
    /// 99.99th percentile, in milliseconds.
    pub p9999: Option<f64>,
    /// Largest latency, in milliseconds.
    pub max: Option<f64>,
}

impl LatencySummary {
    /// Requests above a percentile that it takes to know it: with fewer, one slow request moves it.
    const REQUESTS_ABOVE: f64 = 10.0;

    fn fields(&mut self) -> [(f64, &mut Option<f64>); 7] {
        [
            (50.0, &mut self.p50),
            (90.0, &mut self.p90),
            (95.0, &mut self.p95),
            (99.0, &mut self.p99),
            (99.9, &mut self.p999),
            (99.99, &mut self.p9999),
            (100.0, &mut self.max),
        ]
    }

    /// The field of a percentile, such as 99.9 (100 is the maximum), if it has one.
    pub fn percentile_mut(&mut self, percent: f64) -> Option<&mut Option<f64>> {
        self.fields().into_iter().find(|(known, _)| (known - percent).abs() < 1e-9).map(|(_, field)| field)
    }

    /// The figures that so many requests support: those of the tail, above the median, only with
    /// at least 10 requests above them.
    #[must_use]
    pub fn supported_by(mut self, requests: u64) -> Self {
        for (percent, field) in self.fields() {
            let above = requests as f64 * (100.0 - percent) / 100.0;
            // 10,000 requests are enough for p99.9, whatever the last bit says.
            if percent > 50.0 && percent < 100.0 && above < Self::REQUESTS_ABOVE - 1e-6 {
                *field = None;
            }
        }
        self
    }
}

/// How repeated measurements of one quantity spread. Unit: that quantity's.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// How many repetitions were measured.
    pub repetitions: u32,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divided by n - 1); omitted for one repetition.
    pub standard_deviation: Option<f64>,
    /// Standard deviation divided by the mean; omitted for one repetition.
    pub coefficient_of_variation: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean, by Student's t; omitted for one repetition.
    pub confidence95: Option<f64>,
}

/// A figure of a tool's own.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, such as B/op.
    pub unit: Option<String>,
    /// How the figures of several client pods become one.
    #[serde(default)]
    pub merge: Merge,
    /// Whether more is better; absent if nothing says it.
    pub more_is_better: Option<bool>,
}

/// A figure and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Lower end of the interval.
    pub low: f64,
    /// The estimate.
    pub mid: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Batches timed one by one, as Criterion does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchStatistics {
    /// Items of one batch.
    pub items: u64,
    /// Items of one command or pipeline.
    pub batch_size: u64,
    /// Key and value of one item, in bytes.
    pub bytes_per_item: u64,
    /// Batches that were timed.
    pub iterations: u64,
    /// Time per batch in seconds: the mean and its interval.
    pub seconds_per_batch: Estimate,
    /// Items per second.
    pub elements_per_second: Estimate,
    /// items x bytesPerItem / 2^20 per second.
    pub mebibytes_per_second: Estimate,
}

/// What became of an open loop's schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRecord {
    /// fixed or poisson.
    pub kind: String,
    /// Target rate in operations per second.
    pub operations_per_second: f64,
    /// Requests that were due within the window.
    pub scheduled: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests without an answer when the run ended: the server could not follow. The
    /// latencies contain each with the time it had waited by then.
    #[serde(default)]
    pub unanswered: u64,
    /// Share of the requests that were answered in time, from 0 to 1: 1 minus the backlog at the end
    /// of a second, as a share of all requests due by then, where it was smallest in the last
    /// quarter of the schedule. Below 0.995 the server does not follow this rate. Absent for
    /// schedules shorter than two seconds.
    pub answered_in_time: Option<f64>,
    /// How long after they were due requests were sent.
    #[serde(default)]
    pub lag_milliseconds: LatencySummary,
    /// The machine's part of it: the 99th percentile of how long after a request was due the kernel
    /// woke the load generator for it, of the client pod where it was longest.
    pub wake_lag_p99_milliseconds: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percentile_is_known_with_ten_requests_above_it() {
        let all = LatencySummary {
            p50: Some(1.0),
            p90: Some(2.0),
            p95: Some(3.0),
            p99: Some(4.0),
            p999: Some(5.0),
            p9999: Some(6.0),
            max: Some(7.0),
            ..LatencySummary::default()
        };
        let known = |requests| {
            let mut summary = all.supported_by(requests);
            summary.fields().into_iter().filter_map(|(_, field)| *field).sum::<f64>()
        };
        for (requests, sum) in
            [(1, 8.0), (100, 10.0), (200, 13.0), (999, 13.0), (1_000, 17.0), (10_000, 22.0), (100_000, 28.0)]
        {
            assert!((known(requests) - sum).abs() < 1e-9, "{requests} requests: {}", known(requests));
        }
    }

    proptest! {
        #[test]
        fn a_figure_is_read_back_from_status_to_its_last_bit(milliseconds in 0.0..1e9_f64) {
            let written = LatencySummary { mean: Some(milliseconds), ..LatencySummary::default() };
            let text = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(serde_json::from_str::<LatencySummary>(&text).unwrap(), written);
        }
    }
}

//! Figures that appear in a run's status.

use crate::workload::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Latencies in milliseconds, read from a histogram, whose resolution is the
/// tool's (1 µs for loadgen, 8 µs for memtier), or as a tool without histograms
/// printed them. What is not known is omitted: nothing is answered in 0 ms.
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
    /// The field of a percentile, such as 99.9; `None` for those without a field.
    pub fn percentile_mut(&mut self, percent: f64) -> Option<&mut Option<f64>> {
        let fields = [
            (50.0, &mut self.p50),
            (90.0, &mut self.p90),
            (95.0, &mut self.p95),
            (99.0, &mut self.p99),
            (99.9, &mut self.p999),
            (99.99, &mut self.p9999),
        ];
        fields.into_iter().find(|(known, _)| (known - percent).abs() < 1e-9).map(|(_, field)| field)
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit, such as B/op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How the figures of several client pods become one.
    #[serde(default)]
    pub merge: Merge,
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
    /// How long after they were due requests were sent.
    #[serde(default)]
    pub lag_milliseconds: LatencySummary,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_figure_is_read_back_from_status_to_its_last_bit(milliseconds in 0.0..1e9_f64) {
            let written = LatencySummary { mean: Some(milliseconds), ..LatencySummary::default() };
            let text = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(serde_json::from_str::<LatencySummary>(&text).unwrap(), written);
        }
    }
}

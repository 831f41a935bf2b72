//! Statistics of batch benches, as Criterion reports them. Pure.
//!
//! A batch is one pass over all items; its time is one iteration. As in
//! Criterion, iterations are gathered into at most 100 samples (`sample_size`),
//! the estimate is the mean of the samples, and its confidence interval (95 %,
//! `confidence_level`) is the percentile interval of the means of 100,000
//! bootstrap resamples (`nresamples`); see
//! <https://bheisler.github.io/criterion.rs/book/analysis.html>. Unlike there,
//! the resampling has a fixed seed, so equal times give equal intervals.

use std::time::Duration;

use dragstrip_crds::measured::{BatchStatistics, Estimate};
use dragstrip_results::statistics::mean;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// Criterion's default `nresamples`.
const RESAMPLES: usize = 100_000;
/// Criterion's default `sample_size`.
const MAXIMUM_SAMPLES: usize = 100;
/// Criterion's default `confidence_level`.
const CONFIDENCE_LEVEL: f64 = 0.95;
const SEED: u64 = 0x6372_6974_6572_696f;
const BYTES_PER_MEBIBYTE: f64 = 1_048_576.0;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BatchShape {
    pub(crate) items: u64,
    /// Items of a command or pipeline.
    pub(crate) batch_size: u64,
    /// Bytes of an item's key and value.
    pub(crate) bytes_per_item: u64,
}

/// The statistics of batches that took `times`; none without any batch.
pub(crate) fn statistics(shape: BatchShape, times: &[Duration]) -> Option<BatchStatistics> {
    let seconds_per_batch = estimate(&samples(times))?;
    let elements_per_second = rate(shape.items as f64, seconds_per_batch);
    let mebibytes = shape.items as f64 * shape.bytes_per_item as f64 / BYTES_PER_MEBIBYTE;
    Some(BatchStatistics {
        items: shape.items,
        batch_size: shape.batch_size,
        bytes_per_item: shape.bytes_per_item,
        iterations: times.len() as u64,
        seconds_per_batch,
        elements_per_second,
        mebibytes_per_second: rate(mebibytes, seconds_per_batch),
    })
}

fn rate(amount: f64, seconds: Estimate) -> Estimate {
    Estimate { low: amount / seconds.high, mid: amount / seconds.mid, high: amount / seconds.low }
}

/// Mean seconds of up to [`MAXIMUM_SAMPLES`] runs of batches, of equal length within one.
fn samples(times: &[Duration]) -> Vec<f64> {
    let count = times.len().min(MAXIMUM_SAMPLES);
    let bound = |sample: usize| sample * times.len() / count;
    (0..count)
        .filter_map(|sample| times.get(bound(sample)..bound(sample + 1)))
        .map(|run| run.iter().map(Duration::as_secs_f64).sum::<f64>() / run.len() as f64)
        .collect()
}

/// Mean and percentile bootstrap interval; none without samples.
fn estimate(samples: &[f64]) -> Option<Estimate> {
    if samples.is_empty() {
        return None;
    }
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut draw = || samples.get(random.random_range(0..samples.len())).copied().unwrap_or_default();
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..samples.len()).map(|_| draw()).sum::<f64>() / samples.len() as f64)
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE_LEVEL) / 2.0;
    Some(Estimate { low: percentile(&means, tail), mid: mean(samples), high: percentile(&means, 1.0 - tail) })
}

/// Value at `share` (0 to 1) of sorted values, linearly interpolated.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the rank is within the slice
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = share * (sorted.len().saturating_sub(1)) as f64;
    let value = |rank: f64| sorted.get(rank as usize).copied().unwrap_or_default();
    let (floor, ceiling) = (value(rank.floor()), value(rank.ceil()));
    floor + (ceiling - floor) * rank.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: BatchShape = BatchShape { items: 100_000, batch_size: 10_000, bytes_per_item: 100 };

    fn close(found: f64, wanted: f64, tolerance: f64, what: &str) {
        assert!((found - wanted).abs() <= tolerance, "{what} is {found}, not {wanted}");
    }

    /// Row AsyncRedisClientV1 of the published MSET table with batches of
    /// 10,000: 70.529 - 70.867 ms, mean 70.664 ms, 1.4152 M elements/s
    /// (1.4111 - 1.4179), 134.96 MiB/s (134.57 - 135.22).
    #[test]
    fn the_published_time_gives_the_published_throughput() {
        let report = statistics(PUBLISHED, &[Duration::from_micros(70_664); 5]).unwrap();
        close(report.elements_per_second.mid, 1.4152e6, 60.0, "elements/s");
        close(report.mebibytes_per_second.mid, 134.96, 0.01, "MiB/s");
        let interval = Estimate { low: 0.070_529, mid: 0.070_664, high: 0.070_867 };
        let elements = rate(100_000.0, interval);
        close(elements.low, 1.4111e6, 60.0, "low elements/s");
        close(elements.high, 1.4179e6, 60.0, "high elements/s");
        let mebibytes = rate(1e7 / BYTES_PER_MEBIBYTE, interval);
        close(mebibytes.low, 134.57, 0.01, "low MiB/s");
        // The table's upper bound comes from an unrounded time.
        close(mebibytes.high, 135.22, 0.01, "high MiB/s");
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        // 100 evenly spread times: standard error = deviation / 10.
        let times: Vec<Duration> = (0..100).map(|step| Duration::from_micros(1000 + step)).collect();
        let seconds = statistics(PUBLISHED, &times).unwrap().seconds_per_batch;
        close(seconds.mid, 1.0495e-3, 1e-9, "mean");
        let half_width = 1.96 * 28.866e-6 / 10.0;
        close(seconds.low, seconds.mid - half_width, half_width * 0.05, "low");
        close(seconds.high, seconds.mid + half_width, half_width * 0.05, "high");
    }

    #[test]
    fn equal_times_give_equal_intervals_and_one_time_is_its_own() {
        let times: Vec<Duration> = (0..12).map(|step| Duration::from_nanos(step * step % 79 + 1)).collect();
        let (first, second) = (statistics(PUBLISHED, &times), statistics(PUBLISHED, &times));
        assert_eq!(first, second);
        let seconds = first.unwrap().seconds_per_batch;
        assert!(seconds.low < seconds.mid && seconds.mid < seconds.high, "{seconds:?}");
        let alone = statistics(PUBLISHED, &[Duration::from_millis(2)]).unwrap();
        assert_eq!(alone.seconds_per_batch, Estimate { low: 0.002, mid: 0.002, high: 0.002 });
        assert_eq!(statistics(PUBLISHED, &[]), None);
    }

    #[test]
    fn every_batch_belongs_to_one_sample() {
        let times: Vec<Duration> = (1..=250).map(Duration::from_secs).collect();
        let samples = samples(&times);
        assert_eq!(samples.len(), MAXIMUM_SAMPLES);
        close(samples[0], 1.5, 1e-12, "first sample");
        close(samples[99], 249.0, 1e-12, "last sample");
    }
}

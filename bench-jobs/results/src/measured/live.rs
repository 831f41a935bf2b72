//! The latencies that a tool reports while it runs: counts in a few buckets, which
//! Prometheus stores as a classic histogram. Pure. Only this file has the bounds; the
//! BullMQ job, which is not a Rust program, checks its own against it.

use hdrhistogram::Histogram;
use std::fmt::Write as _;

pub const BOUNDS: usize = 24;
/// Upper bounds of the buckets, in microseconds: five to a decade; slower ones are in one more.
#[rustfmt::skip]
pub const BOUNDS_MICROS: [u64; BOUNDS] = [
    20, 32, 50, 80, 125, 200, 320, 500, 800, 1_250, 2_000, 3_200, 5_000, 8_000, 12_500, 20_000, 32_000, 50_000,
    80_000, 125_000, 200_000, 320_000, 500_000, 1_000_000,
];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencyCounts {
    /// Latencies in each bucket, the ones before it not included.
    pub counts: [u64; BOUNDS + 1],
    /// The sum of all latencies, in seconds.
    pub seconds: f64,
}

impl LatencyCounts {
    /// The same of a histogram of microseconds: as exact as its own buckets are narrow.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let (mut counts, mut bucket, mut micros) = ([0; BOUNDS + 1], 0, 0.0);
        for recorded in histogram.iter_recorded() {
            let (value, count) = (recorded.value_iterated_to(), recorded.count_at_value());
            let least = histogram.lowest_equivalent(value);
            while BOUNDS_MICROS.get(bucket).is_some_and(|bound| least > *bound) {
                bucket += 1;
            }
            if let Some(place) = counts.get_mut(bucket) {
                *place += count;
            }
            micros += histogram.median_equivalent(value) as f64 * count as f64;
        }
        Self { counts, seconds: micros / 1e6 }
    }

    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.seconds += other.seconds;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut new = *self;
        for (count, then) in new.counts.iter_mut().zip(before.counts) {
            *count = count.saturating_sub(then);
        }
        new.seconds -= before.seconds;
        new
    }

    /// What a share of the latencies (from 0 to 1) stays below, in seconds, as exact as the
    /// buckets: on a straight line within its own. `None` without latencies, and if it is
    /// slower than the last bound.
    pub fn quantile_seconds(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (count, bound) in self.counts.iter().zip(BOUNDS_MICROS) {
            let (count, bound) = (*count as f64, bound as f64);
            if count > 0.0 && below + count >= wanted {
                return Some((lower + (bound - lower) * ((wanted - below) / count).max(0.0)) / 1e6);
            }
            below += count;
            lower = bound;
        }
        None
    }

    /// The fields of a progress line: `latency_seconds=1.5 latency_counts=0,3,...`.
    pub fn fields(&self) -> String {
        let mut text = format!("latency_seconds={:.6} latency_counts=", self.seconds);
        for (place, count) in self.counts.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{count}", if place == 0 { "" } else { "," });
        }
        text
    }

    /// Reads the values of both fields; `None` if there are more or fewer counts.
    pub fn read(seconds: &str, counts: &str) -> Option<Self> {
        let counts: Vec<u64> = counts.split(',').map(|count| count.parse().ok()).collect::<Option<_>>()?;
        Some(Self { counts: counts.try_into().ok()?, seconds: seconds.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::histogram;
    use proptest::prelude::*;

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let mut histogram = histogram::empty().unwrap();
        assert_eq!(LatencyCounts::of(&histogram).quantile_seconds(0.99), None, "there are no latencies");
        histogram.record_n(100, 98).unwrap();
        histogram.record_n(300, 2).unwrap();
        let counts = LatencyCounts::of(&histogram);
        let p50 = counts.quantile_seconds(0.5).unwrap() * 1e6;
        let p99 = counts.quantile_seconds(0.99).unwrap() * 1e6;
        assert!((80.0..=125.0).contains(&p50) && (200.0..=320.0).contains(&p99), "{p50} and {p99}");
        histogram.record_n(3_000_000, 100).unwrap();
        assert_eq!(LatencyCounts::of(&histogram).quantile_seconds(0.99), None, "beyond the last bound");
    }

    #[test]
    fn every_latency_is_in_the_bucket_that_it_fits_in_best() {
        let mut histogram = histogram::empty().unwrap();
        for micros in [1, 20, 21, 32, 1_000_000, 2_000_000] {
            histogram.record(micros).unwrap();
        }
        let counts = LatencyCounts::of(&histogram);
        assert_eq!((counts.counts[0], counts.counts[1], counts.counts[BOUNDS]), (2, 2, 1), "{counts:?}");
        assert_eq!((counts.counts[BOUNDS - 1], counts.count()), (1, 6), "{counts:?}");
        assert!((counts.seconds - 3.000_074).abs() < 0.003, "{counts:?}");
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let (mut before, mut now) = (LatencyCounts::default(), LatencyCounts::default());
        (before.counts[0], before.seconds) = (1000, 0.5);
        (now.counts[0], now.counts[6], now.seconds) = (1000, 98, 0.75);
        let new = now.since(&before);
        assert_eq!((new.count(), new.counts[6], new.seconds), (98, 98, 0.25), "{new:?}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(counts in any::<[u32; 25]>(), micros in any::<u32>()) {
            let written = LatencyCounts { counts: counts.map(u64::from), seconds: f64::from(micros) / 1e6 };
            let text = written.fields();
            let (seconds, counts) = text.split_once(' ').unwrap();
            let value = |field: &str| field.split_once('=').unwrap().1.to_owned();
            prop_assert_eq!(LatencyCounts::read(&value(seconds), &value(counts)), Some(written));
        }

        #[test]
        fn no_latency_is_lost_and_none_counts_as_much_slower_or_faster(
            micros in prop::collection::vec(1u64..5_000_000, 1..200),
        ) {
            let mut histogram = histogram::empty().unwrap();
            for value in &micros {
                histogram.record(*value).unwrap();
            }
            let counts = LatencyCounts::of(&histogram);
            prop_assert_eq!(counts.count(), micros.len() as u64);
            for (bound, found) in BOUNDS_MICROS.iter().zip(counts.counts.iter().scan(0, |sum, n| { *sum += n; Some(*sum) })) {
                // A histogram of three digits puts values together that are a thousandth apart.
                let within = |limit: u64| micros.iter().filter(|value| **value <= limit).count() as u64;
                prop_assert!(found >= within(bound - bound / 500) && found <= within(bound + bound / 500), "{bound}");
            }
        }
    }

    #[test]
    fn another_number_of_counts_is_refused() {
        assert_eq!(LatencyCounts::read("1.5", "1,2,3"), None);
        assert_eq!(LatencyCounts::read("x", &["0"; BOUNDS + 1].join(",")), None);
    }
}

//! Latencies by the second, so coarse that a result can carry them, and in buckets that are the same
//! everywhere: those of several threads and pods add up exactly.

use super::histogram::{self, EncodedHistogram, HistogramError, Latencies};
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most parts of a series. In a longer load, each part covers 2 seconds, or 4, or 8: an encoded
/// series has some 40 KB at most.
pub const MOST_PARTS: usize = 240;

/// Latencies of the equal parts of a load, as a process counts them.
#[derive(Debug, Clone)]
pub struct LatencySeries {
    /// Seconds of each part, a power of 2.
    seconds: u64,
    parts: Vec<Histogram<u64>>,
    empty: Histogram<u64>,
}

/// The same as a tool reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EncodedSeries {
    /// Seconds of each part, a power of 2.
    pub seconds: u64,
    /// The latencies of each part; buckets of one significant digit.
    pub parts: Vec<EncodedHistogram>,
}

/// The 99th percentile of the latencies of each part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PercentileSeries {
    /// Seconds of each part.
    pub seconds: u64,
    /// In milliseconds, too large by 6 % at most; null for a part with fewer than 1,000 replies.
    pub milliseconds: Vec<Option<f64>>,
}

impl LatencySeries {
    pub fn new() -> Result<Self, HistogramError> {
        let empty = histogram::coarse()?;
        Ok(Self { seconds: 1, parts: vec![empty.clone()], empty })
    }

    /// Records so many latencies in the part in progress.
    #[inline]
    pub fn record(&mut self, micros: u64, count: u64) {
        if let Some(last) = self.parts.last_mut().filter(|_| count > 0) {
            last.saturating_record_n(micros, count);
        }
    }

    /// What is recorded from now on was in this second of the load, or after it.
    pub fn advance(&mut self, second: u64) {
        while second / self.seconds >= MOST_PARTS as u64 {
            self.join();
        }
        let part = usize::try_from(second / self.seconds).unwrap_or(MOST_PARTS);
        self.grow(part + 1);
    }

    fn grow(&mut self, parts: usize) {
        if self.parts.len() < parts {
            self.parts.resize(parts, self.empty.clone());
        }
    }

    /// Makes each two parts one.
    fn join(&mut self) {
        let pairs = self.parts.chunks(2).map(|pair| {
            let mut sum = self.empty.clone();
            for part in pair {
                pour(&mut sum, part);
            }
            sum
        });
        self.parts = pairs.collect();
        self.seconds = self.seconds.saturating_mul(2);
    }

    /// Adds those of another thread or pod, whose load began at the same time.
    pub fn add(&mut self, mut other: Self) {
        while self.seconds < other.seconds {
            self.join();
        }
        while other.seconds < self.seconds {
            other.join();
        }
        self.grow(other.parts.len());
        for (sum, part) in self.parts.iter_mut().zip(&other.parts) {
            pour(sum, part);
        }
    }

    /// Writes it the way [`SeriesSum`] reads it.
    pub fn encode(self) -> Result<EncodedSeries, HistogramError> {
        let parts = self.parts.into_iter().map(|part| Latencies::from_microseconds(part).encode());
        Ok(EncodedSeries { seconds: self.seconds, parts: parts.collect::<Result<_, _>>()? })
    }

    fn decode(encoded: &EncodedSeries) -> Result<Self, HistogramError> {
        let mut series = Self { seconds: encoded.seconds, parts: Vec::new(), ..Self::new()? };
        if encoded.parts.len() > MOST_PARTS || !encoded.seconds.is_power_of_two() {
            let parts = encoded.parts.len();
            let message = format!("{parts} parts of {} s are not a series of latencies", encoded.seconds);
            return Err(HistogramError::Decode(message));
        }
        for part in &encoded.parts {
            let mut sum = Latencies::from_microseconds(series.empty.clone());
            sum.add(&Latencies::decode(part)?)?;
            series.parts.push(sum.into_microseconds());
        }
        Ok(series)
    }
}

/// Adds `from`, whose buckets are the same, so that each value stays in its own.
fn pour(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    for bucket in from.iter_recorded() {
        into.saturating_record_n(bucket.value_iterated_to(), bucket.count_at_value());
    }
}

/// The series of all pods together, added one after the other.
#[derive(Debug, Default)]
pub struct SeriesSum {
    sum: Option<LatencySeries>,
    missing: bool,
}

impl SeriesSum {
    /// Adds the series of a pod, or that it has none.
    pub fn add(&mut self, one: Option<&EncodedSeries>) -> Result<(), HistogramError> {
        self.missing |= one.is_none();
        let Some(one) = one.filter(|_| !self.missing) else { return Ok(()) };
        let decoded = LatencySeries::decode(one)?;
        match &mut self.sum {
            None => self.sum = Some(decoded),
            Some(sum) => sum.add(decoded),
        }
        Ok(())
    }

    /// The percentiles; `None` without any series, and if one is missing.
    pub fn percentiles(self) -> Option<PercentileSeries> {
        let p99 = |part: Histogram<u64>| Latencies::from_microseconds(part).summary().p99;
        self.sum.filter(|_| !self.missing).map(|sum| PercentileSeries {
            seconds: sum.seconds,
            milliseconds: sum.parts.into_iter().map(p99).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles<'a>(
        mut all: impl Iterator<Item = Option<&'a EncodedSeries>>,
    ) -> Result<Option<PercentileSeries>, HistogramError> {
        let mut sum = SeriesSum::default();
        all.try_for_each(|one| sum.add(one))?;
        Ok(sum.percentiles())
    }

    /// A load with 2,000 replies of this latency in each of these seconds.
    fn series(seconds: &[(u64, u64)]) -> LatencySeries {
        let mut series = LatencySeries::new().unwrap();
        for (second, micros) in seconds {
            series.advance(*second);
            series.record(*micros, 2_000);
        }
        series
    }

    fn encoded(series: &LatencySeries) -> EncodedSeries {
        series.clone().encode().unwrap()
    }

    fn merged(all: &[&EncodedSeries]) -> PercentileSeries {
        percentiles(all.iter().map(|one| Some(*one))).unwrap().unwrap()
    }

    #[test]
    fn each_second_has_the_percentile_of_all_pods_together() {
        let slow = encoded(&series(&[(0, 400), (1, 90_000), (3, 400)]));
        let fast = encoded(&series(&[(0, 100), (1, 100), (3, 100)]));
        let found = merged(&[&slow, &fast]);
        assert_eq!(found.seconds, 1);
        let [first, second, silent, last] = found.milliseconds[..] else { panic!("{found:?}") };
        for (found, expected) in [(first, 0.4), (second, 90.0), (last, 0.4)] {
            let ratio = found.unwrap() / expected;
            assert!((1.0..1.07).contains(&ratio), "{found:?} is not {expected}");
        }
        assert_eq!(silent, None, "a second without replies has no percentile");
        assert_eq!(percentiles([Some(&slow), None].into_iter()).unwrap(), None, "a pod's is missing");
    }

    #[test]
    fn merging_pods_equals_one_that_counted_everything() {
        let mut whole = series(&[(0, 400), (5, 700)]);
        whole.add(series(&[(0, 31), (5, 20_000)]));
        let parts = [encoded(&series(&[(0, 400), (5, 700)])), encoded(&series(&[(0, 31), (5, 20_000)]))];
        assert_eq!(merged(&[&parts[0], &parts[1]]), merged(&[&encoded(&whole)]));
    }

    #[test]
    fn a_long_load_has_longer_parts_and_stays_small() {
        let mut long = LatencySeries::new().unwrap();
        for second in 0..86_400 {
            long.advance(second);
            for micros in (50..5_000).step_by(61) {
                long.record(micros + second % 977, 40);
            }
        }
        let long = encoded(&long);
        let bytes: usize = long.parts.iter().map(|part| part.0.len()).sum();
        assert_eq!((long.seconds, long.parts.len()), (512, 169));
        assert!(bytes < 60_000, "{bytes} bytes");
        let found = merged(&[&long, &encoded(&series(&[(3, 100)]))]);
        assert_eq!((found.seconds, found.milliseconds.len()), (512, 169), "the longer parts count");
    }

    #[test]
    fn a_series_that_no_tool_writes_is_damaged() {
        let good = encoded(&series(&[(0, 100)]));
        let part = good.parts[0].clone();
        for (seconds, parts) in [(0, 1), (3, 1), (1, MOST_PARTS + 1)] {
            let damaged = EncodedSeries { seconds, parts: vec![part.clone(); parts] };
            assert!(percentiles([Some(&damaged)].into_iter()).is_err(), "{parts} parts of {seconds} s");
        }
        let fine = Latencies::from_microseconds(histogram::empty().unwrap()).encode().unwrap();
        let other = EncodedSeries { seconds: 1, parts: vec![fine] };
        assert!(percentiles([Some(&other)].into_iter()).is_err(), "other buckets do not add up exactly");
    }
}

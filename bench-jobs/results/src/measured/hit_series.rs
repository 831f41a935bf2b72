//! What reads found by the second, in so few parts that a result can carry them: those of several threads
//! and pods add up exactly. Pure.

use super::{latency_series::MOST_PARTS, operation::added_seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reads of the equal parts of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HitSeries {
    /// Seconds of each part, a power of 2: more than one in a long load.
    pub seconds: u64,
    /// Reads that found their key.
    pub hits: Vec<u64>,
    /// Reads that found nothing.
    pub misses: Vec<u64>,
}

impl HitSeries {
    /// The series of these hits and misses of each second.
    pub fn of(seconds: impl Iterator<Item = (u64, u64)>) -> Self {
        let (hits, misses) = seconds.unzip();
        let mut series = Self { seconds: 1, hits, misses };
        while series.hits.len() > MOST_PARTS {
            series.join();
        }
        series
    }

    /// Whether a tool may have written it.
    pub fn is_sound(&self) -> bool {
        let parts = self.hits.len();
        self.seconds.is_power_of_two() && parts == self.misses.len() && parts <= MOST_PARTS
    }

    /// Makes each two parts one.
    fn join(&mut self) {
        let pairs = |parts: &[u64]| parts.chunks(2).map(sum).collect();
        (self.hits, self.misses) = (pairs(&self.hits), pairs(&self.misses));
        self.seconds = self.seconds.saturating_mul(2);
    }

    /// The sum with that of another thread or pod, whose load began at the same time.
    #[must_use]
    pub fn plus(mut self, mut other: Self) -> Self {
        while self.seconds < other.seconds {
            self.join();
        }
        while other.seconds < self.seconds {
            other.join();
        }
        let sum = |one: &[u64], two: &[u64]| added_seconds([one, two].into_iter());
        Self {
            seconds: self.seconds,
            hits: sum(&self.hits, &other.hits),
            misses: sum(&self.misses, &other.misses),
        }
    }

    /// Share of reads that found their key in each part; `None` for a part without reads.
    pub fn ratios(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.hits.iter().zip(&self.misses).map(|(hits, misses)| share(*hits, *misses))
    }

    /// The same share in the last third of the load, in which a cache is warm; `None` with fewer than three parts.
    pub fn warm_ratio(&self) -> Option<f64> {
        let from = self.hits.len() - self.hits.len() / 3;
        let warm = |parts: &[u64]| sum(parts.get(from..).unwrap_or_default());
        share(warm(&self.hits), warm(&self.misses))
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// Share of reads that found their key; `None` without reads.
fn share(hits: u64, misses: u64) -> Option<f64> {
    let reads = hits.saturating_add(misses);
    (reads > 0).then(|| hits as f64 / reads as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load with two reads in each of so many seconds; in the first `cold` ones, one of them misses.
    fn warming(seconds: u64, cold: u64) -> HitSeries {
        HitSeries::of((0..seconds).map(|second| if second < cold { (1, 1) } else { (2, 0) }))
    }

    #[test]
    fn pods_add_up_part_by_part_whatever_the_length_of_their_parts() {
        let sum = warming(3, 2).plus(warming(4, 0));
        assert_eq!((sum.hits, sum.misses), (vec![3, 3, 4, 2], vec![1, 1, 0, 0]));
        let long = warming(1_000, 8);
        assert_eq!((long.seconds, long.hits.len()), (8, 125));
        assert_eq!((long.hits[0], long.misses[0], long.misses[1]), (8, 8, 0));
        for sum in [long.clone().plus(warming(9, 9)), warming(9, 9).plus(long)] {
            assert_eq!((sum.seconds, sum.hits[0], sum.misses[0], sum.misses[1]), (8, 16, 16, 1));
            assert!(sum.is_sound(), "{sum:?}");
        }
    }

    #[test]
    fn the_warm_ratio_is_that_of_the_last_third() {
        assert_eq!(warming(9, 6).warm_ratio(), Some(1.0));
        assert_eq!(warming(9, 9).warm_ratio(), Some(0.5));
        assert_eq!(warming(4, 4).warm_ratio(), Some(0.5));
        assert_eq!(warming(2, 0).warm_ratio(), None, "two parts have no third");
        let silent = HitSeries::of([(1, 1), (0, 0), (3, 0)].into_iter());
        assert_eq!(silent.ratios().collect::<Vec<_>>(), [Some(0.5), None, Some(1.0)]);
    }

    #[test]
    fn a_series_that_no_tool_writes_is_not_sound() {
        let good = warming(3, 1);
        assert!(good.is_sound());
        for (seconds, hits, misses) in [(0, 3, 3), (3, 3, 3), (1, 2, 3), (1, MOST_PARTS + 1, MOST_PARTS + 1)]
        {
            let bad = HitSeries { seconds, hits: vec![0; hits], misses: vec![0; misses] };
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }
}

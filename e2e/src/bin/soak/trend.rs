//! Whether a level rises: a straight line through the means of cycles, each of which does the same. Pure.

use crate::sample::{GAUGES, Sample};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// How probable a slope without a cause may be that is called one.
const CHANCE: f64 = 0.001;
/// The share of the cycles at the beginning in which caches fill.
const WARM_UP: f64 = 0.1;
/// Fewer means show no line.
pub const FEWEST: usize = 5;

/// A line through equally spaced values.
#[derive(Debug, Clone, Copy)]
pub struct Trend {
    pub first: f64,
    pub last: f64,
    mean: f64,
    /// Growth over all values by the line.
    pub growth: f64,
    /// How much of that growth is noise, at [`CHANCE`].
    pub noise: f64,
}

impl Trend {
    /// The line through `values`; `None` if they are too few.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < FEWEST {
            return None;
        }
        let n = count as f64;
        let (middle, mean) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
        let from_middle = |index: usize| index as f64 - middle;
        let spread: f64 = (0..count).map(|index| from_middle(index).powi(2)).sum();
        let slope =
            values.iter().enumerate().map(|(i, value)| from_middle(i) * (value - mean)).sum::<f64>() / spread;
        let off = |(i, value): (usize, &f64)| (value - mean - slope * from_middle(i)).powi(2);
        let error = (values.iter().enumerate().map(off).sum::<f64>() / (n - 2.0) / spread).sqrt();
        let quantile = StudentsT::new(0.0, 1.0, n - 2.0).ok()?.inverse_cdf(1.0 - CHANCE);
        Some(Self {
            first: *values.first()?,
            last: *values.last()?,
            mean,
            growth: slope * (n - 1.0),
            noise: quantile * error * (n - 1.0),
        })
    }

    /// Whether the level rises by more than noise, and by more than a share of it and an amount in an hour.
    pub fn rises(&self, share: f64, amount: f64, hours: f64) -> bool {
        let tolerated = (share * self.mean).max(amount) * hours.max(1.0);
        self.growth > self.noise && self.growth > tolerated
    }
}

/// The means of each gauge over each cycle after the warm-up, given the samples of each cycle.
pub fn means(cycles: &[Vec<Sample>]) -> Vec<Vec<f64>> {
    // A share of the number of cycles: rounded up.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let skipped = (cycles.len() as f64 * WARM_UP).ceil() as usize;
    let measured = &cycles[skipped.min(cycles.len())..];
    let of_gauge = |gauge: usize| {
        let mean = |samples: &Vec<Sample>| {
            let values: Vec<f64> = samples.iter().filter_map(|sample| sample.values[gauge]).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        measured.iter().filter_map(mean).collect()
    };
    let rate = |samples: &Vec<Sample>| {
        let (first, last) = (samples.first()?, samples.last()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        (seconds > 0.0).then(|| (last.calls - first.calls) / seconds)
    };
    let mut all: Vec<Vec<f64>> = (0..GAUGES.len() - 1).map(of_gauge).collect();
    all.push(measured.iter().filter_map(rate).collect());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_rises_and_noise_does_not() {
        let noise = [0.3, -0.5, 0.1, 0.4, -0.2, -0.4, 0.5, 0.0, -0.1, 0.2];
        let level: Vec<f64> = noise.iter().map(|noise| 20.0 + noise).collect();
        assert!(!Trend::of(&level).unwrap().rises(0.03, 0.0, 1.0));
        let leak: Vec<f64> = level.iter().enumerate().map(|(i, value)| value + 0.4 * i as f64).collect();
        assert!(Trend::of(&leak).unwrap().rises(0.03, 0.0, 1.0));
        assert!(Trend::of(&level[..4]).is_none(), "four values show no line");
    }
}

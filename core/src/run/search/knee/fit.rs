//! Where the knee lies among measurements that contradict each other: a fit through all. Pure.

use super::{Vote, counted};
use dragstrip_crds::units::whole;
use std::ops::RangeInclusive;

/// How far from the knee measurements disagree, as a share of the value: near a p99 bound and near
/// the largest rate that the server follows.
const SCALE: f64 = 0.02;
/// The same where throughput levels off: it hardly changes with the value there.
const SCALE_OF_GAIN: f64 = 0.06;
/// Share of the measurements on either side that are wrong wherever they are, such as those that
/// a pause of the server disturbed.
const ASTRAY: f64 = 0.05;
/// Step between the values that the fit compares, as a share.
const STEP: f64 = 0.002;
/// How far outside of the bracket the fit looks, as a share.
const OUTSIDE: f64 = 0.25;
/// Distance from the knee within which a measurement counts as near, as a share of the value.
const ZONE: f64 = 0.1;
/// By how much the logarithm of the likelihood may fall short of its maximum within the 95 %
/// confidence interval: half of the chi-squared quantile with one degree of freedom.
const SHORTFALL: f64 = 1.92;

/// The knee as the measurements say.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    pub value: u64,
    /// Ends of its 95 % confidence interval.
    pub low: u64,
    pub high: u64,
}

impl Fit {
    pub fn near(&self, value: u64) -> bool {
        value.abs_diff(self.value) as f64 <= (self.value as f64 * ZONE).max(1.0)
    }
}

/// Logarithm of the likelihood of the votes, so many within and beyond at each logarithm of a
/// value, if the knee is at `knee`: a logistic curve.
fn likelihood(counted: &[(f64, [usize; 2])], knee: f64, scale: f64) -> f64 {
    let at = |(value, [within, beyond]): &(f64, [usize; 2])| {
        let share = ASTRAY + (1.0 - 2.0 * ASTRAY) / (1.0 + ((knee - value) / scale).exp());
        *beyond as f64 * share.ln() + *within as f64 * (1.0 - share).ln()
    };
    counted.iter().map(at).sum()
}

fn value_at(logarithm: f64, round: fn(f64) -> f64) -> u64 {
    // Values are from 1 to about a billion, and a hair beside a whole number is that number.
    whole(round((logarithm.exp() * 1e6).round() / 1e6))
}

/// The knee that the `votes` make likeliest, near `low` and `high`; `gain` if throughput levels off there.
pub fn fit(votes: &[Vote], (low, high): (u64, u64), gain: bool) -> Fit {
    let counted: Vec<(f64, [usize; 2])> =
        counted(votes).into_iter().map(|(value, counts)| ((value as f64).ln(), counts)).collect();
    let scale = if gain { SCALE_OF_GAIN } else { SCALE };
    let measured = |value: &(f64, [usize; 2])| value.0;
    let ends: RangeInclusive<f64> =
        counted.first().map_or(0.0, measured)..=counted.last().map_or(0.0, measured);
    let from = ((low as f64).ln() - OUTSIDE).max(*ends.start());
    let to = ((high as f64).ln() + OUTSIDE).min(*ends.end());
    let candidates: Vec<(f64, f64)> = std::iter::successors(Some(from), |knee| Some(knee + STEP))
        .take_while(|knee| *knee < to)
        .chain([to])
        .map(|knee| (knee, likelihood(&counted, knee, scale)))
        .collect();
    let most = candidates.iter().map(|(_, likelihood)| *likelihood).fold(f64::MIN, f64::max);
    // Between measurements that agree many values are equally likely: the middle of them.
    let within = |shortfall: f64| {
        let mut likely = candidates.iter().filter(|(_, likelihood)| *likelihood >= most - shortfall);
        let first = likely.next().map_or(from, |(knee, _)| *knee);
        (first, likely.next_back().map_or(first, |(knee, _)| *knee))
    };
    let (best, interval) = (within(1e-3), within(SHORTFALL));
    Fit {
        // Where throughput levels off the knee is the first value that has all of it.
        value: value_at(f64::midpoint(best.0, best.1), if gain { f64::ceil } else { f64::round }).max(1),
        low: value_at(interval.0, f64::floor).max(1),
        high: value_at(interval.1, f64::ceil).max(1),
    }
}

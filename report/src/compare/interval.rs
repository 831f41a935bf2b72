//! Intervals of a ratio and of a difference of two means, for a few measurements each.
//!
//! Both invert a t test of the hypothesis `x - r y = 0`: the interval of the ratio holds every `r`
//! that the test does not reject at 5 %. For two separate samples it is Welch's test, which gives
//! Fieller's interval with Welch's degrees of freedom; for blocks it is the t test of the difference
//! within each block. So the ratio's interval excludes 1 exactly if the difference's excludes 0. Pure.

use dragstrip_crds::measured::{Estimate, Spread};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The test rejects hypotheses whose p value is lower.
const LEVEL: f64 = 0.05;
/// An interval whose upper end is more than this multiple of the estimate has none.
const FARTHEST: f64 = 1e6;
/// The share of cases in which a detectable difference is found.
const POWER: f64 = 0.8;

/// The smallest step between `values`, which a tool rounded to; 0 if all are the same.
pub fn step(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let gaps = sorted.windows(2).filter_map(|pair| {
        let [low, high] = pair else { return None };
        // Sums of floating-point numbers are never exactly equal, hence the relative limit.
        Some(high - low).filter(|gap| *gap > 1e-9 * high.abs())
    });
    gaps.min_by(f64::total_cmp).unwrap_or_default()
}

/// An estimate: of the mean of a side, or of `x - r y`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    mean: f64,
    error2: f64,
    degrees: f64,
}

impl Side {
    /// `None` for a single measurement. Rounding to multiples of `step` adds the variance
    /// `step^2 / 12`, so that equal figures are not taken for exact ones.
    pub fn of(spread: &Spread, step: f64) -> Option<Self> {
        let n = f64::from(spread.repetitions);
        let variance = spread.standard_deviation?.powi(2).max(step * step / 12.0);
        Some(Self { mean: spread.mean, error2: variance / n, degrees: n - 1.0 })
    }

    pub fn half_width(self) -> f64 {
        quantile(self.degrees, 1.0 - LEVEL / 2.0) * self.error2.sqrt()
    }

    /// The smallest true difference from an exact figure that the test finds in four of five cases.
    pub fn detectable(self) -> f64 {
        detectable(self.degrees, self.error2)
    }

    /// The two-sided p value: the chance of a mean this far from 0 if the true one were 0. `scale` is
    /// the size of the figures that it is a difference of.
    fn chance(self, scale: f64) -> f64 {
        // Sums of floating-point numbers are never exactly equal, hence the relative limit.
        if self.error2.sqrt() <= 1e-12 * scale {
            return if self.mean.abs() <= 1e-9 * scale { 1.0 } else { 0.0 };
        }
        let student = StudentsT::new(0.0, 1.0, self.degrees);
        student.map_or(1.0, |student| 2.0 * student.sf(self.mean.abs() / self.error2.sqrt()))
    }
}

/// The smallest true difference that a t test finds in four of five cases.
pub(super) fn detectable(degrees: f64, error2: f64) -> f64 {
    (quantile(degrees, 1.0 - LEVEL / 2.0) + quantile(degrees, POWER)) * error2.sqrt()
}

fn quantile(degrees: f64, share: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(0.0, |student| student.inverse_cdf(share))
}

#[derive(Debug, Clone, PartialEq)]
pub enum Sides {
    /// Two samples that have nothing in common.
    Separate(Side, Side),
    /// One measurement of each side in every block: what a block adds to both, such as a slow hour of
    /// the machine, cancels out.
    Blocks {
        /// Both measurements of each block.
        pairs: Vec<(f64, f64)>,
        /// How the figures are rounded.
        step: f64,
    },
}

impl Sides {
    fn means(&self) -> (f64, f64) {
        match self {
            Self::Separate(x, y) => (x.mean, y.mean),
            Self::Blocks { pairs, .. } => {
                let n = pairs.len() as f64;
                let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), pair| (x + pair.0, y + pair.1));
                (x / n, y / n)
            }
        }
    }

    /// Rounding to multiples of a step adds the variance `step^2 / 12` to each side, so that equal
    /// figures are not taken for exact ones.
    fn contrast(&self, ratio: f64) -> Side {
        let (x_mean, y_mean) = self.means();
        let mean = x_mean - ratio * y_mean;
        match self {
            Self::Separate(x, y) => {
                let (x2, y2) = (x.error2, ratio * ratio * y.error2);
                let error2 = x2 + y2;
                // Welch and Satterthwaite's degrees of freedom of a difference.
                let degrees = error2 * error2 / (x2.powi(2) / x.degrees + y2.powi(2) / y.degrees);
                Side { mean, error2, degrees }
            }
            Self::Blocks { pairs, step } => {
                let n = pairs.len() as f64;
                let squares = pairs.iter().map(|(x, y)| (x - ratio * y - mean).powi(2)).sum::<f64>();
                let rounding = step * step * (1.0 + ratio * ratio) / 12.0;
                let error2 = (squares / (n - 1.0)).max(rounding) / n;
                Side { mean, error2, degrees: n - 1.0 }
            }
        }
    }

    /// The two-sided p value: the chance of a difference this large if the true means were equal.
    pub fn chance(&self) -> f64 {
        self.chance_of(1.0)
    }

    /// The same if the true ratio of the means were `ratio`.
    fn chance_of(&self, ratio: f64) -> f64 {
        let (x, y) = self.means();
        self.contrast(ratio).chance(x.abs() + (ratio * y).abs())
    }

    pub fn difference(&self) -> Estimate {
        let found = self.contrast(1.0);
        let half = found.half_width();
        Estimate { low: found.mean - half, mid: found.mean, high: found.mean + half }
    }

    /// The smallest true difference, as a share of `y`, that the test finds in four of five cases.
    pub fn detectable(&self) -> f64 {
        self.contrast(1.0).detectable() / self.means().1
    }

    /// The ratio `x / y` of non-negative figures with its interval, which has no upper bound if `y`
    /// varies so much that any large ratio is possible. `y` is not 0.
    pub fn ratio(&self) -> Estimate {
        let (x, y) = self.means();
        let mid = x / y;
        let holds = |ratio: f64| self.chance_of(ratio) >= LEVEL;
        let low = if holds(0.0) { 0.0 } else { border(mid, 0.0, holds) };
        let scale = if mid > 0.0 { mid } else { self.contrast(1.0).error2.sqrt() / y };
        let mut factor = 2.0;
        while holds(mid + scale * (factor - 1.0)) && scale > 0.0 {
            factor *= 2.0;
            if factor > FARTHEST {
                return Estimate { low, mid, high: f64::INFINITY };
            }
        }
        Estimate { low, mid, high: border(mid, mid + scale * (factor - 1.0), holds) }
    }
}

/// The border between `inside`, which holds, and `outside`, which does not, by bisection.
fn border(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let least = 1e-9 * (outside - inside).abs();
    while (outside - inside).abs() > least.max(1e-7 * inside.abs().max(outside.abs())) {
        let middle = f64::midpoint(inside, outside);
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::statistics::spread;
    use rand::{SeedableRng, rngs::StdRng};
    use rand_distr::{Distribution, Normal};

    fn side(values: &[f64]) -> Side {
        Side::of(&spread(values).unwrap(), 0.0).unwrap()
    }

    fn ratio_of(x: Side, y: Side) -> Estimate {
        Sides::Separate(x, y).ratio()
    }

    #[test]
    fn what_a_block_adds_to_both_sides_cancels_out() {
        let drift = [100.0, 110.0, 121.0, 133.0, 146.0];
        let pairs: Vec<(f64, f64)> = drift.iter().map(|y| (y * 1.05 + y % 3.0 * 0.1, *y)).collect();
        let sides = Sides::Blocks { pairs: pairs.clone(), step: 0.0 };
        let (ratio, difference) = (sides.ratio(), sides.difference());
        assert!(ratio.low > 1.04 && ratio.high < 1.06 && difference.low > 0.0, "{ratio:?} {difference:?}");
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let separate = ratio_of(side(&x), side(&y));
        assert!(separate.low < 0.9 && separate.high > 1.2, "the drift hides it: {separate:?}");
        assert!(sides.detectable() < 0.02 && Sides::Separate(side(&x), side(&y)).detectable() > 0.3);
    }

    #[test]
    fn equal_pairs_are_not_exact_if_the_figures_are_rounded() {
        let sides = Sides::Blocks { pairs: vec![(0.135, 0.127); 2], step: 0.008 };
        assert!(sides.chance() > LEVEL, "{}", sides.chance());
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-3 * expected.abs().max(1e-3)
    }

    #[test]
    fn a_difference_has_welchs_interval() {
        // Errors of 15 and 15 with 4 degrees each: 8 together, whose quantile is 2.3060.
        let (x, y) = (
            Side { mean: 110.0, error2: 15.0, degrees: 4.0 },
            Side { mean: 100.0, error2: 15.0, degrees: 4.0 },
        );
        let found = Sides::Separate(x, y).difference();
        let half = 2.3060 * 30_f64.sqrt();
        assert!(close(found.low, 10.0 - half) && close(found.high, 10.0 + half), "{found:?}");
        // 25 and 5 with 3 and 4: 30^2 / (25^2 / 3 + 5^2 / 4).
        let (x, y) = (Side { error2: 25.0, degrees: 3.0, ..x }, Side { error2: 5.0, ..y });
        let found = Sides::Separate(x, y).contrast(1.0).degrees;
        assert!(close(found, 4.1942), "{found}");
    }

    #[test]
    fn a_ratio_has_fiellers_interval() {
        // With equal relative errors the degrees hardly move with the ratio, and Fieller's closed
        // form is (m +- sqrt(m^2 - (1 - g)(m^2 - t^2 vx / y^2))) / (1 - g), g = t^2 vy / y^2.
        let (x, y) = (side(&[99.0, 100.0, 101.0]), side(&[49.5, 50.0, 50.5]));
        let t2 = 2.776_445_f64.powi(2);
        let (g, v) = (t2 * y.error2 / 2500.0, t2 * x.error2 / 2500.0);
        let root = (4.0 - (1.0 - g) * (4.0 - v)).sqrt();
        let found = Sides::Separate(x, y).ratio();
        assert!(close(found.low, (2.0 - root) / (1.0 - g)), "{found:?}");
        assert!(close(found.high, (2.0 + root) / (1.0 - g)), "{found:?}");
    }

    #[test]
    fn the_ratio_excludes_one_exactly_where_the_difference_excludes_zero() {
        let y = side(&[100.0, 104.0, 96.0]);
        for shift in 0..200 {
            let x = side(&[99.0, 105.0, 103.0].map(|value| value + f64::from(shift) * 0.1));
            let sides = Sides::Separate(x, y);
            let (ratio, difference) = (sides.ratio(), sides.difference());
            assert_eq!(ratio.low > 1.0, difference.low > 0.0, "{shift}: {ratio:?} {difference:?}");
            assert_eq!(sides.chance() < LEVEL, difference.low > 0.0, "{shift}");
        }
    }

    #[test]
    fn equal_measurements_have_an_interval_without_width() {
        let found = ratio_of(side(&[2.0, 2.0, 2.0]), side(&[4.0, 4.0]));
        assert!(close(found.low, 0.5) && close(found.high, 0.5), "{found:?}");
        assert_eq!(
            Sides::Separate(side(&[0.3, 0.3, 0.3]), side(&[0.3, 0.3])).chance().to_bits(),
            1.0_f64.to_bits()
        );
    }

    #[test]
    fn a_ratio_to_a_mean_that_varies_much_has_no_upper_bound() {
        let nothing = ratio_of(side(&[1.0, 1.1]), side(&[1.0, 2.0]));
        assert!(nothing.high.is_infinite() && nothing.low < 1.0, "{nothing:?}");
        let proven = ratio_of(side(&[50.0, 51.0]), side(&[1.0, 1.3]));
        assert!(proven.high.is_infinite() && proven.low > 10.0, "{proven:?}");
        assert!(ratio_of(side(&[99.0, 100.0, 101.0]), side(&[50.0, 50.5, 49.5])).high.is_finite());
    }

    #[test]
    fn a_ratio_of_zero_has_both_ends() {
        let found = ratio_of(side(&[0.0, 0.0, 0.0]), side(&[3.0, 4.0, 3.5]));
        assert!(found.low == 0.0 && (0.0..1e-6).contains(&found.high), "{found:?}");
    }

    #[test]
    fn equal_rounded_figures_are_not_exact() {
        // What memtier writes: latencies in steps of 8 microseconds.
        let sides = |n: usize| {
            let (here, there) = (vec![0.135; n], vec![0.127; n]);
            let step = step(here.iter().chain(&there).copied());
            assert!((step - 0.008).abs() < 1e-9, "{step}");
            [here, there].map(|values| Side::of(&spread(&values).unwrap(), step).unwrap())
        };
        let chance = |n| {
            let [x, y] = sides(n);
            Sides::Separate(x, y).chance()
        };
        assert!(chance(2) > LEVEL, "two of a side: {}", chance(2));
        assert!((0.001..LEVEL).contains(&chance(3)), "three of a side: {}", chance(3));
        assert_eq!(step([0.3, 0.1 + 0.2].into_iter()).to_bits(), 0.0_f64.to_bits());
    }

    /// Measurements of two sides whose true means have this ratio, over and over.
    fn samples(n: usize, variation: (f64, f64), true_ratio: f64) -> impl Iterator<Item = (Side, Side)> {
        let mut random = StdRng::seed_from_u64(7);
        let mut sample = move |mean: f64, variation: f64| {
            let normal = Normal::new(mean, mean * variation).unwrap();
            side(&(0..n).map(|_| normal.sample(&mut random)).collect::<Vec<f64>>())
        };
        std::iter::repeat_with(move || (sample(true_ratio * 100.0, variation.0), sample(100.0, variation.1)))
    }

    #[test]
    fn intervals_hold_exactly_what_the_test_does_not_reject() {
        for (x, y) in samples(3, (0.1, 0.05), 1.5).take(100) {
            let sides = Sides::Separate(x, y);
            let of = sides.ratio();
            let held = of.low <= 1.5 && 1.5 <= of.high;
            assert_eq!(held, sides.chance_of(1.5) >= LEVEL, "{x:?} {y:?}");
            let of = sides.difference();
            assert_eq!(of.low <= 0.0 && 0.0 <= of.high, sides.chance() >= LEVEL, "{x:?} {y:?}");
        }
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for n in [3, 5, 10] {
            for variation in [(0.01, 0.01), (0.05, 0.05), (0.1, 0.1), (0.1, 0.01)] {
                for true_ratio in [1.0, 1.5] {
                    // What the test of the true ratio does not reject is in the interval.
                    let all = samples(n, variation, true_ratio).take(2000);
                    let holds =
                        |(x, y): &(Side, Side)| Sides::Separate(*x, *y).chance_of(true_ratio) >= LEVEL;
                    let held = all.filter(holds).count();
                    let share = held as f64 / 2000.0;
                    assert!(
                        (0.93..=0.98).contains(&share),
                        "n {n}, variation {variation:?}, ratio {true_ratio}: {share} held it"
                    );
                }
            }
        }
    }
}

//! Intervals of a ratio and of a difference of two means, for a few measurements each.
//!
//! Both invert Welch's t test: the interval holds every value that the test does not reject at
//! 5 %. The hypothesis for the ratio `r` is `x - r y = 0`, which gives Fieller's interval with
//! Welch's degrees of freedom. So the ratio's interval excludes 1 exactly if the difference's
//! excludes 0. Pure.

use crate::figures::FARTHEST;
use dragstrip_crds::measured::{Estimate, Spread};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The test rejects hypotheses whose p value is lower.
const LEVEL: f64 = 0.05;

/// The smallest step between any two of `values`, which shows how a tool rounded them; 0 if all
/// are the same.
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
        half_width(self.error2, self.degrees)
    }

    fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, error2: self.error2 * factor * factor, ..self }
    }
}

fn half_width(error2: f64, degrees: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees);
    student.map_or(0.0, |student| student.inverse_cdf(1.0 - LEVEL / 2.0) * error2.sqrt())
}

/// Welch and Satterthwaite's degrees of freedom of a difference.
fn degrees(x: Side, y: Side) -> f64 {
    let error2 = x.error2 + y.error2;
    error2 * error2 / (x.error2.powi(2) / x.degrees + y.error2.powi(2) / y.degrees)
}

/// The two-sided p value: the chance of a difference this large if the true means were equal.
pub fn chance(x: Side, y: Side) -> f64 {
    let (distance, error2) = ((x.mean - y.mean).abs(), x.error2 + y.error2);
    // Sums of floating-point numbers are never exactly equal, hence the relative limit.
    if error2.sqrt() <= 1e-12 * (x.mean.abs() + y.mean.abs()) {
        return if distance <= 1e-9 * (x.mean.abs() + y.mean.abs()) { 1.0 } else { 0.0 };
    }
    let student = StudentsT::new(0.0, 1.0, degrees(x, y));
    student.map_or(1.0, |student| 2.0 * student.sf(distance / error2.sqrt()))
}

pub fn difference(x: Side, y: Side) -> Estimate {
    let (mid, half) = (x.mean - y.mean, half_width(x.error2 + y.error2, degrees(x, y)));
    Estimate { low: mid - half, mid, high: mid + half }
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

/// The ratio `x / y` of non-negative figures with its interval, which has no upper bound if `y`
/// varies so much that any large ratio is possible. `y` is not 0.
pub fn ratio(x: Side, y: Side) -> Estimate {
    let mid = x.mean / y.mean;
    let holds = |ratio: f64| chance(x, y.times(ratio)) >= LEVEL;
    let low = if holds(0.0) { 0.0 } else { border(mid, 0.0, holds) };
    let scale = if mid > 0.0 { mid } else { (x.error2 + y.error2).sqrt() / y.mean };
    let mut factor = 2.0;
    while holds(mid + scale * (factor - 1.0)) && scale > 0.0 {
        factor *= 2.0;
        if factor > FARTHEST {
            return Estimate { low, mid, high: mid + scale * FARTHEST };
        }
    }
    Estimate { low, mid, high: border(mid, mid + scale * (factor - 1.0), holds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::is_open;
    use dragstrip_results::statistics::spread;
    use rand::{SeedableRng, rngs::StdRng};
    use rand_distr::{Distribution, Normal};

    fn side(values: &[f64]) -> Side {
        Side::of(&spread(values).unwrap(), 0.0).unwrap()
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
        let found = difference(x, y);
        let half = 2.3060 * 30_f64.sqrt();
        assert!(close(found.low, 10.0 - half) && close(found.high, 10.0 + half), "{found:?}");
        // 25 and 5 with 3 and 4: 30^2 / (25^2 / 3 + 5^2 / 4).
        let (x, y) = (Side { error2: 25.0, degrees: 3.0, ..x }, Side { error2: 5.0, ..y });
        assert!(close(degrees(x, y), 4.1942), "{}", degrees(x, y));
    }

    #[test]
    fn a_ratio_has_fiellers_interval() {
        // With equal relative errors the degrees hardly move with the ratio, and Fieller's closed
        // form is (m +- sqrt(m^2 - (1 - g)(m^2 - t^2 vx / y^2))) / (1 - g), g = t^2 vy / y^2.
        let (x, y) = (side(&[99.0, 100.0, 101.0]), side(&[49.5, 50.0, 50.5]));
        let t2 = 2.776_445_f64.powi(2);
        let (g, v) = (t2 * y.error2 / 2500.0, t2 * x.error2 / 2500.0);
        let root = (4.0 - (1.0 - g) * (4.0 - v)).sqrt();
        let found = ratio(x, y);
        assert!(close(found.low, (2.0 - root) / (1.0 - g)), "{found:?}");
        assert!(close(found.high, (2.0 + root) / (1.0 - g)), "{found:?}");
    }

    #[test]
    fn the_ratio_excludes_one_exactly_where_the_difference_excludes_zero() {
        let y = side(&[100.0, 104.0, 96.0]);
        for shift in 0..200 {
            let x = side(&[99.0, 105.0, 103.0].map(|value| value + f64::from(shift) * 0.1));
            let (ratio, difference) = (ratio(x, y), difference(x, y));
            assert_eq!(ratio.low > 1.0, difference.low > 0.0, "{shift}: {ratio:?} {difference:?}");
            assert_eq!(chance(x, y) < LEVEL, difference.low > 0.0, "{shift}");
        }
    }

    #[test]
    fn equal_measurements_have_an_interval_without_width() {
        let found = ratio(side(&[2.0, 2.0, 2.0]), side(&[4.0, 4.0]));
        assert!(close(found.low, 0.5) && close(found.high, 0.5), "{found:?}");
        assert_eq!(chance(side(&[0.3, 0.3, 0.3]), side(&[0.3, 0.3])).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn a_ratio_to_a_mean_that_varies_much_has_no_upper_bound() {
        let nothing = ratio(side(&[1.0, 1.1]), side(&[1.0, 2.0]));
        assert!(is_open(&nothing) && nothing.low < 1.0, "{nothing:?}");
        let proven = ratio(side(&[50.0, 51.0]), side(&[1.0, 1.3]));
        assert!(is_open(&proven) && proven.low > 10.0, "{proven:?}");
        assert!(!is_open(&ratio(side(&[99.0, 100.0, 101.0]), side(&[50.0, 50.5, 49.5]))));
    }

    #[test]
    fn a_ratio_of_zero_has_both_ends() {
        let found = ratio(side(&[0.0, 0.0, 0.0]), side(&[3.0, 4.0, 3.5]));
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
        let [x, y] = sides(2);
        assert!(chance(x, y) > LEVEL, "two of a side: {}", chance(x, y));
        let [x, y] = sides(3);
        assert!((0.001..LEVEL).contains(&chance(x, y)), "three of a side: {}", chance(x, y));
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
            let of = ratio(x, y);
            let held = of.low <= 1.5 && 1.5 <= of.high;
            assert_eq!(held, chance(x, y.times(1.5)) >= LEVEL, "{x:?} {y:?}");
            let of = difference(x, y);
            assert_eq!(of.low <= 0.0 && 0.0 <= of.high, chance(x, y) >= LEVEL, "{x:?} {y:?}");
        }
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for n in [3, 5, 10] {
            for variation in [(0.01, 0.01), (0.05, 0.05), (0.1, 0.1), (0.1, 0.01)] {
                for true_ratio in [1.0, 1.5] {
                    // What the test of the true ratio does not reject is in the interval.
                    let all = samples(n, variation, true_ratio).take(2000);
                    let held = all.filter(|(x, y)| chance(*x, y.times(true_ratio)) >= LEVEL).count();
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

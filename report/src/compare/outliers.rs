//! Flags measurements that lie far from the others; nothing drops them. Pure.

use super::interval::step;
use crate::{document::Row, figures::default_margin};
use dragstrip_results::statistics::{median, spread};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

const LEVEL: f64 = 0.05;
/// Rounding alone can put two equal figures this many steps apart.
const STEPS: f64 = 2.0;

fn steps(rows: &[Row]) -> BTreeMap<(String, String), f64> {
    let mut values: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let of = values.entry((row.phase.clone(), row.metric.clone())).or_default();
        of.extend(row.counted().map(|sample| sample.value));
    }
    values.into_iter().map(|(key, values)| (key, step(values.into_iter()))).collect()
}

pub fn mark(rows: &mut [Row]) {
    let steps = steps(rows);
    for row in rows {
        let counted: Vec<f64> = row.counted().map(|sample| sample.value).collect();
        let step = steps.get(&(row.phase.clone(), row.metric.clone())).copied().unwrap_or_default();
        let far = far(&counted, default_margin(&row.metric), STEPS * step);
        for (sample, far) in row.samples.iter_mut().filter(|sample| !sample.is_invalid()).zip(far) {
            sample.outlier = far;
        }
    }
}

/// The largest distance from the mean, in standard deviations, that 19 of 20 samples of size `n`
/// stay within (Grubbs, two-sided).
fn grubbs(n: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, n - 2.0).ok()?;
    let t2 = student.inverse_cdf(1.0 - LEVEL / (2.0 * n)).powi(2);
    Some((n - 1.0) / n.sqrt() * (t2 / (n - 2.0 + t2)).sqrt())
}

/// Which of `values` are outliers by Grubbs' test. An outlier is also more than `margin` of the
/// median and more than `least` away from it, so that a last digit does not make one.
fn far(values: &[f64], margin: f64, least: f64) -> Vec<bool> {
    let median_value = median(values);
    let matters = |value: f64| {
        let distance = (value - median_value).abs();
        distance > margin * median_value.abs() && distance > least
    };
    let spread = spread(values).filter(|_| values.len() > 2);
    let limit = spread
        .and_then(|spread| Some((spread.mean, grubbs(values.len() as f64)? * spread.standard_deviation?)));
    let far =
        |value: &f64| limit.is_some_and(|(mean, limit)| (value - mean).abs() > limit) && matters(*value);
    values.iter().map(far).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Sample;

    #[test]
    fn the_limits_of_grubbs_are_those_of_the_tables() {
        // Grubbs and Beck (1972), two-sided 5 %.
        for (n, limit) in [(3.0, 1.1543), (4.0, 1.4812), (5.0, 1.7150), (10.0, 2.2900)] {
            let found = grubbs(n).unwrap();
            assert!((found - limit).abs() < 1e-3, "{n}: {found}");
        }
    }

    #[test]
    fn one_of_three_that_is_half_the_others_is_flagged() {
        assert_eq!(far(&[100.0, 101.0, 50.0], 0.03, 2.0), [false, false, true]);
    }

    #[test]
    fn a_last_digit_and_ordinary_spread_are_not_flagged() {
        assert_eq!(far(&[0.375, 0.375, 0.383], 0.05, 0.0), [false; 3]);
        assert_eq!(far(&[0.127, 0.127, 0.135], 0.05, 0.016), [false; 3], "one step of memtier's");
        assert_eq!(far(&[100.0, 104.0, 97.0, 102.0], 0.03, 2.0), [false; 4]);
        assert_eq!(far(&[100.0, 50.0], 0.03, 0.0), [false; 2], "with two, nothing says which");
    }

    #[test]
    fn the_rounding_step_comes_from_all_combinations() {
        let row = |values: [f64; 3]| {
            let sample = |value| Sample { value, ..Sample::default() };
            Row { metric: "P99Milliseconds".to_owned(), samples: values.map(sample).into(), ..Row::default() }
        };
        let mut rows = [row([0.127, 0.127, 0.135]), row([0.127, 0.127, 0.903])];
        mark(&mut rows);
        let flagged = rows.map(|row| row.samples.iter().filter(|sample| sample.outlier).count());
        assert_eq!(flagged, [0, 1], "one step is not an outlier, a hundred are");
    }
}

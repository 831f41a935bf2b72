//! Statistics over repetitions and over the seconds of one: mean, standard deviation,
//! coefficient of variation, the 95 % confidence interval of the mean, and trends.

use dragstrip_crds::measured::Spread;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided 95 % quantile of Student's t for `degrees` of freedom.
fn student_t_95(degrees: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, degrees).ok().map(|student| student.inverse_cdf(0.975))
}

/// The mean of `values`; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The sum of squared distances of `values` from their mean.
pub fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// How `values` spread; `None` when there are none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = mean(values);
    let deviation = (values.len() > 1).then(|| (squares(values) / (n - 1.0)).sqrt());
    Some(Spread {
        repetitions: u32::try_from(values.len()).unwrap_or(u32::MAX),
        mean,
        standard_deviation: deviation,
        coefficient_of_variation: deviation.filter(|_| mean != 0.0).map(|deviation| deviation / mean),
        confidence95: deviation.and_then(|deviation| Some(student_t_95(n - 1.0)? * deviation / n.sqrt())),
    })
}

/// The median of `values`; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// A part of a series at another level than the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its first value.
    pub from: usize,
    /// The first value after it.
    pub to: usize,
    /// Mean of its values.
    pub inside: f64,
    /// Mean of the others.
    pub outside: f64,
    /// Difference of the two means, in standard errors of noise whose neighbouring values are as
    /// much alike as those of this series.
    pub significance: f64,
}

/// Most values that are scanned: the scan takes their square.
const MOST_SCANNED: usize = 600;
/// Shortest part and shortest rest: a single value has no level.
const SHORTEST_PART: usize = 2;

/// The part of `values` that differs most from the rest, by the scan over all parts of Levin and
/// Kline (1985) for an epidemic change. `None` for fewer than four values and for values that do not
/// differ. Longer series are scanned by the means of equally many neighbours, so that a load of days
/// takes no longer than one of minutes.
pub fn other_part(values: &[f64]) -> Option<Part> {
    let width = values.len().div_ceil(MOST_SCANNED).max(1);
    let means: Vec<f64> = values.chunks_exact(width).map(mean).collect();
    let part = scan(&means)?;
    Some(Part { from: part.from * width, to: part.to * width, ..part })
}

fn scan(values: &[f64]) -> Option<Part> {
    let (n, total) = (values.len(), values.iter().sum::<f64>());
    let mut best: Option<(f64, Part)> = None;
    for from in 0..n {
        let mut sum = 0.0;
        for to in from + 1..=n {
            sum += values[to - 1];
            let (inner, outer) = (to - from, n - (to - from));
            if inner < SHORTEST_PART || outer < SHORTEST_PART {
                continue;
            }
            let (inside, outside) = (sum / inner as f64, (total - sum) / outer as f64);
            let distance = (inside - outside).abs() * (inner as f64 * outer as f64 / n as f64).sqrt();
            if best.as_ref().is_none_or(|(most, _)| distance > *most) {
                best = Some((distance, Part { from, to, inside, outside, significance: 0.0 }));
            }
        }
    }
    let (distance, part) = best.filter(|(distance, _)| *distance > 0.0)?;
    let level = |place| if (part.from..part.to).contains(&place) { part.inside } else { part.outside };
    let rest: Vec<f64> = values.iter().enumerate().map(|(place, value)| value - level(place)).collect();
    let deviation = long_run_deviation(&rest)?;
    let significance = if deviation > 0.0 { distance / deviation } else { f64::INFINITY };
    Some(Part { significance, ..part })
}

/// Standard deviation of the mean of many values of the process that `noise` is of, times the root
/// of their number: that of one value, larger by as much as neighbouring values are alike. The
/// process is taken as autoregressive of first order; its coefficient is corrected for the bias
/// of short series (Kendall 1954).
fn long_run_deviation(noise: &[f64]) -> Option<f64> {
    let n = noise.len() as f64;
    let squares: f64 = noise.iter().map(|value| value * value).sum();
    if squares <= 0.0 {
        return Some(0.0);
    }
    let neighbours: f64 = noise.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let found = neighbours / squares;
    let alike = (found + (1.0 + 4.0 * found) / n).clamp(0.0, 0.97);
    let variance = squares / (n - 2.0);
    Some((variance * (1.0 + alike) / (1.0 - alike)).sqrt()).filter(|deviation| deviation.is_finite())
}

/// The slope of a straight line through `values`, per step, by least squares, and the chance
/// of one as steep without any trend (two-sided t test of the slope, whose standard error counts how
/// much neighbouring values are alike); `None` for fewer than
/// three values and for values that do not differ.
pub fn slope(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, mean(values));
    let steps = || values.iter().enumerate().map(|(step, value)| (step as f64 - middle, value - mean));
    let across: f64 = steps().map(|(x, _)| x * x).sum();
    let slope = steps().map(|(x, y)| x * y).sum::<f64>() / across;
    let rest: Vec<f64> = steps().map(|(x, y)| y - slope * x).collect();
    let error = long_run_deviation(&rest)? / across.sqrt();
    let student = StudentsT::new(0.0, 1.0, n - 2.0).ok().filter(|_| slope != 0.0)?;
    // A line without any error leaves nothing to chance.
    let chance = if error > 0.0 { 2.0 * student.sf((slope / error).abs()) } else { 0.0 };
    Some((slope, chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_distinguished_from_noise() {
        let noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0, -0.1, 0.3, -0.3, 0.1];
        let (flat, chance) = slope(&noise.map(|value| 100.0 + value)).unwrap();
        assert!(flat.abs() < 0.05 && chance > 0.1, "{flat} {chance}");
        let rising: Vec<f64> = noise.iter().enumerate().map(|(i, value)| i as f64 + value).collect();
        let (steep, chance) = slope(&rising).unwrap();
        assert!((steep - 1.0).abs() < 0.1 && chance < 1e-6, "{steep} {chance}");
        assert_eq!(slope(&[5.0; 9]), None, "no slope, no test");
        assert_eq!(slope(&[1.0, 2.0]), None, "two values are always a line");
    }

    #[test]
    fn the_part_at_another_level_is_found() {
        let mut values: Vec<f64> = (0..30).map(|second| 100.0 + f64::from(second % 3)).collect();
        values[10..20].iter_mut().for_each(|value| *value *= 0.7);
        let part = other_part(&values).unwrap();
        assert_eq!((part.from, part.to), (10, 20));
        assert!((part.inside / part.outside - 0.7).abs() < 0.01 && part.significance > 20.0, "{part:?}");
        assert_eq!(other_part(&[5.0; 9]), None, "nothing differs");
        let mut week: Vec<f64> = (0..604_800).map(|second| 100.0 + f64::from(second % 3)).collect();
        week[..302_400].iter_mut().for_each(|value| *value *= 0.7);
        let part = other_part(&week).unwrap();
        assert_eq!(
            (part.from.min(part.to % 604_800), part.from.max(part.to % 604_800)),
            (0, 302_400),
            "{part:?}"
        );
        assert_eq!(other_part(&[1.0, 2.0, 3.0]), None, "too few");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
        for (degrees, quantile) in
            [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (30.0, 2.042), (1000.0, 1.962)]
        {
            let found = student_t_95(degrees).unwrap();
            assert!((found - quantile).abs() < 5e-4, "{degrees} degrees of freedom: {found}");
        }
    }

    #[test]
    fn five_values_give_the_textbook_interval() {
        let spread = spread(&[10.0, 12.0, 9.0, 11.0, 13.0]).unwrap();
        assert!((spread.mean - 11.0).abs() < 1e-12);
        assert!((spread.standard_deviation.unwrap() - 1.581_138_83).abs() < 1e-8);
        assert!((spread.confidence95.unwrap() - 2.776_445_1 * 1.581_138_83 / 5f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_nothing() {
        assert_eq!(spread(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(spread(&[]), None);
    }
}

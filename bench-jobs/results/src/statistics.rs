//! Statistics over repetitions: mean, standard deviation, coefficient of
//! variation and the 95 % confidence interval of the mean.

use dragstrip_crds::measured::Spread;

/// Two-sided 95 % quantiles of Student's t for 1..=30 degrees of freedom
/// (NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2).
const STUDENT_T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

// Beyond the table the value of the next lower tabulated row is taken: the interval is never too narrow.
fn student_t(degrees_of_freedom: usize) -> f64 {
    match degrees_of_freedom {
        1..=30 => STUDENT_T_975[degrees_of_freedom - 1],
        31..=60 => 2.042,
        61..=120 => 2.000,
        _ => 1.980,
    }
}

/// How `values` spread; `None` when there are none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
    Some(Spread {
        repetitions: u32::try_from(values.len()).unwrap_or(u32::MAX),
        mean,
        standard_deviation: deviation,
        coefficient_of_variation: deviation.filter(|_| mean != 0.0).map(|deviation| deviation / mean),
        confidence95: deviation.map(|deviation| student_t(values.len() - 1) * deviation / n.sqrt()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_give_the_textbook_interval() {
        let spread = spread(&[10.0, 12.0, 9.0, 11.0, 13.0]).unwrap();
        assert!((spread.mean - 11.0).abs() < 1e-12);
        assert!((spread.standard_deviation.unwrap() - 1.581_138_83).abs() < 1e-8);
        assert!((spread.confidence95.unwrap() - 2.776 * 1.581_138_83 / 5f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_nothing() {
        assert_eq!(spread(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(spread(&[]), None);
    }
}

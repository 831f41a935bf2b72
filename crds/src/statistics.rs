//! Statistics over repetitions: mean, standard deviation, coefficient of
//! variation and the 95 % confidence interval of the mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How repeated measurements of one quantity spread. Unit: that quantity's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// How many repetitions were measured.
    pub repetitions: u32,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divided by n - 1); absent for one repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
    /// Standard deviation divided by the mean; absent for one repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coefficient_of_variation: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean, by Student's t; absent for one repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence95: Option<f64>,
}

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

impl Spread {
    /// The spread of `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let repetitions = u32::try_from(n).unwrap_or(u32::MAX);
        if n == 1 {
            return Some(Self {
                repetitions,
                mean,
                standard_deviation: None,
                coefficient_of_variation: None,
                confidence95: None,
            });
        }
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let deviation = variance.sqrt();
        Some(Self {
            repetitions,
            mean,
            standard_deviation: Some(deviation),
            coefficient_of_variation: (mean != 0.0).then(|| deviation / mean),
            confidence95: Some(student_t(n - 1) * deviation / (n as f64).sqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_give_the_textbook_interval() {
        let spread = Spread::of(&[10.0, 12.0, 9.0, 11.0, 13.0]).unwrap();
        assert!((spread.mean - 11.0).abs() < 1e-12);
        assert!((spread.standard_deviation.unwrap() - 1.581_138_83).abs() < 1e-8);
        assert!((spread.confidence95.unwrap() - 2.776 * 1.581_138_83 / 5f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_nothing() {
        assert_eq!(Spread::of(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(Spread::of(&[]), None);
    }
}

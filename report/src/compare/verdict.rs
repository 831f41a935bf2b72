//! The verdict on a ratio and its interval, given the margin. Pure.

use crate::figures::percent;
use dragstrip_crds::{measured::Estimate, suite::ComparisonVerdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// One side has a single measurement.
    Measurements,
    /// All measurements of one side are of one start of its server.
    Starts,
}

impl Missing {
    fn remedy(self) -> &'static str {
        match self {
            Self::Measurements => "from a single measurement: measure each side at least 3 times",
            Self::Starts => {
                "from a single start of a server, and the next start may differ as much: measure each side with at least 3 servers, as variants of a BenchmarkSuite with a datastore of their own"
            }
        }
    }
}

/// Judges `ratio`: Same if its interval lies within `margin`, Better or Worse if it excludes 1 and
/// the ratio is farther from 1 than `margin`. `detectable` is the smallest difference that the
/// comparison finds.
pub fn judge(
    ratio: &Estimate,
    detectable: Result<f64, Missing>,
    margin: f64,
    more_is_better: Option<bool>,
) -> (ComparisonVerdict, String) {
    let unclear = |reason: String| (ComparisonVerdict::Unclear, reason);
    let detectable = match detectable {
        Ok(detectable) => detectable,
        Err(missing) => return unclear(format!("{} {}", percent(ratio.mid), missing.remedy())),
    };
    if ratio.high.is_infinite() && ratio.low <= 1.0 {
        return unclear("the measurements vary too much to estimate a ratio".to_owned());
    }
    let (least, most) = (1.0 / (1.0 + margin), 1.0 + margin);
    let margin = format!("the margin of ±{:.1} %", margin * 100.0);
    let high = if ratio.high.is_infinite() { "∞".to_owned() } else { percent(ratio.high) };
    let change = format!("{} ({} to {high})", percent(ratio.mid), percent(ratio.low));
    if ratio.low >= least && ratio.high <= most {
        return (ComparisonVerdict::Same, format!("{change}: the whole interval lies within {margin}"));
    }
    let significant = ratio.low > 1.0 || ratio.high < 1.0;
    let exceeds_margin = ratio.mid < least || ratio.mid > most;
    match (significant, exceeds_margin, more_is_better) {
        (true, true, Some(more)) => {
            let better = (ratio.mid > 1.0) == more;
            let verdict = if better { ComparisonVerdict::Better } else { ComparisonVerdict::Worse };
            (verdict, format!("{change}: significant and larger than {margin}"))
        }
        (true, true, None) => {
            unclear(format!("{change}: different, but the tool does not say whether more is better"))
        }
        (true, false, _) => unclear(format!("{change}: significant but within {margin}")),
        (false, ..) => unclear(format!(
            "{change}: not significant; these measurements show a difference of {:.1} % or more, and more repetitions a smaller one",
            detectable * 100.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(low: f64, mid: f64, high: f64, more_is_better: Option<bool>) -> ComparisonVerdict {
        judge(&Estimate { low, mid, high }, Ok(0.1), 0.03, more_is_better).0
    }

    #[test]
    fn better_and_worse_are_significant_and_exceed_the_margin() {
        let more = Some(true);
        assert_eq!(verdict(1.05, 1.10, 1.15, more), ComparisonVerdict::Better);
        assert_eq!(verdict(0.85, 0.90, 0.95, more), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.85, 0.90, 0.95, Some(false)), ComparisonVerdict::Better, "a shorter latency");
        assert_eq!(verdict(1.01, 1.02, 1.05, more), ComparisonVerdict::Unclear, "significant alone");
        assert_eq!(
            verdict(0.98, 1.10, 1.22, more),
            ComparisonVerdict::Unclear,
            "larger than the margin alone"
        );
        assert_eq!(verdict(1.05, 1.10, 1.15, None), ComparisonVerdict::Unclear, "the direction is unknown");
    }

    #[test]
    fn figures_are_the_same_if_the_interval_is_within_the_margin() {
        assert_eq!(verdict(0.98, 1.00, 1.02, Some(true)), ComparisonVerdict::Same);
        assert_eq!(
            verdict(1.005, 1.01, 1.02, Some(true)),
            ComparisonVerdict::Same,
            "small, and proven to be"
        );
        assert_eq!(verdict(0.90, 1.00, 1.10, Some(true)), ComparisonVerdict::Unclear, "too wide to know");
    }

    #[test]
    fn a_ratio_without_an_upper_end_is_judged_by_its_lower_one() {
        assert_eq!(verdict(17.9, 44.0, f64::INFINITY, Some(false)), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.9, 44.0, f64::INFINITY, Some(false)), ComparisonVerdict::Unclear);
        let (_, reason) =
            judge(&Estimate { low: 17.9, mid: 44.0, high: f64::INFINITY }, Ok(0.1), 0.03, Some(true));
        assert!(reason.contains("to ∞"), "{reason}");
    }

    #[test]
    fn one_measurement_or_one_start_proves_nothing() {
        let alone = Estimate { low: 2.0, mid: 2.0, high: 2.0 };
        for (missing, remedy) in
            [(Missing::Measurements, "at least 3 times"), (Missing::Starts, "at least 3 servers")]
        {
            let (verdict, reason) = judge(&alone, Err(missing), 0.03, Some(true));
            assert_eq!(verdict, ComparisonVerdict::Unclear);
            assert!(reason.contains("+100.0 %") && reason.contains(remedy), "{reason}");
        }
    }

    #[test]
    fn an_unclear_comparison_says_what_it_could_have_shown() {
        let wide = Estimate { low: 0.9, mid: 1.0, high: 1.1 };
        let (_, reason) = judge(&wide, Ok(0.123), 0.03, Some(true));
        assert!(reason.contains("a difference of 12.3 % or more"), "{reason}");
    }
}

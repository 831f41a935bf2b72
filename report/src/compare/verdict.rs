//! What a ratio and its interval say, given the noise. Pure.

use super::interval::is_open;
use crate::{document::RunRecord, figures::percent};
use dragstrip_crds::{measured::Estimate, suite::ComparisonVerdict, thresholds::MetricName};

/// Noise of throughput, and of everything but latency, where no calibration tells.
const DEFAULT_THROUGHPUT: f64 = 0.03;
/// Noise of latency where no calibration tells.
const DEFAULT_LATENCY: f64 = 0.05;
/// Less than this is nobody's business, however still the nodes are.
const LEAST: f64 = 0.01;

fn is_latency(metric: &str) -> bool {
    metric.ends_with("Milliseconds")
}

/// The margin of `metric` where no calibration tells, as a share of the figure.
pub fn default_margin(metric: &str) -> f64 {
    if is_latency(metric) { DEFAULT_LATENCY } else { DEFAULT_THROUGHPUT }
}

/// How much equal measurements differ, as calibrations found it: the largest of all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    pub throughput: Option<f64>,
    pub p99: Option<f64>,
}

impl Noise {
    pub fn of<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Self {
        let found = runs.filter_map(|run| run.noise.as_ref());
        found.fold(Self::default(), |most, noise| Self {
            throughput: [most.throughput, Some(noise.throughput)]
                .into_iter()
                .flatten()
                .max_by(f64::total_cmp),
            p99: [most.p99, noise.p99].into_iter().flatten().max_by(f64::total_cmp),
        })
    }

    fn calibrated(&self, metric: &str) -> Option<f64> {
        match MetricName::named(metric) {
            Some(
                MetricName::OperationsPerSecond
                | MetricName::BytesPerSecond
                | MetricName::ElementsPerSecond
                | MetricName::SecondsPerBatch,
            ) => self.throughput,
            _ if is_latency(metric) => self.p99,
            _ => None,
        }
    }

    /// The share of a figure up to which a difference is noise.
    pub fn margin(&self, metric: &str) -> f64 {
        self.calibrated(metric).unwrap_or_else(|| default_margin(metric)).max(LEAST)
    }

    /// The margins for people.
    pub fn told(&self) -> String {
        let [rate, latency] = [MetricName::OperationsPerSecond, MetricName::P99Milliseconds].map(|metric| {
            let metric = metric.to_string();
            let whence = if self.calibrated(&metric).is_some() { "as calibrated" } else { "assumed" };
            format!("±{:.1} % ({whence})", self.margin(&metric) * 100.0)
        });
        format!("noise: throughput {rate}, latency {latency}")
    }
}

/// What `ratio` says, and why.
pub fn judge(
    ratio: &Estimate,
    known: bool,
    margin: f64,
    more_is_better: Option<bool>,
) -> (ComparisonVerdict, String) {
    let noise = format!("the noise of ±{:.1} %", margin * 100.0);
    let (least, most) = (1.0 / (1.0 + margin), 1.0 + margin);
    if known && is_open(ratio) && ratio.low <= 1.0 {
        let reason = "the measurements differ so much that their means tell nothing of the ratio".to_owned();
        return (ComparisonVerdict::Unclear, reason);
    }
    if !known {
        let reason = format!(
            "{}, of one measurement on a side: how they spread is not known, so measure at least 3 times",
            percent(ratio.mid)
        );
        return (ComparisonVerdict::Unclear, reason);
    }
    let high = if is_open(ratio) { "no end".to_owned() } else { percent(ratio.high) };
    let told = format!("{} ({} to {high})", percent(ratio.mid), percent(ratio.low));
    if ratio.low >= least && ratio.high <= most {
        return (ComparisonVerdict::Same, format!("{told}: the whole interval is within {noise}"));
    }
    let excludes = ratio.low > 1.0 || ratio.high < 1.0;
    let beyond = ratio.mid < least || ratio.mid > most;
    match (excludes, beyond, more_is_better) {
        (true, true, Some(more)) => {
            let verdict =
                if (ratio.mid > 1.0) == more { ComparisonVerdict::Better } else { ComparisonVerdict::Worse };
            (verdict, format!("{told}: beyond chance and {noise}"))
        }
        (true, true, None) => {
            (ComparisonVerdict::Unclear, format!("{told}: different, but nobody says whether more is better"))
        }
        (true, false, _) => {
            (ComparisonVerdict::Unclear, format!("{told}: beyond chance, but not beyond {noise}"))
        }
        (false, ..) => (
            ComparisonVerdict::Unclear,
            format!(
                "{told}: the interval holds no difference and one beyond {noise}; more repetitions would narrow it"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(low: f64, mid: f64, high: f64, more_is_better: Option<bool>) -> ComparisonVerdict {
        judge(&Estimate { low, mid, high }, true, 0.03, more_is_better).0
    }

    #[test]
    fn better_and_worse_are_beyond_chance_and_noise() {
        let more = Some(true);
        assert_eq!(verdict(1.05, 1.10, 1.15, more), ComparisonVerdict::Better);
        assert_eq!(verdict(0.85, 0.90, 0.95, more), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.85, 0.90, 0.95, Some(false)), ComparisonVerdict::Better, "a shorter latency");
        assert_eq!(verdict(1.01, 1.02, 1.05, more), ComparisonVerdict::Unclear, "beyond chance alone");
        assert_eq!(verdict(0.98, 1.10, 1.22, more), ComparisonVerdict::Unclear, "beyond noise alone");
        assert_eq!(verdict(1.05, 1.10, 1.15, None), ComparisonVerdict::Unclear, "nobody says what is better");
    }

    #[test]
    fn the_same_is_what_is_known_to_be_within_the_noise() {
        assert_eq!(verdict(0.98, 1.00, 1.02, Some(true)), ComparisonVerdict::Same);
        assert_eq!(verdict(1.005, 1.01, 1.02, Some(true)), ComparisonVerdict::Same, "small, and known to be");
        assert_eq!(verdict(0.90, 1.00, 1.10, Some(true)), ComparisonVerdict::Unclear, "too wide to know");
    }

    #[test]
    fn a_ratio_without_an_upper_end_is_judged_by_its_lower_one() {
        assert_eq!(verdict(17.9, 44.0, 44e6, Some(false)), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.9, 44.0, 44e6, Some(false)), ComparisonVerdict::Unclear);
        let (_, reason) = judge(&Estimate { low: 17.9, mid: 44.0, high: 44e6 }, true, 0.03, Some(true));
        assert!(reason.contains("to no end"), "{reason}");
    }

    #[test]
    fn one_measurement_says_nothing() {
        let alone = Estimate { low: 2.0, mid: 2.0, high: 2.0 };
        let (verdict, reason) = judge(&alone, false, 0.03, Some(true));
        assert_eq!(verdict, ComparisonVerdict::Unclear);
        assert!(reason.contains("+100.0 %") && reason.contains("at least 3"), "{reason}");
    }

    #[test]
    fn margins_come_from_calibrations_and_are_never_nothing() {
        let known = Noise { throughput: Some(0.06), p99: Some(0.001) };
        let margins = ["OperationsPerSecond", "P50Milliseconds", "ServerUsedBytes"]
            .map(|metric| known.margin(metric).to_string());
        assert_eq!(margins, ["0.06", "0.01", "0.03"]);
        assert_eq!(Noise::default().told(), "noise: throughput ±3.0 % (assumed), latency ±5.0 % (assumed)");
    }
}

//! The verdict on a ratio and its interval, given the noise. Pure.

use crate::{
    document::RunRecord,
    figures::{is_open, percent},
};
use dragstrip_crds::{measured::Estimate, suite::ComparisonVerdict, thresholds::MetricName};

/// The largest difference of throughput, and of everything except latency, that is called none, and
/// its noise without a calibration.
const DEFAULT_THROUGHPUT: f64 = 0.03;
/// The same of latency.
const DEFAULT_LATENCY: f64 = 0.05;
/// The least noise, however quiet the nodes are: smaller differences matter to nobody.
const LEAST: f64 = 0.01;

fn is_latency(metric: &str) -> bool {
    metric.ends_with("Milliseconds")
}

/// The noise of `metric` without a calibration, as a share of the figure.
pub fn default_margin(metric: &str) -> f64 {
    if is_latency(metric) { DEFAULT_LATENCY } else { DEFAULT_THROUGHPUT }
}

/// How much equal measurements differ: the largest calibrated noise of all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Noise {
    pub throughput: Option<f64>,
    pub p99: Option<f64>,
}

impl Noise {
    pub fn of<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Self {
        let larger = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
        runs.filter_map(|run| run.noise.as_ref()).fold(Self::default(), |most, noise| Self {
            throughput: larger(most.throughput, Some(noise.throughput)),
            p99: larger(most.p99, noise.p99),
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
            Some(
                MetricName::P99Milliseconds
                | MetricName::P999Milliseconds
                | MetricName::P9999Milliseconds
                | MetricName::MaxMilliseconds,
            ) => self.p99,
            _ => None,
        }
    }

    /// The share of a figure up to which a difference is noise.
    pub fn of_metric(&self, metric: &str) -> f64 {
        self.calibrated(metric).unwrap_or_else(|| default_margin(metric)).max(LEAST)
    }

    /// The share of a figure up to which a proven difference is called none. Quiet nodes make it
    /// smaller; noisy ones never make it larger: what cannot be seen is not the same.
    pub fn margin(&self, metric: &str) -> f64 {
        self.of_metric(metric).min(default_margin(metric))
    }

    pub fn sentence(&self) -> String {
        let [rate, latency] = [MetricName::OperationsPerSecond, MetricName::P99Milliseconds].map(|metric| {
            let metric = metric.to_string();
            let source = if self.calibrated(&metric).is_some() { "calibrated" } else { "assumed" };
            format!("±{:.1} % ({source})", self.of_metric(&metric) * 100.0)
        });
        format!("Noise: throughput {rate}, latency {latency}.")
    }
}

/// Judges `ratio`: Same if its interval lies within `margin`, Better or Worse if it excludes 1 and
/// the ratio is farther from 1 than `noise`.
pub fn judge(
    ratio: &Estimate,
    has_interval: bool,
    (margin, noise): (f64, f64),
    more_is_better: Option<bool>,
) -> (ComparisonVerdict, String) {
    let unclear = |reason: String| (ComparisonVerdict::Unclear, reason);
    if !has_interval {
        let change = percent(ratio.mid);
        return unclear(format!("{change} from a single measurement: measure each side at least 3 times"));
    }
    if is_open(ratio) && ratio.low <= 1.0 {
        return unclear("the measurements vary too much to estimate a ratio".to_owned());
    }
    let within = |share: f64| (1.0 / (1.0 + share), 1.0 + share);
    let ((least, most), (below, above)) = (within(margin), within(noise));
    let noise = format!("the noise of ±{:.1} %", noise * 100.0);
    let high = if is_open(ratio) { "∞".to_owned() } else { percent(ratio.high) };
    let change = format!("{} ({} to {high})", percent(ratio.mid), percent(ratio.low));
    if ratio.low >= least && ratio.high <= most {
        let margin = margin * 100.0;
        return (ComparisonVerdict::Same, format!("{change}: the whole interval lies within ±{margin:.1} %"));
    }
    let significant = ratio.low > 1.0 || ratio.high < 1.0;
    let exceeds_noise = ratio.mid < below || ratio.mid > above;
    match (significant, exceeds_noise, more_is_better) {
        (true, true, Some(more)) => {
            let better = (ratio.mid > 1.0) == more;
            let verdict = if better { ComparisonVerdict::Better } else { ComparisonVerdict::Worse };
            (verdict, format!("{change}: significant and larger than {noise}"))
        }
        (true, true, None) => {
            unclear(format!("{change}: different, but the tool does not say whether more is better"))
        }
        (true, false, _) => unclear(format!("{change}: significant but within {noise}")),
        (false, ..) => unclear(format!(
            "{change}: the interval includes both no difference and one larger than {noise}; more repetitions would narrow it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(low: f64, mid: f64, high: f64, more_is_better: Option<bool>) -> ComparisonVerdict {
        judge(&Estimate { low, mid, high }, true, (0.03, 0.03), more_is_better).0
    }

    #[test]
    fn better_and_worse_are_significant_and_exceed_the_noise() {
        let more = Some(true);
        assert_eq!(verdict(1.05, 1.10, 1.15, more), ComparisonVerdict::Better);
        assert_eq!(verdict(0.85, 0.90, 0.95, more), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.85, 0.90, 0.95, Some(false)), ComparisonVerdict::Better, "a shorter latency");
        assert_eq!(verdict(1.01, 1.02, 1.05, more), ComparisonVerdict::Unclear, "significant alone");
        assert_eq!(verdict(0.98, 1.10, 1.22, more), ComparisonVerdict::Unclear, "larger than noise alone");
        assert_eq!(verdict(1.05, 1.10, 1.15, None), ComparisonVerdict::Unclear, "the direction is unknown");
    }

    #[test]
    fn figures_are_the_same_if_the_interval_is_within_the_noise() {
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
        assert_eq!(verdict(17.9, 44.0, 44e6, Some(false)), ComparisonVerdict::Worse);
        assert_eq!(verdict(0.9, 44.0, 44e6, Some(false)), ComparisonVerdict::Unclear);
        let (_, reason) =
            judge(&Estimate { low: 17.9, mid: 44.0, high: 44e6 }, true, (0.03, 0.03), Some(true));
        assert!(reason.contains("to ∞"), "{reason}");
    }

    #[test]
    fn one_measurement_proves_nothing() {
        let alone = Estimate { low: 2.0, mid: 2.0, high: 2.0 };
        let (verdict, reason) = judge(&alone, false, (0.03, 0.03), Some(true));
        assert_eq!(verdict, ComparisonVerdict::Unclear);
        assert!(reason.contains("+100.0 %") && reason.contains("at least 3"), "{reason}");
    }

    #[test]
    fn noise_comes_from_calibrations_and_makes_no_difference_the_same() {
        let calibrated = Noise { throughput: Some(0.06), p99: Some(0.001) };
        let metrics = ["OperationsPerSecond", "P99Milliseconds", "P50Milliseconds", "ServerUsedBytes"];
        let noise = metrics.map(|metric| calibrated.of_metric(metric).to_string());
        assert_eq!(noise, ["0.06", "0.01", "0.05", "0.03"], "a p99 says nothing of a median");
        let margins = metrics.map(|metric| calibrated.margin(metric).to_string());
        assert_eq!(margins, ["0.03", "0.01", "0.05", "0.03"]);
        let loud = |mid: f64| {
            judge(&Estimate { low: mid - 0.01, mid, high: mid + 0.01 }, true, (0.05, 0.15), Some(false)).0
        };
        assert_eq!(loud(1.12), ComparisonVerdict::Unclear, "12 % more is not the same, whatever the noise");
        assert_eq!(loud(1.02), ComparisonVerdict::Same);
        assert_eq!(loud(1.30), ComparisonVerdict::Worse);
        assert_eq!(
            Noise::default().sentence(),
            "Noise: throughput ±3.0 % (assumed), latency ±5.0 % (assumed)."
        );
    }
}

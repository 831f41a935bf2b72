//! Figures for people: their names, units and digits. Pure.

use crate::compare::is_open;
use dragstrip_crds::{
    measured::{Estimate, Spread},
    thresholds::MetricName,
    units::thousands,
};

/// Short heading of a metric, with its unit: `Ops/s`, `p99 ms`.
pub fn heading(metric: &str, unit: &str) -> String {
    let short = match MetricName::named(metric) {
        Some(MetricName::OperationsPerSecond) => "Ops/s",
        Some(MetricName::BytesPerSecond) => "MB/s",
        Some(MetricName::MeanMilliseconds) => "Avg ms",
        Some(MetricName::P50Milliseconds) => "p50 ms",
        Some(MetricName::P90Milliseconds) => "p90 ms",
        Some(MetricName::P95Milliseconds) => "p95 ms",
        Some(MetricName::P99Milliseconds) => "p99 ms",
        Some(MetricName::P999Milliseconds) => "p99.9 ms",
        Some(MetricName::P9999Milliseconds) => "p99.99 ms",
        Some(MetricName::MaxMilliseconds) => "Max ms",
        Some(MetricName::HitRatio) => "Hit ratio",
        Some(MetricName::Errors) => "Errors",
        Some(MetricName::ElementsPerSecond) => "Items/s",
        Some(MetricName::SecondsPerBatch) => "ms/batch",
        Some(MetricName::ServerUsedBytes) => "Used MiB",
        Some(MetricName::ServerRssBytes) => "RSS MiB",
        Some(MetricName::ServerPeakBytes) => "Peak MiB",
        Some(MetricName::BytesPerKey) => "B/key",
        None if unit.is_empty() => metric,
        None => return format!("{metric} {unit}"),
    };
    short.to_owned()
}

/// By what a figure is divided to be in the unit of its [`heading`].
fn divisor(metric: &str) -> f64 {
    match MetricName::named(metric) {
        Some(MetricName::BytesPerSecond) => 1e6,
        Some(MetricName::SecondsPerBatch) => 1e-3,
        Some(MetricName::ServerUsedBytes | MetricName::ServerRssBytes | MetricName::ServerPeakBytes) => {
            1024.0 * 1024.0
        }
        _ => 1.0,
    }
}

/// `value` with the digits that people can use.
// Rounded figures of reports are far below 2^63: the cast is exact.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    if size >= 1000.0 {
        format!("{sign}{}", thousands(size.round() as u64))
    } else if size >= 100.0 || size.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.0005 {
        format!("{value:.3}")
    } else {
        format!("{value:.2e}")
    }
}

/// A figure of `metric` in the unit of its [`heading`].
pub fn figure(metric: &str, value: f64) -> String {
    let value = value / divisor(metric);
    let milliseconds = metric.ends_with("Milliseconds") && value < 1000.0;
    if milliseconds { format!("{value:.3}") } else { number(value) }
}

/// A mean with its interval: `151,234 ±1,200`.
pub fn spread(metric: &str, spread: &Spread) -> String {
    let mean = figure(metric, spread.mean);
    match spread.confidence95 {
        Some(half) => format!("{mean} ±{}", figure(metric, half)),
        None => mean,
    }
}

/// A ratio: `1.12`, and `0.021` where two digits would tell too little.
pub fn ratio(value: f64) -> String {
    if value.abs() >= 100.0 {
        number(value)
    } else if value.abs() >= 0.1 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// The ends of a ratio's interval.
pub fn ends(estimate: &Estimate) -> (String, String) {
    let high = if is_open(estimate) { "∞".to_owned() } else { ratio(estimate.high) };
    (ratio(estimate.low), high)
}

/// A ratio with its interval: `1.12 [1.09, 1.15]`.
pub fn interval(estimate: &Estimate, known: bool) -> String {
    let mid = ratio(estimate.mid);
    if !known {
        return mid;
    }
    let (low, high) = ends(estimate);
    format!("{mid} [{low}, {high}]")
}

/// What a ratio adds or takes away: `+12.3 %`.
pub fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() >= 1000.0 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_people_can_use() {
        assert_eq!(figure("OperationsPerSecond", 151_234.4), "151,234");
        assert_eq!(figure("OperationsPerSecond", 42.25), "42.2");
        assert_eq!(figure("P99Milliseconds", 0.375), "0.375");
        assert_eq!(figure("BytesPerSecond", 2_500_000.0), "2.500");
        assert_eq!(figure("ServerUsedBytes", 1_048_576.0 * 1221.63), "1,222");
        assert_eq!(figure("SecondsPerBatch", 0.070_664), "70.7");
        assert_eq!(figure("Errors", 0.0), "0");
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(number(0.000_012), "1.20e-5");
    }

    #[test]
    fn ratios_of_any_size_are_told_with_their_interval() {
        assert_eq!(interval(&Estimate { low: 1.094, mid: 1.12, high: 1.151 }, true), "1.12 [1.09, 1.15]");
        assert_eq!(interval(&Estimate { low: 17.9, mid: 44.0, high: 44e6 }, true), "44.00 [17.90, ∞]");
        assert_eq!(interval(&Estimate { low: 0.021, mid: 0.021, high: 0.021 }, false), "0.021");
        assert_eq!((percent(2.26).as_str(), percent(0.753).as_str()), ("+126.0 %", "-24.7 %"));
    }
}

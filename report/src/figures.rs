//! Numbers, ratios and metric names as people read them. Pure.

use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::TOOL_RATE,
    thresholds::MetricName,
    units::number,
};

/// The largest difference of throughput, and of everything except latency, that is called none.
const DEFAULT_THROUGHPUT: f64 = 0.03;
/// The same of latency.
const DEFAULT_LATENCY: f64 = 0.05;

/// The largest difference of `metric` that is called none unless declared, as a share of the figure.
pub fn default_margin(metric: &str) -> f64 {
    if metric.ends_with("Milliseconds") { DEFAULT_LATENCY } else { DEFAULT_THROUGHPUT }
}

/// How the figures of one of several servers begin.
pub const MEMBER: &str = "member ";

/// The CPUs that all servers together used.
pub const SERVER_CPUS: &str = "server CPUs";

/// Share of reads that found their key in the last third of a load, and keys evicted per second.
pub const CACHE: [&str; 2] = ["warm hit ratio", "evictions/s"];

/// Whether `metric` repeats another figure of the same measurement: bytes per second are operations
/// per second times a constant, the tool's own rate is the same once more, the servers' CPUs are
/// throughput divided by that per core, and members add up.
pub fn repeats(metric: &str) -> bool {
    metric == MetricName::BytesPerSecond.to_string()
        || [TOOL_RATE, SERVER_CPUS].contains(&metric)
        || metric.starts_with(MEMBER)
}

/// The heading of a metric and the divisor that converts its values to the heading's unit.
fn presentation(metric: &str) -> Option<(&'static str, f64)> {
    let mebibyte = 1024.0 * 1024.0;
    Some(match MetricName::named(metric)? {
        MetricName::OperationsPerSecond => ("Ops/s", 1.0),
        MetricName::BytesPerSecond => ("MB/s", 1e6),
        MetricName::MeanMilliseconds => ("Avg ms", 1.0),
        MetricName::P50Milliseconds => ("p50 ms", 1.0),
        MetricName::P90Milliseconds => ("p90 ms", 1.0),
        MetricName::P95Milliseconds => ("p95 ms", 1.0),
        MetricName::P99Milliseconds => ("p99 ms", 1.0),
        MetricName::P999Milliseconds => ("p99.9 ms", 1.0),
        MetricName::P9999Milliseconds => ("p99.99 ms", 1.0),
        MetricName::MaxMilliseconds => ("Max ms", 1.0),
        MetricName::OperationsPerCoreSecond => ("Ops/core-s", 1.0),
        MetricName::HitRatio => ("Hit ratio", 1.0),
        MetricName::Errors => ("Errors", 1.0),
        MetricName::ElementsPerSecond => ("Items/s", 1.0),
        MetricName::SecondsPerBatch => ("ms/batch", 1e-3),
        MetricName::ServerUsedBytes => ("Used MiB", mebibyte),
        MetricName::ServerRssBytes => ("RSS MiB", mebibyte),
        MetricName::ServerPeakBytes => ("Peak MiB", mebibyte),
        MetricName::BytesPerKey => ("B/key", 1.0),
    })
}

/// Short heading of a metric with its unit: `Ops/s`, `p99 ms`.
pub fn heading(metric: &str, unit: &str) -> String {
    match presentation(metric) {
        Some((heading, _)) => heading.to_owned(),
        None if metric == TOOL_RATE => "Tool's own ops/s".to_owned(),
        None if metric.ends_with(unit) => metric.to_owned(),
        None => format!("{metric} {unit}"),
    }
}

/// A figure of `metric` in the unit of its [`heading`].
pub fn figure(metric: &str, value: f64) -> String {
    let value = value / presentation(metric).map_or(1.0, |(_, divisor)| divisor);
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

/// A ratio: `1.12`, or `0.021` where two digits would say too little.
pub fn ratio(value: f64) -> String {
    if value.abs() >= 100.0 {
        number(value)
    } else if value.abs() >= 0.1 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// The interval of a ratio: `[1.09, 1.15]`.
pub fn interval(estimate: &Estimate) -> String {
    let high = if estimate.high.is_infinite() { "∞".to_owned() } else { ratio(estimate.high) };
    format!("[{}, {high}]", ratio(estimate.low))
}

/// A ratio as a change: `+12.3 %`.
pub fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() >= 1000.0 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

/// At most three digits, for axes and matrices: 1.23M, 45.6k, 1k.
pub fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let places = match scaled.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let digits = format!("{scaled:.places$}");
    let trimmed = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{}{suffix}", if digits.contains('.') { trimmed } else { &digits })
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
    fn a_heading_names_the_unit_once() {
        let headings = [("add_jobs", "jobs/s"), ("Set ns/op", "ns/op"), ("ram", "")]
            .map(|(metric, unit)| heading(metric, unit));
        assert_eq!(headings, ["add_jobs jobs/s", "Set ns/op", "ram"]);
    }

    #[test]
    fn ratios_of_any_size_have_an_interval() {
        let of = |low, mid, high| interval(&Estimate { low, mid, high });
        assert_eq!((ratio(1.12).as_str(), of(1.094, 1.12, 1.151).as_str()), ("1.12", "[1.09, 1.15]"));
        assert_eq!((ratio(44.0).as_str(), of(17.9, 44.0, f64::INFINITY).as_str()), ("44.00", "[17.90, ∞]"));
        assert_eq!(ratio(0.021), "0.021");
        assert_eq!((percent(2.26).as_str(), percent(0.753).as_str()), ("+126.0 %", "-24.7 %"));
    }

    #[test]
    fn a_figure_on_an_axis_has_three_digits() {
        for (value, text) in [
            (1_234_567.0, "1.23M"),
            (200_000.0, "200k"),
            (0.5, "0.5"),
            (0.0, "0"),
            (999_900.0, "1M"),
            (0.012, "0.012"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}

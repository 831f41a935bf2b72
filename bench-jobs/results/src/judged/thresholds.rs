//! Whether the figures of a run meet its thresholds. Pure.

use crate::result::TOTAL;
use dragstrip_crds::{
    measured::Estimate,
    run::{MemoryMoment, MemoryReading, OperationStatus, PhaseStatus, SUM, TOOL_RATE},
    thresholds::{MetricName, Threshold, ThresholdStatus},
    units::{Decimal, thousands},
};

/// Every row of `thresholds` for the `declared` phases, of which `phases` were measured. A
/// threshold without a phase is about each phase that has its figure.
pub fn evaluate(thresholds: &[Threshold], declared: &[&str], phases: &[PhaseStatus]) -> Vec<ThresholdStatus> {
    let of = |(index, threshold): (usize, &Threshold)| {
        let named = threshold.phase.as_deref();
        let about: Vec<&str> = named.map_or_else(|| declared.to_vec(), |phase| vec![phase]);
        let rows: Vec<ThresholdStatus> =
            about.iter().map(|phase| row(index, threshold, phase, find(phases, phase))).collect();
        let unmeasured = |row: &ThresholdStatus| find(phases, &row.phase).is_none();
        let known = rows.iter().any(|row| row.value.is_some());
        rows.into_iter()
            .filter(move |row| !known || row.value.is_some() || unmeasured(row))
            .collect::<Vec<_>>()
    };
    thresholds.iter().enumerate().flat_map(of).collect()
}

/// What is missed, in one text; `None` when everything is met.
pub fn missed(rows: &[ThresholdStatus]) -> Option<String> {
    let missed: Vec<&str> = rows.iter().filter(|row| !row.met).map(|row| row.message.as_str()).collect();
    (!missed.is_empty()).then(|| missed.join("; "))
}

fn find<'a>(phases: &'a [PhaseStatus], name: &str) -> Option<&'a PhaseStatus> {
    phases.iter().find(|phase| phase.name == name)
}

fn row(index: usize, threshold: &Threshold, phase: &str, found: Option<&PhaseStatus>) -> ThresholdStatus {
    let operation = found.and_then(|found| operation(found, threshold.operation.as_deref()));
    let value = found.and_then(|found| match threshold.metric {
        Some(metric) => figure(metric, found, operation),
        None => Some(tool_figure(&threshold.metric(), found, operation)?.0),
    });
    let name = operation.map(|operation| operation.operation.as_str()).or(threshold.operation.as_deref());
    let name = name.unwrap_or(TOTAL);
    let what = format!("{phase} {name} {}", threshold.metric());
    let (met, message) = match value {
        Some(value) => stands(&what, &Estimate { low: value, mid: value, high: value }, threshold),
        None => (false, format!("{what}: {}", absence(threshold, found, operation))),
    };
    ThresholdStatus {
        threshold: u32::try_from(index).unwrap_or(u32::MAX),
        metric: threshold.metric(),
        cell: None,
        phase: phase.to_owned(),
        operation: name.to_owned(),
        value,
        met,
        state: None,
        message,
    }
}

/// Whether `figure`, which `what` names, is within the limits of `threshold`, in one sentence.
pub fn stands(what: &str, figure: &Estimate, threshold: &Threshold) -> (bool, String) {
    let only = threshold.only_significant;
    let (highest, lowest) = if only { (figure.high, figure.low) } else { (figure.mid, figure.mid) };
    let interval =
        if only { format!(" ({} to {})", short(figure.low), short(figure.high)) } else { String::new() };
    let value = |limit: &Decimal| format!("{what} {}{interval}", distinct(figure.mid, limit.value()));
    if let Some(minimum) = threshold.minimum.as_ref().filter(|minimum| highest < minimum.value()) {
        return (false, format!("{} is below minimum {minimum}", value(minimum)));
    }
    if let Some(maximum) = threshold.maximum.as_ref().filter(|maximum| lowest > maximum.value()) {
        return (false, format!("{} is above maximum {maximum}", value(maximum)));
    }
    if only && figure.low < figure.high && is_blind(figure, threshold) {
        let remedy = "too uncertain to show even a factor of two: measure more repetitions";
        return (false, format!("{what} {}{interval} is {remedy}", short(figure.mid)));
    }
    let outside = threshold.minimum.as_ref().is_some_and(|minimum| figure.mid < minimum.value())
        || threshold.maximum.as_ref().is_some_and(|maximum| figure.mid > maximum.value());
    let verb = if outside { "is not significantly outside" } else { "meets" };
    (true, format!("{what} {}{interval} {verb} {}", short(figure.mid), limits(threshold)))
}

pub fn limits(threshold: &Threshold) -> String {
    let limits = [("minimum", &threshold.minimum), ("maximum", &threshold.maximum)];
    let named = limits.into_iter().filter_map(|(name, limit)| Some(format!("{name} {}", limit.as_ref()?)));
    named.collect::<Vec<_>>().join(" and ")
}

/// Whether `figure` is so uncertain that its interval holds `limit` and as much as `factor` times it: it
/// shows no difference, and could hide one of that factor.
pub fn hides(figure: &Estimate, limit: f64, factor: f64) -> bool {
    [limit, limit * factor].iter().all(|value| (figure.low..=figure.high).contains(value))
}

/// Whether a threshold would pass although the truth may be half its minimum, or twice its maximum.
fn is_blind(figure: &Estimate, threshold: &Threshold) -> bool {
    threshold.minimum.as_ref().is_some_and(|minimum| hides(figure, minimum.value(), 0.5))
        || threshold.maximum.as_ref().is_some_and(|maximum| hides(figure, maximum.value(), 2.0))
}

fn short(value: f64) -> String {
    if value.is_infinite() {
        return "∞".to_owned();
    }
    let decimals = if value.abs() >= 1000.0 { 0 } else { 3 };
    let short = format!("{value:.decimals$}");
    if short.contains('.') { short.trim_end_matches('0').trim_end_matches('.').to_owned() } else { short }
}

/// `value` short enough for people, and long enough to be another number than `limit`.
fn distinct(value: f64, limit: f64) -> String {
    let short = short(value);
    if short.parse::<f64>().is_ok_and(|short| short.to_bits() != limit.to_bits()) {
        short
    } else {
        value.to_string()
    }
}

/// Why there is no figure.
fn absence(
    threshold: &Threshold,
    phase: Option<&PhaseStatus>,
    operation: Option<&OperationStatus>,
) -> String {
    match (phase, operation, &threshold.operation) {
        (None, _, _) => "the phase was not measured".to_owned(),
        (Some(phase), None, Some(_)) if !phase.operations.is_empty() => {
            let known: Vec<&str> = phase.operations.iter().map(|row| row.operation.as_str()).collect();
            format!("the phase has no such operation: it has {}", known.join(", "))
        }
        (Some(phase), None, None) if phase.operations.len() > 1 => {
            "its operations ran one after the other and have no total: name one in operation".to_owned()
        }
        (_, Some(row), _)
            if threshold.metric.is_some_and(is_percentile) && row.latency_milliseconds.p50.is_some() =>
        {
            format!("{} requests are too few: it takes 10 above the percentile", thousands(row.count))
        }
        (Some(phase), ..) if threshold.tool_metric.is_some() => {
            format!("it was not measured; the tool's metrics are: {}", tool_metrics(phase))
        }
        _ => "the phase has no such figure".to_owned(),
    }
}

fn is_percentile(metric: MetricName) -> bool {
    use MetricName::{
        P90Milliseconds, P95Milliseconds, P99Milliseconds, P999Milliseconds, P9999Milliseconds,
    };
    matches!(
        metric,
        P90Milliseconds | P95Milliseconds | P99Milliseconds | P999Milliseconds | P9999Milliseconds
    )
}

/// The row called `name`; without one the total, or the only row there is.
pub fn operation<'a>(phase: &'a PhaseStatus, name: Option<&str>) -> Option<&'a OperationStatus> {
    let find = |name: &str| phase.operations.iter().find(|row| row.operation == name);
    match name {
        Some(name) => find(name),
        None => find(TOTAL).or_else(|| phase.operations.first().filter(|_| phase.operations.len() == 1)),
    }
}

/// The figure `metric` of `phase`, and of its row `operation` where it is one of operations.
pub fn figure(metric: MetricName, phase: &PhaseStatus, operation: Option<&OperationStatus>) -> Option<f64> {
    let latency = operation.map(|row| row.latency_milliseconds).unwrap_or_default();
    let batches = phase.batches.as_ref();
    let memory = |pick: fn(&MemoryReading) -> Option<u64>| memory(phase).and_then(pick).map(|it| it as f64);
    match metric {
        MetricName::OperationsPerSecond => operation.map(|row| row.operations_per_second.mean),
        MetricName::BytesPerSecond => operation.map(|row| row.bytes_per_second).filter(|bytes| *bytes > 0.0),
        MetricName::MeanMilliseconds => latency.mean,
        MetricName::P50Milliseconds => latency.p50,
        MetricName::P90Milliseconds => latency.p90,
        MetricName::P95Milliseconds => latency.p95,
        MetricName::P99Milliseconds => latency.p99,
        MetricName::P999Milliseconds => latency.p999,
        MetricName::P9999Milliseconds => latency.p9999,
        MetricName::MaxMilliseconds => latency.max,
        MetricName::OperationsPerCoreSecond => phase.operations_per_core_second,
        MetricName::HitRatio => operation.and_then(|row| hit_ratio(row.hits, row.misses)),
        MetricName::Errors => operation.map(errors),
        MetricName::ElementsPerSecond => batches.map(|batches| batches.elements_per_second.mid),
        MetricName::SecondsPerBatch => batches.map(|batches| batches.seconds_per_batch.mid),
        MetricName::ServerUsedBytes => memory(|reading| reading.used_bytes),
        MetricName::ServerRssBytes => memory(|reading| reading.rss_bytes),
        MetricName::ServerPeakBytes => memory(|reading| reading.peak_bytes),
        MetricName::BytesPerKey => self::memory(phase).and_then(|reading| reading.bytes_per_key),
    }
}

/// The figure `name` that the tool of `phase` reports itself, and its unit, or its name without one.
pub fn tool_figure<'a>(
    name: &'a str,
    phase: &'a PhaseStatus,
    operation: Option<&OperationStatus>,
) -> Option<(f64, &'a str)> {
    if let Some(own) = phase.metrics.iter().find(|metric| metric.name == name) {
        return Some((own.value, own.unit.as_deref().unwrap_or(name)));
    }
    let rate = operation.filter(|_| name == TOOL_RATE)?.tool_operations_per_second?;
    Some((rate, MetricName::OperationsPerSecond.unit()))
}

/// The names of the figures that the tool of `phase` reports itself.
pub fn tool_metrics(phase: &PhaseStatus) -> String {
    let own: Vec<&str> = phase.metrics.iter().map(|metric| metric.name.as_str()).collect();
    if own.is_empty() { "none".to_owned() } else { own.join(", ") }
}

/// Error replies of one repetition, on average: `row` has their sum.
pub fn errors(row: &OperationStatus) -> f64 {
    row.errors as f64 / f64::from(row.operations_per_second.repetitions.max(1))
}

/// Share of reads that found their key, from 0 to 1; `None` where nothing was read.
pub fn hit_ratio(hits: Option<u64>, misses: Option<u64>) -> Option<f64> {
    let (hits, misses) = (hits?, misses?);
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

/// All servers together, after the settle time where there is such a reading.
fn memory(phase: &PhaseStatus) -> Option<&MemoryReading> {
    let of = |moment| phase.memory.iter().find(move |one| one.member == SUM && one.moment == moment);
    of(MemoryMoment::Settled).or_else(|| of(MemoryMoment::RightAfter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn thresholds(rows: Value) -> Vec<Threshold> {
        serde_json::from_value(rows).unwrap()
    }

    fn phase(name: &str, operations: &[(&str, f64, Option<f64>)]) -> PhaseStatus {
        let rows: Vec<Value> = operations
            .iter()
            .map(|(operation, rate, p99)| {
                json!({
                    "operation": operation, "count": 10, "operationsPerSecond": {"repetitions": 1, "mean": rate},
                    "bytesPerSecond": 0.0, "errors": 0, "hits": 9, "misses": 1,
                    "latencyMilliseconds": {"p50": 0.5, "p99": p99}
                })
            })
            .collect();
        serde_json::from_value(
            json!({"name": name, "tool": {"name": "t"}, "operations": rows, "repetitions": []}),
        )
        .unwrap()
    }

    #[test]
    fn each_row_says_with_figure_and_limit_whether_it_is_met() {
        let phases = [phase("read", &[("GET", 1000.0, Some(1.31)), ("TOTAL", 1100.0, Some(1.2))])];
        let table = [
            (
                json!({"metric": "P99Milliseconds", "phase": "read", "operation": "GET", "maximum": "1.2"}),
                false,
                "read GET P99Milliseconds 1.31 is above maximum 1.2",
            ),
            (
                json!({"metric": "P99Milliseconds", "maximum": "1.2"}),
                true,
                "read TOTAL P99Milliseconds 1.2 meets maximum 1.2",
            ),
            (
                json!({"metric": "OperationsPerSecond", "minimum": "1100.0001"}),
                false,
                "read TOTAL OperationsPerSecond 1100 is below minimum 1100.0001",
            ),
            (
                json!({"metric": "HitRatio", "operation": "GET", "minimum": "0.5", "maximum": "1"}),
                true,
                "read GET HitRatio 0.9 meets minimum 0.5 and maximum 1",
            ),
            (
                json!({"metric": "P999Milliseconds", "maximum": "2"}),
                false,
                "read TOTAL P999Milliseconds: 10 requests are too few: it takes 10 above the percentile",
            ),
            (
                json!({"metric": "Errors", "operation": "HGET", "maximum": "0"}),
                false,
                "read HGET Errors: the phase has no such operation: it has GET, TOTAL",
            ),
        ];
        for (threshold, met, message) in table {
            let rows = evaluate(&thresholds(json!([threshold])), &["read"], &phases);
            assert_eq!((rows.len(), rows[0].met, rows[0].message.as_str()), (1, met, message));
        }
    }

    #[test]
    fn an_interval_that_could_hide_a_factor_of_two_meets_no_limit() {
        let threshold = json!([{"metric": "OperationsPerSecond", "minimum": "0.95", "relativeTo": "Baseline",
                                "onlySignificant": true}]);
        let threshold = &thresholds(threshold)[0];
        let met = |low, mid, high| stands("write", &Estimate { low, mid, high }, threshold);
        assert!(met(0.8, 0.9, 1.0).0 && !met(0.8, 0.85, 0.9).0);
        let (blind, message) = met(0.4, 0.8, 1.2);
        assert!(!blind && message.contains("measure more repetitions"), "{message}");
    }

    #[test]
    fn a_figure_that_is_hardly_beyond_its_limit_has_all_its_digits() {
        let phases = [phase("read", &[("TOTAL", 1.0, Some(1.200_04))])];
        let rows = evaluate(
            &thresholds(json!([{"metric": "P99Milliseconds", "maximum": "1.2"}])),
            &["read"],
            &phases,
        );
        assert_eq!(rows[0].message, "read TOTAL P99Milliseconds 1.20004 is above maximum 1.2");
    }

    #[test]
    fn without_a_phase_every_phase_is_meant_that_has_the_figure_and_all_that_were_to_be_measured() {
        let phases = [phase("write", &[("TOTAL", 5.0, None)]), phase("read", &[("TOTAL", 7.0, Some(1.0))])];
        let about = |metric: &str, declared: &[&str]| -> Vec<(String, bool)> {
            let rows = evaluate(&thresholds(json!([{"metric": metric, "maximum": "6"}])), declared, &phases);
            rows.into_iter().map(|row| (row.phase, row.met)).collect()
        };
        let (write, read) = ("write".to_owned(), "read".to_owned());
        assert_eq!(
            about("OperationsPerSecond", &["write", "read"]),
            [(write.clone(), true), (read.clone(), false)]
        );
        assert_eq!(about("P99Milliseconds", &["write", "read"]), [(read.clone(), true)]);
        assert_eq!(
            about("P99Milliseconds", &["write", "read", "again"]),
            [(read.clone(), true), ("again".to_owned(), false)],
            "what was not measured is not good enough"
        );
        assert_eq!(about("BytesPerKey", &["write", "read"]), [(write, false), (read, false)]);
    }

    #[test]
    fn a_figure_that_only_the_tool_reports_is_named_by_tool_metric() {
        let mut measured = phase("read", &[("GET", 1000.0, None)]);
        measured.operations[0].tool_operations_per_second = Some(900.0);
        measured.metrics =
            serde_json::from_value(json!([{"name": "Get ns/op", "value": 217.9, "unit": "ns/op"}])).unwrap();
        let of = |name: &str, minimum: &str| {
            let threshold = json!([{"toolMetric": name, "minimum": minimum}]);
            evaluate(&thresholds(threshold), &["read"], std::slice::from_ref(&measured)).remove(0).message
        };
        assert_eq!(of("Get ns/op", "200"), "read GET Get ns/op 217.9 meets minimum 200");
        assert_eq!(of(TOOL_RATE, "950"), "read GET toolOperationsPerSecond 900 is below minimum 950");
        let unknown = "read GET Set ns/op: it was not measured; the tool's metrics are: Get ns/op";
        assert_eq!(of("Set ns/op", "1"), unknown);
    }

    #[test]
    fn memory_is_that_of_all_servers_when_it_had_settled() {
        let mut loaded = phase("load", &[]);
        loaded.memory = serde_json::from_value(json!([
            {"moment": "RightAfter", "seconds": 1.0, "member": "SUM", "usedBytes": 200, "peakBytes": 300},
            {"moment": "Settled", "seconds": 60.0, "member": "a", "usedBytes": 20},
            {"moment": "Settled", "seconds": 60.0, "member": "SUM", "usedBytes": 100},
        ]))
        .unwrap();
        assert_eq!(figure(MetricName::ServerUsedBytes, &loaded, None), Some(100.0));
        assert_eq!(figure(MetricName::ServerPeakBytes, &loaded, None), None, "of another moment");
    }
}

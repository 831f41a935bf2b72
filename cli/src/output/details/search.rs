//! What searches found: throughput and latency value by value, the knee marked, and
//! latency at shares of the throughput found. Pure.

use crate::output::figures::rate;
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::{
    BenchmarkRunStatus,
    measured::LatencySummary,
    run::{KneeReason, KneeStatus, SearchStatus, Verdict},
    units::thousands,
};

/// Columns of figures after the repetition and what was raised to what.
const FIGURES: [&str; 5] = ["Ops/sec", "p50 ms", "p99 ms", "p99.9 ms", ""];

fn milliseconds(latency: &LatencySummary) -> [String; 3] {
    [latency.p50, latency.p99, latency.p999]
        .map(|value| value.map_or_else(|| "---".to_owned(), |value| format!("{value:.3}")))
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(header.iter().chain(&FIGURES)).add_rows(rows);
    let last = header.len() + FIGURES.len() - 1;
    table.column_iter_mut().take(last).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// One line of figures; `mark` is a remark about it.
fn row(first: Vec<String>, rate: f64, latency: &LatencySummary, mark: &str) -> Vec<String> {
    let figures = std::iter::once(self::rate(rate)).chain(milliseconds(latency));
    first.into_iter().chain(figures).chain([mark.to_owned()]).collect()
}

/// Why a line of figures is not a good one.
fn flaw(followed: bool, verdict: Option<Verdict>) -> String {
    let missed = (!followed).then(|| "not followed".to_owned());
    let verdict = verdict.filter(|verdict| *verdict != Verdict::Valid).map(|verdict| verdict.to_string());
    missed.into_iter().chain(verdict).collect::<Vec<_>>().join(", ")
}

/// The knee of each repetition.
fn knees(search: &SearchStatus) -> impl Iterator<Item = &KneeStatus> {
    let alone = search.knee.iter().filter(|_| search.per_repetition.is_empty());
    search.per_repetition.iter().chain(alone)
}

fn points(search: &SearchStatus) -> Table {
    let knee = |repetition: u32, value: u64| {
        knees(search).any(|knee| knee.value == value && knee.repetition.is_none_or(|of| of == repetition))
    };
    let rows = search.points.iter().map(|point| {
        let first = vec![point.repetition.to_string(), thousands(point.value)];
        let at = knee(point.repetition, point.value);
        let flaw = flaw(point.followed, point.verdict);
        let mark = if at { format!("<- knee {flaw}") } else { flaw };
        row(first, point.operations_per_second, &point.latency_milliseconds, mark.trim_end())
    });
    table(&["Rep", &format!("{:?}", search.raise)], rows.collect())
}

fn shares(search: &SearchStatus) -> Table {
    let rows = search.rates.iter().map(|rate| {
        let share = format!("{:.0}%", rate.share * 100.0);
        let first = vec![rate.repetition.to_string(), share, self::rate(rate.asked_operations_per_second)];
        let flaw = flaw(rate.followed, rate.verdict);
        row(first, rate.operations_per_second, &rate.latency_milliseconds, &flaw)
    });
    table(&["Rep", "Share", "Asked"], rows.collect())
}

fn why(reason: KneeReason) -> &'static str {
    match reason {
        KneeReason::P99 => "the next value's p99 was above the bound",
        KneeReason::Gain => "a further raise gained less throughput than search.until requires",
        KneeReason::NotFollowed => "the server did not follow the next rate",
        KneeReason::Limit => "search.to was reached: the limit is elsewhere",
    }
}

fn summary(search: &SearchStatus) -> String {
    let Some(knee) = &search.knee else {
        return format!("search by {:?}: no knee was found", search.raise);
    };
    let p99 = knee.p99_milliseconds.map(|p99| format!(", p99 {p99:.3} ms")).unwrap_or_default();
    format!(
        "knee at {} {} (from {} to {}): {} ops/s{p99}; {}",
        thousands(knee.value),
        search.raise.unit(),
        thousands(knee.low),
        thousands(knee.high),
        rate(knee.operations_per_second),
        why(knee.why)
    )
}

/// The curves of all searches of a run; empty without a search.
pub fn curves(status: &BenchmarkRunStatus) -> String {
    let searches = status.phases.iter().filter_map(|phase| Some((&phase.name, phase.search.as_ref()?)));
    let texts = searches.map(|(phase, search)| {
        let shares = if search.rates.is_empty() {
            String::new()
        } else {
            format!("\n{phase}: latency in an open loop at shares of that throughput\n{}", shares(search))
        };
        format!("{phase}: {}\n{}{shares}\n", summary(search), points(search))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_curve_is_a_table_with_the_knee_marked() {
        let point = |value: u64, rate: f64, p99: f64| {
            json!({"repetition": 1, "value": value, "operationsPerSecond": rate,
                "latencyMilliseconds": {"p50": p99 / 2.0, "p99": p99}, "configMap": "c"})
        };
        let status: BenchmarkRunStatus = serde_json::from_value(json!({
            "phases": [{
                "name": "knee", "tool": {"name": "loadgen"}, "operations": [], "repetitions": [],
                "search": {
                    "raise": "Connections",
                    "points": [point(8, 80_000.0, 0.4), point(16, 120_000.0, 0.9), point(32, 121_000.0, 2.5)],
                    "knee": {"value": 16, "low": 16, "high": 17, "operationsPerSecond": 120_000.0,
                        "p99Milliseconds": 0.9, "why": "P99"},
                    "rates": [{"repetition": 1, "share": 0.5, "askedOperationsPerSecond": 60_000.0,
                        "operationsPerSecond": 59_999.0, "latencyMilliseconds": {"p50": 0.1, "p99": 0.2, "p999": 0.3},
                        "followed": false, "verdict": "Degraded", "configMap": "c"}]
                }
            }]
        }))
        .unwrap();
        let text = curves(&status);
        let line = |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
        assert!(
            text.starts_with(
                "knee: knee at 16 connections per thread (from 16 to 17): 120,000 ops/s, p99 0.900 ms; \
                 the next value's p99 was above the bound\n"
            ),
            "{text}"
        );
        assert!(line("80,000").contains("0.200") && line("80,000").contains("---"), "{text}");
        assert_eq!(text.matches("<- knee").count(), 1, "{text}");
        assert!(line("<- knee").contains("120,000"), "{text}");
        assert!(line("50%").contains("60,000") && line("50%").contains("not followed, Degraded"), "{text}");
        assert_eq!(curves(&BenchmarkRunStatus::default()), "", "a run without a search has no curve");
    }
}

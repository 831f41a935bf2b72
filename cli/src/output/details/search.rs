//! What searches found: throughput and latency value by value, the knee marked, then at shares
//! of the throughput found. Pure.

use crate::output::figures::rate;
use comfy_table::{CellAlignment, Table, presets};
use dragstrip_crds::{
    BenchmarkRunStatus,
    measured::LatencySummary,
    run::{KneeReason, KneeStatus, SearchStatus, Verdict},
    units::thousands,
};

const HEADER: [&str; 7] = ["Rep", "Ops/sec", "p50 ms", "p99 ms", "p99.9 ms", "Server CPUs", ""];

/// One line of figures at a `place` of the search; `mark` is a remark about it.
fn row(
    (repetition, place): (u32, String),
    rate: f64,
    latency: &LatencySummary,
    server_cpus: Option<f64>,
    mark: String,
) -> Vec<String> {
    let others = [latency.p50, latency.p99, latency.p999, server_cpus]
        .map(|value| value.map_or_else(|| "---".to_owned(), |value| format!("{value:.3}")));
    let figures = [repetition.to_string(), place, self::rate(rate)].into_iter().chain(others);
    figures.chain([mark]).collect()
}

/// Why a line of figures is not a good one.
fn flaw(followed: bool, verdict: Option<Verdict>) -> String {
    let missed = (!followed).then(|| "not followed".to_owned());
    let verdict = verdict.filter(|verdict| *verdict != Verdict::Valid).map(|verdict| verdict.to_string());
    missed.into_iter().chain(verdict).collect::<Vec<_>>().join(", ")
}

/// The points of a search, then the latency in an open loop at shares of the throughput found.
fn table(search: &SearchStatus) -> Table {
    let alone = search.knee.iter().filter(|_| search.per_repetition.is_empty());
    let knees: Vec<&KneeStatus> = search.per_repetition.iter().chain(alone).collect();
    let points = search.points.iter().map(|point| {
        let is_knee = |knee: &&KneeStatus| {
            knee.value == point.value && knee.repetition.is_none_or(|of| of == point.repetition)
        };
        let flaw = flaw(point.followed, point.verdict);
        let mark = if knees.iter().any(is_knee) { format!("<- knee {flaw}") } else { flaw };
        let (rate, latency) = (point.operations_per_second, &point.latency_milliseconds);
        let place = (point.repetition, thousands(point.value));
        row(place, rate, latency, point.server_cpus, mark.trim_end().to_owned())
    });
    let shares = search.rates.iter().map(|share| {
        let percent = share.share.unwrap_or_default() * 100.0;
        let place = format!("{percent:.0}% ({} ops/s)", thousands(share.value));
        let (rate, latency) = (share.operations_per_second, &share.latency_milliseconds);
        let flaw = flaw(share.followed, share.verdict);
        row((share.repetition, place), rate, latency, share.server_cpus, flaw)
    });
    let [repetition, figures @ ..] = HEADER;
    let raised = format!("{:?}", search.raise);
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([repetition, &raised].into_iter().chain(figures)).add_rows(points.chain(shares));
    table.column_iter_mut().take(HEADER.len()).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    table
}

fn why(reason: KneeReason) -> &'static str {
    match reason {
        KneeReason::P99 => "the next value's p99 was above the bound",
        KneeReason::ServerCPUs => "the servers used more CPUs than the bound at the next value",
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
        "knee at {} {} (interval {} to {}): {} ops/s{p99}; {}",
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
    let texts = searches.map(|(phase, search)| format!("{phase}: {}\n{}\n", summary(search), table(search)));
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
                    "rates": [{"repetition": 1, "share": 0.5, "value": 60_000,
                        "operationsPerSecond": 59_999.0, "latencyMilliseconds": {"p50": 0.1, "p99": 0.2, "p999": 0.3},
                        "serverCpus": 0.75, "followed": false, "verdict": "Degraded", "configMap": "c"}]
                }
            }]
        }))
        .unwrap();
        let text = curves(&status);
        let line = |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
        assert!(
            text.starts_with(
                "knee: knee at 16 connections per thread (interval 16 to 17): 120,000 ops/s, p99 0.900 ms; \
                 the next value's p99 was above the bound\n"
            ),
            "{text}"
        );
        assert!(line("80,000").contains("0.200") && line("80,000").contains("---"), "{text}");
        assert_eq!(text.matches("<- knee").count(), 1, "{text}");
        assert!(line("<- knee").contains("120,000"), "{text}");
        assert!(line("50%").contains("0.750"), "the servers' CPUs are missing: {text}");
        assert!(line("50%").contains("60,000") && line("50%").contains("not followed, Degraded"), "{text}");
        assert_eq!(curves(&BenchmarkRunStatus::default()), "", "a run without a search has no curve");
    }
}

//! One line for each fact about a run beside its figures. Pure.

use crate::output::figures::rate;
use dragstrip_crds::{
    BenchmarkRunStatus,
    measured::{LatencySummary, Metric, ScheduleRecord},
    run::{CostStatus, NoiseFigure, NoiseStatus, PhaseStatus, RepetitionStatus, Verdict},
    units::thousands,
};

fn schedule(schedule: &ScheduleRecord) -> String {
    format!(
        "open loop ({}) at {} ops/s: {} scheduled, {} sent, {} answered{}, {} unanswered; sent late by ms: {}{}",
        schedule.kind,
        rate(schedule.operations_per_second),
        thousands(schedule.scheduled),
        thousands(schedule.sent),
        thousands(schedule.answered),
        schedule
            .answered_in_time
            .map(|share| format!(" ({:.1} % in time)", share * 100.0))
            .unwrap_or_default(),
        thousands(schedule.unanswered),
        lag(&schedule.lag_milliseconds),
        schedule
            .wake_lag_p99_milliseconds
            .map(|wake| format!("; woken late by ms: p99 {wake:.3}"))
            .unwrap_or_default(),
    )
}

fn lag(lag: &LatencySummary) -> String {
    let figures = [("p50", lag.p50), ("p99", lag.p99), ("p99.9", lag.p999), ("max", lag.max)];
    let measured = figures.into_iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value?)));
    measured.collect::<Vec<_>>().join(", ")
}

fn metric(metric: &Metric) -> String {
    let unit = metric.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    format!("{}: {}{unit}", metric.name, metric.value)
}

/// The line of a repetition with several clients, or with a hit ratio.
fn repetition(row: &RepetitionStatus) -> Option<String> {
    let clients = (row.pods > 1).then(|| {
        format!(
            "{} client pods, started within {:.3} ms, clocks within {:.3} ms, {:.3} s together",
            row.pods,
            row.start_skew_seconds * 1e3,
            row.clock_offset_seconds * 1e3,
            row.window_seconds,
        )
    });
    let warm = row.warm_hit_ratio.map(|ratio| format!(" ({:.2} % in the last third)", ratio * 100.0));
    let warm = warm.unwrap_or_default();
    let hits = row.hit_ratio.map(|ratio| format!("{:.2} % of reads found their key{warm}", ratio * 100.0));
    let evicted = row.evictions_per_second.map(|keys| format!("{} keys/s evicted", rate(keys)));
    let parts: Vec<String> = clients.into_iter().chain(hits).chain(evicted).collect();
    (!parts.is_empty()).then(|| format!("repetition {}: {}", row.repetition, parts.join(", ")))
}

fn cost(cost: &CostStatus) -> String {
    let nodes =
        [("the servers' nodes", cost.servers), ("servers' and clients' nodes", cost.servers_and_clients)];
    let costs =
        nodes.into_iter().filter_map(|(whose, dollars)| Some(format!("{:.6} USD for {whose}", dollars?)));
    format!("a million operations cost {}", costs.collect::<Vec<_>>().join(", "))
}

/// The lines of a phase, without its reasons if the report has them already.
fn of_phase(phase: &PhaseStatus, reported: bool) -> Vec<String> {
    let loaded = phase.loaded_keys.map(|keys| format!("{} keys written before the load", thousands(keys)));
    let warmup = phase.warmup_seconds.map(|seconds| format!("{seconds} s of warm-up, in no figure"));
    let mode = phase.tool.mode.as_ref().map(|mode| format!("{} in mode {mode}", phase.tool.name));
    let reasons = phase
        .reasons
        .iter()
        .filter(|_| !reported)
        .map(|found| format!("{}: {}: {}", found.verdict, found.reason, found.message));
    let limited =
        phase.limited_by.iter().map(|limited| format!("limited by {}: {}", limited.by, limited.evidence));
    reasons
        .chain(limited)
        .chain(mode)
        .chain(loaded)
        .chain(warmup)
        .chain(phase.cost_per_million_operations_usd.as_ref().map(cost))
        .chain(phase.schedule.as_ref().map(schedule))
        .chain(phase.metrics.iter().map(metric))
        .chain(phase.repetitions.iter().filter_map(repetition))
        .chain(phase.notes.iter().map(|note| format!("note: {note}")))
        .map(|line| format!("{}: {line}", phase.name))
        .collect()
}

/// How much equal measurements of `figure` differ.
pub fn noise(figure: &NoiseFigure) -> String {
    let starts =
        figure.between_starts.map(|share| format!(", starts of the server by {:.1} %", share * 100.0));
    format!(
        "{}: {} of equal repetitions differs by {:.1} %{} (standard deviations, {} repetitions on {} starts)",
        figure.phase,
        figure.metric,
        figure.between_repetitions * 100.0,
        starts.unwrap_or_default(),
        figure.repetitions,
        figure.starts
    )
}

fn all_noise(noise: &NoiseStatus) -> impl Iterator<Item = String> {
    let measured = format!("measured by {} on {}", noise.found_by, noise.measured_at.0.strftime("%Y-%m-%d"));
    noise.figures.iter().map(move |figure| format!("{}, {measured}", self::noise(figure)))
}

pub fn lines(status: &BenchmarkRunStatus) -> Vec<String> {
    let retries = status.retries.iter().map(|retry| {
        format!(
            "measured again: repetition {} was lost in phase {} (measurement {}): {}",
            retry.repetition, retry.phase, retry.measurement, retry.reason
        )
    });
    // The report has the reasons of each run that is not Valid.
    let reported = status.verdict.is_some_and(|verdict| verdict != Verdict::Valid);
    retries
        .chain(status.phases.iter().flat_map(|phase| of_phase(phase, reported)))
        .chain(status.noise.iter().flat_map(all_noise))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fact_is_one_line() {
        let status: BenchmarkRunStatus = serde_json::from_value(json!({
            "noise": {"figures": [{"phase": "read", "metric": "OperationsPerSecond", "betweenRepetitions": 0.012,
                "betweenStarts": 0.031, "starts": 3, "repetitions": 15}], "foundBy": {"namespace": "lab", "name": "still"},
                "measuredAt": "2026-01-01T00:00:00Z"},
            "retries": [{"repetition": 1, "phase": "read", "measurement": 1, "reason": "pod p: evicted"}],
            "phases": [{
                "name": "read", "tool": {"name": "loadgen", "mode": "Fast"}, "operations": [],
                "verdict": "Degraded",
                "reasons": [{"reason": "Steal", "verdict": "Degraded", "message": "the hypervisor gave 3 % away"}],
                "limitedBy": {"by": "Server", "evidence": "server thread redis-server of redis-0 at 99 %"},
                "costPerMillionOperationsUsd": {"servers": 0.0036, "serversAndClients": 0.01},
                "warmupSeconds": 2.0, "loadedKeys": 100_000,
                "schedule": {"kind": "fixed", "operationsPerSecond": 50.0, "scheduled": 1000, "sent": 999,
                    "answered": 998, "unanswered": 2, "lagMilliseconds": {"p50": 0.02, "p99": 0.05, "p999": 0.9, "max": 1.5},
                    "wakeLagP99Milliseconds": 0.04},
                "metrics": [{"name": "memory", "value": 4.5, "unit": "MiB"}],
                "repetitions": [{"repetition": 1, "configMap": "c", "windowSeconds": 2.5,
                    "operationsPerSecond": 1.0, "p99Milliseconds": 1.0, "clientCpus": 1.0, "pods": 3,
                    "startSkewSeconds": 0.002, "clockOffsetSeconds": 0.0001, "hitRatio": 0.5,
                    "warmHitRatio": 0.625, "evictionsPerSecond": 1234.0}],
                "notes": ["something was left out"]
            }]
        }))
        .unwrap();
        assert_eq!(
            lines(&status),
            [
                "measured again: repetition 1 was lost in phase read (measurement 1): pod p: evicted",
                "read: Degraded: Steal: the hypervisor gave 3 % away",
                "read: limited by Server: server thread redis-server of redis-0 at 99 %",
                "read: loadgen in mode Fast",
                "read: 100,000 keys written before the load",
                "read: 2 s of warm-up, in no figure",
                "read: a million operations cost 0.003600 USD for the servers' nodes, 0.010000 USD for servers' and clients' nodes",
                "read: open loop (fixed) at 50 ops/s: 1,000 scheduled, 999 sent, 998 answered, 2 unanswered; sent late by ms: p50 0.020, p99 0.050, p99.9 0.900, max 1.500; woken late by ms: p99 0.040",
                "read: memory: 4.5 MiB",
                "read: repetition 1: 3 client pods, started within 2.000 ms, clocks within 0.100 ms, 2.500 s together, 50.00 % of reads found their key (62.50 % in the last third), 1,234 keys/s evicted",
                "read: note: something was left out",
                "read: OperationsPerSecond of equal repetitions differs by 1.2 %, starts of the server by 3.1 % (standard deviations, 15 repetitions on 3 starts), measured by lab/still on 2026-01-01",
            ]
        );
    }
}

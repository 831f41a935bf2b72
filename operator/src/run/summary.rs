//! Stored repetitions as the status shows them: per phase and operation, merged
//! and with their spread. Pure.

use super::validate::ValidatedRun;
use crate::run::collect::TOTAL;
use dragstrip_crds::{
    histogram::{Latencies, LatencySummary},
    result::{MergedOperation, RepetitionResult},
    run::{OperationStatus, PhaseStatus, RepetitionStatus},
    statistics::Spread,
};
use std::collections::BTreeMap;

fn latencies(rows: &[&MergedOperation]) -> LatencySummary {
    if let [single] = rows {
        return single.latency_milliseconds;
    }
    let mut merged: Option<Latencies> = None;
    for row in rows {
        let Some(decoded) = row.histogram.as_ref().and_then(|encoded| Latencies::decode(encoded).ok()) else {
            // A repetition whose log was lost has no histogram to merge: no number rather than a wrong one.
            return LatencySummary::default();
        };
        match &mut merged {
            None => merged = Some(decoded),
            Some(sum) => {
                if sum.add(&decoded).is_err() {
                    return LatencySummary::default();
                }
            }
        }
    }
    merged.map(|all| all.summary()).unwrap_or_default()
}

fn operation(name: &str, repetitions: &[&RepetitionResult]) -> Option<OperationStatus> {
    let rows: Vec<&MergedOperation> =
        repetitions.iter().filter_map(|r| r.operations.iter().find(|op| op.operation == name)).collect();
    let rates: Vec<f64> = rows.iter().map(|row| row.operations_per_second).collect();
    let bytes: Vec<f64> = rows.iter().map(|row| row.bytes_per_second).collect();
    let sum = |pick: fn(&MergedOperation) -> Option<u64>| {
        rows.iter().filter_map(|row| pick(row)).reduce(|a, b| a + b)
    };
    Some(OperationStatus {
        operation: name.to_owned(),
        count: rows.iter().map(|row| row.count).sum(),
        operations_per_second: Spread::of(&rates)?,
        bytes_per_second: Spread::of(&bytes)?.mean,
        hits: sum(|row| row.hits),
        misses: sum(|row| row.misses),
        errors: rows.iter().map(|row| row.errors).sum(),
        latency_milliseconds: latencies(&rows),
    })
}

fn repetition(config_map: &str, result: &RepetitionResult) -> Option<RepetitionStatus> {
    let total = result.operations.iter().find(|op| op.operation == TOTAL)?;
    let tool: Option<Vec<f64>> =
        result.pods.iter().map(|pod| pod.tool.reported_operations_per_second).collect();
    let cpus = result.pods.iter().filter(|pod| pod.window.seconds > 0.0);
    Some(RepetitionStatus {
        repetition: result.repetition,
        config_map: config_map.to_owned(),
        window_seconds: result.window_seconds,
        operations_per_second: total.operations_per_second,
        tool_operations_per_second: tool.map(|rates| rates.iter().sum()),
        p99_milliseconds: total.latency_milliseconds.p99,
        client_cpus: cpus.map(|pod| pod.client.cpu_seconds / pod.window.seconds).sum(),
    })
}

fn tool(result: &RepetitionResult) -> String {
    result.pods.first().map_or_else(String::new, |pod| match &pod.tool.version {
        Some(version) => format!("{} {version}", pod.tool.name),
        None => pod.tool.name.clone(),
    })
}

/// The phases that have at least one good repetition, in the order declared. A
/// failed repetition's numbers are in its ConfigMap only: none is shown as good.
pub fn phases(run: &ValidatedRun, stored: &BTreeMap<String, RepetitionResult>) -> Vec<PhaseStatus> {
    run.spec
        .phases
        .iter()
        .filter_map(|phase| {
            let good: Vec<(&String, &RepetitionResult)> = run
                .attempts
                .iter()
                .filter(|attempt| attempt.phase == phase.name)
                .filter_map(|attempt| stored.get_key_value(&attempt.name))
                .filter(|(_, result)| result.failure.is_none())
                .collect();
            let results: Vec<&RepetitionResult> = good.iter().map(|(_, result)| *result).collect();
            let first = results.first()?;
            let names = first.operations.iter().map(|op| op.operation.as_str());
            Some(PhaseStatus {
                name: phase.name.clone(),
                tool: tool(first),
                operations: names.filter_map(|name| operation(name, &results)).collect(),
                repetitions: good.iter().filter_map(|(name, result)| repetition(name, result)).collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        collect::merge,
        fixtures::{pod_result, run},
        validate::validate,
    };

    #[test]
    fn repetitions_are_spread_and_their_histograms_merged() {
        let run = validate(&run(&["read"], 2)).unwrap();
        let stored: BTreeMap<_, _> = run
            .attempts
            .iter()
            .zip([(1000, 100), (3000, 900)])
            .map(|(attempt, (count, latency))| {
                (attempt.name.clone(), merge(attempt, 1, vec![pod_result("p", count, 1.0, latency)]))
            })
            .collect();
        let phases = phases(&run, &stored);
        let total = phases[0].operations.last().unwrap();
        assert_eq!(total.count, 4000);
        assert!((total.operations_per_second.mean - 2000.0).abs() < 1e-9);
        assert_eq!(total.operations_per_second.repetitions, 2);
        assert!(
            (total.latency_milliseconds.p50 - 0.9).abs() < 0.001,
            "percentiles come from the merged histogram"
        );
        assert_eq!(phases[0].repetitions.len(), 2);
        assert_eq!(phases[0].repetitions[1].config_map, "sprint-read-2");
    }

    #[test]
    fn a_failed_repetition_shows_no_numbers() {
        let run = validate(&run(&["read"], 1)).unwrap();
        let attempt = &run.attempts[0];
        let failed = merge(attempt, 2, vec![pod_result("p", 1000, 1.0, 100)]);
        assert!(failed.failure.is_some());
        assert_eq!(phases(&run, &[(attempt.name.clone(), failed)].into()), vec![]);
    }
}

//! Stored repetitions as the status shows them, merged by phase and operation. Pure.

use super::{
    confirm::confirmed,
    decide::{step::Step, too_variable},
    merge::add_schedules,
    plan::counted,
    search::figures::{searched, with_figures},
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{
    measured::{LatencySummary, Metric, ScheduleRecord},
    run::{
        LimitedBy, OperationStatus, PhaseSpec, PhaseStatus, RepetitionStatus, ServerMemoryStatus, ToolStatus,
        VerdictReason,
    },
    thresholds::MetricName,
    units::Warmup,
    workload::LoadSpec,
};
use dragstrip_report::distinct;
use dragstrip_results::{
    hit_series::HitSeries,
    result::{Operation, RepetitionResult, TOTAL},
    statistics::spread,
    thresholds, verdict,
};
use std::collections::BTreeMap;

/// The row of `name` over all repetitions: only here do measured operations become those of a status.
fn operation(name: &str, repetitions: &[&RepetitionResult]) -> Option<OperationStatus> {
    let rows: Vec<&Operation> =
        repetitions.iter().filter_map(|r| r.operations.iter().find(|row| row.name == name)).collect();
    // Histograms that were merged over pods can be merged over repetitions too.
    let sum = Operation::sum(name, &rows).ok()?;
    let rates: Vec<f64> = rows.iter().filter_map(|row| row.operations_per_second).collect();
    let mean = |sum: f64| sum / rows.len() as f64;
    Some(OperationStatus {
        operation: sum.name,
        count: sum.count,
        operations_per_second: spread(&rates)?,
        tool_operations_per_second: sum.tool_operations_per_second.map(mean),
        bytes_per_second: mean(rows.iter().map(|row| row.bytes_per_second()).sum()),
        hits: sum.hits,
        misses: sum.misses,
        errors: sum.errors,
        latency_milliseconds: sum.latency_milliseconds,
    })
}

fn repetition(config_map: &str, result: &RepetitionResult) -> RepetitionStatus {
    let total = result.total();
    let tool: Option<Vec<f64>> =
        result.pods.iter().map(|pod| pod.tool.reported_operations_per_second).collect();
    let cpus = result.pods.iter().filter(|pod| pod.window.seconds > 0.0);
    let offsets = result.pods.iter().map(|pod| pod.window.clock_offset_seconds.abs());
    RepetitionStatus {
        repetition: result.repetition,
        measurement: result.measurement,
        config_map: config_map.to_owned(),
        window_seconds: result.window_seconds,
        operations_per_second: total.and_then(|total| total.operations_per_second),
        tool_operations_per_second: tool.map(|rates| rates.iter().sum()),
        p99_milliseconds: total.and_then(|total| total.latency_milliseconds.p99),
        client_cpus: cpus.map(|pod| pod.client.cpu_seconds / pod.window.seconds).sum(),
        pods: u32::try_from(result.pods.len()).unwrap_or(u32::MAX),
        start_skew_seconds: result.start_skew_seconds,
        clock_offset_seconds: offsets.fold(0.0, f64::max),
        hit_ratio: result.hit_ratio,
        warm_hit_ratio: result.hit_series.as_ref().and_then(HitSeries::warm_ratio),
        evictions_per_second: result.evictions_per_second,
        verdict: result.verdict,
        reasons: result.reasons.iter().map(|reason| reason.reason.clone()).collect(),
    }
}

/// What the verdicts of `results` come to, with what their spread says: each reason once.
fn reasons(
    run: &ValidatedRun,
    results: &[&RepetitionResult],
    operations: &[OperationStatus],
) -> Vec<VerdictReason> {
    let total = operations.iter().find(|row| row.operation == TOTAL).map(|row| row.operations_per_second);
    let spread = total.and_then(|total| {
        verdict::high_variance(total.repetitions, total.coefficient_of_variation, &run.spec.requirements)
    });
    let mut reasons: Vec<VerdictReason> = Vec::new();
    for reason in results.iter().flat_map(|result| &result.reasons).chain(&spread) {
        if !reasons.iter().any(|known| known.reason == reason.reason) {
            reasons.push(reason.clone());
        }
    }
    reasons
}

/// What limited most of `results`, in the words of the first of those.
fn limited_by(results: &[&RepetitionResult]) -> Option<LimitedBy> {
    let found = || results.iter().filter_map(|result| result.limited_by.as_ref());
    let times = |one: &LimitedBy| found().filter(|other| other.by == one.by).count();
    // If several are equally frequent, the first counts.
    found().rev().max_by_key(|one| times(one)).cloned()
}

fn tool(result: &RepetitionResult) -> ToolStatus {
    let first = result.pods.first().map(|pod| &pod.tool);
    first.map_or_else(ToolStatus::default, |tool| ToolStatus {
        name: tool.name.clone(),
        version: tool.version.clone(),
        mode: tool.mode.clone(),
        command: tool.arguments.clone(),
    })
}

/// The tool's own figures that every repetition has, as their mean.
fn metrics(results: &[&RepetitionResult]) -> Vec<Metric> {
    let Some(first) = results.first() else {
        return Vec::new();
    };
    let joined = |metric: &Metric| {
        let value = mean(results, |result| {
            result.metrics.iter().find(|other| other.name == metric.name).map(|other| other.value)
        })?;
        Some(Metric { value, ..metric.clone() })
    };
    first.metrics.iter().filter_map(joined).collect()
}

/// What became of an open loop's schedule over all repetitions, at the rate of each.
fn schedule(results: &[&RepetitionResult]) -> Option<ScheduleRecord> {
    let records =
        results.iter().filter_map(|result| Some((result.schedule.as_ref()?, result.schedule_lag.as_ref())));
    let rate = records.clone().next()?.0.operations_per_second;
    // Each was merged before: they do fit.
    let (sum, _) = add_schedules(records).ok()??;
    Some(ScheduleRecord { operations_per_second: rate, ..sum })
}

/// Names of all operations in the order of the results, TOTAL last.
fn names<'a>(results: &[&'a RepetitionResult]) -> Vec<&'a str> {
    let all = results.iter().flat_map(|result| &result.operations).map(|row| row.name.as_str());
    let (total, names): (Vec<&str>, Vec<&str>) = all.partition(|name| *name == TOTAL);
    distinct(names.into_iter().chain(total))
}

/// Says which latencies are those of each repetition alone.
fn not_joined(operations: &[OperationStatus], results: &[&RepetitionResult]) -> Option<String> {
    let known = |name: &str| {
        let mut rows = results.iter().flat_map(|result| &result.operations).filter(|row| row.name == name);
        rows.any(|row| row.latency_milliseconds != LatencySummary::default())
    };
    let missing = operations.iter().filter(|row| row.latency_milliseconds == LatencySummary::default());
    let names: Vec<&str> = missing.map(|row| row.operation.as_str()).filter(|name| known(name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "latencies of {} are left out: percentiles without histograms cannot be joined over {} repetitions; each repetition's result has its own",
            names.join(", "),
            results.len()
        )
    })
}

/// The largest memory of all servers together after a measurement; `None` if one did not report it.
fn server_memory(results: &[&RepetitionResult]) -> Option<ServerMemoryStatus> {
    let of = |result: &&RepetitionResult| {
        let servers = result.servers.iter().map(|server| server.usage.cgroup.as_ref());
        let reported: Vec<_> = servers.collect::<Option<Vec<_>>>().filter(|reported| !reported.is_empty())?;
        Some(ServerMemoryStatus {
            used_bytes: reported.iter().map(|cgroup| cgroup.memory_bytes).sum(),
            peak_bytes: reported.iter().map(|cgroup| cgroup.memory_peak_bytes).sum(),
        })
    };
    results.iter().filter_map(of).reduce(|one, other| ServerMemoryStatus {
        used_bytes: one.used_bytes.max(other.used_bytes),
        peak_bytes: one.peak_bytes.max(other.peak_bytes),
    })
}

/// The mean of what `figure` is in each of `results`; `None` if one lacks it.
fn mean(results: &[&RepetitionResult], figure: impl Fn(&RepetitionResult) -> Option<f64>) -> Option<f64> {
    let sum: f64 = results.iter().map(|result| figure(result)).sum::<Option<f64>>()?;
    Some(sum / results.len() as f64)
}

/// The figure that `declared` has as its headline, and its unit or name.
pub fn headline_figure<'a>(declared: &'a PhaseSpec, phase: &'a PhaseStatus) -> Option<(f64, &'a str)> {
    let name = declared.headline.as_deref()?;
    let operation = thresholds::operation(phase, None);
    thresholds::tool_figure(name, phase, operation).or_else(|| {
        let metric = MetricName::named(name)?;
        Some((thresholds::figure(metric, phase, operation)?, metric.unit()))
    })
}

/// Reports that the phase did not measure the headline that `declared` names.
fn without_headline(declared: &PhaseSpec, phase: &PhaseStatus) -> Option<String> {
    let name = declared.headline.as_ref().filter(|_| headline_figure(declared, phase).is_none())?;
    let own = thresholds::tool_metrics(phase);
    Some(format!("headline names {name}, which was not measured; the tool's metrics are: {own}"))
}

fn phase(
    run: &ValidatedRun,
    declared: &PhaseSpec,
    good: &[(&Attempt, &RepetitionResult)],
) -> Option<PhaseStatus> {
    let results: Vec<&RepetitionResult> = good.iter().map(|(_, result)| *result).collect();
    let first = results.first()?;
    let operations: Vec<_> =
        names(&results).into_iter().filter_map(|name| operation(name, &results)).collect();
    let reasons = reasons(run, &results, &operations);
    let notes = results.iter().flat_map(|result| result.notes.iter().cloned());
    let mut phase = PhaseStatus {
        name: declared.name.clone(),
        tool: tool(first),
        repetitions: good.iter().map(|(attempt, result)| repetition(&attempt.name, result)).collect(),
        verdict: Some(verdict::worst(&reasons)),
        limited_by: limited_by(&results),
        confirmation: None,
        metrics: metrics(&results),
        batches: results.last().and_then(|last| last.batches.clone()),
        schedule: schedule(&results),
        search: None,
        server_cpus: mean(&results, RepetitionResult::server_cpus),
        operations_per_core_second: mean(&results, RepetitionResult::operations_per_core_second),
        server_memory: server_memory(&results),
        memory: results.last().map(|last| last.memory.clone()).unwrap_or_default(),
        cost_per_million_operations_usd: None,
        warmup_seconds: declared.warmup.as_ref().and_then(Warmup::seconds),
        loaded_keys: declared.load.as_ref().map(LoadSpec::keys),
        notes: distinct(notes).into_iter().chain(not_joined(&operations, &results)).collect(),
        reasons,
        operations,
    };
    phase.notes.extend(without_headline(declared, &phase));
    Some(phase)
}

/// The phases that have at least one good repetition, in the order declared. A
/// failed repetition's numbers are in its ConfigMap only: none is shown as good,
/// nor are those that a lost measurement had before it was lost.
pub fn phases(run: &ValidatedRun, stored: &BTreeMap<String, RepetitionResult>) -> Vec<PhaseStatus> {
    let counted: Vec<_> = counted(run, stored).collect();
    let figures = counted.iter().filter(|(attempt, _)| !attempt.confirms());
    let of = |declared: &PhaseSpec| {
        let own: Vec<_> =
            figures.clone().filter(|(attempt, _)| attempt.phase == declared.name).copied().collect();
        let Some(search) = &declared.search else {
            return phase(run, declared, &own).map(|phase| confirmed(run, declared, stored, phase));
        };
        let found = searched(search, &own);
        let mut phase = phase(run, declared, &found.shown)?;
        phase.search = Some(with_figures(found.status, &phase.operations));
        phase.notes.extend(found.notes);
        Some(phase)
    };
    run.spec.phases.iter().filter_map(of).collect()
}

/// How a run ends whose good repetitions differ more than a Required check allows.
pub fn required(run: &ValidatedRun, stored: &BTreeMap<String, RepetitionResult>) -> Option<Step> {
    phases(run, stored).iter().find_map(|phase| {
        let failure = verdict::required(&phase.reasons)?;
        Some(too_variable(&phase.name, &failure.message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{lost, pod_result, run},
        run::{merge::merge, validate::validate},
    };

    #[test]
    fn memory_is_that_of_all_servers_together_in_the_repetition_that_needed_most() {
        let measured = |servers: &[Option<u64>]| -> RepetitionResult {
            let server = |bytes: &Option<u64>| {
                let cgroup = bytes.map(|bytes| {
                    serde_json::json!({"cpuSeconds": 0.0, "throttledSeconds": 0.0, "throttledPeriods": 0,
                        "cpuset": "", "memoryBytes": bytes, "memoryPeakBytes": 2 * bytes})
                });
                serde_json::json!({"server": "s", "usage": {"cpuSeconds": 0.0, "throttledSeconds": 0.0,
                    "throttledPeriods": 0, "cgroup": cgroup}})
            };
            serde_json::from_value(serde_json::json!({
                "phase": "read", "repetition": 1, "measurement": 1, "startSkewSeconds": 0.0, "windowSeconds": 1.0,
                "operations": [], "pods": [],
                "servers": servers.iter().map(server).collect::<Vec<_>>()
            }))
            .unwrap()
        };
        let (small, large, silent) =
            (measured(&[Some(1), Some(2)]), measured(&[Some(4), Some(5)]), measured(&[Some(9), None]));
        let memory = server_memory(&[&small, &large, &silent]).unwrap();
        assert_eq!((memory.used_bytes, memory.peak_bytes), (9, 18), "a silent server does not count as zero");
        assert_eq!(server_memory(&[&silent, &measured(&[])]), None);
    }

    #[test]
    fn repetitions_are_spread_and_their_histograms_merged() {
        let mut twice = run(&["read"], 2);
        twice.spec.max_retries = 0;
        let run = validate(&twice).unwrap();
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
            (total.latency_milliseconds.p50.unwrap() - 0.9).abs() < 0.001,
            "percentiles come from the merged histogram"
        );
        assert_eq!(phases[0].repetitions.len(), 2);
        assert_eq!(phases[0].repetitions[1].config_map, "sprint-read-2");
    }

    #[test]
    fn percentiles_that_a_tool_printed_are_those_of_each_repetition_alone() {
        let printed = LatencySummary { p99: Some(3.0), ..LatencySummary::default() };
        let of = |repetitions| {
            let mut declared = run(&["read"], repetitions);
            declared.spec.max_retries = 0;
            let run = validate(&declared).unwrap();
            let mut pod = pod_result("p", 1000, 1.0, 100);
            pod.operations[0].histogram = None;
            pod.operations[0].latency_milliseconds = printed;
            let stored = run.attempts.iter().map(|a| (a.name.clone(), merge(a, 1, vec![pod.clone()])));
            phases(&run, &stored.collect()).remove(0)
        };
        assert_eq!(of(1).operations[0].latency_milliseconds, printed, "p50 was not printed and is not 0");
        let twice = of(2);
        assert_eq!(twice.operations[0].latency_milliseconds, LatencySummary::default());
        assert_eq!(twice.repetitions[1].p99_milliseconds, Some(3.0));
        assert!(twice.notes.iter().any(|note| note.contains("over 2 repetitions")), "{:?}", twice.notes);
    }

    #[test]
    fn a_repetition_measured_again_counts_once() {
        let run = validate(&run(&["write", "read"], 1)).unwrap();
        let good = |attempt: &Attempt| merge(attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
        let stored: BTreeMap<_, _> = run
            .attempts
            .iter()
            .map(|attempt| match attempt.name.as_str() {
                "sprint-read-1" => (attempt.name.clone(), merge(attempt, 1, vec![lost("p")])),
                _ => (attempt.name.clone(), good(attempt)),
            })
            .collect();
        let phases = phases(&run, &stored);
        let counts: Vec<u64> = phases.iter().map(|phase| phase.operations[0].count).collect();
        assert_eq!(counts, [1000, 1000], "the lost measurement's write phase was added");
        assert_eq!(phases[0].repetitions[0].config_map, "sprint-write-1b");
        assert_eq!(phases[0].repetitions[0].measurement, 2);
    }

    #[test]
    fn figures_of_the_tools_own_are_averaged_over_repetitions() {
        let mut twice = run(&["read"], 2);
        twice.spec.max_retries = 0;
        let run = validate(&twice).unwrap();
        let with = |attempt: &Attempt, value| {
            let mut result = merge(attempt, 1, vec![pod_result("p", 10, 1.0, 100)]);
            result.operations.iter_mut().for_each(|row| row.tool_operations_per_second = Some(5.0));
            result.metrics = vec![Metric {
                name: "B/op".into(),
                value,
                unit: None,
                merge: dragstrip_crds::workload::Merge::Sum,
                more_is_better: None,
            }];
            result
        };
        let stored = run.attempts.iter().zip([2.0, 4.0]).map(|(a, value)| (a.name.clone(), with(a, value)));
        let phases = phases(&run, &stored.collect());
        assert_eq!(phases[0].metrics[0].value.to_string(), "3");
        let headline = |name: &str| PhaseSpec { headline: Some(name.into()), ..run.spec.phases[0].clone() };
        assert_eq!(without_headline(&headline("B/op"), &phases[0]), None);
        let declared = headline(dragstrip_crds::run::TOOL_RATE);
        let own = headline_figure(&declared, &phases[0]);
        assert_eq!(
            own,
            phases[0].operations.last().unwrap().tool_operations_per_second.map(|rate| (rate, "ops/s"))
        );
        assert!(own.is_some(), "the tool's own rate may stand for the phase");
        let note = without_headline(&headline("add_jobs"), &phases[0]).unwrap();
        assert!(note.contains("add_jobs, which was not measured; the tool's metrics are: B/op"), "{note}");
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

//! From the results of all pods to one repetition's result: counts are summed,
//! throughput is taken over the window in which every client was active,
//! histograms are added; percentiles are never averaged. What some pods measured without the
//! others, or only a part of what they did, is never summed. Pure.

pub(super) mod checks;
mod joining;
mod window;

pub use joining::Merging;

use super::validate::attempt::Attempt;
use dragstrip_crds::{
    measured::{LatencySummary, Metric, ScheduleRecord},
    units::{Warmup, thousands},
    workload::Merge,
};
use dragstrip_report::distinct;
use dragstrip_results::{
    histogram::{EncodedHistogram, HistogramError, Latencies, merged},
    latency_series::PercentileSeries,
    measured::operation::added_seconds,
    result::{FILL, Failure, FailureStep, Operation, PodFailure, PodResult, RepetitionResult, TOTAL},
    schedule::answered_in_time,
    search::SearchPoint,
};
use joining::Sums;
use std::ops::Range;
use window::Common;

/// The operations of `pod` that belong to the row `name`.
fn of<'a>(pod: &'a PodResult, name: &'a str) -> impl Iterator<Item = &'a Operation> {
    let belongs = move |row: &&Operation| if name == TOTAL { row.name != FILL } else { row.name == name };
    pod.operations.iter().filter(belongs)
}

/// The row `name` over all pods. TOTAL has the rate that the tools themselves report of all together.
fn merge_operation(
    name: &str,
    results: &[PodResult],
    common: &Common,
    latencies: Option<Latencies>,
) -> Result<Operation, HistogramError> {
    let all: Vec<&Operation> = results.iter().flat_map(|pod| of(pod, name)).collect();
    let rate = |(pod, row): (&PodResult, &Operation)| {
        row.operations_per_second.unwrap_or_else(|| common.rate(pod, row))
    };
    let rows = results.iter().flat_map(|pod| of(pod, name).map(move |row| (pod, row)));
    let sum = Operation::sum_with(name, &all, latencies)?;
    let tools = match name {
        TOTAL => results.iter().map(|pod| pod.tool.reported_operations_per_second).sum(),
        _ => sum.tool_operations_per_second,
    };
    Ok(Operation {
        operations_per_second: Some(rows.map(rate).sum()),
        tool_operations_per_second: tools,
        // Each pod's own series is stored with the pod.
        per_second: Vec::new(),
        ..sum
    })
}

/// An operation that nobody sent (the GET of a write-only phase) has no row.
fn happened(operation: &Operation) -> bool {
    operation.count + operation.errors > 0 || operation.operations_per_second.is_some()
}

/// One row per operation, and their total last; nothing for tools that only have figures
/// of their own. Operations that ran one after the other have no total.
fn merge_operations(
    results: &[PodResult],
    common: &Common,
    sums: &Sums,
) -> Result<Vec<Operation>, HistogramError> {
    let all = || results.iter().flat_map(|pod| &pod.operations);
    let names = distinct(all().filter(|row| happened(row)).map(|row| row.name.as_str()));
    let apart = names.len() > 1 && all().any(|row| row.operations_per_second.is_some());
    let total = (!names.is_empty() && !apart).then_some(TOTAL);
    let row = |name: &str| merge_operation(name, results, common, sums.latencies(name)?);
    names.into_iter().chain(total).map(row).collect()
}

/// Says which latencies cannot be joined over pods, and which are only a tool's own word.
fn latency_notes(operations: &[Operation], results: &[PodResult]) -> Vec<String> {
    let printed = |name: &str| {
        let mut of_pods = results.iter().flat_map(|pod| of(pod, name));
        of_pods.any(|operation| operation.latency_milliseconds != LatencySummary::default())
    };
    let without = operations.iter().filter(|operation| operation.histogram.is_none());
    let (missing, own): (Vec<_>, Vec<_>) =
        without.partition(|operation| operation.latency_milliseconds == LatencySummary::default());
    let names = |rows: Vec<&Operation>| {
        let names = rows.into_iter().map(|row| row.name.as_str()).filter(|name| printed(name));
        Some(names.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
    };
    let missing = names(missing).map(|names| {
        format!(
            "latencies of {names} are left out: there are percentiles without histograms, and percentiles cannot be joined"
        )
    });
    let tool = results.first().map_or("the tool", |pod| pod.tool.name.as_str());
    let own =
        names(own).map(|names| format!("latencies of {names} are {tool}'s own figures: it has no histogram"));
    missing.into_iter().chain(own).collect()
}

fn joined(metrics: &[&Metric]) -> f64 {
    let values = metrics.iter().map(|metric| metric.value);
    match metrics.first().map(|metric| metric.merge).unwrap_or_default() {
        Merge::Sum => values.sum(),
        Merge::Mean => values.sum::<f64>() / metrics.len() as f64,
        Merge::Maximum => values.fold(f64::NEG_INFINITY, f64::max),
        Merge::Minimum => values.fold(f64::INFINITY, f64::min),
    }
}

/// The tool's own figures over all pods, and notes on those that not every pod has.
fn merge_metrics(results: &[PodResult]) -> (Vec<Metric>, Vec<String>) {
    let (mut merged, mut notes): (Vec<Metric>, Vec<String>) = (Vec::new(), Vec::new());
    for name in distinct(results.iter().flat_map(|pod| &pod.metrics).map(|metric| &metric.name)) {
        let of_pods: Vec<&Metric> =
            results.iter().filter_map(|pod| pod.metrics.iter().find(|metric| metric.name == *name)).collect();
        match of_pods.as_slice() {
            [first, ..] if of_pods.len() == results.len() => {
                merged.push(Metric { value: joined(&of_pods), ..Metric::clone(first) });
            }
            some => notes.push(format!(
                "metric {name} is left out: only {} of {} client pods have it",
                some.len(),
                results.len()
            )),
        }
    }
    (merged, notes)
}

/// An open loop's record with how long after they were due its requests were sent.
type ScheduleParts<'a> = (&'a ScheduleRecord, Option<&'a EncodedHistogram>);

/// Several records of an open loop as one: counts and rates added, lags merged.
pub fn add_schedules<'a>(
    records: impl Iterator<Item = ScheduleParts<'a>> + Clone,
) -> Result<Option<(ScheduleRecord, EncodedHistogram)>, HistogramError> {
    let lag = merged(records.clone().map(|(_, lag)| lag))?;
    with_lag(records.map(|(record, _)| record), lag)
}

/// The sum of `records`, whose requests were sent so late; `None` if that is not known of all.
fn with_lag<'a>(
    records: impl Iterator<Item = &'a ScheduleRecord>,
    lag: Option<Latencies>,
) -> Result<Option<(ScheduleRecord, EncodedHistogram)>, HistogramError> {
    let Some(lag) = lag else { return Ok(None) };
    let sum = records.cloned().reduce(|sum, record| ScheduleRecord {
        operations_per_second: sum.operations_per_second + record.operations_per_second,
        scheduled: sum.scheduled + record.scheduled,
        sent: sum.sent + record.sent,
        answered: sum.answered + record.answered,
        unanswered: sum.unanswered + record.unanswered,
        answered_in_time: sum.answered_in_time.into_iter().chain(record.answered_in_time).reduce(f64::min),
        wake_lag_p99_milliseconds: sum
            .wake_lag_p99_milliseconds
            .into_iter()
            .chain(record.wake_lag_p99_milliseconds)
            .reduce(f64::max),
        ..sum
    });
    let encoded = lag.encode()?;
    Ok(sum.map(|sum| (ScheduleRecord { lag_milliseconds: lag.summary(), ..sum }, encoded)))
}

/// `schedule` with the share of requests that were answered in time, by the backlog of all `pods` together.
fn in_time(schedule: ScheduleRecord, pods: &[PodResult]) -> ScheduleRecord {
    let due = added_seconds(pods.iter().map(|pod| pod.due_per_second.as_slice()));
    let answered = added_seconds(pods.iter().map(|pod| pod.per_second.as_slice()));
    // Pods without series still have their own shares.
    let answered_in_time = answered_in_time(&due, &answered).or(schedule.answered_in_time);
    ScheduleRecord { answered_in_time, ..schedule }
}

/// What went wrong in `pod`, if anything did. A part of a result looks complete by its sums.
fn failure_of(pod: &PodResult) -> Option<Failure> {
    let part = || Failure::new(FailureStep::Lost, "only part of its result could be read".to_owned());
    pod.failure.clone().or_else(|| (!pod.complete).then(part))
}

/// What makes the numbers of the pods unusable, the cause before its consequences.
/// A pod that was stopped, or left nothing, is lost unless another one's
/// failure was the reason.
fn pods_failure(attempt: &Attempt, expected: u32, results: &[PodResult]) -> Option<PodFailure> {
    let with = |wanted: &dyn Fn(FailureStep) -> bool| {
        results.iter().find_map(|pod| {
            let failure = failure_of(pod).filter(|failure| wanted(failure.step))?;
            Some(PodFailure { pod: pod.pod.clone(), failure })
        })
    };
    let gone = |step: FailureStep| matches!(step, FailureStep::Interrupted | FailureStep::Lost);
    if let Some(cause) = with(&|step| !gone(step)) {
        return Some(cause);
    }
    if let Some(mut lost) = with(&gone) {
        lost.failure.message = format!("the measurement is lost: {}", lost.failure.message);
        lost.failure.step = FailureStep::Lost;
        return Some(lost);
    }
    let left = u32::try_from(results.len()).unwrap_or(u32::MAX);
    (left < expected).then(|| PodFailure {
        pod: attempt.name.clone(),
        failure: Failure::new(
            FailureStep::Lost,
            format!("the measurement is lost: {left} of {expected} client pods left a result, the others were deleted"),
        ),
    })
}

/// Reads that found their key, and all reads; `None` without reads.
fn reads(operations: &[Operation]) -> Option<(u64, u64)> {
    let single = operations.iter().filter(|operation| operation.name != TOTAL);
    let sum = single.fold((0, 0), |(hits, reads), row| {
        let (found, missed) = (row.hits.unwrap_or(0), row.misses.unwrap_or(0));
        (hits + found, reads + found + missed)
    });
    (sum.1 > 0).then_some(sum)
}

/// Share of reads that found their key; `None` without reads.
fn hit_ratio(operations: &[Operation]) -> Option<f64> {
    reads(operations).map(|(hits, reads)| hits as f64 / reads as f64)
}

/// Why too few reads found their key, if the phase declares how many must.
fn too_few_hits(attempt: &Attempt, operations: &[Operation]) -> Option<String> {
    let minimum = attempt.declared.minimum_hit_ratio.as_ref()?.value();
    let Some((hits, reads)) = reads(operations) else {
        return Some(format!("minimumHitRatio is {minimum}, but the tool counted no reads"));
    };
    let ratio = hits as f64 / reads as f64;
    (ratio < minimum).then(|| {
        format!(
            "{} of {} reads found their key ({ratio:.4}), minimumHitRatio is {minimum}: load the keys first, or correct the key range",
            thousands(hits),
            thousands(reads)
        )
    })
}

/// Keys that the servers evicted per second of load; `None` for servers that never do.
fn evictions_per_second(attempt: &Attempt, pods: &[PodResult]) -> Option<f64> {
    let servers = checks::servers(pods).filter(|servers| servers.iter().any(|it| it.truth.evicts()))?;
    let before = servers.iter().map(|server| server.before.evicted_keys).min()?;
    let after = servers.iter().map(|server| Some(server.after.as_ref()?.evicted_keys));
    let evicted = after.collect::<Option<Vec<_>>>()?.into_iter().max()?.saturating_sub(before);
    let warmup = attempt.declared.warmup.as_ref().and_then(Warmup::seconds).unwrap_or_default();
    let seconds = warmup + pods.iter().map(|pod| pod.window.seconds).fold(0.0, f64::max);
    (seconds > 0.0).then(|| evicted as f64 / seconds)
}

/// The window in which all clients of a repetition loaded together, in nanoseconds of
/// Unix time by the operator's clock; `None` where there was none.
pub fn common_window(results: &[PodResult]) -> Option<Range<i64>> {
    Common::of(results).unix_nanos()
}

/// One repetition out of its pods' results. A failed or missing pod, or one whose result is
/// only partly known, makes the repetition fail; there is never a partial sum.
pub fn merge(attempt: &Attempt, expected: u32, results: Vec<PodResult>) -> RepetitionResult {
    let mut merging = Merging::new(expected);
    for pod in results {
        merging.add(pod);
    }
    merging.finish(attempt)
}

type Joined = (Vec<Operation>, Option<(ScheduleRecord, EncodedHistogram)>, Option<PercentileSeries>);

fn joined_histograms(summed: &[PodResult], common: &Common, sums: Sums) -> Result<Joined, HistogramError> {
    let operations = merge_operations(summed, common, &sums)?;
    let schedule = with_lag(summed.iter().filter_map(|pod| pod.schedule.as_ref()), sums.lag()?)?;
    Ok((operations, schedule, sums.series()?))
}

/// One repetition out of its pods' results, whose histograms are in `sums`.
fn merged_result(attempt: &Attempt, expected: u32, results: Vec<PodResult>, sums: Sums) -> RepetitionResult {
    let own = |step, message| PodFailure { pod: attempt.name.clone(), failure: Failure::new(step, message) };
    let refused = pods_failure(attempt, expected, &results);
    // Each pod's own account is stored; there is nothing to add up.
    let (summed, sums): (&[PodResult], Sums) =
        if refused.is_some() { (&[], Sums::default()) } else { (&results, sums) };
    let common = Common::of(summed);
    let hit_series = sums.hits();
    let ((operations, schedule, p99_series), damaged) = match joined_histograms(summed, &common, sums) {
        Ok(joined) => (joined, None),
        Err(error) => {
            let message = format!("the clients' histograms cannot be merged: {error}");
            (Joined::default(), Some(own(FailureStep::Output, message)))
        }
    };
    let (schedule, schedule_lag) = schedule.unzip();
    let apart = || {
        common.is_empty().then(|| {
            own(FailureStep::StartLine, "there was no moment in which all client pods sent load".to_owned())
        })
    };
    let hits = || too_few_hits(attempt, &operations).map(|message| own(FailureStep::HitRatio, message));
    let failure = refused.or(damaged).or_else(apart).or_else(hits);
    let (checks, failure) = match failure {
        Some(failure) => (Vec::new(), Some(failure)),
        None => match checks::of(attempt, summed) {
            Ok(checks) => (checks, None),
            Err(found) => (Vec::new(), Some(PodFailure { pod: attempt.name.clone(), failure: found })),
        },
    };
    let (metrics, mut notes) = merge_metrics(summed);
    notes.extend(latency_notes(&operations, summed));
    notes.extend(distinct(summed.iter().flat_map(|pod| pod.notes.iter().cloned())));
    let result = RepetitionResult {
        phase: attempt.phase.clone(),
        repetition: attempt.repetition,
        measurement: attempt.measurement,
        window_seconds: common.seconds(),
        start_skew_seconds: common.start_skew_seconds(),
        hit_ratio: hit_ratio(&operations),
        metrics,
        // Batches are timed one by one: of several pods they cannot be joined.
        batches: if let [single] = summed { single.batches.clone() } else { None },
        schedule: schedule.map(|schedule| in_time(schedule, summed)),
        schedule_lag,
        p99_series,
        hit_series,
        evictions_per_second: evictions_per_second(attempt, summed),
        operations,
        notes,
        checks,
        failure,
        pods: results,
        ..RepetitionResult::default()
    };
    let point =
        attempt.point.as_ref().and_then(|point| Some(SearchPoint::of(point.value?, point.share, &result)));
    RepetitionResult { point, ..result }
}

#[cfg(test)]
mod tests;

//! What a report shows about each run. Pure.

use super::facts::facts;
use crate::{
    document::{Curve, PhaseLimit, PhaseReason, RunRecord, Search, Timeline},
    input::Entry,
    select::{grouped, is_counted},
};
use dragstrip_crds::BenchmarkRunStatus;
use dragstrip_results::{
    histogram::{EncodedHistogram, Latencies},
    result::{PodResult, RepetitionResult, TOTAL},
};
use kube::ResourceExt;

/// The percentiles of a curve: closer together towards the tail.
const PERCENTILES: [f64; 21] = [
    0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99,
    99.995, 99.999, 99.9999, 100.0,
];

pub fn record(entry: &Entry) -> RunRecord {
    let status = entry.run.status.clone().unwrap_or_default();
    let measured = entry.measured();
    RunRecord {
        name: entry.run.name_any(),
        cell: entry.cell.clone(),
        repetition: entry.repetition,
        phase: status.phase,
        verdict: status.verdict,
        reasons: reasons(&status),
        limited_by: limits(&status),
        failure: status.failure.as_ref().map(|failure| format!("{}: {}", failure.step, failure.message)),
        started_at: status.started_at.as_ref().map(|time| time.0),
        finished_at: status.finished_at.as_ref().map(|time| time.0),
        noise: status.noise.clone(),
        provenance: facts(&entry.run, &entry.results),
        curves: curves(measured.iter().copied()),
        timelines: measured.into_iter().filter_map(timeline).collect(),
        searches: status
            .phases
            .iter()
            .filter_map(|phase| Some(Search { phase: phase.name.clone(), found: phase.search.clone()? }))
            .collect(),
    }
}

fn reasons(status: &BenchmarkRunStatus) -> Vec<PhaseReason> {
    let of = status.phases.iter().flat_map(|phase| phase.reasons.iter().map(move |reason| (phase, reason)));
    of.map(|(phase, reason)| PhaseReason { phase: phase.name.clone(), reason: reason.clone() }).collect()
}

fn limits(status: &BenchmarkRunStatus) -> Vec<PhaseLimit> {
    let of = status.phases.iter().filter_map(|phase| Some((phase, phase.limited_by.as_ref()?)));
    of.map(|(phase, limit)| PhaseLimit {
        phase: phase.name.clone(),
        limited_by: limit.clone(),
        confirmation: phase.confirmation.as_ref().map(|confirmed| confirmed.message.clone()),
    })
    .collect()
}

/// The curves of each phase and operation over all repetitions, except those with damaged
/// histograms, and totals that repeat the only operation.
fn curves<'a>(results: impl Iterator<Item = &'a RepetitionResult>) -> Vec<Curve> {
    let rows = results.filter(|result| result.failure.is_none()).flat_map(|result| {
        result.operations.iter().filter_map(|row| Some((&result.phase, &row.name, row.histogram.as_ref()?)))
    });
    let groups = grouped(rows, |(phase, operation, _)| (*phase, *operation));
    let operations: Vec<_> = groups.iter().map(|(place, _)| *place).collect();
    let repeats = |phase: &String, operation: &String| {
        let others = operations.iter().filter(|(other, name)| *other == phase && is_counted(name));
        operation == TOTAL && others.count() == 1
    };
    let curve = |((phase, operation), rows): ((&String, &String), Vec<_>)| {
        let latencies = merged(rows.into_iter().map(|(_, _, histogram)| histogram))?;
        let measured = latencies.count() > 0 && !repeats(phase, operation);
        measured.then(|| Curve {
            phase: phase.clone(),
            operation: operation.clone(),
            points: points(&latencies),
        })
    };
    groups.into_iter().filter_map(curve).collect()
}

/// The sum of `histograms`; `None` if one is damaged.
fn merged<'a>(histograms: impl Iterator<Item = &'a EncodedHistogram>) -> Option<Latencies> {
    let mut all = histograms.map(|histogram| Latencies::decode(histogram).ok()?.widened().ok());
    let mut sum = all.next()??;
    for one in all {
        sum.add(&one?).ok()?;
    }
    Some(sum)
}

fn points(latencies: &Latencies) -> Vec<(f64, f64)> {
    PERCENTILES.map(|percentile| (percentile, latencies.percentile(percentile) as f64 / 1e3)).to_vec()
}

/// Operations of each second, as long as every pod counted them.
fn timeline(result: &RepetitionResult) -> Option<Timeline> {
    let pods: Vec<Vec<u64>> = result.pods.iter().map(full_seconds).collect();
    let seconds = pods.iter().map(Vec::len).min().filter(|seconds| *seconds > 0)?;
    let operations = (0..seconds).map(|second| pods.iter().filter_map(|pod| pod.get(second)).sum());
    Some(Timeline {
        phase: result.phase.clone(),
        repetition: result.repetition,
        operations: operations.collect(),
        p99: result.p99_series.clone(),
        hits: result.hit_series.clone(),
        findings: result.reasons.iter().filter(|reason| !reason.intervals.is_empty()).cloned().collect(),
    })
}

/// The share of a second that the load must fill: a shorter one would look like a collapse.
const FULL_SECOND: f64 = 0.99;

pub(super) fn full_seconds(pod: &PodResult) -> Vec<u64> {
    let seconds = (0_u32..).zip(pod.series());
    let full = seconds.take_while(|(second, _)| pod.window.seconds - f64::from(*second) >= FULL_SECOND);
    full.map(|(_, operations)| operations).collect()
}

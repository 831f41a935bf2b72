//! What a report shows about each run. Pure.

use super::facts::facts;
use crate::{
    document::{Curve, PhaseLimit, PhaseReason, RunRecord, Search, SearchFigure, Timeline},
    input::Entry,
};
use dragstrip_crds::{BenchmarkRunStatus, run::SearchStatus};
use dragstrip_results::{
    histogram::Latencies,
    result::{PodResult, RepetitionResult},
};
use kube::ResourceExt;
use std::collections::{BTreeMap, btree_map};

/// The percentiles of a curve: closer together towards the tail.
const PERCENTILES: [f64; 21] = [
    0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99,
    99.995, 99.999, 99.9999, 100.0,
];

pub fn record(entry: &Entry) -> RunRecord {
    let status = entry.run.status.clone().unwrap_or_default();
    let measured = || entry.results.iter().filter(|result| result.point.is_none());
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
        provenance: facts(&entry.run),
        curves: curves(measured()),
        timelines: measured().filter_map(timeline).collect(),
        searches: status
            .phases
            .iter()
            .filter_map(|phase| Some(search(&phase.name, phase.search.as_ref()?)))
            .collect(),
    }
}

fn reasons(status: &BenchmarkRunStatus) -> Vec<PhaseReason> {
    let of = status.phases.iter().flat_map(|phase| phase.reasons.iter().map(move |reason| (phase, reason)));
    of.map(|(phase, reason)| PhaseReason { phase: phase.name.clone(), reason: reason.clone() }).collect()
}

fn limits(status: &BenchmarkRunStatus) -> Vec<PhaseLimit> {
    let of = status.phases.iter().filter_map(|phase| Some((phase, phase.limited_by.as_ref()?)));
    of.map(|(phase, limit)| PhaseLimit { phase: phase.name.clone(), limited_by: limit.clone() }).collect()
}

/// The curves of each phase and operation over all repetitions, except those with damaged
/// histograms.
fn curves<'a>(results: impl Iterator<Item = &'a RepetitionResult>) -> Vec<Curve> {
    let mut merged: BTreeMap<(String, String), Option<Latencies>> = BTreeMap::new();
    for result in results.filter(|result| result.failure.is_none()) {
        for row in &result.operations {
            let Some(histogram) = &row.histogram else { continue };
            let decoded = Latencies::decode(histogram).and_then(|latencies| latencies.widened()).ok();
            match merged.entry((result.phase.clone(), row.operation.clone())) {
                btree_map::Entry::Vacant(place) => {
                    place.insert(decoded);
                }
                btree_map::Entry::Occupied(mut place) => {
                    let sum = place.get_mut();
                    if sum.as_mut().zip(decoded).is_none_or(|(sum, one)| sum.add(&one).is_err()) {
                        *sum = None;
                    }
                }
            }
        }
    }
    let merged = merged.into_iter().filter_map(|(place, latencies)| Some((place, latencies?)));
    let curve = |((phase, operation), latencies): ((String, String), Latencies)| Curve {
        phase,
        operation,
        points: points(&latencies),
    };
    merged.filter(|(_, latencies)| latencies.count() > 0).map(curve).collect()
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
    })
}

/// The share of a second that the load must fill: a shorter last second would look like a
/// collapse of throughput.
const FULL_SECOND: f64 = 0.99;

pub(super) fn full_seconds(pod: &PodResult) -> Vec<u64> {
    let seconds = (0_u32..).zip(per_second(pod));
    let full = seconds.take_while(|(second, _)| pod.window.seconds - f64::from(*second) >= FULL_SECOND);
    full.map(|(_, operations)| operations).collect()
}

fn per_second(pod: &PodResult) -> Vec<u64> {
    if !pod.per_second.is_empty() {
        return pod.per_second.clone();
    }
    let seconds = pod.operations.iter().map(|row| row.per_second.len()).max().unwrap_or_default();
    let all = |second: usize| pod.operations.iter().filter_map(|row| row.per_second.get(second)).sum();
    (0..seconds).map(all).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// The points of a search, each the mean over repetitions.
fn search(phase: &str, search: &SearchStatus) -> Search {
    let mut by_value: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for point in &search.points {
        by_value.entry(point.value).or_default().push(point);
    }
    let points = by_value.into_iter().filter_map(|(value, points)| {
        Some(SearchFigure {
            value: value as f64,
            operations_per_second: mean(points.iter().map(|point| point.operations_per_second))?,
            p99_milliseconds: mean(points.iter().filter_map(|point| point.latency_milliseconds.p99)),
        })
    });
    Search {
        phase: phase.to_owned(),
        raised: format!("{:?}", search.raise),
        points: points.collect(),
        knee: search.knee.as_ref().map(|knee| knee.value as f64),
    }
}

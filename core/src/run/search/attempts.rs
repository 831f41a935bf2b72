//! The points of a search as attempts: what each measures once those before it are stored. Pure.

use super::knee::{Next, next, so_far};
use crate::run::{
    observe::{snapshot::JobFacts, stored_result::StoredResult},
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{
    run::{Raise, SearchSpec},
    units::whole,
    workload::{OpenLoopSpec, ToolSpec},
};
use dragstrip_results::search::SearchPoint;
use std::{collections::BTreeMap, sync::Arc};

/// Gives `tool` an open loop with so many operations per second; the schema admits it for loadgen alone.
fn set_rate(search: &SearchSpec, tool: &mut ToolSpec, rate: u64) {
    if let ToolSpec::Loadgen(spec) = tool {
        let operations_per_second = i64::try_from(rate).unwrap_or(i64::MAX);
        spec.rate =
            Some(OpenLoopSpec { operations_per_second, arrival: search.arrival, ..OpenLoopSpec::default() });
    }
}

/// `tool` and the number of client pods with `search` raised to `value`.
pub fn raised(search: &SearchSpec, tool: &ToolSpec, pods: u32, value: u64) -> (ToolSpec, u32) {
    let (mut tool, mut pods) = (tool.clone(), pods);
    let number = i32::try_from(value).unwrap_or(i32::MAX);
    match (search.raise, &mut tool) {
        (Raise::Pods, _) => pods = u32::try_from(value).unwrap_or(u32::MAX),
        (Raise::Rate, tool) => set_rate(search, tool, value),
        (Raise::Connections, ToolSpec::Loadgen(spec)) => spec.connections_per_thread = number,
        (Raise::Connections, ToolSpec::Memtier(spec)) => spec.connections_per_thread = number,
        (Raise::Pipeline, ToolSpec::Loadgen(spec)) => spec.pipeline = number,
        (Raise::Pipeline, ToolSpec::Memtier(spec)) => spec.pipeline = number,
        // The schema admits no search with them.
        (_, ToolSpec::Bullmq(_) | ToolSpec::Exec(_)) => {}
    }
    (tool, pods)
}

/// The rate at a share of the throughput found: at least one request for each of so many pods.
fn rate_at(share: f64, throughput: f64, pods: u32) -> u64 {
    whole((share * throughput).round()).max(u64::from(pods))
}

/// The value that `attempt` measures after `points`, and the tool and pods with it; `None`
/// if the search does not need it. A Job that exists has the value `of_job` and is measured,
/// even if another version of the operator would choose another value.
fn measures(
    search: &SearchSpec,
    attempt: &Attempt,
    points: &[SearchPoint],
    of_job: Option<u64>,
) -> Option<(u64, ToolSpec, u32)> {
    let with = |value| raised(search, &attempt.tool, attempt.pods, value);
    let next = next(search, points);
    let Some(share) = attempt.point.as_ref().and_then(|point| point.share) else {
        let value = match next {
            Next::Measure(value) => of_job.unwrap_or(value),
            Next::Done(_) => of_job?,
        };
        let (tool, pods) = with(value);
        return Some((value, tool, pods));
    };
    let best = match next {
        Next::Done(Some(knee)) => knee.point,
        _ => of_job.and_then(|_| so_far(search, points))?,
    };
    let (mut tool, pods) = with(points[best].value);
    let rate = of_job.unwrap_or_else(|| rate_at(share, points[best].operations_per_second, pods));
    set_rate(search, &mut tool, rate);
    Some((rate, tool, pods))
}

/// Gives each point of `run`'s searches its value, tool and pods, as far as the points before it
/// are stored. Points that the search does not need are skipped.
pub fn settle(
    run: &mut ValidatedRun,
    stored: &BTreeMap<String, StoredResult>,
    jobs: &BTreeMap<String, JobFacts>,
) {
    let same = |a: &Attempt, b: &Attempt| {
        (a.repetition, a.measurement, a.phase_index) == (b.repetition, b.measurement, b.phase_index)
    };
    for attempts in run.attempts.chunk_by_mut(same) {
        let phase = Arc::clone(&attempts[0].declared);
        if let Some(search) = &phase.search {
            settle_phase(search, attempts, stored, jobs);
        }
    }
}

/// The same for the `attempts` of one search.
fn settle_phase(
    search: &SearchSpec,
    attempts: &mut [Attempt],
    stored: &BTreeMap<String, StoredResult>,
    jobs: &BTreeMap<String, JobFacts>,
) {
    let mut points: Vec<SearchPoint> = Vec::new();
    let mut rest = attempts.iter_mut();
    for attempt in rest.by_ref() {
        let of_job = jobs.get(&attempt.name).and_then(|job| job.search_value);
        let (value, open) = match stored.get(&attempt.name) {
            Some(StoredResult { failure: None, point: Some(measured), .. }) => {
                points.extend(measured.share.is_none().then(|| measured.clone()));
                (Some(measured.value), false)
            }
            // A search that lacks one of its points goes no further.
            Some(_) => break,
            None => match measures(search, attempt, &points, of_job) {
                Some((value, tool, pods)) => {
                    (attempt.tool, attempt.pods) = (Arc::new(tool), pods);
                    (Some(value), true)
                }
                None => (None, false),
            },
        };
        attempt.skipped = value.is_none();
        if let Some(point) = &mut attempt.point {
            point.value = value;
        }
        // The values after an open point are not known yet.
        if open {
            return;
        }
    }
    rest.for_each(|attempt| attempt.skipped = true);
}

#[cfg(test)]
mod tests;

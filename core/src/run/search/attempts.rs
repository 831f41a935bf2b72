//! The points of a search as attempts of a run: what each measures, once the points before it are
//! stored. Pure.

use super::knee::{Next, next, so_far};
use crate::run::{
    observe::{snapshot::JobFacts, stored_result::StoredResult},
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{
    run::{Raise, SearchSpec},
    workload::OpenLoopSpec,
};
use dragstrip_results::{protocol::JobTool, search::SearchPoint};
use std::{collections::BTreeMap, sync::Arc};

/// `value` within what the fields of a tool hold.
fn field(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The open loop of `search` with so many operations per second.
fn open_loop(search: &SearchSpec, rate: u64) -> OpenLoopSpec {
    OpenLoopSpec { operations_per_second: i64::try_from(rate).unwrap_or(i64::MAX), arrival: search.arrival }
}

/// `tool` and the number of client pods with `search` raised to `value`.
pub fn raised(search: &SearchSpec, tool: &JobTool, pods: u32, value: u64) -> (JobTool, u32) {
    let (mut tool, mut pods) = (tool.clone(), pods);
    match (search.raise, &mut tool) {
        (Raise::Pods, _) => pods = u32::try_from(value).unwrap_or(u32::MAX),
        (Raise::Connections, JobTool::Loadgen(spec)) => spec.connections_per_thread = field(value),
        (Raise::Connections, JobTool::Memtier(spec)) => spec.connections_per_thread = field(value),
        (Raise::Pipeline, JobTool::Loadgen(spec)) => spec.pipeline = field(value),
        (Raise::Pipeline, JobTool::Memtier(spec)) => spec.pipeline = field(value),
        (Raise::Rate, JobTool::Loadgen(spec)) => spec.rate = Some(open_loop(search, value)),
        // Refused before: nothing of theirs can be raised.
        (Raise::Rate, JobTool::Memtier(_)) | (_, JobTool::Bullmq(_) | JobTool::Exec(_)) => {}
    }
    (tool, pods)
}

/// `tool` as an open loop with so many operations per second.
fn at_rate(search: &SearchSpec, mut tool: JobTool, rate: u64) -> JobTool {
    // Other tools have none: refused before.
    if let JobTool::Loadgen(spec) = &mut tool {
        spec.rate = Some(open_loop(search, rate));
    }
    tool
}

/// The rate at a share of the throughput found: at least one request for each of so many pods.
fn rate_at(share: f64, throughput: f64, pods: u32) -> u64 {
    // Throughput is far below 2^63 and never negative: rounding is safe.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = (share * throughput).round() as u64;
    rate.max(u64::from(pods))
}

/// What is known of a run's attempts beside its spec.
struct Known<'a> {
    stored: &'a BTreeMap<String, StoredResult>,
    jobs: &'a BTreeMap<String, JobFacts>,
}

impl Known<'_> {
    /// The value with which the Job of this name was made, perhaps by a version that would choose another.
    fn of_job(&self, name: &str) -> Option<u64> {
        self.jobs.get(name)?.search_value
    }
}

/// The value that `attempt` measures after `points`, and the tool and pods with it; `None`
/// where it is not needed. A Job that exists is measured, whatever made it.
fn measures(
    search: &SearchSpec,
    attempt: &Attempt,
    share: Option<f64>,
    points: &[SearchPoint],
    known: &Known<'_>,
) -> Option<(u64, JobTool, u32)> {
    let of_job = known.of_job(&attempt.name);
    let with = |value| raised(search, &attempt.tool, attempt.pods, value);
    let next = next(search, points);
    let Some(share) = share else {
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
    let (tool, pods) = with(points[best].value);
    let rate = of_job.unwrap_or_else(|| rate_at(share, points[best].operations_per_second, pods));
    Some((rate, at_rate(search, tool, rate), pods))
}

/// Gives the points of `run`'s searches what is known so far: their value, and the tool
/// and pods with it. Those that are not needed are skipped.
pub fn settle(
    run: &mut ValidatedRun,
    stored: &BTreeMap<String, StoredResult>,
    jobs: &BTreeMap<String, JobFacts>,
) {
    let known = Known { stored, jobs };
    let same = |a: &Attempt, b: &Attempt| {
        (a.repetition, a.measurement, a.phase_index) == (b.repetition, b.measurement, b.phase_index)
    };
    for attempts in run.attempts.chunk_by_mut(same) {
        if let Some(search) = &run.spec.phases[attempts[0].phase_index].search {
            settle_phase(search, attempts, &known);
        }
    }
}

/// The same for the `attempts` of one search.
fn settle_phase(search: &SearchSpec, attempts: &mut [Attempt], known: &Known<'_>) {
    let mut points: Vec<SearchPoint> = Vec::new();
    let mut rest = attempts.iter_mut();
    for attempt in rest.by_ref() {
        let share = attempt.point.as_ref().and_then(|point| point.share);
        let value = match known.stored.get(&attempt.name) {
            Some(StoredResult { failure: None, point: Some(measured), .. }) => {
                if share.is_none() {
                    points.push(measured.clone());
                }
                Some(measured.value)
            }
            // A search that lacks one of its points goes no further.
            Some(_) => break,
            None => match measures(search, attempt, share, &points, known) {
                Some((value, tool, pods)) => {
                    attempt.settle(value, tool, pods);
                    // What comes after an open point is not known yet.
                    return;
                }
                None => None,
            },
        };
        attempt.skipped = value.is_none();
        if let Some(point) = &mut attempt.point {
            point.value = value;
        }
    }
    rest.for_each(|attempt| attempt.skipped = true);
}

impl Attempt {
    fn settle(&mut self, value: u64, tool: JobTool, pods: u32) {
        if let Some(point) = &mut self.point {
            point.value = Some(value);
        }
        self.tool = Arc::new(tool);
        self.pods = pods;
    }
}

#[cfg(test)]
mod tests;

//! Whether throughput stayed the same: no stalls, no other level, no trend. Pure.

use super::evidence::{Evidence, Found, percent};
use crate::{
    judged::limits,
    measured::statistics::{Part, median, other_part, slope},
    result::PodResult,
};
use dragstrip_crds::run::{Disturbance, Interval};

/// Most stalls that a finding names, since a status holds them.
const MOST_STALLS: usize = 8;

/// The evidence, and where in the series it is.
type Finding = (String, Vec<Interval>);

fn interval(disturbance: Disturbance, from: usize, to: usize) -> Interval {
    let second = |place| u32::try_from(place).unwrap_or(u32::MAX);
    Interval { disturbance, from_second: second(from), to_second: second(to) }
}

/// Operations of all clients in each whole second of the common window. The clients
/// start within milliseconds of each other: each one's seconds count as the others'. `None`
/// if a tool does not report its seconds.
fn per_second(pods: &[PodResult], window_seconds: f64) -> Option<Vec<f64>> {
    let series: Vec<Vec<u64>> = pods.iter().map(PodResult::series).collect();
    let least = series.iter().map(Vec::len).min().filter(|least| *least > 0)?;
    let complete = (0..least).take_while(|second| (second + 1) as f64 <= window_seconds);
    Some(complete.map(|second| series.iter().map(|one| one[second]).sum::<u64>() as f64).collect())
}

/// Throughput stalled, was at another level for a part of the time, or rose or fell, by more than
/// `limit` and not by chance.
pub(super) fn not_steady(evidence: &Evidence, limit: f64) -> Found {
    let Some(series) = per_second(&evidence.result.pods, evidence.result.window_seconds) else {
        return Found::NotMade("the tool does not report its operations of each second");
    };
    if let Some((message, intervals)) = stall(&series) {
        return Found::BadDuring(message, intervals);
    }
    if series.len() < limits::TREND_SECONDS {
        return Found::NotMade("fewer than 8 complete seconds were measured");
    }
    match level(&series, limit).or_else(|| trend(&series, limit)) {
        Some((message, intervals)) => Found::BadDuring(message, intervals),
        None => Found::Good,
    }
}

/// Seconds with far less than the usual throughput.
fn stall(series: &[f64]) -> Option<Finding> {
    let usual = median(series);
    let stalled = |(_, count): &(usize, &f64)| **count < limits::STALL * usual;
    let seconds: Vec<usize> = series.iter().enumerate().filter(stalled).map(|(second, _)| second).collect();
    let enough = series.len() >= limits::STALL_SECONDS && usual >= limits::STALL_OPERATIONS;
    let first = seconds.first().filter(|_| enough)?;
    // A slow start is a part at another level, which has a remedy of its own.
    let only_begin = seconds.iter().enumerate().all(|(place, second)| place == *second);
    (!only_begin || series.len() < limits::TREND_SECONDS).then(|| {
        let message = format!(
            "throughput stalled: {} of {} seconds had less than half of the usual operations, the first {first} s after the begin: look for snapshots, rehashing, or a neighbour",
            seconds.len(),
            series.len()
        );
        let stalls = seconds.chunk_by(|one, next| one + 1 == *next);
        let ends = stalls.filter_map(|stall| Some((*stall.first()?, *stall.last()? + 1)));
        let interval = |(from, to)| interval(Disturbance::Stall, from, to);
        (message, ends.take(MOST_STALLS).map(interval).collect())
    })
}

/// A part of the time in which throughput was more than `limit` lower or higher than in the rest.
fn level(series: &[f64], limit: f64) -> Option<Finding> {
    let part = other_part(series)?;
    let Part { from, to, inside, outside, significance } = part;
    let change = inside / outside - 1.0;
    if change.abs() <= limit || significance <= limits::LEVEL_SIGNIFICANCE {
        return None;
    }
    let (size, limit, all) = (percent(change.abs()), percent(limit), series.len());
    let direction = if change < 0.0 { "lower" } else { "higher" };
    let (message, disturbance) = if from == 0 && change < 0.0 && to <= all / 2 {
        let message = format!(
            "throughput was {size} lower in the first {to} of {all} s than after them (limit {limit}): warm up for at least {to} s"
        );
        (message, Disturbance::ColdStart)
    } else {
        let message = format!(
            "throughput was {size} {direction} from {from} s to {to} s of {all} s than in the rest (limit {limit}): warm up longer, or look for what changed"
        );
        (message, Disturbance::OtherLevel)
    };
    Some((message, vec![interval(disturbance, from, to)]))
}

/// Throughput rose or fell by more than `limit` of its mean from begin to end, and not by chance.
fn trend(series: &[f64], limit: f64) -> Option<Finding> {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    // Seconds that do not differ have no slope.
    let (slope, chance) = slope(series).filter(|_| mean > 0.0)?;
    let trend = slope * (series.len() - 1) as f64 / mean;
    (trend.abs() > limit && chance <= limits::TREND_SIGNIFICANCE).then(|| {
        let direction = if trend < 0.0 { "fell" } else { "rose" };
        let message = format!(
            "throughput {direction} by {} over {} s (limit {}): warm up longer, or look for what changed",
            percent(trend.abs()),
            series.len(),
            percent(limit)
        );
        (message, vec![interval(Disturbance::Trend, 0, series.len())])
    })
}

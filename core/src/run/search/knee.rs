//! The rule of a search: which value is measured next, and which one is
//! the limit. A function of the figures of the points before, whoever measured them and
//! when, so that a restarted operator goes on where it was. Pure.

mod fit;
mod level;

use dragstrip_crds::run::{KneeReason, Raise, Requirement, SearchSpec};
use dragstrip_results::{result::RepetitionResult, search::SearchPoint};
use std::collections::BTreeMap;

/// Measurements near the knee, through which the fit goes.
const NEAR: usize = 10;
/// Below this value, a step from one value to the next is more than the fit resolves: two
/// measurements of each of two neighbours are enough.
const COARSE: u64 = 20;

/// What a search does after the points that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Measure(u64),
    /// Nothing more; `None` where the first value is beyond the bound already, or the servers' usage is
    /// not known.
    Done(Option<Knee>),
}

/// The value that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knee {
    /// Index of the measurement that stands for the search.
    pub point: usize,
    /// Lower end of the knee's interval.
    pub low: u64,
    /// Upper end of the knee's interval.
    pub high: u64,
    pub why: KneeReason,
}

/// What one measurement says: whether the bound is below its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Vote {
    value: u64,
    beyond: bool,
}

fn unsigned(value: i64) -> u64 {
    value.unsigned_abs()
}

/// The smallest growth of throughput, if that is the bound. With an open loop it is not: a server
/// that follows the rate gains all that is added.
fn by_gain(spec: &SearchSpec) -> Option<f64> {
    spec.until.gain.as_ref().filter(|_| spec.raise != Raise::Rate).map(|gain| 1.0 + gain.value())
}

/// Why `point` alone is beyond the bound, if it is.
fn beyond(spec: &SearchSpec, point: &SearchPoint) -> Option<KneeReason> {
    if spec.raise == Raise::Rate && !point.followed {
        return Some(KneeReason::NotFollowed);
    }
    let (figure, bound, why) = match (&spec.until.p99, &spec.until.server_cpus) {
        (Some(p99), _) => (point.p99_milliseconds, p99.milliseconds(), KneeReason::P99),
        (None, Some(cpus)) => (point.server_cpus, cpus.value(), KneeReason::ServerCPUs),
        (None, None) => return None,
    };
    // Without a figure no point is within the bound.
    (!figure.is_some_and(|figure| figure <= bound)).then_some(why)
}

/// The first value without the servers' usage that the bound is about: it ends the search.
pub fn without_usage(spec: &SearchSpec, points: &[SearchPoint]) -> Option<u64> {
    spec.until.server_cpus.as_ref()?;
    points.iter().find(|point| point.server_cpus.is_none()).map(|point| point.value)
}

fn votes(spec: &SearchSpec, points: &[SearchPoint]) -> Vec<Vote> {
    let least = by_gain(spec);
    let full = least.and_then(|least| level::full(spec, points, least));
    let vote = |point: &SearchPoint| Vote {
        value: point.value,
        beyond: match least {
            Some(least) => full.is_some_and(|full| point.operations_per_second * least >= full),
            None => beyond(spec, point).is_some(),
        },
    };
    points.iter().map(vote).collect()
}

/// How many of the votes on each value are within the bound, and how many beyond it.
fn counted(votes: &[Vote]) -> BTreeMap<u64, [usize; 2]> {
    let mut counted = BTreeMap::<u64, [usize; 2]>::new();
    for vote in votes {
        counted.entry(vote.value).or_default()[usize::from(vote.beyond)] += 1;
    }
    counted
}

/// The neighbouring values between which the bound lies: those that the fewest `votes`
/// contradict. No value if it lies below the first or above the last. What disturbs a server makes
/// it slower, so of equals it is the lowest where throughput levels off (`gain`), else the highest.
fn bracket(votes: &[Vote], gain: bool) -> (Option<u64>, Option<u64>) {
    let counted: Vec<(u64, [usize; 2])> = counted(votes).into_iter().collect();
    let against = |gap: usize| {
        let below = counted[..gap].iter().map(|(_, [_, beyond])| beyond).sum::<usize>();
        below + counted[gap..].iter().map(|(_, [within, _])| within).sum::<usize>()
    };
    let rank = |gap: &usize| (against(*gap), if gain { *gap } else { counted.len() - gap });
    let gap = (0..=counted.len()).min_by_key(rank).unwrap_or(0);
    let value = |index: usize| counted.get(index).map(|(value, _)| *value);
    (gap.checked_sub(1).and_then(value), value(gap))
}

/// A value that the search must measure again before it decides: one beyond the bound, a third
/// time if the second measurement disagrees, and the last value allowed.
fn unconfirmed(spec: &SearchSpec, points: &[SearchPoint], votes: &[Vote]) -> Option<u64> {
    if let Some(least) = by_gain(spec) {
        return level::unconfirmed(spec, points, least);
    }
    let open = |value: u64, [within, beyond]: [usize; 2]| match (within, beyond) {
        (0 | 1, 1) => true,
        (1, 0) => value == unsigned(spec.to),
        _ => false,
    };
    counted(votes).into_iter().find_map(|(value, counts)| open(value, counts).then_some(value))
}

/// Whether two values are so close that the search halves the interval between them no more: by
/// a tenth, compared in whole numbers, or neighbours with nothing between them.
fn narrow(low: u64, high: u64) -> bool {
    (high - low).saturating_mul(10) <= low.max(10)
}

/// What a search does after `points`, in the order measured.
pub fn next(spec: &SearchSpec, points: &[SearchPoint]) -> Next {
    let (first, last) = (unsigned(spec.from).min(unsigned(spec.to)), unsigned(spec.to));
    if points.is_empty() {
        return Next::Measure(first);
    }
    if without_usage(spec, points).is_some() {
        return Next::Done(None);
    }
    let spent = points.len() >= usize::try_from(spec.most_points()).unwrap_or(usize::MAX);
    let votes = votes(spec, points);
    if let Some(value) = unconfirmed(spec, points, &votes).filter(|_| !spent) {
        return Next::Measure(value);
    }
    let gain = by_gain(spec).is_some();
    let (low, high) = match bracket(&votes, gain) {
        (Some(low), Some(high)) => (low, high),
        (None, Some(high)) if gain => return Next::Done(alone(points, high, KneeReason::Gain)),
        (None, _) => return Next::Done(None),
        (Some(low), None) if low >= last || spent => {
            return Next::Done(alone(points, low, KneeReason::Limit));
        }
        (Some(low), None) => return Next::Measure(low.saturating_mul(2).min(last)),
    };
    if !narrow(low, high) && !spent {
        return Next::Measure(low + (high - low) / 2);
    }
    let mut fit = fit::fit(&votes, (low, high), gain);
    let near: Vec<usize> = (0..points.len()).filter(|index| fit.near(points[*index].value)).collect();
    let both =
        || [low, high].iter().all(|value| votes.iter().filter(|vote| vote.value == *value).count() > 1);
    let coarse = !gain && high - low <= 1 && low < COARSE && both();
    if near.len() < NEAR && !coarse && !spent {
        return Next::Measure(fit.value.clamp(first, last));
    }
    if coarse {
        fit = fit::Fit { value: low, low, high };
    }
    if gain {
        // Throughput hardly changes with the value, and all votes depend on the same full throughput:
        // the interval is where measurements contradict each other.
        let contradicting =
            |beyond| votes.iter().filter(move |vote| vote.beyond == beyond).map(|vote| vote.value);
        fit.low = fit.low.min(contradicting(true).min().unwrap_or(low));
        fit.high = fit.high.max(contradicting(false).max().unwrap_or(high));
    }
    let point = if gain { typical(points, &near, high) } else { nearest(points, &votes, false, fit.value) };
    Next::Done(point.map(|point| {
        let far = nearest(points, &votes, true, fit.value);
        let why = far.and_then(|far| beyond(spec, &points[far])).unwrap_or(KneeReason::Gain);
        let value = points[point].value;
        Knee { point, low: fit.low.min(value), high: fit.high.max(value), why }
    }))
}

/// The measurement on this side of the bound that is nearest to `value`.
fn nearest(points: &[SearchPoint], votes: &[Vote], beyond: bool, value: u64) -> Option<usize> {
    let of_side = (0..points.len()).filter(|index| votes[*index].beyond == beyond);
    of_side.min_by_key(|index| points[*index].value.abs_diff(value))
}

/// The measurement with the median throughput of those `near` the knee with at least the value
/// `from`, the first that has all of the throughput.
fn typical(points: &[SearchPoint], near: &[usize], from: u64) -> Option<usize> {
    let mut full: Vec<usize> = near.iter().copied().filter(|index| points[*index].value >= from).collect();
    full.sort_by(|a, b| points[*a].operations_per_second.total_cmp(&points[*b].operations_per_second));
    full.get(full.len() / 2).copied().or_else(|| points.iter().rposition(|point| point.value == from))
}

/// The knee at `value`, which needs no fit.
fn alone(points: &[SearchPoint], value: u64, why: KneeReason) -> Option<Knee> {
    let point = points.iter().rposition(|point| point.value == value)?;
    Some(Knee { point, low: value, high: value, why })
}

/// Index of the point that stands for a search: its knee, or else the best so far; `None` without points.
pub fn so_far(spec: &SearchSpec, points: &[SearchPoint]) -> Option<usize> {
    let gain = by_gain(spec).is_some();
    let (low, high) = bracket(&votes(spec, points), gain);
    let best = if gain { high.or(low) } else { low };
    match next(spec, points) {
        Next::Done(Some(knee)) => Some(knee.point),
        _ => points.iter().rposition(|point| Some(point.value) == best).or((!points.is_empty()).then_some(0)),
    }
}

/// What is required of `result`, of all that is `declared`: a rate that the server could
/// not follow answers a search, whatever else it broke, and fails nothing.
pub fn requirements<'a>(result: &RepetitionResult, declared: &'a [Requirement]) -> &'a [Requirement] {
    let answers = |point: &SearchPoint| point.share.is_none() && !point.followed;
    if result.point.as_ref().is_some_and(answers) { &[] } else { declared }
}

#[cfg(test)]
mod tests;

//! The rule of a search: which value is measured next, and which one is
//! the limit. A function of the figures of the points before, whoever measured them and
//! when, so that a restarted operator goes on where it was. Pure.

use dragstrip_crds::run::{HALVINGS, KneeReason, Raise, Requirement, SearchSpec};
use dragstrip_results::{result::RepetitionResult, search::SearchPoint};

/// What a search does after the points that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Measure(u64),
    /// Nothing more; `None` where the first value is beyond the bound already.
    Done(Option<Knee>),
}

/// The value that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knee {
    pub point: usize,
    /// The largest value measured on the near side of the bound.
    pub low: u64,
    /// The smallest value measured on its far side.
    pub high: u64,
    /// Why the search went no further.
    pub why: KneeReason,
}

/// Where a search stands.
struct Bracket {
    /// Index of the point with the largest value on the near side of the bound.
    low: Option<usize>,
    /// Index of the point with the smallest value on its far side.
    high: usize,
    /// Why that one is on the far side.
    why: KneeReason,
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
    let bound = spec.until.p99.as_ref()?.milliseconds();
    // Without a p99 no point is within the bound.
    (!point.p99_milliseconds.is_some_and(|p99| p99 <= bound)).then_some(KneeReason::P99)
}

/// Whether raising from `before` to `after` added less than `least` (1.02 for 2%) demands of
/// a doubling, in proportion.
fn levels_off(before: &SearchPoint, after: &SearchPoint, least: f64) -> bool {
    let doublings = (after.value as f64 / before.value as f64).log2();
    after.operations_per_second < before.operations_per_second * least.powf(doublings)
}

/// Index of the last of the doubled `points`, once the bound is broken, and the bracket there.
fn broken(spec: &SearchSpec, points: &[SearchPoint]) -> Option<(usize, Bracket)> {
    if let Some(least) = by_gain(spec) {
        let (level, last) =
            (0..points.len()).find_map(|level| Some((level, level_until(spec, points, level, least)?)))?;
        return Some((last, Bracket { low: level.checked_sub(1), high: level, why: KneeReason::Gain }));
    }
    points.iter().enumerate().find_map(|(index, point)| {
        let why = beyond(spec, point)?;
        Some((index, Bracket { low: index.checked_sub(1), high: index, why }))
    })
}

/// Index of the point that shows that throughput levels off at the point with index
/// `level`. The next but one must show it too, if there may be one: a single disturbed
/// measurement does not count.
fn level_until(spec: &SearchSpec, points: &[SearchPoint], level: usize, least: f64) -> Option<usize> {
    let shows =
        |index: usize| points.get(index).is_some_and(|after| levels_off(&points[level], after, least));
    let next = level + 1;
    let last = if points.get(next)?.value >= unsigned(spec.to) { next } else { next + 1 };
    (shows(next) && shows(last)).then_some(last)
}

/// The bracket after all `points`, of which those after the doubled ones halved it.
fn bracket(spec: &SearchSpec, points: &[SearchPoint]) -> Option<Bracket> {
    let (last, mut bracket) = broken(spec, points)?;
    let most = points[..=last].iter().map(|point| point.operations_per_second).fold(0.0, f64::max);
    for (index, point) in points.iter().enumerate().skip(last + 1) {
        let above = bracket.low.is_none_or(|low| points[low].value < point.value);
        if !above || point.value >= points[bracket.high].value {
            continue;
        }
        let far = match by_gain(spec) {
            Some(least) => (point.operations_per_second * least >= most).then_some(KneeReason::Gain),
            None => beyond(spec, point),
        };
        match far {
            Some(why) => (bracket.high, bracket.why) = (index, why),
            None => bracket.low = Some(index),
        }
    }
    Some(bracket)
}

/// The point that stands for the search in this bracket: where throughput levels off the
/// first that has all of it, else the last one within the bound.
fn best(spec: &SearchSpec, bracket: &Bracket) -> Option<usize> {
    if by_gain(spec).is_some() { Some(bracket.high) } else { bracket.low }
}

/// What a search does after `points`, in the order measured.
pub fn next(spec: &SearchSpec, points: &[SearchPoint]) -> Next {
    let all = points.len() >= usize::try_from(spec.most_points()).unwrap_or(usize::MAX);
    let Some(bracket) = bracket(spec, points) else {
        let last = unsigned(spec.to);
        return match points.last() {
            None => Next::Measure(unsigned(spec.from).min(last)),
            Some(point) if point.value >= last || all => Next::Done(Some(Knee {
                point: points.len() - 1,
                low: point.value,
                high: point.value,
                why: KneeReason::Limit,
            })),
            Some(point) => Next::Measure(point.value.saturating_mul(2).min(last)),
        };
    };
    let Some(best) = best(spec, &bracket) else {
        return Next::Done(None);
    };
    let high = points[bracket.high].value;
    let low = bracket.low.map_or(high, |low| points[low].value);
    // A tenth of the value, compared in whole numbers; neighbours have nothing between them.
    let narrow = (high - low).saturating_mul(10) <= points[best].value.max(10);
    if narrow || all {
        return Next::Done(Some(Knee { point: best, low, high, why: bracket.why }));
    }
    Next::Measure(low + (high - low) / 2)
}

/// Index of the point that stands for a search so far: its knee, or as long as there is
/// none the best; `None` without points.
pub fn so_far(spec: &SearchSpec, points: &[SearchPoint]) -> Option<usize> {
    let last = points.len().checked_sub(1)?;
    Some(match bracket(spec, points) {
        Some(bracket) => best(spec, &bracket).unwrap_or(0),
        None => last,
    })
}

/// What is required of `result`, of all that is `declared`: a rate that the server could
/// not follow answers a search, whatever else it broke, and fails nothing.
pub fn requirements<'a>(result: &RepetitionResult, declared: &'a [Requirement]) -> &'a [Requirement] {
    let answers = |point: &SearchPoint| point.share.is_none() && !point.followed;
    if result.point.as_ref().is_some_and(answers) { &[] } else { declared }
}

// Four halvings leave a sixteenth of an interval from a value to its double.
const _: () = assert!(1 << HALVINGS >= 10);

#[cfg(test)]
mod tests;

//! Compares one figure with another measured or published one. Pure.

use super::{
    interval::{self, Side, Sides},
    verdict::{self, Missing},
};
use crate::{
    document::{Comparison, Row},
    published,
    rules::Rules,
};
use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::Verdict,
    suite::ComparisonVerdict,
};
use dragstrip_results::statistics;
use std::collections::BTreeMap;

/// With two blocks, the t test of their differences finds next to nothing.
const LEAST_BLOCKS: usize = 3;

fn around(mid: f64, half: f64) -> Estimate {
    Estimate { low: mid - half, mid, high: mid + half }
}

fn spread<'a>(row: &'a Row, whose: &str) -> Result<&'a Spread, String> {
    row.spread.as_ref().ok_or_else(|| match row.verdict {
        Some(Verdict::Invalid) => format!("all measurements of {whose} are Invalid"),
        _ => format!("{whose} has no measurement of this figure"),
    })
}

fn is_zero(value: f64) -> bool {
    value == 0.0
}

/// The values of each start of a server. A run whose server is unknown counts as one start.
pub(super) fn starts(row: &Row) -> BTreeMap<&str, Vec<f64>> {
    let mut starts = BTreeMap::<&str, Vec<f64>>::new();
    for sample in row.counted() {
        let server = sample.server.as_deref().unwrap_or(&sample.run);
        starts.entry(server).or_default().push(sample.value);
    }
    starts
}

/// One value for each start of a server: its mean.
fn by_start(starts: &BTreeMap<&str, Vec<f64>>) -> Result<Spread, Missing> {
    let means: Vec<f64> = starts.values().map(|values| statistics::mean(values)).collect();
    match (means.as_slice(), starts.values().map(Vec::len).sum()) {
        ([] | [_], 0 | 1) => Err(Missing::Measurements),
        ([_], _) => Err(Missing::Starts),
        _ => statistics::spread(&means).ok_or(Missing::Measurements),
    }
}

/// Both measurements of each block.
fn pairs(here: &Row, there: &Row) -> Vec<(f64, f64)> {
    let values = there.counted().map(|sample| (sample.repetition, sample.value));
    let there: BTreeMap<u32, f64> = values.collect();
    here.counted().filter_map(|sample| Some((sample.value, *there.get(&sample.repetition)?))).collect()
}

/// The samples of a test, at the level that varies: two sides on the same servers differ in their
/// measurements, two sides on different ones in how a server happens to start, too.
fn sides(here: &Row, there: &Row, in_blocks: bool) -> Result<Sides, Missing> {
    let step = interval::step(here.counted().chain(there.counted()).map(|sample| sample.value));
    let side = |spread: &Spread| Side::of(spread, step).ok_or(Missing::Measurements);
    let (own, other) = (starts(here), starts(there));
    let same_servers = own.keys().eq(other.keys());
    let (x, y) = match (same_servers, &here.spread, &there.spread) {
        (true, Some(here), Some(there)) => (side(here)?, side(there)?),
        _ => (side(&by_start(&own)?)?, side(&by_start(&other)?)?),
    };
    let pairs = pairs(here, there);
    let single = |starts: &BTreeMap<&str, Vec<f64>>| starts.values().all(|values| values.len() == 1);
    let in_blocks =
        in_blocks && pairs.len() >= LEAST_BLOCKS && (same_servers || single(&own) && single(&other));
    Ok(if in_blocks { Sides::Blocks { pairs, step } } else { Sides::Separate(x, y) })
}

/// The comparison of `row` with a figure of the baseline and its number of measurements.
fn comparison(
    row: &Row,
    (baseline, baseline_samples): (f64, u32),
    (ratio, difference): (Estimate, Estimate),
    detectable: Result<f64, Missing>,
    rules: &Rules,
) -> Comparison {
    let margin = rules.margin(&row.metric);
    let (verdict, reason) = verdict::judge(&ratio, detectable, margin, row.more_is_better);
    Comparison {
        baseline,
        baseline_samples,
        ratio,
        difference,
        interval_known: detectable.is_ok(),
        detectable: detectable.ok(),
        margin,
        chance: None,
        holds_among_all: None,
        verdict,
        reason,
    }
}

/// Compare `row` with a measured one; fails with the reason if that is impossible.
pub fn with_measured(row: &Row, there: &Row, rules: &Rules) -> Result<Comparison, String> {
    let baseline = spread(there, "the baseline")?;
    let here = spread(row, "this combination")?;
    if is_zero(baseline.mean) && !is_zero(here.mean) {
        return Err(format!("the baseline's figure is 0, so there is no ratio (here {})", here.mean));
    }
    let sides = sides(row, there, rules.in_blocks);
    let ratio = match &sides {
        _ if is_zero(baseline.mean) => around(1.0, 0.0),
        Ok(sides) => sides.ratio(),
        Err(_) => around(here.mean / baseline.mean, 0.0),
    };
    let difference =
        sides.as_ref().map_or_else(|_| around(here.mean - baseline.mean, 0.0), Sides::difference);
    let detectable = sides.as_ref().map_err(|missing| *missing);
    let detectable = detectable.map(|sides| if is_zero(baseline.mean) { 0.0 } else { sides.detectable() });
    let figure = (baseline.mean, baseline.repetitions);
    let compared = comparison(row, figure, (ratio, difference), detectable, rules);
    Ok(Comparison { chance: sides.ok().map(|sides| sides.chance()), ..compared })
}

pub fn with_published(row: &Row, figure: &published::Figure, rules: &Rules) -> Result<Comparison, String> {
    let here = spread(row, "this combination")?;
    let published = figure.value;
    if is_zero(published) {
        return Err("the published figure is 0, so there is no ratio".to_owned());
    }
    if figure.has_another_unit(row) {
        return Err(format!("the published figure is in {}, this one in {}", figure.unit, row.unit));
    }
    let values = row.counted().map(|sample| sample.value).chain([published]);
    let step = interval::step(values);
    let side = by_start(&starts(row)).and_then(|means| Side::of(&means, step).ok_or(Missing::Measurements));
    let half = side.map(Side::half_width);
    let width = half.unwrap_or_default();
    let estimates = (around(here.mean / published, width / published), around(here.mean - published, width));
    let detectable = side.map(|side| side.detectable() / published);
    let mut compared = comparison(row, (published, 0), estimates, detectable, rules);
    // One more measurement here lies within mean +- half x sqrt(n + 1), 95 % of the time.
    let one_more = width * (starts(row).len() as f64 + 1.0).sqrt();
    let differs = matches!(compared.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse);
    if differs && (here.mean - published).abs() <= one_more {
        compared.verdict = ComparisonVerdict::Unclear;
        compared.reason +=
            "; but one more measurement here could give the published figure, whose spread is unknown";
    }
    compared.reason.extend(figure.note.iter().map(|note| format!("; note in the table: {note}")));
    Ok(compared)
}

#[cfg(test)]
mod tests;

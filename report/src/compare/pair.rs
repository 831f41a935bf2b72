//! Compares one figure with another measured or published one. Pure.

use super::{interval, verdict};
use crate::{
    document::{Comparison, Row},
    published,
};
use dragstrip_crds::{
    measured::{Estimate, Spread},
    run::Verdict,
    suite::ComparisonVerdict,
};

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

/// The two samples of a test; `None` if one of them has a single measurement, or none that counts.
fn sides(here: &Row, there: &Row) -> Option<(interval::Side, interval::Side)> {
    let step = interval::step(here.counted().chain(there.counted()).map(|sample| sample.value));
    let side = |row: &Row| interval::Side::of(row.spread.as_ref()?, step);
    side(here).zip(side(there))
}

/// The comparison of `row` with a figure of the baseline and its number of measurements.
fn comparison(
    row: &Row,
    (baseline, baseline_samples): (f64, u32),
    (ratio, difference): (Estimate, Estimate),
    interval_known: bool,
    noise: &verdict::Noise,
) -> Comparison {
    let margin = noise.margin(&row.metric);
    let shares = (margin, noise.of_metric(&row.metric));
    let (verdict, reason) = verdict::judge(&ratio, interval_known, shares, row.more_is_better);
    Comparison {
        baseline,
        baseline_samples,
        ratio,
        difference,
        interval_known,
        margin,
        chance: None,
        holds_among_all: None,
        verdict,
        reason,
    }
}

/// Compare `row` with a measured one; fails with the reason if that is impossible.
pub fn with_measured(row: &Row, there: &Row, noise: &verdict::Noise) -> Result<Comparison, String> {
    let baseline = spread(there, "the baseline")?;
    let here = spread(row, "this combination")?;
    if is_zero(baseline.mean) && !is_zero(here.mean) {
        return Err(format!("the baseline's figure is 0, so there is no ratio (here {})", here.mean));
    }
    let sides = sides(row, there);
    let ratio = match sides {
        _ if is_zero(baseline.mean) => around(1.0, 0.0),
        Some((x, y)) => interval::ratio(x, y),
        None => around(here.mean / baseline.mean, 0.0),
    };
    let difference =
        sides.map_or_else(|| around(here.mean - baseline.mean, 0.0), |(x, y)| interval::difference(x, y));
    let figure = (baseline.mean, baseline.repetitions);
    let compared = comparison(row, figure, (ratio, difference), sides.is_some(), noise);
    Ok(Comparison { chance: sides.map(|(x, y)| interval::chance(x, y)), ..compared })
}

pub fn with_published(
    row: &Row,
    figure: &published::Figure,
    noise: &verdict::Noise,
) -> Result<Comparison, String> {
    let here = spread(row, "this combination")?;
    let published = figure.value;
    if is_zero(published) {
        return Err("the published figure is 0, so there is no ratio".to_owned());
    }
    if figure.has_another_unit(row) {
        return Err(format!("the published figure is in {}, this one in {}", figure.unit, row.unit));
    }
    let values = row.counted().map(|sample| sample.value).chain([published]);
    let half = interval::Side::of(here, interval::step(values)).map(interval::Side::half_width);
    let width = half.unwrap_or_default();
    let estimates = (around(here.mean / published, width / published), around(here.mean - published, width));
    let mut compared = comparison(row, (published, 0), estimates, half.is_some(), noise);
    // One more measurement here lies within mean +- half x sqrt(n + 1), 95 % of the time.
    let one_more = width * f64::from(here.repetitions + 1).sqrt();
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

//! What comparisons can show, by the noise that calibrating runs measured. It only warns: no verdict and
//! no margin depends on it. Pure.

use super::{
    baseline::{Baseline, Counterpart},
    interval,
    pair::starts,
};
use crate::{
    document::{Document, Row},
    select::RowIndex,
};
use dragstrip_crds::run::{NoiseFigure, NoiseStatus};
use std::collections::BTreeMap;

/// More starts than anybody measures.
const MOST_STARTS: u32 = 200;

/// The smallest difference, as a share, that so many `starts` of each side with so many `repetitions`
/// each show. `None` for one start, and if only one start was calibrated.
fn detectable(noise: &NoiseFigure, starts: u32, repetitions: f64) -> Option<f64> {
    let variance = noise.between_starts?.powi(2) + noise.between_repetitions.powi(2) / repetitions;
    let n = f64::from(starts);
    (starts > 1).then(|| interval::detectable(2.0 * (n - 1.0), 2.0 * variance / n))
}

/// The fewest starts of each side with so many `repetitions` each that show a `difference`.
pub fn starts_needed(noise: &NoiseFigure, difference: f64, repetitions: f64) -> Option<u32> {
    (2..=MOST_STARTS).find(|number| {
        detectable(noise, *number, repetitions).is_some_and(|detectable| detectable <= difference)
    })
}

/// The smallest difference that the measurements of `here` and `there` show.
fn seen(noise: &NoiseFigure, here: &Row, there: &Row) -> Option<f64> {
    let sides = [here, there].map(|row| (starts(row).len(), row.counted().count()));
    let fewest = sides.iter().map(|(starts, _)| *starts).min()?;
    let repetitions = sides.map(|(starts, measured)| measured as f64 / starts.max(1) as f64);
    detectable(noise, u32::try_from(fewest).unwrap_or(u32::MAX), repetitions[0].min(repetitions[1]))
}

/// A sentence about each phase and metric whose noise is known: what its comparisons can show.
pub(super) fn notes(document: &Document, baseline: &Baseline<'_>, index: &RowIndex<'_>) -> Vec<String> {
    let mut largest: BTreeMap<(&str, &str), (f64, &NoiseStatus)> = BTreeMap::new();
    for row in &document.rows {
        let Some(Counterpart::Row(there)) = baseline.counterpart(row, index) else { continue };
        let runs = document.runs.iter().filter(|run| run.cell == row.cell);
        for noise in runs.filter_map(|run| run.noise.as_ref()) {
            let about = |one: &&NoiseFigure| one.phase == row.phase && one.metric.to_string() == row.metric;
            let figure = noise.figures.iter().find(about);
            let Some(share) = figure.and_then(|figure| seen(figure, row, there)) else { continue };
            let known = largest.entry((&row.phase, &row.metric)).or_insert((share, noise));
            if share > known.0 {
                *known = (share, noise);
            }
        }
    }
    let sentence = |((phase, metric), (share, noise)): ((&str, &str), (f64, &NoiseStatus))| {
        format!(
            "{phase}: this comparison can detect differences in {metric} of {:.1} % or more, given the noise that {} measured on {}",
            share * 100.0,
            noise.found_by,
            noise.measured_at.0.strftime("%Y-%m-%d")
        )
    };
    largest.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::thresholds::MetricName;

    fn noise(between_repetitions: f64, between_starts: Option<f64>) -> NoiseFigure {
        NoiseFigure {
            phase: "read".into(),
            metric: MetricName::OperationsPerSecond,
            between_repetitions,
            between_starts,
            starts: 3,
            repetitions: 9,
        }
    }

    #[test]
    fn starts_that_differ_need_more_starts_and_not_more_repetitions() {
        let noisy_starts = noise(0.001, Some(0.05));
        let few = detectable(&noisy_starts, 3, 1.0).unwrap();
        // 2 x 3 - 2 = 4 degrees: (2.776 + 0.941) x 5 % x sqrt(2 / 3).
        assert!((few - 3.717 * 0.05 * (2.0_f64 / 3.0).sqrt()).abs() < 1e-3, "{few}");
        assert!(detectable(&noisy_starts, 3, 100.0).unwrap() > 0.99 * few, "repetitions do not help");
        assert!(detectable(&noisy_starts, 12, 1.0).unwrap() < few / 2.0, "starts do");
        assert_eq!(detectable(&noisy_starts, 1, 100.0), None, "one start shows nothing");
        assert_eq!(detectable(&noise(0.01, None), 5, 3.0), None, "nobody knows how much starts differ");
    }

    #[test]
    fn the_number_of_starts_is_the_fewest_that_see_the_difference() {
        let noise = noise(0.01, Some(0.02));
        let needed = starts_needed(&noise, 0.05, 3.0).unwrap();
        assert!(detectable(&noise, needed, 3.0).unwrap() <= 0.05);
        assert!(detectable(&noise, needed - 1, 3.0).unwrap() > 0.05, "{needed} starts are not the fewest");
        assert_eq!(starts_needed(&noise, 1e-6, 3.0), None, "nobody measures that often");
    }
}

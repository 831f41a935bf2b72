//! The levels of a series: between two of them, the figure changed. Pure.
//!
//! The series is read as a nightly watch reads it, round by round: each round compares the latest 3 to
//! 6 values with all earlier ones of the same level by a t test, and a new level begins where the test
//! is surest. A level that later rounds do not confirm joins the one before it. The values are
//! logarithms, so that differences are ratios. docs/statistics.md gives the rates of false alarms and
//! misses that these limits lead to.

use dragstrip_crds::measured::Estimate;
use dragstrip_results::statistics::{mean, squares};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::ops::{Range, RangeInclusive};

/// Rounds of a level before the next one can begin.
const FEWEST_BEFORE: usize = 8;
/// How many of the latest rounds are compared with those before them.
const LATEST: RangeInclusive<usize> = 3..=6;
/// Rounds that can show a change: fewer show nothing.
pub const FEWEST_ROUNDS: usize = FEWEST_BEFORE + *LATEST.start();
/// A new level begins if chance explains the difference in fewer cases, all comparisons of a round
/// together.
pub const LEVEL: f64 = 0.01;
/// Below so many standard errors, two levels are one after all.
const CONFIRMED: f64 = 2.0;
/// The level of intervals.
const INTERVAL: f64 = 0.05;

/// A series, and what counts as a change in it.
pub struct Series<'a> {
    /// Logarithms of the figure, round by round.
    pub logs: &'a [f64],
    /// The largest difference that matters to nobody.
    pub margin: f64,
    /// The least variance, because tools round.
    pub rounding: f64,
}

/// How two stretches of a series differ.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    mean: f64,
    error: f64,
    degrees: f64,
}

impl Difference {
    fn in_errors(self) -> f64 {
        if self.error > 0.0 { self.mean.abs() / self.error } else { 0.0 }
    }

    /// The chance of such a difference between equal levels, if it is the largest of `comparisons`.
    pub fn chance(self, comparisons: usize) -> f64 {
        let student = StudentsT::new(0.0, 1.0, self.degrees);
        let one = student.map_or(1.0, |student| 2.0 * student.sf(self.in_errors()));
        (one * comparisons as f64).min(1.0)
    }

    /// The ratio of the levels with its 95 % interval.
    pub fn ratio(self) -> Estimate {
        let student = StudentsT::new(0.0, 1.0, self.degrees);
        let half = self.error * student.map_or(0.0, |student| student.inverse_cdf(1.0 - INTERVAL / 2.0));
        Estimate { low: (self.mean - half).exp(), mid: self.mean.exp(), high: (self.mean + half).exp() }
    }
}

/// Comparisons of one round.
pub fn comparisons() -> usize {
    LATEST.count()
}

impl Series<'_> {
    fn part(&self, rounds: Range<usize>) -> &[f64] {
        self.logs.get(rounds).unwrap_or_default()
    }

    /// How the rounds `after` differ from those `before`; both vary alike.
    pub fn difference(&self, before: Range<usize>, after: Range<usize>) -> Difference {
        let (before, after) = (self.part(before), self.part(after));
        let (n, m) = (before.len() as f64, after.len() as f64);
        let degrees = (n + m - 2.0).max(1.0);
        let variance = ((squares(before) + squares(after)) / degrees).max(self.rounding);
        let error = (variance * (1.0 / n + 1.0 / m)).sqrt();
        Difference { mean: mean(after) - mean(before), error, degrees }
    }

    fn matters(&self, difference: Difference) -> bool {
        difference.mean.abs() > self.margin.ln_1p()
    }

    /// The best place of `candidates` for a change between `first` and `end`, if one matters.
    fn place(
        &self,
        first: usize,
        candidates: impl Iterator<Item = usize>,
        end: usize,
    ) -> Option<(usize, Difference)> {
        let split = |place| (place, self.difference(first..place, place..end));
        let differences = candidates.map(split).filter(|(_, difference)| self.matters(*difference));
        differences.max_by(|(_, one), (_, other)| one.in_errors().total_cmp(&other.in_errors()))
    }

    /// Whether what was measured until `end` still shows that two levels differ.
    fn is_confirmed(&self, before: usize, after: usize, end: usize) -> bool {
        let difference = self.difference(before..after, after..end);
        self.matters(difference) && difference.in_errors() >= CONFIRMED
    }

    /// The first round of each level, as known when each was found.
    fn found(&self) -> Vec<usize> {
        let mut firsts = vec![0];
        for end in FEWEST_ROUNDS..=self.logs.len() {
            if let [.., before, after] = firsts[..]
                && !self.is_confirmed(before, after, end)
            {
                firsts.pop();
            }
            let first = firsts.last().copied().unwrap_or_default();
            let candidates = LATEST.filter_map(|latest| end.checked_sub(latest));
            let candidates = candidates.filter(|place| *place >= first + FEWEST_BEFORE);
            let best = self.place(first, candidates, end);
            firsts.extend(
                best.filter(|(_, found)| found.chance(comparisons()) <= LEVEL).map(|(place, _)| place),
            );
        }
        firsts
    }

    /// The rounds of each level. In the end, all rounds of both levels decide on a border.
    pub fn levels(&self) -> Vec<Range<usize>> {
        let mut borders = self.found();
        borders.push(self.logs.len());
        for index in 1..borders.len() - 1 {
            let [first, place, end] = borders[index - 1..=index + 1] else { continue };
            let fewest = *LATEST.start();
            let candidates = (first + fewest..=end.saturating_sub(fewest)).chain([place]);
            if let Some((better, _)) = self.place(first, candidates, end) {
                borders[index] = better;
            }
        }
        borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of so many rounds each, with a noise of 1 % that repeats.
    fn series(levels: &[(f64, usize)]) -> Vec<f64> {
        let values = levels.iter().flat_map(|(level, rounds)| std::iter::repeat_n(*level, *rounds));
        let noise = [0.01, -0.012, 0.003, -0.006, 0.008, -0.004];
        values.zip(noise.iter().cycle()).map(|(value, noise)| (value * (1.0 + noise)).ln()).collect()
    }

    /// The first round of each level.
    fn firsts(logs: &[f64]) -> Vec<usize> {
        Series { logs, margin: 0.03, rounding: 0.0 }.levels().into_iter().map(|level| level.start).collect()
    }

    #[test]
    fn a_level_begins_in_the_round_of_the_change() {
        assert_eq!(firsts(&series(&[(100.0, 20), (95.0, 12)])), [0, 20]);
        assert_eq!(firsts(&series(&[(100.0, 20), (90.0, 9), (100.0, 9)])), [0, 20, 29]);
    }

    #[test]
    fn a_steady_series_and_a_change_that_matters_to_nobody_have_one_level() {
        assert_eq!(firsts(&series(&[(100.0, 60)])), [0]);
        assert_eq!(firsts(&series(&[(100.0, 30), (98.0, 30)])), [0], "2 % is within the margin");
        assert_eq!(firsts(&[5.0; 40]), [0], "nothing varies");
        assert_eq!(firsts(&[]), [0]);
    }

    #[test]
    fn a_level_that_later_rounds_do_not_confirm_is_forgotten() {
        let dip = series(&[(100.0, 20), (93.0, 3)]);
        assert_eq!(firsts(&dip).len(), 2, "three slow nights are reported");
        assert_eq!(firsts(&series(&[(100.0, 20), (93.0, 3), (100.0, 20)])), [0], "and then are over");
    }

    #[test]
    fn one_slow_night_is_not_a_change() {
        assert_eq!(firsts(&series(&[(100.0, 20), (80.0, 1), (100.0, 10)])), [0]);
    }

    #[test]
    fn rounded_figures_are_not_taken_for_exact_ones() {
        let logs: Vec<f64> = [127.0; 8].into_iter().chain([135.0; 3]).map(f64::ln).collect();
        let rounded = Series { logs: &logs, margin: 0.03, rounding: (8.0_f64 / 127.0).powi(2) / 12.0 };
        let ratio = rounded.difference(0..8, 8..11).ratio();
        assert!(ratio.low > 1.0 && ratio.low < 1.05 && ratio.high > 1.08, "{ratio:?}");
    }
}

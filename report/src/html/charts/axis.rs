//! Axes of charts: where a value stands, which values are named, and how.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// The greatest percentile that is drawn.
pub const MOST_PERCENTILE: f64 = 99.999;

/// An axis from its least to its greatest value.
#[derive(Clone)]
pub struct Axis {
    /// What is measured, with its unit; empty where the chart's heading says it.
    pub name: String,
    /// How a value is named.
    pub text: fn(f64) -> String,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
    place: fn(f64) -> f64,
}

impl Axis {
    /// From nothing to a bit more than the greatest value.
    pub fn from_zero(name: &str, most: f64, text: fn(f64) -> String) -> Self {
        let to = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = nice_step(to / 4.0);
        let ticks = (0..=5_u32).map(|index| f64::from(index) * step).filter(|tick| *tick <= to * 1.001);
        Self { name: name.to_owned(), text, from: 0.0, to, ticks: ticks.collect(), place: |value| value }
    }

    /// By logarithm, around values that are all above nothing.
    pub fn logarithmic(name: &str, values: impl Iterator<Item = f64>, text: fn(f64) -> String) -> Self {
        let (least, most) =
            values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (from, to) = if most > 0.0 { (least / 1.15, most * 1.15) } else { (0.1, 1.0) };
        let place: fn(f64) -> f64 = |value| value.max(f64::MIN_POSITIVE).log10();
        Self { name: name.to_owned(), text, from, to, ticks: log_ticks(from, to), place }
    }

    /// Percentiles as HdrHistogram plots have them: each step is ten times rarer.
    pub fn percentiles(most: f64) -> Self {
        let steps = nines(most).ceil().clamp(2.0, 5.0);
        let ticks = [0.0, 90.0, 99.0, 99.9, 99.99, MOST_PERCENTILE];
        let ticks = ticks.into_iter().filter(|tick| nines(*tick) <= steps + 0.01).collect();
        Self {
            name: "percentile".to_owned(),
            text: |percentile| percentile.to_string(),
            from: 0.0,
            to: 100.0 - 100.0 / 10_f64.powf(steps),
            ticks,
            place: nines,
        }
    }
}

/// 90 is 1, 99 is 2, 99.9 is 3.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-9).log10()
}

/// 1, 2 or 5 times a power of ten, at least this much.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(least)
}

/// Powers of ten, with what lies between them where there are few.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let first = from.log10().floor();
    let powers = (0..=12_u32).map(|index| 10_f64.powf(first + f64::from(index)));
    let decades = (to / from).log10();
    let between: &[f64] = match decades {
        few if few < 0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        some if some < 2.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let ticks = powers.flat_map(|power| between.iter().map(move |factor| factor * power));
    ticks.filter(|tick| (from..=to).contains(tick)).collect()
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (from, to) = ((self.place)(self.from), (self.place)(self.to));
        let share = (((self.place)(*value) - from) / (to - from)).clamp(0.0, 1.0);
        let pixel = f64::from(limit.0) + share * f64::from(limit.1 - limit.0);
        // Between two pixels that are there.
        #[allow(clippy::cast_possible_truncation)]
        let pixel = pixel.round() as i32;
        pixel
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_names_at_least_two_values_of_any_range() {
        for (least, most) in [(0.3, 0.4), (0.1, 0.9), (0.2, 40.0), (1.0, 1.0), (0.001, 10_000.0)] {
            let axis = Axis::logarithmic("", [least, most].into_iter(), super::super::super::format::short);
            assert!(axis.ticks.len() >= 2 || most < least * 1.3, "{least} to {most}: {:?}", axis.ticks);
        }
    }

    #[test]
    fn percentiles_are_as_far_apart_as_they_are_rare() {
        let axis = Axis::percentiles(99.99);
        let places: Vec<i32> =
            [0.0, 90.0, 99.0, 99.9, 99.99].iter().map(|value| axis.map(value, (0, 400))).collect();
        assert_eq!(places, [0, 100, 200, 300, 400]);
        assert_eq!(axis.ticks, [0.0, 90.0, 99.0, 99.9, 99.99]);
    }

    #[test]
    fn no_value_leads_off_the_chart() {
        let axis = Axis::from_zero("", 0.0, super::super::super::format::short);
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!((0..=100).contains(&axis.map(&value, (0, 100))), "{value}");
        }
    }
}

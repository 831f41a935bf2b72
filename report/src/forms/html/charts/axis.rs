//! Axes of charts: the position of a value, and the ticks with their labels.

/// The largest percentile that charts show.
pub const MOST_PERCENTILE: f64 = 99.999;

#[derive(Clone)]
pub struct Axis {
    /// The quantity with its unit; empty if the heading of the chart has it.
    pub name: &'static str,
    pub text: fn(f64) -> String,
    pub ticks: Vec<f64>,
    from: f64,
    to: f64,
    scale: fn(f64) -> f64,
}

impl Axis {
    pub fn from_zero(name: &'static str, most: f64, text: fn(f64) -> String) -> Self {
        let to = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = nice_step(to / 4.0);
        let ticks = (0..=5_u32).map(|index| f64::from(index) * step).filter(|tick| *tick <= to * 1.001);
        Self { name, text, from: 0.0, to, ticks: ticks.collect(), scale: |value| value }
    }

    pub fn logarithmic(
        name: &'static str,
        values: impl Iterator<Item = f64>,
        text: fn(f64) -> String,
    ) -> Self {
        let (least, most) =
            values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (from, to) = if most > 0.0 { (least / 1.15, most * 1.15) } else { (0.1, 1.0) };
        let scale: fn(f64) -> f64 = |value| value.max(f64::MIN_POSITIVE).log10();
        Self { name, text, from, to, ticks: log_ticks(from, to), scale }
    }

    /// Percentiles as in HdrHistogram's plots: each step is ten times rarer.
    pub fn percentiles(most: f64) -> Self {
        let steps = nines(most).ceil().clamp(2.0, 5.0);
        let ticks = [0.0, 90.0, 99.0, 99.9, 99.99, MOST_PERCENTILE];
        Self {
            name: "percentile",
            text: |percentile| percentile.to_string(),
            from: 0.0,
            to: 100.0 - 100.0 / 10_f64.powf(steps),
            ticks: ticks.into_iter().filter(|tick| nines(*tick) <= steps + 0.01).collect(),
            scale: nines,
        }
    }

    /// The position of a value, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        let (from, to) = ((self.scale)(self.from), (self.scale)(self.to));
        let share = ((self.scale)(value) - from) / (to - from);
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }
}

/// 90 is 1, 99 is 2, 99.9 is 3.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-9).log10()
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(least)
}

/// Powers of ten, and values between them if there are few.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let first = from.log10().floor();
    let powers = (0..=12_u32).map(|index| 10_f64.powf(first + f64::from(index)));
    let between: &[f64] = match (to / from).log10() {
        few if few < 0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        some if some < 2.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let ticks = powers.flat_map(|power| between.iter().map(move |factor| factor * power));
    ticks.filter(|tick| (from..=to).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::short;

    #[test]
    fn a_logarithmic_axis_names_at_least_two_values_of_any_range() {
        for (least, most) in [(0.3, 0.4), (0.1, 0.9), (0.2, 40.0), (1.0, 1.0), (0.001, 10_000.0)] {
            let axis = Axis::logarithmic("", [least, most].into_iter(), short);
            assert!(axis.ticks.len() >= 2 || most < least * 1.3, "{least} to {most}: {:?}", axis.ticks);
        }
    }

    #[test]
    fn percentiles_are_as_far_apart_as_they_are_rare() {
        let axis = Axis::percentiles(99.99);
        for (value, place) in [(0.0, 0.0), (90.0, 0.25), (99.0, 0.5), (99.9, 0.75), (99.99, 1.0)] {
            assert!((axis.share(value) - place).abs() < 1e-9, "{value}: {}", axis.share(value));
        }
        assert_eq!(axis.ticks, [0.0, 90.0, 99.0, 99.9, 99.99]);
    }

    #[test]
    fn every_value_is_inside_the_chart() {
        let axis = Axis::from_zero("", 0.0, short);
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!((0.0..=1.0).contains(&axis.share(value)), "{value}");
        }
    }
}

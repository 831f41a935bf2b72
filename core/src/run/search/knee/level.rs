//! Where throughput levels off while the value is doubled. Pure.

use super::unsigned;
use dragstrip_crds::run::SearchSpec;
use dragstrip_results::search::SearchPoint;

/// How often each value is measured that shows where throughput levels off.
const CONFIRMED: usize = 2;

struct Doubled {
    value: u64,
    /// Mean throughput of its measurements.
    operations_per_second: f64,
    measurements: usize,
}

/// The doubled values among `points`, in order.
fn doubled(spec: &SearchSpec, points: &[SearchPoint]) -> Vec<Doubled> {
    let last = unsigned(spec.to);
    let values = std::iter::successors(Some(unsigned(spec.from).min(last)), |value| {
        (*value < last).then(|| value.saturating_mul(2).min(last))
    });
    let at = |value: u64| {
        let of_value = points.iter().filter(|point| point.value == value);
        let measured: Vec<f64> = of_value.map(|point| point.operations_per_second).collect();
        let mean = measured.iter().sum::<f64>() / measured.len() as f64;
        (!measured.is_empty()).then_some(Doubled {
            value,
            operations_per_second: mean,
            measurements: measured.len(),
        })
    };
    values.map_while(at).collect()
}

/// The first of the doubled values at which throughput levels off, and the two, or at the
/// end the one, that show it: the last of them alone and both together have less than `least`
/// (1.02 for 2%) demands of each doubling. A single disturbed measurement does not count.
fn level<'a>(spec: &SearchSpec, doubled: &'a [Doubled], least: f64) -> Option<&'a [Doubled]> {
    let levels_off = |from: usize| {
        let level = &doubled[from];
        let next = doubled.get(from + 1)?;
        let last = if next.value >= unsigned(spec.to) { from + 1 } else { from + 2 };
        let after = doubled.get(from + 1..=last)?;
        let demanded = |after: &Doubled| {
            level.operations_per_second * least.powf((after.value as f64 / level.value as f64).log2())
        };
        let lacks = |after: &[Doubled]| {
            after.iter().map(|after| demanded(after) - after.operations_per_second).sum::<f64>() > 0.0
        };
        (lacks(after) && lacks(&after[after.len() - 1..])).then(|| &doubled[from..=last])
    };
    (0..doubled.len()).find_map(levels_off)
}

/// All of the throughput, once the doubled `points` show that it levels off: the mean of all
/// measurements beyond the value at which it does.
pub fn full(spec: &SearchSpec, points: &[SearchPoint], least: f64) -> Option<f64> {
    let doubled = doubled(spec, points);
    let beyond = level(spec, &doubled, least)?[1].value;
    let full = points.iter().filter(|point| point.value >= beyond).map(|point| point.operations_per_second);
    Some(full.clone().sum::<f64>() / full.count() as f64)
}

/// A value that shows where throughput levels off, if it must be measured again.
pub fn unconfirmed(spec: &SearchSpec, points: &[SearchPoint], least: f64) -> Option<u64> {
    let doubled = doubled(spec, points);
    let level = level(spec, &doubled, least)?;
    level.iter().find(|doubled| doubled.measurements < CONFIRMED).map(|doubled| doubled.value)
}

//! Draws the key numbers of one connection, without allocation or modulo bias. Pure.

use dragstrip_crds::{units::whole, workload::KeyPattern};
use rand::RngExt;
use rand::distr::{Distribution, Uniform, uniform};
use rand::rngs::SmallRng;
use rand_distr::{Normal, NormalError};
use thiserror::Error;

/// Comes before the key prefix of keys that are never written.
pub(crate) const MISSING_PREFIX: &str = "missing:";

/// Which keys are used.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySpace {
    /// Text before the key number.
    pub prefix: String,
    /// Lowest key number.
    pub minimum: u64,
    /// Highest key number, included and not below the lowest.
    pub maximum: u64,
    /// How key numbers are chosen. The width of a Gaussian key space is six standard deviations.
    pub pattern: KeyPattern,
    /// Exponent of the Zipfian pattern: key number `minimum + rank - 1` has a probability
    /// proportional to `rank^-exponent`. Above 0; 1 is the classic Zipf law.
    pub zipf_exponent: f64,
}

impl KeySpace {
    /// How many keys there are.
    pub fn keys(&self) -> u64 {
        self.maximum - self.minimum + 1
    }
}

/// The key space cannot be drawn from in the declared way.
#[derive(Debug, Error)]
pub enum KeyError {
    #[error("{keys} keys cannot be divided over {connections} connections")]
    DivideRange { keys: u64, connections: u64 },
    #[error("no uniform distribution over the key range: {0}")]
    BuildUniform(#[from] uniform::Error),
    #[error("no normal distribution over the key range: {0}")]
    BuildGaussian(#[from] NormalError),
}

/// One connection's part in the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Index of this connection, from 0.
    pub index: u64,
    /// Connections of the run.
    pub connections: u64,
}

impl Share {
    /// The first key number and the number of keys that fall to this
    /// connection. Shares differ by at most one key and leave none out.
    pub fn of_range(self, minimum: u64, maximum: u64) -> (u64, u64) {
        let keys = maximum - minimum + 1;
        let (base, extra) = (keys / self.connections, keys % self.connections);
        let first = minimum + self.index * base + self.index.min(extra);
        (first, base + u64::from(self.index < extra))
    }
}

/// Draws the key numbers of one connection.
#[derive(Clone, Debug)]
pub struct KeyPicker {
    picker: Picker,
}

#[derive(Clone, Debug)]
enum Picker {
    Uniform(Uniform<u64>),
    Sequential { first: u64, count: u64, next: u64 },
    Gaussian { normal: Normal<f64>, minimum: u64, maximum: u64 },
    Zipfian { ranks: ZipfRanks, minimum: u64 },
}

impl KeyPicker {
    /// A picker of keys in `space` for the connection that `share` names.
    pub fn new(space: &KeySpace, share: Share) -> Result<Self, KeyError> {
        let (minimum, maximum) = (space.minimum, space.maximum);
        let picker = match space.pattern {
            KeyPattern::Uniform => Picker::Uniform(Uniform::new_inclusive(minimum, maximum)?),
            KeyPattern::Sequential => {
                let (first, count) = share.of_range(minimum, maximum);
                if count == 0 {
                    return Err(KeyError::DivideRange { keys: space.keys(), connections: share.connections });
                }
                Picker::Sequential { first, count, next: 0 }
            }
            KeyPattern::Gaussian => {
                let median = f64::midpoint(minimum as f64, maximum as f64);
                let normal = Normal::new(median, space.keys() as f64 / 6.0)?;
                Picker::Gaussian { normal, minimum, maximum }
            }
            KeyPattern::Zipfian => {
                Picker::Zipfian { ranks: ZipfRanks::new(space.keys(), space.zipf_exponent), minimum }
            }
        };
        Ok(Self { picker })
    }

    /// The next key number.
    #[inline]
    pub fn next(&mut self, random: &mut SmallRng) -> u64 {
        match &mut self.picker {
            Picker::Uniform(uniform) => uniform.sample(random),
            Picker::Sequential { first, count, next } => {
                let key = *first + *next;
                *next = if *next + 1 == *count { 0 } else { *next + 1 };
                key
            }
            Picker::Gaussian { normal, minimum, maximum } => {
                draw_gaussian(normal, *minimum, *maximum, random)
            }
            Picker::Zipfian { ranks, minimum } => *minimum + (ranks.draw(random) - 1),
        }
    }
}

/// Draws outside the key space are drawn again: three in a thousand.
fn draw_gaussian(normal: &Normal<f64>, minimum: u64, maximum: u64, random: &mut SmallRng) -> u64 {
    loop {
        let drawn = normal.sample(random).round();
        if drawn >= minimum as f64 && drawn <= maximum as f64 {
            return whole(drawn).clamp(minimum, maximum);
        }
    }
}

/// Zipf ranks by rejection-inversion (Hörmann and Derflinger 1996).
///
/// It needs no table, so any key space costs the same, and accepts nearly
/// every draw after one logarithm and one exponential.
#[derive(Clone, Debug)]
struct ZipfRanks {
    count: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    sure: f64,
}

impl ZipfRanks {
    fn new(count: u64, exponent: f64) -> Self {
        let curve = Curve { exponent };
        Self {
            count,
            exponent,
            integral_first: curve.integral(1.5) - 1.0,
            integral_last: curve.integral(count as f64 + 0.5),
            sure: 2.0 - curve.inverse(curve.integral(2.5) - curve.height(2.0)),
        }
    }

    #[inline]
    fn draw(&self, random: &mut SmallRng) -> u64 {
        let curve = Curve { exponent: self.exponent };
        loop {
            let area =
                self.integral_last + random.random::<f64>() * (self.integral_first - self.integral_last);
            let position = curve.inverse(area);
            let rank = whole(position + 0.5).clamp(1, self.count);
            let number = rank as f64;
            if number - position <= self.sure || area >= curve.integral(number + 0.5) - curve.height(number) {
                return rank;
            }
        }
    }
}

/// The curve `x^-exponent`, its integral from 1 and that integral's inverse,
/// written so that exponents near 1 lose no precision.
struct Curve {
    exponent: f64,
}

impl Curve {
    fn height(&self, position: f64) -> f64 {
        (-self.exponent * position.ln()).exp()
    }

    fn integral(&self, position: f64) -> f64 {
        let logarithm = position.ln();
        let slope = 1.0 - self.exponent;
        if slope.abs() < 1e-12 { logarithm } else { (slope * logarithm).exp_m1() / slope }
    }

    fn inverse(&self, area: f64) -> f64 {
        let slope = 1.0 - self.exponent;
        if slope.abs() < 1e-12 { area.exp() } else { ((slope * area).max(-1.0).ln_1p() / slope).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    const ALONE: Share = Share { index: 0, connections: 1 };

    fn space(pattern: KeyPattern, minimum: u64, maximum: u64) -> KeySpace {
        KeySpace { prefix: String::new(), minimum, maximum, pattern, zipf_exponent: 0.99 }
    }

    fn zipfian(exponent: f64, minimum: u64, maximum: u64) -> KeySpace {
        KeySpace { zipf_exponent: exponent, ..space(KeyPattern::Zipfian, minimum, maximum) }
    }

    fn histogram(space: &KeySpace, draws: usize) -> Vec<f64> {
        let mut picker = KeyPicker::new(space, ALONE).unwrap();
        let mut random = SmallRng::seed_from_u64(7);
        let mut counts = vec![0.0; usize::try_from(space.keys()).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(picker.next(&mut random) - space.minimum).unwrap()] += 1.0;
        }
        counts
    }

    fn chi_squared(counts: &[f64], expected: &[f64]) -> f64 {
        counts.iter().zip(expected).map(|(count, wanted)| (count - wanted).powi(2) / wanted).sum()
    }

    #[test]
    fn uniform_draws_are_even() {
        let counts = histogram(&space(KeyPattern::Uniform, 1000, 1099), 200_000);
        // 99 degrees of freedom: 99.9 % of samples stay below 148.2.
        assert!(chi_squared(&counts, &[2000.0; 100]) < 148.2);
    }

    #[test]
    fn zipfian_draws_follow_the_law_for_several_exponents() {
        for exponent in [0.5, 0.99, 1.0, 1.000_001, 2.0] {
            let counts = histogram(&zipfian(exponent, 1000, 1049), 200_000);
            let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let expected: Vec<f64> = weights.iter().map(|weight| weight / total * 200_000.0).collect();
            // 49 degrees of freedom: 99.9 % of samples stay below 85.4.
            assert!(chi_squared(&counts, &expected) < 85.4, "exponent {exponent}");
        }
    }

    #[test]
    fn gaussian_draws_have_the_wanted_centre_and_width() {
        let counts = histogram(&space(KeyPattern::Gaussian, 1000, 1999), 200_000);
        let mean: f64 =
            counts.iter().enumerate().map(|(key, count)| key as f64 * count).sum::<f64>() / 200_000.0;
        let variance: f64 =
            counts.iter().enumerate().map(|(key, count)| (key as f64 - mean).powi(2) * count).sum::<f64>()
                / 200_000.0;
        assert!((mean - 499.5).abs() < 1.5, "mean {mean}");
        // A sixth of the keys, less what is drawn again.
        assert!((variance.sqrt() - 164.4).abs() < 1.0, "deviation {}", variance.sqrt());
    }

    #[test]
    fn equal_seeds_give_equal_keys() {
        let draw = |seed| {
            let mut picker = KeyPicker::new(&space(KeyPattern::Uniform, 0, 1 << 40), ALONE).unwrap();
            let mut random = SmallRng::seed_from_u64(seed);
            (0..10).map(|_| picker.next(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn more_connections_than_keys_are_refused() {
        let share = Share { index: 4, connections: 5 };
        let divided = KeyPicker::new(&space(KeyPattern::Sequential, 0, 3), share);
        assert!(matches!(divided, Err(KeyError::DivideRange { keys: 4, connections: 5 })));
    }

    proptest! {
        #[test]
        fn sequential_shares_cover_every_key_once(keys in 1u64..500, connections in 1u64..50) {
            prop_assume!(keys >= connections);
            let mut random = SmallRng::seed_from_u64(0);
            let mut seen = Vec::new();
            for index in 0..connections {
                let share = Share { index, connections };
                let mut picker = KeyPicker::new(&space(KeyPattern::Sequential, 10, 9 + keys), share).unwrap();
                let (first, count) = share.of_range(10, 9 + keys);
                seen.extend((0..count).map(|_| picker.next(&mut random)));
                prop_assert_eq!(picker.next(&mut random), first);
            }
            prop_assert_eq!(seen, (10..10 + keys).collect::<Vec<_>>());
        }

        #[test]
        fn zipfian_ranks_stay_inside(keys in 1u64..1_000_000, exponent in 0.01f64..5.0, seed: u64) {
            let mut picker = KeyPicker::new(&zipfian(exponent, 5, 4 + keys), ALONE).unwrap();
            let mut random = SmallRng::seed_from_u64(seed);
            for _ in 0..100 {
                prop_assert!((5..5 + keys).contains(&picker.next(&mut random)));
            }
        }
    }
}

//! Throughput by the second: whether the rules see stalls and cold starts, and nothing in noise.

use crate::{Property, findings, property, repetition};
use dragstrip_crds::workload::ToolSpec;
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, StandardNormal};
use serde_json::json;

/// Usual operations per second.
const USUAL: f64 = 100_000.0;
/// Coefficients of variation of the seconds of a load.
const NOISE: [f64; 3] = [0.01, 0.03, 0.05];

/// Noise with a mean of 1, of `seconds` values of which neighbours correlate as much as `alike`.
fn noise(seconds: usize, variation: f64, alike: f64, random: &mut SmallRng) -> Vec<f64> {
    let mut value: f64 = StandardNormal.sample(random);
    (0..seconds)
        .map(|_| {
            let fresh: f64 = StandardNormal.sample(random);
            value = alike * value + (1.0 - alike * alike).sqrt() * fresh;
            (1.0 + variation * value).max(0.0)
        })
        .collect()
}

/// Whether the rules call a load with this throughput not steady.
fn flagged(shares: &[f64], tool: &ToolSpec) -> bool {
    // Shares are near 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let counts = shares.iter().map(|share| (share * USUAL) as u64).collect();
    findings(&mut repetition(counts), tool).iter().any(|name| name == "NotSteady")
}

/// What happens to a load.
type Disturb = fn(&mut [f64]);

/// What is claimed of loads whose throughput changes, or does not.
pub fn properties(cases: usize) -> Vec<Property> {
    let tool = ToolSpec::Loadgen(
        serde_json::from_value(json!({"duration": "3s"}))
            .unwrap_or_else(|_| unreachable!("the manifest is valid")),
    );
    let pick = |random: &mut SmallRng| NOISE[random.random_range(0..NOISE.len())];
    let quiet = |alike: f64, least: f64| {
        let claim =
            format!("A steady load of 10 to 60 s with autocorrelation {alike} is not reported as not steady");
        let tool = &tool;
        property(claim, least, cases, move |random| {
            let seconds = random.random_range(10..=60);
            !flagged(&noise(seconds, pick(random), alike, random), tool)
        })
    };
    let seen = |what: &str, seconds: usize, disturb: Disturb| {
        let claim = format!("{what} is reported as not steady");
        property(claim, 0.95, cases, |random| {
            let mut shares = noise(seconds, pick(random), 0.0, random);
            disturb(&mut shares);
            flagged(&shares, &tool)
        })
    };
    vec![
        seen("A stall of 5 s in a load of 60 s", 60, |shares| shares[30..35].fill(0.0)),
        seen("A load of 60 s of which every tenth second is dead", 60, |shares| {
            shares.iter_mut().skip(9).step_by(10).for_each(|share| *share = 0.0);
        }),
        seen("A middle third at 70 % in a load of 30 s", 30, |shares| {
            shares[10..20].iter_mut().for_each(|share| *share *= 0.7);
        }),
        seen("A start of 2 s at half speed in a load of 15 s", 15, |shares| {
            shares[..2].iter_mut().for_each(|share| *share *= 0.5);
        }),
        quiet(0.0, 0.98),
        quiet(0.5, 0.98),
        quiet(0.9, 0.95),
    ]
}

//! Points with twice the connections: how often noise looks like room, and how often room is missed.

use crate::{Property, property};
use dragstrip_results::{confirmation::Gain, statistics::spread};
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};

/// How often the load is measured before the point.
const REPETITIONS: usize = 3;

/// Whether a point shows room, of a server that does `gain` more with twice the connections, measured
/// with this `noise` (coefficient of variation).
fn shows_room(gain: f64, noise: f64, random: &mut SmallRng) -> bool {
    let mut measured = |figure: f64| {
        let scatter: f64 = StandardNormal.sample(random);
        figure * (1.0 + noise * scatter)
    };
    let repetitions: Vec<f64> = (0..REPETITIONS).map(|_| measured(1.0)).collect();
    let point = measured(1.0 + gain);
    spread(&repetitions).is_some_and(|repetitions| Gain::of(&repetitions, point).shows_room())
}

/// What is claimed of such points.
pub fn properties(cases: usize) -> Vec<Property> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let at_limit = [(0.01, 0.995), (0.03, 0.95), (0.05, 0.9)].map(|(noise, least)| {
        let claim = format!(
            "A server at its limit shows no room with twice the connections after {REPETITIONS} repetitions of {} noise",
            percent(noise)
        );
        property(claim, least, cases, move |random| !shows_room(0.0, noise, random))
    });
    let with_room = [(0.2, 0.01, 0.995), (0.2, 0.03, 0.95), (0.5, 0.05, 0.995)].map(|(gain, noise, least)| {
        let claim = format!(
            "A server with room for {} shows it with twice the connections after {REPETITIONS} repetitions of {} noise",
            percent(gain),
            percent(noise)
        );
        property(claim, least, cases, move |random| shows_room(gain, noise, random))
    });
    at_limit.into_iter().chain(with_room).collect()
}

//! Open loops on a server with one queue: whether the rules see that it does not follow.

use crate::{Property, findings, property, repetition};
use dragstrip_crds::{
    measured::ScheduleRecord,
    run::Limiter,
    workload::{ArrivalSchedule, ToolSpec},
};
use dragstrip_results::{result::RepetitionResult, schedule::answered_in_time};
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde_json::json;

/// What the server answers when it has all it can do, in requests per second.
const CAPACITY: f64 = 20_000.0;
/// How long answers are awaited after the last request was due, in seconds, as the load generator does.
const DRAIN_SECONDS: usize = 5;
/// A pause of the server, such as a snapshot's fork, in seconds.
const HICCUP: f64 = 0.03;
/// Pauses per second.
const HICCUPS: f64 = 0.2;

/// How long the server takes for each request.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// Nearly always the same, within 3 %.
    Steady,
    /// Exponentially distributed.
    Exponential,
}

/// A load: what it asks of the server, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The rate as a share of the capacity.
    pub share: f64,
    /// When requests are due.
    pub arrival: ArrivalSchedule,
    /// The server.
    pub service: Service,
    /// Length in seconds.
    pub seconds: usize,
}

/// All combinations of how requests come and are served, at these shares of the capacity.
fn loads(shares: &'static [f64]) -> impl Fn(&mut SmallRng) -> Load {
    move |random| Load {
        share: shares[random.random_range(0..shares.len())],
        arrival: if random.random() { ArrivalSchedule::Fixed } else { ArrivalSchedule::Poisson },
        service: if random.random() { Service::Steady } else { Service::Exponential },
        seconds: [5, 10, 30][random.random_range(0..3_usize)],
    }
}

/// The repetition that measures `load`.
pub fn measured(load: Load, random: &mut SmallRng) -> RepetitionResult {
    let rate = load.share * CAPACITY;
    let end = load.seconds as f64;
    let mut due = vec![0_u64; load.seconds];
    let mut answered = vec![0_u64; load.seconds + DRAIN_SECONDS];
    let (mut at, mut free) = (0.0_f64, 0.0_f64);
    let mut next_hiccup: f64 = gap(random) / HICCUPS;
    let (mut scheduled, mut replies) = (0, 0);
    loop {
        at += if load.arrival == ArrivalSchedule::Fixed { 1.0 } else { gap(random) } / rate;
        if at >= end {
            break;
        }
        scheduled += 1;
        due[second(at)] += 1;
        let begin = free.max(at);
        if begin >= next_hiccup {
            free += HICCUP;
            next_hiccup = begin + gap(random) / HICCUPS;
        }
        free = free.max(at) + service(load.service, random) / CAPACITY;
        if let Some(count) = answered.get_mut(second(free)) {
            replies += 1;
            *count += 1;
        }
    }
    let in_time = answered_in_time(&due, &answered);
    let mut result = repetition(answered[..load.seconds].to_vec());
    result.schedule = Some(ScheduleRecord {
        kind: "simulated".to_owned(),
        operations_per_second: rate,
        scheduled,
        sent: scheduled,
        answered: replies,
        unanswered: scheduled - replies,
        answered_in_time: in_time,
        ..ScheduleRecord::default()
    });
    result
}

/// The whole second in which an instant of at most a few minutes lies.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn second(instant: f64) -> usize {
    instant as usize
}

fn gap(random: &mut SmallRng) -> f64 {
    Exp1.sample(random)
}

/// Time for one request, with a mean of 1.
fn service(service: Service, random: &mut SmallRng) -> f64 {
    match service {
        Service::Steady => {
            let noise: f64 = StandardNormal.sample(random);
            (1.0 + 0.03 * noise).max(0.0)
        }
        Service::Exponential => gap(random),
    }
}

fn tool() -> ToolSpec {
    let spec = json!({"duration": "30s", "rate": {"operationsPerSecond": 1000}});
    serde_json::from_value(json!({"loadgen": spec})).unwrap_or_else(|_| unreachable!("the manifest is valid"))
}

/// What is claimed of open loops.
pub fn properties(cases: usize) -> Vec<Property> {
    let tool = tool();
    let found = |load: Load, random: &mut SmallRng| {
        let mut result = measured(load, random);
        let names = findings(&mut result, &tool);
        (names.iter().any(|name| name == "RateNotKept"), result.limited_by.map(|limited| limited.by))
    };
    let over = loads(&[1.02, 1.05, 1.1, 1.4]);
    let under = loads(&[0.5, 0.8, 0.9, 0.95]);
    vec![
        property(
            "An open loop at 102 % of the server's capacity or more is not Valid, and the server is its limit",
            1.0,
            cases,
            |random| found(over(random), random) == (true, Some(Limiter::Server)),
        ),
        property(
            "An open loop at 95 % of the capacity or less is not reported as one that the server does not follow",
            0.99,
            cases,
            |random| found(under(random), random) == (false, Some(Limiter::Rate)),
        ),
    ]
}

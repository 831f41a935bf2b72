//! Searches for a server's limit: how near the true knee they end when measurements scatter and the
//! server pauses in some of them.

use crate::{Property, property};
use dragstrip_core::run::search::knee::{Next, next};
use dragstrip_crds::{measured::ScheduleRecord, run::SearchSpec};
use dragstrip_results::{
    schedule::{answered_in_time, followed},
    search::SearchPoint,
};
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};

/// What the server answers when it has all it can do, in requests per second.
const CAPACITY: f64 = 20_000.0;
/// Coefficient of variation of what is measured.
const JITTER: f64 = 0.03;
/// A pause of the server, in seconds.
const PAUSE: f64 = 0.03;
/// Share of the points in which there is one.
const PAUSES: f64 = 0.1;
/// How far from the true knee a search may end.
const NEAR: f64 = 0.03;
/// How long answers are awaited after the last request was due, in seconds.
const DRAIN_SECONDS: f64 = 5.0;
/// Least growth of throughput of a closed loop.
const GAIN: f64 = 0.02;
/// Most connections of a closed loop.
const CONNECTIONS: usize = 512;

/// How long the server takes for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// Exponentially distributed: M/M/1.
    Exponential,
    /// Always the same: M/D/1.
    Constant,
}

fn noise(random: &mut SmallRng) -> f64 {
    StandardNormal.sample(random)
}

/// A figure as measured.
fn jittered(figure: f64, random: &mut SmallRng) -> f64 {
    figure * (1.0 + JITTER * noise(random))
}

/// Where `grows` changes from false to true between `low` and `high`.
fn root(low: f64, high: f64, grows: impl Fn(f64) -> bool) -> f64 {
    let halved = |(low, high): (f64, f64), _| {
        let middle = f64::midpoint(low, high);
        if grows(middle) { (low, middle) } else { (middle, high) }
    };
    (0..50).fold((low, high), halved).1
}

/// The tail of the latency at `rate`: the share of requests that take longer, as `(factor, decay)` of
/// `factor * exp(-decay * time)`, and the time that all requests take at least.
fn tail(service: Service, rate: f64) -> (f64, f64, f64) {
    match service {
        Service::Exponential => (1.0, CAPACITY - rate, 0.0),
        // Cramér and Lundberg: the decay solves exp(decay / capacity) = 1 + decay / rate.
        Service::Constant => {
            let decay = root(1e-6, 100.0 * CAPACITY, |decay| (decay / CAPACITY).exp_m1() > decay / rate);
            let load = rate / CAPACITY;
            let factor = (1.0 - load) / (load * (decay / CAPACITY).exp() - 1.0);
            (factor.clamp(0.0, 1.0), decay, 1.0 / CAPACITY)
        }
    }
}

/// The 99th percentile of latency in milliseconds of a load of so many seconds. After a pause the
/// queue drains with what the server has to spare, and the requests of that time wait for up to the pause.
fn p99(service: Service, rate: f64, seconds: usize, pause: bool) -> f64 {
    if rate >= 0.9995 * CAPACITY {
        return 1e3 * seconds as f64 * (rate / CAPACITY - 1.0).max(0.01);
    }
    let (factor, decay, least) = tail(service, rate);
    let beyond =
        |time: f64| if time <= least { 1.0 } else { (factor * (-decay * (time - least)).exp()).min(1.0) };
    let hit = if pause { (PAUSE / (1.0 - rate / CAPACITY) / seconds as f64).min(1.0) } else { 0.0 };
    let beyond_with = |time: f64| {
        let waiting: f64 = (0..10).map(|step| beyond(time - PAUSE * (f64::from(step) + 0.5) / 10.0)).sum();
        (1.0 - hit) * beyond(time) + hit * waiting / 10.0
    };
    1e3 * root(0.0, 10.0, |time| beyond_with(time) <= 0.01)
}

/// Whether the server follows `rate` for so many seconds, judged by the rule for real loads: with
/// this capacity, the seconds scatter as independent requests do if there is `scatter`.
fn follows(
    service: Service,
    (rate, capacity): (f64, f64),
    (seconds, pause): (usize, bool),
    mut scatter: impl FnMut() -> f64,
) -> bool {
    let (mut due, mut answered) = (Vec::new(), Vec::new());
    let mut backlog = 0.0_f64;
    for second in 0..seconds {
        let arrived = rate + rate.sqrt() * scatter();
        let served = capacity * if pause && second == seconds / 2 { 1.0 - PAUSE } else { 1.0 };
        let served =
            if service == Service::Exponential { served + served.sqrt() * scatter() } else { served };
        let done = served.min(backlog + arrived);
        backlog += arrived - done;
        due.push(whole(arrived));
        answered.push(whole(done));
    }
    let scheduled: u64 = due.iter().sum();
    let unanswered = whole(backlog - DRAIN_SECONDS * capacity);
    followed(&ScheduleRecord {
        scheduled,
        answered: scheduled - unanswered.min(scheduled),
        unanswered,
        answered_in_time: answered_in_time(&due, &answered),
        ..ScheduleRecord::default()
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

fn spec(search: Value) -> SearchSpec {
    serde_json::from_value(search).unwrap_or_else(|_| unreachable!("the manifest is valid"))
}

/// What a search found.
struct Found {
    value: f64,
    low: f64,
    high: f64,
    operations_per_second: f64,
}

/// The search that the rules carry out where `measure` measures a value.
fn search(spec: &SearchSpec, mut measure: impl FnMut(u64) -> SearchPoint) -> Option<Found> {
    let mut points = Vec::new();
    loop {
        match next(spec, &points) {
            Next::Measure(value) => points.push(measure(value)),
            Next::Done(knee) => {
                let knee = knee?;
                let point: &SearchPoint = &points[knee.point];
                return Some(Found {
                    value: point.value as f64,
                    low: knee.low as f64,
                    high: knee.high as f64,
                    operations_per_second: point.operations_per_second,
                });
            }
        }
    }
}

/// Length of a load, in seconds.
fn load(random: &mut SmallRng) -> usize {
    [2, 5, 10][random.random_range(0..3_usize)]
}

fn first_rate(random: &mut SmallRng) -> i64 {
    random.random_range(200..4000)
}

/// The largest rate within a p99, as found, and the true one.
fn within_p99(service: Service, random: &mut SmallRng) -> (Option<Found>, f64) {
    let seconds = load(random);
    let knee = CAPACITY * random.random_range(0.5..0.95);
    let bound = whole(1e3 * p99(service, knee, seconds, false)).max(1);
    let knee = root(1.0, CAPACITY, |rate| p99(service, rate, seconds, false) > bound as f64 / 1e3);
    let from = first_rate(random);
    let spec =
        spec(json!({"raise": "Rate", "from": from, "to": 1_000_000, "until": {"p99": format!("{bound}us")}}));
    let found = search(&spec, |value| {
        let rate = value as f64;
        let pause = random.random_bool(PAUSES);
        let milliseconds = jittered(p99(service, rate, seconds, pause), random);
        let followed = follows(service, (rate, CAPACITY), (seconds, pause), || noise(random));
        point(value, rate.min(CAPACITY), Some(milliseconds), followed)
    });
    (found, knee)
}

/// The largest rate that the server follows, as found, and the true one.
fn followed_rate(service: Service, random: &mut SmallRng) -> (Option<Found>, f64) {
    let seconds = load(random);
    let steady = |rate| follows(service, (rate, CAPACITY), (seconds, false), || 0.0);
    let knee = root(0.5 * CAPACITY, 2.0 * CAPACITY, |rate| !steady(rate));
    let from = first_rate(random);
    let spec = spec(json!({"raise": "Rate", "from": from, "to": 1_000_000, "until": {"gain": "0.02"}}));
    let found = search(&spec, |value| {
        let rate = value as f64;
        let (capacity, pause) = (jittered(CAPACITY, random), random.random_bool(PAUSES));
        let followed = follows(service, (rate, capacity), (seconds, pause), || noise(random));
        point(value, rate.min(capacity), None, followed)
    });
    (found, knee)
}

/// The largest rate at which a server of one thread uses at most so much of its CPU, as found, and the true one.
fn within_cpus(service: Service, random: &mut SmallRng) -> (Option<Found>, f64) {
    let seconds = load(random);
    // A server without requests does work of its own.
    let idle = random.random_range(0.0..0.05);
    let bound = format!("{:.2}", random.random_range(0.3..0.9));
    let knee = CAPACITY * (bound.parse().unwrap_or(0.0) - idle);
    let until = json!({"serverCpus": bound});
    let spec = spec(json!({"raise": "Rate", "from": first_rate(random), "to": 1_000_000, "until": until}));
    let found = search(&spec, |value| {
        let rate = value as f64;
        let pause = random.random_bool(PAUSES);
        let used = (idle + rate / CAPACITY).min(1.0);
        let followed = follows(service, (rate, CAPACITY), (seconds, pause), || noise(random));
        SearchPoint {
            server_cpus: Some(jittered(used, random)),
            ..point(value, rate.min(CAPACITY), None, followed)
        }
    });
    (found, knee)
}

fn point(value: u64, operations_per_second: f64, p99: Option<f64>, followed: bool) -> SearchPoint {
    SearchPoint {
        value,
        share: None,
        operations_per_second,
        p99_milliseconds: p99,
        server_cpus: None,
        followed,
    }
}

/// Throughput of a closed loop by connections, from one, with this round trip as a multiple of the
/// service time: mean value analysis, for a constant service time with what remains of the
/// request in service.
fn closed_loop(service: Service, round_trip: f64) -> Vec<f64> {
    let (mut queue, mut busy) = (0.0_f64, 0.0_f64);
    let throughput = |connections: usize| {
        let served = if service == Service::Constant { busy / 2.0 } else { 0.0 };
        let response = 1.0 + queue - served;
        busy = (connections as f64 / (response + round_trip)).min(1.0);
        queue = (connections as f64 - busy * round_trip).max(0.0);
        busy * CAPACITY
    };
    (1..=CONNECTIONS).map(throughput).collect()
}

/// The throughput where it levels off, as found, and the true one.
fn full_throughput(service: Service, random: &mut SmallRng) -> (Option<Found>, f64) {
    let by_connections = closed_loop(service, 2.0_f64.powf(random.random_range(2.0..6.5)));
    let least = by_connections[CONNECTIONS - 1] / (1.0 + GAIN);
    let knee = by_connections.iter().find(|rate| **rate >= least).copied().unwrap_or(least);
    let until = json!({"gain": GAIN.to_string()});
    let spec = spec(json!({"raise": "Connections", "to": CONNECTIONS, "until": until}));
    let found = search(&spec, |value| {
        let index = usize::try_from(value).map_or(0, |value| value - 1);
        let lost = if random.random_bool(PAUSES) { PAUSE / load(random) as f64 } else { 0.0 };
        point(value, jittered(by_connections[index] * (1.0 - lost), random), None, true)
    });
    (found, knee)
}

/// Simulates one search: what it found and the true knee.
type Simulate = fn(Service, &mut SmallRng) -> (Option<Found>, f64);

/// What is claimed of searches.
pub fn properties(cases: usize) -> Vec<Property> {
    let each = |claim: fn(&str) -> String, simulate: Simulate, held: fn(&Found, f64) -> bool| {
        [("M/M/1", Service::Exponential), ("M/D/1", Service::Constant)].map(|(name, service)| {
            property(claim(name), 0.9, cases, move |random| {
                let (found, knee) = simulate(service, random);
                found.is_some_and(|found| held(&found, knee))
            })
        })
    };
    let near = |found: &Found, knee: f64| (found.value / knee - 1.0).abs() <= NEAR;
    let rates = [within_p99 as Simulate, followed_rate];
    let pick = move |random: &mut SmallRng| {
        let service = if random.random() { Service::Exponential } else { Service::Constant };
        rates[random.random_range(0..rates.len())](service, random)
    };
    let mut properties = Vec::new();
    properties.extend(each(
        |name| format!("A search ends within 3 % of the largest rate within a p99 ({name})"),
        within_p99,
        near,
    ));
    properties.extend(each(
        |name| format!("A search ends within 3 % of the largest rate within a server's CPUs ({name})"),
        within_cpus,
        near,
    ));
    properties.extend(each(
        |name| format!("A search ends within 3 % of the largest rate that the server follows ({name})"),
        followed_rate,
        near,
    ));
    properties.extend(each(
        |name| {
            format!(
                "A search by gain reports all of the throughput, or all but the gain, within 3 % ({name})"
            )
        },
        full_throughput,
        |found, knee| {
            let of_knee = found.operations_per_second / knee;
            (1.0 - NEAR..=(1.0 + GAIN) * (1.0 + NEAR)).contains(&of_knee)
        },
    ));
    properties.push(property(
        "The interval of a search by rate contains the true knee",
        0.9,
        cases,
        move |random| {
            let (found, knee) = pick(random);
            found.is_some_and(|found| found.low <= knee && knee <= found.high)
        },
    ));
    properties.push(property(
        "A search by rate does not end below half of the true knee",
        0.98,
        cases,
        move |random| {
            let (found, knee) = pick(random);
            found.is_some_and(|found| found.value >= knee / 2.0)
        },
    ));
    properties
}

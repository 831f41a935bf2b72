use super::*;
use crate::{
    fixtures::{pod_result, run},
    run::{merge::merge, validate::validate},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A search from 1 with this bound.
fn spec(raise: &str, to: i64, until: Value) -> SearchSpec {
    serde_json::from_value(json!({"raise": raise, "to": to, "until": until})).unwrap()
}

fn p99(to: i64, bound: &str) -> SearchSpec {
    spec("Connections", to, json!({"p99": bound}))
}

fn gain(to: i64) -> SearchSpec {
    spec("Connections", to, json!({"gain": "0.02"}))
}

/// A point with so many operations per second and this p99 in milliseconds.
fn point(value: u64, operations_per_second: f64, p99: f64) -> SearchPoint {
    SearchPoint {
        value,
        share: None,
        operations_per_second,
        p99_milliseconds: Some(p99),
        server_cpus: None,
        followed: true,
    }
}

/// The servers use a hundredth of a CPU for each value, whatever the latency.
fn busy(value: u64) -> SearchPoint {
    SearchPoint { server_cpus: Some(value as f64 / 100.0), ..point(value, 1000.0, 1e4) }
}

fn cpus(raise: &str, to: i64, bound: &str) -> SearchSpec {
    spec(raise, to, json!({"serverCpus": bound}))
}

/// The values measured, and what was found, where `measure` returns the figures of a value.
fn search(spec: &SearchSpec, measure: impl Fn(u64) -> SearchPoint) -> (Vec<u64>, Option<Knee>) {
    let mut points: Vec<SearchPoint> = Vec::new();
    loop {
        match next(spec, &points) {
            Next::Measure(value) => points.push(measure(value)),
            Next::Done(knee) => return (points.iter().map(|point| point.value).collect(), knee),
        }
        let most = usize::try_from(spec.most_points()).unwrap();
        assert!(points.len() <= most, "more than {most} points: {points:?}");
    }
}

/// The knee's value, its interval and why.
fn found(spec: &SearchSpec, measure: impl Fn(u64) -> SearchPoint) -> Option<(u64, u64, u64, KneeReason)> {
    let (values, knee) = search(spec, measure);
    knee.map(|knee| (values[knee.point], knee.low, knee.high, knee.why))
}

/// p99 grows by a tenth of a millisecond with each connection.
fn latency(value: u64) -> SearchPoint {
    point(value, 1000.0, value as f64 / 10.0)
}

/// Each connection adds 1000/s up to this many.
fn up_to(connections: f64) -> impl Fn(u64) -> SearchPoint {
    move |value| point(value, 1000.0 * (value as f64).min(connections), 1.0)
}

#[test]
fn values_are_doubled_until_the_bound_then_halved_and_what_decides_is_confirmed() {
    let (values, knee) = search(&p99(512, "10ms"), latency);
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 128, 96, 112, 112, 104, 104];
    assert_eq!(values[..14], expected, "each value beyond the bound is measured twice");
    assert!(values[14..].iter().all(|value| (96..=104).contains(value)), "then near the knee: {values:?}");
    let knee = knee.unwrap();
    assert_eq!((values[knee.point], knee.why), (100, KneeReason::P99));
    let (values, _) = search(&gain(512), up_to(11.0));
    let expected = [1, 2, 4, 8, 16, 32, 64, 16, 32, 64, 12, 10];
    assert_eq!(values[..12], expected, "16 to 64 give the same: the knee is below 16");
}

#[test]
fn the_value_found_is_the_last_within_the_bound_or_the_first_with_all_of_the_throughput() {
    use KneeReason::{Gain, Limit, NotFollowed, P99, ServerCPUs};
    let rate = |until| spec("Rate", 100_000, until);
    let server = |value: u64| {
        let followed = value <= 50_000;
        SearchPoint { followed, ..point(value, (value as f64).min(50_000.0), value as f64 / 1e4) }
    };
    let table = [
        ("neighbours have nothing between them", found(&p99(64, "300us"), latency), Some((3, P99))),
        ("to is the last value", found(&p99(100, "1s"), latency), Some((100, Limit))),
        ("one value alone", found(&p99(1, "1s"), latency), Some((1, Limit))),
        ("the first value is too much", found(&p99(64, "50us"), latency), None),
        ("throughput levels off at 11", found(&gain(512), up_to(11.0)), Some((11, Gain))),
        ("the first value gives all", found(&gain(512), up_to(1.0)), Some((1, Gain))),
        ("throughput still grows at to", found(&gain(48), up_to(1e9)), Some((48, Limit))),
        (
            "the servers use at most 1 CPU",
            found(&cpus("Connections", 512, "1"), busy),
            Some((100, ServerCPUs)),
        ),
        ("they never use 6 CPUs", found(&cpus("Connections", 512, "6"), busy), Some((512, Limit))),
        ("the first value is too much for them", found(&cpus("Connections", 512, "0.001"), busy), None),
        ("a rate within 200 CPUs", found(&cpus("Rate", 100_000, "200"), busy), Some((20_000, ServerCPUs))),
        ("a rate within p99", found(&rate(json!({"p99": "2ms"})), server), Some((20_000, P99))),
        (
            "the largest rate that is followed",
            found(&rate(json!({"p99": "1s"})), server),
            Some((50_000, NotFollowed)),
        ),
        (
            "which is what is gained of a rate",
            found(&rate(json!({"gain": "0.5"})), server),
            Some((50_000, NotFollowed)),
        ),
    ];
    for (sentence, found, expected) in table {
        let reason = |found: (u64, u64, u64, KneeReason)| found.3;
        assert_eq!(found.map(reason), expected.map(|(_, why)| why), "{sentence}");
        let Some(((value, low, high, _), (knee, _))) = found.zip(expected) else { continue };
        assert!(value.abs_diff(knee) * 100 <= knee, "{sentence}: {value} is not within 1 % of {knee}");
        assert!((low..=high).contains(&knee), "{sentence}: {low} to {high} is without {knee}");
    }
}

/// A search whose measurement with each of these numbers, from 0, is disturbed: its p99 is far
/// beyond any bound.
fn disturbed(spec: &SearchSpec, numbers: &[usize]) -> (Vec<u64>, Option<Knee>) {
    let count = std::cell::Cell::new(0);
    search(spec, |value| {
        let number = count.replace(count.get() + 1);
        let quiet = latency(value);
        if numbers.contains(&number) { SearchPoint { p99_milliseconds: Some(1e4), ..quiet } } else { quiet }
    })
}

#[test]
fn disturbed_measurements_decide_nothing() {
    let spec = p99(512, "10ms");
    for number in 0..20 {
        let (values, knee) = disturbed(&spec, &[number]);
        let value = values[knee.expect("a knee").point];
        assert!((97..=103).contains(&value), "measurement {number}: {value} after {values:?}");
    }
    let (values, knee) = disturbed(&spec, &[6, 7]);
    assert_eq!(values[..8], [1, 2, 4, 8, 16, 32, 64, 64], "both measurements of 64 are disturbed");
    let value = values[knee.unwrap().point];
    assert!(
        (97..=103).contains(&value),
        "what contradicts them reopens the search: {value} after {values:?}"
    );
}

#[test]
fn a_rate_that_the_server_cannot_follow_fails_no_requirement() {
    let required: Vec<Requirement> =
        serde_json::from_value(json!([{"check": "ShortWindow", "level": "Required"}])).unwrap();
    let attempt = validate(&run(&["read"], 1)).unwrap().attempts.remove(0);
    let mut result = merge(&attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
    assert_eq!(requirements(&result, &required).len(), 1, "a phase without a search");
    result.point = Some(point(1, 1.0, 1.0));
    assert_eq!(requirements(&result, &required).len(), 1, "a point is checked like any other");
    result.point = Some(SearchPoint { followed: false, ..point(1, 1.0, 1.0) });
    assert!(requirements(&result, &required).is_empty(), "it is beyond the bound, and no failure");
    result.point = Some(SearchPoint { followed: false, share: Some(0.5), ..point(1, 1.0, 1.0) });
    assert_eq!(requirements(&result, &required).len(), 1, "a share of what was found must be followed");
}

#[test]
fn one_disturbed_measurement_is_not_a_level() {
    let disturbed = |value: u64| match value {
        2 => point(2, 900.0, 1.0),
        _ => up_to(16.0)(value),
    };
    assert_eq!(found(&gain(512), disturbed).map(|found| found.0), Some(16));
}

#[test]
fn a_tool_that_tells_no_p99_shows_nothing_within_the_bound() {
    let silent = |value| SearchPoint { p99_milliseconds: None, ..latency(value) };
    assert_eq!(found(&p99(64, "1s"), silent), None);
}

#[test]
fn a_search_by_the_servers_cpus_ends_where_their_usage_is_not_known() {
    let spec = cpus("Connections", 512, "0.7");
    let silent = |value| if value == 4 { SearchPoint { server_cpus: None, ..busy(4) } } else { busy(value) };
    let (values, knee) = search(&spec, silent);
    assert_eq!((values, knee), (vec![1, 2, 4], None), "no value is a knee that nobody could check");
    let points = [busy(1), silent(4)];
    assert_eq!(without_usage(&spec, &points), Some(4));
    assert_eq!(without_usage(&p99(512, "1ms"), &points), None, "a p99 needs no usage");
}

#[test]
fn every_small_search_keeps_its_promises() {
    for limit in 1..=600_u64 {
        let bound = limit as f64;
        let (values, knee) = search(&p99(1024, "1ms"), |value| point(value, 1.0, value as f64 / bound));
        let knee = knee.unwrap();
        assert!(knee.low <= limit && limit < knee.high, "{limit} is not from {} to {}", knee.low, knee.high);
        let value = values[knee.point];
        assert!(value <= limit && (limit - value) * 100 <= 3 * limit, "{value} is not within 3 % of {limit}");
    }
}

/// Any search, with what it could find.
fn searches() -> impl Strategy<Value = (u64, u64)> {
    (1..=5000_u64).prop_flat_map(|from| (Just(from), from..=(from << 19).min(1_000_000_000)))
}

fn over(raise: &str, (from, to): (u64, u64), until: &Value) -> SearchSpec {
    serde_json::from_value(json!({"raise": raise, "from": from, "to": to, "until": until})).unwrap()
}

proptest! {
    #[test]
    fn of_every_latency_that_only_grows_the_knee_is_in_its_interval(
        range in searches(),
        limit in 1..=1_000_000_000_u64,
        steepness in 0.1..8.0_f64,
    ) {
        let spec = over("Rate", range, &json!({"p99": "1ms"}));
        let growing = |value: u64| point(value, value as f64, (value as f64 / limit as f64).powf(steepness));
        let (values, knee) = search(&spec, growing);
        match knee {
            None => prop_assert!(limit < range.0, "from is within the bound"),
            Some(knee) if knee.why == KneeReason::Limit => prop_assert!(limit >= range.1 && values[knee.point] == range.1),
            Some(knee) => {
                let value = values[knee.point];
                prop_assert!(knee.low <= limit && limit < knee.high, "{} not in {knee:?}", limit);
                prop_assert!(value <= limit && (limit - value) * 100 <= 3 * limit, "{value} is not near {limit}");
            }
        }
    }

    #[test]
    fn of_every_throughput_that_levels_off_the_knee_has_all_but_the_gain(
        range in searches(),
        level in 1..=1_000_000_000_u64,
        gain in 1..=500_u32,
    ) {
        let share = f64::from(gain) / 1000.0;
        let spec = over("Pipeline", range, &json!({"gain": share.to_string()}));
        let (values, knee) = search(&spec, |value| point(value, value.min(level) as f64, 1.0));
        let knee = knee.expect("throughput has no bound that the first value breaks");
        let of = |value: u64| value.min(level) as f64;
        if knee.why == KneeReason::Gain {
            let most = values.iter().map(|value| of(*value)).fold(0.0, f64::max);
            prop_assert!(of(values[knee.point]) * (1.0 + share) >= most, "{knee:?} has too little of {most}");
            prop_assert!(knee.low == knee.high || of(knee.low) * (1.0 + share) < most, "less would do: {knee:?}");
        }
    }

    #[test]
    fn whatever_is_measured_a_search_ends_with_values_in_its_range(
        range in searches(),
        noise in prop::collection::vec((0.0..1e6_f64, prop::option::of(0.0..2.0_f64), any::<bool>()), 40),
        raise in prop::sample::select(vec!["Connections", "Rate"]),
        until in prop::sample::select(vec![json!({"p99": "1ms"}), json!({"gain": "0.02"}), json!({"serverCpus": "1"})]),
    ) {
        let spec = over(raise, range, &until);
        let mut points: Vec<SearchPoint> = Vec::new();
        while let Next::Measure(value) = next(&spec, &points) {
            prop_assert!((range.0..=range.1).contains(&value), "{value} is not from {} to {}", range.0, range.1);
            let (rate, p99_milliseconds, followed) = noise[points.len()];
            let server_cpus = p99_milliseconds;
            points.push(SearchPoint { p99_milliseconds, server_cpus, followed, ..point(value, rate, 0.0) });
        }
        prop_assert!(points.len() <= usize::try_from(spec.most_points()).unwrap());
        prop_assert!(spec.most_points() <= dragstrip_crds::run::MOST_POINTS);
        prop_assert!(so_far(&spec, &points).is_some());
    }
}

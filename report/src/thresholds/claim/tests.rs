use super::*;
use crate::{
    build::{build, tests::suite_input},
    document::{RunRecord, Sample},
    forms::{markdown, text},
    input::{Entry, Input},
    thresholds::evaluate,
};
use dragstrip_crds::run::{Limiter, Verdict};
use dragstrip_results::{result::TOTAL, statistics::spread};
use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Normal};
use serde_json::{Value, json};

fn claims(thresholds: Value, input: Input) -> Vec<(ClaimState, String)> {
    let input = Input { thresholds: serde_json::from_value(thresholds).unwrap(), ..input };
    build(input).thresholds.into_iter().map(|row| (row.state.unwrap(), row.message)).collect()
}

/// A claim about valkey-8, which has 1.12 times the throughput of redis-7 at pipeline 1.
fn of_valkey(minimum: &str) -> Value {
    json!({"metric": "OperationsPerSecond", "variant": "valkey-8", "values": {"pipeline": "1"},
        "minimum": minimum, "times": {"variant": "redis-7"}})
}

#[test]
fn a_claim_has_its_ratio_interval_and_state_in_one_sentence() {
    let found = claims(json!([of_valkey("1.05"), of_valkey("1.2"), of_valkey("1.12")]), suite_input());
    let what = "valkey-8 pipeline=1: read GET OperationsPerSecond is 1.12 [1.10, 1.14] times that of redis-7 pipeline=1";
    let unclear = format!("claim is unclear: {what} (minimum 1.12): more repetitions narrow the interval");
    let expected = [
        (ClaimState::Holds, format!("claim holds: {what} (minimum 1.05)")),
        (ClaimState::DoesNotHold, format!("claim does not hold: {what} (minimum 1.2)")),
        (ClaimState::Unclear, unclear),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_claim_may_be_about_a_figure_that_only_the_tool_reports() {
    let mut input = suite_input();
    for entry in &mut input.entries {
        let phase = &mut entry.run.status.as_mut().unwrap().phases[0];
        let milliseconds = 1e6 / phase.operations[0].operations_per_second.mean;
        let metric = json!([{"name": "time", "value": milliseconds, "unit": "ms", "moreIsBetter": false}]);
        phase.metrics = serde_json::from_value(metric).unwrap();
    }
    let faster = json!({"toolMetric": "time", "variant": "valkey-8", "values": {"pipeline": "1"},
        "maximum": "0.95", "times": {"variant": "redis-7"}});
    let (state, message) = claims(json!([faster]), input).remove(0);
    assert_eq!(state, ClaimState::Holds, "{message}");
    assert!(message.contains("read TOTAL time is 0.89 ["), "{message}");
}

#[test]
fn a_claim_within_two_limits_holds_only_if_the_whole_interval_is_within() {
    let within = |minimum: &str, maximum: &str| {
        let mut claim = of_valkey(minimum);
        claim["maximum"] = json!(maximum);
        claims(json!([claim]), suite_input())[0].0
    };
    assert_eq!(within("1.05", "1.2"), ClaimState::Holds);
    assert_eq!(within("1.05", "1.13"), ClaimState::Unclear);
    assert_eq!(within("1.0", "1.05"), ClaimState::DoesNotHold);
}

#[test]
fn values_and_phases_can_differ_too_and_a_figure_is_never_compared_with_itself() {
    let deep =
        json!({"metric": "OperationsPerSecond", "minimum": "4", "times": {"values": {"pipeline": "1"}}});
    let found = claims(json!([deep]), suite_input());
    assert_eq!(found.len(), 2, "one for each variant at pipeline 10: {found:?}");
    assert!(found[0].1.contains("redis-7 pipeline=10: read GET OperationsPerSecond is 5.00 ["), "{found:?}");
    let gone = json!({"metric": "OperationsPerSecond", "minimum": "4", "values": {"pipeline": "100"},
        "times": {"values": {"pipeline": "1"}}});
    let found = claims(json!([gone]), suite_input());
    assert_eq!(found[0].0, ClaimState::NotMeasured, "a claim about nothing passes: {found:?}");
    let phase = json!({"metric": "OperationsPerSecond", "minimum": "1", "times": {"phase": "write"}});
    let found = claims(json!([phase]), suite_input());
    assert!(found.iter().all(|(state, _)| *state == ClaimState::NotMeasured), "{found:?}");
    assert!(found[0].1.ends_with("OperationsPerSecond: write: not measured"), "{found:?}");
}

#[test]
fn one_run_of_each_side_shows_nothing_however_large_the_ratio() {
    let mut input = suite_input();
    input.entries.retain(|entry| entry.repetition == 1);
    let found = claims(json!([of_valkey("0.1")]), input);
    assert_eq!(found[0].0, ClaimState::Unclear, "a point estimate proved a claim: {found:?}");
    assert!(found[0].1.contains("(minimum 0.1): +12.0 % from a single measurement"), "{found:?}");
}

#[test]
fn invalid_measurements_other_conditions_and_saturated_clients_prove_no_claim() {
    let state = |change: &dyn Fn(&mut Entry)| {
        let mut input = suite_input();
        input.entries.iter_mut().for_each(change);
        claims(json!([of_valkey("0.1")]), input).remove(0)
    };
    let (invalid, why) = state(&|entry| {
        if entry.cell.variant == "redis-7" && entry.repetition == 2 {
            entry.run.status.as_mut().unwrap().verdict = Some(Verdict::Invalid);
        }
    });
    assert_eq!(invalid, ClaimState::NotMeasured);
    assert!(why.ends_with("redis-7 pipeline=1: 1 of 3 measurements are Invalid"), "{why}");
    let (other, why) = state(&|entry| {
        let facts = &mut entry.run.status.as_mut().unwrap().comparability.as_mut().unwrap().facts;
        let image = json!({"name": "client.image", "value": entry.cell.variant});
        facts.push(serde_json::from_value(image).unwrap());
    });
    assert_eq!(other, ClaimState::NotComparable);
    assert!(why.contains("client.image is valkey-8 instead of redis-7"), "{why}");
    let saturated = |entry: &mut Entry| {
        let limit = json!({"by": Limiter::Client, "evidence": "threads at 99 %"});
        entry.run.status.as_mut().unwrap().phases[0].limited_by =
            Some(serde_json::from_value(limit).unwrap());
    };
    let (clients, why) = state(&saturated);
    assert_eq!(clients, ClaimState::NotComparable);
    assert!(why.contains("the clients limited both sides"), "{why}");
    let (of_clients, why) = state(&|entry| {
        saturated(entry);
        entry.run.spec.clients.pods = if entry.cell.variant == "valkey-8" { 2 } else { 1 };
    });
    assert_eq!(of_clients, ClaimState::Holds, "the clients are what is compared: {why}");
}

#[test]
fn terminal_and_markdown_list_each_claim_with_its_state() {
    let thresholds = json!([of_valkey("1.05"), of_valkey("1.12")]);
    let input = Input { thresholds: serde_json::from_value(thresholds).unwrap(), ..suite_input() };
    let document = build(input);
    for form in [text::render(&document), markdown::render(&document).replace('\\', "")] {
        assert!(form.contains("claim holds: valkey-8 pipeline=1: read GET"), "{form}");
        assert!(form.contains("claim is unclear: valkey-8 pipeline=1: read GET"), "{form}");
    }
}

/// The states that a claim of at least 3.5 has in 400 suites whose true ratio is `truth`, with so many
/// repetitions, each on a server of its own, and a noise of 2 %: how many hold, and how many do not.
fn simulated(truth: f64, repetitions: u32, seed: u64) -> (usize, usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let claim = json!([{"metric": "OperationsPerSecond", "variant": "fast", "minimum": "3.5", "times": {"variant": "slow"}}]);
    let claim: Vec<Threshold> = serde_json::from_value(claim).unwrap();
    let mut row = |name: &str, mean: f64| {
        let noise = Normal::new(mean, 0.02 * mean).unwrap();
        let sample = |repetition| {
            let run = format!("{name}-{repetition}");
            Sample { run, repetition, value: noise.sample(&mut random), ..Sample::default() }
        };
        let samples: Vec<Sample> = (1..=repetitions).map(sample).collect();
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        Row {
            cell: Cell { variant: name.to_owned(), values: Vec::new() },
            phase: "read".to_owned(),
            operation: TOTAL.to_owned(),
            metric: "OperationsPerSecond".to_owned(),
            more_is_better: Some(true),
            spread: spread(&values),
            samples,
            ..Row::default()
        }
    };
    let (mut holds, mut fails) = (0, 0);
    for _ in 0..400 {
        let rows = vec![row("slow", 100_000.0), row("fast", truth * 100_000.0)];
        let runs = rows.iter().map(|row| RunRecord { cell: row.cell.clone(), ..RunRecord::default() });
        let document = Document { runs: runs.collect(), rows, ..Document::default() };
        let found = evaluate(&claim, &document, &Vec::<Entry>::new());
        holds += usize::from(found[0].state == Some(ClaimState::Holds));
        fails += usize::from(found[0].state == Some(ClaimState::DoesNotHold));
    }
    (holds, fails)
}

#[test]
fn noise_at_the_edge_neither_proves_a_claim_nor_refutes_one() {
    for repetitions in [2, 3, 5, 10] {
        let (holds, fails) = simulated(3.5, repetitions, 1);
        // 2.5 % each is what the interval admits; 400 cases vary by less than that again.
        assert!(holds <= 20, "{repetitions} repetitions: {holds} of 400 hold exactly at the limit");
        assert!(fails <= 20, "{repetitions} repetitions: {fails} of 400 are refuted exactly at the limit");
    }
    let (holds, _) = simulated(3.5 * 0.99, 5, 2);
    assert!(holds <= 10, "{holds} of 400 hold although the truth is 1 % below the limit");
    let (_, fails) = simulated(3.5 * 1.01, 5, 3);
    assert!(fails <= 10, "{fails} of 400 are refuted although the truth is 1 % above the limit");
}

#[test]
fn a_claim_that_is_ten_percent_off_its_limit_is_decided_by_five_repetitions() {
    let (holds, _) = simulated(3.5 * 1.1, 5, 4);
    assert!(holds >= 396, "{holds} of 400 hold although the truth is 10 % above the limit");
    let (holds, fails) = simulated(3.5 * 0.9, 5, 5);
    assert!(holds == 0 && fails >= 396, "{holds} hold and {fails} of 400 do not, 10 % below the limit");
}

use super::*;
use crate::{
    document::{Comparison, Row, Timeline},
    forms::{csv, html, json, markdown, text},
    input::{BaselineInput, Entry},
    published,
    rules::Rules,
    select::measured_cells,
};
use dragstrip_crds::{
    BenchmarkRun,
    run::{Fact, Verdict},
    suite::ComparisonVerdict,
};
use dragstrip_results::result::RepetitionResult;
use serde_json::{Value, json};

/// A run that measured `read` with one operation at these rates and latencies.
fn run(name: &str, server: &str, rates: &[f64], p99: f64) -> BenchmarkRun {
    let spread = dragstrip_results::statistics::spread(rates);
    let operation = |name: &str| {
        json!({
            "operation": name, "count": 1000, "operationsPerSecond": spread, "bytesPerSecond": 2_500_000.0,
            "hits": 9, "misses": 1, "errors": 0,
            "latencyMilliseconds": {"mean": p99 / 2.0, "p50": p99 / 3.0, "p99": p99, "p999": p99 * 2.0}
        })
    };
    let repetition = |(index, rate): (usize, &f64)| {
        json!({"repetition": index + 1, "configMap": "c", "windowSeconds": 10.0, "operationsPerSecond": rate,
            "p99Milliseconds": p99, "clientCpus": 1.0, "verdict": "Valid"})
    };
    let repetitions: Vec<Value> = rates.iter().enumerate().map(repetition).collect();
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": name},
        "spec": {
            "target": {"external": {"address": format!("{server}:6379")}}, "repetitions": rates.len(),
            "phases": [{"name": "read", "memtier": {"ratio": "0:1", "testTime": "10s"}}],
            "timeout": "30m"
        },
        "status": {
            "phase": "Succeeded", "verdict": "Valid",
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:30Z",
            "comparability": {"key": server, "facts": [
                {"name": "client.tools", "value": "memtier 2.1.4"}, {"name": "server.engine", "value": "Redis"},
                {"name": "server.threads", "value": "2"}, {"name": "server.version", "value": server}
            ]},
            "phases": [{"name": "read", "tool": {"name": "memtier", "version": "2.1.4"}, "verdict": "Valid",
                "operations": [operation("GET"), operation("TOTAL")], "repetitions": repetitions}]
        }
    }))
    .unwrap()
}

fn entry(variant: &str, values: &[&str], repetition: u32, run: BenchmarkRun) -> Entry {
    let cell = Cell {
        variant: variant.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    Entry { cell, repetition, run, results: Vec::new() }
}

/// Three runs of a combination.
fn three(variant: &str, values: &[&str], rates: [f64; 3], p99: f64) -> Vec<Entry> {
    let one = |(index, rate): (usize, f64)| {
        let name = format!("s-{variant}-{}-{}", values.join("-"), index + 1);
        let repetition = u32::try_from(index).unwrap() + 1;
        entry(variant, values, repetition, run(&name, variant, &[rate], p99 + 0.001 * f64::from(repetition)))
    };
    rates.into_iter().enumerate().map(one).collect()
}

fn axis(name: &str, values: &[&str]) -> AxisHead {
    AxisHead { name: name.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// Two variants, one axis, three runs each, a baseline and thresholds.
pub(crate) fn suite_input() -> Input {
    let entries = [
        three("valkey-8", &["1"], [112_000.0, 113_000.0, 111_000.0], 0.9),
        three("redis-7", &["1"], [100_000.0, 101_000.0, 99_000.0], 1.0),
        three("redis-7", &["10"], [500_000.0, 505_000.0, 495_000.0], 2.0),
        three("valkey-8", &["10"], [501_000.0, 499_500.0, 503_000.0], 2.0),
    ];
    Input {
        title: "engines".to_owned(),
        variants: ["redis-7", "valkey-8"]
            .map(|name| VariantHead { name: name.to_owned(), note: None })
            .to_vec(),
        axes: vec![axis("pipeline", &["1", "10"])],
        entries: entries.into_iter().flatten().collect(),
        baselines: vec![BaselineInput::Variant("redis-7".to_owned())],
        thresholds: serde_json::from_value(json!([
            {"metric": "P99Milliseconds", "maximum": "1.5"},
            {"metric": "OperationsPerSecond", "minimum": "0.95", "relativeTo": "Baseline"}
        ]))
        .unwrap(),
        rules: Rules::default(),
    }
}

/// The timeline of a repetition that stalled twice.
pub(crate) fn unsteady() -> Timeline {
    let interval = |(from, to)| json!({"disturbance": "Stall", "fromSecond": from, "toSecond": to});
    let intervals = [(3, 4), (7, 10)].map(interval);
    serde_json::from_value(json!({
        "phase": "read", "repetition": 1, "operations": [50, 50, 50, 0, 50, 50, 50, 0, 0, 0],
        "findings": [{
            "reason": "NotSteady", "verdict": "Degraded", "message": "throughput stalled",
            "intervals": intervals
        }]
    }))
    .unwrap()
}

pub(crate) fn suite() -> Document {
    build(suite_input())
}

/// One variant, two axes, one run each.
pub(crate) fn two_axes() -> Document {
    let sizes = ["8", "64"];
    let pairs = sizes.iter().flat_map(|key| sizes.iter().map(move |value| (*key, *value)));
    let entries = pairs.enumerate().map(|(index, (key, value))| {
        let rate = 200_000.0 - 10_000.0 * index as f64;
        entry("dragonfly", &[key, value], 1, run(&format!("m-{index}"), "dragonfly", &[rate], 0.5))
    });
    build(Input {
        title: "sizes".to_owned(),
        axes: vec![axis("key", &sizes), axis("value", &sizes)],
        entries: entries.collect(),
        ..Input::default()
    })
}

/// Three runs, the second of which failed.
pub(crate) fn invalid_run() -> Document {
    let mut entries = three("redis-7", &[], [100_000.0, 90_000.0, 102_000.0], 1.0);
    let status = entries[1].run.status.as_mut().unwrap();
    status.phase = dragstrip_crds::run::RunPhase::Failed;
    status.verdict = Some(Verdict::Invalid);
    status.failure =
        serde_json::from_value(json!({"step": "Tool", "message": "memtier exited with 1"})).unwrap();
    build(Input { title: "flawed".to_owned(), entries, ..Input::default() })
}

/// Backends one after the other, as the article about BullMQ has them.
pub(crate) fn bullmq() -> Document {
    let rows = [
        ("global-locks", 7_697.0, "--default_lua_flags=allow-undeclared-keys"),
        ("hashtag-locks", 17_403.0, "--lock_on_hashtags"),
        ("round-robin", 253_075.0, "--shard_round_robin_prefix=queue"),
    ];
    let head = |(name, _, note): &(&str, f64, &str)| VariantHead {
        name: (*name).to_owned(),
        note: Some((*note).to_owned()),
    };
    build(Input {
        title: "bullmq".to_owned(),
        variants: rows.iter().map(head).collect(),
        entries: rows
            .iter()
            .map(|(name, rate, _)| entry(name, &[], 1, run(name, name, &[*rate], 1.0)))
            .collect(),
        baselines: vec![BaselineInput::Variant("global-locks".to_owned())],
        ..Input::default()
    })
}

fn row<'a>(document: &'a Document, variant: &str, values: &[&str], metric: &str) -> &'a Row {
    let same = |row: &&Row| {
        row.cell.variant == variant
            && row.cell.values == values
            && row.metric == metric
            && row.operation == "GET"
    };
    document.rows.iter().find(same).unwrap_or_else(|| panic!("no {variant} {values:?} {metric}"))
}

const RATE: &str = "OperationsPerSecond";

#[test]
fn each_run_is_one_measurement_and_rows_are_in_declared_order() {
    let document = suite();
    let cells: Vec<String> =
        measured_cells(&document).iter().map(|cell| cell.label(&document.axes)).collect();
    assert_eq!(
        cells,
        ["redis-7 pipeline=1", "redis-7 pipeline=10", "valkey-8 pipeline=1", "valkey-8 pipeline=10"]
    );
    let rate = row(&document, "redis-7", &["1"], RATE);
    let spread = rate.spread.unwrap();
    assert_eq!((spread.repetitions, spread.mean, spread.standard_deviation), (3, 100_000.0, Some(1_000.0)));
    let numbers: Vec<u32> = rate.samples.iter().map(|sample| sample.repetition).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn combinations_are_compared_with_the_baseline_at_equal_values() {
    let document = suite();
    let better = row(&document, "valkey-8", &["1"], RATE).comparison.as_ref().unwrap();
    assert_eq!((better.verdict, better.baseline), (ComparisonVerdict::Better, 100_000.0), "{better:?}");
    assert!((better.ratio.mid - 1.12).abs() < 1e-9 && better.ratio.low > 1.0, "{better:?}");
    let same = row(&document, "valkey-8", &["10"], RATE).comparison.as_ref().unwrap();
    assert_eq!(same.verdict, ComparisonVerdict::Same, "{same:?}");
    let own = row(&document, "redis-7", &["1"], RATE);
    assert_eq!((&own.comparison, &own.uncompared), (&None, &None), "a baseline is not compared with itself");
    let p99 = row(&document, "valkey-8", &["1"], "P99Milliseconds").comparison.as_ref().unwrap();
    assert_eq!(p99.verdict, ComparisonVerdict::Better, "less latency is better: {p99:?}");
}

#[test]
fn more_writes_after_misses_are_not_called_better() {
    let mut input = suite_input();
    for status in input.entries.iter_mut().filter_map(|entry| entry.run.status.as_mut()) {
        status.phases[0].operations[0].operation = "SET (miss)".to_owned();
    }
    let document = build(input);
    let of_valkey = |row: &&Row| row.cell.variant == "valkey-8" && row.cell.values == ["1"];
    let rows: Vec<&Row> = document.rows.iter().filter(of_valkey).collect();
    let verdict = |metric: &str| {
        let row = rows.iter().find(|row| row.metric == metric && row.operation == "SET (miss)").unwrap();
        row.comparison.as_ref().unwrap().verdict
    };
    assert_eq!(verdict(RATE), ComparisonVerdict::Unclear, "12 % more writes are 12 % more misses");
    assert_eq!(verdict("P99Milliseconds"), ComparisonVerdict::Better, "they were faster");
}

#[test]
fn a_single_run_has_its_repetitions_as_measurements() {
    let document = build(Input {
        title: "alone".to_owned(),
        entries: vec![entry("a", &[], 1, run("a", "redis", &[100.0, 110.0, 120.0], 1.0))],
        ..Input::default()
    });
    let rate = row(&document, "a", &[], RATE);
    assert_eq!((rate.samples.len(), rate.spread.unwrap().mean), (3, 110.0));
    assert!(rate.spread.unwrap().confidence95.is_some());
    let p50 = row(&document, "a", &[], "P50Milliseconds");
    assert_eq!(p50.samples.len(), 1, "the status has the median of all repetitions together alone");
    assert!(document.notes.iter().any(|note| note.contains("share a server")), "{:?}", document.notes);
}

#[test]
fn stored_results_give_every_figure_of_every_repetition_and_curves() {
    let mut result: RepetitionResult =
        serde_json::from_str(include_str!("../../../bench-jobs/results/tests/two-pods.json")).unwrap();
    result.phase = "read".to_owned();
    let mut one = entry("a", &[], 1, run("a", "redis", &[100.0, 110.0], 1.0));
    let operation = result.operations[0].name.clone();
    let second = RepetitionResult { repetition: result.repetition + 1, ..result.clone() };
    one.results = vec![second, result];
    let document = build(Input { title: "alone".to_owned(), entries: vec![one], ..Input::default() });
    let of = |metric: &str| {
        let row = document.rows.iter().find(|row| row.operation == operation && row.metric == metric);
        row.map(|row| row.samples.iter().map(|sample| sample.repetition).collect::<Vec<_>>())
    };
    assert_eq!(of(RATE), Some(vec![1, 2]));
    let curves = &document.runs[0].curves;
    let rising =
        |points: &[(f64, f64)]| points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    assert!(curves.iter().all(|curve| rising(&curve.points)), "{curves:?}");
}

#[test]
fn memory_of_different_numbers_of_keys_is_compared_by_key() {
    let reading = |used: u64, keys: u64| {
        json!([{"moment": "RightAfter", "member": "SUM", "seconds": 0.1, "usedBytes": used, "keys": keys,
            "bytesPerKey": used as f64 / keys as f64}])
    };
    let with = |used: u64, keys: u64| {
        let mut input = suite_input();
        for entry in &mut input.entries {
            let slow = entry.cell.variant == "valkey-8";
            let (used, keys) = if slow { (used, keys) } else { (100_000_000, 1_000_000) };
            let memory = serde_json::from_value(reading(used + u64::from(entry.repetition), keys)).unwrap();
            entry.run.status.as_mut().unwrap().phases[0].memory = memory;
        }
        build(input)
    };
    let verdicts = |document: &Document, metric: &str| {
        let of =
            |row: &&Row| row.cell.variant == "valkey-8" && row.cell.values == ["1"] && row.metric == metric;
        let row = document.rows.iter().find(of).unwrap();
        (row.comparison.as_ref().map(|found| found.verdict), row.uncompared.clone().unwrap_or_default())
    };
    let fewer = with(75_000_000, 700_000);
    let (verdict, reason) = verdicts(&fewer, "ServerUsedBytes");
    assert_eq!(
        (verdict, reason.as_str()),
        (None, "it holds 700,000 keys instead of 1,000,000: compare bytes per key")
    );
    assert_eq!(verdicts(&fewer, "BytesPerKey").0, Some(ComparisonVerdict::Worse));
    let text = text::render(&fewer);
    assert!(text.contains("valkey-8: 12 % more throughput in 1 of 2 comparisons; 10 % less p99 latency in 1 of 2 comparisons; 7.1 % more memory per key\n"), "{text}");
    let same = with(75_000_000, 1_000_000);
    assert_eq!(verdicts(&same, "ServerUsedBytes").0, Some(ComparisonVerdict::Better));
}

/// A result whose only operation has one latency.
fn stored_result() -> RepetitionResult {
    let mut result: RepetitionResult =
        serde_json::from_str(include_str!("../../../bench-jobs/results/tests/two-pods.json")).unwrap();
    let mut histogram = dragstrip_results::histogram::empty().unwrap();
    histogram.record(100).unwrap();
    let latencies = dragstrip_results::histogram::Latencies::from_microseconds(histogram);
    result.operations.truncate(1);
    result.operations[0].histogram = Some(latencies.encode().unwrap());
    result
}

#[test]
fn phases_have_the_declared_order_whatever_that_of_the_results() {
    let result = stored_result();
    let mut one = entry("a", &[], 1, run("a", "redis", &[100.0], 1.0));
    let mut write = one.run.spec.phases[0].clone();
    "write".clone_into(&mut write.name);
    one.run.spec.phases.insert(0, write);
    one.results = ["read", "write"]
        .map(|phase| RepetitionResult { phase: phase.to_owned(), ..result.clone() })
        .to_vec();
    let document = build(Input { entries: vec![one], ..Input::default() });
    let curves = document.runs[0].curves.iter().map(|curve| curve.phase.as_str());
    assert_eq!(crate::select::distinct(curves), ["write", "read"]);
    assert_eq!(crate::select::phases(&document), ["write", "read"]);
}

#[test]
fn the_curve_of_the_total_is_omitted_beside_that_of_the_only_operation() {
    let curves = |names: &[&str]| {
        let mut result = stored_result();
        let mut row = result.operations.remove(0);
        for name in names {
            (*name).clone_into(&mut row.name);
            result.operations.push(row.clone());
        }
        let mut one = entry("a", &[], 1, run("a", "redis", &[100.0], 1.0));
        one.results = vec![result];
        let document = build(Input { entries: vec![one], ..Input::default() });
        document.runs[0].curves.iter().map(|curve| curve.operation.clone()).collect::<Vec<_>>()
    };
    assert_eq!(curves(&["GET", "TOTAL"]), ["GET"]);
    assert_eq!(curves(&["GET", "SET", "TOTAL"]), ["GET", "SET", "TOTAL"]);
    assert_eq!(curves(&["TOTAL"]), ["TOTAL"]);
}

#[test]
fn invalid_measurements_are_in_no_mean() {
    let document = invalid_run();
    let rate = row(&document, "redis-7", &[], RATE);
    assert_eq!((rate.samples.len(), rate.spread.unwrap().mean), (3, 101_000.0));
    assert_eq!((rate.samples[1].verdict, rate.verdict), (Some(Verdict::Invalid), Some(Verdict::Invalid)));
}

#[test]
fn a_cancelled_run_keeps_what_it_measured() {
    for verdict in [None, Some(Verdict::Invalid)] {
        let mut cancelled = run("sprint", "redis-7", &[100_000.0, 101_000.0], 1.0);
        let status = cancelled.status.as_mut().unwrap();
        (status.phase, status.verdict) = (dragstrip_crds::run::RunPhase::Cancelled, verdict);
        let entries = vec![entry("sprint", &[], 1, cancelled)];
        let document = build(Input { entries, ..Input::default() });
        let rate = row(&document, "sprint", &[], "OperationsPerSecond");
        assert!(rate.spread.is_some() && rate.verdict == Some(Verdict::Valid), "{verdict:?}: {rate:?}");
    }
}

#[test]
fn an_invalid_baseline_compares_nothing_and_gives_the_reason() {
    let mut input = suite_input();
    for entry in input.entries.iter_mut().filter(|entry| entry.cell.variant == "redis-7") {
        entry.run.status.as_mut().unwrap().verdict = Some(Verdict::Invalid);
    }
    let document = build(input);
    let rate = row(&document, "valkey-8", &["1"], RATE);
    assert_eq!(rate.comparison, None);
    assert_eq!(rate.uncompared.as_deref(), Some("all measurements of the baseline are Invalid"));
    let relative = document
        .thresholds
        .iter()
        .find(|row| row.threshold == 1 && row.cell.as_deref() == Some("valkey-8 pipeline=1"));
    assert!(relative.is_some_and(|row| !row.met), "a ratio to nothing is not good enough: {relative:?}");
}

#[test]
fn different_conditions_are_reported_once_and_compared_only_with_compare_anyway() {
    let mut input = suite_input();
    for entry in &mut input.entries {
        let record = entry.run.status.as_mut().unwrap().comparability.as_mut().unwrap();
        let kind = if entry.cell.variant == "redis-7" { "c7i.large" } else { "c6i.large" };
        let name = "machine.client.instanceType".to_owned();
        record.facts.push(Fact { name, value: kind.to_owned() });
        // The same server, so that nothing declares another machine.
        entry.run.spec.target = serde_json::from_value(json!({"datastoreRef": {"name": "d"}})).unwrap();
    }
    let document = build(input.clone());
    let rate = row(&document, "valkey-8", &["1"], RATE).comparison.as_ref().unwrap();
    assert_eq!(rate.verdict, ComparisonVerdict::NotComparable, "{rate:?}");
    assert!(
        rate.reason.contains("machine.client.instanceType is c6i.large instead of c7i.large"),
        "{}",
        rate.reason
    );
    let differences: Vec<(&str, bool)> = document
        .baseline
        .as_ref()
        .unwrap()
        .differences
        .iter()
        .map(|difference| (difference.fact.as_str(), difference.varied))
        .collect();
    assert_eq!(
        differences,
        [("machine.client.instanceType", false), ("server.version", true)],
        "each once, not per row"
    );
    input.rules.anyway = true;
    let document = build(input);
    let rate = row(&document, "valkey-8", &["1"], RATE).comparison.as_ref().unwrap();
    assert_eq!(rate.verdict, ComparisonVerdict::Better, "{rate:?}");
}

#[test]
fn an_earlier_report_is_a_baseline_too() {
    let earlier = suite();
    let baseline = BaselineInput::Report { kind: "suite".to_owned(), document: Box::new(earlier) };
    let document = build(Input { baselines: vec![baseline], ..suite_input() });
    let rate = row(&document, "redis-7", &["1"], RATE).comparison.as_ref().unwrap();
    assert_eq!(rate.verdict, ComparisonVerdict::Same, "the same against itself: {rate:?}");
    assert_eq!(document.baseline.unwrap().name, "engines");
}

#[test]
fn a_published_figure_is_a_baseline_with_its_conditions() {
    let csv = "# server.version: 7.0\n# source: https://example.org\nvariant,pipeline,phase,operation,metric,value,note\nredis-7,1,read,,OperationsPerSecond,50000,printed as 50K\nredis-7,10,read,GET,P99Milliseconds,2.002,\nredis-7,10,write,,OperationsPerSecond,1,\n";
    let input = suite_input();
    let scope = published::Scope {
        variants: input.variants.iter().map(|head| head.name.clone()).collect(),
        axes: input.axes.clone(),
        phases: Vec::new(),
    };
    let table = published::parse(csv, &scope).unwrap();
    let baseline = BaselineInput::Published { name: "published.csv".to_owned(), table };
    let document = build(Input { baselines: vec![baseline], ..input });
    let rate = row(&document, "redis-7", &["1"], RATE).comparison.as_ref().unwrap();
    assert_eq!((rate.baseline_samples, rate.verdict, rate.chance), (0, ComparisonVerdict::Better, None));
    assert!((rate.ratio.mid - 2.0).abs() < 1e-9);
    assert!(rate.reason.ends_with("; note in the table: printed as 50K"), "{}", rate.reason);
    let p99 = row(&document, "redis-7", &["10"], "P99Milliseconds").comparison.as_ref().unwrap();
    assert_eq!(p99.verdict, ComparisonVerdict::Same);
    assert!(!p99.reason.contains("note"), "{}", p99.reason);
    let is_total = |row: &&Row| row.operation == "TOTAL" && row.metric == "P99Milliseconds";
    assert_eq!(document.rows.iter().find(is_total), None, "the only operation is all of them together");
    let head = document.baseline.as_ref().unwrap();
    assert!(
        head.differences.iter().any(|it| it.fact == "server.version" && it.baseline == "7.0"),
        "{head:?}"
    );
    assert!(head.notes.iter().any(|note| note.contains("https://example.org")), "{head:?}");
    assert!(head.notes.iter().any(|note| note.starts_with("1 published figures have no")), "{head:?}");
    assert!(text::render(&document).contains("ratio to published"));
}

/// Three backends with three runs each beside one of them, the one above each, and a published figure.
fn beside_three_baselines() -> Document {
    let backends = [("global-locks", 7_700.0), ("hashtag-locks", 17_400.0), ("round-robin", 253_000.0)];
    let names = backends.map(|(name, _)| name.to_owned());
    let csv = "# source: the article\nvariant,phase,operation,metric,value\nround-robin,read,,OperationsPerSecond,253075\n";
    let scope = published::Scope { variants: names.to_vec(), ..published::Scope::default() };
    let table = published::parse(csv, &scope).unwrap();
    let runs = backends.map(|(name, rate)| three(name, &[], [rate, rate * 1.01, rate * 0.99], 1.0));
    let threshold = json!([{"metric": "OperationsPerSecond", "minimum": "2", "relativeTo": "Baseline"}]);
    build(Input {
        title: "bullmq".to_owned(),
        variants: names.map(|name| VariantHead { name, note: None }).to_vec(),
        entries: runs.into_iter().flatten().collect(),
        baselines: vec![
            BaselineInput::Variant("global-locks".to_owned()),
            BaselineInput::Above,
            BaselineInput::Published { name: "article".to_owned(), table },
        ],
        thresholds: serde_json::from_value(threshold).unwrap(),
        ..Input::default()
    })
}

#[test]
fn each_baseline_has_its_own_comparison_by_the_same_rules() {
    let document = beside_three_baselines();
    let ratios = |variant: &str| -> Vec<(Option<String>, Option<ComparisonVerdict>)> {
        let compared = document.compared(row(&document, variant, &[], RATE));
        let ratio = |found: &Comparison| {
            assert!(found.interval_known, "{variant}: three runs give an interval: {found:?}");
            format!("{:.2}", found.ratio.mid)
        };
        compared.map(|(_, found, _)| (found.map(ratio), found.map(|found| found.verdict))).collect()
    };
    let better = |ratio: &str| (Some(ratio.to_owned()), Some(ComparisonVerdict::Better));
    let same = (Some("1.00".to_owned()), Some(ComparisonVerdict::Same));
    assert_eq!(ratios("global-locks"), [(None, None), (None, None), (None, None)]);
    assert_eq!(ratios("hashtag-locks"), [better("2.26"), better("2.26"), (None, None)]);
    assert_eq!(ratios("round-robin"), [better("32.86"), better("14.54"), same]);
    let first = row(&document, "global-locks", &[], RATE);
    let why: Vec<Option<&str>> = document.compared(first).map(|(_, _, why)| why).collect();
    assert_eq!(why, [None, None, Some("the baseline article has no such figure")]);
    assert_eq!(document.thresholds.len(), 2, "the first baseline's own figures have no threshold");
    assert!(
        document.thresholds.iter().all(|row| row.met),
        "the published ratio is below 2: {:?}",
        document.thresholds
    );
    let source = "compared with article: published: source: the article";
    assert!(document.all_notes().any(|note| note == source), "{:?}", document.other_baselines);
}

#[test]
fn every_form_shows_a_ratio_to_each_baseline() {
    let document = beside_three_baselines();
    let text = text::render(&document);
    for part in [
        "compared with the variant global-locks and the variant above and the published table article",
        "differs from the variant above: ",
        "Ops/s × global-locks",
        "Ops/s × above",
        "Ops/s ratio to published",
        "14.54 [",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert!(!text.contains("vs. above"), "the declared column says more: {text}");
    let markdown = markdown::render(&document);
    let all = "| × global-locks | Difference | Verdict | × above | Difference | Verdict | ratio to published | Difference | Verdict |";
    assert!(markdown.contains(all) && markdown.contains("14.54 \\["), "{markdown}");
    let page = html::render(&document);
    for part in ["× above: ", "ratio to published: ", "<b>the variant above</b>", "14.54×"] {
        assert!(page.contains(part), "{part:?} is not in the page");
    }
    let csv = csv::render(&document);
    let widths: Vec<usize> = csv.lines().map(|line| line.matches(',').count()).collect();
    assert_eq!(csv.lines().count(), document.rows.len() + 1, "lines are lost: {csv}");
    assert!(widths[0] > 30 && csv.contains(",above_ratio,above_ratio_low,"), "{csv}");
    assert!(csv.contains(",published_comparison,published_reason\n"), "{csv}");
    let json: Document = serde_json::from_str(&json::render(&document)).unwrap();
    let ratio = |document: &Document| {
        let row = row(document, "round-robin", &[], RATE);
        document
            .compared(row)
            .map(|(baseline, found, _)| (baseline.name.clone(), found.is_some()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ratio(&json), ratio(&document), "the JSON report has other comparisons");
}

#[test]
fn timed_batches_have_the_interval_of_their_tool() {
    // The first row of the published table of AsyncRedisClientV1, 100,000 items of 100 bytes.
    let estimate = |low: f64, mid: f64, high: f64| json!({"low": low, "mid": mid, "high": high});
    let mut run = run("v1", "dragonfly", &[1.0], 1.0);
    run.status.as_mut().unwrap().phases[0].batches = serde_json::from_value(json!({
        "items": 100_000, "batchSize": 10_000, "bytesPerItem": 100, "iterations": 850,
        "secondsPerBatch": estimate(0.070_529, 0.070_664, 0.070_867),
        "elementsPerSecond": estimate(1_411_100.0, 1_415_200.0, 1_417_900.0),
        "mebibytesPerSecond": estimate(134.57, 134.96, 135.22)
    }))
    .unwrap();
    run.status.as_mut().unwrap().phases[0].operations.clear();
    let document = build(Input {
        title: "rust".to_owned(),
        entries: vec![entry("v1", &[], 1, run)],
        ..Input::default()
    });
    let text = text::render(&document);
    assert!(text.contains("Items/s ±95%") && text.contains("1,415,200 ±3,400"), "{text}");
    assert!(text.contains("ms/batch") && text.contains("70.7"), "{text}");
    let payload = document.rows.iter().find(|row| row.metric == "payload").unwrap();
    assert_eq!((payload.unit.as_str(), payload.spread.unwrap().mean), ("MiB/s", 134.96));
}

#[test]
fn memtiers_own_rate_and_the_memory_of_each_of_few_members_are_figures() {
    let metrics = |tool: &str, members: usize| -> Vec<String> {
        let mut run = run("one", "redis-7", &[1000.0], 1.0);
        let phase = &mut run.status.as_mut().unwrap().phases[0];
        phase.tool.name = tool.to_owned();
        phase.operations[0].tool_operations_per_second = Some(1380.0);
        let reading = |member: String| json!({"moment": "RightAfter", "seconds": 0.0, "member": member, "rssBytes": 1_048_576});
        let names = (0..members).map(|index| format!("redis-{index}")).chain(["SUM".to_owned()]);
        phase.memory = serde_json::from_value(names.map(reading).collect()).unwrap();
        let document = build(Input { entries: vec![entry("redis-7", &[], 1, run)], ..Input::default() });
        document.rows.into_iter().map(|row| row.metric).collect()
    };
    let has = |metrics: &[String], name: &str| metrics.iter().any(|metric| metric == name);
    let of_memtier = metrics("memtier", 3);
    assert!(
        has(&of_memtier, "toolOperationsPerSecond") && has(&of_memtier, "member 3 RSS"),
        "{of_memtier:?}"
    );
    let of_loadgen = metrics("loadgen", 64);
    assert!(!has(&of_loadgen, "toolOperationsPerSecond"), "loadgen has one rate: {of_loadgen:?}");
    assert!(!has(&of_loadgen, "member 1 RSS"), "64 servers have no figures of their own: {of_loadgen:?}");
}

#[test]
fn memory_is_reported_after_the_settle_time_and_right_after_the_load() {
    let mut run = run("load", "dkv", &[1.0], 1.0);
    run.status.as_mut().unwrap().phases[0].memory = serde_json::from_value(json!([
        {"moment": "RightAfter", "seconds": 1.0, "member": "SUM", "usedBytes": 209_715_200, "cgroupBytes": 1_280_974_848},
        {"moment": "Settled", "seconds": 60.0, "member": "dkv-1", "usedBytes": 1},
        {"moment": "Settled", "seconds": 60.0, "member": "SUM", "usedBytes": 104_857_600, "bytesPerKey": 104.5,
            "cgroupPeakBytes": 2_031_517_696}
    ]))
    .unwrap();
    let document = build(Input {
        title: "dkv".to_owned(),
        entries: vec![entry("dkv", &[], 1, run)],
        ..Input::default()
    });
    let of = |metric: &str| {
        document.rows.iter().find(|row| row.metric == metric).and_then(|row| Some(row.spread?.mean))
    };
    assert_eq!(of("ServerUsedBytes"), Some(104_857_600.0), "when it had settled");
    assert_eq!((of("used right after"), of("BytesPerKey")), (Some(200.0), Some(104.5)));
    let close =
        |found: Option<f64>, expected: f64| found.is_some_and(|found| (found - expected).abs() < 0.01);
    assert!(
        close(of("container memory right after"), 1221.63) && close(of("container memory, peak"), 1937.41)
    );
}

#[test]
fn a_comparison_notes_what_it_sees_by_the_noise_of_calibrations_and_judges_as_without() {
    let verdicts = |document: &Document| -> Vec<_> {
        document.rows.iter().map(|row| row.comparison.as_ref().map(|one| one.verdict)).collect()
    };
    let without = build(suite_input());
    let mut input = suite_input();
    for entry in &mut input.entries {
        let noise = json!({"figures": [{"phase": "read", "metric": "OperationsPerSecond", "starts": 5,
            "repetitions": 15, "betweenRepetitions": 0.01, "betweenStarts": 0.02}],
            "foundBy": {"namespace": "races", "name": "still-5"}, "measuredAt": "2026-01-01T00:00:00Z"});
        entry.run.status.as_mut().unwrap().noise = serde_json::from_value(noise).unwrap();
    }
    let with = build(input);
    let note = "read: this comparison can detect differences in OperationsPerSecond of 6.8 % or more, given the noise that races/still-5 measured on 2026-01-01";
    let notes: Vec<&String> = with.all_notes().collect();
    assert!(notes.iter().any(|one| *one == note), "{notes:?}");
    assert_eq!(verdicts(&with), verdicts(&without), "noise only warns");
}

#[test]
fn the_facts_of_a_run_come_from_its_record() {
    let mut run = run("a", "redis", &[1.0], 1.0);
    let record = json!({"key": "k", "facts": [{"name": "machine.server.kernel", "value": "6.8"}]});
    run.status.as_mut().unwrap().comparability = serde_json::from_value(record).unwrap();
    let mut result: RepetitionResult =
        serde_json::from_str(include_str!("../../../bench-jobs/results/tests/two-pods.json")).unwrap();
    for (pod, megahertz) in result.pods.iter_mut().zip([[2300.2, 3100.0], [2200.0, 2500.0]]) {
        pod.client.host.get_or_insert_default().megahertz = Some(megahertz);
    }
    let facts = facts::facts(&run, &[result]);
    assert_eq!(facts["clock.clients"], "2200 to 3100 MHz");
    assert_eq!(facts["machine.server.kernel"], "6.8");
    assert!(!facts.contains_key("server.version"), "{facts:?}");
}

#[test]
fn a_second_that_the_load_did_not_fill_is_not_in_the_timeline() {
    let result: RepetitionResult =
        serde_json::from_str(include_str!("../../../bench-jobs/results/tests/two-pods.json")).unwrap();
    let seconds = |seconds: f64| {
        let mut pod = result.pods[0].clone();
        (pod.per_second, pod.window.seconds) = (vec![90, 110, 1], seconds);
        records::full_seconds(&pod)
    };
    assert_eq!(seconds(2.01), [90, 110], "the third second has 10 ms");
    assert_eq!(seconds(2.995), [90, 110, 1]);
}

#[test]
fn a_metric_of_the_tool_that_phases_declare_is_their_headline_in_every_form() {
    let mut input = suite_input();
    for entry in &mut input.entries {
        entry.run.spec.phases[0].headline = Some("Set ns/op".to_owned());
        let valkey = if entry.cell.variant == "valkey-8" { 4_000.0 } else { 0.0 };
        let value = 12_345.0 + valkey + 10.0 * f64::from(entry.repetition);
        let metric = json!([{"name": "Set ns/op", "value": value, "unit": "ns/op", "moreIsBetter": false}]);
        entry.run.status.as_mut().unwrap().phases[0].metrics = serde_json::from_value(metric).unwrap();
    }
    let document = build(input);
    assert_eq!(crate::select::headline(&document, "read"), Some(("Set ns/op", "ns/op")));
    let text = text::render(&document);
    assert!(text.contains("Set ns/op ±95%") && text.contains("12,365"), "{text}");
    assert!(text.contains("headlines: 2 Worse"), "less time is better: {text}");
    let page = crate::html::render(&document);
    let columns = page.split_once("<h2>Results").unwrap().1;
    let at = |name: &str| columns.find(name).unwrap_or_else(|| panic!("{name} is not a column: {columns}"));
    assert!(at("Set ns/op") < at("Ops/s"), "the headline is the first figure");
    assert!(page.contains("Bars: Set ns/op in read"), "no bars of the headline");
}

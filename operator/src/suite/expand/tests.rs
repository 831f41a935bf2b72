//! What becomes of declarations, good and bad.

use super::*;
use serde_json::json;

pub(crate) fn suite_of(spec: Value) -> BenchmarkSuite {
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite",
        "metadata": {"name": "pipelines", "namespace": "races", "uid": "suite-uid"}, "spec": spec
    }))
    .unwrap()
}

fn redis(version: &str) -> Value {
    let target = json!({"datastore": {"engine": "Redis", "version": version, "threads": 1}});
    json!({"name": format!("redis-{version}"), "target": target})
}

/// Two variants, two axes with two values each, two repetitions.
fn spec() -> Value {
    json!({
        "variants": [redis("7.0"), redis("8.0")],
        "run": {"phases": [{"name": "read", "memtier": {"testTime": "1s"}}]},
        "axes": [
            {"name": "threads", "paths": ["/target/datastore/threads"], "values": [{"value": 1}, {"value": 2}]},
            {"name": "pipeline", "paths": ["/phases/0/memtier/pipeline"], "values": [{"value": 1}, {"name": "deep", "value": 10}]}
        ],
        "repetitions": 2
    })
}

fn with(change: impl FnOnce(&mut Value)) -> BenchmarkSuite {
    let mut spec = spec();
    change(&mut spec);
    suite_of(spec)
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    expand(&with(change)).unwrap_err().to_string()
}

#[test]
fn every_variant_is_measured_with_every_combination_of_values() {
    let expanded = expand(&suite_of(spec())).unwrap();
    assert_eq!(expanded.runs.len(), 2 * 2 * 2 * 2);
    let run = expanded
        .runs
        .iter()
        .find(|run| run.cell.variant == "redis-8.0" && run.cell.values == ["2", "deep"])
        .expect("a combination is missing");
    let written = serde_json::to_value(&run.spec).unwrap();
    assert_eq!(written["target"]["datastore"]["threads"], 2);
    assert_eq!(written["target"]["datastore"]["version"], "8.0");
    assert_eq!(written["phases"][0]["memtier"]["pipeline"], 10);
    assert_eq!(expanded.axes[1].values, ["1", "deep"], "reports need the order of the declaration");
}

#[test]
fn names_are_short_unique_and_made_of_the_suites() {
    let mut suite = suite_of(spec());
    suite.metadata.name = Some("a-very-long-name.of.a-nightly-suite-29384729".to_owned());
    suite.spec.repetitions = 99;
    let names: BTreeSet<String> = expand(&suite).unwrap().runs.into_iter().map(|run| run.name).collect();
    assert_eq!(names.len(), 8 * 99, "two runs would have one name");
    assert!(
        names.iter().all(|name| name.len() <= 33 && name.starts_with("a-very-long-name-of-")),
        "{names:?}"
    );
    let other = BenchmarkSuite::new("a-very-long-name.of.a-nightly-suite-29384730", suite.spec);
    let others = expand(&other).unwrap().runs;
    assert!(others.iter().all(|run| !names.contains(&run.name)), "rounds would take each other's names");
}

#[test]
fn interleaved_runs_come_repetition_by_repetition_each_shuffled_anew() {
    let runs = expand(&with(|spec| spec["seed"] = json!(7))).unwrap().runs;
    let words = |repetition: u32| -> Vec<String> {
        let of_it = runs.iter().filter(|run| run.repetition == repetition);
        of_it.map(|run| format!("{} {}", run.cell.variant, run.cell.values.join(" "))).collect()
    };
    assert!(runs[..8].iter().all(|run| run.repetition == 1), "a second run before every first one");
    assert_ne!(words(1), words(2), "the same order twice is no shuffle");
    assert_eq!(
        words(1),
        PINNED,
        "the order must stay the same, whatever version makes it: a suite may be half done"
    );
}

#[test]
fn sequential_runs_come_combination_by_combination() {
    let runs = expand(&with(|spec| spec["order"] = json!("Sequential"))).unwrap().runs;
    let first: Vec<_> = runs[..3].iter().map(|run| (run.cell.values.join(" "), run.repetition)).collect();
    assert_eq!(first, [("1 1".into(), 1), ("1 1".into(), 2), ("1 deep".into(), 1)]);
    assert!(runs[..8].iter().all(|run| run.cell.variant == "redis-7.0"), "one variant after the other");
}

#[test]
fn what_is_excluded_is_not_measured() {
    let runs = expand(&with(|spec| {
        spec["exclude"] = json!([{"variant": "redis-7.0", "values": {"pipeline": "deep"}}]);
    }));
    assert_eq!(runs.unwrap().runs.len(), (8 - 2) * 2);
    let told = refusal(|spec| spec["exclude"] = json!([{"values": {"pipeline": "10"}}]));
    assert!(told.contains("spec.exclude[0]") && told.contains("its values are called 1, deep"), "{told}");
    let told = refusal(|spec| spec["exclude"] = json!([{"variant": "redis-9"}]));
    assert!(told.contains("there is no variant \"redis-9\""), "{told}");
    assert!(refusal(|spec| spec["exclude"] = json!([{}])).contains("every combination"));
}

#[test]
fn a_path_that_no_run_has_is_told_with_the_near_misses() {
    let told = refusal(|spec| spec["axes"][1]["paths"] = json!(["/phases/0/memtier/pipelin"]));
    assert_eq!(
        told,
        "spec.axes[pipeline].paths[0]: a run has no field /phases/0/memtier/pipelin: \
         did you mean /phases/0/memtier/pipeline?"
    );
    let told = refusal(|spec| spec["axes"][1]["paths"] = json!(["phases/0"]));
    assert!(told.contains("is no JSON pointer"), "{told}");
    let told = refusal(|spec| spec["axes"][1]["paths"] = json!(["/ttlAfterFinished"]));
    assert!(told.contains("what the suite itself decides"), "{told}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let told = refusal(|spec| {
        spec["axes"][0]["paths"] = json!(["/target/datastore/treads"]);
        spec["axes"][1]["values"] = json!([{"value": 1}, {"value": 1}, {}, {"value": {"a": 1}}]);
        spec["exclude"] = json!([{"values": {"pipelines": "1"}}]);
    });
    for part in [
        "did you mean /target/datastore/threads?",
        "spec.axes[pipeline].values \"1\" is there twice",
        "spec.axes[pipeline].values[2] changes nothing",
        "spec.axes[pipeline].values[3] needs a name",
        "there is no axis \"pipelines\"",
    ] {
        assert!(told.contains(part), "{part:?} is not told: {told}");
    }
}

#[test]
fn two_axes_that_change_the_same_are_refused() {
    let told = refusal(|spec| spec["axes"][0]["paths"] = json!(["/phases/0/memtier/pipeline"]));
    assert!(
        told.contains("spec.axes[threads].paths[0] and spec.axes[pipeline].paths[0] both change"),
        "{told}"
    );
    let told = refusal(|spec| spec["axes"][0]["paths"] = json!(["/phases/0/memtier"]));
    assert!(told.contains("both change"), "one holds the other: {told}");
    let appended = with(|spec| {
        let flag = |flag: &str| json!({"name": flag, "paths": ["/target/datastore/extraArgs/-"], "values": [{"value": flag}]});
        spec["axes"] = json!([flag("--a"), flag("--b")]);
    });
    let run = &expand(&appended).unwrap().runs[0];
    assert_eq!(
        serde_json::to_value(&run.spec).unwrap()["target"]["datastore"]["extraArgs"],
        json!(["--a", "--b"])
    );
}

#[test]
fn millions_of_combinations_are_refused_with_their_number_at_once() {
    let told = refusal(|spec| {
        let values: Vec<Value> = (0..256).map(|value| json!({"value": value})).collect();
        spec["axes"] = (0..8)
            .map(|axis| json!({"name": format!("axis-{axis}"), "values": values, "paths": [format!("/phases/{axis}/memtier/pipeline")]}))
            .collect();
    });
    assert!(told.contains("73786976294838206464 runs (2 variants x 256 of axis-0"), "{told}");
    assert!(told.contains("spec.maxRuns is 1000"), "{told}");
    let told = refusal(|spec| spec["maxRuns"] = json!(15));
    assert!(
        told.starts_with("16 runs (2 variants x 2 of threads x 2 of pipeline x 2 repetitions)"),
        "{told}"
    );
    let enough = with(|spec| {
        spec["maxRuns"] = json!(12);
        spec["exclude"] = json!([{"variant": "redis-7.0", "values": {"threads": "1"}}]);
    });
    assert_eq!(expand(&enough).unwrap().runs.len(), 12, "what is left out does not count");
}

#[test]
fn a_value_of_the_wrong_type_is_told_with_the_runs_field() {
    let told = refusal(|spec| spec["axes"][1]["values"][1]["value"] = json!("ten"));
    assert!(told.contains("phases[0].memtier.pipeline"), "{told}");
    assert!(told.contains("(and of 3 more)"), "each cause is told once: {told}");
}

#[test]
fn a_run_that_the_operator_would_refuse_is_refused_before_the_first_is_made() {
    let told = refusal(|spec| spec["run"]["phases"][0]["memtier"]["testTime"] = json!("1500ms"));
    assert!(told.contains("memtier measures whole seconds"), "{told}");
}

#[test]
fn a_patch_may_create_what_the_template_does_not_have() {
    let suite = with(|spec| {
        spec["variants"][0]["patches"] = json!([
            {"path": "/clients/resources/limits/cpu", "value": "4"},
            {"path": "/phases/-", "value": {"name": "again", "memtier": {"testTime": "2s"}}}
        ]);
    });
    let runs = expand(&suite).unwrap().runs;
    let run = runs.iter().find(|run| run.cell.variant == "redis-7.0").unwrap();
    let written = serde_json::to_value(&run.spec).unwrap();
    assert_eq!(written["clients"]["resources"]["limits"]["cpu"], "4");
    assert_eq!(run.spec.phases.len(), 2);
}

/// The order of the first repetition with seed 7.
const PINNED: [&str; 8] = [
    "redis-7.0 2 1",
    "redis-8.0 2 1",
    "redis-7.0 1 1",
    "redis-7.0 2 deep",
    "redis-8.0 1 deep",
    "redis-7.0 1 deep",
    "redis-8.0 2 deep",
    "redis-8.0 1 1",
];

//! What becomes of declarations, good and bad.

use super::*;
use crate::fixtures::{redis, spec, suite_of};
use serde_json::{Value, json};

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
    assert_ne!(words(1), words(2), "the same sequence twice is not a shuffle");
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
    let reported = refusal(|spec| spec["exclude"] = json!([{"values": {"pipeline": "10"}}]));
    assert!(
        reported.contains("spec.exclude[0]") && reported.contains("its values are called 1, deep"),
        "{reported}"
    );
    let reported = refusal(|spec| spec["exclude"] = json!([{"variant": "redis-9"}]));
    assert!(reported.contains("there is no variant \"redis-9\""), "{reported}");
    assert!(refusal(|spec| spec["exclude"] = json!([{}])).contains("every combination"));
}

#[test]
fn a_path_that_no_run_has_is_refused_with_similar_paths() {
    let reported = refusal(|spec| spec["axes"][1]["paths"] = json!(["/phases/0/memtier/pipelin"]));
    assert_eq!(
        reported,
        "spec.axes[pipeline].paths[0]: a run has no field /phases/0/memtier/pipelin: \
         did you mean /phases/0/memtier/pipeline?"
    );
    let reported = refusal(|spec| spec["axes"][1]["paths"] = json!(["phases/0"]));
    assert!(reported.contains("is not a JSON pointer"), "{reported}");
    let reported = refusal(|spec| spec["axes"][1]["paths"] = json!(["/ttlAfterFinished"]));
    assert!(reported.contains("what the suite itself decides"), "{reported}");
}

#[test]
fn all_problems_are_reported_at_once() {
    let reported = refusal(|spec| {
        spec["axes"][0]["paths"] = json!(["/target/datastore/treads"]);
        spec["axes"][1]["values"] = json!([{"value": 1}, {"value": 1}, {}, {"value": {"a": 1}}]);
        spec["exclude"] = json!([{"values": {"pipelines": "1"}}]);
    });
    for part in [
        "did you mean /target/datastore/threads?",
        "spec.axes[pipeline].values \"1\" appears twice",
        "spec.axes[pipeline].values[2] changes nothing",
        "spec.axes[pipeline].values[3] needs a name",
        "there is no axis \"pipelines\"",
    ] {
        assert!(reported.contains(part), "{part:?} is missing: {reported}");
    }
}

#[test]
fn two_axes_that_change_the_same_are_refused() {
    let reported = refusal(|spec| spec["axes"][0]["paths"] = json!(["/phases/0/memtier/pipeline"]));
    assert!(
        reported.contains("spec.axes[threads].paths[0] and spec.axes[pipeline].paths[0] both change"),
        "{reported}"
    );
    let reported = refusal(|spec| spec["axes"][0]["paths"] = json!(["/phases/0/memtier"]));
    assert!(reported.contains("both change"), "one holds the other: {reported}");
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
fn an_axis_is_not_called_as_a_column_of_reports() {
    let called = |name: &str| json!([{"name": name, "paths": ["/phases/0/memtier/pipeline"], "values": [{"value": 1}]}]);
    for name in ["value", "phase", "variant", "note", "mean"] {
        let reported = refusal(|spec| spec["axes"] = called(name));
        assert!(
            reported.starts_with(&format!("spec.axes[{name}]: ")) && reported.contains("column"),
            "{reported}"
        );
    }
    assert!(expand(&with(|spec| spec["axes"] = called("value-size"))).is_ok());
}

#[test]
fn an_axis_that_overwrites_what_makes_variants_differ_is_refused() {
    let axis = |path: &str, value: Value| json!([{"name": "a", "paths": [path], "values": [{"name": "b", "value": value}]}]);
    let server = json!({"engine": "Redis", "threads": 2});
    for (path, value) in [("/target/datastore", server.clone()), ("/target", json!({"datastore": server}))] {
        let reported = refusal(|spec| spec["axes"] = axis(path, value));
        assert!(
            reported.contains("spec.variants[redis-7.0].target and spec.axes[a].paths[0] both change"),
            "{path}: {reported}"
        );
    }
    let reported = refusal(|spec| {
        spec["variants"][0]["patches"] = json!([{"path": "/phases/0/memtier/pipeline", "value": 5}]);
        spec["axes"] = axis("/phases/0/memtier", json!({"testTime": "2s"}));
    });
    assert!(reported.contains("spec.variants[redis-7.0].patches[0].path and spec.axes[a]"), "{reported}");
    let reported = refusal(|spec| {
        spec["axes"] = json!([
            {"name": "flags", "paths": ["/target/datastore/extraArgs/-"], "values": [{"value": "--a"}]},
            {"name": "all", "paths": ["/target/datastore/extraArgs"], "values": [{"name": "none", "value": []}]}
        ]);
    });
    assert!(
        reported.contains("spec.axes[flags].paths[0] and spec.axes[all].paths[0] both change"),
        "{reported}"
    );
    let deeper = with(|spec| {
        spec["variants"][0]["patches"] = json!([{"path": "/phases/0/memtier", "value": {"testTime": "2s"}}]);
    });
    assert_eq!(expand(&deeper).map(|it| it.runs.len()), Ok(16), "what is in it may well be varied");
}

#[test]
fn two_combinations_that_would_be_measured_alike_are_refused() {
    let reported = refusal(|spec| {
        spec["variants"] = json!([redis("7.0"), redis("8.0")]);
        spec["axes"] = json!([{"name": "version", "paths": ["/target/datastore/version"], "values": [{"value": "7.2"}]}]);
    });
    assert!(
        reported.starts_with("redis-7.0 version=7.2 and redis-8.0 version=7.2 are the same combination"),
        "{reported}"
    );
    let reported = refusal(|spec| {
        let value = |name: &str, field: &str, value: u32| json!({"name": name, "patches": [{"path": format!("/phases/0/memtier/{field}"), "value": value}]});
        let values = [value("plain", "pipeline", 1), value("usual", "threads", 4)];
        spec["axes"] = json!([{"name": "how", "values": values}]);
    });
    assert!(
        reported.contains("how=plain and redis-7.0 how=usual"),
        "both are what it is by default: {reported}"
    );
    let twins = with(|spec| {
        let again = |name: &str| json!({"name": name, "target": redis("7.0")["target"]});
        spec["variants"] = json!([again("a"), again("again")]);
    });
    assert!(expand(&twins).is_ok(), "how much equal servers differ is a question, too");
}

#[test]
fn a_threshold_on_a_phase_that_no_run_has_is_refused_before_the_first_run() {
    let threshold = |phase: &str| json!([{"metric": "P99Milliseconds", "phase": phase, "maximum": "5"}]);
    let reported = refusal(|spec| spec["thresholds"] = threshold("raed"));
    assert_eq!(
        reported,
        "spec.thresholds[0].phase: no run has a phase \"raed\": they have read; did you mean read?"
    );
    let patched = with(|spec| {
        spec["thresholds"] = threshold("again");
        let again = json!({"name": "again", "memtier": {"testTime": "2s"}});
        spec["variants"][0]["patches"] = json!([{"path": "/phases/-", "value": again}]);
    });
    assert!(expand(&patched).is_ok(), "a patch may add a phase");
}

#[test]
fn a_claim_compares_figures_that_are_measured_and_differ() {
    let claim = |own: Value, times: Value| {
        let mut threshold = json!({"metric": "OperationsPerSecond", "minimum": "2", "times": times});
        threshold.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        with(|spec| spec["thresholds"] = json!([threshold]))
    };
    let refused = |own, times| expand(&claim(own, times)).unwrap_err().to_string();
    assert!(expand(&claim(json!({"variant": "redis-8.0"}), json!({"variant": "redis-7.0"}))).is_ok());
    assert!(expand(&claim(json!({}), json!({"values": {"threads": "1"}}))).is_ok());
    let reported = refused(json!({"variant": "redis-9"}), json!({"variant": "redis-7.0"}));
    assert_eq!(
        reported,
        "spec.thresholds[0] is about nothing: there is no variant \"redis-9\"; there are redis-7.0, redis-8.0"
    );
    let reported = refused(json!({}), json!({"values": {"threads": "3"}}));
    assert!(
        reported.starts_with("spec.thresholds[0].times is about nothing: axis \"threads\""),
        "{reported}"
    );
    let reported = refused(json!({}), json!({"phase": "raed"}));
    assert!(
        reported.starts_with("spec.thresholds[0].times.phase: no run has a phase \"raed\""),
        "{reported}"
    );
    let reported = refused(json!({"variant": "redis-7.0"}), json!({"variant": "redis-7.0"}));
    assert!(reported.contains("names the same figures"), "{reported}");
    let mut excluded = claim(json!({"variant": "redis-8.0"}), json!({"variant": "redis-7.0"}));
    let exclusion = json!([{"variant": "redis-7.0", "values": {"threads": "1"}}]);
    excluded.spec.exclude = serde_json::from_value(exclusion).unwrap();
    let reported = expand(&excluded).unwrap_err().to_string();
    assert!(reported.contains("the counterpart of redis-8.0 threads=1 pipeline=1 is excluded"), "{reported}");
}

#[test]
fn what_the_runs_of_a_combination_are_given_has_a_digest() {
    let digests = |change: fn(&mut Value)| -> Vec<String> {
        let cells = plan(&with(change), &|_| Ok(())).unwrap().cells;
        cells.into_iter().map(|cell| cell.given_spec).collect()
    };
    let (before, after) =
        (digests(|_| ()), digests(|spec| spec["axes"][1]["values"][1]["value"] = json!(20)));
    assert_eq!(before[0], after[0], "a run with the same spec is the same");
    assert_ne!(before[1], after[1], "the value called deep is another one: its numbers must not mix");
    let reversed = digests(|spec| {
        let run = spec["run"].as_object_mut().unwrap();
        *run = std::mem::take(run).into_iter().rev().collect();
    });
    assert_eq!(before, reversed, "the order of fields says nothing");
    assert_eq!(before[0], "cd34e4acff07d6c8", "another version must not take its own runs for others");
}

#[test]
fn millions_of_combinations_are_refused_with_their_number_at_once() {
    let reported = refusal(|spec| {
        let values: Vec<Value> = (0..256).map(|value| json!({"value": value})).collect();
        spec["axes"] = (0..8)
            .map(|axis| json!({"name": format!("axis-{axis}"), "values": values, "paths": [format!("/phases/{axis}/memtier/pipeline")]}))
            .collect();
    });
    assert!(reported.contains("73786976294838206464 runs (2 variants x 256 of axis-0"), "{reported}");
    assert!(reported.contains("spec.maxRuns is 1000"), "{reported}");
    let reported = refusal(|spec| spec["maxRuns"] = json!(15));
    assert!(
        reported.starts_with("16 runs (2 variants x 2 of threads x 2 of pipeline x 2 repetitions)"),
        "{reported}"
    );
    let enough = with(|spec| {
        spec["maxRuns"] = json!(12);
        spec["exclude"] = json!([{"variant": "redis-7.0", "values": {"threads": "1"}}]);
    });
    assert_eq!(expand(&enough).unwrap().runs.len(), 12, "what is left out does not count");
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_the_runs_field() {
    let reported = refusal(|spec| spec["axes"][1]["values"][1]["value"] = json!("ten"));
    assert!(
        reported.contains("spec.phases[0].memtier.pipeline: is of type string: write a whole number"),
        "{reported}"
    );
    assert!(reported.contains("(and of 3 more)"), "each cause is reported once: {reported}");
}

#[test]
fn a_run_that_the_operator_would_refuse_is_refused_before_the_first_is_created() {
    let reported = refusal(|spec| spec["run"]["phases"][0]["memtier"]["extraArgs"] = json!(["--run-c=3"]));
    assert!(reported.contains("write options in full"), "{reported}");
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

#[test]
fn many_combinations_of_a_large_template_are_refused_before_they_are_rendered() {
    let mut declared = spec();
    declared["maxRuns"] = json!(10_000);
    declared["repetitions"] = json!(1);
    let values: Vec<Value> = (0..100).map(|value| json!({"value": value + 1})).collect();
    let paths = ["/phases/0/memtier/pipeline", "/phases/0/memtier/threads"];
    let axis = |(index, path): (usize, &&str)| json!({"name": format!("a{index}"), "paths": [path], "values": values});
    declared["axes"] = paths.iter().enumerate().map(axis).collect();
    declared["run"]["clients"] = json!({"pod": {"annotations": {"padding": "x".repeat(200_000)}}});
    let suite = suite_of(declared);
    let started = std::time::Instant::now();
    let refused = plan(&suite, &|_| panic!("a run was rendered")).unwrap_err().to_string();
    assert!(refused.contains("MiB, and 64 are rendered at most"), "{refused}");
    assert!(started.elapsed().as_secs() < 5, "it took {:?}", started.elapsed());
}

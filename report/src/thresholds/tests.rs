use super::*;
use crate::{
    build::tests::{invalid_run, suite},
    input::Entry,
};
use serde_json::{Value, json};

fn of(document: &Document, threshold: &Value) -> Vec<ThresholdStatus> {
    let thresholds: Vec<Threshold> = serde_json::from_value(json!([threshold])).unwrap();
    evaluate(&thresholds, document, &Vec::<Entry>::new())
}

fn missed(document: &Document, threshold: &Value) -> Vec<String> {
    of(document, threshold).into_iter().filter(|row| !row.met).map(|row| row.message).collect()
}

#[test]
fn each_combination_has_a_message_with_figure_and_limit() {
    let document = suite();
    let rows = of(&document, &json!({"metric": "P99Milliseconds", "maximum": "1.5"}));
    assert_eq!(rows.len(), 4, "one per combination");
    assert_eq!(
        missed(&document, &json!({"metric": "P99Milliseconds", "maximum": "1.5"})),
        [
            "redis-7 pipeline=10: read GET P99Milliseconds 2.002 is above maximum 1.5",
            "valkey-8 pipeline=10: read GET P99Milliseconds 2.002 is above maximum 1.5"
        ]
    );
}

#[test]
fn limits_apply_to_ratios_except_those_of_the_baseline_itself() {
    let document = suite();
    let threshold = json!({"metric": "OperationsPerSecond", "minimum": "1.1", "relativeTo": "Baseline"});
    let missed = missed(&document, &threshold);
    assert_eq!(missed.len(), 1, "the variant at pipeline 1 is 1.12 of the baseline: {missed:?}");
    assert!(
        missed[0].starts_with(
            "valkey-8 pipeline=10: read GET OperationsPerSecond relative to the baseline 1.002 is below"
        ),
        "{missed:?}"
    );
}

#[test]
fn with_only_significant_a_chance_difference_does_not_fail() {
    let document = suite();
    // The ratio at pipeline 1 is 1.12 with an interval of about 1.095 to 1.145.
    let threshold = |maximum: &str| json!({"metric": "OperationsPerSecond", "maximum": maximum, "relativeTo": "Baseline", "onlySignificant": true});
    assert!(missed(&document, &threshold("1.11")).is_empty());
    let rows = of(&document, &threshold("1.11"));
    assert!(rows[0].message.contains("is not significantly outside"), "{}", rows[0].message);
    assert_eq!(missed(&document, &threshold("1.05")).len(), 1);
}

#[test]
fn with_only_significant_a_comparison_without_an_interval_fails() {
    let mut document = suite();
    for found in document.rows.iter_mut().filter_map(|row| row.comparison.as_mut()) {
        found.interval_known = false;
        found.reason = "from a single measurement".to_owned();
    }
    let threshold = json!({"metric": "OperationsPerSecond", "minimum": "0.5", "relativeTo": "Baseline", "onlySignificant": true});
    let missed = missed(&document, &threshold);
    assert_eq!(missed.len(), 2, "{missed:?}");
    assert!(missed[0].ends_with("from a single measurement"), "{missed:?}");
}

#[test]
fn missing_and_invalid_figures_fail() {
    let document = suite();
    let none = missed(&document, &json!({"metric": "BytesPerKey", "minimum": "0"}));
    assert_eq!(none.len(), 4, "{none:?}");
    assert!(none[0].ends_with("BytesPerKey: not measured"), "{none:?}");
    let phase = missed(&document, &json!({"metric": "Errors", "phase": "write", "maximum": "0"}));
    assert_eq!(phase.len(), 4, "{phase:?}");
    let operation = missed(&document, &json!({"metric": "Errors", "operation": "SET", "maximum": "0"}));
    assert!(operation[0].ends_with("not measured for SET, only for GET"), "{operation:?}");
    let invalid = missed(&invalid_run(), &json!({"metric": "OperationsPerSecond", "minimum": "1"}));
    assert_eq!(invalid, ["read GET OperationsPerSecond: 1 of 3 measurements are Invalid"]);
    let nothing =
        missed(&invalid_run(), &json!({"metric": "HitRatio", "minimum": "0.5", "relativeTo": "Baseline"}));
    assert_eq!(nothing.len(), 1, "{nothing:?}");
}

#[test]
fn a_threshold_may_be_about_one_variant_at_some_values() {
    let document = suite();
    let cells = |threshold: Value| -> Vec<Option<String>> {
        of(&document, &threshold).into_iter().map(|row| row.cell).collect()
    };
    let of_valkey = json!({"metric": "P99Milliseconds", "maximum": "9", "variant": "valkey-8"});
    let valkey = ["valkey-8 pipeline=1", "valkey-8 pipeline=10"].map(|cell| Some(cell.to_owned()));
    assert_eq!(cells(of_valkey), valkey);
    let deep = json!({"metric": "P99Milliseconds", "maximum": "9", "values": {"pipeline": "10"}});
    let at_ten = ["redis-7 pipeline=10", "valkey-8 pipeline=10"].map(|cell| Some(cell.to_owned()));
    assert_eq!(cells(deep), at_ten);
    let gone = json!({"metric": "P99Milliseconds", "maximum": "9", "variant": "keydb"});
    assert_eq!(missed(&document, &gone), ["keydb: read TOTAL P99Milliseconds: not measured"]);
}

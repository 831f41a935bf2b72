//! What may change in a started suite, and when the policy checks its author's rights again.

use super::*;
use kube::{
    CustomResourceExt,
    core::cel::{AdmissionRequest, Validator, VapEvaluator, VapExpression},
};
use serde_json::json;

fn suite(more: Value) -> Value {
    let mut spec = json!({
        "variants": [{"name": "v", "target": {"datastoreRef": {"name": "redis"}}}], "run": {},
        "repetitions": 3, "order": "Interleaved", "seed": 0
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": "engines"}, "spec": spec})
}

/// What the rules of the object say, without those of its fields, which take a minute.
fn refusal(new: &Value, old: &Value) -> String {
    let schema = serde_json::to_value(&BenchmarkSuite::crd().spec.versions[0].schema).unwrap();
    let rules = &schema["openAPIV3Schema"]["x-kubernetes-validations"];
    let schema = json!({"type": "object", "x-kubernetes-validations": rules});
    format!("{:?}", Validator::new().validate(&schema, new, Some(old)).err())
}

#[test]
fn what_a_started_suite_measures_and_its_schedule_cannot_change() {
    let started = |more: Value| {
        let mut suite = suite(more);
        suite["status"] = json!({"startedAt": "2026-01-01T00:00:00Z"});
        suite
    };
    let plain = started(json!({}));
    for changed in [
        json!({"repetitions": 9}),
        json!({"axes": [{"name": "a", "values": [{"value": 1}]}]}),
        json!({"schedule": "0 3 * * *"}),
        json!({"schedule": "0 3 * * *", "repetitions": 9}),
    ] {
        let message = refusal(&started(changed.clone()), &plain);
        assert!(message.contains("the suite has started"), "{changed}: {message}");
    }
    let scheduled = started(json!({"schedule": "0 3 * * *"}));
    assert!(refusal(&plain, &scheduled).contains("the suite has started"), "the schedule was removed");
    for changed in [json!({"cancel": true}), json!({"maxRuns": 2}), json!({"thresholds": []})] {
        assert_eq!(refusal(&started(changed.clone()), &plain), "None", "{changed} was refused");
    }
    assert_eq!(refusal(&suite(json!({"repetitions": 9})), &suite(json!({}))), "None", "it has not started");
}

#[test]
fn a_baseline_names_something_and_only_one_earlier_suite() {
    let schema = serde_json::to_value(&BenchmarkSuite::crd().spec.versions[0].schema).unwrap();
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
    let rules = &spec["properties"]["baseline"]["x-kubernetes-validations"];
    let schema = json!({"type": "object", "x-kubernetes-validations": rules});
    let refusal =
        |baseline: &Value| format!("{:?}", Validator::new().validate(&schema, baseline, None).err());
    for admitted in [
        json!({"variant": "v"}),
        json!({"variant": "v", "above": true, "published": {"configMap": "theirs"}}),
        json!({"previous": true, "published": {"configMap": "theirs"}}),
        json!({"suite": "last-week", "previous": false}),
    ] {
        assert_eq!(refusal(&admitted), "None", "{admitted} was refused");
    }
    for nothing in [json!({}), json!({"previous": false, "above": false})] {
        assert!(refusal(&nothing).contains("at least one of variant"), "{}", refusal(&nothing));
    }
    let two = refusal(&json!({"suite": "last-week", "previous": true}));
    assert!(two.contains("leave baseline.suite out"), "{two}");
}

/// The condition of the chart's policy of suites with this name.
fn condition(name: &str) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/dragstrip/templates/policy.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let of_suites = text.split("resources: [benchmarksuites]").nth(1).unwrap();
    let after = of_suites.split(&format!("- name: {name}\n    expression: |-\n")).nth(1).unwrap();
    after.lines().take_while(|line| line.starts_with("      ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_policy_checks_rights_again_only_if_a_field_that_needs_them_changes() {
    let expression = condition("names-changed");
    let checked = |operation: &str, new: Value, old: Value| {
        let request = AdmissionRequest { operation: operation.to_owned(), ..AdmissionRequest::default() };
        let evaluator = VapEvaluator::builder().object(suite(new)).old_object(suite(old)).request(request);
        let results = evaluator.build().evaluate(&[VapExpression {
            expression: expression.clone(),
            message: None,
            message_expression: None,
        }]);
        results[0].passed
    };
    assert!(checked("CREATE", json!({}), json!({})));
    for (field, value) in [
        ("variants", json!([{"name": "w", "target": {}}])),
        ("run", json!({"phases": []})),
        ("axes", json!([{"name": "a", "values": [{"value": 1}]}])),
        ("exclude", json!([{"variant": "v"}])),
        ("baseline", json!({"published": {"configMap": "theirs", "key": "k"}})),
        ("schedule", json!("0 3 * * *")),
    ] {
        let with = json!({field: value});
        assert!(checked("UPDATE", with.clone(), json!({})), "{field} can name what needs a right");
        assert!(!checked("UPDATE", with.clone(), with), "{field} did not change");
    }
    for free in [json!({"cancel": true}), json!({"suspend": true}), json!({"parallelism": 2})] {
        assert!(!checked("UPDATE", free.clone(), json!({})), "{free} needs no right to a Secret");
    }
}

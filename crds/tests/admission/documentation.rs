//! `kubectl explain` names each field's default and form.

use crate::schema;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use serde_json::{Value, json};

/// Every field of both specs that is ours: Kubernetes' own types document themselves.
fn fields() -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    for (kind, spec) in [("datastore", schema::spec::<Datastore>()), ("run", schema::spec::<BenchmarkRun>())]
    {
        schema::walk(&spec, kind, &mut |path, schema| {
            let theirs =
                [".env.", ".tolerations.", ".resources.", ".affinity.", ".topologySpreadConstraints."]
                    .iter()
                    .any(|part| path.contains(part));
            if !theirs {
                fields.push((path.to_owned(), schema.clone()));
            }
        });
    }
    fields
}

fn description(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_default_is_named() {
    for (path, schema) in fields() {
        let default = match &schema["default"] {
            Value::Null | Value::Object(_) => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = description(&schema).to_lowercase();
        let default = default.to_lowercase();
        let named = [format!("default {default}"), format!("defaults to {default}")];
        assert!(
            named.iter().any(|one| text.contains(one)),
            "{path}: its description must name {default:?}: {text}"
        );
    }
}

#[test]
fn every_optional_field_says_what_holds_without_it_or_shows_how_it_is_written() {
    let said = ["default", "absent", "omitted", "such as", "instead", "when empty", "only", "needs"];
    let silent = |(_, schema): &(String, Value)| {
        let text = description(schema).to_lowercase();
        let optional = schema["nullable"] == json!(true) || schema["type"] == "array";
        optional && !said.iter().any(|word| text.contains(word))
    };
    let silent: Vec<String> = fields().into_iter().filter(silent).map(|(path, _)| path).collect();
    assert_eq!(silent, Vec::<String>::new(), "their descriptions say neither");
}

// A type with a schema of its own hides from the derived schema that it is an Option.
#[test]
fn no_field_is_required_that_may_be_omitted() {
    let specs = [
        ("datastore", schema::spec::<Datastore>()),
        ("run", schema::spec::<BenchmarkRun>()),
        ("suite", schema::spec::<BenchmarkSuite>()),
    ];
    let mut wrong = Vec::new();
    for (kind, spec) in specs {
        schema::walk(&spec, kind, &mut |path, schema| {
            for object in [schema, &schema["items"]] {
                let required = object["required"].as_array().into_iter().flatten();
                for name in required.filter_map(Value::as_str) {
                    if description(&object["properties"][name]).contains("if omitted") {
                        wrong.push(format!("{path}.{name}"));
                    }
                }
            }
        });
    }
    assert_eq!(wrong, Vec::<String>::new(), "the API server refuses objects without them");
}

#[test]
fn texts_with_a_form_show_an_example_and_never_a_regular_expression() {
    for (path, schema) in fields() {
        assert_eq!(schema["pattern"], Value::Null, "{path}: a pattern's message is a regular expression");
        let example = ["such as", "default", "r, s, g, p or z"]
            .iter()
            .any(|word| description(&schema).to_lowercase().contains(word));
        assert!(schema::pattern(&schema).is_none() || example, "{path}: {}", description(&schema));
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or_default();
            assert!(!message.contains("[0-9]") && !message.contains('^'), "{path}: {message}");
            assert!(
                !message.is_empty() || rule["messageExpression"].is_string(),
                "{path}: a rule has no message"
            );
        }
    }
}

#[test]
fn specs_have_no_floating_point_numbers() {
    for (path, schema) in fields() {
        assert_ne!(schema["type"], "number", "{path} is a floating-point number");
        assert_ne!(schema["items"]["type"], "number", "{path} holds floating-point numbers");
    }
}

#[test]
fn lists_that_are_merged_have_keys() {
    let statuses = [schema::of::<Datastore>(), schema::of::<BenchmarkRun>()];
    let keys = |schema: &Value, list: &str| {
        let mut found = None;
        schema::walk(schema, "", &mut |path, field| {
            if path == list {
                found = Some(field["x-kubernetes-list-map-keys"].clone());
            }
        });
        found.unwrap_or_else(|| panic!("there is no {list}"))
    };
    for (kind, list, expected) in [
        (0, ".status.conditions", json!(["type"])),
        (0, ".spec.custom.ports", json!(["name"])),
        (0, ".spec.env", json!(["name"])),
        (1, ".status.conditions", json!(["type"])),
        // With keys, the record of who wrote each field would be as large as the results.
        (0, ".status.members", Value::Null),
        (1, ".status.nodes", Value::Null),
        (1, ".status.phases", Value::Null),
        (1, ".status.phases.operations", Value::Null),
        (1, ".status.phases.repetitions", Value::Null),
        // Their order means something: equal in another order is not equal.
        (1, ".spec.phases", Value::Null),
    ] {
        assert_eq!(keys(&statuses[kind], list), expected, "{list}");
    }
}

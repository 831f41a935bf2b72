//! What the CRD's schema says of a spec: fields, types and ranges. Pure.

use crate::problem::Problem;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkSuite,
    near::{did_you_mean, near_or_all},
    units::{counted, whole},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn fields(schema: &JSONSchemaProps) -> impl Iterator<Item = &str> + Clone {
    schema.properties.iter().flatten().map(|(name, _)| name.as_str())
}

/// How to write what `schema` demands, where `value` has another type.
fn wrong_type(schema: &JSONSchemaProps, value: &Value) -> Option<String> {
    let found = type_of(value);
    if schema.x_kubernetes_int_or_string == Some(true) {
        return (!["integer", "string"].contains(&found))
            .then(|| format!("is of type {found}: write a whole number, or a text in quotes"));
    }
    let wanted = schema.type_.as_deref()?;
    if wanted == found || wanted == "number" && value.is_number() {
        return None;
    }
    // Durations, sizes and fractions have a rule, which says how they are written.
    let form = schema.x_kubernetes_validations.iter().flatten().find_map(|rule| rule.message.clone());
    let remedy = match (wanted, value) {
        (_, Value::Null) => "write a value, or leave the field out".to_owned(),
        ("string", Value::Number(_) | Value::Bool(_)) => {
            form.unwrap_or_else(|| "put it in quotes".to_owned())
        }
        ("integer", Value::String(text)) if text.parse::<i64>().is_ok() => "leave the quotes out".to_owned(),
        ("integer", _) => "write a whole number".to_owned(),
        ("number", _) => "write a number, without quotes".to_owned(),
        ("boolean", _) => "write true or false, without quotes".to_owned(),
        ("object", _) if schema.properties.is_some() => {
            format!("write its fields: {}", fields(schema).collect::<Vec<_>>().join(", "))
        }
        ("array", _) => "write a list, each item behind a dash".to_owned(),
        _ => format!("must be of type {wanted}"),
    };
    Some(format!("is of type {found}: {remedy}"))
}

fn broken_bound(schema: &JSONSchemaProps, value: &Value) -> Option<String> {
    let length = |length: usize| Some(length as f64);
    let integer = |bound: Option<i64>| bound.map(|bound| bound as f64);
    let (size, least, most, unit) = match value {
        Value::Number(number) => (number.as_f64(), schema.minimum, schema.maximum, ""),
        Value::String(text) => (
            length(text.chars().count()),
            integer(schema.min_length),
            integer(schema.max_length),
            "character",
        ),
        Value::Array(items) => {
            (length(items.len()), integer(schema.min_items), integer(schema.max_items), "item")
        }
        Value::Object(fields) => (length(fields.len()), None, integer(schema.max_properties), "field"),
        Value::Null | Value::Bool(_) => return None,
    };
    let size = size?;
    let bound = |words: &str, bound: f64| match unit {
        "" => format!("must be {words} {bound}"),
        unit => format!("must have {words} {}", counted(whole(bound), unit)),
    };
    match (least.filter(|least| size < *least), most.filter(|most| size > *most)) {
        (Some(least), _) => Some(bound("at least", least)),
        (None, Some(most)) => Some(bound("at most", most)),
        (None, None) => None,
    }
}

fn check_fields(
    schema: &JSONSchemaProps,
    object: &Map<String, Value>,
    field: &str,
    found: &mut Vec<Problem>,
) {
    let missing = schema.required.iter().flatten().filter(|name| !object.contains_key(*name));
    found.extend(missing.map(|name| Problem::new(field, format!("needs {name}"))));
    let open = schema.additional_properties.is_some()
        || schema.properties.is_none()
        || schema.x_kubernetes_preserve_unknown_fields == Some(true);
    for (name, value) in object {
        let at = format!("{field}.{name}");
        if let Some(below) = schema.properties.as_ref().and_then(|properties| properties.get(name)) {
            check_value(below, value, &at, found);
        } else if let Some(JSONSchemaPropsOrBool::Schema(below)) = &schema.additional_properties {
            check_value(below, value, &at, found);
        } else if !open {
            let message = format!("there is no such field{}", near_or_all(name, fields(schema)));
            found.push(Problem::new(at, message));
        }
    }
}

fn check_value(schema: &JSONSchemaProps, value: &Value, field: &str, found: &mut Vec<Problem>) {
    if value.is_null() && schema.nullable == Some(true) {
        return;
    }
    if let Some(message) = wrong_type(schema, value) {
        found.push(Problem::new(field, message));
        return;
    }
    let choices: Vec<&Value> = schema.enum_.iter().flatten().map(|choice| &choice.0).collect();
    if !choices.is_empty() && !choices.contains(&value) {
        let names: Vec<&str> = choices.into_iter().filter_map(Value::as_str).collect();
        let near = did_you_mean(value.as_str().unwrap_or_default(), names.iter().copied());
        found.push(Problem::new(field, format!("is {value}, and must be one of {}{near}", names.join(", "))));
    }
    found.extend(broken_bound(schema, value).map(|message| Problem::new(field, message)));
    match (value, &schema.items) {
        (Value::Object(fields), _) => check_fields(schema, fields, field, found),
        (Value::Array(items), Some(JSONSchemaPropsOrArray::Schema(below))) => {
            for (index, item) in items.iter().enumerate() {
                check_value(below, item, &format!("{field}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn schema_of<K: CustomResourceExt>() -> Option<JSONSchemaProps> {
    let version = K::crd().spec.versions.into_iter().next()?;
    version.schema?.open_api_v3_schema?.properties?.remove("spec")
}

fn check_with(schema: Option<&JSONSchemaProps>, spec: &Value) -> Vec<Problem> {
    let Some(schema) = schema else { return vec![Problem::new("spec", "its CRD has no schema")] };
    let mut found = Vec::new();
    check_value(schema, spec, "spec", &mut found);
    found
}

pub fn check<K: CustomResourceExt>(spec: &Value) -> Vec<Problem> {
    check_with(schema_of::<K>().as_ref(), spec)
}

pub fn check_run(spec: &Value) -> Vec<Problem> {
    // A suite may have thousands of runs, and its CRD takes longer to make than a spec to check.
    static RUN: LazyLock<Option<JSONSchemaProps>> = LazyLock::new(schema_of::<BenchmarkRun>);
    check_with(RUN.as_ref(), spec)
}

/// The same of a suite. Its templates lack the rules of a run, which say how a value is written.
pub fn check_suite(spec: &Value) -> Vec<Problem> {
    let mut found = check::<BenchmarkSuite>(spec);
    let of_run = check_run(&spec["run"]);
    let target = |variant: &Value| check_run(&json!({"target": variant["target"]}));
    let of_targets: Vec<_> = spec["variants"].as_array().into_iter().flatten().map(target).collect();
    for problem in &mut found {
        let places = of_targets
            .iter()
            .enumerate()
            .map(|(index, found)| (format!("spec.variants[{index}].target"), "spec.target", found));
        let same =
            places.chain([("spec.run".to_owned(), "spec", &of_run)]).find_map(|(place, its, found)| {
                let field = format!("{its}{}", problem.field.strip_prefix(&place)?);
                found.iter().find(|other| other.field == field)
            });
        if let Some(same) = same {
            problem.message.clone_from(&same.message);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::{BenchmarkRun, Datastore};
    use serde_json::json;

    #[test]
    fn an_unknown_field_is_reported_with_similar_ones() {
        let spec = json!({"engine": "Redis", "threads": 1, "thread": 2});
        let message = "there is no such field; did you mean threads?";
        assert_eq!(check::<Datastore>(&spec), [Problem::new("spec.thread", message)]);
        let spec = json!({"target": {"datastoreRef": {"name": "a"}}, "phases": [{"name": "read", "memtier": {"pipelines": 10}}]});
        let message = "there is no such field; did you mean pipeline?";
        assert_eq!(check::<BenchmarkRun>(&spec), [Problem::new("spec.phases[0].memtier.pipelines", message)]);
    }

    #[test]
    fn a_number_without_its_unit_is_reported_with_the_form() {
        let spec = json!({"target": {"datastoreRef": {"name": "a"}}, "timeout": 30,
            "phases": [{"name": "read", "minimumHitRatio": 0.99, "loadgen": {"duration": "5s"}}]});
        let found: Vec<String> = check::<BenchmarkRun>(&spec).iter().map(Problem::text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("spec.phases[0].minimumHitRatio: is of type number: write digits in quotes"),
            "{found:?}"
        );
        assert!(found[1].contains("such as 30s, 5m"), "{found:?}");
    }

    #[test]
    fn a_value_of_a_suite_is_reported_as_that_of_a_run() {
        let spec = json!({
            "variants": [{"name": "a", "target": {"datastore": {"engine": "Redis", "threads": 1, "maxMemory": 512}}}],
            "run": {"phases": [{"name": "read", "minimumHitRatio": 0.9, "loadgen": {"duration": 5}}]},
        });
        let found: Vec<String> = check_suite(&spec).iter().map(Problem::text).collect();
        for words in [
            "spec.run.phases[0].loadgen.duration: is of type integer: write hours, minutes",
            "spec.run.phases[0].minimumHitRatio: is of type number: write digits in quotes",
            "spec.variants[0].target.datastore.maxMemory: is of type integer: write a whole number with Ki",
        ] {
            assert!(found.iter().any(|text| text.starts_with(words)), "{words}: {found:#?}");
        }
    }

    #[test]
    fn a_wrong_value_is_reported_with_the_right_ones() {
        for (spec, field, words) in [
            (json!({"engine": "Reddis", "threads": 1}), "spec.engine", "did you mean Redis?"),
            (json!({"engine": "Redis", "threads": "two"}), "spec.threads", "write a whole number"),
            (json!({"engine": "Redis", "threads": 1.5}), "spec.threads", "write a whole number"),
            (json!({"engine": "Redis", "threads": "2"}), "spec.threads", "leave the quotes out"),
            (json!({"engine": "Redis", "threads": 1, "version": 8.2}), "spec.version", "put it in quotes"),
            (json!({"engine": "Redis", "threads": 1, "maxMemory": 512}), "spec.maxMemory", "such as 512Mi"),
            (
                json!({"engine": "Redis", "threads": 1, "cpu": "own"}),
                "spec.cpu",
                "write its fields: exclusive",
            ),
            (json!({"engine": "Redis", "threads": 1, "flush": true}), "spec.flush", "use authSecretRef, "),
            (json!({"engine": "Redis", "threads": 0}), "spec.threads", "must be at least 1"),
            (json!({"threads": 1}), "spec", "needs engine"),
        ] {
            let found = check::<Datastore>(&spec);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].field == field && found[0].message.contains(words), "{found:?}");
        }
    }
}

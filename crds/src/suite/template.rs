//! Parts of a BenchmarkRun's spec before patches are applied.
//!
//! They stay JSON: a patch may add what is missing here, so only the complete spec of each run can be
//! checked. So their schemas have the fields and types of a run's, which `kubectl explain` shows, but
//! not its rules and required fields.

use crate::run::{BenchmarkRunSpec, Target};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The spec of a BenchmarkRun without the fields that its suite sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunTemplate(pub Map<String, Value>);

/// The target of a BenchmarkRun.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetTemplate(pub Map<String, Value>);

/// Fields of a run's spec that its suite sets.
pub const DECIDED_BY_SUITE: [&str; 3] = ["target", "cancel", "ttlAfterFinished"];

/// Removes rules, required fields and defaults from `schema`, at every depth. The field that makes an
/// `alternative` of several stays required: any value would meet all of them, and oneOf refuses that.
fn remove_rules(schema: &mut Value, alternative: bool) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let required = name == "required" && value.is_array() && !alternative;
                // Keys of list items would be required fields.
                let list = name.starts_with("x-kubernetes-list-");
                name != "x-kubernetes-validations" && !list && !required
            });
            if fields.contains_key("type") || fields.contains_key("properties") {
                fields.remove("default");
            }
            for (name, value) in fields {
                match value.as_array_mut().filter(|_| name == "oneOf") {
                    Some(alternatives) => alternatives.iter_mut().for_each(|one| remove_rules(one, true)),
                    None => remove_rules(value, false),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_rules(item, false)),
        _ => {}
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator, left_out: &[&str], description: &str) -> Schema {
    let mut value = T::json_schema(generator).to_value();
    remove_rules(&mut value, false);
    if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !left_out.contains(&name.as_str()));
    }
    value["description"] = description.into();
    Schema::try_from(value).unwrap_or_default()
}

impl JsonSchema for RunTemplate {
    fn schema_name() -> Cow<'static, str> {
        "RunTemplate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = "How to measure each: the spec of a BenchmarkRun without target.";
        schema_of::<BenchmarkRunSpec>(generator, &DECIDED_BY_SUITE, description)
    }
}

impl JsonSchema for TargetTemplate {
    fn schema_name() -> Cow<'static, str> {
        "TargetTemplate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = "The run's target: datastore (created for each run), datastoreRef or external.";
        schema_of::<Target>(generator, &[], description)
    }
}

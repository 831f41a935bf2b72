//! The CEL rules of each kind, compiled once: compiling takes longer than everything else. Pure.

use dragstrip_core::problem::Problem;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::{
    CustomResourceExt,
    core::cel::{CompiledSchema, ValidationErrors, Validator, compile_schema},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

static RULES: LazyLock<BTreeMap<&str, CompiledSchema>> = LazyLock::new(|| {
    let all = [compiled::<Datastore>(), compiled::<BenchmarkRun>(), compiled::<BenchmarkSuite>()];
    all.into_iter().flatten().collect()
});

fn compiled<K: CustomResourceExt>() -> Option<(&'static str, CompiledSchema)> {
    let schema = K::crd().spec.versions.into_iter().next()?.schema?.open_api_v3_schema?;
    Some((K::crd_name(), compile_schema(&serde_json::to_value(schema).ok()?)))
}

/// What the API server would refuse in `object`, which is a `K`.
pub fn check<K: CustomResourceExt>(object: &Value) -> Vec<Problem> {
    let Some(rules) = RULES.get(K::crd_name()) else {
        return vec![Problem::new("", "its CRD has no rules")];
    };
    let broken = Validator::new().validate_compiled(rules, object, None);
    let broken = broken.err().map(ValidationErrors::into_vec).unwrap_or_default();
    let problem = |field: String, message: String| match value_at(object, &field) {
        Some(Value::String(text)) if !message.contains(text.as_str()) => {
            Problem::new(field, format!("{text:?}: {message}"))
        }
        _ => Problem::new(field, message),
    };
    broken.into_iter().map(|error| problem(error.field_path, error.message)).collect()
}

/// The value of a `field` such as spec.phases[0].name.
fn value_at<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.pointer(&format!("/{}", field.replace(['.', '['], "/").replace(']', "")))
}

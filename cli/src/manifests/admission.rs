//! The CEL rules of each kind, compiled once: compiling takes longer than everything else. Pure.

use super::problem::Problem;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::{
    CustomResourceExt,
    core::cel::{CompiledSchema, ValidationErrors, Validator, compile_schema},
};
use serde::Serialize;
use std::sync::LazyLock;

/// The rules of a kind; none if its CRD has no schema.
type Rules = LazyLock<Option<CompiledSchema>>;

static DATASTORE: Rules = LazyLock::new(compiled::<Datastore>);
static RUN: Rules = LazyLock::new(compiled::<BenchmarkRun>);
static SUITE: Rules = LazyLock::new(compiled::<BenchmarkSuite>);

fn compiled<K: CustomResourceExt>() -> Option<CompiledSchema> {
    let schema = K::crd().spec.versions.into_iter().next()?.schema?.open_api_v3_schema?;
    Some(compile_schema(&serde_json::to_value(schema).ok()?))
}

fn rules<K: CustomResourceExt>() -> Option<&'static CompiledSchema> {
    let name = K::crd_name();
    let rules = if name == Datastore::crd_name() {
        &DATASTORE
    } else if name == BenchmarkRun::crd_name() {
        &RUN
    } else {
        &SUITE
    };
    rules.as_ref()
}

/// What the API server would refuse of `object`.
pub fn check<K: CustomResourceExt + Serialize>(object: &K) -> Vec<Problem> {
    let Some(rules) = rules::<K>() else { return vec![Problem::new("", "its CRD has no rules")] };
    let object = match serde_json::to_value(object) {
        Ok(object) => object,
        Err(error) => return vec![Problem::new("", error.to_string())],
    };
    let broken = Validator::new().validate_compiled(rules, &object, None);
    let broken = broken.err().map(ValidationErrors::into_vec).unwrap_or_default();
    broken.into_iter().map(|error| Problem::new(error.field_path, error.message)).collect()
}

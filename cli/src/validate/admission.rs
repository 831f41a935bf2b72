//! The rules that the apiserver holds objects of each kind to, compiled once: `validate_cel`
//! compiles all of them for each object, which takes longer than all else. Pure.

use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::{
    CustomResourceExt,
    core::cel::{CompiledSchema, ValidationErrors, Validator, compile_schema},
};
use serde::Serialize;
use std::sync::LazyLock;

/// The rules of a kind; none where its CRD has no schema.
type Rules = LazyLock<Option<CompiledSchema>>;

static DATASTORE: Rules = LazyLock::new(compiled::<Datastore>);
static RUN: Rules = LazyLock::new(compiled::<BenchmarkRun>);
static SUITE: Rules = LazyLock::new(compiled::<BenchmarkSuite>);

/// A kind whose rules are compiled.
pub trait Ruled: Serialize {
    /// Its rules.
    fn rules() -> Option<&'static CompiledSchema>;
}

impl Ruled for Datastore {
    fn rules() -> Option<&'static CompiledSchema> {
        DATASTORE.as_ref()
    }
}

impl Ruled for BenchmarkRun {
    fn rules() -> Option<&'static CompiledSchema> {
        RUN.as_ref()
    }
}

impl Ruled for BenchmarkSuite {
    fn rules() -> Option<&'static CompiledSchema> {
        SUITE.as_ref()
    }
}

fn compiled<K: CustomResourceExt>() -> Option<CompiledSchema> {
    let versions = K::crd().spec.versions;
    let schema = versions.into_iter().next()?.schema?.open_api_v3_schema?;
    Some(compile_schema(&serde_json::to_value(schema).ok()?))
}

/// A rule that an object does not keep.
#[derive(Debug)]
pub struct BrokenRule {
    /// The field, as in spec.phases[0].name; empty for the whole object.
    pub path: String,
    /// The rule's words.
    pub message: String,
}

/// What the apiserver would refuse of `object`; where that cannot be known, this is what is told.
pub fn broken_rules<K: Ruled>(object: &K) -> Vec<BrokenRule> {
    let unknown = |why: String| vec![BrokenRule { path: String::new(), message: why }];
    let Some(rules) = K::rules() else { return unknown("the CRD's rules cannot be read".to_owned()) };
    let object = match serde_json::to_value(object) {
        Ok(object) => object,
        Err(error) => return unknown(error.to_string()),
    };
    let judged = Validator::new().validate_compiled(rules, &object, None);
    let broken = judged.err().map(ValidationErrors::into_vec).unwrap_or_default();
    broken.into_iter().map(|error| BrokenRule { path: error.field_path, message: error.message }).collect()
}

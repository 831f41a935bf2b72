//! What the apiserver says of a spec's shape: fields, types, ranges, patterns. The schema is
//! that of the CRD itself. Pure.

use boon::{Compiler, ErrorKind, Schemas, ValidationError};
use dragstrip_crds::near::did_you_mean;
use kube::CustomResourceExt;
use serde_json::{Value, json};

/// The schema cannot be used, which no manifest can help.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {kind} cannot be used: {message}")]
pub struct Error {
    kind: String,
    message: String,
}

/// Something that is wrong: where, by JSON pointer, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The field, by JSON pointer.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

/// The schema of a CRD's spec, in the words of JSON Schema.
fn spec_schema<K: CustomResourceExt>() -> Option<Value> {
    let crd = K::crd();
    let version = crd.spec.versions.first()?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let mut spec = serde_json::to_value(schema.properties.as_ref()?.get("spec")?).ok()?;
    plain(&mut spec);
    Some(spec)
}

/// Says in JSON Schema what Kubernetes says in its own words: null, numbers or texts, and
/// that a field that is not named is an unknown one.
fn plain(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let holds = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let (nullable, either) = (holds("nullable"), holds("x-kubernetes-int-or-string"));
    let any = holds("x-kubernetes-preserve-unknown-fields");
    if either {
        fields.remove("anyOf");
        fields.insert("type".into(), json!(["integer", "string"]));
    }
    if fields.contains_key("properties") && !fields.contains_key("additionalProperties") && !any {
        fields.insert("additionalProperties".into(), Value::Bool(false));
    }
    if nullable {
        if let Some(kind) = fields.get("type").and_then(Value::as_str).map(str::to_owned) {
            fields.insert("type".into(), json!([kind, "null"]));
        }
        if let Some(values) = fields.get_mut("enum").and_then(Value::as_array_mut) {
            values.push(Value::Null);
        }
    }
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(plain);
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(plain);
    for name in ["allOf", "anyOf", "oneOf"] {
        let of = fields.get_mut(name).and_then(Value::as_array_mut);
        // Parts of a schema name some of the fields only.
        of.into_iter().flatten().for_each(|part| {
            let closed = part.get("additionalProperties").is_some();
            plain(part);
            if let Some(part) = part.as_object_mut().filter(|_| !closed) {
                part.remove("additionalProperties");
            }
        });
    }
}

/// The fields that `schema` knows at `pointer`.
fn known<'a>(schema: &'a Value, pointer: &str) -> Vec<&'a str> {
    let mut at = schema;
    for part in pointer.split('/').skip(1) {
        let below = at.pointer(&format!("/properties/{part}"));
        let Some(below) = below.or_else(|| at.get("items")).or_else(|| at.get("additionalProperties")) else {
            return Vec::new();
        };
        at = below;
    }
    let properties = at.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)).collect()
}

fn one_of(values: &[Value]) -> Vec<&str> {
    values.iter().filter_map(Value::as_str).collect()
}

fn misfits(error: &ValidationError<'_, '_>, schema: &Value, spec: &Value, found: &mut Vec<Misfit>) {
    let pointer = error.instance_location.to_string();
    let mut tell = |pointer: String, message: String| found.push(Misfit { pointer, message });
    match &error.kind {
        ErrorKind::AdditionalProperties { got } => {
            let fields = known(schema, &pointer);
            for field in got {
                let near = did_you_mean(field, fields.iter().copied());
                tell(format!("{pointer}/{field}"), format!("there is no such field{near}"));
            }
        }
        ErrorKind::Required { want } => {
            tell(pointer, format!("needs {}", want.join(" and ")));
        }
        ErrorKind::Enum { want } => {
            let got = spec.pointer(&pointer).map(Value::to_string).unwrap_or_default();
            let near = did_you_mean(got.trim_matches('"'), one_of(want));
            tell(pointer, format!("is {got}, and must be one of {}{near}", one_of(want).join(", ")));
        }
        ErrorKind::Type { got, want } => {
            let want = want.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ");
            tell(pointer, format!("is of type {got}, and must be of type {want}"));
        }
        ErrorKind::Pattern { got, want } => {
            tell(pointer, format!("is {got:?}, which is not of the form that it must have: {want}"));
        }
        _ if error.causes.is_empty() => tell(pointer, error.kind.to_string()),
        _ => error.causes.iter().for_each(|cause| misfits(cause, schema, spec, found)),
    }
}

/// What the schema of `K` says against `spec`; pointers begin at the spec.
pub fn check<K: CustomResourceExt>(spec: &Value) -> Result<Vec<Misfit>, Error> {
    let failed = |message: String| Error { kind: K::crd().spec.names.kind, message };
    let schema = spec_schema::<K>().ok_or_else(|| failed("it has none".to_owned()))?;
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("spec.json", schema.clone()).map_err(|error| failed(error.to_string()))?;
    let index = compiler.compile("spec.json", &mut schemas).map_err(|error| failed(error.to_string()))?;
    let mut found = Vec::new();
    if let Err(error) = schemas.validate(spec, index) {
        misfits(&error, &schema, spec, &mut found);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::{BenchmarkRun, Datastore};

    fn told<K: CustomResourceExt>(spec: &Value) -> Vec<(String, String)> {
        let found = check::<K>(spec).unwrap();
        found.into_iter().map(|misfit| (misfit.pointer, misfit.message)).collect()
    }

    #[test]
    fn a_field_that_is_not_known_is_told_with_those_that_look_like_it() {
        let spec = json!({"engine": "Redis", "threads": 1, "thread": 2});
        assert_eq!(
            told::<Datastore>(&spec),
            [("/thread".to_owned(), "there is no such field; did you mean threads?".to_owned())]
        );
        let spec = json!({"target": {"datastoreRef": {"name": "a"}}, "phases": [{"name": "read", "memtier": {"pipelines": 10}}]});
        let told = told::<BenchmarkRun>(&spec);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, "/phases/0/memtier/pipelines");
        assert!(told[0].1.ends_with("did you mean pipeline?"), "{told:?}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_told_with_the_right_ones() {
        for (spec, pointer, words) in [
            (json!({"engine": "Reddis", "threads": 1}), "/engine", "did you mean Redis?"),
            (json!({"engine": "Redis", "threads": "two"}), "/threads", "must be of type"),
            (json!({"engine": "Redis", "threads": 0}), "/threads", "must be >=1"),
            (json!({"threads": 1}), "", "needs engine"),
        ] {
            let told = told::<Datastore>(&spec);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].0 == pointer && told[0].1.contains(words), "{told:?}");
        }
    }
}

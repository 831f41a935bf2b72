//! The fields of a BenchmarkRun's spec, and which of them a misspelt one may have meant. Pure.

use dragstrip_crds::{BenchmarkRun, near};
use dragstrip_report::distinct;
use jsonptr::Pointer;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::LazyLock;

/// The fields in the schema of a run's spec.
pub struct Fields(Value);

pub static OF_RUN: LazyLock<Fields> = LazyLock::new(Fields::of_run);

/// Names that are listed if none is near.
const LISTED: usize = 12;

const ANYTHING: &str = "x-kubernetes-preserve-unknown-fields";

/// `schema` without rules for values: it stays in memory.
fn known_fields(schema: &Value) -> Value {
    let below = |key: &str| match (key, schema.get(key)?) {
        ("properties", Value::Object(fields)) => {
            Some(fields.iter().map(|(name, field)| (name.clone(), known_fields(field))).collect())
        }
        (ANYTHING, anything) => Some(anything.clone()),
        (_, values) => Some(known_fields(values)),
    };
    let reported = ["properties", "items", "additionalProperties", ANYTHING];
    reported.iter().filter_map(|key| Some(((*key).to_owned(), below(key)?))).collect()
}

impl Fields {
    fn of_run() -> Self {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        let crd = serde_json::to_value(BenchmarkRun::crd()).unwrap_or_default();
        Self(crd.pointer(schema).map(known_fields).unwrap_or_default())
    }

    /// Checks that `path` may lead to a field; the error says which field it may have meant.
    pub fn find(&self, path: &Pointer) -> Result<(), String> {
        let (mut schema, mut above) = (&self.0, String::new());
        for token in path.tokens() {
            let name = token.decoded();
            if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
                let Some(field) = fields.get(name.as_ref()) else {
                    return Err(near(&name, &above, fields.keys().map(String::as_str).collect()));
                };
                schema = field;
            } else if let Some(items) = schema.get("items") {
                if name != "-" && name.parse::<usize>().is_err() {
                    return Err(format!(
                        "{above} is a list: name an item by its place from 0, or - to add one"
                    ));
                }
                schema = items;
            } else if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
                schema = values;
            } else if schema.get(ANYTHING) == Some(&Value::Bool(true)) {
                return Ok(());
            } else {
                return Err(format!("{above} has no fields"));
            }
            above = format!("{above}/{}", token.encoded());
        }
        Ok(())
    }
}

/// Which of the `fields` below the pointer `above` the misspelt `name` may mean.
fn near(name: &str, above: &str, mut fields: Vec<&str>) -> String {
    let wanted = name.to_lowercase();
    let begins = fields.iter().copied().filter(|field| field.to_lowercase().starts_with(&wanted));
    let close = distinct(near::near(name, fields.iter().copied()).into_iter().chain(begins));
    let close: Vec<String> = close.iter().take(3).map(|field| format!("{above}/{field}")).collect();
    if close.is_empty() {
        fields.sort_unstable();
        let more = if fields.len() > LISTED { ", ..." } else { "" };
        fields.truncate(LISTED);
        let above = if above.is_empty() { "/" } else { above };
        return format!("below {above} there are {}{more}", fields.join(", "));
    }
    format!("did you mean {}?", close.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(path: &str) -> String {
        OF_RUN.find(Pointer::parse(path).unwrap()).err().unwrap_or_default()
    }

    #[test]
    fn what_a_run_has_is_found_at_every_depth() {
        for path in [
            "/phases/0/memtier/pipeline",
            "/phases/-",
            "/target/datastore/threads",
            "/target/datastore/resources/limits/cpu",
            "/clients/pods",
            "/clients/pod/annotations/sidecar.istio.io~1inject",
        ] {
            assert_eq!(reported(path), "", "{path} is a field of a run");
        }
    }

    #[test]
    fn a_misspelt_field_is_refused_with_similar_fields_at_its_depth() {
        assert_eq!(reported("/phases/0/memtier/pipelin"), "did you mean /phases/0/memtier/pipeline?");
        assert_eq!(reported("/phases/0/memTier/pipeline"), "did you mean /phases/0/memtier?");
        assert!(reported("/phase/0").contains("/phases"), "{}", reported("/phase/0"));
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_existing_ones() {
        let far = reported("/target/xyz");
        assert_eq!(far, "below /target there are datastore, datastoreRef, external");
        assert!(
            reported("/phases/first/memtier").contains("/phases is a list"),
            "{}",
            reported("/phases/first")
        );
        assert_eq!(reported("/phases/0/memtier/pipeline/deep"), "/phases/0/memtier/pipeline has no fields");
    }
}

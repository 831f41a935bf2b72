//! The kinds: their schemas, the specs of the examples as seeds, and the words that each field has there.

use anyhow::{Context, Result};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::{CustomResourceExt, Resource};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Values that examples have in fields of this name, and the keys of its objects.
#[derive(Debug, Clone, Default)]
pub struct Words {
    values: BTreeMap<String, Vec<Value>>,
    keys: BTreeMap<String, BTreeSet<String>>,
}

impl Words {
    fn collect(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.keys.entry(name.to_owned()).or_default().extend(fields.keys().cloned());
                fields.iter().for_each(|(name, value)| self.collect(name, value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(name, item)),
            Value::Null => {}
            scalar => {
                let known = self.values.entry(name.to_owned()).or_default();
                if !known.contains(scalar) {
                    known.push(scalar.clone());
                }
            }
        }
    }

    /// Values of fields called `name` that `wanted` accepts.
    pub fn of(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.values.get(name).into_iter().flatten().filter(|value| wanted(value)).cloned().collect()
    }

    /// Keys of objects called `name`.
    pub fn keys(&self, name: &str) -> Vec<String> {
        self.keys.get(name).into_iter().flatten().cloned().collect()
    }
}

/// A kind of Dragstrip.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Its name, such as Datastore.
    pub name: String,
    /// Its path in the API, after the namespace.
    pub plural: String,
    /// The OpenAPI schema of its spec.
    pub schema: Value,
    /// Specs of the examples.
    pub seeds: Vec<Value>,
    /// Words for its fields.
    pub words: Words,
    /// Names of all fields in its schema.
    pub fields: BTreeSet<String>,
    /// The longest name that its objects may have.
    pub longest_name: usize,
}

fn fields_of(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            if let Some(Value::Object(properties)) = parts.get("properties") {
                found.extend(properties.keys().cloned());
            }
            parts.values().for_each(|part| fields_of(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields_of(part, found)),
        _ => {}
    }
}

fn kind<K: CustomResourceExt + Resource<DynamicType = ()>>(
    examples: &[Value],
    words: &Words,
    longest_name: usize,
) -> Result<Kind> {
    let definition = serde_json::to_value(K::crd())?;
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
    let schema = schema.context("a CRD without a schema")?.clone();
    let name = K::kind(&()).into_owned();
    let mut fields = BTreeSet::new();
    fields_of(&schema, &mut fields);
    let of_kind = examples.iter().filter(|example| example["kind"] == name.as_str());
    let seeds = of_kind.map(|example| example["spec"].clone()).collect();
    Ok(Kind {
        plural: K::plural(&()).into_owned(),
        name,
        schema,
        seeds,
        words: words.clone(),
        fields,
        longest_name,
    })
}

/// The documents of all YAML files in `folder`.
fn documents(folder: &Path) -> Result<Vec<Value>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for document in serde_yaml::Deserializer::from_str(&text) {
            found.push(Value::deserialize(document).with_context(|| format!("in {}", file.display()))?);
        }
    }
    Ok(found)
}

/// Every kind, with the project's examples as seeds.
pub fn kinds() -> Result<Vec<Kind>> {
    let examples = documents(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")))?;
    let mut words = Words::default();
    for example in &examples {
        words.collect("spec", &example["spec"]);
    }
    Ok(vec![
        kind::<Datastore>(&examples, &words, 45)?,
        kind::<BenchmarkRun>(&examples, &words, 33)?,
        kind::<BenchmarkSuite>(&examples, &words, 52)?,
    ])
}

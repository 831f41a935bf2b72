//! Random specs: those of the examples with some fields changed, and entirely random ones. Pure.

use crate::{
    kinds::{Kind, Words},
    values::{value, wrong},
};
use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A place in a spec: a field that exists, or one that its schema allows.
#[derive(Debug)]
struct Place<'a> {
    pointer: String,
    name: String,
    schema: &'a Value,
}

/// A change of one place.
#[derive(Debug, Clone)]
enum Edit {
    Remove,
    Put(Value),
    /// The last item of an array once more.
    Repeat,
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The places below `pointer`, where `found` stands.
fn collect<'a>(found: &Value, schema: &'a Value, pointer: &str, places: &mut Vec<Place<'a>>) {
    let mut add = |key: &str, name: &str, schema: &'a Value, value: Option<&Value>| {
        let pointer = format!("{pointer}/{}", escape(key));
        if let Some(value) = value {
            collect(value, schema, &pointer, places);
        }
        places.push(Place { pointer, name: name.to_owned(), schema });
    };
    let name = pointer.rsplit('/').find(|step| step.parse::<usize>().is_err()).unwrap_or_default();
    match found {
        Value::Object(fields) => {
            for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
                add(key, key, schema, fields.get(key));
            }
            if schema["additionalProperties"].is_object() {
                fields
                    .iter()
                    .for_each(|(key, value)| add(key, name, &schema["additionalProperties"], Some(value)));
            }
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| add(&index.to_string(), name, &schema["items"], Some(item)));
        }
        _ => {}
    }
}

/// The value at `pointer` and below is removed; whether there was one.
pub fn remove(spec: &mut Value, pointer: &str) -> bool {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return false };
    match spec.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&key.replace("~1", "/").replace("~0", "~")).is_some(),
        Some(Value::Array(items)) => {
            let index = key.parse().ok().filter(|index: &usize| *index < items.len());
            index.map(|index| items.remove(index)).is_some()
        }
        _ => false,
    }
}

fn put(spec: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = spec.pointer_mut(pointer) {
        *place = value;
    } else if let Some((parent, key)) = pointer.rsplit_once('/')
        && let Some(Value::Object(fields)) = spec.pointer_mut(parent)
    {
        fields.insert(key.replace("~1", "/").replace("~0", "~"), value);
    }
}

fn apply(mut spec: Value, pointer: &str, edit: Edit) -> Value {
    match edit {
        Edit::Remove => {
            remove(&mut spec, pointer);
        }
        Edit::Put(value) => put(&mut spec, pointer, value),
        Edit::Repeat => match spec.pointer_mut(pointer) {
            Some(Value::Array(items)) => items.extend(items.last().cloned()),
            _ => put(&mut spec, pointer, json!([])),
        },
    }
    spec
}

fn edit(place: &Place, words: &Words) -> BoxedStrategy<Edit> {
    prop_oneof![
        2 => Just(Edit::Remove),
        12 => value(place.schema, &place.name, words).prop_map(Edit::Put),
        3 => wrong().prop_map(Edit::Put),
        1 => Just(Edit::Repeat),
    ]
    .boxed()
}

/// The places of `spec`, which borrow their schemas: copies of a pod's schema would take minutes.
fn places<'a>(spec: &Value, kind: &'a Kind) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    collect(spec, &kind.schema, "", &mut places);
    places
}

/// `spec` with so many edits, one after the other.
fn edited(spec: Value, kind: &Arc<Kind>, edits: usize) -> BoxedStrategy<Value> {
    let count = places(&spec, kind).len();
    if edits == 0 || count == 0 {
        return Just(spec).boxed();
    }
    let kind = Arc::clone(kind);
    (0..count)
        .prop_flat_map(move |index| {
            let place = places(&spec, &kind).swap_remove(index);
            let (spec, kind, pointer) = (spec.clone(), Arc::clone(&kind), place.pointer.clone());
            edit(&place, &kind.words)
                .prop_flat_map(move |edit| edited(apply(spec.clone(), &pointer, edit), &kind, edits - 1))
        })
        .boxed()
}

/// Random specs of `kind`.
pub fn specification(kind: &Kind) -> BoxedStrategy<Value> {
    let from_seed = (select(kind.seeds.clone()), select(vec![0, 1, 1, 1, 2, 2, 3, 4]));
    let of_seed = Arc::new(kind.clone());
    prop_oneof![
        9 => from_seed.prop_flat_map(move |(seed, edits)| edited(seed, &of_seed, edits)),
        1 => value(&kind.schema, "spec", &kind.words),
    ]
    .boxed()
}

/// An object of `kind` before it has a namespace.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its number, which with the seed makes the same object again.
    pub number: u64,
    /// Name of the object: mostly a letter.
    pub name: String,
    /// Its spec.
    pub spec: Value,
}

/// Random case `number` of the `seed`.
pub fn case(strategy: &BoxedStrategy<Value>, kind: &Kind, seed: u64, number: u64) -> Result<Case, String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16] = u8::try_from(kind.longest_name).unwrap_or_default();
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let spec = strategy.new_tree(&mut runner).map_err(|reason| reason.to_string())?.current();
    let name = match number / 8 % 6 {
        0 => "x".repeat(kind.longest_name),
        1 => "1x".to_owned(),
        _ => "x".to_owned(),
    };
    Ok(Case { number, name, spec })
}

/// Smaller forms of `spec`: without each of its fields and items, the largest first.
pub fn smaller(spec: &Value) -> Vec<Value> {
    fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
        let mut add = |key: String, value: &Value| {
            let pointer = format!("{pointer}/{}", escape(&key));
            found.push(pointer.clone());
            pointers(value, &pointer, found);
        };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| add(key.clone(), value)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| add(index.to_string(), item));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    pointers(spec, "", &mut found);
    found.sort_by_key(|pointer| pointer.matches('/').count());
    let without = |pointer: &String| {
        let mut spec = spec.clone();
        remove(&mut spec, pointer).then_some(spec)
    };
    found.iter().filter_map(without).collect()
}

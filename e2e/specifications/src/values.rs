//! Random values by an OpenAPI schema: mostly as examples and bounds suggest, sometimes not. Pure.

use crate::kinds::Words;
use proptest::{collection, option, prelude::*, sample::select};
use serde_json::{Map, Value, json};

/// Texts that parsers, names and templates tend to read wrongly.
const TEXTS: [&str; 48] = [
    "",
    " ",
    "a",
    "A",
    "0",
    "-1",
    "1",
    "00",
    "1.5",
    "1e9",
    "NaN",
    "inf",
    "-inf",
    "true",
    "null",
    "~",
    "-",
    "_",
    ".",
    "..",
    "/",
    "/0",
    "/phases/-",
    "/phases/99",
    "/phases/0",
    "~2",
    "a/b",
    "../../etc",
    "a:b",
    ":6379",
    "a b",
    "a=b",
    "--port=1",
    "$(POD_NAME)",
    "$(NOWHERE)",
    "{{.}}",
    "%s",
    "\"",
    "\\",
    "\n",
    "\u{0}",
    "é",
    "日本語",
    "\u{202e}",
    "🏁",
    "10 s",
    "100Mb",
    "99999999999Ti",
];
/// Amounts and times with units, some of which exist.
const UNITS: [&str; 16] = [
    "1",
    "512",
    "1Mi",
    "1023Ki",
    "1.5Gi",
    "999Ti",
    "1Ei",
    "250m",
    "1e3",
    "-1Gi",
    "0",
    "0s",
    "1ms",
    "9999h",
    "1h1h",
    "10000000h",
];
/// Numbers at the limits of their types.
const LIMITS: [i64; 12] = [
    0,
    -1,
    1,
    255,
    65_536,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    i32::MIN as i64,
    1 << 53,
    (1 << 53) + 1,
    i64::MAX,
    i64::MIN,
];

fn text() -> BoxedStrategy<Value> {
    let long = (
        select(vec!["a", "A", "é", "\"", "/a", "-"]),
        select(vec![16_usize, 17, 63, 64, 65, 254, 1100, 5000]),
    );
    prop_oneof![
        8 => select(TEXTS.to_vec()).prop_map(Value::from),
        6 => select(UNITS.to_vec()).prop_map(Value::from),
        4 => long.prop_map(|(part, times)| Value::from(part.repeat(times))),
        1 => Just(Value::from("a".repeat(400_000))),
        2 => ".{0,12}".prop_map(Value::from),
        2 => "[a-z0-9.-]{1,20}".prop_map(Value::from),
    ]
    .boxed()
}

fn number() -> BoxedStrategy<Value> {
    let odd = vec![json!(0.5), json!(1e300), json!(-1e300), json!(1e19), json!(u64::MAX), json!(4.0)];
    prop_oneof![4 => select(LIMITS.to_vec()).prop_map(Value::from), 1 => select(odd)].boxed()
}

/// Any value that is mostly wrong for its field.
pub fn wrong() -> BoxedStrategy<Value> {
    let scalars =
        vec![Value::Null, json!(true), json!([]), json!({}), json!([[]]), json!({"": ""}), json!([null])];
    prop_oneof![3 => text(), 3 => number(), 2 => select(scalars)].boxed()
}

/// One of the words of this field, mostly, or a value of `other`.
fn mostly(words: Vec<Value>, other: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    if words.is_empty() { other } else { prop_oneof![3 => select(words), 1 => other].boxed() }
}

#[allow(clippy::cast_possible_truncation)]
fn bound(schema: &Value, name: &str) -> Option<i64> {
    schema[name].as_i64().or_else(|| schema[name].as_f64().map(|bound| bound as i64))
}

fn integer(schema: &Value, name: &str, words: &Words) -> BoxedStrategy<Value> {
    let least = bound(schema, "minimum").unwrap_or(-10);
    let most = bound(schema, "maximum").unwrap_or(100_000).max(least);
    let edges = vec![least, least.saturating_sub(1), most, most.saturating_add(1)];
    let any = prop_oneof![
        5 => (least..=most).prop_map(Value::from),
        4 => select(edges).prop_map(Value::from),
        1 => number(),
    ];
    mostly(words.of(name, Value::is_number), any.boxed())
}

fn array(schema: &Value, name: &str, words: &Words) -> BoxedStrategy<Value> {
    let least = usize::from(bound(schema, "minItems").is_some());
    let items = collection::vec(value(&schema["items"], name, words), least..=3);
    // Items with the same key, and an item twice.
    prop_oneof![
        6 => items.clone().prop_map(Value::Array),
        1 => items.prop_map(|items| Value::Array([items.clone(), items].concat())),
    ]
    .boxed()
}

fn object(schema: &Value, words: &Words) -> BoxedStrategy<Value> {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields: Vec<_> = properties
        .map(|(name, schema)| {
            let name = name.clone();
            let share = if required(&name) { 0.97 } else { 0.2 };
            option::weighted(share, value(schema, &name, words).prop_map(move |value| (name.clone(), value)))
        })
        .collect();
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect())).boxed()
}

fn map(schema: &Value, name: &str, words: &Words) -> BoxedStrategy<Value> {
    let known = words.keys(name);
    let odd = "[a-z]{1,5}(/[a-z]{1,5})?".prop_map(Value::from);
    let keys = mostly(known.into_iter().map(Value::from).collect(), prop_oneof![odd.boxed(), text()].boxed());
    let entries = collection::vec((keys, value(&schema["additionalProperties"], name, words)), 0..=3);
    let entry = |(key, value): (Value, Value)| (key.as_str().unwrap_or_default().to_owned(), value);
    entries
        .prop_map(move |entries| Value::Object(entries.into_iter().map(entry).collect::<Map<_, _>>()))
        .boxed()
}

/// A value for the field `name` with this schema.
pub fn value(schema: &Value, name: &str, words: &Words) -> BoxedStrategy<Value> {
    let strategy = if let Some(values) = schema["enum"].as_array() {
        prop_oneof![12 => select(values.clone()), 1 => text()].boxed()
    } else if schema["x-kubernetes-int-or-string"] == true {
        let amounts =
            vec!["1", "4", "500m", "1Gi", "64Mi", "2.5", "1e3", "0", "-1", "x", "", "9999999999999999999"];
        prop_oneof![4 => select(amounts).prop_map(Value::from), 1 => (0..100_i64).prop_map(Value::from), 1 => number()]
            .boxed()
    } else {
        match schema["type"].as_str() {
            Some("string") => mostly(words.of(name, Value::is_string), text()),
            Some("integer" | "number") => integer(schema, name, words),
            Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
            Some("array") => array(schema, name, words),
            Some("object") if schema["additionalProperties"].is_object() => map(schema, name, words),
            Some("object") if schema["properties"].is_object() => object(schema, words),
            _ => mostly(words.of(name, |_| true), wrong()),
        }
    };
    if schema["nullable"] == true {
        prop_oneof![30 => strategy, 1 => Just(Value::Null)].boxed()
    } else {
        strategy
    }
}

//! The CRDs' schemas, and objects made from them as the apiserver would admit them.

use kube::{CustomResourceExt, core::cel::Validator};
use proptest::{prelude::*, string::string_regex};
use serde_json::{Map, Value, json};

/// The whole schema of a kind.
pub fn of<K: CustomResourceExt>() -> Value {
    let versions = K::crd().spec.versions;
    serde_json::to_value(versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// The schema of a kind's spec.
pub fn spec<K: CustomResourceExt>() -> Value {
    of::<K>()["properties"]["spec"].clone()
}

/// What the rules of `schema` say against `value`, each as `path: message`.
pub fn refusals(schema: &Value, value: &Value) -> Vec<String> {
    let result = Validator::new().validate(schema, value, None);
    result
        .err()
        .into_iter()
        .flatten()
        .map(|error| format!("{}: {}", error.field_path, error.message))
        .collect()
}

/// The pattern in a rule of `schema`, if there is one.
pub fn pattern(schema: &Value) -> Option<String> {
    let rules = schema["x-kubernetes-validations"].as_array()?;
    rules.iter().find_map(|rule| {
        let text = rule["rule"].as_str()?.strip_prefix("self.matches('^")?;
        Some(text.split_once("$')")?.0.replace("\\\\", "\\"))
    })
}

/// Texts of which one is admitted wherever most random ones are not.
const EXAMPLES: [&str; 14] =
    ["/a", "a", "30s", "512Mi", "1", "1:10", "16-1024", "R:R", "R", "{queue%d}", "h:1", ",", "1ms", "Memory"];

fn text(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(known) = schema["enum"].as_array() {
        let known: Vec<Value> = known.iter().filter(|value| !value.is_null()).cloned().collect();
        return prop::sample::select(known).boxed();
    }
    let longest = usize::try_from(schema["maxLength"].as_u64().unwrap_or(40)).unwrap();
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap();
    let any = format!("[ -~]{{{least},{}}}", longest.min(40));
    let (generated, schema) = (pattern(schema).unwrap_or(any), schema.clone());
    let admitted = move |value: &Value| {
        let length = value.as_str().map_or(0, str::len);
        (least..=longest).contains(&length) && refusals(&schema, value).is_empty()
    };
    let example = EXAMPLES.iter().map(|text| json!(text)).find(&admitted).expect("an example of each form");
    string_regex(&generated)
        .unwrap()
        .prop_map(Value::from)
        .prop_map(move |value| if admitted(&value) { value } else { example.clone() })
        .boxed()
}

/// The smallest and the largest number admitted: the apiserver holds numbers to
/// their format's range.
fn bounds(schema: &Value) -> (i64, i64) {
    let (least, most) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    // Bounds are small enough to be exact.
    #[allow(clippy::cast_possible_truncation)]
    let bound = |name: &str, otherwise| schema[name].as_f64().map_or(otherwise, |value| value as i64);
    (bound("minimum", least), bound("maximum", most))
}

fn list(schema: &Value) -> BoxedStrategy<Value> {
    let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
    let most = usize::try_from(schema["maxItems"].as_u64().unwrap_or(3)).unwrap();
    prop::collection::vec(any(&schema["items"]), least..=most.min(least.max(3))).prop_map(Value::from).boxed()
}

/// The properties of which `schema`, or a rule of it, demands exactly one.
fn alternatives(schema: &Value) -> Vec<String> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let required = variants.filter_map(|variant| variant["required"][0].as_str());
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let one = rules.filter_map(|rule| rule["rule"].as_str()?.strip_suffix("].filter(x, x).size() == 1"));
    let one = one.filter(|rule| !rule.contains("&&"));
    let ruled =
        one.flat_map(|rule| rule.split("has(self.").skip(1)).filter_map(|rest| rest.split(')').next());
    required.chain(ruled).map(str::to_owned).collect()
}

/// `start` with exactly one of the properties `names`.
fn one_of(
    schema: &Value,
    names: &[String],
    start: &BoxedStrategy<Map<String, Value>>,
) -> BoxedStrategy<Map<String, Value>> {
    let one = |name: &String| {
        let (name, mut property) = (name.clone(), schema["properties"][name].clone());
        property["nullable"] = json!(false);
        (start.clone(), any(&property)).prop_map(move |(mut map, value)| {
            map.insert(name.clone(), value);
            map
        })
    };
    prop::strategy::Union::new(names.iter().map(one)).boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if schema["additionalProperties"].is_object() {
        return prop::collection::btree_map("[a-z]{1,8}", any(&schema["additionalProperties"]), 0..3)
            .prop_map(|map| json!(map))
            .boxed();
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let start = Just(Map::new()).boxed();
    let names = alternatives(schema);
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.retain(|name, _| !names.contains(name));
    let all = properties.into_iter().fold(start, |sum, (name, property)| {
        let some = any(&property).prop_map(Some);
        let value = if required.contains(&json!(name)) {
            some.boxed()
        } else {
            prop_oneof![1 => Just(None), 3 => some].boxed()
        };
        let insert = move |(mut map, value): (Map<String, Value>, Option<Value>)| {
            if let Some(value) = value {
                map.insert(name.clone(), value);
            }
            map
        };
        (sum, value).prop_map(insert).boxed()
    });
    let all = if names.is_empty() { all } else { one_of(schema, &names, &all) };
    all.prop_map(Value::from).boxed()
}

/// Values that `schema` admits, at its bounds and between them.
pub fn any(schema: &Value) -> BoxedStrategy<Value> {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return prop_oneof![(1..i64::MAX).prop_map(Value::from), Just(json!("1500m")), Just(json!("2Gi"))]
            .boxed();
    }
    let value = match schema["type"].as_str() {
        Some("string") => text(schema),
        Some("integer") => {
            let (least, most) = bounds(schema);
            prop_oneof![Just(least), Just(most), least..=most].prop_map(Value::from).boxed()
        }
        Some("boolean") => proptest::bool::ANY.prop_map(Value::from).boxed(),
        Some("array") => list(schema),
        Some("object") => object(schema),
        other => panic!("nothing is known of type {other:?}: {schema}"),
    };
    if schema["nullable"] == json!(true) {
        prop_oneof![1 => Just(Value::Null), 9 => value].boxed()
    } else {
        value
    }
}

/// Calls `look` with the path and schema of every field below `schema`.
pub fn walk(schema: &Value, path: &str, look: &mut impl FnMut(&str, &Value)) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        look(&path, property);
        walk(property, &path, look);
        walk(&property["items"], &path, look);
    }
}

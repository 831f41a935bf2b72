//! The state of a namespace without what differs between any two runs of a scenario, and the difference
//! of two states.

use anyhow::{Context, Result};
use dragstrip_bench_operator::cluster::Cluster;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The kinds that the operator and the controllers create, by their path and what is compared of them.
const KINDS: [(&str, &str); 10] = [
    ("/apis/dragstrip.dev/v1alpha1", "benchmarkruns"),
    ("/apis/dragstrip.dev/v1alpha1", "benchmarksuites"),
    ("/apis/dragstrip.dev/v1alpha1", "datastores"),
    ("/apis/batch/v1", "jobs"),
    ("/api/v1", "pods"),
    ("/api/v1", "configmaps"),
    ("/apis/coordination.k8s.io/v1", "leases"),
    ("/api/v1", "services"),
    ("/apis/apps/v1", "statefulsets"),
    ("/apis/policy/v1", "poddisruptionbudgets"),
];

/// Objects by kind and name.
pub type State = BTreeMap<String, Value>;

/// Replaces what is different in every run.
pub struct Masks(Vec<(Regex, &'static str)>);

impl Masks {
    /// The masks for objects of `namespace`.
    pub fn new(namespace: &str) -> Result<Self> {
        let masks = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            (r"\b1[0-9]{18}\b", "NANOSECONDS"),
            (r"\b127\.\d+\.\d+\.\d+\b", "ADDRESS"),
            // Either of two runs of a suite may be the first to choose its node.
            (r"-client-\d\b", "-client"),
            // The operator's public key.
            (r"[A-Za-z0-9+/]{43}=", "KEY"),
            // The alphabet of generated names and revisions has no vowels.
            (r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}\b", "-REVISION"),
            (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-SUFFIX"),
        ];
        let masks = masks.into_iter().map(|(pattern, mask)| Ok((Regex::new(pattern)?, mask)));
        let own = Regex::new(&regex::escape(namespace))?;
        Ok(Self(std::iter::once(Ok((own, "NAMESPACE"))).chain(masks).collect::<Result<_>>()?))
    }

    fn text(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (pattern, mask)| pattern.replace_all(&text, *mask).into_owned())
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let kept = fields.into_iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
                Value::Object(kept.map(|(name, value)| (self.text(&name), self.value(value))).collect())
            }
            other => other,
        }
    }
}

/// Fields that differ in every run and say nothing.
const VOLATILE: [&str; 11] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "clusterIP",
    "clusterIPs",
    "controller-uid",
    // When a server's memory was read, and which pod it is.
    "seconds",
    "identity",
    // The specification names the experiment's own nodes.
    "specHash",
    "dragstrip.dev/spec-hash",
    "dragstrip.dev/given-spec-hash",
];

/// The part of an object that matters: pods only have to exist, and packed results only have their annotations.
fn reduced(kind: &str, mut object: Value) -> Value {
    let Some(fields) = object.as_object_mut() else { return object };
    match kind {
        "pods" => fields.retain(|name, _| name == "metadata"),
        "configmaps" => {
            for name in ["data", "binaryData"] {
                if let Some(Value::Object(entries)) = fields.get_mut(name) {
                    let names: Map<_, _> = entries.keys().map(|key| (key.clone(), Value::Null)).collect();
                    fields.insert(name.to_owned(), Value::Object(names));
                }
            }
        }
        _ => {}
    }
    object
}

/// Objects that are in every namespace, or that the operator keeps for all runs.
fn permanent(kind: &str, name: &str) -> bool {
    kind == "configmaps" && name == "kube-root-ca.crt" || kind == "leases" && name == super::operator::LEASE
}

/// What exists in `namespace`.
pub async fn read(cluster: &Cluster, namespace: &str) -> Result<State> {
    let masks = Masks::new(namespace)?;
    let mut state = State::new();
    for (api, kind) in KINDS {
        let mut list = cluster.read(&format!("{api}/namespaces/{namespace}/{kind}")).await?;
        let items = list.get_mut("items").and_then(Value::as_array_mut).context("a list without items")?;
        for item in items.drain(..) {
            let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("").to_owned();
            if !permanent(kind, &name) {
                let key = masks.text(&format!("{kind} {name}"));
                state.insert(key, masks.value(reduced(kind, item)));
            }
        }
    }
    Ok(state)
}

fn differences_at(path: &str, expected: &Value, found: &Value, to: &mut Vec<String>) {
    match (expected, found) {
        _ if expected == found => {}
        (Value::Object(expected), Value::Object(found)) => {
            let names: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            for name in names {
                let (one, other) = (expected.get(name), found.get(name));
                differences_at(
                    &format!("{path}/{name}"),
                    one.unwrap_or(&Value::Null),
                    other.unwrap_or(&Value::Null),
                    to,
                );
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (one, other)) in expected.iter().zip(found).enumerate() {
                differences_at(&format!("{path}/{index}"), one, other, to);
            }
        }
        _ => to.push(format!("{path} is {}, not {}", short(found), short(expected))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(2000) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// How `found` differs from `expected`.
pub fn differences(expected: &State, found: &State) -> Vec<String> {
    let mut differences = Vec::new();
    for (key, object) in expected {
        match found.get(key) {
            Some(other) => differences_at(key, object, other, &mut differences),
            None => differences.push(format!("{key} is missing")),
        }
    }
    let more = found.keys().filter(|key| !expected.contains_key(*key));
    differences.extend(more.map(|key| format!("{key} is left over")));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(value: Value) -> Value {
        Masks::new("faults-7").map(|masks| masks.value(value)).unwrap_or_default()
    }

    #[test]
    fn what_differs_in_every_run_is_masked_and_nothing_else() {
        let object = json!({
            "metadata": {"uid": "x", "name": "sprint-read-1-0-x7k2p", "namespace": "faults-7"},
            "status": {"startedAt": "2026-01-01T00:00:00.123Z", "measured": 2},
        });
        let expected = json!({
            "metadata": {"name": "sprint-read-1-0-SUFFIX", "namespace": "NAMESPACE"},
            "status": {"startedAt": "TIME", "measured": 2},
        });
        assert_eq!(masked(object), expected);
    }

    #[test]
    fn a_difference_names_its_object_and_field() {
        let state =
            |measured: i32| State::from([("runs a".to_owned(), json!({"status": {"measured": measured}}))]);
        assert_eq!(differences(&state(2), &state(1)), ["runs a/status/measured is 1, not 2"]);
        assert_eq!(differences(&state(2), &State::new()), ["runs a is missing"]);
        assert_eq!(differences(&State::new(), &state(2)), ["runs a is left over"]);
    }
}

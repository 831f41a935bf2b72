//! Admission rules of Datastore, tried without a cluster.

use super::*;
use serde_json::{Value, json};

fn datastore(name: &str, spec: Value) -> Datastore {
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
        "metadata": {"name": name, "namespace": "races"}, "spec": spec
    }))
    .unwrap()
}

#[test]
fn a_plain_datastore_is_admitted_with_its_defaults() {
    let redis = datastore("redis", json!({"engine": "Redis", "threads": 4}));
    assert!(redis.validate_cel().is_ok(), "{:?}", redis.validate_cel());
    assert_eq!(redis.spec.port, 6379);
}

#[test]
fn io_uring_is_for_dragonfly() {
    let refusal = format!(
        "{:?}",
        datastore("redis", json!({"engine": "Redis", "threads": 4, "ioUring": "Require"})).validate_cel()
    );
    assert!(refusal.contains("ioUring is for engine Dragonfly only"), "{refusal}");
    let dragonfly = datastore("fly", json!({"engine": "Dragonfly", "threads": 4, "ioUring": "Require"}));
    assert!(dragonfly.validate_cel().is_ok());
}

#[test]
fn a_name_must_serve_as_a_service_name() {
    for bad in ["7-up", &"a".repeat(46), "Redis"] {
        let refusal =
            format!("{:?}", datastore(bad, json!({"engine": "Redis", "threads": 1})).validate_cel());
        assert!(refusal.contains("beginning with a letter"), "{bad:?} was admitted: {refusal}");
    }
}

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
fn the_fields_of_dragonfly_are_for_dragonfly() {
    let fields = json!({"emulatedCluster": true, "lockOnHashtags": true});
    admitted(json!({"engine": "Dragonfly", "threads": 2, "dragonfly": fields}));
    let refusal = refused(json!({"engine": "Valkey", "threads": 2, "dragonfly": fields}));
    assert!(refusal.contains("dragonfly is for engine Dragonfly only"), "{refusal}");
}

#[test]
fn a_name_must_serve_as_a_service_name() {
    for bad in ["7-up", &"a".repeat(46), "Redis"] {
        let refusal =
            format!("{:?}", datastore(bad, json!({"engine": "Redis", "threads": 1})).validate_cel());
        assert!(refusal.contains("beginning with a letter"), "{bad:?} was admitted: {refusal}");
    }
}

fn refused(spec: Value) -> String {
    format!("{:?}", datastore("racer", spec).validate_cel().err())
}

fn admitted(spec: Value) {
    let result = datastore("racer", spec.clone()).validate_cel();
    assert!(result.is_ok(), "{spec} was refused: {result:?}");
}

#[test]
fn clusters_are_of_redis_and_valkey() {
    for engine in ["Redis", "Valkey"] {
        admitted(json!({"engine": engine, "threads": 1, "cluster": {"shards": 8}}));
    }
    for engine in ["Dragonfly", "KeyDB", "Garnet"] {
        let refusal = refused(json!({"engine": engine, "threads": 1, "cluster": {"shards": 8}}));
        assert!(refusal.contains("cluster is for engines Redis and Valkey"), "{engine}: {refusal}");
    }
}

#[test]
fn a_cluster_on_one_node_is_the_default() {
    let spec = datastore("racer", json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 3}})).spec;
    assert_eq!(spec.cluster.unwrap().placement, ShardPlacement::OneNode);
}

#[test]
fn every_shard_has_room_for_its_bus_port() {
    let spec = |port: i32| json!({"engine": "Redis", "threads": 1, "port": port, "cluster": {"shards": 8}});
    admitted(spec(55528));
    let refusal = refused(spec(55529));
    assert!(refusal.contains("their bus ports are 10000 above"), "{refusal}");
}

#[test]
fn a_cluster_has_at_most_64_servers_with_its_replicas() {
    let spec =
        |shards: i32| json!({"engine": "Redis", "threads": 1, "cluster": {"shards": shards, "replicas": 1}});
    admitted(spec(32));
    let refusal = refused(spec(33));
    assert!(refusal.contains("at most 64 servers"), "{refusal}");
}

#[test]
fn a_cluster_stays_what_it_is() {
    let with =
        |cluster: Value| datastore("racer", json!({"engine": "Redis", "threads": 1, "cluster": cluster}));
    let without = datastore("racer", json!({"engine": "Redis", "threads": 1}));
    let (three, four) = (with(json!({"shards": 3})), with(json!({"shards": 4})));
    for (new, old) in [(&four, &three), (&without, &three), (&three, &without)] {
        let refusal = format!("{:?}", new.validate_cel_update(old).err());
        assert!(refusal.contains("cluster cannot be changed"), "{refusal}");
    }
    let mut threads = three.clone();
    threads.spec.threads = 2;
    assert!(threads.validate_cel_update(&three).is_ok(), "other fields may change");
}

#[test]
fn replicas_are_of_engines_that_have_them_and_not_of_clusters() {
    for engine in ["Redis", "Valkey", "KeyDB", "Dragonfly"] {
        admitted(json!({"engine": engine, "threads": 1, "replicas": 2}));
    }
    let refusal = refused(json!({"engine": "Garnet", "threads": 1, "replicas": 1}));
    assert!(refusal.contains("replicas are for engines"), "{refusal}");
    let both = json!({"engine": "Redis", "threads": 1, "replicas": 1, "cluster": {"shards": 3}});
    assert!(refused(both).contains("set cluster.replicas for those of each shard"));
}

#[test]
fn garnet_has_no_encryption() {
    admitted(json!({"engine": "Redis", "threads": 1, "tls": {"secretName": "pit-tls"}}));
    let refusal = refused(json!({"engine": "Garnet", "threads": 1, "tls": {"secretName": "pit-tls"}}));
    assert!(refusal.contains("tls is for engines"), "{refusal}");
}

#[test]
fn a_custom_server_is_described_and_has_an_image() {
    let custom = json!({"command": ["/etcd"], "members": 3, "ports": [{"name": "peer", "port": 2380}]});
    admitted(json!({"engine": "Custom", "threads": 1, "port": 2379, "image": "etcd:3.6", "custom": custom}));
    let no_image = refused(json!({"engine": "Custom", "threads": 1, "custom": custom}));
    assert!(no_image.contains("engine Custom needs an image"), "{no_image}");
    let undescribed = refused(json!({"engine": "Custom", "threads": 1, "image": "etcd:3.6"}));
    assert!(undescribed.contains("custom describes engine Custom"), "{undescribed}");
    let redis = refused(json!({"engine": "Redis", "threads": 1, "custom": custom}));
    assert!(redis.contains("other engines must not have it"), "{redis}");
}

#[test]
fn a_custom_server_is_one_unprivileged_member_that_speaks_anything() {
    let spec = datastore("racer", json!({"engine": "Custom", "threads": 1, "image": "i", "custom": {}})).spec;
    let custom = spec.custom.unwrap();
    assert_eq!((custom.members, custom.user, custom.protocol), (1, 65532, ServerProtocol::Tcp));
}

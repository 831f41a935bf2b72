//! What the operator refuses itself where the apiserver cannot.

use super::*;
use serde_json::{Value, json};

/// The chart's defaults, and what a strict platform team sets.
fn policy(own: Value) -> Policy {
    let mut values = json!({
        "heldByApiserver": false, "secrets": {"names": []}, "images": [], "tolerations": ["*"],
        "hostNetwork": false, "serviceAccounts": [], "priorityClasses": [],
        "external": {
            "blockedNetworks": ["127.0.0.0/8", "169.254.0.0/16", "::/127", "fe80::/10", "fd00:ec2::254/128"],
            "blockedHosts": ["localhost", "metadata.google.internal"], "allowFlush": true
        },
        "limits": {"pods": 256, "repetitions": 99}
    });
    values.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    serde_json::from_value(values).unwrap()
}

fn datastore(own: Value) -> DatastoreSpec {
    let mut spec = json!({"engine": "Redis", "threads": 1});
    spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn run(own: Value) -> BenchmarkRunSpec {
    let mut spec = json!({
        "target": {"datastoreRef": {"name": "redis"}}, "phases": [{"name": "read", "loadgen": {"duration": "1s"}}]
    });
    spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn at(address: &str) -> BenchmarkRunSpec {
    run(json!({"target": {"external": {"address": address}}}))
}

#[test]
fn an_external_address_that_leads_to_the_node_or_to_metadata_is_refused_in_every_spelling() {
    let policy = policy(json!({}));
    for allowed in
        ["10.0.0.7:6379", "redis.example.com:6379", "[fd00::7]:6379", "notlocalhost:1", "racer.pits.svc:1"]
    {
        assert_eq!(policy.check_run(&at(allowed)), Ok(()), "{allowed}");
    }
    for blocked in [
        "169.254.169.254:80",
        "127.0.0.1:6379",
        "[::1]:6379",
        "[fe80::1]:80",
        "[fd00:ec2::254]:80",
        "metadata.google.internal:80",
        "METADATA.google.internal.:80",
        "a.localhost:1",
    ] {
        assert!(matches!(policy.check_run(&at(blocked)), Err(Forbidden::Address(_))), "{blocked}");
    }
    for strange in [
        "2852039166:80",
        "0xA9FEA9FE:80",
        "0251.0376.0251.0376:80",
        "169.254.43518:80",
        "[::ffff:a9fe:a9fe]:80",
        "[::ffff:169.254.169.254]:80",
    ] {
        assert!(matches!(policy.check_run(&at(strange)), Err(Forbidden::Form(_))), "{strange}");
    }
}

#[test]
fn what_gives_a_pod_more_rights_is_refused_unless_it_is_allowed() {
    for (settings, allowed) in [
        (json!({"hostNetwork": true}), json!({"hostNetwork": true})),
        (json!({"serviceAccountName": "admin"}), json!({"serviceAccounts": ["admin"]})),
        (json!({"priorityClassName": "first"}), json!({"priorityClasses": ["*"]})),
    ] {
        let server = datastore(json!({"pod": settings}));
        let clients = run(json!({"clients": {"pod": settings}}));
        assert!(policy(json!({})).check_datastore(&server).is_err(), "{settings}");
        assert!(policy(json!({})).check_run(&clients).is_err(), "{settings}");
        assert_eq!(policy(allowed.clone()).check_datastore(&server), Ok(()), "{allowed}");
        assert_eq!(policy(allowed).check_run(&clients), Ok(()));
    }
}

#[test]
fn every_place_that_names_a_secret_is_looked_at() {
    let policy = policy(json!({"secrets": {"names": ["bench-*", "shared"]}}));
    let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "k"}}}]);
    let servers = [
        json!({"authSecretRef": {"name": "hidden"}}),
        json!({"tls": {"secretName": "hidden"}}),
        json!({"tls": {"secretName": "shared", "clientSecretName": "hidden"}}),
        json!({"env": env}),
        json!({"pod": {"imagePullSecrets": [{"name": "hidden"}]}}),
    ];
    let exec = json!({"image": "redis:8", "command": ["x"], "parser": {"goBench": {}}, "env": env});
    let mut runs = vec![
        run(json!({"clients": {"pod": {"imagePullSecrets": [{"name": "hidden"}]}}})),
        run(json!({"phases": [{"name": "x", "exec": exec}]})),
    ];
    for external in [
        json!({"authSecretRef": {"name": "hidden"}}),
        json!({"tls": {"caSecretName": "hidden"}}),
        json!({"tls": {"clientSecretName": "hidden"}}),
    ] {
        let mut external = external;
        external["address"] = json!("10.0.0.7:6379");
        runs.push(run(json!({"target": {"external": external}})));
    }
    let hidden = Err(Forbidden::Secret("hidden".into()));
    for server in servers {
        assert_eq!(policy.check_datastore(&datastore(server.clone())), hidden, "{server}");
        let mut inline = server.clone();
        inline["engine"] = json!("Redis");
        inline["threads"] = json!(1);
        runs.push(run(json!({"target": {"datastore": inline}})));
    }
    for run in runs {
        assert_eq!(policy.check_run(&run), hidden, "{run:?}");
    }
    let allowed = datastore(json!({"authSecretRef": {"name": "bench-a"}, "tls": {"secretName": "shared"}}));
    assert_eq!(policy.check_datastore(&allowed), Ok(()));
}

#[test]
fn images_are_of_the_repositories_that_are_allowed() {
    let policy = policy(json!({"images": ["good.example.com/team", "mirror.example.com/"]}));
    let of = |image: &str| policy.check_datastore(&datastore(json!({"image": image})));
    for allowed in
        ["good.example.com/team/redis:8", "good.example.com/team:1", "mirror.example.com/a/b@sha256:0"]
    {
        assert_eq!(of(allowed), Ok(()), "{allowed}");
    }
    for refused in
        ["redis:8", "good.example.com/team-evil/redis:8", "evil.example.com/good.example.com/team/x"]
    {
        assert!(of(refused).is_err(), "{refused}");
    }
    let tools = json!([{"name": "x", "memtier": {"image": "evil/memtier", "testTime": "1s"}}]);
    assert!(policy.check_run(&run(json!({"phases": tools}))).is_err());
    assert_eq!(policy.check_datastore(&datastore(json!({}))), Ok(()), "the engine's own image");
}

#[test]
fn tolerations_flushes_and_limits_are_those_of_the_platform_team() {
    let strict = policy(json!({
        "tolerations": ["dedicated"], "limits": {"pods": 4, "repetitions": 2, "timeout": "1h"},
        "external": {"allowFlush": false}
    }));
    let tolerating = |toleration: Value| datastore(json!({"placement": {"tolerations": [toleration]}}));
    assert_eq!(
        strict.check_datastore(&tolerating(json!({"key": "dedicated", "operator": "Exists"}))),
        Ok(())
    );
    assert!(strict.check_datastore(&tolerating(json!({"operator": "Exists"}))).is_err(), "every taint");
    let search = json!({"raise": "Pods", "to": 8, "until": {"gain": "0.1"}});
    for (refused, expected) in [
        (json!({"clients": {"pods": 5}}), Forbidden::Pods(4)),
        (
            json!({"phases": [{"name": "k", "loadgen": {"duration": "1s"}, "search": search}]}),
            Forbidden::Pods(4),
        ),
        (json!({"repetitions": 3}), Forbidden::Repetitions(2)),
        (json!({"timeout": "61m"}), Forbidden::Timeout(3600)),
        (json!({"target": {"external": {"address": "10.0.0.7:1", "allowFlush": true}}}), Forbidden::Flush),
    ] {
        assert_eq!(strict.check_run(&run(refused.clone())), Err(expected), "{refused}");
        assert_eq!(policy(json!({})).check_run(&run(refused.clone())), Ok(()), "{refused}");
    }
}

#[test]
fn what_the_apiserver_refuses_is_not_the_operators_to_refuse() {
    let held = policy(json!({"heldByApiserver": true}));
    assert_eq!(held.check_run(&at("169.254.169.254:80")), Ok(()));
    assert_eq!(held.check_datastore(&datastore(json!({"pod": {"hostNetwork": true}}))), Ok(()));
}

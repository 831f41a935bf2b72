use super::*;
use crate::fixtures::truth;
use dragstrip_crds::observed::{HostTruth, ServerTruth};
use serde_json::json;

fn status() -> DatastoreStatus {
    let member = |index: u16| {
        json!({
            "pod": format!("dragstrip-shop-{index}"), "address": format!("10.0.0.{index}:6379"),
            "role": "shard", "node": format!("node-{}", 9 - index), "runId": format!("old-{index}")
        })
    };
    serde_json::from_value(json!({
        "endpoint": "shop.races.svc:6379", "pod": "dragstrip-shop-0", "members": [member(0), member(1)]
    }))
    .unwrap()
}

fn datastore(spec: serde_json::Value) -> Datastore {
    let mut datastore = Datastore::new("shop", serde_json::from_value(spec).unwrap());
    datastore.metadata.generation = Some(1);
    datastore
}

fn key() -> DatastoreKey {
    DatastoreKey { namespace: "races".into(), name: "shop".into() }
}

/// The Datastore's pods, both ready, on two nodes.
fn pods() -> Vec<Arc<Pod>> {
    let pod = |index: u16| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": format!("dragstrip-shop-{index}")},
            "spec": {"nodeName": format!("node-{}", 9 - index), "containers": []},
            "status": {
                "podIP": format!("10.0.0.{index}"), "conditions": [{"type": "Ready", "status": "True"}],
                "initContainerStatuses": [{
                    "name": "observer", "image": "", "imageID": "", "ready": true, "restartCount": 0, "started": true
                }]
            }
        }))
        .unwrap()
    };
    vec![Arc::new(pod(0)), Arc::new(pod(1))]
}

/// The target by the Datastore's status alone.
fn found(spec: serde_json::Value) -> ReadyTarget {
    ready_one(ready(&datastore(spec), &status(), &key(), pods().iter(), Some(1), false))
}

/// The same with the answers of its servers.
fn queried(spec: serde_json::Value, observation: Observation) -> TargetState {
    answered(&datastore(spec.clone()), &status(), found(spec), observation, false)
}

fn observation(cluster: bool, shards: &[&str]) -> Observation {
    let truth = |run_id: &&str| ServerTruth {
        engine: Some(dragstrip_crds::Engine::Redis),
        run_id: (*run_id).to_owned(),
        cluster_enabled: cluster,
        ..truth()
    };
    Observation {
        server: truth(&"seen-0"),
        host: HostTruth { kernel: "6.1".into(), cpu_model: "x".into(), cpus: 2 },
        cgroup: None,
        shards: shards.iter().map(truth).collect(),
    }
}

fn ready_one(state: TargetState) -> ReadyTarget {
    match state {
        TargetState::Ready(target) => *target,
        other => panic!("the target is not ready: {other:?}"),
    }
}

#[test]
fn a_cluster_has_all_its_members_with_the_processes_that_run_now() {
    let spec = json!({"engine": "Redis", "threads": 1, "cluster": {"shards": 3}});
    let find = |shards: &[&str]| ready_one(queried(spec.clone(), observation(true, shards)));
    let one_pod = find(&["seen-0", "seen-1"]);
    let ids =
        |target: &ReadyTarget| target.members.iter().map(|m| m.run_id.clone().unwrap()).collect::<Vec<_>>();
    assert!(one_pod.connection.cluster);
    assert_eq!(ids(&one_pod), ["seen-0", "seen-1"], "one observer sees all shards");
    let spread = find(&[]);
    assert_eq!(ids(&spread), ["old-0", "old-1"], "each was verified by its own observer");
    assert_eq!(spread.members[1].host, "10.0.0.1");
    assert_eq!(spread.observers, ["10.0.0.0:9180", "10.0.0.1:9180"].map(|address| address.parse().unwrap()));
    assert_eq!(spread.nodes, ["node-8", "node-9"], "the nodes of all, sorted and each once");
}

#[test]
fn a_shard_that_is_not_as_declared_stops_the_run() {
    let spec = json!({"engine": "Redis", "threads": 1});
    let mut seen = observation(false, &["a", "b"]);
    seen.shards[1].threads = Some(4);
    let state = queried(spec, seen);
    let TargetState::Disagrees(message) = state else { panic!("{state:?}") };
    assert!(message.contains("threads: declared 1, the server runs 4"), "{message}");
}

#[test]
fn certificates_are_for_the_datastores_name() {
    let spec = json!({"engine": "Redis", "threads": 1, "tls": {"secretName": "pit-tls"}});
    let target = ready_one(queried(spec, observation(false, &[])));
    let tls = target.connection.tls.unwrap();
    assert_eq!(tls.job.server_name.as_deref(), Some("shop.races.svc"));
    assert_eq!((tls.authority_secret.as_deref(), tls.client_secret), (Some("pit-tls"), None));
}

#[test]
fn a_server_without_resp_is_ready_without_a_query() {
    let spec = json!({"engine": "Custom", "image": "etcd:1", "threads": 1, "custom": {"members": 2}});
    let target = found(spec);
    assert!(target.questioned);
    assert_eq!(
        (target.connection.protocol, target.truth, target.members.len()),
        (ServerProtocol::Tcp, None, 2)
    );
    let observers = ["10.0.0.0:9180", "10.0.0.1:9180"].map(|address| address.parse().unwrap());
    assert_eq!(target.observers, observers, "they report what it uses");
}

#[test]
fn a_pod_without_an_observer_is_left_out() {
    let mut pods = pods();
    Arc::make_mut(&mut pods[1]).status.as_mut().unwrap().init_container_statuses = None;
    assert_eq!(observers(pods.iter()), ["10.0.0.0:9180".parse().unwrap()]);
}

#[test]
fn a_datastore_is_found_without_a_query_and_identified_by_its_answers() {
    let spec = json!({"engine": "Redis", "threads": 1});
    let before = found(spec.clone());
    assert_eq!((before.questioned, &before.truth), (false, &None));
    let identity = |process: &str| {
        let mut seen = observation(false, &[]);
        seen.server.run_id = process.into();
        ready_one(queried(spec.clone(), seen)).identity.unwrap()
    };
    assert_eq!(identity("a"), identity("a"));
    assert!(identity("a").change_to(&identity("b")).unwrap().contains("at first a, now b"));
}

#[test]
fn the_datastore_of_an_earlier_run_is_awaited_and_a_strangers_is_reported() {
    let mut other = datastore(json!({"engine": "Redis", "threads": 1}));
    assert!(matches!(super::taken(&other), TargetState::NameTaken(_)));
    other.metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "name": "shop", "uid": "old"}
    ]))
    .unwrap();
    assert!(matches!(super::taken(&other), TargetState::NotReady { .. }));
}

#[test]
fn a_change_that_waits_for_the_run_is_not_a_disagreement() {
    let mut edited = datastore(json!({"engine": "Redis", "threads": 4}));
    edited.metadata.generation = Some(2);
    let before = found(json!({"engine": "Redis", "threads": 1}));
    let state = answered(&edited, &status(), before, observation(false, &[]), false);
    assert!(matches!(state, TargetState::Ready(_)), "{state:?}");
}

#[test]
fn a_corrected_declaration_replaces_the_runs_own_datastore() {
    let declaring = |threads: i32| {
        let mut run = crate::fixtures::run(&["read"], 1);
        run.spec.target =
            serde_json::from_value(json!({"datastore": {"engine": "Redis", "threads": threads}})).unwrap();
        dragstrip_core::run::validate::validate(&run).unwrap()
    };
    let made = build::own_datastore(&declaring(1)).unwrap();
    assert!(!is_outdated(&made, &declaring(1)), "nothing was corrected");
    assert!(is_outdated(&made, &declaring(2)), "the correction would be ignored");
    let mut edited = made.clone();
    edited.spec.threads = 3;
    assert!(!is_outdated(&edited, &declaring(1)), "an edit of the Datastore is reported as a difference");
    let mut strange = made;
    strange.metadata.owner_references = None;
    assert!(!is_outdated(&strange, &declaring(2)), "somebody else's is never deleted");
}

#[test]
fn a_datastore_that_is_edited_under_a_run_is_reached_as_before_until_the_run_has_ended() {
    let before = found(json!({
        "engine": "Redis", "threads": 1, "port": 6379, "authSecretRef": {"name": "old", "key": "password"},
        "tls": {"secretName": "pit-tls"}
    }));
    let json = serde_json::to_string(&before.connection).unwrap();
    let stored: Connection = serde_json::from_str(&json).unwrap();
    let edited = || {
        ready(
            &datastore(json!({
                "engine": "Redis", "threads": 1, "port": 7000, "authSecretRef": {"name": "new", "key": "password"}
            })),
            &status(),
            &key(),
            pods().iter(),
            Some(1),
            false,
        )
    };
    assert_eq!(ready_one(reached_by(edited(), Some(&stored))), before, "its servers are as they were");
    assert_eq!(ready_one(reached_by(edited(), None)).connection.port, 7000, "the run has no first Job");
}

//! The status of a Datastore for every state of its pods and servers.

use super::*;
use dragstrip_core::datastore::validate::validate;
use dragstrip_crds::{
    Engine,
    observed::{HostTruth, ServerTruth},
};
use dragstrip_results::{
    observed::Observation,
    protocol::{TopologyMember, TopologyState},
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Event, Node, Pod},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

fn valid(more: Value) -> ValidatedDatastore {
    let mut spec = json!({"engine": "Redis", "threads": 1, "port": 7000});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let datastore = serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
        "metadata": {"name": "racer", "namespace": "pits", "uid": "u", "generation": 3}, "spec": spec,
    }))
    .unwrap();
    validate::<Node>(&datastore, &[]).unwrap()
}

fn pod(index: usize, ready: bool) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("racer-{index}"), "uid": format!("uid-{index}"),
            "labels": {"controller-revision-hash": "racer-new"},
        },
        "spec": {"containers": [], "nodeName": format!("worker-{index}")},
        "status": {
            "podIP": format!("10.0.0.{index}"),
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    }))
    .unwrap()
}

fn truth(run_id: &str, role: &str) -> ServerTruth {
    ServerTruth {
        engine: Some(Engine::Redis),
        version: "7.0.15".into(),
        threads: Some(1),
        io_interface: Some("epoll".into()),
        max_memory_bytes: Some(1 << 30),
        max_memory_policy: Some("noeviction".into()),
        persistence: BTreeMap::new(),
        cluster_enabled: false,
        loading: false,
        run_id: run_id.into(),
        used_memory_bytes: 1,
        role: Some(role.into()),
    }
}

fn observation() -> Observation {
    Observation {
        server: truth("one", "master"),
        host: HostTruth { kernel: "6.1".into(), cpu_model: "x".into(), cpus: 2 },
        cgroup: None,
        shards: Vec::new(),
    }
}

fn member(index: usize, role: &str, truth: Option<ServerTruth>) -> TopologyMember {
    let slots = (role == "shard").then(|| format!("{index}-{index}"));
    TopologyMember {
        address: format!("10.0.0.{index}:7000").parse().unwrap(),
        truth,
        role: role.into(),
        slots,
    }
}

fn joined(complete: bool, message: &str, members: Vec<TopologyMember>) -> TopologyState {
    TopologyState { complete, message: message.into(), changes: Vec::new(), members }
}

/// A StatefulSet of generation 3 whose controller has seen generation `seen` of its own 2.
fn stateful_set(seen: i64) -> StatefulSet {
    serde_json::from_value(json!({
        "metadata": {
            "name": "racer", "uid": "set", "generation": 2,
            "annotations": {"dragstrip.dev/built-for-generation": "3"},
        },
        "status": {"replicas": 1, "observedGeneration": seen, "updateRevision": "racer-new"},
    }))
    .unwrap()
}

fn fetched(pods: Vec<Pod>) -> Fetched {
    Fetched {
        pods: pods.into_iter().map(Arc::new).collect(),
        stateful_set: Some(Arc::new(stateful_set(2))),
        observed: vec![Ok(observation())],
        ..Fetched::default()
    }
}

fn reported(datastore: &ValidatedDatastore, fetched: &Fetched) -> DatastoreStatus {
    of_valid(datastore, &DatastoreStatus::default(), fetched, Timestamp::UNIX_EPOCH)
}

/// Status, reason and message of a condition.
fn condition(status: &DatastoreStatus, kind: &str) -> (String, String, String) {
    let found = conditions::find(&status.conditions, kind).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn shards() -> Vec<TopologyMember> {
    let shard = |i| ServerTruth { cluster_enabled: true, ..truth(&format!("run-{i}"), "master") };
    (0..3).map(|i| member(i, "shard", Some(shard(i)))).collect()
}

fn spread() -> ValidatedDatastore {
    valid(json!({"cluster": {"shards": 3, "placement": "Spread"}}))
}

#[test]
fn one_server_is_ready_when_it_is_what_was_declared() {
    let status = reported(&valid(json!({})), &fetched(vec![pod(0, true)]));
    assert_eq!(condition(&status, READY).1, "Ready");
    assert_eq!(status.endpoint.as_deref(), Some("racer.pits.svc:7000"));
    assert!(status.members.is_empty(), "a single server is not a member");
}

#[test]
fn a_complete_cluster_is_ready_and_lists_its_members() {
    let mut complete = fetched((0..3).map(|i| pod(i, true)).collect());
    complete.topology = Some(Ok(joined(true, "every server is joined", shards())));
    let status = reported(&spread(), &complete);
    assert_eq!(condition(&status, READY).1, "Ready");
    assert_eq!(condition(&status, VERIFIED).1, "AsDeclared");
    let second = &status.members[1];
    assert_eq!((second.pod.as_str(), second.address.as_str()), ("racer-1", "10.0.0.1:7000"));
    assert_eq!((second.role.as_str(), second.slots.as_slice()), ("shard", &["1-1".to_owned()][..]));
    assert_eq!((second.node.as_deref(), second.run_id.as_deref()), (Some("worker-1"), Some("run-1")));
    assert_eq!(unsettled(&status), None);
}

#[test]
fn a_cluster_that_is_being_formed_is_not_ready_and_is_checked_again() {
    let mut forming = fetched((0..3).map(|i| pod(i, true)).collect());
    forming.topology = Some(Ok(joined(false, "10.0.0.1:7000 knows 2 of 3 servers", shards())));
    let status = reported(&spread(), &forming);
    let (holds, reason, message) = condition(&status, READY);
    assert_eq!((holds.as_str(), reason.as_str()), ("False", "Joining"));
    assert!(message.contains("knows 2 of 3 servers"), "{message}");
    assert_eq!(unsettled(&status), Some(message.as_str()));
}

#[test]
fn one_shard_that_differs_is_named() {
    let mut members = shards();
    members[2].truth.as_mut().unwrap().threads = Some(4);
    let mut complete = fetched((0..3).map(|i| pod(i, true)).collect());
    complete.topology = Some(Ok(joined(true, "", members)));
    let status = reported(&spread(), &complete);
    assert_eq!(condition(&status, READY).1, "NotAsDeclared");
    assert_eq!(condition(&status, VERIFIED).2, "10.0.0.2:7000: threads: declared 1, the server runs 4");
}

#[test]
fn a_server_that_did_not_answer_leaves_it_unverified() {
    let mut members = shards();
    members[1].truth = None;
    let mut complete = fetched((0..3).map(|i| pod(i, true)).collect());
    complete.topology = Some(Ok(joined(true, "", members)));
    let (holds, reason, message) = condition(&reported(&spread(), &complete), VERIFIED);
    assert_eq!((holds.as_str(), reason.as_str()), ("Unknown", "ObserverSilent"));
    assert!(message.contains("10.0.0.1:7000"), "{message}");
}

#[test]
fn pods_that_are_missing_or_starting_are_counted_and_named() {
    let few = fetched(vec![pod(0, true)]);
    assert_eq!(condition(&reported(&spread(), &few), READY).2, "1 of 3 pods have been created");
    let starting = fetched(vec![pod(0, true), pod(1, false), pod(2, true)]);
    assert_eq!(condition(&reported(&spread(), &starting), READY).2, "pod racer-1 is starting");
    assert_eq!(condition(&reported(&spread(), &fetched(Vec::new())), READY).1, "NoPod");
}

#[test]
fn replicas_have_their_roles() {
    let datastore = valid(json!({"replicas": 1}));
    let mut complete = fetched(vec![pod(0, true), pod(1, true)]);
    complete.topology = Some(Ok(joined(
        true,
        "",
        vec![
            member(0, "primary", Some(truth("a", "master"))),
            member(1, "replica", Some(truth("b", "slave"))),
        ],
    )));
    let status = reported(&datastore, &complete);
    assert_eq!(condition(&status, READY).1, "Ready");
    let roles: Vec<_> = status.members.iter().map(|member| member.role.as_str()).collect();
    assert_eq!(roles, ["primary", "replica"]);
    assert_eq!(status.pod.as_deref(), Some("racer-0"), "load goes to the primary");
}

#[test]
fn a_server_that_speaks_no_resp_is_ready_without_being_verified() {
    let datastore = valid(json!({"engine": "Custom", "image": "etcd:3.6", "custom": {"members": 3}}));
    let silent = Fetched { observed: Vec::new(), ..fetched((0..3).map(|i| pod(i, true)).collect()) };
    let status = reported(&datastore, &silent);
    let (holds, reason, _) = condition(&status, VERIFIED);
    assert_eq!((holds.as_str(), reason.as_str()), ("Unknown", "NotVerifiable"));
    assert_eq!(condition(&status, READY).0, "True");
    assert_eq!(status.members.len(), 3);
    assert!(status.members.iter().all(|member| member.role == "member" && member.run_id.is_none()));
    assert_eq!(unsettled(&status), None, "there is nothing to query");
}

#[test]
fn a_missing_certificate_secret_is_reported() {
    let mut waiting = fetched(vec![pod(0, false)]);
    Arc::make_mut(&mut waiting.pods[0]).status.as_mut().unwrap().pod_ip = None;
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "e"}, "reason": "FailedMount", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "uid": "uid-0", "name": "racer-0"},
        "message": "MountVolume.SetUp failed for volume \"tls-server\" : secret \"pit-tls\" not found",
    }))
    .unwrap();
    waiting.warnings = vec![Arc::new(event)];
    let (_, reason, message) =
        condition(&reported(&valid(json!({"tls": {"secretName": "pit-tls"}})), &waiting), READY);
    assert_eq!(reason, "ConfigurationMissing");
    assert!(message.contains("secret \"pit-tls\" not found"), "{message}");
}

#[test]
fn pods_of_the_earlier_declaration_do_not_count_as_ready() {
    let datastore = valid(json!({}));
    let reason = |fetched: &Fetched| condition(&reported(&datastore, fetched), READY).1;
    let changed = |change: fn(&mut Pod)| {
        let mut pods = vec![pod(0, true)];
        change(&mut pods[0]);
        fetched(pods)
    };
    assert_eq!(reason(&fetched(vec![pod(0, true)])), "Ready");
    let old =
        changed(|pod| drop(pod.labels_mut().insert("controller-revision-hash".into(), "racer-old".into())));
    assert_eq!(reason(&old), "RollingOut", "another revision answered");
    let ending = changed(|pod| {
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    });
    assert_eq!(reason(&ending), "RollingOut", "a pod that is being deleted answered");
    let mut unseen = fetched(vec![pod(0, true)]);
    unseen.stateful_set = Some(Arc::new(stateful_set(1)));
    assert_eq!(reason(&unseen), "RollingOut", "the revision is still that of the earlier template");
    let mut behind = stateful_set(2);
    behind.annotations_mut().insert("dragstrip.dev/built-for-generation".into(), "2".into());
    unseen.stateful_set = Some(Arc::new(behind));
    assert_eq!(reason(&unseen), "RollingOut", "the template is that of the earlier generation");
}

#[test]
fn the_first_pods_of_a_datastore_replace_nothing() {
    let mut new = stateful_set(0);
    new.metadata.generation = Some(1);
    let mut all = fetched(vec![pod(0, false)]);
    all.stateful_set = Some(Arc::new(new));
    let (_, reason, message) = condition(&reported(&valid(json!({})), &all), READY);
    assert_eq!(reason, "Starting");
    assert_eq!(message, "pod racer-0 is starting", "the same text before and after the revision is known");
}

fn refusal(message: &str, seconds: u8) -> Arc<Event> {
    let event = serde_json::from_value(json!({
        "metadata": {"name": "e"}, "reason": "FailedCreate",
        "lastTimestamp": format!("2026-01-01T00:00:{seconds:02}Z"), "message": message,
        "involvedObject": {"kind": "StatefulSet", "uid": "set", "name": "racer"},
    }));
    Arc::new(event.unwrap())
}

#[test]
fn a_pod_that_a_quota_or_policy_refuses_is_reported_in_the_apiservers_words() {
    let quota = "create Pod racer-0 in StatefulSet racer failed error: pods \"racer-0\" is forbidden: exceeded quota: small";
    let mut refused = fetched(Vec::new());
    refused.warnings = vec![refusal("an older one", 1), refusal(quota, 2)];
    let (_, reason, message) = condition(&reported(&valid(json!({})), &refused), READY);
    assert_eq!(reason, "PodsRefused");
    assert!(message.contains("forbidden: exceeded quota: small"), "{message}");
    refused.pods = vec![Arc::new(pod(0, true))];
    assert_eq!(condition(&reported(&valid(json!({})), &refused), READY).1, "Ready", "that is over");
    let mut leaving = fetched(Vec::new());
    leaving.warnings = vec![refusal("object is being deleted: pods \"racer-0\" already exists", 1)];
    assert_eq!(condition(&reported(&valid(json!({})), &leaving), READY).1, "NoPod");
}

fn crashed(message: &str) -> Fetched {
    let mut fetched = fetched(vec![pod(0, false)]);
    let status = Arc::make_mut(&mut fetched.pods[0]).status.as_mut().unwrap();
    status.container_statuses = serde_json::from_value(json!([{
        "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 2, "started": false,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message}},
    }]))
    .unwrap();
    fetched
}

#[test]
fn a_server_that_exits_repeatedly_has_a_constant_message() {
    let datastore = valid(json!({}));
    let first = reported(&datastore, &crashed("7:M 22 Nov 04:45:01 # Bad directive 'maxmemoryy'"));
    let (_, reason, message) = condition(&first, READY);
    assert_eq!(reason, "ServerExits");
    assert!(message.contains("Bad directive 'maxmemoryy'"), "{message}");
    let later = crashed("9:M 22 Nov 04:46:17 # Bad directive 'maxmemoryy'");
    let again = of_valid(&datastore, &first, &later, Timestamp::UNIX_EPOCH);
    assert!(same(&first, &again), "only times and process ids differ");
    let other = of_valid(&datastore, &first, &crashed("Can't bind"), Timestamp::UNIX_EPOCH);
    assert!(condition(&other, READY).2.contains("Can't bind"));
}

#[test]
fn a_server_without_cpus_of_its_own_is_noted() {
    let mut shared = stateful_set(2);
    shared.spec = serde_json::from_value(
        json!({"selector": {}, "serviceName": "racer", "template": {"spec": {"containers": [
            {"name": "server", "resources": {"requests": {"cpu": "47"}, "limits": {"cpu": "48"}}}
        ]}}}),
    )
    .unwrap();
    let mut all = fetched(vec![pod(0, true)]);
    all.stateful_set = Some(Arc::new(shared));
    let notes = |spec| reported(&valid(spec), &all).notes.join(";");
    assert!(notes(json!({})).contains("requests 47 of 48 CPUs"), "{}", notes(json!({})));
    let declared = json!({"resources": {"requests": {"cpu": "47"}, "limits": {"cpu": "48"}}});
    assert!(!notes(declared).contains("requests 47"), "the spec declares it");
}

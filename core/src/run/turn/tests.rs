use super::*;
use crate::fixtures::{self, run};
use crate::{
    labels,
    run::{decide::DatastoreKey, validate::validate},
};
use dragstrip_crds::run::{ClientSpread, RunReference};
use serde_json::json;

fn target() -> ReadyTarget {
    fixtures::target()
}

fn external(host: &str) -> ReadyTarget {
    ReadyTarget { host: host.into(), nodes: Vec::new(), datastore: None, ..target() }
}

fn names(target: &ReadyTarget) -> Vec<String> {
    keys(target, "dragstrip-system").iter().map(ToString::to_string).collect()
}

#[test]
fn a_datastore_needs_its_own_lease_and_those_of_all_its_nodes() {
    let spread = ReadyTarget { nodes: vec!["a".into(), "b".into()], ..target() };
    assert_eq!(
        names(&spread),
        ["races/dragstrip-redis", "dragstrip-system/dragstrip-node.a", "dragstrip-system/dragstrip-node.b"]
    );
}

#[test]
fn an_external_address_has_one_lease_for_all_namespaces_and_spellings() {
    let lower = names(&external("redis.example.com"));
    assert!(lower[0].starts_with("dragstrip-system/dragstrip-external."), "{lower:?}");
    assert_eq!(lower, names(&external("Redis.Example.COM")));
    assert_ne!(lower, names(&external("valkey.example.com")));
}

#[test]
fn an_address_that_is_a_datastores_needs_the_datastores_leases() {
    let other = DatastoreKey { namespace: "shop".into(), name: "redis".into() };
    let target = ReadyTarget { datastore: Some(other), ..external("10.0.0.7") };
    assert_eq!(names(&target), ["shop/dragstrip-redis"]);
}

fn node(name: &str) -> Arc<Node> {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": ready})).unwrap())
}

fn lease(key: &str, holder: &str) -> Arc<Lease> {
    let (namespace, name) = key.split_once('/').unwrap();
    let identity =
        if holder == "sprint" { "races/sprint/run-uid".to_owned() } else { format!("races/{holder}/u") };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name}, "spec": {"holderIdentity": identity}
        }))
        .unwrap(),
    )
}

fn queued(name: &str, created: &str, lease: &str) -> Arc<BenchmarkRun> {
    let mut other = run(&["read"], 1);
    other.metadata.name = Some(name.into());
    other.metadata.uid = Some(format!("{name}-uid"));
    other.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
    other.status = serde_json::from_value(json!({
        "phase": "Queued", "queue": {"position": 1, "lease": lease, "holder": {"namespace": "races", "name": "x"}}
    }))
    .unwrap();
    Arc::new(other)
}

const TARGET: &str = "races/dragstrip-redis";
const SERVER: &str = "dragstrip-system/dragstrip-node.worker";
const C1: &str = "dragstrip-system/dragstrip-node.c1";
const C2: &str = "dragstrip-system/dragstrip-node.c2";

/// The turn with two client nodes and the server's.
fn turn_check(leases: &[Arc<Lease>], runs: &[Arc<BenchmarkRun>], pods: &[Arc<Pod>]) -> TurnCheck {
    turn_check_of(Progress::default(), leases, runs, pods)
}

fn turn_check_of(
    progress: Progress,
    leases: &[Arc<Lease>],
    runs: &[Arc<BenchmarkRun>],
    pods: &[Arc<Pod>],
) -> TurnCheck {
    let run = validate(&run(&["write"], 1)).unwrap();
    let server: Pod = serde_json::from_value(json!({
        "metadata": {"name": "redis-0", "labels": {labels::COMPONENT: labels::SERVER}},
        "spec": {"nodeName": "worker", "containers": []}
    }))
    .unwrap();
    let pods: Vec<_> = pods.iter().cloned().chain([Arc::new(server)]).collect();
    let seen = Seen {
        leases,
        runs,
        nodes: &[node("worker"), node("c1"), node("c2")],
        pods: &pods,
        operator_namespace: "dragstrip-system",
    };
    check(&run, &target(), &seen, progress)
}

fn busy(lease: &str, holder: &str, position: i32, holds: bool) -> Turn {
    let holder = RunReference { namespace: "races".into(), name: holder.into() };
    let queue = QueueStatus { position, lease: lease.into(), holder, lacks: Vec::new() };
    Turn::Busy { queue, holds }
}

/// The turn without what else the run waits for.
fn first(turn: Turn) -> Turn {
    match turn {
        Turn::Busy { queue, holds } => {
            Turn::Busy { queue: QueueStatus { lacks: Vec::new(), ..queue }, holds }
        }
        other => other,
    }
}

fn lacks(turn: &Turn) -> &[String] {
    match turn {
        Turn::Busy { queue, .. } => &queue.lacks,
        _ => &[],
    }
}

fn texts(keys: &[LeaseKey]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

#[test]
fn a_free_turn_needs_target_server_node_and_a_client_node() {
    let found = turn_check(&[], &[], &[]);
    assert_eq!(found.turn, Turn::Free);
    assert_eq!(texts(&found.missing), [C1, SERVER, TARGET]);
    assert_eq!(found.client_nodes, ["c1"]);
}

#[test]
fn clients_beside_a_server_without_a_node_label_have_no_place_and_the_message_has_the_remedy() {
    let mut run = run(&["write"], 1);
    run.spec.clients.colocate = Some(dragstrip_crds::run::Colocate::Zone);
    let zone = |node: Arc<Node>| {
        let mut node = (*node).clone();
        node.labels_mut().insert(labels::ZONE.into(), "z1".into());
        Arc::new(node)
    };
    let check_with = |nodes: &[Arc<Node>]| {
        let seen = Seen { leases: &[], runs: &[], nodes, pods: &[], operator_namespace: "dragstrip-system" };
        check(&validate(&run).unwrap(), &target(), &seen, Progress::default())
    };
    let bare = check_with(&[node("worker"), node("c1")]);
    let why = bare.unplaceable.unwrap();
    assert!(why.contains("worker has none") && why.contains("label them"), "{why}");
    let labelled = check_with(&[zone(node("worker")), node("c1"), zone(node("c2"))]);
    assert_eq!((labelled.unplaceable, labelled.client_nodes), (None, vec!["c2".to_owned()]));
    let to_be_made = check_with(&[zone(node("worker")), node("c1")]);
    assert_eq!(to_be_made.wanted.len(), 1);
}

#[test]
fn a_run_leaves_a_client_node_that_another_run_holds() {
    let found = turn_check(&[lease(C1, "other")], &[], &[]);
    assert_eq!((found.turn, found.client_nodes), (Turn::Free, vec!["c2".to_owned()]));
}

#[test]
fn a_run_whose_client_nodes_are_all_held_is_queued() {
    let found = turn_check(&[lease(C1, "other"), lease(C2, "third")], &[], &[]);
    assert_eq!(first(found.turn), busy(C1, "other", 1, false));
    assert_eq!(found.missing, vec![]);
}

#[test]
fn a_turn_is_held_only_with_every_lease() {
    let own = |key| lease(key, "sprint");
    let held = turn_check(&[own(TARGET), own(SERVER), own(C2)], &[], &[]);
    assert_eq!(texts(&held.held), [TARGET, SERVER, C2]);
    assert_eq!((held.turn, held.client_nodes), (Turn::Held, vec!["c2".to_owned()]));
    let part = turn_check(&[own(TARGET), own(C2)], &[], &[]);
    assert_eq!((part.turn, texts(&part.missing)), (Turn::Free, vec![SERVER.to_owned()]));
    let lost = turn_check(&[own(TARGET), own(C2), lease(SERVER, "other")], &[], &[]);
    assert_eq!(first(lost.turn), busy(SERVER, "other", 1, true), "a part must be released");
}

#[test]
fn clients_take_each_free_node_before_the_first_measurement_and_no_other_after_it() {
    let mut two = run(&["write"], 1);
    two.spec.clients.pods = 2;
    let two = validate(&two).unwrap();
    let nodes = [node("c1"), node("c2")];
    let turn = |leases: &[Arc<Lease>], measured| {
        let seen =
            Seen { leases, runs: &[], nodes: &nodes, pods: &[], operator_namespace: "dragstrip-system" };
        let found = check(&two, &target(), &seen, Progress { measured, ..Progress::default() });
        (found.turn, texts(&found.missing))
    };
    let mut held = [TARGET, SERVER, C2].map(|key| lease(key, "sprint")).to_vec();
    let cut_off = turn(&held, false);
    assert_eq!(cut_off, (Turn::Free, vec![C1.to_owned()]), "the operator ended before it acquired c1");
    assert_eq!(turn(&held, true), (Turn::Held, vec![]), "all measurements of a run have the same nodes");
    held.push(lease(C1, "other"));
    assert_eq!(turn(&held, false), (Turn::Held, vec![]), "c1 is not free");
}

#[test]
fn a_released_lease_is_not_held() {
    let mut back = (*lease(TARGET, "sprint")).clone();
    back.annotations_mut().insert(labels::GIVEN_BACK.into(), "true".into());
    assert_eq!(turn_check(&[Arc::new(back)], &[], &[]).turn, Turn::Returning);
}

#[test]
fn a_free_lease_goes_to_the_first_in_the_queue() {
    let earlier = queued("first", "2025-01-01T00:00:00Z", TARGET);
    let later = queued("later", "2027-01-01T00:00:00Z", TARGET);
    assert_eq!(first(turn_check(&[], &[earlier, later.clone()], &[]).turn), busy(TARGET, "first", 2, false));
    assert_eq!(turn_check(&[], &[later], &[]).turn, Turn::Free);
    let elsewhere = queued("first", "2025-01-01T00:00:00Z", "races/dragstrip-valkey");
    assert_eq!(turn_check(&[], &[elsewhere], &[]).turn, Turn::Free);
}

#[test]
fn runs_that_cannot_start_do_not_hand_the_turn_to_each_other() {
    let unlucky = |name: &str, created: &str| {
        let mut unlucky = (*queued(name, created, TARGET)).clone();
        let setback = json!({"reason": "ErrImagePull", "message": "m", "count": 1, "retryAt": created});
        unlucky.status.as_mut().unwrap().setback = serde_json::from_value(setback).unwrap();
        Arc::new(unlucky)
    };
    let older = [unlucky("one", "2025-01-01T00:00:00Z"), unlucky("two", "2025-01-01T00:00:01Z")];
    assert_eq!(turn_check(&[], &older, &[]).turn, Turn::Free, "a healthy run comes first");
    let of_unlucky = |runs: &[Arc<BenchmarkRun>]| {
        let run = validate(&run(&["write"], 1)).unwrap();
        let nodes = [node("worker"), node("c1")];
        let seen =
            Seen { leases: &[], runs, nodes: &nodes, pods: &[], operator_namespace: "dragstrip-system" };
        first(check(&run, &target(), &seen, Progress { setbacks: 1, ..Progress::default() }).turn)
    };
    assert_eq!(of_unlucky(&older), busy(TARGET, "one", 3, false), "among themselves the oldest comes first");
    let healthy = queued("healthy", "2027-01-01T00:00:00Z", TARGET);
    assert_eq!(of_unlucky(&[healthy]), busy(TARGET, "healthy", 2, false), "however young it is");
}

#[test]
fn a_run_between_two_phases_completes_its_turn_before_an_older_run_that_waits_for_it() {
    let mut older = (*queued("older", "2020-01-01T00:00:00Z", TARGET)).clone();
    let queue = older.status.as_mut().unwrap().queue.as_mut().unwrap();
    queue.lacks = [C1, C2, SERVER, TARGET].map(String::from).to_vec();
    let held = [lease(TARGET, "sprint"), lease(SERVER, "sprint")];
    let older = [Arc::new(older)];
    let turn = |between_phases| {
        turn_check_of(Progress { between_phases, ..Progress::default() }, &held, &older, &[]).turn
    };
    let begin = first(turn(false));
    assert_eq!(begin, busy(C1, "older", 2, true), "before the first phase the older one comes first");
    assert_eq!(turn(true), Turn::Free, "another operator released the Lease of c1");
}

#[test]
fn a_run_that_no_node_fits_holds_nothing_unless_an_autoscaler_may_add_one() {
    let made_by = |provider: &str| {
        let mut node = (*node("worker")).clone();
        node.spec = serde_json::from_value(json!({"providerID": provider})).unwrap();
        Arc::new(node)
    };
    let mut misspelt = run(&["write"], 1);
    misspelt.spec.clients.placement.node_selector = [("pool".to_owned(), "cleints".to_owned())].into();
    let misspelt = validate(&misspelt).unwrap();
    let in_vain = |leases: &[Arc<Lease>], nodes: &[Arc<Node>]| {
        let seen = Seen { leases, runs: &[], nodes, pods: &[], operator_namespace: "dragstrip-system" };
        check(&misspelt, &target(), &seen, Progress::default()).unplaceable
    };
    for provider in ["", "kind://docker/kind/worker", "k3s://worker"] {
        let why = in_vain(&[], &[made_by(provider), node("c1")]).unwrap_or_default();
        assert!(why.contains("pool=cleints"), "{provider:?}: {why:?}");
    }
    for provider in ["aws:///eu-west-1a/i-0123", "gce://project/zone/name", "azure:///subscriptions/x"] {
        assert_eq!(in_vain(&[], &[made_by(provider), node("c1")]), None, "{provider}");
    }
    assert_eq!(in_vain(&[], &[]), None, "nothing is known of the cluster");
    let held = [lease(TARGET, "sprint")];
    assert_eq!(
        in_vain(&held, &[node("worker")]),
        None,
        "a run that has begun waits for its node to come back"
    );
}

#[test]
fn a_run_that_is_being_deleted_has_no_ticket() {
    let mut leaving = (*queued("first", "2025-01-01T00:00:00Z", TARGET)).clone();
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    leaving.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    assert_eq!(turn_check(&[], &[Arc::new(leaving)], &[]).turn, Turn::Free, "all others would wait forever");
}

#[test]
fn while_its_target_is_busy_a_run_leaves_the_nodes_to_others() {
    let found = turn_check(&[lease(TARGET, "other")], &[], &[]).turn;
    assert_eq!(lacks(&found), [SERVER, TARGET]);
}

#[test]
fn a_run_that_needs_several_nodes_is_not_overtaken_by_those_that_need_one() {
    let nodes = [node("c1"), node("c2"), node("c3")];
    let large = check_many(2, &[lease(C1, "x"), lease(C2, "y")], &nodes, &[]).turn;
    let c3 = "dragstrip-system/dragstrip-node.c3";
    assert!([C1, c3].iter().all(|key| lacks(&large).contains(&(*key).to_owned())), "{large:?}");
    assert!(!lacks(&large).contains(&C2.to_owned()), "two suffice, and one is free: {large:?}");
    let Turn::Busy { queue, .. } = large else { panic!("it has one node of two: {large:?}") };
    let mut first_one = (*queued("large", "2025-01-01T00:00:00Z", C1)).clone();
    first_one.status.as_mut().unwrap().queue = Some(queue);
    let turn = |leases: &[Arc<Lease>]| turn_check(leases, &[Arc::new(first_one.clone())], &[]);
    // The large run is of another target; this check has no third node.
    assert_eq!(turn(&[]).client_nodes, ["c2"], "c1 goes to the first in the queue");
    assert_eq!(first(turn(&[lease(C2, "y")]).turn), busy(C1, "large", 2, false));
}

#[test]
fn a_node_with_another_runs_clients_is_busy_without_a_lease() {
    let client = |node: &str| -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "races", "labels": {
                    labels::COMPONENT: labels::CLIENT, labels::RUN: "other", labels::RUN_UID: "u"
                }},
                "spec": {"nodeName": node, "containers": []}
            }))
            .unwrap(),
        )
    };
    assert_eq!(turn_check(&[], &[], &[client("c1")]).client_nodes, ["c2"]);
    assert_eq!(first(turn_check(&[], &[], &[client("c1"), client("c2")]).turn), busy(C1, "other", 1, false));
}

#[test]
fn without_any_node_for_clients_the_scheduler_decides_and_the_reason_is_reported() {
    let run = validate(&run(&["write"], 1)).unwrap();
    let seen = Seen { leases: &[], runs: &[], nodes: &[], pods: &[], operator_namespace: "dragstrip-system" };
    let found = check(&run, &target(), &seen, Progress::default());
    assert_eq!((found.turn, found.client_nodes), (Turn::Free, vec![]));
    assert!(found.no_node.unwrap().contains("no node for clients"));
}

#[test]
fn after_a_setback_other_nodes_come_first() {
    let run = validate(&run(&["write"], 1)).unwrap();
    let nodes = [node("c1"), node("c2")];
    let seen =
        Seen { leases: &[], runs: &[], nodes: &nodes, pods: &[], operator_namespace: "dragstrip-system" };
    let check = |setbacks| check(&run, &target(), &seen, Progress { setbacks, ..Progress::default() });
    let first: Vec<_> = (0..3).map(|setbacks| check(setbacks).client_nodes).collect();
    assert_eq!(first, [["c1"], ["c2"], ["c1"]]);
}

/// The turn of the run `sprint`, whose `pods` clients each need a node of their own.
fn check_many(pods: i32, leases: &[Arc<Lease>], nodes: &[Arc<Node>], others: &[Arc<Pod>]) -> TurnCheck {
    let mut run = run(&["write"], 1);
    (run.spec.clients.pods, run.spec.clients.spread) = (pods, ClientSpread::OnePerNode);
    let seen = Seen { leases, runs: &[], nodes, pods: others, operator_namespace: "dragstrip-system" };
    check(&validate(&run).unwrap(), &external("redis.example.com"), &seen, Progress::default())
}

fn nodes_of(keys: &[LeaseKey]) -> Vec<&str> {
    keys.iter().filter_map(LeaseKey::node).collect()
}

#[test]
fn a_run_reserves_all_of_too_few_nodes_and_leaves_the_others_to_an_autoscaler() {
    let nodes = [node("c1"), node("c2")];
    let found = check_many(3, &[], &nodes, &[]);
    assert_eq!((found.turn, nodes_of(&found.missing)), (Turn::Free, vec!["c1", "c2"]));
    assert_eq!(found.client_nodes, [""; 0], "pods that are bound to two nodes would bring no third one");
    assert!(found.no_node.unwrap().contains("3 are needed"));
    let own = [C1, C2].map(|key| lease(key, "sprint"));
    let target = check_many(3, &[], &[], &[]).missing[0].to_string();
    let all: Vec<_> = own.iter().cloned().chain([lease(&target, "sprint")]).collect();
    let held = check_many(3, &all, &nodes, &[]);
    assert_eq!((held.turn, held.client_nodes), (Turn::Held, vec![]));
    let part = check_many(3, &all[1..], &nodes, &[]);
    assert_eq!((part.turn, nodes_of(&part.missing)), (Turn::Free, vec!["c1"]), "a node became free");
}

#[test]
fn clients_that_may_go_to_any_node_wait_for_a_run_that_holds_one_of_too_few() {
    let nodes = [node("c1"), node("c2")];
    let found = check_many(3, &[lease(C1, "other")], &nodes, &[]);
    assert_eq!(
        first(found.turn),
        busy(C1, "other", 1, false),
        "a pod would go to c1 between two phases of the other run, which could not continue"
    );
}

#[test]
fn a_node_that_was_created_for_anothers_waiting_clients_is_theirs() {
    let waiting = |affinity: serde_json::Value| -> [Arc<Pod>; 1] {
        [Arc::new(
            serde_json::from_value(json!({
                "metadata": {
                    "name": "p", "namespace": "races", "creationTimestamp": "2026-01-01T00:00:10Z",
                    "labels": {labels::COMPONENT: labels::CLIENT, labels::RUN: "other", labels::RUN_UID: "u"}
                },
                "spec": {"containers": [], "affinity": affinity}
            }))
            .unwrap(),
        )]
    };
    let made = |at: &str| {
        let mut node = (*node("c1")).clone();
        node.metadata.creation_timestamp = serde_json::from_value(json!(at)).unwrap();
        [Arc::new(node)]
    };
    let by = |node: &[Arc<Node>], pods: &[Arc<Pod>]| first(check_many(1, &[], node, pods).turn);
    let (new, old) = (made("2026-01-01T00:01:00Z"), made("2026-01-01T00:00:00Z"));
    assert_eq!(by(&new, &waiting(json!({}))), busy(C1, "other", 1, false));
    assert_eq!(by(&old, &waiting(json!({}))), Turn::Free, "they would be on it if they fitted");
    let required = |term: serde_json::Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let elsewhere =
        required(json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}));
    assert_eq!(by(&new, &waiting(elsewhere)), Turn::Free, "they want another kind of node");
    let bound =
        required(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c9"]}]}));
    assert_eq!(by(&new, &waiting(bound)), Turn::Free, "they have a node of their own");
}

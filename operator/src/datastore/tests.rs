//! Passes of the controller against a mock API server: the requests, their sequence and their content.

use super::*;
use crate::{
    cluster::{
        events::Announcer,
        settings::tests::settings,
        world::{World, prune_service},
    },
    metrics::Metrics,
};
use dragstrip_agents::Agents;
use dragstrip_results::signing::SigningKey;
use http::{Request, Response};
use k8s_openapi::api::{apps::v1::StatefulSet, coordination::v1::Lease, policy::v1::PodDisruptionBudget};
use kube::{
    Client,
    client::Body,
    runtime::{
        reflector::{Store, store::Writer},
        watcher,
    },
};
use serde_json::{Value, json};
use std::{fmt::Debug, hash::Hash, sync::Mutex};

/// The requests to the API server: `METHOD kind name`, and the body.
pub(crate) type Calls = Arc<Mutex<Vec<(String, Value)>>>;
pub(crate) type Answer = fn(&str) -> Option<(u16, Value)>;

/// The objects that exist when a pass begins.
#[derive(Default)]
pub(crate) struct Cluster {
    stateful_sets: Vec<StatefulSet>,
    services: Vec<Service>,
    budgets: Vec<PodDisruptionBudget>,
    pods: Vec<Pod>,
    leases: Vec<Lease>,
    events: Vec<Event>,
}

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn seen<K>(objects: Vec<K>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut writer = Writer::<K>::new(());
    for object in objects {
        writer.apply_watcher_event(&watcher::Event::Apply(object));
    }
    writer.as_reader()
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let body =
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, body)
}

/// A client of an API server that accepts every request, except as `answer` responds.
fn apiserver(answer: Answer) -> (Client, Calls) {
    let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let calls = Calls::default();
    let reported = calls.clone();
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            let path = request.uri().path().split("/namespaces/pits/").last().unwrap_or_default();
            let call = format!("{} {}", request.method(), path.replace('/', " "));
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let usual = || match call.as_str() {
                WRITE_STATUS => (200, serde_json::to_value(datastore(1)).unwrap()),
                "PATCH statefulsets racer" => {
                    (200, serde_json::to_value(stateful_set(built_for("1"), 1)).unwrap())
                }
                _ if call.starts_with("GET") => status(404, "NotFound", "not found"),
                _ => (200, body.clone()),
            };
            let (code, content) = answer(&call).unwrap_or_else(usual);
            reported.lock().unwrap().push((call, body));
            let content = Body::from(serde_json::to_vec(&content).unwrap());
            send.send_response(Response::builder().status(code).body(content).unwrap());
        }
    });
    (Client::new(service, "pits"), calls)
}

pub(crate) fn context(cluster: Cluster, answer: Answer) -> (Arc<Context>, Calls) {
    let (client, calls) = apiserver(answer);
    let settings = settings(&["--runner-image=example.com/runner:2"]);
    let context = Context {
        retries: Arc::default(),
        overlay: Arc::default(),
        announcer: Arc::new(Announcer::new(client.clone())),
        client,
        settings: Arc::new(settings),
        agents: Agents::new(SigningKey::read(&SigningKey::generate().unwrap()).unwrap()).unwrap(),
        world: World {
            nodes: seen(Vec::new()),
            pods: seen(cluster.pods),
            jobs: seen(Vec::new()),
            leases: seen(cluster.leases),
            warnings: seen(cluster.events),
            stateful_sets: seen(cluster.stateful_sets),
            services: seen(cluster.services),
            budgets: seen(cluster.budgets),
            runs: seen(Vec::new()),
            expiring: seen(Vec::new()),
            datastores: seen(Vec::new()),
            suites: seen(Vec::new()),
            expiring_suites: seen(Vec::new()),
        },
        metrics: Metrics::new().unwrap(),
    };
    (Arc::new(context), calls)
}

fn names(calls: &Calls) -> Vec<String> {
    let name = |(call, _): &(String, Value)| call.clone();
    calls.lock().unwrap().iter().map(name).filter(|call| !call.ends_with(" events")).collect()
}

pub(crate) fn body(calls: &Calls, call: &str) -> Value {
    let calls = calls.lock().unwrap();
    let found = calls.iter().find(|(name, _)| name == call);
    found.unwrap_or_else(|| panic!("{call} was not called: {calls:?}")).1.clone()
}

/// Status, reason and message of Ready as they were written.
fn ready(calls: &Calls) -> (String, String, String) {
    let status = body(calls, WRITE_STATUS)["status"].clone();
    let status: DatastoreStatus = read(status);
    let ready = conditions::find(&status.conditions, READY).unwrap().clone();
    (ready.status, ready.reason, ready.message)
}

const WRITE_STATUS: &str = "PATCH datastores racer status";

pub(crate) fn datastore(generation: i64) -> Datastore {
    read(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
        "metadata": {
            "name": "racer", "namespace": "pits", "uid": "me", "generation": generation, "resourceVersion": "41",
        },
        "spec": {"engine": "Redis", "threads": 1},
    }))
}

fn metadata(kind: &str, uid: &str, more: Value) -> Value {
    let mut metadata = json!({
        "name": "racer", "namespace": "pits", "uid": format!("{kind}-uid"), "resourceVersion": "7",
        "ownerReferences": [{
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "name": "racer", "uid": uid,
            "controller": true
        }],
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metadata
}

fn service() -> Service {
    let all = build::build(
        &validate::validate::<k8s_openapi::api::core::v1::Node>(&datastore(1), &[]).unwrap(),
        "",
        None,
    );
    Service { metadata: read(metadata("service", "me", json!({}))), ..all.service }
}

fn built_for(generation: &str) -> Value {
    json!({"annotations": {"dragstrip.dev/built-for-generation": generation}, "generation": 1})
}

/// A StatefulSet that another version of the operator built: its template has nothing of this one's.
fn stateful_set(more: Value, replicas: i32) -> StatefulSet {
    read(json!({
        "metadata": metadata("set", "me", more),
        "spec": {
            "replicas": replicas, "selector": {}, "serviceName": "racer",
            "template": {"metadata": {"labels": {"built": "long-ago"}}},
        },
        "status": {"replicas": 1, "observedGeneration": 1, "updateRevision": "racer-1"},
    }))
}

fn standing(set: StatefulSet) -> Cluster {
    Cluster { stateful_sets: vec![set], services: vec![service()], ..Cluster::default() }
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "dragstrip-racer", "namespace": "pits"},
        "spec": {"holderIdentity": "pits/sprint/run-uid"},
    })
}

/// One pass, which must not hang.
async fn pass_over(datastore: &Datastore, ctx: &Arc<Context>) -> Result<Action, Error> {
    let pass = Box::pin(reconcile(Arc::new(datastore.clone()), ctx.clone()));
    tokio::time::timeout(Duration::from_secs(5), pass).await.unwrap()
}

#[tokio::test]
async fn a_new_datastore_needs_three_requests() {
    let (ctx, calls) = context(Cluster::default(), |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(names(&calls), ["POST services", "POST statefulsets"]);
    let note =
        &body(&calls, "POST statefulsets")["metadata"]["annotations"]["dragstrip.dev/built-for-generation"];
    assert_eq!(note, "1");
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(names(&calls), [WRITE_STATUS], "its event brings the pass that reports");
    assert_eq!(ready(&calls).1, "NoPod");
    let written = &body(&calls, WRITE_STATUS)["metadata"];
    assert_eq!(written["resourceVersion"], "41", "only if the Datastore has not changed");
}

#[tokio::test]
async fn what_has_not_changed_is_not_written_again() {
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), |_| None);
    let mut datastore = datastore(1);
    pass_over(&datastore, &ctx).await.unwrap();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    datastore.status = read(body(&calls, WRITE_STATUS)["status"].clone());
    pass_over(&datastore, &ctx).await.unwrap();
    assert_eq!(names(&calls).len(), 1, "the second pass found the same: {calls:?}");
}

#[tokio::test]
async fn a_change_waits_while_a_run_holds_the_server() {
    let held: Answer = |call| (call == "GET leases dragstrip-racer").then(|| (200, lease()));
    // The cache knows of no Lease yet: it is read from the API server.
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), held);
    pass_over(&datastore(2), &ctx).await.unwrap();
    assert_eq!(names(&calls), ["GET leases dragstrip-racer", WRITE_STATUS]);
    let (status, reason, message) = ready(&calls);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ChangeWaits"));
    assert!(message.contains("run pits/sprint holds the server"), "{message}");
}

#[tokio::test]
async fn a_change_that_is_refused_waits_too_while_a_run_holds_the_server() {
    let mut edited = datastore(2);
    edited.spec.resources = Some(serde_json::from_value(json!({"limits": {"memory": "1Mi"}})).unwrap());
    let budget = read(json!({"metadata": metadata("budget", "me", json!({"name": "dragstrip-racer"}))}));
    let held = Cluster {
        leases: vec![read(lease())],
        budgets: vec![budget],
        ..standing(stateful_set(built_for("1"), 1))
    };
    let (ctx, calls) = context(held, |_| None);
    pass_over(&edited, &ctx).await.unwrap();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    assert_eq!(ready(&calls).1, "ChangeWaits", "the run's server is still that of the earlier declaration");
}

#[tokio::test]
async fn a_change_is_made_when_no_run_holds_the_server() {
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), |_| None);
    pass_over(&datastore(2), &ctx).await.unwrap();
    assert_eq!(names(&calls), ["GET leases dragstrip-racer", "PUT statefulsets racer", WRITE_STATUS]);
    let written: StatefulSet = read(body(&calls, "PUT statefulsets racer"));
    assert_eq!(plan::built_for(&written), Some(2));
    let conditions = (written.metadata.uid.as_deref(), written.metadata.resource_version.as_deref());
    assert_eq!(conditions, (Some("set-uid"), Some("7")), "only if it has not changed");
}

#[tokio::test]
async fn a_change_that_the_api_server_refuses_changes_no_object() {
    let refused: Answer = |call| {
        (call == "PUT statefulsets racer").then(|| status(422, "Invalid", "env[0].name: Invalid value"))
    };
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), refused);
    let mut edited = datastore(2);
    edited.spec.port = 7000;
    pass_over(&edited, &ctx).await.unwrap_err();
    let expected = ["GET leases dragstrip-racer", "PUT statefulsets racer", WRITE_STATUS];
    assert_eq!(names(&calls), expected, "the Service has the port of a server that never starts");
    assert_eq!(ready(&calls).1, "Refused");
}

#[test]
fn the_release_of_the_lease_brings_a_pass() {
    let found = of_lease_or_budget(&read::<Lease>(lease()));
    assert_eq!(found, Some(ObjectRef::new("racer").within("pits")));
}

#[tokio::test]
async fn another_version_of_the_operator_leaves_the_template_alone() {
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(names(&calls), [WRITE_STATUS]);
}

#[tokio::test]
async fn a_stricter_rule_of_a_later_version_does_not_apply_to_an_existing_server() {
    let reported = async |generation| {
        let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), |_| None);
        let mut datastore = datastore(generation);
        let limit = json!({"limits": {"memory": "1Mi"}});
        datastore.spec.resources = Some(serde_json::from_value(limit).unwrap());
        pass_over(&datastore, &ctx).await.unwrap();
        assert_eq!(names(&calls), [WRITE_STATUS]);
        ready(&calls).1
    };
    assert_eq!(reported(1).await, "NoPod", "it was valid when it was built");
    assert_eq!(reported(2).await, "InvalidMemory", "the new rules apply to an edit");
}

#[tokio::test]
async fn a_count_that_was_scaled_by_hand_is_corrected_without_the_template() {
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 3)), |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(names(&calls), ["PATCH statefulsets racer", WRITE_STATUS]);
    assert_eq!(body(&calls, "PATCH statefulsets racer")["spec"], json!({"replicas": 1}));
}

fn stranger(kind: &str) -> Value {
    json!({"metadata": {"name": "racer", "namespace": "pits", "uid": format!("{kind}-of-theirs")}, "spec": {}})
}

#[tokio::test]
async fn a_service_of_somebody_else_is_reported_and_left_alone() {
    let taken: Answer = |call| match call {
        "POST services" => Some(status(409, "AlreadyExists", "services \"racer\" already exists")),
        "GET services racer" => Some((200, stranger("service"))),
        _ => None,
    };
    let (ctx, calls) = context(Cluster::default(), taken);
    let mut datastore = datastore(1);
    let error = pass_over(&datastore, &ctx).await.unwrap_err();
    assert_eq!(names(&calls), ["POST services", "GET services racer", WRITE_STATUS]);
    let (status, reason, message) = ready(&calls);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NameTaken"));
    assert!(message.contains("Service named racer in namespace pits"), "{message}");
    assert!(message.contains("delete it, or give the Datastore another name"), "{message}");
    // The pass is retried, later each time, and reported once.
    datastore.status = read(body(&calls, WRITE_STATUS)["status"].clone());
    let first = retry_later(&ctx.retries, &datastore, &error, LONGEST_WAIT);
    let error = pass_over(&datastore, &ctx).await.unwrap_err();
    assert_eq!(names(&calls).iter().filter(|call| *call == WRITE_STATUS).count(), 1);
    assert_ne!(
        retry_later(&ctx.retries, &datastore, &error, LONGEST_WAIT),
        first,
        "a retry that does not back off"
    );
}

#[tokio::test]
async fn a_service_of_somebody_else_in_the_cache_costs_no_request_and_its_end_brings_a_pass() {
    let mut service: Service = read(stranger("service"));
    service.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    assert!(
        prune_service(&mut service) && service.spec.is_none(),
        "nobody reads the spec of others' Services"
    );
    assert_eq!(of_service(&service), Some(ObjectRef::new("racer").within("pits")));
    let (ctx, calls) = context(Cluster { services: vec![service], ..Cluster::default() }, |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap_err();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    assert_eq!(ready(&calls).1, "NameTaken");
}

#[tokio::test]
async fn a_stateful_set_of_somebody_else_is_reported_and_left_alone() {
    let taken: Answer = |call| match call {
        "POST statefulsets" => Some(status(409, "AlreadyExists", "exists")),
        "GET statefulsets racer" => Some((
            200,
            serde_json::to_value(StatefulSet {
                metadata: read(stranger("set")["metadata"].clone()),
                ..stateful_set(json!({}), 1)
            })
            .unwrap(),
        )),
        _ => None,
    };
    let (ctx, calls) = context(Cluster::default(), taken);
    pass_over(&datastore(1), &ctx).await.unwrap_err();
    let expected = ["POST services", "POST statefulsets", "GET statefulsets racer", WRITE_STATUS];
    assert_eq!(names(&calls), expected);
    assert!(ready(&calls).2.contains("StatefulSet named racer"), "{}", ready(&calls).2);
}

#[tokio::test]
async fn a_budget_of_somebody_else_is_reported_before_a_run_needs_its_name() {
    let mut budget: PodDisruptionBudget = read(stranger("budget"));
    budget.metadata.name = Some("dragstrip-racer".to_owned());
    let cluster = Cluster { budgets: vec![budget], ..standing(stateful_set(built_for("1"), 1)) };
    let (ctx, calls) = context(cluster, |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap_err();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    assert!(ready(&calls).2.contains("PodDisruptionBudget named dragstrip-racer"), "{}", ready(&calls).2);
}

#[tokio::test]
async fn a_datastore_that_was_applied_again_waits_until_the_earlier_ones_objects_are_gone() {
    let earlier = StatefulSet {
        metadata: read(metadata("set", "before", built_for("1"))),
        ..stateful_set(json!({}), 1)
    };
    let (ctx, calls) = context(standing(earlier), |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap_err();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    assert_eq!(ready(&calls).1, "BeingRemoved");
}

#[tokio::test]
async fn a_run_that_holds_the_server_keeps_its_pods_from_being_evicted() {
    let ours = |name: &str| -> PodDisruptionBudget {
        read(json!({"metadata": metadata("budget", "me", json!({"name": name}))}))
    };
    let lease = || vec![read::<Lease>(lease())];
    let standing = || standing(stateful_set(built_for("1"), 1));
    let calls_with = async |cluster| {
        let (ctx, calls) = context(cluster, |_| None);
        pass_over(&datastore(1), &ctx).await.unwrap();
        calls
    };
    let calls = calls_with(Cluster { leases: lease(), ..standing() }).await;
    assert_eq!(names(&calls), ["POST poddisruptionbudgets", WRITE_STATUS]);
    assert_eq!(body(&calls, "POST poddisruptionbudgets")["spec"]["maxUnavailable"], 0);
    let budgets = || vec![ours("dragstrip-racer")];
    let calls = calls_with(Cluster { leases: lease(), budgets: budgets(), ..standing() }).await;
    assert_eq!(names(&calls), [WRITE_STATUS], "it is there already");
    let calls = calls_with(Cluster { budgets: budgets(), ..standing() }).await;
    assert_eq!(names(&calls), ["DELETE poddisruptionbudgets dragstrip-racer", WRITE_STATUS]);
    let condition = &body(&calls, "DELETE poddisruptionbudgets dragstrip-racer")["preconditions"]["uid"];
    assert_eq!(condition, "budget-uid");
}

#[tokio::test]
async fn a_refused_write_is_reported_in_the_apiservers_words() {
    let policy: Answer = |call| {
        let words = "admission webhook denied the request: spec.template: no";
        (call == "POST statefulsets").then(|| status(403, "Forbidden", words))
    };
    let (ctx, calls) = context(Cluster::default(), policy);
    pass_over(&datastore(1), &ctx).await.unwrap_err();
    let (_, reason, message) = ready(&calls);
    assert_eq!(reason, "Refused");
    assert!(message.contains("refuses the StatefulSet: admission webhook denied"), "{message}");
}

#[tokio::test]
async fn a_status_that_was_written_meanwhile_is_not_overwritten() {
    let conflict: Answer = |call| (call == WRITE_STATUS).then(|| status(409, "Conflict", "modified"));
    let (ctx, calls) = context(standing(stateful_set(built_for("1"), 1)), conflict);
    let next = pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(names(&calls), [WRITE_STATUS]);
    assert_eq!(next, Action::requeue(IF_NO_EVENT_COMES), "the other write's event may be missed");
}

fn ready_pod() -> Pod {
    read(json!({
        "metadata": {
            "name": "racer-0", "namespace": "pits", "uid": "pod-uid",
            "labels": {"controller-revision-hash": "racer-1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "racer", "uid": "set-uid"}],
        },
        "spec": {"containers": [], "nodeName": "worker"},
        "status": {
            "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [{
                "name": "observer", "image": "", "imageID": "", "ready": true, "restartCount": 0, "started": true
            }],
        },
    }))
}

#[tokio::test]
async fn a_server_that_a_run_loads_is_not_queried() {
    let finding = Finding::yes(READY, "Ready", "");
    let conditions = conditions::upsert(&[], &[finding], 1, Timestamp::UNIX_EPOCH);
    let mut datastore = datastore(1);
    datastore.status = Some(DatastoreStatus { conditions, ..DatastoreStatus::default() });
    let calls_with = async |leases| {
        let budget = read(json!({"metadata": metadata("budget", "me", json!({"name": "dragstrip-racer"}))}));
        let budgets = if leases == Vec::<Lease>::new() { vec![] } else { vec![budget] };
        let cluster = standing(stateful_set(built_for("1"), 1));
        let (ctx, calls) = context(Cluster { pods: vec![ready_pod()], leases, budgets, ..cluster }, |_| None);
        pass_over(&datastore, &ctx).await.unwrap();
        calls
    };
    assert_eq!(names(&calls_with(vec![read(lease())]).await), Vec::<String>::new());
    // No observer answers here, which a query would report.
    assert_eq!(ready(&calls_with(Vec::new()).await).1, "NotVerified");
}

/// The reason of Ready and the status of Verified of a Datastore whose pod is `ready`, while a run loads
/// it that verified it when its container had restarted `restarts` times.
async fn reported_under_load(ready_now: bool, restarts: u32) -> (String, Value) {
    let status = |kind, status| {
        json!({"type": kind, "status": status, "reason": "Starting", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
    };
    let mut flapped = datastore(1);
    flapped.status = Some(read(
        json!({"pod": "racer-0", "conditions": [status("Ready", "False"), status("Verified", "True")]}),
    ));
    let verified = json!({"generation": 1, "pods": [format!("racer-0 pod-uid restarted {restarts} times")],
        "images": [], "processes": ["p"]});
    let job = json!({"metadata": {
        "name": "sprint-read-1", "namespace": "pits", "labels": {labels::RUN_UID: "run-uid"},
        "annotations": {labels::START_AT: "1800000000000000000", labels::SERVER_IDENTITY: verified.to_string()},
    }});
    let mut pod = ready_pod();
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status =
        if ready_now { "True" } else { "False" }.into();
    let budget = read(json!({"metadata": metadata("budget", "me", json!({"name": "dragstrip-racer"}))}));
    let (pods, leases, budgets) = (vec![pod], vec![read(lease())], vec![budget]);
    let cluster = Cluster { budgets, pods, leases, ..standing(stateful_set(built_for("1"), 1)) };
    let (ctx, calls) = context(cluster, |_| None);
    let world = World { jobs: seen(vec![read(job)]), ..ctx.world.clone() };
    pass_over(&flapped, &Arc::new(Context { world, ..(*ctx).clone() })).await.unwrap();
    (ready(&calls).1, body(&calls, WRITE_STATUS)["status"]["conditions"][1]["status"].clone())
}

#[tokio::test]
async fn a_server_whose_readiness_alternates_under_load_is_not_queried() {
    // No observer answers here, which a query would report.
    assert_eq!(reported_under_load(true, 0).await, ("Ready".to_owned(), json!("True")));
    assert_eq!(
        reported_under_load(false, 0).await,
        ("Starting".to_owned(), json!("True")),
        "the verification counts when it is ready again"
    );
    assert_eq!(reported_under_load(true, 1).await.0, "NotVerified", "it is another process");
}

#[tokio::test]
async fn pods_of_an_earlier_stateful_set_are_not_this_ones() {
    let mut pod = ready_pod();
    pod.metadata.owner_references.as_mut().unwrap()[0].uid = "set-before".to_owned();
    let cluster = standing(stateful_set(built_for("1"), 1));
    let (ctx, calls) = context(Cluster { pods: vec![pod], ..cluster }, |_| None);
    pass_over(&datastore(1), &ctx).await.unwrap();
    assert_eq!(ready(&calls).1, "NoPod");
}

#[test]
fn warnings_about_a_stateful_set_or_its_pods_bring_a_pass() {
    let about = |kind: &str, name: &str| {
        let event =
            json!({"metadata": {}, "involvedObject": {"kind": kind, "name": name, "namespace": "pits"}});
        of_warning(&read(event))
    };
    let racer = Some(ObjectRef::new("racer").within("pits"));
    assert_eq!(about("StatefulSet", "racer"), racer);
    assert_eq!(about("Pod", "racer-0"), racer);
    assert_eq!(about("Pod", "racer-x"), None);
}

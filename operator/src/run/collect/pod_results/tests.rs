//! Reading results, from an apiserver that is played.

use super::*;
use crate::fixtures::{pod_result, run};
use dragstrip_core::run::validate::validate;
use dragstrip_results::result::LOG_MARKER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

fn attempt() -> Attempt {
    validate(&run(&["read"], 1)).unwrap().attempts.remove(0)
}

fn pod(value: serde_json::Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn ended(reason: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": "p"},
        "status": {"phase": "Failed", "containerStatuses": [{
            "name": "client", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": reason}}
        }]}
    })
}

#[test]
fn a_result_names_the_node_of_its_pod() {
    let placed = pod(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "worker", "containers": []}}));
    assert_eq!(on_its_node(pod_result("p", 1, 1.0, 100), &placed).node.as_deref(), Some("worker"));
}

#[test]
fn only_the_pods_own_result_of_this_attempt_counts() {
    let placed = pod(json!({"metadata": {"name": "p"}}));
    let own = pod_result("p", 1, 1.0, 100);
    assert!(is_own(&own, &attempt(), &placed));
    let of_another_pod = PodResult { pod: "q".into(), ..own.clone() };
    let of_another_phase = PodResult { phase: "write".into(), ..own.clone() };
    let of_another_repetition = PodResult { repetition: 2, ..own };
    for forged in [of_another_pod, of_another_phase, of_another_repetition] {
        assert!(!is_own(&forged, &attempt(), &placed), "{forged:?}");
    }
}

#[test]
fn only_what_the_cluster_took_away_counts_as_lost() {
    let mut deleted = ended("Error");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut evicted = ended("Error");
    evicted["status"]["reason"] = json!("Evicted");
    let mut drained = ended("Error");
    drained["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
    let silent = json!({"metadata": {"name": "p"}, "status": {"phase": "Running"}});
    let table = [
        ("a tool that broke", ended("Error"), FailureStep::Tool),
        ("a tool without memory", ended("OOMKilled"), FailureStep::Tool),
        ("a deleted pod", deleted, FailureStep::Lost),
        ("an evicted pod", evicted, FailureStep::Lost),
        ("a drained pod", drained, FailureStep::Lost),
        ("a node that was restarted", ended("ContainerStatusUnknown"), FailureStep::Lost),
        ("a silent node", silent, FailureStep::Lost),
    ];
    for (sentence, value, expected) in table {
        let found = without_result(&attempt(), &pod(value), None).failure.unwrap();
        assert_eq!(found.step, expected, "{sentence}: {}", found.message);
    }
}

/// What the apiserver answers: by the end of the path, with status and body.
type Answers = Arc<Mutex<BTreeMap<&'static str, (u16, String)>>>;

const LOG: &str = "/pods/p/log";
const POD: &str = "/pods/p";
const NODE: &str = "/nodes/worker";

/// An API server with these answers, and 404 for all else.
fn apiserver(answers: &Answers) -> Client {
    let answers = Arc::clone(answers);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let answers = answers.lock().unwrap();
        let found = answers.iter().find(|(end, _)| request.uri().path().ends_with(**end));
        let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
        let (status, body) = found.map_or((404, missing.to_string()), |(_, answer)| answer.clone());
        let response = http::Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap();
        std::future::ready(Ok::<_, Infallible>(response))
    });
    Client::new(service, "races")
}

/// A pod and its node are there; its log answers as given.
fn there(log: (u16, &str)) -> Answers {
    let object = |kind: &str, name: &str, uid: &str| {
        let metadata = json!({"name": name, "uid": uid});
        json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata}).to_string()
    };
    let answers = [
        (LOG, (log.0, log.1.to_owned())),
        (POD, (200, object("PartialObjectMetadata", "p", "pod-uid"))),
        (NODE, (200, object("PartialObjectMetadata", "worker", "node-uid"))),
    ];
    Arc::new(Mutex::new(answers.into()))
}

/// The client pod of the attempt, ended with exit code 0 and `message`.
fn client_pod(message: &str) -> Pod {
    let mut value = ended("Completed");
    value["metadata"] = json!({"name": "p", "namespace": "races", "uid": "pod-uid"});
    value["spec"] = json!({"nodeName": "worker", "containers": []});
    value["status"]["phase"] = json!("Succeeded");
    value["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = json!(message);
    pod(value)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn part() -> String {
    serde_json::to_string(&pod_result("p", 1000, 1.0, 100).compact()).unwrap()
}

fn complete_log() -> String {
    format!("{LOG_MARKER}{}\n", serde_json::to_string(&pod_result("p", 1000, 1.0, 100)).unwrap())
}

async fn collected(
    answers: &Answers,
    retries: &Retries,
    pod: &Pod,
    now: Timestamp,
) -> Result<RepetitionResult, NotYet> {
    let run = validate(&run(&["read"], 1)).unwrap();
    let large = Arc::new(Semaphore::new(1));
    complete(&apiserver(answers), (retries, &large), &run.attempts[0], &[pod], now).await
}

fn lost(result: &RepetitionResult) -> &str {
    let found = &result.failure.as_ref().expect("it passed").failure;
    assert_eq!(found.step, FailureStep::Lost, "{}", found.message);
    assert_eq!(result.operations, vec![], "a part was summed");
    &found.message
}

const REFUSED: (u16, &str) = (500, "dial tcp 10.0.0.1:10250: connect: connection refused");

#[tokio::test]
async fn a_log_that_cannot_be_read_for_a_moment_is_read_completely_later() {
    let (answers, retries, pod) = (there(REFUSED), Retries::default(), client_pod(&part()));
    let reported = collected(&answers, &retries, &pod, at(0)).await.unwrap_err();
    assert!(
        reported.why.contains("the log of pod p cannot be read") && reported.why.contains("refused"),
        "{reported:?}"
    );
    answers.lock().unwrap().insert(LOG, (200, complete_log()));
    assert_eq!(
        collected(&answers, &retries, &pod, at(0)).await,
        Err(reported.clone()),
        "read before its time"
    );
    let result = collected(&answers, &retries, &pod, reported.until).await.unwrap();
    assert_eq!(result.failure, None);
    assert!(result.operations[0].histogram.is_some(), "a restarted kubelet cost the histogram");
}

#[tokio::test]
async fn a_silent_kubelet_gets_retries_for_minutes_and_then_the_repetition_is_lost() {
    let (answers, retries, pod) = (there(REFUSED), Retries::default(), client_pod(&part()));
    let mut now = at(0);
    let result = loop {
        match collected(&answers, &retries, &pod, now).await {
            Ok(result) => break result,
            Err(reported) => now = reported.until,
        }
    };
    assert_eq!(now, at(600));
    let message = lost(&result);
    assert!(message.contains("could not be read") && message.contains("refused"), "{message}");
    assert!(message.contains("only a part"), "{message}");
}

#[tokio::test]
async fn no_retry_waits_for_a_log_that_is_gone_for_good() {
    let deleted = there((404, "pods \"p\" not found"));
    deleted.lock().unwrap().remove(POD);
    let replaced = there(REFUSED);
    let other = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "p", "uid": "another"}});
    replaced.lock().unwrap().insert(POD, (200, other.to_string()));
    let nodeless = there(REFUSED);
    nodeless.lock().unwrap().remove(NODE);
    let empty = there((200, "no result here\n"));
    for (answers, expected) in [
        (deleted, "the pod was deleted"),
        (replaced, "the pod was deleted"),
        (nodeless, "its node worker is gone"),
        (empty, "it is not in its log"),
    ] {
        let result = collected(&answers, &Retries::default(), &client_pod(&part()), at(0)).await.unwrap();
        assert!(lost(&result).contains(expected), "{}", lost(&result));
    }
}

#[tokio::test]
async fn a_kubelet_that_has_just_started_gets_retries_though_it_says_the_log_is_gone() {
    let message = "unable to retrieve container logs for containerd://4711";
    for answer in [(200, message), (400, message), (404, "pod \"p\" does not exist")] {
        let (answers, retries) = (there(answer), Retries::default());
        let reported = collected(&answers, &retries, &client_pod(&part()), at(0)).await.unwrap_err();
        assert!(reported.until > at(0), "{answer:?}");
        let result = collected(&answers, &retries, &client_pod(&part()), at(60)).await.unwrap();
        assert!(lost(&result).contains("could not be read"), "{answer:?}: {}", lost(&result));
        let mut deleted = client_pod(&part());
        deleted.metadata.deletion_timestamp = Some(Time(at(0)));
        let result = collected(&answers, &Retries::default(), &deleted, at(0)).await.unwrap();
        assert!(
            lost(&result).contains("could not be read"),
            "a deleted pod's containers go first: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_termination_message_that_is_complete_needs_no_log() {
    let all = serde_json::to_string(&pod_result("p", 1000, 1.0, 100)).unwrap();
    let result = collected(&there(REFUSED), &Retries::default(), &client_pod(&all), at(0)).await.unwrap();
    assert_eq!((result.failure, result.operations[0].count), (None, 1000));
}

#[tokio::test]
async fn the_line_of_another_pod_neither_replaces_nor_voids_the_pods_own_result() {
    let line = |result: &PodResult| format!("{LOG_MARKER}{}\n", serde_json::to_string(result).unwrap());
    let of_another_pod = pod_result("q", 7, 1.0, 100);
    let of_another_repetition = PodResult { repetition: 2, ..pod_result("p", 7, 1.0, 100) };
    let forged = line(&of_another_pod) + &line(&of_another_repetition);
    for log in [complete_log() + &forged, forged + &complete_log()] {
        let answers = there((200, &log));
        let result = collected(&answers, &Retries::default(), &client_pod(&part()), at(0)).await.unwrap();
        assert_eq!((&result.failure, result.operations[0].count), (&None, 1000), "{log}");
    }
    let forged = serde_json::to_string(&of_another_pod).unwrap();
    let answers = there((200, &complete_log()));
    let result = collected(&answers, &Retries::default(), &client_pod(&forged), at(0)).await.unwrap();
    assert_eq!(result.operations[0].count, 1000, "a termination message of another pod counted");
}

#[tokio::test]
async fn a_container_that_never_began_has_no_log_to_wait_for() {
    let mut never: Value = serde_json::to_value(client_pod("")).unwrap();
    never["status"]["phase"] = json!("Failed");
    never["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "PodInitializing"}});
    let result = collected(&there(REFUSED), &Retries::default(), &pod(never), at(0)).await.unwrap();
    assert_eq!(result.failure.unwrap().failure.step, FailureStep::Tool);
}

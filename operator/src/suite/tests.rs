//! Passes of the controller against a mock API server: its calls in sequence, and the status.

use super::*;
use crate::datastore::tests::{Answer, Calls, Cluster, body};
use dragstrip_core::labels;
use dragstrip_core::suite::expand;
use dragstrip_crds::{conditions::find, conditions::types::PASSED, suite::SuiteProgress};
use dragstrip_results::stored;
use kube::core::Status;
use serde_json::{Value, json};

const WRITE_STATUS: &str = "PATCH benchmarksuites s status";
const LIST_RUNS: &str = "GET benchmarkruns";
const MAKE_RUN: &str = "POST benchmarkruns";

/// A suite of one combination and two repetitions.
fn suite(more: Value, status: Value) -> BenchmarkSuite {
    let mut spec = json!({
        "variants": [{"name": "v", "target": {"datastoreRef": {"name": "redis"}}}],
        "run": {"phases": [{"name": "read", "memtier": {"testTime": "1s"}}]}, "repetitions": 2
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkSuite",
        "metadata": {
            "name": "s", "namespace": "pits", "uid": "suite-uid", "generation": 1, "resourceVersion": "41",
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
        "spec": spec, "status": status
    }))
    .unwrap()
}

fn started() -> Value {
    json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"})
}

/// Run `repetition` of the suite, which has ended in this phase.
fn run(repetition: u32, phase: &str) -> Value {
    let suite = suite(json!({}), started());
    let plan = expand::plan(&suite, &|_| Ok(())).unwrap();
    let cell = &plan.cells[0];
    let run = build::child(&suite, &plan, (cell, repetition), expand::spec_of(&suite, cell).unwrap());
    let mut run = serde_json::to_value(run).unwrap();
    run["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    run["status"] = json!({"phase": phase, "finishedAt": "2026-01-01T00:01:00Z"});
    run
}

fn list(kind: &str, items: &[Value]) -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": format!("{kind}List"), "metadata": {}, "items": items}))
}

fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}))
}

const QUOTA: &str = "benchmarkruns.dragstrip.dev \"s\" is forbidden: exceeded quota: few, limited: 20";

/// Answers of an API server without runs of the suite.
fn empty(call: &str) -> Option<(u16, Value)> {
    match call {
        LIST_RUNS => Some(list("BenchmarkRun", &[])),
        WRITE_STATUS => Some((200, serde_json::to_value(suite(json!({}), started())).unwrap())),
        _ => None,
    }
}

/// Answers of one in which both runs have succeeded.
fn ended(call: &str) -> Option<(u16, Value)> {
    match call {
        LIST_RUNS => Some(list("BenchmarkRun", &[run(1, "Succeeded"), run(2, "Succeeded")])),
        other => empty(other),
    }
}

fn context(cluster: Cluster, answer: Answer) -> (Arc<SuiteContext>, Calls) {
    let (shared, calls) = crate::datastore::tests::context(cluster, answer);
    (Arc::new(SuiteContext::new((*shared).clone())), calls)
}

async fn pass_over(suite: &BenchmarkSuite, answer: Answer) -> (Result<Action, Error>, Calls) {
    let (ctx, calls) = context(Cluster::default(), answer);
    let pass = Box::pin(reconcile(Arc::new(suite.clone()), ctx));
    (tokio::time::timeout(Duration::from_secs(5), pass).await.unwrap(), calls)
}

fn changes(calls: &Calls) -> Vec<String> {
    let calls = calls.lock().unwrap();
    let all = calls.iter().map(|(call, _)| call.clone());
    all.filter(|call| !call.starts_with("GET") && !call.ends_with(" events")).collect()
}

fn reported(calls: &Calls) -> BenchmarkSuiteStatus {
    serde_json::from_value(body(calls, WRITE_STATUS)["status"].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_is_created_before_the_api_server_has_the_start_of_the_suite() {
    let (_, calls) = pass_over(&suite(json!({}), json!({})), empty).await;
    assert_eq!(changes(&calls), [MAKE_RUN, WRITE_STATUS], "a dry run, and then the start");
    assert!(reported(&calls).started_at.is_some(), "it may still be changed when its first run is created");
    let (_, calls) = pass_over(&suite(json!({}), started()), empty).await;
    assert_eq!(changes(&calls), [MAKE_RUN, WRITE_STATUS]);
    let given = &body(&calls, MAKE_RUN)["metadata"]["annotations"][labels::GIVEN_SPEC];
    assert!(given.as_str().is_some_and(|given| given.len() == 16), "{given}");
    assert_eq!(reported(&calls).progress.map(|progress| progress.running), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_reported_and_retried_before_the_first_run_and_after_it() {
    let full: Answer = |call| match call {
        MAKE_RUN => Some(refused(403, "Forbidden", QUOTA)),
        LIST_RUNS => Some(list("BenchmarkRun", &[run(1, "Failed")])),
        other => empty(other),
    };
    let none: Answer = |call| match call {
        MAKE_RUN => Some(refused(403, "Forbidden", QUOTA)),
        other => empty(other),
    };
    let (action, calls) = pass_over(&suite(json!({}), json!({})), none).await;
    let status = reported(&calls);
    assert!(status.message.as_ref().is_some_and(|message| message.contains(QUOTA)), "{status:?}");
    assert_eq!((status.phase, status.finished_at, status.started_at), (SuitePhase::Pending, None, None));
    assert_eq!(action.unwrap(), Action::requeue(Duration::from_millis(250)), "the wait before a retry grows");

    let (_, calls) = pass_over(&suite(json!({}), started()), full).await;
    let status = reported(&calls);
    assert!(status.message.is_some_and(|message| message.contains(QUOTA)));
    assert_eq!(
        status.progress.map(|progress| (progress.done, progress.failed)),
        Some((1, 1)),
        "the ended run counts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_quotes_a_huge_value_fits_a_status() {
    let values = json!([{"name": "huge", "value": "a".repeat(600_000)}]);
    let axes = json!([{"name": "limit", "paths": ["/timeout"], "values": values}]);
    let (_, calls) = pass_over(&suite(json!({"axes": axes}), json!({})), empty).await;
    let bytes = body(&calls, WRITE_STATUS)["status"].to_string().len();
    assert!(bytes < 20_000, "with {bytes} bytes it cannot be written, and nobody learns what is wrong");
    let message = reported(&calls).message.unwrap_or_default();
    assert!(
        message.contains("timeout") && message.ends_with("such as 30s, 5m, 1h30m or 250ms, at most 9999h")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_against_a_run_refuses_the_suite() {
    let ruled: Answer = |call| match call {
        MAKE_RUN => Some(refused(422, "Invalid", "spec.timeout: Invalid value")),
        other => empty(other),
    };
    let (_, calls) = pass_over(&suite(json!({}), json!({})), ruled).await;
    let status = reported(&calls);
    assert_eq!(status.phase, SuitePhase::Failed);
    assert!(status.message.is_some_and(|message| message.contains("spec.timeout: Invalid value")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_declaration_is_reported_and_does_not_count() {
    let stale: Answer = |call| {
        let mut other = run(1, "Succeeded");
        other["metadata"]["annotations"][labels::GIVEN_SPEC] = json!("0123456789abcdef");
        match call {
            LIST_RUNS => Some(list("BenchmarkRun", &[other])),
            MAKE_RUN => Some(refused(409, "AlreadyExists", "it exists")),
            call if call.starts_with("GET benchmarkruns s-") => Some((200, other)),
            call => empty(call),
        }
    };
    let (_, calls) = pass_over(&suite(json!({}), started()), stale).await;
    let status = reported(&calls);
    assert_eq!(status.progress.map(|progress| progress.done), Some(0), "numbers of two specs are mixed");
    assert!(
        status.message.is_some_and(|message| message.contains("created from another spec of this suite"))
    );
    assert!(!changes(&calls).iter().any(|call| call.starts_with("DELETE")), "it is somebody's measurement");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_read_is_reported_and_the_others_count() {
    let unreadable: Answer = |call| {
        let mut second = run(2, "Succeeded");
        second["spec"]["phases"] = json!("of another version");
        match call {
            LIST_RUNS => Some(list("BenchmarkRun", &[run(1, "Succeeded"), second])),
            call if call.starts_with("GET benchmarkruns s-") => Some((200, second)),
            call => empty(call),
        }
    };
    let (_, calls) = pass_over(&suite(json!({}), started()), unreadable).await;
    let status = reported(&calls);
    assert_eq!(status.progress.map(|progress| progress.done), Some(1));
    let message = status.message.unwrap_or_default();
    assert!(
        message.contains("cannot read BenchmarkRun s-") && message.contains("delete the run"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_ends_with_its_report_and_one_under_way_whatever_became_invalid() {
    let (_, calls) = pass_over(&suite(json!({"maxRuns": 1}), started()), ended).await;
    let status = reported(&calls);
    assert_eq!((status.phase, status.report.map(|report| report.parts)), (SuitePhase::Succeeded, Some(1)));
    assert_eq!(changes(&calls), ["POST configmaps", "POST configmaps", "POST configmaps", WRITE_STATUS]);
    assert_eq!(
        body(&calls, "POST configmaps")["metadata"]["name"],
        "s-report",
        "all other forms are rendered from it"
    );

    // The version before this one created its first run from a spec that this one cannot read.
    let unmeasurable =
        || suite(json!({"run": {"phases": [{"name": "read", "memtier": {"testTime": 1}}]}}), started());
    let half: Answer = |call| {
        let mut first = run(1, "Succeeded");
        let phases = json!([{"name": "read", "memtier": {"testTime": 1}}]);
        let plan =
            expand::plan_of_started(&suite(json!({"run": {"phases": phases}}), started()), &|_| Ok(()));
        first["metadata"]["annotations"][labels::GIVEN_SPEC] = json!(plan.cells[0].given_spec);
        if call == LIST_RUNS { Some(list("BenchmarkRun", &[first])) } else { ended(call) }
    };
    let mut suite = unmeasurable();
    let (_, calls) = pass_over(&suite, half).await;
    let status = reported(&calls);
    assert_eq!((status.phase, status.report.is_some()), (SuitePhase::Failed, true), "its results count");
    let message = status.message.unwrap_or_default();
    assert!(message.contains("ended after 1 of 2 runs: no further run can be created"), "{message}");
    assert!(!changes(&calls).contains(&MAKE_RUN.to_owned()));
    suite.spec.cancel = true;
    let (_, calls) = pass_over(&suite, half).await;
    assert_eq!(reported(&calls).phase, SuitePhase::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_config_map_is_found_before_the_report_is_built() {
    let strange: Answer = |call| match call {
        "GET configmaps s-report.md" => Some((200, json!({"metadata": {"name": "s-report.md"}}))),
        other => ended(other),
    };
    let (action, calls) = pass_over(&suite(json!({}), started()), strange).await;
    assert_eq!(changes(&calls), [WRITE_STATUS]);
    let status = reported(&calls);
    assert!(
        status
            .message
            .is_some_and(|reported| reported.contains("ConfigMap s-report.md exists and does not belong"))
    );
    assert_eq!(status.finished_at, None, "it ends when the name is free");
    assert_eq!(action.unwrap(), Action::requeue(Duration::from_millis(250)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_the_stored_report_whatever_was_edited_since() {
    let stored_report: Answer = |call| match call {
        "GET configmaps s-report" => {
            let document = report_of_two(&json!(["nothing to compare with: it was gone"]));
            let parts = stored::compress(document.to_string().as_bytes()).unwrap();
            let map = build::report(&suite(json!({}), started()), parts).remove(0);
            Some((200, serde_json::to_value(map).unwrap()))
        }
        other => ended(other),
    };
    let (_, calls) = pass_over(&suite(json!({}), started()), stored_report).await;
    let status = reported(&calls);
    let passed = find(&status.conditions, PASSED).unwrap();
    assert_eq!(
        (passed.reason.as_str(), status.phase),
        ("BaselineMissing", SuitePhase::Succeeded),
        "{:?}",
        status.message
    );
    assert_eq!(
        changes(&calls),
        ["POST configmaps", "POST configmaps", WRITE_STATUS],
        "the page and the text"
    );
    let older: Answer = |call| match call {
        LIST_RUNS => Some(list("BenchmarkRun", &[run(1, "Succeeded")])),
        other => stored_before(other),
    };
    let (_, calls) = pass_over(&suite(json!({"repetitions": 1}), started()), older).await;
    let message = reported(&calls).message.unwrap_or_default();
    assert!(message.contains("s-report is an old report") && message.contains("2 runs, but 1"), "{message}");
}

/// A stored report of both runs with these notes.
fn report_of_two(notes: &Value) -> Value {
    let mut document = serde_json::to_value(dragstrip_report::document::Document::default()).unwrap();
    document["runs"] = json!([run_record("s-1"), run_record("s-2")]);
    document["notes"] = notes.clone();
    document
}

fn run_record(name: &str) -> Value {
    json!({
        "name": name, "variant": "v", "values": [], "repetition": 1, "phase": "Succeeded", "reasons": [],
        "limitedBy": [], "provenance": {}, "curves": [], "timelines": [], "searches": [],
    })
}

fn stored_before(call: &str) -> Option<(u16, Value)> {
    if call != "GET configmaps s-report" {
        return ended(call);
    }
    let document = report_of_two(&json!([]));
    let parts = stored::compress(document.to_string().as_bytes()).unwrap();
    let map = build::report(&suite(json!({}), started()), parts).remove(0);
    Some((200, serde_json::to_value(map).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_cancelled_though_it_is_invalid_and_its_round_with_it() {
    let scheduled: Answer = |call| match call {
        "GET benchmarksuites" => {
            let own = json!([{"apiVersion": "v1", "kind": "BenchmarkSuite", "name": "s", "uid": "suite-uid", "controller": true}]);
            let round = json!({"metadata": {"name": "s-1", "namespace": "pits", "ownerReferences": own}});
            Some(list("BenchmarkSuite", &[round]))
        }
        "PATCH benchmarksuites s-1" => Some((200, json!({"metadata": {"name": "s-1"}}))),
        other => empty(other),
    };
    let wrong = json!({"schedule": "never and ever", "cancel": true});
    let (_, calls) = pass_over(&suite(wrong, json!({})), scheduled).await;
    assert_eq!(changes(&calls), ["PATCH benchmarksuites s-1", WRITE_STATUS]);
    assert_eq!(reported(&calls).finished_at, None, "its round has not ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_round_is_removed_after_the_status_has_its_outcome() {
    let scheduled: Answer = |call| match call {
        "GET benchmarksuites" => {
            let own = json!([{"apiVersion": "v1", "kind": "BenchmarkSuite", "name": "s", "uid": "suite-uid", "controller": true}]);
            let metadata =
                json!({"name": "s-1", "namespace": "pits", "uid": "round-uid", "ownerReferences": own});
            let status = json!({"phase": "Failed", "finishedAt": "2026-01-02T00:00:00Z"});
            Some(list("BenchmarkSuite", &[json!({"metadata": metadata, "status": status})]))
        }
        "DELETE benchmarksuites s-1" => Some((200, json!({"metadata": {"name": "s-1"}}))),
        other => empty(other),
    };
    let schedule = json!({"schedule": "0 3 * * *", "failedHistoryLimit": 0});
    let old = json!({"lastScheduledAt": "2099-01-01T00:00:00Z", "lastRound": "s-2"});
    let (_, calls) = pass_over(&suite(schedule, old), scheduled).await;
    assert_eq!(changes(&calls), [WRITE_STATUS, "DELETE benchmarksuites s-1"]);
    let status = reported(&calls);
    assert_eq!(status.last_round.as_deref(), Some("s-2"), "the last round became an older one");
    assert_eq!(find(&status.conditions, PASSED).map(|it| it.status.as_str()), Some("False"));
}

#[test]
fn an_obstacle_is_reported_with_the_message_of_the_api_server() {
    let source = kube::Error::Api(Status::failure(QUOTA, "Forbidden").with_code(403).boxed());
    let (kind, name) = ("BenchmarkRun".to_owned(), "s-1".to_owned());
    let error = Error::from(apply::Error::Create { kind, name, source });
    assert_eq!(message(&error), format!("BenchmarkRun s-1 cannot be created: {QUOTA}"));
    let strange = Error::from(apply::Error::Strange("ConfigMap".into(), "s-report".into()));
    let reported = message(&strange);
    assert_eq!(reported.matches("does not belong to this suite").count(), 1, "{reported}");
}

#[test]
fn a_table_without_rows_is_not_made_again_until_another_run_has_ended() {
    let of = |done| BenchmarkSuiteStatus {
        progress: Some(SuiteProgress { done, ..SuiteProgress::default() }),
        ..BenchmarkSuiteStatus::default()
    };
    assert!(has_news(&of(0), &of(1)));
    assert!(!has_news(&of(1), &of(1)), "all runs may have failed");
    assert!(!has_news(&of(0), &of(0)));
}
